/**
 * The manners asked of strangers at the MX listener: how much one source and its network may send, whether a blocklist
 * knows it, whether it guesses recipients, whether it comes back when put off. Networks that the operator trusts meet
 * none of this.
 *
 * All refusals but those for a listed client, which the operator asked for, are 4yz: an honest server that meets one
 * delivers later. Nothing is refused for the name in HELO (RFC 5321 §4.1.4), and nothing is trusted for an address of
 * ours in MAIL: who that is only authentication says.
 *
 * Invariant: what is remembered of sources is bounded, however many there are. Nobody waits for what is not unknown.
 */
import { createRateLimit } from "../access/rate.ts";
import { createSlowdown, type Pace } from "../access/slowdown.ts";
import type { Runtime } from "../base/runtime.ts";
import { canonicalAddress, networkList, networkOfAddress, sourceOfAddress } from "../net/ip.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Options } from "../store/settings.ts";
import type { Blocklists } from "./dnsbl.ts";
import type { Greylist } from "./greylist.ts";

export interface Door {
  /** Whether `ip` is in one of the networks that the operator trusts. */
  isTrusted(ip: string): boolean;
  /** Lets a connection in. @throws Refusal tooManyConnections */
  open(ip: string): Visit;
}

/** One connection. */
export interface Visit {
  /** MAIL. @throws Refusal tooMuchMail */
  startMail(reversePath: string): void;
  /**
   * RCPT: `admit` says whether the recipient is taken at all, by what it throws.
   * @throws Refusal what `admit` throws, tooManyRecipients, oneReportEach, blocklisted, tooManyGuesses, greylisted
   */
  admitRecipient(recipient: string, admit: () => void | Promise<void>): void | Promise<void>;
  /** A message was accepted. */
  accepted(): void;
}

