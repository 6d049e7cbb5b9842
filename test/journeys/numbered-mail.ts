/** Messages by number, each with a file that no other has, for tests that compare what was taken with what is served. */
import { createHash } from "node:crypto";

/** The file of a message: 64 bytes. */
export const attachmentOf = (n: string): Buffer => createHash("sha512").update(n).digest();

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
