/**
 * MTA-STS (RFC 8461): writes the DNS records and policies of our domains, and reads, keeps and honours those of the
 * domains that mail is sent to. It fetches a policy over HTTPS and honours it for its lifetime, even when it cannot
 * fetch the policy again or the record is gone (§3.3, §5). The only writer of mta_sts_policies.
 *
 * Invariant: when a new policy cannot be read, the old one stays in force. No failure ends a policy.
 */
import { createHash } from "node:crypto";
import { eq, lte, sql } from "drizzle-orm";
import { readResponseText } from "../net/answer.ts";
import type { HttpClient } from "../net/http-client.ts";
import type { Core } from "../store/core.ts";
import { mtaStsPolicies as policies } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";

export const STS_MODES = ["none", "testing", "enforce"] as const;
export type StsMode = (typeof STS_MODES)[number];

export interface StsPolicy {
  mode: StsMode;
  /** Lower case; one may begin with `*.`. */
  mx: readonly string[];
  maxAgeSeconds: number;
}

/** Host and path of the URL of a domain's policy. */
export const stsPolicyHost = (domain: string): string => `mta-sts.${domain}`;
export const POLICY_PATH = "/.well-known/mta-sts.txt";

/** RFC 8461 §3.2: one year. */
const LONGEST_AGE_SECONDS = 31_557_600;

/**
 * Reads the policy's id in the TXT records of `_mta-sts.<domain>`; undefined unless exactly one is of MTA-STS (§3.1).
 */
export function readStsRecord(texts: readonly string[]): string | undefined {
  const [record, ...others] = texts.filter((text) => /^v=STSv1\s*(;|$)/.test(text));
  if (record === undefined || others.length > 0) return undefined;
  return /;\s*id=([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(record)?.[1];
}

/** Reads a policy. @throws Error with the fault */
export function readStsPolicy(text: string): StsPolicy {
  const fields = text.split(/\r?\n/).flatMap((line) => {
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon).trimEnd(), line.slice(colon + 1).trim()];
    return colon >= 0 && /^[A-Za-z0-9][\w.-]*$/.test(name) ? [{ name, value }] : [];
  });
  // The first of repeated fields counts, except for mx (§3.2).
  const first = (name: string) => fields.find((field) => field.name === name)?.value;
  if (first("version") !== "STSv1") throw new Error("the policy is not of version STSv1");
  const mode = STS_MODES.find((known) => known === first("mode"));
  if (mode === undefined) throw new Error("the policy has no mode");
  const age = first("max_age") ?? "";
  if (!/^\d{1,10}$/.test(age) || Number(age) > LONGEST_AGE_SECONDS) throw new Error("the policy has no valid max_age");
  const mx = fields.flatMap(({ name, value }) => (name === "mx" ? value.toLowerCase() : []));
  if (mode !== "none" && mx.length === 0) throw new Error("the policy names no mx");
  return { mode, mx, maxAgeSeconds: Number(age) };
}

/** Writes the policy as it is published. */
export function writeStsPolicy({ mode, mx, maxAgeSeconds }: StsPolicy): string {
  const hosts = mode === "none" ? [] : mx;
  const lines = ["version: STSv1", `mode: ${mode}`, ...hosts.map((host) => `mx: ${host}`), `max_age: ${maxAgeSeconds}`];
  return lines.map((line) => `${line}\n`).join("");
}

/** Writes the TXT record for the text of a policy. Its id changes when the policy does. */
export function writeStsRecord(text: string): string {
  return `v=STSv1; id=${createHash("sha256").update(text).digest("hex").slice(0, 20)}`;
}

/** Tells whether the policy names the host, lower case (§4.1): `*.` stands for exactly one label. */
export function isHostInStsPolicy({ mx }: StsPolicy, host: string): boolean {
  const parent = host.slice(host.indexOf("."));
  return mx.some((name) => name === host || (name.startsWith("*.") && host.includes(".") && name.slice(1) === parent));
}

const MINUTE_MS = 60_000;
/** Wait after a failure (§3.3). */
const AFTER_FAILURE_MS = 5 * MINUTE_MS;
/** A policy is fetched once a day, even with the same id, so that it does not expire (§3.3). */
const REFRESH_MS = 24 * 60 * MINUTE_MS;
const FETCH_MS = MINUTE_MS;
const LARGEST_POLICY = 64 * 1024;
const MOST_FAILURES = 10_000;

