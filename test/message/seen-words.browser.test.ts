/**
 * The visible words of mail with HTML, as a browser shows it and another parser (postal-mime) cuts it, are in the index, and in
 * `text` where that comes from the HTML (rules: Text of a message, Search). Each exception has a reason and must be one.
 */
import { expect, test } from "bun:test";
import PostalMime from "postal-mime";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { composeMessage } from "../../src/message/compose.ts";
import { isPlaceholderTextPart } from "../../src/message/notes.ts";
import { foldText } from "../../src/search/fold.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { storeInMemory } from "../harness/data/database.ts";
import { corpusFiles, corpusNote } from "../harness/mail/corpus.ts";
import { MAIL_TEMPLATES } from "../harness/mail/mail-templates.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { OTHER_MAIL, SIGN_IN_MAIL } from "./transactional-mail.ts";

const MESSAGE_INSIDE = "the other parser shows the message inside, which is an attachment here";
const NOT_SEEN =
  "the browser counts words without size, in the colour of their ground or outside of the window as shown";
const CHARSET = "octets that are not of the charset they claim: we read them in the one they are of";

const FORGOTTEN_DELIMITER = "the first delimiter of the inner multipart is missing: the other parser has no text there";

const EXCEPTIONS: Readonly<Record<string, string>> = {
  "stalwart-mail-parser/resources/eml/malformed/020.eml": FORGOTTEN_DELIMITER,
  "stalwart-mail-parser/resources/eml/rfc/007.eml": MESSAGE_INSIDE,
  "stalwart-mail-parser/resources/eml/rfc/009.eml": MESSAGE_INSIDE,
  "stalwart-mail-parser/resources/eml/thirdparty/008.eml": MESSAGE_INSIDE,
  "stalwart-mail-parser/resources/eml/thirdparty/012.eml": MESSAGE_INSIDE,
  "mikel-mail/spec/fixtures/emails/error_emails/content_transfer_encoding_7-bit.eml": CHARSET,
  "mikel-mail/spec/fixtures/emails/error_emails/content_transfer_encoding_empty.eml": NOT_SEEN,
  "spamassassin/t/data/nice/cjk/big5-base64.1": CHARSET,
  receipt: NOT_SEEN,
  salesforce: NOT_SEEN,
};

/** Elements that the app does not show: controls of forms. */
const CONTROLS = "select, textarea, button, input";

const mailOf = (name: string, subject: string, text: string, html: string) => ({
  name,
  bytes: new Uint8Array(composeMessage({ id: "msg_1", headers: [["Subject", subject]], text, html, attachments: [] })),
});
const layouts = [
  ...[...SIGN_IN_MAIL, ...OTHER_MAIL].flatMap(({ name, subject, text = "", html }) =>
    html === undefined ? [] : mailOf(name, subject, text, html),
  ),
  ...Object.entries(MAIL_TEMPLATES).map(([name, html]) => mailOf(name, name, "View in HTML", html)),
];

test.skipIf(!chromiumPresent)(
  `no word that a person sees is lost${chromiumNote}${corpusNote}`,
  async () => {
    const { blobs } = storeInMemory(fakeRuntime());
    const context = await (await openBrowser()).newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const losing: Record<string, string[]> = {};
    let compared = 0;
    for (const { name, bytes } of [...corpusFiles(), ...layouts]) {
      const { html, text = "" } = await PostalMime.parse(bytes);
      if (!html) continue;
      compared++;
      await page.setContent(html, { waitUntil: "domcontentloaded" });
      const shown = await page.locator("body").evaluate((body, controls) => {
        for (const control of body.querySelectorAll(controls)) control.remove();
        // biome-ignore lint/performance/useDomNodeTextContent: textContent has what is hidden, too
        return (body as HTMLElement).innerText;
      }, CONTROLS);
      const message = await prepareMessage(bytes, blobs);
      const wanted = new Set(foldText(shown).split(" "));
      const lacksIn = (folded: string) =>
        [...wanted.difference(new Set(folded.split(" ")))].filter((word) => word !== "");
      // Words that the templates hide.
      if (name in MAIL_TEMPLATES) expect([name, message.index.body.includes("hidden")]).toEqual([name, false]);
      const lost = lacksIn(message.index.body);
      if (isPlaceholderTextPart(text)) lost.push(...lacksIn(foldText(message.text)));
      if (lost.length > 0) losing[name] = lost;
    }
    const names = new Set([...corpusFiles(), ...layouts].map(({ name }) => name));
    const expected = Object.entries(EXCEPTIONS).filter(([name]) => names.has(name));
    expect(Object.entries(losing).map(([name, words]) => [name, EXCEPTIONS[name] ?? words])).toEqual(
      expect.arrayContaining(expected),
    );
    expect(Object.keys(losing).sort()).toEqual(expected.map(([name]) => name).sort());
    expect(compared).toBeGreaterThan(layouts.length);
  },
  120_000,
);
