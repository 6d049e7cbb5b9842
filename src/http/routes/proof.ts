/**
 * Repeated proof of identity within a session. Somebody at an open browser, or with a copy of its cookie, can make no change
 * that outlasts the session. Guessing is as slow as at sign-in, and the first proof invalidates a copied cookie.
 */
import { hasSecondFactor } from "../../access/second-factor.ts";
import { confirmSession } from "../../access/sessions.ts";
import type { SignIn } from "../../access/sign-in.ts";
import { AppError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { Asked, Route } from "../route.ts";
import type { SessionCookie } from "../session-cookie.ts";
import { bodyOf } from "./asked.ts";

export interface ProofParts {
  store: Pick<Store, "db" | "transact">;
  cookie: SessionCookie;
  identity: { signIn: Pick<SignIn, "again"> };
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

/** Password and code in request bodies. */
export const PASSWORD = t.String({ maxLength: 1_024 });
export const CODE = t.String({ maxLength: 64 });

const WRONG = "The present password is not right";
const WRONG_WITH_CODE = "Password and code do not match. Each code counts once: wait for the next one";

/**
 * Checks the password, and a code if the person has a second factor; then does `work` in the same transaction, and marks
 * the session as confirmed. Resolves with the result of `work` and the Set-Cookie header for the response.
 * @throws AppError forbidden, whichever was wrong; unauthorized when the session ended meanwhile; rate_limited
 */
export type Prove = <T>(
  asked: Asked,
  given: { password: string; code?: string | undefined },
  work: (tx: Tx, userId: string) => T,
) => Promise<{ result: T; headers: { "set-cookie": string } }>;

export function createProof({ store, cookie, identity, runtime, log }: ProofParts): Prove {
  return async ({ session, source }, { password, code }, work) => {
    const { caller, kept } = session;
    const { userId } = caller;
    const proved = await identity.signIn.again({ caller, secret: password, code, source });
    log.info(proved ? "confirmed" : "confirmation failed", { source, userId });
    const { result, token } = store.transact((tx) => {
      if (!proved?.present()) throw new AppError("forbidden", hasSecondFactor(tx, userId) ? WRONG_WITH_CODE : WRONG);
      return { token: confirmSession(tx, runtime, session), result: work(tx, userId) };
    });
    return { result, headers: { "set-cookie": cookie.give(token, kept) } };
  };
}

const readProof = bodyOf(t.Object({ password: PASSWORD, code: t.Optional(CODE) }));

/** Body {password, code?}: confirms the session for some minutes (Asked.requireConfirmed). */
export const confirmRoute = (prove: Prove): Route => ({
  method: "POST",
  path: "/me/confirm",
  async run(asked) {
    const { headers } = await prove(asked, await readProof(asked), () => undefined);
    return new Response(null, { status: 204, headers });
  },
});
