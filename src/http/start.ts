/**
 * Which listeners serve the app (rules: Listeners): the one for HTTP, or the one for HTTPS, and
 * then that for HTTP sends everybody there.
 */
import type { Certificates } from "../tls/certificates.ts";
import { createHttpsServer } from "./https.ts";
import type { HttpListenerParts, HttpServer } from "./listener.ts";
import { createHttpServer, createRedirector, type HttpServerParts } from "./server.ts";

export interface StartParts
  extends Omit<HttpServerParts, "secure" | "challenge">,
    Pick<HttpListenerParts, "connections"> {
  http: HttpListenerParts["listen"] | "off";
  https: HttpListenerParts["listen"] | "off";
  /** Public origin. */
  baseUrl: string;
  /** There are some when `https` is on. */
  certificates: Certificates | undefined;
  /** Starts the listener that a variable asks for. Resolves with its `host:port`. */
  bound(variable: string, start: () => HttpServer | Promise<HttpServer>): Promise<string>;
}

/** Where they are, as `host:port`; `http` may be `off`, and `https` is not there then. */
export async function startHttp({
  http,
  https,
  baseUrl,
  certificates,
  bound,
  connections,
  ...rest
}: StartParts): Promise<{ http: string; https?: string }> {
  const parts = { ...rest, ...(certificates && { challenge: certificates.proof }) };
  if (https === "off" || !certificates) {
    if (http === "off") return { http };
    return { http: await bound("MAILROOM_HTTP", () => createHttpServer({ ...parts, connections, listen: http })) };
  }
  const { runtime, log } = parts;
  const address = await bound("MAILROOM_HTTPS", () =>
    createHttpsServer({
      ...{ listen: https, certificates, connections, runtime, log },
      behind: (place) => createHttpServer({ ...parts, ...place, secure: true }),
    }),
  );
  const target = originOver(baseUrl, address);
  if (target !== baseUrl) parts.log.warn("MAILROOM_BASE_URL is not https", { baseUrl, redirectingTo: target });
  if (http === "off") return { http, https: address };
  const plain = await bound("MAILROOM_HTTP", () => createRedirector({ ...parts, connections, listen: http, target }));
  return { http: plain, https: address };
}

/** The public origin; where that is not https, the same host at the port of the listener. */
function originOver(baseUrl: string, address: string): string {
  const url = new URL(baseUrl);
  return url.protocol === "https:" ? baseUrl : new URL(`https://${url.hostname}:${address.split(":").at(-1)}`).origin;
}
