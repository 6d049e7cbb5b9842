/** Hostile documents in the parsers that read them: memory is taken in moderation, and given back. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { documentMemory, parserMemory } from "../../src/base/memory.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { createParserPool } from "../../src/workers/parser-pool.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { docx, mapBomb, onePage, type PdfObject, paragraph, pdf, streamBomb } from "../harness/mail/documents.ts";
import { childMemory } from "../harness/memory.ts";
import { until } from "../harness/until.ts";

const runtime = systemRuntime();
const lines: string[] = [];
const log = createLog("warn", runtime.now, (line) => lines.push(line));
const pool = createParserPool({ blobFolder: temporaryFolder(), names: createDnsCache(runtime), runtime, log });
afterAll(() => pool.stop());

const MB = 1024 * 1024;
const read = (bytes: Uint8Array) =>
  pool.readDocument("usr_1", bytes, bytes.byteLength, { filename: "a.pdf", contentType: "application/pdf" });

test.each([
  ["a stream that unpacks to four gigabytes", streamBomb],
  ["a font that maps billions of characters", mapBomb],
])(
  "%s ends its parser, and its memory with it",
  async (_, make) => {
    const bytes = make();
    expect(await read(docx(paragraph("words")))).toEqual({ text: "words\n", notes: [] });
    const own = process.memoryUsage.rss();
    // Other tests of this process may have parsers, too.
    const before = childMemory();
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, childMemory());
    }, 10);
    const found = await read(bytes);
    clearInterval(watch);
    // A machine that is busy may reach the limit in time first.
    expect((found as { failure: string }).failure).toMatch(/^the document took too (much memory|long)$/);
    expect(lines.join().includes("parser replaced")).toBe(true);
    // What it takes between two looks, and until it has ended, comes to at most as much again.
    expect(peak - before).toBeLessThan(2 * parserMemory(documentMemory()));
    await until(() => childMemory() < before + 50 * MB);
    expect(process.memoryUsage.rss()).toBeLessThan(own + 100 * MB);
    expect(await read(docx(paragraph("words")))).toEqual({ text: "words\n", notes: [] });
  },
  120_000,
);

// The package takes time in proportion to the square of both.
test.each([
  ["states of drawing inside of each other", () => pdf([`BT (a) Tj ET ${"q ".repeat(200_000)}`])],
  ["objects without an end, in a broken file", () => Buffer.from(`%PDF-1.7\n${"1 0 obj\n<<".repeat(100_000)}`)],
])(
  "%s end with their parser",
  async (_, make) => {
    const found = await read(make());
    expect((found as { failure: string }).failure).toMatch(/^the document took too (long|much memory)$/);
    expect(await read(docx(paragraph("words")))).toEqual({ text: "words\n", notes: [] });
  },
  240_000,
);

test("forms that name each other, or themselves, end", async () => {
  const times = (name: number) => `/X${name} Do `.repeat(10);
  const form = (own: number, next: number): PdfObject => ({
    dictionary: `/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X${own + 1} ${next} 0 R >> >>`,
    stream: times(own + 1),
  });
  const inTurn = onePage({ dictionary: "", stream: times(0) }, ...Array.from({ length: 12 }, (_, i) => form(i, 6 + i)));
  const ofItself = onePage({ dictionary: "", stream: times(0) }, form(0, 5));
  for (const bytes of [inTurn, ofItself]) expect(await read(bytes)).toEqual({ failure: expect.any(String) });
}, 60_000);

test("what a document leaves behind does not end the next one", async () => {
  // In a process of its own, because in a test each rejection that nobody handles is an error.
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "rejecting-documents.ts")], {
    stdout: "pipe",
    stderr: "inherit",
  });
  expect(await new Response(child.stdout).json()).toEqual(
    Array.from({ length: 3 }, () => ({ text: "words\n", notes: [] })),
  );
  expect(await child.exited).toBe(0);
}, 60_000);
