/**
 * DNS blocklists (RFC 5782): finds the zone, of those that the operator chose, that lists a client's address.
 *
 * Invariant: a list that does not answer, or answers with an address outside 127.0.0.0/8, lists no client. Neither of its two
 * answers, address and reason, delays a client by more than `ANSWER_MS`.
 */
import type { Log } from "../base/log.ts";
import type { RecordType, Runtime } from "../base/runtime.ts";
import { type Answer, answerWithin, type DnsCache, isDnsAbsence } from "../net/dns-cache.ts";
import { createNetworkMatcher } from "../net/ip.ts";

export interface Listing {
  zone: string;
  /** The reason, in the list's words. */
  reason?: string;
}

const ANSWER_MS = 5_000;
/** A list that does not work is logged once in this time. */
const QUIET_MS = 10 * 60_000;

const isAnswer = createNetworkMatcher(["127.0.0.0/8"]);
/** Answers of Spamhaus to queries that are not allowed or malformed: https://www.spamhaus.org/faqs/dnsbl-usage/#200 */
const isError = createNetworkMatcher(["127.255.255.0/24"]);

/** Writes an address as in a zone: `2.0.0.127` for 127.0.0.2 (RFC 5782 §2.1), nibbles for IPv6 (§2.4). */
export function reversedAddress(address: string): string {
  if (!address.includes(":")) return address.split(".").reverse().join(".");
  const digits = address.split(":").map((group) => group.padStart(4, "0"));
  return [...digits.join("")].reverse().join(".");
}

export function createBlocklists(
  { runtime, log }: { runtime: Pick<Runtime, "now" | "setTimer">; log: Log },
  names: DnsCache,
) {
  /** When a zone's failure was last logged. */
  const failures = new Map<string, number>();

  const ask = (name: string, type: RecordType): Promise<Answer> =>
    answerWithin(Promise.resolve(names.ask(name, type)), ANSWER_MS, runtime);

  function noteFailure(zone: string, said: string): void {
    const now = runtime.now();
    const loggedAt = failures.get(zone);
    if (loggedAt !== undefined && Math.abs(now - loggedAt) < QUIET_MS) return;
    failures.set(zone, now);
    log.warn("blocklist does not work", { zone, said });
  }

  async function look(address: string, zone: string): Promise<Listing | undefined> {
    const name = `${reversedAddress(address)}.${zone}`;
    const answer = await ask(name, "A");
    if ("code" in answer) {
      if (!isDnsAbsence(answer.code)) noteFailure(zone, answer.code);
      return undefined;
    }
    const addresses = answer.records.map(String);
    if (!addresses.some((given) => isAnswer(given) && !isError(given))) {
      noteFailure(zone, addresses.slice(0, 3).join(", "));
      return undefined;
    }
    const texts = await ask(name, "TXT");
    const [text] = "records" in texts ? texts.records : [];
    const reason = text === undefined ? "" : String(text);
    return { zone, ...(reason === "" ? {} : { reason }) };
  }

  return {
    /** Finds the first of `zones` that lists `address` (as canonicalIpAddress gives it). Never rejects. */
    async find(address: string, zones: readonly string[]): Promise<Listing | undefined> {
      const listings = await Promise.all(zones.map((zone) => look(address, zone)));
      return listings.find((listing) => listing !== undefined);
    },
  };
}
