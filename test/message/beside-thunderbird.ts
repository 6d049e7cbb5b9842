/**
 * Compares messages with what Thunderbird shows of them: what it shows of subject, addresses, text, images and files, Mailroom
 * has, too. Thunderbird itself shows both texts, and its words are compared. Each exception has a reason and must be one.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderMessageDocument } from "../../src/message/frame.ts";
import { type ParsedMessage, parseMessage } from "../../src/message/parse.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { visibleHtml } from "../../src/message/visible.ts";
import {
  type MessageWindow,
  openMessageWindow,
  type ShownMessage,
  startThunderbird,
  type Thunderbird,
  thunderbird,
} from "../harness/clients/thunderbird.ts";
import { temporaryFolder } from "../harness/folder.ts";
import type { CorpusFile } from "../harness/mail/corpus.ts";

const STALWART = "stalwart-mail-parser/resources/eml/";
const MIKEL = "mikel-mail/spec/fixtures/emails/";
const SISIMAI = "sisimai/set-of-emails/maildir/";

const HIDDEN = "words that are clipped or moved out of the window, which a script of its page can read";
const CHARSET = "octets that are not of the charset they claim: we read them in the one they are of";
const UNKNOWN_CHARSET = "a charset that it does not know";
const NOT_ENCODED = "its octets are not of the encoding they claim: we keep them as they are";
const OTHER_FORM = "an alternative in a form that is not shown (rules: Forms of mail)";
const FALSE_NAME = "its name contains another address (rules: Address fields)";
const FIRST_AUTHOR = "of several authors the first is shown";
const COMMENT_BEHIND = "a comment behind an address is none of its name: it may be of the next one";
const UNPADDED = "base64 without its padding: it drops the last letter";
const OWN_NAME = "the attached message has a file name of its own, which it leaves out";

/** Content that Thunderbird shows and we do not, by message and place, with the reason. */
const EXCEPTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "alternative plain enriched": { text: OTHER_FORM },
  "body 8859-1 label on utf8": { text: CHARSET },
  "body us-ascii with utf8": { text: CHARSET },
  "body hz": { text: UNKNOWN_CHARSET },
  "body iso-2022-kr": { text: UNKNOWN_CHARSET },
  "filename path": { content: "of a path the last piece is the name" },
  "html disposition inline named": { content: "a text that is all of the message is shown, and not listed, too" },
  "name raw latin1": { content: CHARSET },
  "name slash": { content: "no system has files with a slash in their names" },
  "subject no padding": { subject: UNPADDED },
  receipt: { text: HIDDEN },
  [`${STALWART}malformed/019.eml`]: { text: "a header that is cut in the middle: it shows a piece of a field's name" },
  [`${STALWART}rfc/000.eml`]: { content: NOT_ENCODED },
  [`${STALWART}rfc/003.eml`]: { text: OTHER_FORM, content: OTHER_FORM },
  [`${STALWART}thirdparty/006.eml`]: { text: "a signature of an unknown kind: it shows the source of what is signed" },
  [`${MIKEL}attachment_emails/attachment_pdf_non_ascii.eml`]: { text: CHARSET },
  [`${MIKEL}attachment_emails/attachment_pdf_non_ascii_lf.eml`]: { text: CHARSET },
  [`${MIKEL}error_emails/content_transfer_encoding_7-bit.eml`]: { text: CHARSET },
  [`${MIKEL}error_emails/content_transfer_encoding_empty.eml`]: { text: CHARSET },
  [`${MIKEL}error_emails/content_transfer_encoding_plain.eml`]: { text: CHARSET },
  [`${MIKEL}error_emails/missing_body.eml`]: { to: "it reads the words before a colon as the name of a group" },
  [`${MIKEL}plain_emails/mix_caps_content_type.eml`]: {
    from: "an address without angle brackets: it reads no address",
  },
  [`${MIKEL}plain_emails/raw_email6.eml`]: { text: CHARSET },
  [`${MIKEL}plain_emails/raw_email_multiple_from.eml`]: {
    from: "commas are missing: it reads one address",
    to: "commas are missing: it reads one address",
  },
  [`${MIKEL}plain_emails/raw_email_with_at_display_name.eml`]: { from: FIRST_AUTHOR },
  [`${MIKEL}rfc2822/example10.eml`]: { to: COMMENT_BEHIND },
  "cpython-test-email/msg_15.txt": { content: NOT_ENCODED },
  [`${SISIMAI}bsd/lhost-amazonworkmail-08.eml`]: { files: FALSE_NAME },
  [`${SISIMAI}bsd/lhost-postfix-30.eml`]: { to: "square brackets in an address: it adds a space" },
  [`${SISIMAI}bsd/lhost-sendmail-38.eml`]: { content: OWN_NAME },
  [`${SISIMAI}bsd/rfc3464-09.eml`]: { content: NOT_ENCODED },
  [`${SISIMAI}not/is-not-bounce-02.eml`]: { from: UNPADDED, to: UNPADDED, files: UNPADDED },
  "sisimai-extra/mailbox/mbox-0#9": { content: CHARSET },
  "sisimai-extra/maildir/not/is-not-bounce-02.eml": { from: UNPADDED, to: UNPADDED, files: UNPADDED },
};

