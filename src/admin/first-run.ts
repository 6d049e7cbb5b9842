/**
 * Setup in the browser: does what `mailroom setup` does, for someone who has the token that the server prints when it starts
 * without a workspace.
 *
 * Invariant: only the last issued token is valid, and only while there is no workspace. The transaction that makes the first
 * workspace ends it, even when the command line began that transaction.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { type Runtime, randomToken } from "../base/runtime.ts";
import { type Setup, type SetupParts, type SetupResult, setUp } from "./setup.ts";

/** 256 bits. */
const TOKEN_LENGTH = 43;

const hashOf = (token: string): Buffer => createHash("sha256").update(token).digest();

export interface FirstRun {
  /** Tells whether there is no workspace yet. */
  isDue(): boolean;
  /** Issues a token that replaces any earlier one; undefined when there is a workspace. */
  issueToken(): string | undefined;
  /** Tells whether the token is valid. */
  admits(token: string): boolean;
  /** @throws AppError as setUp does: conflict when a workspace exists. */
  setUp(given: Setup): Promise<SetupResult>;
}

export function createFirstRun(parts: SetupParts & { runtime: Pick<Runtime, "randomBytes"> }): FirstRun {
  let issued: Buffer | undefined;
  const isDue = (): boolean => parts.people.listWorkspaces().length === 0;
  return {
    isDue,
    issueToken() {
      if (!isDue()) return undefined;
      const token = randomToken(parts.runtime, TOKEN_LENGTH);
      issued = hashOf(token);
      return token;
    },
    admits: (token) => issued !== undefined && isDue() && timingSafeEqual(issued, hashOf(token)),
    setUp: (given) => setUp(parts, given),
  };
}
