/** How to leave the mailing list that a message came by (RFC 2369 §3.2, RFC 8058). */
import type { ListUnsubscribe } from "./message-schemas.ts";

/** How a person leaves the list, the most certain way first. */
export type WayToLeave =
  /** A POST (RFC 8058). */
  | { by: "post"; url: string }
  /** A message (RFC 6068). */
  | { by: "mail"; to: string; subject: string; body: string }
  /** A page, where they answer its questions. */
  | { by: "link"; url: string };

const MOST_URLS = 10;
const LONGEST_URL = 2_000;
const SCHEME = /^(?:https?:\/\/|mailto:)/i;

/**
 * Reads the URLs for leaving a list; undefined for a message that names none. The sender chose the URLs, and they may lead
 * anywhere.
 */
export function readListUnsubscribe(
  headers: readonly (readonly [name: string, value: string])[],
): ListUnsubscribe | undefined {
  const fieldNamed = (name: string): string =>
    headers.find(([field]) => field.toLowerCase() === name)?.[1].slice(0, MOST_URLS * LONGEST_URL) ?? "";
  const urls = [...fieldNamed("list-unsubscribe").matchAll(/<([^<>]*)>/g)]
    .map(([, url = ""]) => url.replace(/\s/g, ""))
    .filter((url) => SCHEME.test(url) && url.length <= LONGEST_URL && URL.canParse(url))
    .slice(0, MOST_URLS);
  if (urls.length === 0) return undefined;
  const oneClick =
    urls.some((url) => /^https:/i.test(url)) &&
    /^list-unsubscribe=one-click$/i.test(fieldNamed("list-unsubscribe-post").trim());
  return { urls, oneClick };
}

/** Longest subject and body of a message that leaves a list, in characters. */
const LONGEST_SUBJECT = 200;
const LONGEST_BODY = 2_000;
const LONGEST_NAME = 300;

/** `isSigned`: a signature covers both fields (RFC 8058 §4). Undefined for a message that names no way. */
export function chooseUnsubscribeWay(
  headers: readonly (readonly [name: string, value: string])[],
  isSigned: boolean,
): WayToLeave | undefined {
  const { urls = [], oneClick = false } = readListUnsubscribe(headers) ?? {};
  const secure = urls.find((url) => /^https:/i.test(url));
  if (oneClick && isSigned && secure !== undefined) return { by: "post", url: secure };
  for (const url of urls) {
    const message = /^mailto:/i.test(url) ? parseMailtoUrl(url) : undefined;
    if (message) return { by: "mail", ...message };
  }
  const page = secure ?? urls.find((url) => /^http:/i.test(url));
  return page === undefined ? undefined : { by: "link", url: page };
}

/** Reads the first address, subject and body (RFC 6068 §2); other fields are left out. */
function parseMailtoUrl(url: string): { to: string; subject: string; body: string } | undefined {
  const { pathname, searchParams } = new URL(url.replaceAll("+", "%2B"));
  const to = decoded(pathname).split(",")[0]?.trim() ?? "";
  if (!/^[^\s<>"(),:;@]+@[^\s<>"(),:;@]+$/.test(to)) return undefined;
  const fieldNamed = (name: string): string =>
    [...searchParams].find(([field]) => field.toLowerCase() === name)?.[1].toWellFormed() ?? "";
  return {
    to,
    subject:
      fieldNamed("subject")
        .replace(/[\s\p{Cc}]+/gu, " ")
        .trim()
        .slice(0, LONGEST_SUBJECT) || "unsubscribe",
    body:
      fieldNamed("body")
        .replace(/[^\P{Cc}\n\t]+/gu, "")
        .trim()
        .slice(0, LONGEST_BODY) || "unsubscribe",
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** The name that identifies a mailing list, in lower case: its List-Id (RFC 2919), or the address of the sender. */
export function mailingListId(headers: readonly (readonly [name: string, value: string])[], sender: string): string {
  const id = headers.find(([name]) => name.toLowerCase() === "list-id")?.[1] ?? "";
  const named = /<([^<>]+)>\s*$/.exec(id)?.[1] ?? "";
  return (named.trim() || sender).toLowerCase().slice(0, LONGEST_NAME);
}
