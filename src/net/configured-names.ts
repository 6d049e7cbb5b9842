/**
 * Names of servers that the operator configures, such as those of S3 and Meilisearch. /etc/hosts goes first, as in other
 * programs of the machine, and then the DNS client. Names that strangers choose never get here: destination.ts resolves them.
 */
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import type { Runtime } from "../base/runtime.ts";
import { createDnsCache, isDnsAbsence } from "./dns-cache.ts";
import { isLoopbackName, LOOPBACK } from "./host-addresses.ts";
import { errorCode, NO_CONNECTION } from "./http-client.ts";

/** Gives the addresses of a host, IPv4 first. Rejects when there are none, or DNS fails. */
type AddressesOf = (host: string) => Promise<string[]>;

/** `hostsFile`: hosts(5). */
export function createConfiguredHostLookup(
  runtime: Pick<Runtime, "dns" | "now">,
  hostsFile = "/etc/hosts",
): AddressesOf {
  const cache = createDnsCache(runtime);
  return async (host) => {
    const name = host.toLowerCase().replace(/\.$/, "");
    if (isIP(name)) return [name];
    if (isLoopbackName(name)) return LOOPBACK;
    const listed = addressesIn(await readFile(hostsFile, "utf8").catch(() => ""), name);
    if (listed.length > 0) return listed;
    const answers = await Promise.all([cache.ask(name, "A"), cache.ask(name, "AAAA")]);
    const addresses = answers.flatMap((answer) => ("records" in answer ? answer.records.map(String) : []));
    if (addresses.length > 0) return addresses;
    const codes = answers.map((answer) => ("code" in answer ? answer.code : "ENODATA"));
    const failed = codes.find((code) => !isDnsAbsence(code));
    throw new Error(failed ? `DNS gave no answer for ${name} (${failed})` : `${name} has no address`);
  };
}

/**
 * Makes Bun's fetch connect to addresses that `resolveHost` gives: it gets an address in the place of a name, and the name for the Host
 * field and for TLS. When an address does not take the connection, the next is tried.
 */
export function fetchByName(given: typeof fetch, resolveHost: AddressesOf): typeof fetch {
  const fetchAt = given as (input: string | Request, init: BunFetchRequestInit) => Promise<Response>;

  async function fetchNamed(input: string | URL | Request, init: BunFetchRequestInit = {}): Promise<Response> {
    const isRequest = input instanceof Request;
    const url = new URL(isRequest ? input.url : input);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (init.unix !== undefined || isIP(host) !== 0) return fetchAt(isRequest ? input : url.href, init);
    const headers = new Headers(init.headers ?? (isRequest ? input.headers : undefined));
    headers.set("host", url.host);
    const named = { ...init, headers, tls: { ...init.tls, serverName: host.replace(/\.$/, "") } };
    const addresses = await unlessAborted(resolveHost(host), init.signal);
    for (let turn = 0; ; turn++) {
      const address = addresses[turn] ?? "";
      const target = new URL(url);
      target.hostname = address.includes(":") ? `[${address}]` : address;
      try {
        // A request serves as the init of another, though its type does not say so.
        const again = isRequest && new Request(target.href, input.clone() as unknown as RequestInit);
        return await fetchAt(again || target.href, named);
      } catch (error) {
        const isLast = turn + 1 >= addresses.length || init.body instanceof ReadableStream;
        if (isLast || !NO_CONNECTION.has(errorCode(error) ?? "")) throw error;
      }
    }
  }
  return fetchNamed as typeof fetch;
}

/** The addresses that a text of hosts(5) has for a name, in lower case. */
function addressesIn(text: string, name: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return names.includes(name) && isIP(address) !== 0 ? [address] : [];
  });
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return work;
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  return Promise.race([work, aborted.promise]).finally(() => signal.removeEventListener("abort", abort));
}
