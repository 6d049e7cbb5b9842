/**
 * One's own second factor: added, given new recovery codes, removed. Who only found the browser open can do none of it: each
 * takes the password, and what there is to lose takes a code as well.
 */

import type { SecondFactors } from "../../access/second-factor.ts";
import { proposeSecret, removeSecondFactor, renewRecoveryCodes, secondFactorOf } from "../../access/second-factor.ts";
import { endSessions } from "../../access/sessions.ts";
import type { SignIn } from "../../access/sign-in.ts";
import { keyUri } from "../../access/totp.ts";
import { t } from "../../api/json-schema.ts";
import { AppError } from "../../errors.ts";
import type { Runtime } from "../../runtime.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { NewSecondFactorView, RecoveryCodesView, SecondFactorView } from "../identity-views.ts";
import { drawQr } from "../qr.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, done, isoOf } from "./asked.ts";

export interface SecondFactorParts {
  store: Pick<Store, "db" | "transact">;
  identity: { signIn: SignIn; secondFactors: SecondFactors };
  runtime: Pick<Runtime, "randomBytes">;
}

const password = t.String({ maxLength: 1_024 });
const code = t.String({ maxLength: 64 });
const readEnrolment = bodyOf(t.Object({ secret: t.String({ maxLength: 64 }), code, password }));
const readProof = bodyOf(t.Object({ password, code }));

export function secondFactorRoutes({ store, identity, runtime }: SecondFactorParts): Route[] {
  const { signIn, secondFactors } = identity;

  /** Does `work` for who gives their password and a code. @throws AppError forbidden, conflict without a second factor */
  async function withBoth<T>(asked: Asked, work: (tx: Tx, userId: string) => T): Promise<T> {
    const { email, userId } = asked.session.caller;
    if (!secondFactorOf(store.db, userId)) throw new AppError("conflict", "You have no second factor");
    const given = await readProof(asked);
    const proof = { username: email, secret: given.password, code: given.code, source: asked.source };
    const proved = await signIn.inBrowser(proof);
    return store.transact((tx) => {
      if (!proved || proved === "code" || !proved.present()) {
        throw new AppError("forbidden", "Password and code do not match. Each code counts once: wait for the next one");
      }
      return { done: work(tx, userId) };
    }).done;
  }

  return [
    {
      method: "GET",
      path: "/me/second-factor",
      run({ session }): SecondFactorView {
        const { since, recoveryCodes } = secondFactorOf(store.db, session.caller.userId) ?? { recoveryCodes: 0 };
        return { since: since === undefined ? null : isoOf(since), recoveryCodes };
      },
    },
    {
      // Changes nothing.
      method: "POST",
      path: "/me/second-factor/new",
      run({ session }): NewSecondFactorView {
        const secret = proposeSecret(runtime);
        return { secret, qr: drawQr(keyUri(secret, session.caller.email)) };
      },
    },
    {
      // Body {secret, code, password}. What the password alone began elsewhere ends.
      method: "POST",
      path: "/me/second-factor",
      async run(asked): Promise<RecoveryCodesView> {
        const given = await readEnrolment(asked);
        const { session, source } = asked;
        const { userId, email } = session.caller;
        const proved = await signIn.again({ username: email, secret: given.password, source });
        return store.transact((tx) => {
          if (!proved?.present()) throw new AppError("forbidden", "The password is not right");
          endSessions(tx, userId, session.id);
          return { recoveryCodes: secondFactors.enrol(tx, userId, given) };
        });
      },
    },
    {
      // Body {password, code}. Those of before count no more.
      method: "POST",
      path: "/me/second-factor/recovery-codes",
      run: async (asked): Promise<RecoveryCodesView> => ({
        recoveryCodes: await withBoth(asked, (tx, userId) => renewRecoveryCodes(tx, runtime, userId)),
      }),
    },
    {
      // Body {password, code}.
      method: "POST",
      path: "/me/second-factor/remove",
      async run(asked) {
        await withBoth(asked, removeSecondFactor);
        return done();
      },
    },
  ];
}
