/**
 * Requests that take a proof of identity wait here until the person gives it (parts/confirm-identity.tsx), and are then
 * repeated. If the person cancels, they are refused.
 */
import { cell } from "./cell.ts";

/** A proof is a password; with `code`, also a code of the second factor. */
export interface Proof {
  code: boolean;
}

const wanted = cell<Proof | undefined>(undefined);
const waiting: ((again: boolean) => void)[] = [];

/** Resolves with true when the request may be repeated. */
export function confirmation(proof: Proof): Promise<boolean> {
  wanted.set(proof);
  return new Promise((resolve) => waiting.push(resolve));
}

/** Ends the wait: the proof was given, or the person cancelled. */
export function endConfirmation(given: boolean): void {
  wanted.set(undefined);
  for (const answer of waiting.splice(0)) answer(given);
}

/** A hook: the proof that is wanted now. */
export const useWantedProof = wanted.use;
