/**
 * Tells mail apps where the server is (rules: Settings of mail apps): Thunderbird and others by the configuration file
 * of draft-ietf-mailmaint-autoconfig, Outlook by Autodiscover (MS-OXDSCLI).
 *
 * Invariant: a response depends on the domain of an address alone, so it does not tell which addresses exist.
 */
import { createRateLimit } from "../access/rate.ts";
import { isHostedDomain } from "../admin/domains.ts";
import { methodNotAllowedResponse, READING } from "../api/methods.ts";
import { readBodyBytes, requestHost, urlQuery } from "../api/request.ts";
import { AppError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { normalizeAddress, splitAddress } from "../message/address.ts";
import { createXmlParser, OverBudget } from "../message/markup.ts";
import type { MailApps } from "../operations/operation.ts";
import type { Core } from "../store/core.ts";

/** Where apps ask, at `autoconfig.DOMAIN` and at the domain itself. */
const AUTOCONFIG: ReadonlySet<string> = new Set([
  "/mail/config-v1.1.xml",
  "/.well-known/autoconfig/mail/config-v1.1.xml",
  "/.well-known/mail-v1.xml",
]);
/** Tells whether Outlook asks there, which writes the path in several cases. */
export const isAutodiscover = (path: string): boolean => path.toLowerCase() === "/autodiscover/autodiscover.xml";

const OUTLOOK = "http://schemas.microsoft.com/exchange/autodiscover/outlook/responseschema/2006a";
const RESPONSE = "http://schemas.microsoft.com/exchange/autodiscover/responseschema/2006";

/** Requests of Outlook have some 400 bytes. */
const LARGEST_BODY = 8 * 1024;
/** A request has three elements inside each other. */
const DEEPEST = 8;

/** Responds to requests for settings, and to all for the hosts that serve only them; undefined for others. */
export type Discovery = (request: Request, path: string, peer: string | undefined) => Promise<Response | undefined>;

/** A listener that apps sign in to. */
interface Server {
  type: "imap" | "smtp";
  port: number;
  /** TLS from the start, else STARTTLS. */
  implicit: boolean;
}

const xml = (body: string, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(`<?xml version="1.0" encoding="UTF-8"?>\n${body}\n`, {
    status,
    headers: { "content-type": "text/xml; charset=utf-8", "x-content-type-options": "nosniff", ...headers },
  });

const plain = (body: string, status: number, headers: Record<string, string> = {}): Response =>
  new Response(`${body}\n`, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", ...headers },
  });

const element = (name: string, value: string | number): string => `<${name}>${Bun.escapeHTML(value)}</${name}>`;

export function createMailAppDiscovery(
  core: Core,
  mailApps: MailApps,
  readClientSource: (peer: string | undefined, forwardedFor: string | null) => string,
): Discovery {
  const { options, now, site } = core;
  const { host, imap, imaps, submission, submissions } = mailApps;
  const listed = [
    { type: "imap", port: imaps, implicit: true },
    { type: "imap", port: imap, implicit: false },
    { type: "smtp", port: submissions, implicit: true },
    { type: "smtp", port: submission, implicit: false },
  ] as const;
  /** Implicit TLS first (RFC 8314 §3). */
  const servers = listed.filter((server): server is typeof server & Server => server.port !== null);
  const isRead = servers.some(({ type }) => type === "imap");
  const sources = createRateLimit(
    () => options.get("api.ipRequestsPerMinute"),
    () => options.get("api.cooldownSeconds"),
  );

  /** The domain of an address, or else of the host; undefined for one without settings here. */
  function findServedDomain(request: Request, address: string | null | undefined): string | undefined {
    const normal = normalizeAddress(address ?? "");
    const domain = normal
      ? splitAddress(normal).domain
      : requestHost(request).replace(/^(autoconfig|autodiscover)\./, "");
    return isRead && isHostedDomain(core, domain) ? domain : undefined;
  }

  function autoconfig(request: Request): Response {
    const domain = findServedDomain(request, new URLSearchParams(urlQuery(request.url)).get("emailaddress"));
    if (domain === undefined) return plain("There are no settings for this domain here", 404);
    const described = servers.map(({ type, port, implicit }) => {
      const name = type === "imap" ? "incomingServer" : "outgoingServer";
      return `<${name} type="${type}">
${element("hostname", host)}
${element("port", port)}
${element("socketType", implicit ? "SSL" : "STARTTLS")}
<authentication>password-cleartext</authentication>
<username>%EMAILADDRESS%</username>
</${name}>`;
    });
    return xml(
      `<clientConfig version="1.1">
<emailProvider id="${Bun.escapeHTML(domain)}">
${element("domain", domain)}
${element("displayName", domain)}
${element("displayShortName", domain)}
${described.join("\n")}
<documentation url="${Bun.escapeHTML(`${site.baseUrl}/settings/app-passwords`)}">
<descr lang="en">App passwords, and these settings</descr>
</documentation>
</emailProvider>
</clientConfig>`,
      200,
      { "cache-control": "public, max-age=3600", "access-control-allow-origin": "*" },
    );
  }

  async function autodiscover(request: Request): Promise<Response> {
    const { address, schema } = request.method === "POST" ? await readRequest(request) : {};
    // Exchange's own protocols, which are asked for at the same URL.
    if (schema !== undefined && schema !== OUTLOOK) return refusal(601, "Only settings for IMAP and SMTP are here");
    const domain = findServedDomain(request, address);
    if (domain === undefined) return refusal(500, "There are no settings for this address here");
    const login = normalizeAddress(address ?? "");
    const described = (["imap", "smtp"] as const).flatMap((type) => {
      const server = servers.find((one) => one.type === type);
      return server ? formatProtocolElement(server, login) : [];
    });
    return xml(
      `<Autodiscover xmlns="${RESPONSE}">
<Response xmlns="${OUTLOOK}">
<Account>
<AccountType>email</AccountType>
<Action>settings</Action>
${described.join("\n")}
</Account>
</Response>
</Autodiscover>`,
      200,
      { "cache-control": "no-store" },
    );
  }

  const formatProtocolElement = ({ type, port, implicit }: Server, login: string | undefined): string =>
    [
      "<Protocol>",
      element("Type", type.toUpperCase()),
      element("Server", host),
      element("Port", port),
      ...(login === undefined ? [] : [element("LoginName", login)]),
      "<DomainRequired>off</DomainRequired>",
      "<SPA>off</SPA>",
      "<SSL>on</SSL>",
      element("Encryption", implicit ? "SSL" : "TLS"),
      "<AuthRequired>on</AuthRequired>",
      ...(type === "smtp" ? ["<UsePOPAuth>on</UsePOPAuth>", "<SMTPLast>off</SMTPLast>"] : []),
      "</Protocol>",
    ].join("\n");

  /** Codes of MS-OXDSCLI §2.2.4.1.1.3. */
  function refusal(code: number, message: string): Response {
    const time = toIsoTime(now()).slice(11, 19);
    return xml(
      `<Autodiscover xmlns="${RESPONSE}">
<Response>
<Error Time="${time}" Id="0">
${element("ErrorCode", code)}
${element("Message", message)}
<DebugData/>
</Error>
</Response>
</Autodiscover>`,
      200,
      { "cache-control": "no-store" },
    );
  }

  return async (request, path, peer) => {
    const isOutlook = isAutodiscover(path);
    if (!isOutlook && !AUTOCONFIG.has(path)) {
      const [, domain] = /^(?:autoconfig|autodiscover)\.(.+)$/.exec(requestHost(request)) ?? [];
      return domain !== undefined && isHostedDomain(core, domain) ? plain("Not found", 404) : undefined;
    }
    const { retryAfter } = sources.take(readClientSource(peer, request.headers.get("x-forwarded-for")), now());
    if (retryAfter !== undefined) {
      return plain("Too many requests from this address", 429, { "retry-after": String(retryAfter) });
    }
    const methods = isOutlook ? [...READING, "POST"] : READING;
    if (!methods.includes(request.method)) return methodNotAllowedResponse(methods);
    try {
      return isOutlook ? await autodiscover(request) : autoconfig(request);
    } catch (error) {
      if (error instanceof AppError) return plain(error.message, error.status, { "cache-control": "no-store" });
      throw error;
    }
  };
}

/** Reads the address and the schema that Outlook asks for. @throws AppError bad_request, payload_too_large */
async function readRequest(request: Request): Promise<{ address?: string; schema?: string }> {
  const found = new Map<string, string>();
  let name = "";
  const parser = createXmlParser(
    {
      open(opened) {
        name = opened;
      },
      text: (text) => void found.set(name, (found.get(name) ?? "") + text),
      close() {
        name = "";
      },
    },
    DEEPEST,
  );
  try {
    parser.write(new TextDecoder().decode(await readBodyBytes(request, LARGEST_BODY, () => {})));
    parser.end();
  } catch (error) {
    if (error instanceof OverBudget) throw new AppError("bad_request", "The body is no request of Autodiscover");
    throw error;
  }
  const address = found.get("EMailAddress")?.trim();
  const schema = found.get("AcceptableResponseSchema")?.trim();
  return { ...(address !== undefined && { address }), ...(schema !== undefined && { schema }) };
}