/** Words as they are written, and each symbol that is not ASCII; without what Thunderbird could not decode. */
function wordsIn(text: string): Set<string> {
  const legible = text.replace(/\S*\ufffd\S*|=\?\S*\?=/g, " ").normalize("NFC");
  return new Set(legible.match(/[\p{L}\p{N}\p{M}]+|[^\p{ASCII}\s\p{C}]/gu));
}

const unreadableIn = (text: string): number => text.split("\ufffd").length - 1;

interface File {
  name: string;
  contentType: string;
  content: Uint8Array;
  text: string;
}

/** The files of a message, and of the messages among them; without the original of one that could not be read. */
async function filesOf({ attachments, problem }: ParsedMessage, depth = 0): Promise<File[]> {
  const files: File[] = [];
  for (const { filename, contentType, content } of problem === undefined ? attachments : attachments.slice(0, -1)) {
    const octets = Buffer.from(content);
    const file = { name: filename, contentType, content };
    if (contentType.startsWith("message/") && depth < 5) {
      const inner = await parseMessage(content);
      const addresses = [inner.from, ...inner.to, ...inner.cc].map((one) => `${one?.name} ${one?.email}`);
      const { text } = visibleHtml(inner.html ?? "");
      const all = [inner.subject, ...addresses, inner.text, text, inner.headers.join(" "), octets];
      files.push({ ...file, text: all.join("\n") }, ...(await filesOf(inner, depth + 1)));
    } else files.push({ ...file, text: `${octets} ${octets.toString("latin1")}` });
  }
  return files;
}