const statements = prepared((db) => ({
  find: db
    .select()
    .from(policies)
    .where(eq(policies.domain, sql.placeholder("domain")))
    .prepare(),
}));

export type StsPolicies = (domain: string) => Promise<StsPolicy | undefined>;

/**
 * Keeps the policies of other domains. The function that it returns finds the policy in force for a domain (A-labels);
 * undefined for none. It never rejects for a fault of others. `fetchText`: gets the text of a policy.
 */
export function createStsPolicies(
  { store, runtime, log }: Core,
  fetchText: (domain: string) => Promise<string>,
): StsPolicies {
  /** When the policy of a domain last could not be fetched, epoch ms. */
  const failed = new Map<string, number>();
  const underWay = new Map<string, Promise<StsPolicy | undefined>>();

  function keep(domain: string, id: string, policy: StsPolicy): void {
    const now = runtime.now();
    const row = {
      id,
      mode: policy.mode,
      mx: [...policy.mx],
      maxAgeSeconds: policy.maxAgeSeconds,
      fetchedAt: now,
      expiresAt: now + policy.maxAgeSeconds * 1_000,
    };
    store.transact((tx) => {
      tx.delete(policies).where(lte(policies.expiresAt, now)).run();
      tx.insert(policies)
        .values({ domain, ...row })
        .onConflictDoUpdate({ target: policies.domain, set: row })
        .run();
    });
  }

  /** Reads the id of the policy in force; undefined when there is none, or DNS fails. */
  async function findStsPolicyId(domain: string): Promise<string | undefined> {
    try {
      return readStsRecord((await runtime.dns.ask(`_mta-sts.${domain}`, "TXT")).records);
    } catch {
      return undefined;
    }
  }

  async function find(domain: string): Promise<StsPolicy | undefined> {
    const now = runtime.now();
    const row = statements(store.db).find.get({ domain });
    const cached = row && row.expiresAt > now ? row : undefined;
    const id = await findStsPolicyId(domain);
    // Absolute differences, since the clock may have been set back.
    const isFresh = cached !== undefined && id === cached.id && Math.abs(now - cached.fetchedAt) < REFRESH_MS;
    const isResting = Math.abs(now - (failed.get(domain) ?? Number.NEGATIVE_INFINITY)) < AFTER_FAILURE_MS;
    if (id === undefined || isFresh || isResting) return cached;
    try {
      const policy = readStsPolicy(await fetchText(domain));
      keep(domain, id, policy);
      failed.delete(domain);
      return policy;
    } catch (error) {
      if (failed.size >= MOST_FAILURES) failed.clear();
      failed.set(domain, now);
      const facts = { domain, reason: (error as Error).message, kept: cached !== undefined };
      log.warn("an MTA-STS policy cannot be fetched", facts);
      return cached;
    }
  }

  return (domain) => {
    const others = underWay.get(domain);
    if (others) return others;
    const found = find(domain).finally(() => underWay.delete(domain));
    underWay.set(domain, found);
    return found;
  };
}

/**
 * Fetches the text of a domain's policy from its URL (§3.2, §3.3): over HTTPS with a valid certificate, without
 * following redirects. `http` connects to public addresses only. @throws Error that says what is wrong
 */
export function fetchStsPolicy(http: Pick<HttpClient, "send" | "within">, domain: string, port = 443): Promise<string> {
  return http.within(FETCH_MS, async (signal) => {
    const authority = `${stsPolicyHost(domain)}${port === 443 ? "" : `:${port}`}`;
    const url = `https://${authority}${POLICY_PATH}`;
    const response = await http.send({ method: "GET", url, headers: {} }, signal);
    const type = response.headers.get("content-type") ?? "";
    if (response.status !== 200 || !/^text\/plain\s*(;|$)/i.test(type)) {
      // An unread body would keep its connection open for as long as that server likes.
      await response.body?.cancel();
      throw new Error(response.status === 200 ? `${url} is not text/plain` : `${url} answers ${response.status}`);
    }
    return readResponseText(response, LARGEST_POLICY).catch((error: Error) => {
      throw new Error(`${url} cannot be used: ${error.message}`, { cause: error });
    });
  });
}
