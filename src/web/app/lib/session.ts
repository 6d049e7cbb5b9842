/**
 * A session that ends while the page is open. What was being asked waits until its person has signed in again, and is then
 * asked once more: nothing that was typed or sent is lost by it (parts/sign-in-again.tsx).
 */
import { cell } from "./cell.ts";

const ended = cell(false);
const waiting: (() => void)[] = [];

/** Resolves once there is a session again. */
export function nextSession(): Promise<void> {
  ended.set(true);
  return new Promise((resolve) => waiting.push(resolve));
}

/** To be called when somebody has signed in. */
export function sessionBegan(): void {
  ended.set(false);
  for (const resolve of waiting.splice(0)) resolve();
}

/** A hook: whether it has ended. */
export const useSessionEnded = ended.use;
