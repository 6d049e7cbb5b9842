/**
 * Quality of the junk filter: trained with half of the labelled mail, measured on the other half. Deterministic. People
 * must not lose wanted mail: at most 0.1 % of it may be classified as junk.
 */
import { expect, test } from "bun:test";
import { scoreByJunkFilter, trainJunkFilter } from "../../../src/mailbox/junk/junk-filter.ts";
import { readJunkSender } from "../../../src/mailbox/junk/senders.ts";
import { extractJunkTokens, listSenderJunkTokens } from "../../../src/mailbox/junk/tokens.ts";
import { NO_SENDER } from "../../../src/message/address.ts";
import { parseMessage } from "../../../src/message/parse.ts";
import { SETTINGS } from "../../../src/store/settings.ts";
import {
  generateLabelled,
  type Labelled,
  labelledNote,
  labelledPresent,
  readLabelled,
} from "../../harness/mail/labelled-mail.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

interface Measured {
  ham: number;
  spam: number;
  /** Share of held-out ham classified as junk, and of spam that was found. */
  falsePositives: number;
  found: number;
}

/** Trains with `isTrained`, and classifies the rest with the default threshold. */
async function measure(mail: Iterable<Labelled>, isTrained: (name: string) => boolean): Promise<Measured> {
  const { store, box } = createAlice();
  const trained: { isSpam: boolean; tokens: string[] }[] = [];
  const held: typeof trained = [];
  for (const { name, isSpam, bytes } of mail) {
    const message = await parseMessage(bytes);
    const sender = readJunkSender(message.from ?? NO_SENDER, undefined);
    const seen = extractJunkTokens({ ...message, size: bytes.byteLength, html: () => message.html });
    const tokens = [...seen.split(" "), ...listSenderJunkTokens(sender, undefined)];
    (isTrained(name) ? trained : held).push({ isSpam, tokens });
  }
  const threshold = SETTINGS["spam.junkThreshold"].default as number;
  const measured: Measured = { ham: 0, spam: 0, falsePositives: 0, found: 0 };
  store.transact((tx) => {
    for (const { isSpam, tokens } of trained) trainJunkFilter(tx, box, tokens, isSpam ? "spam" : "ham");
    for (const { isSpam, tokens } of held) {
      const isJunk = (scoreByJunkFilter(tx, box, () => tokens)?.score ?? 0) >= threshold;
      measured[isSpam ? "spam" : "ham"]++;
      if (isJunk) measured[isSpam ? "found" : "falsePositives"]++;
    }
  });
  return measured;
}

/** A fixed selection of one in `parts`. */
const oneIn = (parts: number) => (name: string) => Bun.hash.xxHash32(name) % parts === 0;

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(2)} %`;

function report(name: string, { ham, spam, falsePositives, found }: Measured): void {
  console.log(
    `${name}: precision ${percent(found, found + falsePositives)}, recall ${percent(found, spam)} of ${spam} spam, ` +
      `false positives ${percent(falsePositives, ham)} of ${ham} ham`,
  );
}

test("generated mail: no ham is classified as junk, and most junk is found", async () => {
  const measured = await measure(generateLabelled(2026, 2_600), oneIn(4));
  report("generated mail", measured);
  expect(measured.ham).toBeGreaterThan(1_200);
  expect(measured.falsePositives).toBe(0);
  expect(measured.found / measured.spam).toBeGreaterThan(0.8);
}, 300_000);

test.skipIf(!labelledPresent)(
  `real mail, the SpamAssassin public corpus${labelledNote}`,
  async () => {
    const measured = await measure(readLabelled(), oneIn(2));
    report("SpamAssassin public corpus", measured);
    expect(measured.ham).toBeGreaterThan(2_000);
    expect(measured.falsePositives / measured.ham).toBeLessThan(0.001);
    expect(measured.found / measured.spam).toBeGreaterThan(0.7);
  },
  120_000,
);
