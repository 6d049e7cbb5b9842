import { expect, test } from "bun:test";
import { deceptiveLinks } from "../../src/message/deceptive-links.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

test.skipIf(!corpusPresent)(`no link of the corpus deceives${corpusNote}`, async () => {
  const deceptive: string[] = [];
  let withHtml = 0;
  for (const { name, bytes } of corpusFiles("stalwart-mail-parser", "mikel-mail", "spamassassin", "sisimai")) {
    const { html } = await parseMessage(bytes);
    if (html === undefined) continue;
    withHtml++;
    if (deceptiveLinks(html).length > 0) deceptive.push(name);
  }
  expect(withHtml).toBeGreaterThan(20);
  expect(deceptive).toEqual([]);
});
