/**
 * A session that ends while the page is open. What was being asked waits until its person has signed in again, and is then
 * asked once more: nothing that was typed or sent is lost by it (parts/sign-in-again.tsx). For anybody else it is refused.
 */
import { cell } from "./cell.ts";

const ended = cell(false);
const waiting: ((again: boolean) => void)[] = [];

function go(again: boolean): void {
  ended.set(false);
  for (const answer of waiting.splice(0)) answer(again);
}

/** Resolves with whether to ask again: once its person has signed in again, or somebody has anew. */
export function nextSession(): Promise<boolean> {
  ended.set(true);
  return new Promise((resolve) => waiting.push(resolve));
}

/** To be called when the person of this page has signed in again. */
export const sessionBegan = (): void => go(true);

/** To be called when somebody, whoever it is, has signed in anew. */
export const sessionReplaced = (): void => go(false);

/** A hook: whether it has ended. */
export const useSessionEnded = ended.use;
