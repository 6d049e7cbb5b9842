/**
 * Repeated proof of identity within a session. Somebody at an open browser, or with a copy of its cookie, can make no
 * change that outlasts the session. Guessing is as slow as at sign-in, and the first proof invalidates a copied cookie.
 */
import { hasSecondFactor } from "../../access/second-factor.ts";
import { confirmSession } from "../../access/sessions.ts";
import * as people from "../../admin/people.ts";
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import type { Tx } from "../../store/store.ts";
import { defineAppOperation, type PersonContext } from "../operation.ts";

/** Password and code in request bodies. */
export const PASSWORD = t.String({ maxLength: 1_024 });
export const CODE = t.String({ maxLength: 64 });

const WRONG = "That password is not right";
const WRONG_WITH_CODE = "The password or the code is not right. Each code works once: wait for the next one";

/**
 * Checks the password, and a code if the person has a second factor; then does `work` in the same transaction, marks
 * the session as confirmed, and gives the browser its new token. Resolves with the result of `work`.
 * @throws AppError forbidden, whichever was wrong; unauthorized when the session ended meanwhile; rate_limited
 */
export async function proveIdentity<T>(
  { core, caller, session, source, identity, giveToken }: PersonContext,
  { password, code }: { password: string; code?: string | undefined },
  work: (tx: Tx, userId: string) => T,
): Promise<T> {
  const { userId } = caller;
  const proved = await identity.signIn.again({ caller, secret: password, code, source, over: "app" });
  const { result, token } = core.store.transact((tx) => {
    if (!proved?.present()) throw new AppError("forbidden", hasSecondFactor(tx, userId) ? WRONG_WITH_CODE : WRONG);
    people.noteShortPassword(tx, userId, password);
    return { token: confirmSession(tx, core.runtime, session), result: work(tx, userId) };
  });
  giveToken(token, session.persistent);
  return result;
}

/** Confirms the session for some minutes (PersonContext.requireConfirmed). */
export const confirmIdentity = defineAppOperation({
  name: "confirmIdentity",
  audience: "person",
  method: "POST",
  path: "/me/confirm",
  onStandby: true,
  body: t.Object({ password: PASSWORD, code: t.Optional(CODE) }),
  run: (context, { body }) => proveIdentity(context, body, () => undefined),
});
