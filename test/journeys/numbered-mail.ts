/** Messages by number, each with a file that no other has, for tests that compare what was taken with what is served. */
import { createHash } from "node:crypto";

/** The file of a message: 64 bytes. */
export const attachmentOf = (n: string): Buffer => createHash("sha512").update(n).digest();

/** True for every tenth message. Its octets are a file, because it has a long text before its parts, which no program shows. */
export const isLong = (n: string): boolean => n.endsWith("0");

const preambleOf = (n: string): string[] =>
  isLong(n) ? Array.from({ length: 1_200 }, (_, i) => createHash("sha512").update(`${n} ${i}`).digest("hex")) : [];

/** A message to owner@example.test. */
export const messageOf = (n: string): string =>
  [
    "From: carol@remote.example",
    "To: owner@example.test",
    `Subject: crash ${n}`,
    `Message-ID: <crash-${n}@remote.example>`,
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="b"',
    "",
    ...preambleOf(n),
    "--b",
    "Content-Type: text/plain",
    "",
    `body of ${n}`,
    "--b",
    "Content-Type: application/octet-stream",
    'Content-Disposition: attachment; filename="proof.bin"',
    "Content-Transfer-Encoding: base64",
    "",
    attachmentOf(n).toString("base64"),
    "--b--",
    "",
  ].join("\n");
