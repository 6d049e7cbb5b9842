/**
 * A session that ends while the page is open. Requests wait until the same person has signed in again
 * (parts/sign-in-again.tsx) and are then repeated, so that nothing typed or sent is lost. If somebody else signs in, they
 * are refused.
 */
import { cell } from "./cell.ts";

const ended = cell(false);
const waiting: ((again: boolean) => void)[] = [];

function go(again: boolean): void {
  ended.set(false);
  for (const answer of waiting.splice(0)) answer(again);
}

/** Resolves at the next sign-in, with true if it was the person of this page, whose requests may then be repeated. */
export function nextSession(): Promise<boolean> {
  ended.set(true);
  return new Promise((resolve) => waiting.push(resolve));
}

/** Call it when the person of this page has signed in again. */
export const sessionBegan = (): void => go(true);

/** Call it after a sign-in that may be another person's. */
export const sessionReplaced = (): void => go(false);

/** A hook: true after the session has ended. */
export const useSessionEnded = ended.use;
