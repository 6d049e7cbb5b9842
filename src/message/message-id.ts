/**
 * Reads message identifiers (RFC 5322 §3.6.4) from Message-ID, In-Reply-To and References. All are returned with their
 * angle brackets.
 */
import { cleanText } from "./charset.ts";

/** Most identifiers kept of a References header: the root and the newest ones. */
const MAX_REFERENCES = 100;
const MAX_LENGTH = 998;

/** The first identifier of a header value; undefined when there is none. */
export function firstMessageId(value: string): string | undefined {
  for (const id of identifiersIn(value)) return id;
  return undefined;
}

/** The identifiers of a References value: oldest first, without duplicates, at most 100. */
export function referencesOf(value: string): string[] {
  const found = new Set(identifiersIn(value));
  const ids = [...found];
  return ids.length <= MAX_REFERENCES ? ids : [...ids.slice(0, 1), ...ids.slice(1 - MAX_REFERENCES)];
}

/** Mailers that omit the brackets still write one word with an @. */
function* identifiersIn(value: string): Generator<string> {
  const text = cleanText(value);
  if (text.includes("<")) {
    for (const [, content = ""] of text.matchAll(/<([^<>]*)>?/g)) {
      const id = content.replace(/\s+/g, "");
      if (id !== "" && id.length < MAX_LENGTH) yield `<${id}>`;
    }
    return;
  }
  for (const word of text.split(/[\s,]+/)) {
    const id = word.replace(/>$/, "");
    if (id.includes("@") && id.length < MAX_LENGTH) yield `<${id}>`;
  }
}
