/** Files a letter into the mailbox of a booted appliance's owner, without SMTP. */
import { fileMessage } from "../../src/mailbox/filing.ts";
import { prepareMessage } from "../../src/mailbox/prepare.ts";
import { type Letter, letter } from "../harness/mail/mail.ts";
import type { Booted } from "../harness/servers/boot.ts";

export async function arrive({ core: { store }, opened: { core }, owner, runtime }: Booted, mail: Letter) {
  const message = await prepareMessage(Buffer.from(letter(mail).replaceAll(/\r?\n/g, "\r\n")), store.blobs);
  const { mailboxId } = owner;
  return store.enqueue((tx) =>
    fileMessage(core, tx, { mailboxId, receivedOn: "alice@example.test", message, now: runtime.now() }),
  );
}
