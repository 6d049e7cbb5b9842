/**
 * Reads three documents, as a program, in a parser in which each leaves a rejection behind that nobody handles, as pdf.js
 * does. Prints what they gave.
 */
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { createParserPool } from "../../src/workers/parser-pool.ts";
import { docx, paragraph } from "../harness/mail/documents.ts";
import { parsersOf } from "../harness/servers/parser.ts";

const runtime = systemRuntime();
const pool = createParserPool({
  blobFolder: "none",
  names: createDnsCache(runtime),
  runtime,
  log: createLog("warn", runtime.now, (line) => process.stderr.write(line)),
  start: parsersOf("./rejecting-parser.ts"),
});
const bytes = docx(paragraph("words"));
const hints = { filename: "a", contentType: "application/octet-stream" };
const found: unknown[] = [];
for (let i = 0; i < 3; i++) found.push(await pool.readDocument("usr_1", bytes, bytes.byteLength, hints));
process.stdout.write(JSON.stringify(found));
pool.stop();
