/**
 * DNS blocklists (RFC 5782): whether a client's address is listed in a zone that the operator chose.
 *
 * Invariant: a list that does not answer, or answers anything but 127.0.0.0/8, lists nobody; nobody waits for one longer
 * than `ANSWER_MS`; what is remembered is bounded.
 */
import type { Log } from "../log.ts";
import { networkList } from "../network.ts";
import type { Runtime } from "../runtime.ts";

export interface Listing {
  zone: string;
  /** Why, in the list's words. */
  reason?: string;
}

export interface Blocklists {
  /** The first of `zones` that lists `address` (as canonicalAddress gives it). Never rejects. */
  find(address: string, zones: readonly string[]): Promise<Listing | undefined>;
  /** Answers remembered just now. */
  size(): number;
}

const ANSWER_MS = 5_000;
/** How long an answer holds, and the lack of one: a list that is down is not asked at every connection. */
const KEPT_MS = 10 * 60_000;
const FAILURE_KEPT_MS = 60_000;
const MOST_KEPT = 10_000;

const isAnswer = networkList(["127.0.0.0/8"]);
/** What Spamhaus says to who may not ask, or asks wrongly: https://www.spamhaus.org/faqs/dnsbl-usage/#200 */
const isError = networkList(["127.255.255.0/24"]);

/** `2.0.0.127` for 127.0.0.2 (RFC 5782 §2.1), nibbles for IPv6 (§2.4). */
export function reversedAddress(address: string): string {
  if (!address.includes(":")) return address.split(".").reverse().join(".");
  const digits = address.split(":").map((group) => group.padStart(4, "0"));
  return [...digits.join("")].reverse().join(".");
}

const isNoSuchName = (error: unknown): boolean =>
  ["ENOTFOUND", "ENODATA"].includes((error as NodeJS.ErrnoException | undefined)?.code ?? "");

export function createBlocklists({
  runtime,
  log,
}: {
  runtime: Pick<Runtime, "now" | "setTimer" | "dns">;
  log: Log;
}): Blocklists {
  // In the order in which they were asked.
  const answers = new Map<string, { until: number; listing: Promise<Listing | undefined> }>();
  /** When a zone's failure was last logged. */
  const failures = new Map<string, number>();

  async function inTime<T>(question: Promise<T>): Promise<T> {
    let cancel = (): void => {};
    const late = new Promise<never>((_, reject) => {
      cancel = runtime.setTimer(() => reject(Object.assign(new Error("no answer"), { code: "ETIMEOUT" })), ANSWER_MS);
    });
    return Promise.race([question, late]).finally(() => cancel());
  }

  async function ask(name: string, zone: string): Promise<Listing | undefined> {
    const addresses = await inTime(runtime.dns.resolve4(name));
    if (!addresses.some((address) => isAnswer(address) && !isError(address))) {
      noteFailure(zone, new Error(`it answered ${addresses.slice(0, 3).join(", ")}`));
      return undefined;
    }
    const texts = await inTime(runtime.dns.resolveTxt(name)).catch(() => []);
    const reason = texts[0]?.join("");
    return { zone, ...(reason ? { reason } : {}) };
  }

  function noteFailure(zone: string, error: unknown): void {
    const now = runtime.now();
    const loggedAt = failures.get(zone);
    if (loggedAt !== undefined && now < loggedAt + KEPT_MS) return;
    failures.set(zone, now);
    log.warn("blocklist does not work", { zone, error });
  }

  function look(address: string, zone: string): Promise<Listing | undefined> {
    const name = `${reversedAddress(address)}.${zone}`;
    const now = runtime.now();
    const known = answers.get(name);
    if (known && now < known.until) return known.listing;
    const entry = { until: now + KEPT_MS, listing: Promise.resolve<Listing | undefined>(undefined) };
    entry.listing = ask(name, zone).catch((error) => {
      if (isNoSuchName(error)) return undefined;
      entry.until = runtime.now() + FAILURE_KEPT_MS;
      noteFailure(zone, error);
      return undefined;
    });
    answers.delete(name);
    answers.set(name, entry);
    for (const [oldest] of answers) {
      if (answers.size <= MOST_KEPT) break;
      answers.delete(oldest);
    }
    return entry.listing;
  }

  return {
    async find(address, zones) {
      const listings = await Promise.all(zones.map((zone) => look(address, zone)));
      return listings.find((listing) => listing !== undefined);
    },
    size: () => answers.size,
  };
}
