/**
 * Talks to a certificate authority by acme-client (RFC 8555), over this project's HTTP client: it uses the addresses of
 * the runtime's DNS, has a time limit and does not retry. The only file that knows the package, which it loads on first
 * use.
 *
 * Invariant: a refusal by the authority becomes an AuthorityRefusal, with the time of the next permitted request if the
 * authority gives one.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Client, Order } from "acme-client";
import type { Runtime } from "../base/runtime.ts";
import { parseTime } from "../base/time.ts";
import { readResponseText, SHORT_ANSWER, toShownSentence } from "../net/answer.ts";
import type { HttpClient } from "../net/http-client.ts";
import type { AlpnProofs } from "./alpn-front.ts";

/** Characters of what an authority says about one name of several. */
const LONGEST_REASON = 300;
/** Names in a refusal that are read. */
const MOST_REFUSED = 100;

/** An authority's refusal (RFC 8555 §6.7). */
export class AuthorityRefusal extends Error {
  override readonly name = "AuthorityRefusal";
  readonly status: number;
  /** The last part of the problem's URN, such as `rateLimited`; empty without one. */
  readonly type: string;
  /** The names that the authority refuses, if it lists any. */
  readonly names: readonly string[];
  /** The time of the next permitted request, epoch ms; undefined when the authority gives none. */
  readonly retryAt: number | undefined;

  /** `problem`: the document of RFC 7807 that it sent, if it is one. */
  constructor(status: number, problem: unknown, retryAt: number | undefined) {
    const { type, detail, subproblems, identifier } = readObjectFields(problem);
    super(toShownSentence(detail) || `HTTP status ${status}`);
    this.status = status;
    this.type = problemWord(type);
    const parts = Array.isArray(subproblems) ? subproblems.slice(0, MOST_REFUSED) : [];
    this.names = [identifier, ...parts.map((one) => readObjectFields(one).identifier)].flatMap(
      (one) => toShownSentence(readObjectFields(one).value) || [],
    );
    this.retryAt = retryAt;
  }
}

/** The authority did not respond, which says nothing about the names. */
export class AuthorityAway extends Error {
  override readonly name = "AuthorityAway";
}

interface Failure {
  host: string;
  /** For people. */
  reason: string;
  /** Type of the problem, as in AuthorityRefusal; empty where the authority gave none. */
  type: string;
}

/** Names whose challenges failed: the authority did not find the proofs there. */
export class ChallengeFailure extends Error {
  override readonly name = "ChallengeFailure";
  readonly hosts: readonly string[];
  /** The first type that the authority gave; empty without one. */
  readonly type: string;

  constructor(failures: readonly Failure[]) {
    super(failures.map(({ host, reason }) => `${host}: ${toShownSentence(reason, LONGEST_REASON)}`).join("; "));
    this.hosts = failures.map(({ host }) => host);
    this.type = failures.find(({ type }) => type !== "")?.type ?? "";
  }
}

/** Facts that continue an order after a crash. */
export interface BegunOrder {
  url: string;
  /** PEM */
  key: string;
}

export interface Account {
  /** PEM */
  key: string;
  /** Undefined until it is registered. */
  url: string | undefined;
}

interface OrderRequest {
  account: Account;
  email: string | undefined;
  names: readonly string[];
  /** Id of the certificate that this order replaces (RFC 9773 §5). */
  replaces: string | undefined;
  /** An earlier order, to continue if it is still valid. */
  begun: BegunOrder | undefined;
  /** The key for a new order, PEM. */
  key: string;
  registered(url: string): Promise<void>;
  /** Keeps the order; the work goes on once this resolves. */
  began(order: BegunOrder): Promise<void>;
  /** RFC 8555 §8, RFC 8737. */
  challenge: ChallengeType;
  /**
   * Resolves once the authority can see the proof; called for all names at once.
   * @throws Error that says why it cannot
   */
  show(proof: Proof): Promise<void>;
}

type ChallengeType = "http-01" | "tls-alpn-01" | "dns-01";

/** A proof that this server controls a name. */
interface Proof {
  /** The name to prove, lower case. */
  host: string;
  token: string;
  /** The key authorization, or for DNS its digest, as the type of challenge has it. */
  value: string;
}

/** A way to prove names. */
export interface Challenge {
  readonly type: ChallengeType;
  /** Resolves once the authority can see the proof. @throws Error that says why it cannot. */
  show(proof: Proof): Promise<void>;
  /** Removes all proofs, including those from before a crash. Never rejects. */
  clear(): Promise<void>;
  /** Ends calls under way; the caller must still call `clear`. */
  stop?(): void;
  /** Returns the response to a request for a token over HTTP (RFC 8555 §8.3). */
  proof?(token: string): string | undefined;
  /** Proofs to show at the HTTPS listener. */
  alpn?: AlpnProofs;
}

