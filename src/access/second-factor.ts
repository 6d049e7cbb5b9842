/**
 * Second factors: codes of an authenticator app, and recovery codes in case it is lost. The only writer of
 * second_factors and recovery_codes.
 *
 * Invariant: no code is valid twice. A code of the app must be from a later time step than every accepted one (RFC 6238
 * §5.2). Steps accepted by a clock that was ahead are exempt, because they would lock the person out until they come. A
 * recovery code is deleted by its use.
 */
import { and, count, eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { recoveryCodes, secondFactors } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { generateTypeableSecret, hashTypeableSecret } from "./credentials.ts";
import type { Seal } from "./seal.ts";
import { findMatchingTotpStep, latestTotpStepAt, readTotpSecret, SECRET_BYTES, toBase32 } from "./totp.ts";

const RECOVERY_CODES = 10;
/** 80 bits each. */
const RECOVERY_LENGTH = 16;

const statements = prepared((db) => ({
  byUser: db
    .select()
    .from(secondFactors)
    .where(eq(secondFactors.userId, sql.placeholder("userId")))
    .prepare(),
}));

/** True if a person has a second factor, so that their password alone is not enough. */
export const hasSecondFactor = (db: Db, userId: string): boolean => statements(db).byUser.get({ userId }) !== undefined;

/** A person's second factor as shown to them: since when (epoch ms), and how many recovery codes remain. */
export function findSecondFactor(db: Db, userId: string): { since: number; recoveryCodes: number } | undefined {
  const factor = statements(db).byUser.get({ userId });
  if (!factor) return undefined;
  const left = db.select({ count: count() }).from(recoveryCodes).where(eq(recoveryCodes.userId, userId)).get();
  return { since: factor.createdAt, recoveryCodes: left?.count ?? 0 };
}

/** A new secret in base32. It is not stored until enrol receives it. */
export const generateTotpSecret = (runtime: Pick<Runtime, "randomBytes">): string =>
  toBase32(runtime.randomBytes(SECRET_BYTES));

/** Replaces the recovery codes; the new ones are returned only here. */
export function renewRecoveryCodes(tx: Tx, runtime: Pick<Runtime, "randomBytes">, userId: string): string[] {
  tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId)).run();
  const codes = Array.from({ length: RECOVERY_CODES }, () => generateTypeableSecret(runtime, RECOVERY_LENGTH));
  tx.insert(recoveryCodes)
    .values(codes.map((code) => ({ userId, hash: hashTypeableSecret(code, RECOVERY_LENGTH) ?? "" })))
    .run();
  return codes;
}

/** Replaces the sealed secret of a second factor that came from another server. */
export function replaceSecondFactorSecret(tx: Tx, userId: string, sealed: Buffer): void {
  tx.update(secondFactors).set({ secret: sealed }).where(eq(secondFactors.userId, userId)).run();
}

/** Removes the second factor with its recovery codes. False if there is none. */
export function removeSecondFactor(tx: Tx, userId: string): boolean {
  return tx.delete(secondFactors).where(eq(secondFactors.userId, userId)).returning().all().length > 0;
}

export type SecondFactors = ReturnType<typeof createSecondFactors>;

export function createSecondFactors(seal: Seal, runtime: Pick<Runtime, "now" | "randomBytes">) {
  return {
    /**
     * Adds a second factor, once a code proves that an app has its secret (base32). That code counts as used. Returns
     * the first recovery codes.
     * @throws AppError conflict if there is one already, bad_request for an invalid secret, unprocessable for a wrong
     * code
     */
    enrol(tx: Tx, userId: string, given: { secret: string; code: string }): string[] {
      if (hasSecondFactor(tx, userId)) throw new AppError("conflict", "You have a second factor already");
      const secret = readTotpSecret(given.secret);
      if (!secret) throw new AppError("bad_request", "This server did not make that secret");
      const now = runtime.now();
      const step = findMatchingTotpStep(secret, plainCode(given.code), now);
      if (step === undefined) {
        throw new AppError(
          "unprocessable",
          "That code is not right: enter the one that the app shows now, and check the clock of your device",
        );
      }
      tx.insert(secondFactors)
        .values({ userId, secret: seal.close(secret, userId), lastStep: step, createdAt: now })
        .run();
      return renewRecoveryCodes(tx, runtime, userId);
    },

    /** True if this is a valid code of the app or for recovery. A valid one is then used up. */
    useCode(tx: Tx, userId: string, code: string): boolean {
      const factor = statements(tx).byUser.get({ userId });
      if (!factor) return false;
      const recovery = hashTypeableSecret(code, RECOVERY_LENGTH);
      if (recovery !== undefined) {
        const its = and(eq(recoveryCodes.userId, userId), eq(recoveryCodes.hash, recovery));
        return tx.delete(recoveryCodes).where(its).returning().all().length > 0;
      }
      const secret = seal.open(factor.secret, userId);
      const now = runtime.now();
      const isOfFuture = factor.lastStep > latestTotpStepAt(now);
      const step =
        secret && findMatchingTotpStep(secret, plainCode(code), now, isOfFuture ? undefined : factor.lastStep);
      if (step === undefined) return false;
      tx.update(secondFactors).set({ lastStep: step }).where(eq(secondFactors.userId, userId)).run();
      return true;
    },
  };
}

/** Apps show codes in groups. */
const plainCode = (code: string): string => code.replace(/[\s-]/g, "");
