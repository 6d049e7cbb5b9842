/**
 * A cache of DNS answers, for authentication (evidence.ts), in all workers, and for blocklists (dnsbl.ts).
 *
 * Invariants: callers that wait for the same question share one query. A failure is an answer, too, kept for a shorter
 * time, and never an exception. The size of the cache is bounded, since strangers choose the names.
 */

import { atMost } from "../base/pause.ts";
import type { DnsResolver, Runtime } from "../base/runtime.ts";

export type RecordType = "TXT" | "A" | "AAAA" | "MX" | "PTR" | "CNAME";

/** Records as node:dns gives them, or why there are none: `ENOTFOUND`, `ENODATA`, `ETIMEOUT`, … */
type Found = { records: unknown[] } | { code: string };

/** `until`: epoch ms, checked by `isFresh`. Can be sent to workers. */
export type Answer = Found & { until: number };

export type DnsCache = ReturnType<typeof createDnsCache>;

/**
 * node:dns gives the TTL of addresses only. Large senders publish five minutes. A record that appears, as when somebody
 * sets up a domain, is seen within one.
 */
const KEPT_MS = 5 * 60_000;
const ABSENCE_KEPT_MS = 60_000;
const FAILURE_KEPT_MS = 15_000;

/** Characters in one answer; records for mail are far smaller. */
const LARGEST_ANSWER = 16 * 1024;
/** Characters in the whole cache. */
const MOST_KEPT = 8 * 1024 * 1024;
/** Added to the size of each entry's text. */
const ENTRY_SIZE = 200;

/** False also for an answer from before the clock was set back, which would last for as long as the clock was ahead. */
export const isFresh = ({ until }: Answer, now: number): boolean => until > now && until - now <= KEPT_MS;

export function createDnsCache({ dns, now }: Pick<Runtime, "dns" | "now">) {
  /** In order of insertion: the oldest goes first. */
  const kept = new Map<string, { answer: Answer; size: number }>();
  const open = new Map<string, Promise<Answer>>();
  let keptSize = 0;

  function forget(key: string): void {
    keptSize -= kept.get(key)?.size ?? 0;
    kept.delete(key);
  }

  function keep(key: string, answer: Answer, textSize: number): void {
    forget(key);
    const size = ENTRY_SIZE + key.length + textSize;
    kept.set(key, { answer, size });
    keptSize += size;
    for (const oldest of kept.keys()) {
      if (keptSize <= MOST_KEPT) break;
      forget(oldest);
    }
  }

  async function lookUp(key: string, name: string, type: RecordType): Promise<Answer> {
    let found: Found;
    let size = 0;
    try {
      const records: unknown[] = await resolve(dns, name, type);
      size = JSON.stringify(records).length;
      found = size > LARGEST_ANSWER ? { code: "EBADRESP" } : { records };
    } catch (error) {
      found = { code: (error as NodeJS.ErrnoException).code ?? "ESERVFAIL" };
    }
    const answer = { ...found, until: now() + lifetimeOf(found) };
    keep(key, answer, "records" in found ? size : 0);
    return answer;
  }

  return {
    /** The answer itself when the cache has it, otherwise a promise that never rejects. */
    ask(name: string, type: RecordType): Answer | Promise<Answer> {
      const key = `${type} ${name.toLowerCase()}`;
      const known = kept.get(key);
      if (known !== undefined && isFresh(known.answer, now())) return known.answer;
      const others = open.get(key);
      if (others !== undefined) return others;
      const asked = lookUp(key, name, type).finally(() => open.delete(key));
      open.set(key, asked);
      return asked;
    },
  };
}

function lifetimeOf(found: Found): number {
  if ("records" in found) return KEPT_MS;
  return isAbsence(found.code) ? ABSENCE_KEPT_MS : FAILURE_KEPT_MS;
}

/** True when DNS says that there are no such records, false when the query failed. */
export const isAbsence = (code: string): boolean => ["ENOTFOUND", "ENODATA", "EBADNAME"].includes(code);

function resolve(dns: DnsResolver, name: string, type: RecordType): Promise<unknown[]> {
  switch (type) {
    case "TXT":
      return dns.resolveTxt(name);
    case "A":
      return dns.resolve4(name);
    case "AAAA":
      return dns.resolve6(name);
    case "MX":
      return dns.resolveMx(name);
    case "PTR":
      return dns.resolvePtr(name);
    case "CNAME":
      return dns.resolveCname(name);
  }
}

/** The answer, or a timeout after `ms` that is not cached. */
export async function answerWithin(
  answer: Promise<Answer>,
  ms: number,
  runtime: Pick<Runtime, "setTimer">,
): Promise<Answer> {
  const late: Answer = { code: "ETIMEOUT", until: 0 };
  return ms <= 0 ? late : ((await atMost(runtime, ms, answer)) ?? late);
}
