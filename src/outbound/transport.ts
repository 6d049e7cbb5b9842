/**
 * Connects to other servers: to the MX hosts of a domain, or to the smarthost that takes all mail.
 *
 * TLS to MX hosts is opportunistic and their certificates are not checked (RFC 7435), unless their domain asks for more
 * (authentication/tls-policy.ts): an attacker who can redirect the connection can also forge the MX record that names the host,
 * most certificates there would not pass, and a strict client would only fall back to plain text. The operator names a
 * smarthost and gives its credentials: there TLS is required and its certificate checked, unless it is on this machine.
 *
 * Invariants: credentials are sent only over TLS to their own host, or to this machine; mail for a domain goes to public
 * addresses, or to those that smtp.allowNetworks lists (net/destination.ts).
 */
import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import type { TlsPolicies } from "../authentication/tls-policy.ts";
import type { Log } from "../base/log.ts";
import { awaitAtMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { whyAddressIsRefused } from "../net/destination.ts";
import { canonicalIpAddress } from "../net/ip.ts";
import { type ClientCredentials, openSmtpSession, type SmtpSession, type Transaction } from "../smtp/client.ts";
import type { TlsPolicy } from "../smtp/client-connection.ts";
import { asDeferred, DeliveryFailure, type DeliveryResult, toDeliveryResult } from "../smtp/delivery-result.ts";
import type { Options } from "../store/settings.ts";
import { createUnroutableFailure, findMailHosts, type MailHost, mailHost } from "./next-hop.ts";

export interface Connection {
  /** Name of the host it leads to. */
  readonly remote: string;
  /**
   * Sends a message. Resolves with one result for each recipient, in order; rejects only as `recode` does. Opens a new
   * connection when one that was used before turns out to be gone.
   */
  send(transaction: Transaction): Promise<DeliveryResult[]>;
  /** Tells whether another transaction may be sent over it. */
  usable(): boolean;
  /** Tells whether a message is being transmitted or its reply is awaited: ending the connection now might deliver it twice. */
  isTransmitting(): boolean;
  /** Sends QUIT. A transaction under way ends at once, and its recipients are deferred. */
  close(): void;
}

export type Transport = ReturnType<typeof createTransport>;

interface TransportParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "randomBytes" | "authorities">;
  /** Our own name. */
  hostname: string;
  options: Pick<Options, "get">;
  tlsPolicies: TlsPolicies;
  log: Log;
}

/** Most addresses tried in one attempt, and most hosts looked up: a domain may name thousands. */
const MOST_TRIES = 8;
const MOST_HOSTS = 16;
/** After this time, no further host or address is tried. */
const CONNECT_WITHIN_MS = 5 * 60_000;
const REMEMBER_MS = 60_000;
const ASK_MS = 10_000;

export interface Smarthost {
  host: string;
  port: number;
  credentials: ClientCredentials | undefined;
  tls: TlsPolicy;
}

/**
 * Reads the setting smtp.relay. The port, unless the URL has one: 465 for smtps (RFC 8314), for smtp 587 with credentials (RFC
 * 6409) and 25 without. Credentials are percent-encoded. The host has no final dot: TLS names it without (RFC 6066 §3).
 */
export function readSmarthost(setting: string): Smarthost {
  const url = new URL(setting);
  const bare = decode(url.hostname).replace(/^\[|\]$|\.$/g, "");
  const host = isIP(bare) ? bare : domainToASCII(bare);
  const credentials = url.username === "" ? undefined : { user: decode(url.username), pass: decode(url.password) };
  const isHere = host === "localhost" || isLoopback(host);
  const isImplicit = url.protocol === "smtps:";
  const isProtected = credentials !== undefined && !isHere;
  return {
    host,
    port: Number(url.port) || (isImplicit ? 465 : credentials ? 587 : 25),
    credentials,
    tls: {
      mode: isImplicit ? "implicit" : isProtected ? "required" : "opportunistic",
      verify: (isImplicit || isProtected) && !isHere,
      plainIfBroken: !isImplicit && credentials === undefined,
    },
  };
}

function isLoopback(host: string): boolean {
  const address = canonicalIpAddress(host);
  return address?.split(".")[0] === "127" || address === canonicalIpAddress("::1");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A lone percent sign stands for itself.
    return text;
  }
}

interface Opened {
  remote: string;
  session: SmtpSession;
}

