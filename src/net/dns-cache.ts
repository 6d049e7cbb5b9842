/**
 * A cache of DNS answers, for authentication (evidence.ts), in all parsers, and for blocklists (dnsbl.ts).
 *
 * Invariants: callers that wait for one question share one query. A failure is an answer, too, kept for a shorter
 * time, and never an exception. The size of the cache is bounded, since strangers choose the names.
 */

import { awaitAtMost } from "../base/pause.ts";
import type { DnsAnswer, RecordType, Runtime } from "../base/runtime.ts";

/** Records as the DNS client gives them, or the reason for none: `ENOTFOUND`, `ENODATA`, or the code of a failure. */
type Found = { records: unknown[] } | { code: string };

/** An answer holds from one moment to another, epoch ms; `isDnsAnswerFresh` compares. Can be sent to parsers. */
export type Answer = Found & { from: number; until: number };

export type DnsCache = ReturnType<typeof createDnsCache>;

/** Bounds of the time that an answer is kept, whatever its TTL. A record that is published is seen soon if its absence is short-lived. */
const SHORTEST_MS = 10_000;
const LONGEST_MS = 24 * 3_600_000;
const FAILURE_KEPT_MS = 15_000;

/** Characters in one answer; records for mail are far smaller. */
const LARGEST_ANSWER = 16 * 1024;
/** Characters in the whole cache. */
const MOST_KEPT = 8 * 1024 * 1024;
/** Added to the size of each entry's text. */
const ENTRY_SIZE = 200;

/** A message is authenticated as of its arrival, which is a little before the questions about it. */
const ARRIVED_BEFORE_MS = 60_000;

/** False also for an answer from before the clock was set back, which would last for as long as the clock was ahead. */
export const isDnsAnswerFresh = ({ from, until }: Answer, now: number): boolean =>
  now < until && from - now <= ARRIVED_BEFORE_MS;

export function createDnsCache({ dns, now }: Pick<Runtime, "dns" | "now">) {
  /** In order of insertion: the oldest goes first. */
  const cache = new Map<string, { answer: Answer; size: number }>();
  const open = new Map<string, Promise<Answer>>();
  let cachedSize = 0;

  function forget(key: string): void {
    cachedSize -= cache.get(key)?.size ?? 0;
    cache.delete(key);
  }

  function keep(key: string, answer: Answer, textSize: number): void {
    forget(key);
    const size = ENTRY_SIZE + key.length + textSize;
    cache.set(key, { answer, size });
    cachedSize += size;
    for (const oldest of cache.keys()) {
      if (cachedSize <= MOST_KEPT) break;
      forget(oldest);
    }
  }

  async function lookUp(key: string, name: string, type: RecordType): Promise<Answer> {
    let found: Found;
    let size = 0;
    let lifetimeMs = FAILURE_KEPT_MS;
    try {
      const given = await dns.ask(name, type);
      size = JSON.stringify(given.records).length;
      found = size > LARGEST_ANSWER ? { code: "EBADRESP" } : foundIn(given);
      if (size <= LARGEST_ANSWER) lifetimeMs = answerLifetime(given);
    } catch (error) {
      found = { code: (error as NodeJS.ErrnoException).code ?? "ESERVFAIL" };
    }
    const from = now();
    const answer = { ...found, from, until: from + lifetimeMs };
    keep(key, answer, "records" in found ? size : 0);
    return answer;
  }

  return {
    /** The answer itself when the cache has it, otherwise a promise that never rejects. */
    ask(name: string, type: RecordType): Answer | Promise<Answer> {
      const key = `${type} ${name.toLowerCase()}`;
      const known = cache.get(key);
      if (known !== undefined && isDnsAnswerFresh(known.answer, now())) return known.answer;
      const others = open.get(key);
      if (others !== undefined) return others;
      const asked = lookUp(key, name, type).finally(() => open.delete(key));
      open.set(key, asked);
      return asked;
    },
  };
}

const foundIn = ({ records, absence }: DnsAnswer<RecordType>): Found =>
  absence === undefined ? { records } : { code: absence === "name" ? "ENOTFOUND" : "ENODATA" };

/** Milliseconds. RFC 2308 §5: an absence without a time is not kept, or as short as can be. */
const answerLifetime = ({ ttl = 0 }: DnsAnswer<RecordType>): number =>
  Math.min(LONGEST_MS, Math.max(SHORTEST_MS, ttl * 1_000));

/** True when DNS says that there are no such records, false when the query failed. */
export const isDnsAbsence = (code: string): boolean => ["ENOTFOUND", "ENODATA", "EBADNAME"].includes(code);

/** The answer, or a timeout after `ms` that is not cached. */
export async function answerWithin(
  answer: Promise<Answer>,
  ms: number,
  runtime: Pick<Runtime, "setTimer">,
): Promise<Answer> {
  const late: Answer = { code: "ETIMEOUT", from: 0, until: 0 };
  return ms <= 0 ? late : ((await awaitAtMost(runtime, ms, answer)) ?? late);
}