/** When a certificate is best renewed (RFC 9773 §4.2); epoch ms. */
export interface RenewalWindow {
  start: number;
  end: number;
  /** When to ask again. */
  askAt: number;
}

const NOT_ORDERED = "the authority asks for proofs of names that were not ordered";
/** RFC 8555 §8.3: base64url. */
const TOKEN = /^[\w-]{1,200}$/;
const RESPONSE_MS = 30_000;
const POLL = { backoffAttempts: 12, backoffMin: 250, backoffMax: 15_000 };
const ASK_AGAIN_MS = 6 * 60 * 60_000;
/** RFC 9773 §4.3.2: ask at least this often, even when the authority says later. */
const LONGEST_SILENCE_MS = 24 * 60 * 60_000;

interface Received {
  status: number;
  headers: Headers;
  text: string;
}

type Send = (method: "GET" | "HEAD" | "POST", url: string, body?: string) => Promise<Received>;

/** The `send` of the order under way: the package has one HTTP adapter for all orders. */
const way = new AsyncLocalStorage<Send>();

async function load() {
  const acme = await import("acme-client");
  acme.axios.defaults.adapter = async (config) => {
    const send = way.getStore();
    if (!send) throw new Error("acme-client was used outside an order");
    const method = (config.method ?? "get").toUpperCase() as "GET" | "HEAD" | "POST";
    const { status, headers, text } = await send(method, config.url ?? "", config.data as string | undefined);
    const received = Object.fromEntries(headers) as Record<string, string>;
    return { status, statusText: "", headers: received, data: text, config };
  };
  return acme;
}