export function createTransport({ runtime, hostname, options, tlsPolicies, log }: TransportParts) {
  const stopped = new AbortController();
  /** The smarthost's last reply to our credentials; `refusal` is undefined also when it could not be reached. */
  let known: { setting: string; at: number; refusal: string | undefined } | undefined;
  let asking: { setting: string; done: Promise<void> } | undefined;

  /** Opens a session with the first host that accepts one. @throws DeliveryFailure */
  async function openFirst(
    hosts: readonly MailHost[],
    {
      port,
      tlsTo,
      domain,
      allow,
    }: {
      port: number;
      tlsTo(host: string): Promise<TlsPolicy>;
      domain: string;
      /** Excepted networks, as whyAddressIsRefused takes them; undefined allows every address. */
      allow?: readonly string[];
    },
    signal: AbortSignal,
  ): Promise<Opened> {
    const world = { runtime, hostname, log, signal };
    const failures: DeliveryResult[] = [];
    const tried = new Set<string>();
    const latest = runtime.now() + CONNECT_WITHIN_MS;
    let isCut = false;
    for (const [i, { name, addresses }] of hosts.entries()) {
      isCut ||= i >= MOST_HOSTS || runtime.now() > latest || signal.aborted;
      if (isCut) break;
      let tls: TlsPolicy;
      let untried: readonly string[];
      try {
        tls = await tlsTo(name);
        untried = await addresses();
      } catch (error) {
        failures.push(resultThrown(error));
        continue;
      }
      for (const address of untried) {
        if (tried.has(address)) continue;
        isCut ||= tried.size >= MOST_TRIES || runtime.now() > latest;
        if (isCut) break;
        tried.add(address);
        const fault = allow && whyAddressIsRefused(address, allow);
        if (fault !== undefined) {
          log.warn("mail is not delivered to a private address", { domain, remote: name, address, fault });
          failures.push(privateAddress(name, fault));
          continue;
        }
        const result = await openSmtpSession({ host: name, address, port, tls }, world).catch(resultThrown);
        if (!("reply" in result)) return { remote: name, session: result };
        log.debug("no session", { remote: name, address, reply: result.reply });
        failures.push(result);
        // A reply counts for all addresses of the host.
        if (result.code !== undefined) break;
      }
    }
    const telling =
      failures.find(({ kind }) => kind === "deferred") ?? failures.at(-1) ?? createUnroutableFailure(domain).result;
    throw new DeliveryFailure(isCut ? asDeferred(telling) : telling);
  }

  async function openDirect(domain: string, signal: AbortSignal): Promise<Opened> {
    const hosts = await findMailHosts(domain, { runtime, hostname });
    const tlsTo = await tlsPolicies.of(domain);
    const networks = options.get("smtp.allowNetworks");
    const allow = networks === "none" ? [] : networks;
    return await openFirst(hosts, { port: options.get("smtp.outboundPort"), tlsTo, domain, allow }, signal);
  }

  /** Opens a session with the smarthost. Defers every failure: the operator has to correct it, and no recipient is at fault. */
  async function openSmarthost(setting: string, signal: AbortSignal): Promise<Opened> {
    const { host, port, tls, credentials } = readSmarthost(setting);
    try {
      const hosts = [mailHost(host, runtime.dns)];
      const opened = await openFirst(hosts, { port, tlsTo: async () => tls, domain: host }, signal);
      if (credentials) await authenticate(opened.session, setting, credentials);
      return opened;
    } catch (error) {
      const result = asDeferred(resultThrown(error));
      log.warn("smarthost cannot be used", { remote: host, reply: result.reply });
      throw new DeliveryFailure(result);
    }
  }

  async function authenticate(session: SmtpSession, setting: string, credentials: ClientCredentials): Promise<void> {
    try {
      await session.authenticate(credentials);
      known = { setting, at: runtime.now(), refusal: undefined };
    } catch (error) {
      const { code = 0, reply } = resultThrown(error);
      if (code >= 500) known = { setting, at: runtime.now(), refusal: reply };
      throw error;
    }
  }

  const findFreshAnswer = (setting: string) =>
    // The absolute difference, since the clock may have been set back.
    known?.setting === setting && Math.abs(runtime.now() - known.at) < REMEMBER_MS ? known : undefined;

  /** Asks the smarthost, unless that is under way already. Never rejects. */
  function ask(setting: string): Promise<void> {
    if (asking?.setting === setting) return asking.done;
    const question = { setting, done: Promise.resolve() };
    question.done = openSmarthost(setting, stopped.signal)
      .then(({ session }) => session.close())
      .catch((error: unknown) => {
        if (!(error instanceof DeliveryFailure)) log.error("smarthost was not asked", { error });
      })
      .finally(() => {
        if (asking === question) asking = undefined;
        // A smarthost that is down is remembered too, so that it does not delay every message.
        if (!findFreshAnswer(setting)) known = { setting, at: runtime.now(), refusal: undefined };
      });
    asking = question;
    return question.done;
  }

  function connectionOver(first: Opened, open: () => Promise<Opened>, isCurrent: () => boolean): Connection {
    let { remote, session } = first;
    let isUsed = false;
    let isClosed = false;
    return {
      get remote() {
        return remote;
      },
      async send(transaction) {
        const { results, unstarted } = await session.transmit(transaction);
        const isStale = unstarted && isUsed && !isClosed;
        isUsed = true;
        if (!isStale) return results;
        // The remote has closed the connection meanwhile, or takes no more messages over it.
        session.close();
        try {
          ({ remote, session } = await open());
        } catch (error) {
          return transaction.recipients.map(() => resultThrown(error));
        }
        if (isClosed) session.close();
        return (await session.transmit(transaction)).results;
      },
      usable: () => session.usable() && isCurrent(),
      isTransmitting: () => session.isTransmitting(),
      close() {
        isClosed = true;
        session.close();
      },
    };
  }

  return {
    /**
     * Connects to a host that takes mail for `domain` (A-labels). Aborting `signal` ends the attempt or the connection at once;
     * its reason is for people.
     * @throws DeliveryFailure
     */
    async connect(domain: string, signal?: AbortSignal): Promise<Connection> {
      const setting = options.get("smtp.relay");
      const ended = signal ? AbortSignal.any([stopped.signal, signal]) : stopped.signal;
      const open = () =>
        unlessAborted(ended, setting === "none" ? openDirect(domain, ended) : openSmarthost(setting, ended));
      return connectionOver(await open(), open, () => options.get("smtp.relay") === setting);
    },
    /** Tells whether one connection takes mail for all domains. */
    groupsByMessage: (): boolean => options.get("smtp.relay") !== "none",
    /**
     * Returns the smarthost's reply when it refuses our credentials; undefined when it accepts them, needs none or cannot be
     * reached. Asks at most once a minute, and waits for at most 10 seconds.
     */
    async refusal(): Promise<string | undefined> {
      const setting = options.get("smtp.relay");
      if (setting === "none" || !readSmarthost(setting).credentials) return undefined;
      if (!findFreshAnswer(setting)) await awaitAtMost(runtime, ASK_MS, ask(setting));
      return findFreshAnswer(setting)?.refusal;
    },
    /** Ends every connection and attempt at once; none is made afterwards. */
    close(): void {
      stopped.abort("this server is stopping");
      tlsPolicies.close();
    },
  };
}

