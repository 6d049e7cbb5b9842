/** Mail that people wrote, as often as it is wanted: the labelled corpus where it is installed, else the one beside the project. */
import { corpusFiles } from "../harness/mail/corpus.ts";
import { labelledPresent, readLabelled } from "../harness/mail/labelled-mail.ts";

/**
 * Mail that people wrote, spread over the corpus, and again from its start after all of it: Message-IDs, and the fields that
 * refer to them, get the number of the pass. Mail without a Message-ID of its own is left out.
 */
export function realMail(): (n: number) => Buffer {
  const known = new Map<string, { head: string; body: string }>();
  for (const { bytes } of labelledPresent ? readLabelled() : corpusFiles()) {
    const text = Buffer.from(bytes)
      .toString("latin1")
      .replace(/^From .*\r?\n/, "")
      .replace(/\r\n|\r|\n/g, "\r\n");
    const end = text.indexOf("\r\n\r\n") + 2;
    const [head, body] = [text.slice(0, end), text.slice(end)];
    const id = /^message-id: *(<[^>\s]+>)/im.exec(head)?.[1];
    if (id !== undefined && !known.has(id)) known.set(id, { head, body });
  }
  const mail = [...known.values()];
  const ids = /^(?:message-id|in-reply-to|references):.*(?:\r\n[ \t].*)*/gim;
  /** A prime, so that the steps meet each message. */
  const step = 2_503;
  return (n) => {
    const { head, body } = mail[(n * step) % mail.length] as (typeof mail)[number];
    const pass = Math.floor(n / mail.length);
    const own = head.replace(ids, (field) => field.replaceAll("<", `<${pass}.`));
    // RFC 5321 §4.5.2.
    return Buffer.from(`${own}${body}`.replace(/^\./gm, ".."), "latin1");
  };
}
