/**
 * What DNS said, kept for a while: the questions that authentication asks (evidence.ts), from whichever worker, and
 * those of blocklists (dnsbl.ts).
 *
 * Invariants: a question is asked once, however many wait for its answer. No answer is an exception: what failed is an
 * answer too, and kept for less long. What is kept is bounded in size, whatever strangers make us ask.
 */

import { atMost } from "../base/pause.ts";
import type { DnsResolver, Runtime } from "../base/runtime.ts";

export type RecordType = "TXT" | "A" | "AAAA" | "MX" | "PTR" | "CNAME";

/** Records as node:dns gives them, or why there are none: `ENOTFOUND`, `ENODATA`, `ETIMEOUT`, … */
type Found = { records: unknown[] } | { code: string };

/** Holds until then (epoch ms), wherever it is taken (`holds`). Can be cloned. */
export type Answer = Found & { until: number };

export interface DnsCache {
  /** At once when it is known. Never rejects. */
  ask(name: string, type: RecordType): Answer | Promise<Answer>;
}

/**
 * node:dns does not tell how long an answer holds, but for addresses. Five minutes is what large senders publish; a
 * record that appears, as when a domain is being set up, is seen within one.
 */
const KEPT_MS = 5 * 60_000;
const ABSENCE_KEPT_MS = 60_000;
const FAILURE_KEPT_MS = 15_000;

/** In characters: of one answer, far above what mail publishes, and of all that are kept. */
const LARGEST_ANSWER = 16 * 1024;
const MOST_KEPT = 8 * 1024 * 1024;
/** What an entry counts beyond its text. */
const ENTRY_SIZE = 200;

/** Not one that a clock was ahead for, which was set back since: that would hold for as long as it was ahead. */
export const holds = ({ until }: Answer, now: number): boolean => until > now && until - now <= KEPT_MS;

export function createDnsCache({ dns, now }: Pick<Runtime, "dns" | "now">): DnsCache {
  /** In the order they were put in: the oldest goes first. */
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
    ask(name, type) {
      const key = `${type} ${name.toLowerCase()}`;
      const known = kept.get(key);
      if (known !== undefined && holds(known.answer, now())) return known.answer;
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

/** Whether it says that there are no such records, and not that nobody could tell. */
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

/** The answer, or a timeout once `ms` have passed, which holds for nobody else. */
export async function answerWithin(
  answer: Promise<Answer>,
  ms: number,
  runtime: Pick<Runtime, "setTimer">,
): Promise<Answer> {
  const late: Answer = { code: "ETIMEOUT", until: 0 };
  return ms <= 0 ? late : ((await atMost(runtime, ms, answer)) ?? late);
}
