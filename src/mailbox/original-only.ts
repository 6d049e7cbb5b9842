/** Files a message that no parser can read as its original alone (rules: Nothing lost). */

import { createHash } from "node:crypto";
import { authorsIn } from "../message/address.ts";
import { SANITIZER_VERSION } from "../message/sanitize.ts";
import { SEEN_VERSION } from "../message/seen.ts";
import { foldDocument } from "../search/fold.ts";
import type { PreparedMessage } from "./prepare.ts";

/** Prepares a message of which only the bytes are known, stored as `blob`. `reversePath`: "" for a bounce. */
export function originalOnly(bytes: Uint8Array, reversePath: string, blob: string, problem: string): PreparedMessage {
  const authors = authorsIn([`<${reversePath}>`]);
  const from = authors.emails.slice(0, 1).map((email) => ({ email }));
  const text = "This message could not be read. It is attached as it came.";
  const contentType = "message/rfc822";
  const filename = "original.eml";
  return {
    headers: [],
    references: [],
    ...(from[0] && { from: from[0] }),
    authors,
    to: [],
    cc: [],
    bcc: [],
    replyTo: [],
    subject: "",
    subjectKey: "",
    isReply: false,
    text,
    snippet: text,
    seenHidden: 0,
    seenVersion: SEEN_VERSION,
    sanitizer: SANITIZER_VERSION,
    attachments: [{ filename, contentType, size: bytes.byteLength, inline: false, blob }],
    size: bytes.byteLength,
    fingerprint: createHash("sha256").update(bytes).digest("hex"),
    index: foldDocument({ subject: "", text, from, to: [], cc: [], filenames: [filename] }),
    problem,
  };
}
