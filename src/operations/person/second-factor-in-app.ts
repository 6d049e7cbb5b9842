/**
 * A person's own second factor: adding it, new recovery codes, removal. Each takes the password, so that an open
 * browser is not enough; changes to an existing factor take a code as well.
 */
import encodeQr from "qr";
import * as factors from "../../access/second-factor.ts";
import { endSessions } from "../../access/sessions.ts";
import { totpKeyUri } from "../../access/totp.ts";
import { AppError } from "../../base/errors.ts";
import { type Static, t } from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import type { Tx } from "../../store/store.ts";
import { defineAppOperation, type PersonContext } from "../operation.ts";
import { CODE, PASSWORD, proveIdentity } from "./proof.ts";

const PasswordAndCode = t.Object({ password: PASSWORD, code: CODE });

const presentFactor = ({ core, caller }: PersonContext) => factors.findSecondFactor(core.db, caller.userId);

/** Does `work` after checking password and code. @throws AppError forbidden, conflict without a second factor */
async function proveWithCode<T>(
  context: PersonContext,
  given: Static<typeof PasswordAndCode>,
  work: (tx: Tx, userId: string) => T,
): Promise<T> {
  if (!presentFactor(context)) throw new AppError("conflict", "You have no second factor");
  return proveIdentity(context, given, work);
}

export const getSecondFactor = defineAppOperation({
  name: "getSecondFactor",
  audience: "person",
  method: "GET",
  path: "/me/second-factor",
  run(context) {
    const { since, recoveryCodes } = presentFactor(context) ?? { recoveryCodes: 0 };
    // `recoveryCodes`: those that are left.
    return { since: since === undefined ? null : toIsoTime(since), recoveryCodes };
  },
});

/** Proposes a secret (base32), which counts once it comes back with a code of it. */
export const proposeSecondFactor = defineAppOperation({
  name: "proposeSecondFactor",
  audience: "person",
  method: "POST",
  path: "/me/second-factor/new",
  run({ core, caller }) {
    const secret = factors.generateTotpSecret(core.runtime);
    return { secret, qr: drawQr(totpKeyUri(secret, caller.email)) };
  },
});

/** Ends the other sessions, which began with the password alone. The recovery codes are told here and never again. */
export const addSecondFactor = defineAppOperation({
  name: "addSecondFactor",
  audience: "person",
  method: "POST",
  path: "/me/second-factor",
  body: t.Object({ secret: t.String({ maxLength: 64 }), code: CODE, password: PASSWORD }),
  async run(context, { body: { secret, code, password } }) {
    if (presentFactor(context)) throw new AppError("conflict", "You have a second factor already");
    const { core, identity, session } = context;
    const recoveryCodes = await proveIdentity(context, { password }, (tx, userId) => {
      endSessions(tx, userId, core.now(), session.id);
      return identity.secondFactors.enrol(tx, userId, { secret, code });
    });
    return { recoveryCodes };
  },
});

/** Replaces the recovery codes. The new ones are told here and never again. */
export const renewRecoveryCodes = defineAppOperation({
  name: "renewRecoveryCodes",
  audience: "person",
  method: "POST",
  path: "/me/second-factor/recovery-codes",
  body: PasswordAndCode,
  async run(context, { body }) {
    const { core } = context;
    return {
      recoveryCodes: await proveWithCode(context, body, (tx, userId) =>
        factors.renewRecoveryCodes(tx, core.runtime, userId),
      ),
    };
  },
});

export const removeSecondFactor = defineAppOperation({
  name: "removeSecondFactor",
  audience: "person",
  method: "POST",
  path: "/me/second-factor/remove",
  body: PasswordAndCode,
  async run(context, { body }) {
    await proveWithCode(context, body, factors.removeSecondFactor);
  },
});

/** The standard's quiet zone, in modules. */
const BORDER = 4;

/**
 * A QR code (ISO/IEC 18004), drawn here: what it holds goes nowhere else. For an SVG whose viewBox is `size` by `size`;
 * what is dark is inside the path. The quiet zone is part of it.
 */
function drawQr(text: string): { size: number; path: string } {
  const rows = encodeQr(text, "raw", { ecc: "medium", border: BORDER });
  const bars = rows.flatMap((row, y) =>
    [
      ...row
        .map((dark) => (dark ? "#" : " "))
        .join("")
        .matchAll(/#+/g),
    ].map(({ index, 0: { length } }) => `M${index} ${y}h${length}v1h-${length}z`),
  );
  return { size: rows.length, path: bars.join("") };
}
