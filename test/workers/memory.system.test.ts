/** The memory of a parser that has read a large message. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startParser } from "../../src/workers/parser-process.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { LARGE_MAIL } from "../harness/mail/large-mail.ts";

const MB = 1024 * 1024;

test("is given back before the server takes some for the result", async () => {
  const folder = temporaryFolder();
  const [source, reply] = [join(folder, "message"), join(folder, "reply")];
  writeFileSync(source, `From: a@b.example\r\nMIME-Version: 1.0\r\n${LARGE_MAIL["one HTML part"]?.()}`);
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  let peak = 0;
  const parser = startParser({
    heard(message) {
      if ("ready" in (message as object)) parser.send({ id: 1, source, reply, blobFolder: folder });
      else resolve(parser.memory());
    },
    ended: (how) => reject(new Error(how)),
  });
  const watch = setInterval(() => {
    peak = Math.max(peak, parser.memory() ?? 0);
  }, 10);
  const left = await promise;
  clearInterval(watch);
  parser.kill();
  expect(peak).toBeGreaterThan(250 * MB);
  expect(left).toBeLessThan(150 * MB);
}, 120_000);
