/**
 * The MTA-STS policies of the domains that mail is sent to (RFC 8461 §3.3, §5). They are fetched over HTTPS, and kept and
 * honoured for their lifetime, even when they cannot be fetched again or their record is gone. The only writer of
 * mta_sts_policies.
 *
 * Invariant: when a new policy cannot be read, the old one stays in force. No failure ends a policy.
 */
import { eq, lte, sql } from "drizzle-orm";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { HttpClient } from "../net/http-client.ts";
import { mtaStsPolicies as policies } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store } from "../store/store.ts";
import { POLICY_PATH, policyHostOf, readStsPolicy, readStsRecord, type StsPolicy } from "./mta-sts.ts";

export interface StsPolicies {
  /** The policy in force for a domain (A-labels); undefined for none. Never rejects for a fault of others. */
  policyFor(domain: string): Promise<StsPolicy | undefined>;
  /** Ends requests under way. */
  close(): void;
}

export interface StsPoliciesParts {
  store: Pick<Store, "db" | "transact">;
  runtime: Pick<Runtime, "now" | "dns">;
  log: Log;
  fetcher: PolicyFetcher;
}

export interface PolicyFetcher {
  /** The policy's text. @throws Error that says what is wrong */
  fetch(domain: string): Promise<string>;
  close(): void;
}

const MINUTE_MS = 60_000;
/** §3.3: not more often after a failure. */
const AFTER_FAILURE_MS = 5 * MINUTE_MS;
/** §3.3: fetched once a day, even with the same id, so that it does not expire. */
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

type Kept = typeof policies.$inferSelect;

export function createStsPolicies({ store, runtime, log, fetcher }: StsPoliciesParts): StsPolicies {
  /** Domains whose policy could not be fetched, and when. */
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

  /** Undefined when there is none, or DNS fails. */
  async function idOf(domain: string): Promise<string | undefined> {
    try {
      const texts = await runtime.dns.resolveTxt(`_mta-sts.${domain}`);
      return readStsRecord(texts.map((strings) => strings.join("")));
    } catch {
      return undefined;
    }
  }

  async function find(domain: string): Promise<StsPolicy | undefined> {
    const now = runtime.now();
    const row = statements(store.db).find.get({ domain });
    const kept: Kept | undefined = row && row.expiresAt > now ? row : undefined;
    const id = await idOf(domain);
    const isFresh = kept !== undefined && id === kept.id && Math.abs(now - kept.fetchedAt) < REFRESH_MS;
    // The absolute difference, since the clock may have been set back.
    const isResting = Math.abs(now - (failed.get(domain) ?? Number.NEGATIVE_INFINITY)) < AFTER_FAILURE_MS;
    if (id === undefined || isFresh || isResting) return kept;
    try {
      const policy = readStsPolicy(await fetcher.fetch(domain));
      keep(domain, id, policy);
      failed.delete(domain);
      return policy;
    } catch (error) {
      if (failed.size >= MOST_FAILURES) failed.clear();
      failed.set(domain, now);
      const facts = { domain, reason: (error as Error).message, kept: kept !== undefined };
      log.warn("an MTA-STS policy cannot be fetched", facts);
      return kept;
    }
  }

  return {
    policyFor(domain) {
      const others = underWay.get(domain);
      if (others) return others;
      const found = find(domain).finally(() => underWay.delete(domain));
      underWay.set(domain, found);
      return found;
    },
    close: fetcher.close,
  };
}

/**
 * Fetches policies from their URLs (§3.2, §3.3): over HTTPS with a valid certificate, without following
 * redirects. `http` connects to public addresses only.
 */
export function createPolicyFetcher(http: HttpClient, port = 443): PolicyFetcher {
  return {
    fetch: (domain) =>
      http.within(FETCH_MS, async (signal) => {
        const place = `${policyHostOf(domain)}${port === 443 ? "" : `:${port}`}`;
        const url = `https://${place}${POLICY_PATH}`;
        const response = await http.send({ method: "GET", url, headers: {} }, signal);
        if (response.status !== 200) throw new Error(`${url} answers ${response.status}`);
        const type = response.headers.get("content-type") ?? "";
        if (!/^text\/plain\s*(;|$)/i.test(type)) throw new Error(`${url} is not text/plain`);
        let text = "";
        const decoder = new TextDecoder();
        for await (const chunk of response.body ?? []) {
          text += decoder.decode(chunk, { stream: true });
          if (text.length > LARGEST_POLICY) throw new Error(`${url} is larger than a policy may be`);
        }
        return text;
      }),
    close: http.close,
  };
}
