/**
 * The key that the API reference uses for the person who reads it (rules: Reference key). Keys that exist cannot be shown
 * again, so the page gets one of its own, which ends with the session and within the hour.
 */
import { findPersonAsCaller, requireAdmin } from "../../access/caller.ts";
import { createApiKey, revokeSessionKeys } from "../../access/credentials.ts";
import { LONGEST_SESSION_MS } from "../../access/sessions.ts";
import { AppError } from "../../base/errors.ts";
import { stringEnum, t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import { defineAppOperation } from "../operation.ts";
import { strictBody } from "../shared-schemas.ts";

const KEY_MS = 3_600_000;
/** Scopes that a person may give the key beside `read`. Approving is for people. */
const CHOICES = ["write", "send", "admin"] as const;

/**
 * Makes a key, which is told only here, and tells in how many seconds it ends, since the clock of a browser may be wrong. A key
 * that the session made before is revoked.
 */
export const createReferenceKey = defineAppOperation({
  name: "createReferenceKey",
  audience: "person",
  method: "POST",
  path: "/reference-key",
  body: strictBody({ scopes: t.Array(stringEnum(CHOICES), { maxItems: CHOICES.length }) }),
  success: 201,
  run: ({ core, caller: { userId }, session, requireConfirmed }, { body: { scopes } }) =>
    core.store.transact((tx) => {
      const caller = findPersonAsCaller(tx, userId);
      if (!caller) throw new AppError("unauthorized", "Sign in to continue");
      requireAdmin(caller);
      requireConfirmed(tx);
      const now = core.now();
      revokeSessionKeys(tx, [session.id], now);
      const ms = Math.min(KEY_MS, session.createdAt + LONGEST_SESSION_MS - now);
      const expiresAt = toIsoTime(now + ms);
      const { key } = createApiKey(tx, core.runtime, {
        userId,
        name: `API reference, until ${expiresAt.slice(11, 16)} UTC`,
        scopes: ["read", ...scopes],
        policy: { expiresAt },
        madeBy: session.id,
      });
      return { key, expiresAt, seconds: ms / 1_000 };
    }),
});

/** Ends the session's key, if there is one. */
export const endReferenceKey = defineAppOperation({
  name: "endReferenceKey",
  audience: "person",
  method: "DELETE",
  path: "/reference-key",
  run({ core, session }) {
    core.store.transact((tx) => revokeSessionKeys(tx, [session.id], core.now()));
  },
});