export interface DoorParts {
  options: Pick<Options, "get">;
  blocklists: Blocklists;
  greylist: Pick<Greylist, "admit">;
  runtime: Pick<Runtime, "now" | "setTimer">;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** A network is many sources: it may do so many times what one of them may. */
const SHARE_OF_NETWORK = 4;
/** Sending at full rate for so many minutes is what an hour may hold. */
const MINUTES_AT_FULL_RATE = 20;
/** Per rate; there are ten, of about 2 MB each. */
const SOURCES_COUNTED = 10_000;

/** Old addresses of an honest sender's list are told at once, or after seconds that its queue does not notice. */
const GUESSING: Pace = { freeFailures: 5, firstDelayMs: 500, longestDelayMs: 10_000, forgottenAfterMs: 10 * MINUTE_MS };
/** Unknown recipients of one connection since its last message. */
const MOST_UNKNOWN = 20;
/** Of one source, kept waiting at once: who does not wait for the answer gets none. */
const MOST_WAITING = 10;

/** Mailboxes that complaints about being refused go to (RFC 5321 §4.5.1, RFC 2142 §4). */
const ROLE_ADDRESS = /^(postmaster|abuse)(@|$)/i;

interface Origin {
  /** Undefined when the system does not tell it. */
  address: string | undefined;
  source: string;
  network: string;
}

const WELCOME: Visit = {
  startMail() {},
  admitRecipient: (_, admit) => admit(),
  accepted() {},
};

export function createDoor({ options, blocklists, greylist, runtime }: DoorParts): Door {
  const connections = allowance(() => options.get("mx.connectionsPerMinute"), "minute");
  const messages = allowance(() => options.get("mx.messagesPerMinute"), "minute", "hour");
  const recipients = allowance(() => options.get("mx.recipientsPerMinute"), "minute", "hour");
  const slowdown = createSlowdown(runtime, GUESSING);
  /** Sources that are kept waiting: how often. */
  const waiting = new Map<string, number>();

  function isTrustedAddress(address: string | undefined): boolean {
    const networks = options.get("mx.trustedNetworks");
    return address !== undefined && networks !== "none" && networkList(networks)(address);
  }

  async function findListing({ address }: Origin) {
    const zones = options.get("mx.dnsbl");
    return address === undefined || zones === "none" ? undefined : blocklists.find(address, zones);
  }

  /** Resolves when an unknown recipient may be told. @throws Refusal tooManyGuesses */
  async function keepWaiting({ source, network }: Origin): Promise<void> {
    const others = waiting.get(source) ?? 0;
    if (others >= MOST_WAITING) throw new Refusal("tooManyGuesses");
    waiting.set(source, others + 1);
    await slowdown.failed(source, network);
    const left = (waiting.get(source) ?? 1) - 1;
    if (left > 0) waiting.set(source, left);
    else waiting.delete(source);
  }

  function visit(origin: Origin): Visit {
    // Asked early, so that the answer is there when it counts.
    const listing = findListing(origin);
    let reversePath = "";
    /** Who gets the report that is being sent. */
    let reportedTo: string | undefined;
    let unknown = 0;

    async function admitStranger(recipient: string, admit: () => void | Promise<void>): Promise<void> {
      const isRole = ROLE_ADDRESS.test(recipient);
      const listed = isRole ? undefined : await listing;
      if (listed) {
        const { zone, reason } = listed;
        const text = `${origin.address} is listed by ${zone}${reason ? `: ${reason}` : ""}`;
        throw new Refusal("blocklisted", undefined, text);
      }
      try {
        await admit();
      } catch (error) {
        if (!(error instanceof Refusal) || error.reason !== "unknownRecipient") throw error;
        unknown++;
        await keepWaiting(origin);
        throw unknown >= MOST_UNKNOWN ? new Refusal("tooManyGuesses") : error;
      }
      const wait = options.get("mx.greylistSeconds");
      if (wait === "off" || isRole) return;
      await greylist.admit({ network: origin.network, reversePath, recipient }, wait * 1000);
    }

    return {
      startMail(path) {
        if (!messages(origin)) throw new Refusal("tooMuchMail");
        reversePath = path;
        reportedTo = undefined;
      },
      async admitRecipient(recipient, admit) {
        // What has no reverse-path goes to one: a report to who sent what it reports on (RFC 3464 §2), an automatic
        // answer to who wrote (RFC 3834 §4). Not all of it are reports, so none is refused for being none.
        const key = recipient.toLowerCase();
        if (reversePath === "" && reportedTo !== undefined && reportedTo !== key) throw new Refusal("oneReportEach");
        if (!recipients(origin)) throw new Refusal("tooManyRecipients");
        await admitStranger(recipient, admit);
        reportedTo = key;
      },
      accepted() {
        unknown = 0;
      },
    };
  }

  /** Counts one more of an origin; false when it or its network has had its share of any of `spans`. */
  function allowance(perMinute: () => number, ...spans: ("minute" | "hour")[]): (origin: Origin) => boolean {
    const rates = spans.flatMap((span) => {
      const [windowMs, minutes] = span === "minute" ? [MINUTE_MS, 1] : [HOUR_MS, MINUTES_AT_FULL_RATE];
      const rate = (share: number) =>
        createRateLimit(
          () => perMinute() * minutes * share,
          () => 0,
          SOURCES_COUNTED,
          windowMs,
        );
      return [
        { rate: rate(1), nameOf: ({ source }: Origin) => source },
        { rate: rate(SHARE_OF_NETWORK), nameOf: ({ network }: Origin) => network },
      ];
    });
    return (origin) => rates.every(({ rate, nameOf }) => !rate.take(nameOf(origin), runtime.now()).retryAfter);
  }

  return {
    isTrusted: (ip) => isTrustedAddress(canonicalAddress(ip)),
    open(ip) {
      const address = canonicalAddress(ip);
      if (isTrustedAddress(address)) return WELCOME;
      const origin = { address, source: sourceOfAddress(address), network: networkOfAddress(address) };
      if (!connections(origin)) throw new Refusal("tooManyConnections");
      return visit(origin);
    },
  };
}
