/** Opaque S/MIME as openssl writes it, in DER and, where it streams, in BER. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseMessage } from "../../src/message/parse.ts";
import { OPENSSL } from "../harness/clients/openssl.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { run } from "../harness/programs.ts";

const folder = temporaryFolder();
const at = (name: string) => join(folder, name);

/** A message that openssl makes of a MIME entity, read. */
async function made(...options: string[]) {
  const envelope = ["-from", "ann@a.example", "-to", "bob@b.example", "-subject", "Hi", "-out", at("mail")];
  const { exitCode, output } = await run([
    "openssl",
    ...options.slice(0, 2),
    "-in",
    at("entity"),
    ...envelope,
    ...options.slice(2),
  ]);
  if (exitCode !== 0) throw new Error(output);
  return parseMessage(readFileSync(at("mail")));
}

describe.skipIf(OPENSSL.absent)(`S/MIME of ${OPENSSL.named}`, () => {
  beforeAll(async () => {
    const request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=Ann"];
    await run(["openssl", ...request, "-keyout", at("key"), "-out", at("certificate")]);
    writeFileSync(at("entity"), "Content-Type: text/html; charset=utf-8\r\n\r\n<p>Grüße</p>\r\n");
  });

  const signer = ["-nodetach", "-signer", at("certificate"), "-inkey", at("key")];
  test.each<string[]>([
    ["smime", "-sign", ...signer],
    ["smime", "-sign", "-stream", ...signer],
    ["cms", "-sign", ...signer],
    ["cms", "-sign", "-stream", ...signer],
  ])("is shown when it is signed: %s %s %s", async (...options) => {
    const { text, html, attachments } = await made(...options);
    expect([text, html, attachments]).toEqual(["Grüße", "<p>Grüße</p>", []]);
  });

  test.each<string[]>([
    ["smime", "-encrypt", "-aes256", at("certificate")],
    ["cms", "-encrypt", "-stream", "-aes256", at("certificate")],
    ["cms", "-encrypt", "-aes-256-gcm", at("certificate")],
  ])("is a sentence and a file when it is encrypted: %s %s %s", async (...options) => {
    const { text, attachments } = await made(...options);
    expect(text).toContain("encrypted with S/MIME");
    expect(attachments.map(({ filename }) => filename)).toEqual(["smime.p7m"]);
  });
});
