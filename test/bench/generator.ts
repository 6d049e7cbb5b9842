/** Mail from a seed: the same seed gives the same words, so that figures of two runs speak of the same mail. */
import { createWriteStream } from "node:fs";

/** A small pseudo-random generator (mulberry32): numbers in [0, 1). */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const SYLLABLES =
  "ba be bi bo ca ce co da de di do fa fe ga go ha he hi la le li lo ma me mi mo na ne no pa pe po ra re ri ro sa se si so ta te ti to va ve vi".split(
    " ",
  );
const VOCABULARY_SIZE = 30_000;

/** Words of two to five syllables, the frequent ones short; index = rank. */
function vocabulary(): string[] {
  const random = seeded(1);
  const words = new Set<string>();
  while (words.size < VOCABULARY_SIZE) {
    const syllables = 2 + Math.floor(Math.log2(1 + words.size / 200) / 2.5);
    let word = "";
    for (let i = 0; i < syllables + (random() < 0.3 ? 1 : 0); i++)
      word += SYLLABLES[Math.floor(random() * SYLLABLES.length)];
    words.add(word);
  }
  return [...words];
}

export interface Words {
  random: () => number;
  /** Words of about `bytes` bytes in all, frequencies falling with rank as in real text (Zipf). */
  text(bytes: number): string;
}

const WORDS = vocabulary();

/** The word of a rank from 0: of a text, it is about every 10.3 × (rank + 1)th word. */
export const wordAt = (rank: number): string => WORDS[rank] ?? "the";

export function words(seed: number): Words {
  const random = seeded(seed);
  const pick = (): string => WORDS[Math.floor(VOCABULARY_SIZE ** random()) - 1] ?? "the";
  return {
    random,
    text(bytes) {
      const parts: string[] = [];
      for (let length = 0; length < bytes; ) {
        const word = pick();
        parts.push(word);
        length += word.length + 1;
      }
      return parts.join(" ");
    },
  };
}

const wrap = (text: string): string => text.replace(/(.{60,72}) /g, "$1\r\n");

/** RFC 5322 messages of about `bytes` bytes, every one with its own Message-ID: text, or text with a binary attachment above 100 kB. */
export function messageMaker(seed: number, bytes: number, to: string): (n: number) => Buffer {
  const { text, random } = words(seed);
  const pool = Array.from({ length: 64 }, () => {
    if (bytes <= 100_000) return `Content-Type: text/plain; charset=utf-8\r\n\r\n${wrap(text(bytes - 400))}\r\n`;
    const attachment = Buffer.from(
      Uint8Array.from({ length: Math.floor((bytes - 4_000) * 0.73) }, () => random() * 256),
    );
    return [
      'Content-Type: multipart/mixed; boundary="b1"',
      "",
      "--b1",
      "Content-Type: text/plain; charset=utf-8",
      "",
      wrap(text(3_000)),
      "--b1",
      "Content-Type: application/octet-stream",
      'Content-Disposition: attachment; filename="data.bin"',
      "Content-Transfer-Encoding: base64",
      "",
      attachment.toString("base64").replace(/(.{76})/g, "$1\r\n"),
      "--b1--",
      "",
    ].join("\r\n");
  });
  return (n) =>
    Buffer.from(
      [
        `From: Sender ${n % 97} <sender${n % 97}@remote.example>`,
        `To: <${to}>`,
        `Subject: ${WORDS[n % 5_000]} ${WORDS[(n * 7) % 9_000]} ${n}`,
        `Message-ID: <${seed}.${n}@remote.example>`,
        `Date: ${new Date(Date.UTC(2026, 0, 1) + (n % 100_000) * 60_000).toUTCString()}`,
        "MIME-Version: 1.0",
        pool[n % pool.length],
      ].join("\r\n"),
    );
}

/** Writes an mbox of so many messages. Its lines end in LF. */
export async function writeMbox(path: string, messages: number, make: (n: number) => Buffer): Promise<void> {
  const file = createWriteStream(path);
  for (let n = 0; n < messages; n++) {
    const text = make(n).toString("latin1").replaceAll("\r\n", "\n");
    const isTaken = file.write(`From sender@remote.example Thu Jan  1 00:00:00 2026\n${text}\n`, "latin1");
    if (!isTaken) await new Promise((resolve) => file.once("drain", resolve));
  }
  await new Promise((resolve) => file.end(resolve));
}