/** Says what Thunderbird shows and Mailroom lacks. */
async function lackingIn(window: MessageWindow, shown: ShownMessage, bytes: Uint8Array): Promise<Map<string, string>> {
  const message = await parseMessage(bytes);
  const html = message.html && sanitizeHtml(message.html);
  const attachments = message.attachments.map((file, id) => ({ ...file, id: String(id) }));
  const face = await window.showDocument(
    // Of a forwarded message nothing is folded.
    renderMessageDocument(
      { ...message, subject: "Fwd:", ...(html && { html }), attachments },
      { attachment: (id) => id, remote: undefined },
    ),
  );
  const files = await filesOf(message);
  const lacking = new Map<string, string>();
  const compare = (what: string, theirs: string, ...ours: string[]) => {
    const missing = wordsIn(theirs).difference(wordsIn(ours.join("\n")));
    if (missing.size > 0) lacking.set(what, [...missing].join(" ").slice(0, 200));
  };
  const legible = (what: string, theirs: string, ours: string) => {
    if (unreadableIn(ours) > unreadableIn(theirs)) lacking.set(what, "more unreadable characters");
  };

  compare("subject", shown.subject, message.subject);
  legible("subject", shown.subject, message.subject);
  for (const field of ["from", "to", "cc"] as const) {
    for (const { name, email } of shown[field]) {
      const known = [message[field] ?? []].flat();
      const same = known.find((one) => one.email.toLowerCase() === email.toLowerCase());
      if (email.includes("@")) compare(field, `${name} ${email}`, `${same?.name} ${same?.email}`);
      // A sender without an address gets one; nobody can write to a recipient without one (rules: Address fields).
      else if (field === "from") compare(field, `${name} ${email}`.toLowerCase(), JSON.stringify(known).toLowerCase());
    }
  }
  // Texts and HTML are shown; files of other kinds can be opened.
  const others = files.filter(({ contentType }) => !/^text\/(?:plain|html)$/.test(contentType));
  compare("text", shown.body, face.text, ...others.map(({ text }) => text));
  compare("files", shown.below, face.text, ...files.map(({ text }) => text));
  legible("text", shown.body + shown.below, face.text);
  if (shown.images > face.images) lacking.set("images", `${shown.images}, here ${face.images}`);
  for (const { name, contentType, content } of shown.files) {
    // Names that Thunderbird makes up.
    const isMadeUp = /^(?:ForwardedMessage\.eml|Part [\d.]+|)$/.test(name);
    // Messages are named by their subjects, which it cuts.
    const isMessage = contentType === "message/rfc822";
    const alike = files.filter(
      (file) => isMadeUp || file.name === name || (isMessage && lettersOf(file.name).startsWith(lettersOf(name))),
    );
    const isHere = content
      ? [...alike.map((file) => file.content), Buffer.from(face.text)].some((ours) => sameContent(ours, content))
      : alike.length > 0;
    if (!isHere) lacking.set("content", `${name}, ${contentType}; here ${files.map((file) => file.name)}`);
  }
  return lacking;
}

const lettersOf = (name: string): string => name.replace(/\.eml$/, "").replace(/[^\p{L}\p{N}]+/gu, "");

/** Thunderbird leaves out the last line end of a text. */
const sameContent = (one: Uint8Array, other: Uint8Array): boolean => bare(one) === bare(other);
const bare = (content: Uint8Array): string =>
  Buffer.from(content).toString("latin1").replaceAll("\r\n", "\n").trimEnd();

/** Registers tests: none of these messages, by the name of a test, reads worse than in Thunderbird. */
export function describeBeside(tests: Readonly<Record<string, readonly CorpusFile[]>>): void {
  describe.skipIf(thunderbird.absent)(`no message reads worse than in ${thunderbird.named}:`, () => {
    const folder = temporaryFolder();
    let client: Thunderbird;
    let window: MessageWindow;
    let count = 0;
    const fileOf = (bytes: Uint8Array): string => {
      const path = join(folder, `${++count}.eml`);
      writeFileSync(path, bytes);
      return path;
    };
    beforeAll(async () => {
      client = await startThunderbird();
      window = await openMessageWindow(client, fileOf(Buffer.from("Subject: First\r\n\r\nHello\r\n")));
    }, 120_000);
    afterAll(() => client?.stop());

    for (const [what, messages] of Object.entries(tests)) {
      test.skipIf(messages.length === 0)(
        what,
        async () => {
          const worse: Record<string, Record<string, string>> = {};
          for (const { name, bytes } of messages) {
            const lacking = await lackingIn(window, await window.show(fileOf(bytes)), bytes);
            const reasons = [...lacking].map(([what, words]) => [what, EXCEPTIONS[name]?.[what] ?? words]);
            if (reasons.length > 0) worse[name] = Object.fromEntries(reasons);
          }
          const names = new Set(messages.map(({ name }) => name));
          expect(worse).toEqual(Object.fromEntries(Object.entries(EXCEPTIONS).filter(([name]) => names.has(name))));
        },
        300_000,
      );
    }
  });
}
