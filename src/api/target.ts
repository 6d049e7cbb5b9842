/**
 * The parts of a request's URL as Bun gives it, unescaped as they came. Without parsing the whole URL: every request
 * asks, and most have no more than a path.
 */

/** From the path on. Bun gives a URL without origin where the Host header names no host. */
const targetOf = (url: string): string =>
  url.startsWith("/") ? url : url.slice(url.indexOf("/", url.indexOf("//") + 2));

/** Without query and fragment. */
export const pathOf = (url: string): string => targetOf(url).replace(/[?#].*$/s, "");

/** After the first `?`, without the fragment; empty when there is none. */
export function queryOf(url: string): string {
  const start = url.indexOf("?");
  return start < 0 ? "" : url.slice(start + 1).replace(/#.*$/s, "");
}
