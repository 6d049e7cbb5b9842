/**
 * Proving anew that it is still them: who only found the browser open, or has a copy of its cookie, gets nothing that outlasts
 * the session. Guessing is as slow as at the door, and a copy of the cookie ends with the first proof.
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

/** What a person proves with, in bodies. */
export const PASSWORD = t.String({ maxLength: 1_024 });
export const CODE = t.String({ maxLength: 64 });

const WRONG = "The present password is not right";
const WRONG_WITH_CODE = "Password and code do not match. Each code counts once: wait for the next one";

/**
 * Does `work`, in one transaction with the proof, for who gives their password, and a code if they have a second factor; the
 * session counts as confirmed then. Resolves with what `work` returned, and the Set-Cookie that the answer has to carry.
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

/** Body {password, code?}: for some minutes this session may do what asks for it (Asked.requireConfirmed). */
export const confirmRoute = (prove: Prove): Route => ({
  method: "POST",
  path: "/me/confirm",
  async run(asked) {
    const { headers } = await prove(asked, await readProof(asked), () => undefined);
    return new Response(null, { status: 204, headers });
  },
});
