/**
 * Requests that wait for the person and are then repeated, so that nothing typed or sent is lost. They wait until the
 * person of this page has signed in again (pages/sign-in-page.tsx), or has proven their identity
 * (pages/settings/settings-layout.tsx). They are refused if somebody else signs in, or the person cancels.
 */
import { createSharedValue } from "./cell.ts";

/** A proof is a password; with `code`, also a code of the second factor. */
export interface Proof {
  code: boolean;
}

/** `shown`: what the page asks for, undefined while nobody waits. */
function createWait<Asked>() {
  const shown = createSharedValue<Asked | undefined>(undefined);
  const waiting: ((again: boolean) => void)[] = [];
  return {
    use: shown.use,
    /** Resolves with true when the request may be repeated. */
    begin(asked: Asked): Promise<boolean> {
      shown.set(asked);
      return new Promise((resolve) => waiting.push(resolve));
    },
    end(again: boolean): void {
      shown.set(undefined);
      for (const resolve of waiting.splice(0)) resolve(again);
    },
  };
}

const session = createWait<true>();
const proof = createWait<Proof>();

/** Resolves at the next sign-in, with true if it was the person of this page, whose requests may then be repeated. */
export const waitForSignIn = (): Promise<boolean> => session.begin(true);
/** Call it when the person of this page has signed in again. */
export const noteSignedInAgain = (): void => session.end(true);
/** Call it after a sign-in that may be another person's. */
export const noteOtherSignIn = (): void => session.end(false);
/** A hook: true after the session has ended. */
export const useSessionEnded = (): boolean => session.use() === true;

/** Resolves when the person gave the proof or cancelled, with true if the request may be repeated. */
export const waitForIdentityProof = (wanted: Proof): Promise<boolean> => proof.begin(wanted);
/** Ends the wait: the proof was given, or the person cancelled. */
export const endIdentityProofWait = (given: boolean): void => proof.end(given);
/** A hook: the proof that is wanted now. */
export const useWantedProof = (): Proof | undefined => proof.use();
