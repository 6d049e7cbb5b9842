/** What is filed of a message that no parser can read: nothing accepted is lost (contract: Arrival). */
import { createHash } from "node:crypto";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { SANITIZER_VERSION } from "../message/sanitize.ts";

/** A message of which only the bytes are known, already the blob named `blob`. `shownFrom`: an address, or "". */
export function originalOnly(bytes: Uint8Array, shownFrom: string, blob: string, problem: string): PreparedMessage {
  const text = "This message could not be read. It is attached as it came.";
  const contentType = "message/rfc822";
  return {
    headers: [],
    references: [],
    ...(shownFrom === "" ? {} : { from: { email: shownFrom } }),
    to: [],
    cc: [],
    bcc: [],
    replyTo: [],
    subject: "",
    subjectKey: "",
    isReply: false,
    text,
    snippet: text,
    sanitizer: SANITIZER_VERSION,
    attachments: [{ filename: "original.eml", contentType, size: bytes.byteLength, inline: false, blob }],
    size: bytes.byteLength,
    fingerprint: createHash("sha256").update(bytes).digest("hex"),
    index: { subject: "", body: "", sender: "", recipients: "", files: "" },
    problem,
  };
}
