/** The answer with a document of message/frame.ts, which says why it is safe, and which a worker makes. */
import { readValue } from "../message/frame.ts";
import { FRAME_SANDBOX } from "../message/frame-sandbox.ts";

export const FRAME_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": [
    "default-src 'none'",
    "img-src 'self' data:",
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
    `sandbox ${FRAME_SANDBOX}`,
  ].join("; "),
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-dns-prefetch-control": "off",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** A document whose remote images have their addresses between NULs, with what `addressOf` makes of these. */
export const withAddresses = (document: string, addressOf: (url: string) => string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: mail has none (message/sanitize.ts)
  document.replace(/\u0000([^\u0000]*)\u0000/g, (_, url: string) =>
    addressOf(readValue(url)).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;"),
  );
