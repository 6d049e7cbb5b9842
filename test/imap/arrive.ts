/** Files a letter into the mailbox of a booted appliance's owner, without SMTP. */
import type { Letter } from "../harness/mail/mail.ts";
import type { Booted } from "../harness/servers/boot.ts";
import { fileLetter } from "../harness/servers/core.ts";

export const arrive = ({ core, owner: { mailboxId } }: Pick<Booted, "core" | "owner">, mail: Letter | string) =>
  fileLetter(core, mail, { mailboxId, receivedOn: "alice@example.test" });
