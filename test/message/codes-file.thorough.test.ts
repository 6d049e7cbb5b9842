import { expect, test } from "bun:test";
import { maskCodes } from "../../src/message/codes.ts";
import { maskCodesInFile } from "../../src/message/codes-file.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

const masking = (content: Uint8Array) => maskCodesInFile({ filename: "a", contentType: "message/rfc822", content });

test.skipIf(!corpusPresent)(
  `mail of other projects has no code, and few links that look like credentials${corpusNote}`,
  async () => {
    const found = { mails: 0, codes: [] as string[], links: [] as string[] };
    for (const { name, bytes } of corpusFiles()) {
      const { subject, text, html } = await parseMessage(bytes);
      const parts = [{ content: subject }, { content: text }, ...(html ? [{ content: html, html: true }] : [])];
      const { contents, codes } = maskCodes(parts);
      found.mails++;
      if (codes.length > 0) found.codes.push(name);
      if (contents.join().includes("[link hidden]")) found.links.push(name);
      const masked = await masking(bytes);
      if (masked) expect([name, await masking(masked)]).toEqual([name, undefined]);
    }
    expect(found.codes).toEqual([]);
    // Click counters of newsletters, a link wrapped before an id, and a certificate for signatures.
    expect(found.links.length).toBeLessThan(found.mails / 80);
  },
  60_000,
);
