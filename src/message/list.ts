/** How to leave the mailing list that a message came by (RFC 2369 §3.2, RFC 8058). */

export interface ListUnsubscribe {
  /** In the order of the field, which is the sender's preference. */
  urls: string[];
  /** A POST to the first https: URL leaves the list (RFC 8058 §3.1). */
  oneClick: boolean;
}

const MOST_URLS = 10;
const LONGEST_URL = 2_000;
const SCHEME = /^(?:https?:\/\/|mailto:)/i;

/** Undefined for a message that names no URL. Its sender chose the URLs, and they may lead anywhere. */
export function listUnsubscribeOf(
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