/**
 * Tries the smarthost as a delivery does: connection, TLS with the name in its certificate, and sign-in. Resolves with its
 * refusal, or the reason why there is none; undefined when it would take mail.
 */
export async function trySmarthost(
  parts: Omit<TransportParts, "tlsPolicies" | "log">,
  log: Log,
): Promise<string | undefined> {
  // A smarthost has no policies of a domain.
  const tlsPolicies = { of: () => Promise.reject(new Error("no domain is asked for")), close() {} };
  const transport = createTransport({ ...parts, tlsPolicies, log });
  try {
    const connection = await transport.connect("");
    connection.close();
    return undefined;
  } catch (error) {
    return resultThrown(error).reply;
  } finally {
    transport.close();
  }
}

/** Resolves as `opening` does, but rejects as deferred as soon as the signal is aborted. */
async function unlessAborted<T>(signal: AbortSignal, opening: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => {
    const text = String(signal.reason);
    aborted.reject(new DeliveryFailure(toDeliveryResult({ command: "connect", status: "4.4.2", text })));
  };
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([opening, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** The end of the reply for a refused address, by which the doctor finds the mail that waits for it. */
export const NOT_LISTED = "which smtp.allowNetworks does not list";

/** Makes the result for an address that is not connected to: temporary, since the operator may allow it. */
function privateAddress(host: string, fault: string): DeliveryResult {
  const verb = isIP(host) ? "is" : "leads to";
  return toDeliveryResult({ command: "connect", status: "4.4.4", text: `${host} ${verb} ${fault}, ${NOT_LISTED}` });
}

/** Returns the result of a DeliveryFailure. Any other error is a fault of ours, and is thrown again. */
function resultThrown(error: unknown): DeliveryResult {
  if (error instanceof DeliveryFailure) return error.result;
  throw error;
}
