/**
 * What takes a proof that it is still the same person waits until they have given it, and is then asked once more
 * (parts/confirm-identity.tsx); or is refused, when they would rather not.
 */
import { cell } from "./cell.ts";

/** What is to be given: a password, and a code of the second factor too. */
export interface Proof {
  code: boolean;
}

const wanted = cell<Proof | undefined>(undefined);
const waiting: ((again: boolean) => void)[] = [];

/** Resolves with whether to ask again. */
export function confirmation(proof: Proof): Promise<boolean> {
  wanted.set(proof);
  return new Promise((resolve) => waiting.push(resolve));
}

/** To be called when it was given, or will not be. */
export function endConfirmation(given: boolean): void {
  wanted.set(undefined);
  for (const answer of waiting.splice(0)) answer(given);
}

/** A hook: what is to be given now. */
export const useWantedProof = wanted.use;
