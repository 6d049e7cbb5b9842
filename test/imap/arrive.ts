/** Files a letter into the mailbox of a booted appliance's owner, without SMTP. */
import { prepareMessage } from "../../src/mailbox/prepare.ts";
import { type Letter, letter } from "../harness/mail/mail.ts";
import type { Booted } from "../harness/servers/boot.ts";

export async function arrive({ core: { store }, opened: { mailbox }, owner, runtime }: Booted, mail: Letter) {
  const message = await prepareMessage(Buffer.from(letter(mail).replaceAll(/\r?\n/g, "\r\n")), store.blobs);
  const { mailboxId } = owner;
  return store.enqueue((tx) =>
    mailbox.file(tx, { mailboxId, receivedOn: "alice@example.test", message, now: runtime.now() }),
  );
}
