/**
 * Redirect URIs: which ones a client may register, which request matches a registered one, and the address that leads
 * back to the client. Pure.
 */

const LONGEST = 2_048;
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * Schemes on which browsers or systems act themselves, so that they lead to no program of the client's: they run or show what
 * stands behind them, open settings, files, shops, calls and other connections.
 */
const RESERVED: ReadonlySet<string> = new Set(
  `about afp android-app app-prefs blob brave callto chrome cid content data devtools edge facetime facetime-audio feed feeds file
  filesystem ftp ftps geo gopher hcp help intent irc ircs isolated-app itms itms-apps itms-services its jar javascript ldap ldaps
  livescript magnet mailto market mhtml mid mk mms mocha moz-icon news nfs nntp opera pcast prefs readonly res resource rlogin rtsp
  search sftp shell sip sips sms smsto smb snews ssh tel telnet tn3270 unsafe urn vbs vbscript view-source vivaldi vnc webcal
  webcals wp wpa ws wss wyciwyg`.split(/\s+/),
);
const RESERVED_KINDS =
  /^(?:chrome|edge|ie|microsoft|moz|ms|search|web|windows|x-apple)[-.+]|[-.](?:extension|settings|systempreferences)$/;

/** Where a redirect leads to. `app`: whatever program took the scheme; `computer`: a program on the person's computer. */
export type RedirectTarget = { kind: "host" | "app" | "computer"; name: string };

const isLoopback = ({ protocol, hostname }: URL): boolean => protocol === "http:" && LOOPBACK.has(hostname);

/**
 * Where a redirect URI leads; undefined for one that no client may have: with a fragment or user name, over plain HTTP to
 * another computer, or with a scheme that a browser acts on.
 */
export function findRedirectTarget(uri: string): RedirectTarget | undefined {
  if (uri.length > LONGEST || !/^[\x21-\x7e]+$/.test(uri) || /[#\\]/.test(uri)) return undefined;
  const url = URL.parse(uri);
  if (url === null || url.username + url.password !== "") return undefined;
  const { protocol, host } = url;
  if (protocol === "https:") return { kind: "host", name: host };
  if (isLoopback(url)) return { kind: "computer", name: host };
  const scheme = protocol.slice(0, -1);
  if (scheme === "http" || RESERVED.has(scheme) || RESERVED_KINDS.test(scheme)) return undefined;
  return { kind: "app", name: `${scheme}:` };
}

/** True if a request may lead back to `asked`: exactly as registered, but for the port of a loopback address (RFC 8252 §7.3). */
export function isRegisteredRedirect(registered: readonly string[], asked: string): boolean {
  if (findRedirectTarget(asked) === undefined) return false;
  return registered.some(
    (uri) => uri === asked || (isLoopback(new URL(uri)) && withoutPort(uri) === withoutPort(asked)),
  );
}

/** The text is compared, so that two spellings of an address stay two. */
const withoutPort = (uri: string): string => uri.replace(/^(http:\/\/(?:\[[^\]]*\]|[^/:?]*)):\d+/, "$1");

/** The redirect URI with parameters added to its query (RFC 6749 §4.1.2). Absent values are left out. */
export function addUriParameters(uri: string, parameters: Record<string, string | undefined>): string {
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const separator = !uri.includes("?") ? "?" : /[?&]$/.test(uri) ? "" : "&";
  return uri + separator + new URLSearchParams(given);
}
