/**
 * Every part of a message is shown or attached (rules: Nothing lost), even in a broken message. The tests plant words
 * in the parts of honest messages and break the messages as mailers, relays and attackers do. Each word that is still
 * among the bytes must then be in the result, or the original must be attached.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseMessage } from "../../src/message/parse.ts";
import {
  broken,
  chooser,
  expectNothingLost,
  lostOf,
  NAMES,
  planted,
  SAMPLES,
  wordsIn,
} from "../harness/mail/broken-mail.ts";
import { runs } from "../harness/runs.ts";

describe("no part of a message is lost", () => {
  test("if it is whole", async () => {
    for (const sample of SAMPLES) {
      const text = planted(sample, () => 0);
      expect(wordsIn(Buffer.from(text, "latin1")).size).toBeGreaterThan(0);
      const message = await parseMessage(Buffer.from(text, "latin1"));
      expect(message.problem).toBeUndefined();
      expect(await lostOf(Buffer.from(text, "latin1"))).toEqual([]);
    }
  });

  test("if it is broken", () => expectNothingLost(SAMPLES, 30), 30_000);

  test("if it is broken in random ways", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(SAMPLES.length - 1),
        fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 }),
        fc.nat(),
        async (sample, names, seed) => {
          const choose = chooser(seed);
          expect(await lostOf(broken(planted(SAMPLES[sample] as Buffer, choose), names, choose))).toEqual([]);
        },
      ),
      { numRuns: runs(300) },
    );
  });
});
