/** Cutting mbox files of every dialect into messages. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { OWN_FILES, readPieces } from "../../src/store/named-files.ts";
import { type MboxMessage, readMbox } from "../../src/transfer/mbox.ts";
import { temporaryFolder } from "../harness/folder.ts";

const DATE = "Thu Jan  1 00:00:00 2026";

async function read(content: string | Uint8Array, mostBytes = 1_000_000): Promise<MboxMessage[]> {
  const path = join(temporaryFolder(), "mail.mbox");
  writeFileSync(path, typeof content === "string" ? Buffer.from(content, "latin1") : content);
  const file = await OWN_FILES.open(path);
  try {
    return await Array.fromAsync(readMbox({ ...file, pieces: () => readPieces(file) }, mostBytes));
  } finally {
    await file.close();
  }
}

const contents = async (content: string | Uint8Array, mostBytes?: number): Promise<string[]> =>
  (await read(content, mostBytes)).map((message) => message.content.toString("latin1"));

const cases: [what: string, mbox: string, messages: string[]][] = [
  [
    "two messages",
    `From a@x ${DATE}\nA: 1\n\none\n\nFrom b@x ${DATE}\nB: 2\n\ntwo\n`,
    ["A: 1\n\none\n", "B: 2\n\ntwo\n"],
  ],
  ["no line break at the end", `From a@x ${DATE}\nA: 1\n\none`, ["A: 1\n\none"]],
  ["an empty line at the end", `From a@x ${DATE}\nA: 1\n\none\n\n`, ["A: 1\n\none\n"]],
  ["empty lines before the first", `\n\nFrom a@x ${DATE}\nA: 1\n\none\n`, ["A: 1\n\none\n"]],
  [
    "CRLF",
    `From a@x ${DATE}\r\nA: 1\r\n\r\none\r\n\r\nFrom b@x ${DATE}\r\nB: 2\r\n\r\ntwo\r\n`,
    ["A: 1\r\n\r\none\r\n", "B: 2\r\n\r\ntwo\r\n"],
  ],
  [
    "quoted lines stay quoted",
    `From a@x ${DATE}\nA: 1\n\n>From me\n\n>>From you\n`,
    ["A: 1\n\n>From me\n\n>>From you\n"],
  ],
  [
    "text that begins with From, forgotten to quote",
    `From a@x ${DATE}\nA: 1\n\none\n\nFrom here to there: it is far.\n\nso\n`,
    ["A: 1\n\none\n\nFrom here to there: it is far.\n\nso\n"],
  ],
  [
    "a From line in the text, without an empty line before",
    `From a@x ${DATE}\nA: 1\n\none\nFrom b@x ${DATE}\nB: 2\n`,
    [`A: 1\n\none\nFrom b@x ${DATE}\nB: 2\n`],
  ],
  [
    "a dated line, but no header under it",
    `From a@x ${DATE}\nA: 1\n\none\n\nFrom b@x ${DATE}\nwe know this.\n`,
    [`A: 1\n\none\n\nFrom b@x ${DATE}\nwe know this.\n`],
  ],
  [
    "messages without a body, and without anything",
    `From a@x ${DATE}\nA: 1\n\nFrom b@x ${DATE}\n\nFrom c@x ${DATE}\nC: 3\n`,
    ["A: 1\n", "", "C: 3\n"],
  ],
  ["From lines without a date", "From a@x\nA: 1\n\none\n\nFrom b@x\nB: 2\n\ntwo\n", ["A: 1\n\none\n", "B: 2\n\ntwo\n"]],
  [
    "Gmail's From line",
    "From 123@xxx Mon Jan 05 08:00:00 +0000 2026\nA: 1\n\none\n\nFrom 124@xxx Mon Jan 05 08:00:00 +0000 2026\nB: 2\n",
    ["A: 1\n\none\n", "B: 2\n"],
  ],
  [
    "Thunderbird's",
    "From - Mon Jan 05 08:00:00 2026\nA: 1\n\none\n\nFrom - Mon Jan 05 08:00:00 2026\nB: 2\n",
    ["A: 1\n\none\n", "B: 2\n"],
  ],
  [
    "a Content-Length over an unquoted From line",
    `From a@x ${DATE}\nContent-Length: ${39 + DATE.length}\n\none\n\nFrom b@x ${DATE}\nB: 2\n\nnot a message yet\n\nFrom c@x ${DATE}\nContent-Length: 2\n\nC\n`,
    [
      `Content-Length: ${39 + DATE.length}\n\none\n\nFrom b@x ${DATE}\nB: 2\n\nnot a message yet\n`,
      "Content-Length: 2\n\nC\n",
    ],
  ],
  [
    "a Content-Length that is a lie",
    `From a@x ${DATE}\nContent-Length: 9\n\none\n\nFrom b@x ${DATE}\nContent-Length: 99999\n\ntwo\n`,
    ["Content-Length: 9\n\none\n", "Content-Length: 99999\n\ntwo\n"],
  ],
  [
    "a Content-Length of a sender's, where the file has none",
    `From a@x ${DATE}\nA: 1\n\none\n\nFrom b@x ${DATE}\nContent-Length: ${25 + DATE.length}\n\ntwo\n\nFrom c@x ${DATE}\nC: 3\n\nhid\n`,
    ["A: 1\n\none\n", `Content-Length: ${25 + DATE.length}\n\ntwo\n`, "C: 3\n\nhid\n"],
  ],
];

describe("dialects", () => {
  for (const [what, mbox, messages] of cases) {
    test(what, async () => {
      expect(await contents(mbox)).toEqual(messages);
    });
  }
});

test("a gzipped file gives the same messages", async () => {
  const [, mbox, messages] = cases[0] as (typeof cases)[number];
  expect(await contents(Bun.gzipSync(Buffer.from(mbox)))).toEqual(messages);
});

test("a gzip file that breaks off gives the messages it has, then fails", async () => {
  const whole = Bun.gzipSync(Buffer.from(`From a@x ${DATE}\nA: 1\n\n${"one\n".repeat(50_000)}\n`));
  expect(read(whole.subarray(0, whole.byteLength / 2))).rejects.toThrow();
});

test("each message has its offset and its From line", async () => {
  const first = `From a@x ${DATE}\nA: 1\n\none\n\n`;
  expect(await read(`${first}From b@x ${DATE}\nB: 2\n`)).toMatchObject([
    { offset: 0, fromLine: `From a@x ${DATE}` },
    { offset: first.length, fromLine: `From b@x ${DATE}` },
  ]);
});

test("a message that is too large is cut, and the next is whole", async () => {
  const line = "x".repeat(3_000_000);
  const [large, next, ...none] = await read(`From a@x ${DATE}\nA: 1\n\n${line}\n\nFrom b@x ${DATE}\nB: 2\n`, 1_000);
  expect(large?.content.byteLength).toBe(1_000);
  expect(large?.size).toBeGreaterThan(3_000_000);
  expect(next?.content.toString()).toBe("B: 2\n");
  expect(none).toEqual([]);
});

test("a file of one endless line is not held in memory as one", async () => {
  const [message] = await read(`From x${"y".repeat(3_000_000)}`, 1_000);
  expect(message?.fromLine).toHaveLength(1_000);
  expect([message?.content.byteLength, message?.size]).toEqual([1_000, 2_999_006]);
});

test("the messages do not depend on where a piece of the file ends", async () => {
  const bodies = fc.array(
    fc.tuple(fc.integer({ min: 0, max: 300_000 }), fc.constantFrom("", "\n", ">From x\n", "From x\n", "\nFrom x y\n")),
    { minLength: 1, maxLength: 4 },
  );
  await fc.assert(
    fc.asyncProperty(bodies, fc.constantFrom("\n", "\r\n"), async (parts, eol) => {
      const messages = parts.map(([length, more], i) => `M: ${i}\n\n${"y".repeat(length)}\n${more}end\n`);
      const mbox = messages.map((message) => `From a@x ${DATE}\n${message}\n`).join("");
      const found = await contents(mbox.replaceAll("\n", eol));
      expect(found).toEqual(messages.map((message) => message.replaceAll("\n", eol)));
    }),
    { numRuns: 25 },
  );
});
