/** Continues nothing-lost.test.ts with so many more broken messages that it takes minutes. */
import { test } from "bun:test";
import { expectNothingLost, hasOtherForm, SAMPLES } from "../harness/mail/broken-mail.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

const TEN_MINUTES = 600_000;

test("samples, broken in ten thousand rounds", () => expectNothingLost(SAMPLES, 10_000, 100), TEN_MINUTES);

test.skipIf(!corpusPresent)(
  `mail of other projects, broken in twenty rounds${corpusNote}`,
  () =>
    expectNothingLost(
      corpusFiles()
        .filter(({ bytes }) => !hasOtherForm(bytes))
        .map(({ bytes }) => Buffer.from(bytes))
        // There a planted word may be read as the second half of a character.
        .filter((bytes) => !/charset="?(?:gb|big5|euc|shift|iso-2022|ks_c)/i.test(bytes.toString("latin1"))),
      20,
      1,
    ),
  TEN_MINUTES,
);
