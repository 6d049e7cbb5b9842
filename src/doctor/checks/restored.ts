/** Finds work that a restore leaves: mail that it held, and second factors whose key no backup had. */
import { existsSync } from "node:fs";
import { secondFactorKeyPath } from "../../access/identity.ts";
import { HELD } from "../../backup/restore.ts";
import { statement } from "../../store/statement.ts";
import type { Check, Finding } from "../check.ts";

const countHeld = statement<{ n: number }, [reply: string]>(
  "SELECT count(*) AS n FROM queue_entries WHERE state = 'held' AND reply = ?",
);
const countFactors = statement<{ n: number }>("SELECT count(*) AS n FROM second_factors");

export const checkRestored: Check = ({ config: { data }, store }) => {
  const findings: Finding[] = [];
  const held = countHeld(store.db).get(HELD)?.n ?? 0;
  if (held > 0) {
    findings.push({
      id: "restore",
      name: "Held since the restore",
      state: "warning",
      detail: `mail to ${held} recipients is held, since it may have been sent after the backup`,
      todo: "Look at it with mailroom queue list, give up with mailroom queue cancel ID what was sent, and send the rest with mailroom queue release.",
    });
  }
  const people = countFactors(store.db).get()?.n ?? 0;
  if (people > 0 && !existsSync(secondFactorKeyPath(data))) {
    findings.push({
      id: "second-factors",
      name: "Second factors",
      state: "bad",
      detail: `the key of the second factors of ${people} people is missing (${secondFactorKeyPath(data)}), so that their codes are refused`,
      todo: "Put your copy of the key there, owned by the server's user. Without one, people sign in with a recovery code, or after mailroom user totp ADDRESS --reset.",
    });
  }
  return findings;
};
