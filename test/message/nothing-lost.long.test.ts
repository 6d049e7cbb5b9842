/** Continues nothing-lost.test.ts with so many more broken messages that it takes minutes. */
import { test } from "bun:test";
import { expectNothingLost, SAMPLES } from "../harness/broken-mail.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/corpus.ts";

const TEN_MINUTES = 600_000;

test("samples, broken in ten thousand rounds", () => expectNothingLost(SAMPLES, 10_000, 100), TEN_MINUTES);

test.skipIf(!corpusPresent)(
  `mail of other projects, broken in twenty rounds${corpusNote}`,
  () =>
    expectNothingLost(
      corpusFiles().map(({ bytes }) => Buffer.from(bytes)),
      20,
      1,
    ),
  TEN_MINUTES,
);
