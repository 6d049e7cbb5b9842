/**
 * A person's own second factor: adding it, new recovery codes, removal. Each takes the password, so that an open browser is
 * not enough; changes to an existing factor take a code as well.
 */

import type { SecondFactors } from "../../access/second-factor.ts";
import { proposeSecret, removeSecondFactor, renewRecoveryCodes, secondFactorOf } from "../../access/second-factor.ts";
import { endSessions } from "../../access/sessions.ts";
import { keyUri } from "../../access/totp.ts";
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import { isoOf } from "../../operations/admin/common.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { NewSecondFactorView, RecoveryCodesView, SecondFactorView } from "../identity-views.ts";
import { drawQr } from "../qr.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf } from "./asked.ts";
import { CODE, PASSWORD, type Prove } from "./proof.ts";

export interface SecondFactorParts {
  store: Pick<Store, "db" | "transact">;
  identity: { secondFactors: SecondFactors };
  prove: Prove;
  runtime: Pick<Runtime, "randomBytes">;
}

const readEnrolment = bodyOf(t.Object({ secret: t.String({ maxLength: 64 }), code: CODE, password: PASSWORD }));
const readProof = bodyOf(t.Object({ password: PASSWORD, code: CODE }));

export function secondFactorRoutes({ store, identity, prove, runtime }: SecondFactorParts): Route[] {
  const { secondFactors } = identity;

  const present = ({ session }: Asked) => secondFactorOf(store.db, session.caller.userId);

  /** Does `work` after checking password and code. @throws AppError forbidden, conflict without a second factor */
  async function withBoth<T>(asked: Asked, work: (tx: Tx, userId: string) => T) {
    if (!present(asked)) throw new AppError("conflict", "You have no second factor");
    return prove(asked, await readProof(asked), work);
  }

  return [
    {
      method: "GET",
      path: "/me/second-factor",
      run(asked): SecondFactorView {
        const { since, recoveryCodes } = present(asked) ?? { recoveryCodes: 0 };
        return { since: since === undefined ? null : isoOf(since), recoveryCodes };
      },
    },
    {
      // Proposes a secret, and changes nothing.
      method: "POST",
      path: "/me/second-factor/new",
      run({ session }): NewSecondFactorView {
        const secret = proposeSecret(runtime);
        return { secret, qr: drawQr(keyUri(secret, session.caller.email)) };
      },
    },
    {
      // Body {secret, code, password}. Other sessions, which the password alone began, end.
      method: "POST",
      path: "/me/second-factor",
      async run(asked) {
        const { secret, code, password } = await readEnrolment(asked);
        if (present(asked)) throw new AppError("conflict", "You have a second factor already");
        const { result, headers } = await prove(asked, { password }, (tx, userId) => {
          endSessions(tx, userId, asked.session.id);
          return secondFactors.enrol(tx, userId, { secret, code });
        });
        return recovery(result, headers);
      },
    },
    {
      // Body {password, code}. Former recovery codes end.
      method: "POST",
      path: "/me/second-factor/recovery-codes",
      async run(asked) {
        const { result, headers } = await withBoth(asked, (tx, userId) => renewRecoveryCodes(tx, runtime, userId));
        return recovery(result, headers);
      },
    },
    {
      // Body {password, code}.
      method: "POST",
      path: "/me/second-factor/remove",
      async run(asked) {
        const { headers } = await withBoth(asked, removeSecondFactor);
        return new Response(null, { status: 204, headers });
      },
    },
  ];
}

function recovery(recoveryCodes: string[], headers: Record<string, string>): Response {
  const view: RecoveryCodesView = { recoveryCodes };
  return Response.json(view, { headers });
}
