/** Documents in the parsers that read them. Limits in time are tested in dispatcher.test.ts. */
import { afterAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { createParserPool } from "../../src/workers/parser-pool.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { docx, pagesOfText, paragraph, pdf } from "../harness/mail/documents.ts";
import { childCpu } from "../harness/memory.ts";

const runtime = systemRuntime();
const pool = createParserPool({
  blobFolder: temporaryFolder(),
  names: createDnsCache(runtime),
  runtime,
  log: createLog("error", runtime.now, () => {}),
});
afterAll(() => pool.stop());

const read = (source: Uint8Array | string, size: number) =>
  pool.readDocument("usr_1", source, size, { filename: "a", contentType: "application/octet-stream" });

test("a document is read from its file or from bytes; what is none gives nothing", async () => {
  const bytes = docx(paragraph("words"));
  const path = join(temporaryFolder(), "file");
  writeFileSync(path, bytes);
  expect(await read(path, bytes.byteLength)).toEqual({ text: "words\n", notes: [] });
  expect(await read(bytes, bytes.byteLength)).toEqual({ text: "words\n", notes: [] });
  expect(await read(Buffer.from("plain text"), 10)).toBeUndefined();
});

test("a file that is gone is a failure of ours, and the next document is read", async () => {
  expect(await read("/nowhere/file", 10).catch(({ code }) => code)).toBe("ENOENT");
  expect(await read(docx(paragraph("words")), 10)).toEqual({ text: "words\n", notes: [] });
});

test("a PDF of 100 pages has its text within two seconds of work", async () => {
  const bytes = pdf(pagesOfText(100));
  let work = 0;
  let text = "";
  // The first time a parser starts, and loads pdf.js. While other programs are busy, the time is over before the last page.
  for (let tries = 0; tries < 10 && (tries < 2 || !text.includes("--- page 100 of 100 ---")); tries++) {
    const begun = childCpu();
    const found = await read(bytes, bytes.byteLength);
    text = found && "text" in found ? found.text : "";
    work = childCpu() - begun;
  }
  expect(text).toContain("--- page 100 of 100 ---");
  expect(work).toBeWithin(1, 2_000);
}, 60_000);

/** The files below src that a file imports when it is loaded, directly or not. Imports of types do not count. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const src = join(import.meta.dir, "../../src");
  const code = readFileSync(join(src, file), "utf8");
  for (const [, path = ""] of code.matchAll(/^(?:import|export) (?!type )[^;]*?"(\.[^"]+\.ts)"/gm)) {
    loadedBy(relative(src, join(src, dirname(file), path)), seen);
  }
  return seen;
}

test("neither the server nor the parsers load the readers of documents before there is one", () => {
  for (const entry of ["cli/cli.ts", "workers/parser.ts"]) {
    const loaded = loadedBy(entry);
    expect(loaded.size).toBeGreaterThan(40);
    expect([...loaded].filter((file) => file.startsWith("documents/") && file !== "documents/kind.ts")).toEqual([]);
  }
  expect([...loadedBy("workers/document-jobs.ts")]).toContain("documents/document-text.ts");
  expect([...loadedBy("workers/document-jobs.ts")]).not.toContain("documents/pdf.ts");
});

test("a parser loads neither the command line nor the server", () => {
  const loaded = [...loadedBy("main.ts"), ...loadedBy("workers/parser.ts")];
  expect(loaded.filter((file) => /^(?:cli|api|http|operations|appliance)/.test(file))).toEqual([]);
});
