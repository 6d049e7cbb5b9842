/** Extracting the text of a PDF of 100 pages in its worker, with the worker's start and without. */
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { createParserPool } from "../../src/workers/parser-pool.ts";
import { pdf } from "../harness/mail/documents.ts";
import { folder, median, print } from "./figures.ts";
import { words } from "./generator.ts";

const PAGES = 100;
const LINES = 50;
const LINE = 78;
const ROUNDS = 9;

export async function documents(): Promise<void> {
  const { text } = words(11);
  const line = (n: number): string => `1 0 0 1 50 ${780 - 14 * n} Tm (${text(LINE).replace(/[()\\]/g, "")}) Tj`;
  const page = (): string => `BT /F1 9 Tf ${Array.from({ length: LINES }, (_, n) => line(n)).join(" ")} ET`;
  const bytes = pdf(Array.from({ length: PAGES }, page));
  const runtime = systemRuntime();
  const log = createLog("warn", runtime.now, () => {});
  const pool = createParserPool({
    blobFolder: join(folder, "documents"),
    names: createDnsCache(runtime),
    runtime,
    log,
  });
  const taken: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const began = performance.now();
    const hints = { filename: "a.pdf", contentType: "application/pdf" };
    const found = await pool.readDocument("usr_1", bytes.slice(), bytes.byteLength, hints);
    taken.push(performance.now() - began);
    if (!found || "failure" in found || found.text.length < PAGES * LINES * LINE * 0.9) throw new Error("no text");
  }
  const what = `text of a PDF of ${PAGES} pages and ${PAGES * LINES * LINE} characters`;
  print({ figure: `${what}, with its worker's start`, value: taken[0] as number, unit: "ms", toReach: "2000" });
  print({ figure: `${what}, median of ${ROUNDS}`, value: median(taken.slice(1)), unit: "ms", toReach: "2000" });
  print({ figure: "the same, the longest", value: Math.max(...taken.slice(1)), unit: "ms" });
  pool.stop();
}
