/** Continues nothing-lost.test.ts with more broken messages, and with mail of other projects. */
import { test } from "bun:test";
import { expectNothingLost, hasOtherForm, SAMPLES } from "../harness/mail/broken-mail.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

test("samples, broken in seventy more rounds", () => expectNothingLost(SAMPLES, 70, 30), 60_000);

test.skipIf(!corpusPresent)(
  `broken mail of other projects${corpusNote}`,
  () =>
    expectNothingLost(
      corpusFiles()
        .filter(({ bytes }) => bytes.length < 30_000 && !hasOtherForm(bytes))
        .map(({ bytes }) => Buffer.from(bytes)),
      1,
    ),
  60_000,
);