/** `directory`: the URL of its directory. */
export function openAuthority({
  directory,
  http,
  runtime,
}: {
  directory: string;
  http: Pick<HttpClient, "send" | "within">;
  runtime: Pick<Runtime, "now">;
}) {
  /** @throws AuthorityRefusal for a response of 4yz or 5yz, AuthorityAway without one */
  const send: Send = async (method, url, body) => {
    const headers = body === undefined ? {} : { "content-type": "application/jose+json" };
    const request = { method, url, headers, ...(body !== undefined && { body }) };
    const responding = http.within(RESPONSE_MS, async (signal) => {
      const response = await http.send(request, signal);
      return {
        status: response.status,
        headers: response.headers,
        text: await readResponseText(response, SHORT_ANSWER),
      };
    });
    const response = await responding.catch((error: Error) => {
      throw new AuthorityAway(error.message, { cause: error });
    });
    if (response.status >= 400) {
      const retryAt = retryTime(response.headers, runtime.now());
      const refusal = new AuthorityRefusal(response.status, problemIn(response.text), retryAt);
      // The package asks for another nonce and tries again (RFC 8555 §6.5).
      if (refusal.type !== "badNonce") throw refusal;
    }
    return response;
  };

  async function order(request: OrderRequest) {
    const acme = await load();
    const { account, email, names, begun } = request;
    const client = new acme.Client({
      directoryUrl: directory,
      accountKey: account.key,
      ...POLL,
      ...(account.url !== undefined && { accountUrl: account.url }),
    });
    if (account.url === undefined) {
      const contact = email === undefined ? [] : [`mailto:${email}`];
      await client.createAccount({ termsOfServiceAgreed: true, contact });
      await request.registered(client.getAccountUrl());
    }
    const begunOrder = begun && (await client.getOrder({ url: begun.url } as never).catch(ignoreRefusal));
    const isResumed =
      begun !== undefined &&
      begunOrder !== undefined &&
      begunOrder.status !== "invalid" &&
      hasOnlyNames(begunOrder.identifiers, names);
    const key = isResumed ? begun.key : request.key;
    let current = isResumed ? begunOrder : await newOrder();
    await request.began({ url: current.url, key });

    async function newOrder() {
      const identifiers = names.map((value) => ({ type: "dns", value }));
      const { replaces } = request;
      if (replaces === undefined) return client.createOrder({ identifiers });
      try {
        return await client.createOrder({ identifiers, replaces } as never);
      } catch (error) {
        // The old certificate was replaced already, or the authority no longer knows it.
        if (!(error instanceof AuthorityRefusal) || error.type === "rateLimited") throw error;
        return client.createOrder({ identifiers });
      }
    }

    if (current.status === "pending") {
      await prove(client, current, request);
      current = await client.getOrder(current);
    }
    if (current.status === "pending" || current.status === "ready") {
      const [, csr] = await acme.crypto.createCsr({ altNames: [...names] }, key);
      current = { ...(await client.finalizeOrder(current, csr)), url: current.url };
    }
    return { cert: await client.getCertificate(current), key };
  }

  /**
   * Proves all names it can, since proven names count in the next order, too.
   * @throws ChallengeFailure for the others; Error for names that nobody asked for
   */
  async function prove(client: Client, order: Order, { names, challenge: type, show }: OrderRequest): Promise<void> {
    const failures: Failure[] = [];
    if (order.authorizations.length > names.length) throw new Error(NOT_ORDERED);
    const pending = (await client.getAuthorizations(order)).filter(({ status }) => status !== "valid");
    if (!hasOnlyNames([...order.identifiers, ...pending.map(({ identifier }) => identifier)], names)) {
      throw new Error(NOT_ORDERED);
    }
    const shown = await Promise.all(
      pending.map(async ({ identifier, challenges }) => {
        const host = identifier.value.toLowerCase();
        try {
          const challenge = challenges.find((one) => one.type === type);
          if (!challenge) throw new Error(`the authority offers no ${type.toUpperCase()} challenge`);
          if (!TOKEN.test(challenge.token)) throw new Error("the authority gave a token that is none");
          await show({ host, token: challenge.token, value: await client.getChallengeKeyAuthorization(challenge) });
          return { host, challenge };
        } catch (error) {
          failures.push({ host, reason: (error as Error).message, type: "" });
          return undefined;
        }
      }),
    );
    for (const { host, challenge } of shown.filter((one) => one !== undefined)) {
      try {
        await client.completeChallenge(challenge);
        await client.waitForValidStatus(challenge);
      } catch (error) {
        if (error instanceof AuthorityRefusal || error instanceof AuthorityAway) throw error;
        failures.push({
          host,
          reason: (error as Error).message,
          type: await typeOfFailure(client, order, challenge.url),
        });
      }
    }
    if (failures.length > 0) throw new ChallengeFailure(failures);
  }

  return {
    /** Resolves with the chain, PEM, and the key it is for. @throws AuthorityRefusal, ChallengeFailure, Error */
    order: (request: OrderRequest) => way.run(send, () => order(request)),
    /**
     * `id`: from findRenewalId. Resolves with undefined when the authority suggests no window.
     * @throws AuthorityRefusal, Error
     */
    async renewalWindow(id: string): Promise<RenewalWindow | undefined> {
      const { renewalInfo } = JSON.parse((await send("GET", directory)).text) as { renewalInfo?: string };
      if (renewalInfo === undefined) return undefined;
      const { headers, text } = await send("GET", `${renewalInfo}/${id}`);
      const { suggestedWindow } = JSON.parse(text) as { suggestedWindow?: { start?: string; end?: string } };
      const start = parseTime(suggestedWindow?.start ?? "");
      const end = parseTime(suggestedWindow?.end ?? "");
      const now = runtime.now();
      const askAt = Math.min(retryTime(headers, now) ?? now + ASK_AGAIN_MS, now + LONGEST_SILENCE_MS);
      return start !== undefined && end !== undefined && start <= end ? { start, end, askAt } : undefined;
    },
  };
}

/** The last part of a problem's URN (RFC 8555 §6.7). */
const problemWord = (urn: unknown): string => toShownSentence(urn).split(":").at(-1) ?? "";

/**
 * Asks the authority for the type of a failed challenge's problem, since the package tells its detail alone. Never rejects:
 * without a type, the text is empty.
 */
async function typeOfFailure(client: Client, order: Order, url: string): Promise<string> {
  try {
    const challenges = (await client.getAuthorizations(order)).flatMap(({ challenges }) => challenges);
    const { error } = (challenges.find((one) => one.url === url) ?? {}) as { error?: { type?: unknown } };
    return problemWord(error?.type);
  } catch {
    return "";
  }
}

const hasOnlyNames = (identifiers: Order["identifiers"], names: readonly string[]): boolean =>
  identifiers.every(({ value }) => names.includes(value.toLowerCase()));

function ignoreRefusal(error: unknown): undefined {
  if (!(error instanceof AuthorityRefusal)) throw error;
}

function problemIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The fields of an object; none of another value. */
const readObjectFields = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Returns when Retry-After ends (RFC 9110 §10.2.3), epoch ms. */
function retryTime(headers: Headers, now: number): number | undefined {
  const field = headers.get("retry-after") ?? "";
  if (/^\d+$/.test(field)) return now + Number(field) * 1_000;
  const date = Date.parse(field);
  return Number.isNaN(date) ? undefined : date;
}
