/** Reads the answers of other servers, which may be of any length, or none of what they should be. */

/** Bytes of an answer that is a few fields. */
export const SHORT_ANSWER = 1024 * 1024;

/** Characters of what another server says that people are told. */
const LONGEST_SENTENCE = 1_000;

/**
 * Makes one line of what another server says, for people: of `most` characters, without any that act on a terminal or
 * change how others are shown. Empty for a value that is no text.
 */
export const toShownSentence = (said: unknown, most = LONGEST_SENTENCE): string =>
  typeof said === "string"
    ? said
        .slice(0, most)
        .replace(/[\s\p{C}]+/gu, " ")
        .trim()
    : "";

/**
 * Reads the body of an answer as UTF-8, decompressed where `fetch` did that. `fatal`: other octets are a fault. @throws Error for
 * more than `most` bytes, with the connection closed; TypeError of `fatal`
 */
export async function readResponseText(response: Response, most: number, { fatal = false } = {}): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop cancels the body.
  for await (const part of response.body ?? []) {
    size += part.byteLength;
    if (size > most) throw new Error(`it has more than ${most} bytes`);
    parts.push(part);
  }
  return new TextDecoder("utf-8", { fatal }).decode(Buffer.concat(parts));
}
