/** Mail with HTML, from a stranger to alice. */
import { mailer } from "../harness/mail/mail.ts";
import type { Booted } from "../harness/servers/boot.ts";

export const htmlMail = (html: string, subject = "Offer"): string =>
  [
    "From: mallory@remote.example",
    "To: alice@example.test",
    `Subject: ${subject}`,
    "MIME-Version: 1.0",
    "Content-Type: text/html; charset=utf-8",
    "Content-Transfer-Encoding: base64",
    "",
    ...(Buffer.from(html)
      .toString("base64")
      .match(/.{1,76}/g) ?? []),
    "",
  ].join("\r\n");

/** Receives a mail; returns the id of the message. */
export async function receive({ mx }: Booted, mail: string): Promise<string> {
  const sender = mailer(mx, { connections: 1, starttls: false });
  const { reply } = await sender.send({ from: "mallory@remote.example", to: "alice@example.test" }, Buffer.from(mail));
  sender.close();
  return /\b(msg_\w+) filed/.exec(reply)?.[1] as string;
}
