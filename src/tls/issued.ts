/**
 * A certificate that an authority issues: its order, its renewal and its failures, apart from those of any other
 * certificate.
 *
 * Files in its folder, each replaced whole: certificate.pem, order.json (an order under way, with its key, so that it
 * continues after a crash) and state.json (the authority that signed, and the last failure).
 *
 * Invariants: a failure leaves the current pair in use. The authority is asked no more often than renewal-schedule.ts allows,
 * even when the clock jumps or the server is restarted over and over.
 */
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { toShownSentence } from "../net/answer.ts";
import {
  type Account,
  AuthorityAway,
  AuthorityRefusal,
  type BegunOrder,
  type Challenge,
  ChallengeFailure,
  type openAuthority,
  type RenewalWindow,
} from "./certificate-authority.ts";
import {
  findCertificateChainFault,
  findKeyPairProblem,
  findRenewalId,
  type KeyPair,
  listCertificateNames,
  loadKeyPair,
  readFileIfPresent,
  saveKeyPair,
  savePrivately,
} from "./pair.ts";
import {
  addCertificateFailure,
  certificateRenewalTime,
  mayCertificateRenewalWait,
  moveCertificateFailureToNow,
} from "./renewal-schedule.ts";
import type { Renewal, Trouble } from "./source.ts";

const HOUR_MS = 60 * 60_000;
/** Wait before the renewal window is asked for again, unless the authority says when. */
const ASK_AGAIN_MS = 6 * HOUR_MS;
/** A window of the authority has a certificate renewed this long after it came, at the earliest. */
const SOONEST_MS = 6 * HOUR_MS;
/** How long a failed name, other than the required one, is left out of orders. */
const LEFT_OUT_MS = 24 * HOUR_MS;
export const STOPPING = "this server is stopping";
const CLOCK = "the certificate just obtained is to be renewed at once: is this machine's clock right?";

interface State {
  /** The directory of the authority that signed the certificate; undefined until one has. */
  directory?: string | undefined;
  /** When the last order ended, epoch ms. */
  orderedAt?: number | undefined;
  /** When the certificate came, epoch ms. */
  obtainedAt?: number | undefined;
  trouble?: Trouble | undefined;
}

type AccountFile = Account & { directory: string };
type OrderFile = BegunOrder & { directory: string; names: readonly string[] };

/** Settings and helpers that all certificates of one authority share. */
export interface Issuer {
  /** URL. */
  directory: string;
  email: string | undefined;
  /** Directory, e-mail address and challenge as they are configured: a failure under others says nothing of these. */
  setup: string;
  authority: ReturnType<typeof openAuthority>;
  challenge: Challenge;
  /** Rejects when the server stops. */
  stopped: Promise<never>;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  log: Log;
}

/** State of a certificate, as its files have it. */
export interface StoredCertificate {
  /** When it ends, epoch ms; undefined without a certificate. */
  until: number | undefined;
  trouble: Trouble | undefined;
}

/** Reads what the files of a certificate say, for another process. Never rejects. */
export async function readStoredCertificate(folder: string): Promise<StoredCertificate> {
  const [state, pair] = await Promise.all([readState(folder), readPair(folder)]);
  return { until: pair && new X509Certificate(pair.cert).validToDate.getTime(), trouble: state.trouble };
}

const readPair = (folder: string): Promise<KeyPair | undefined> =>
  loadKeyPair(join(folder, "certificate.pem")).catch(() => undefined);

const readState = async (folder: string): Promise<State> => (await readJson<State>(join(folder, "state.json"))) ?? {};

/** Reads a file's value; undefined when the file is missing or damaged. */
async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse((await readFileIfPresent(path)) ?? "") as T;
  } catch {
    return undefined;
  }
}

const newKey = (): string =>
  generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();

export type Issued = ReturnType<typeof createIssuedCertificate>;

/**
 * `account`: path of the file with the account that orders it. `required`: the name that every order contains. `asked`:
 * the names that are configured, of which an order has some.
 */
export function createIssuedCertificate({
  folder,
  account: accountFile,
  required,
  asked,
  issuer,
}: {
  folder: string;
  account: string;
  required?: string;
  asked(): readonly string[];
  issuer: Issuer;
}) {
  const { directory, email, authority, challenge, stopped, runtime, log } = issuer;
  const issuedFilePath = (name: string): string => join(folder, name);
  /** Names that failed, and when: epoch ms. */
  const leftOut = new Map<string, number>();
  let held: { pair: KeyPair; certificate: X509Certificate; names: ReadonlySet<string> } | undefined;
  let state: State = {};
  let suggested: RenewalWindow | undefined;
  let askWindowAt = 0;

  function hold(pair: KeyPair): void {
    const certificate = new X509Certificate(pair.cert);
    held = { pair, certificate, names: new Set(listCertificateNames(certificate)) };
    suggested = undefined;
    askWindowAt = 0;
  }

  const subject = (): string => JSON.stringify([issuer.setup, ...asked()]);

  /** The last failure, unless something else is asked for now. */
  const standing = (): Trouble | undefined => (state.trouble?.of === subject() ? state.trouble : undefined);

  const saveState = () => savePrivately(issuedFilePath("state.json"), JSON.stringify(state));

  const isOfDirectory = (): boolean => held !== undefined && state.directory === directory;

  const covers = (name: string): boolean => held?.names.has(name) ?? false;

  async function loadAcmeAccount(): Promise<Account> {
    const stored = await readJson<AccountFile>(accountFile);
    if (stored?.directory === directory && stored.key) return stored;
    const account = { directory, key: newKey(), url: undefined };
    await savePrivately(accountFile, JSON.stringify(account));
    return account;
  }

  async function obtain(names: readonly string[]): Promise<KeyPair> {
    const account = await loadAcmeAccount();
    const stored = await readJson<OrderFile>(issuedFilePath("order.json"));
    const isSame = stored?.directory === directory && stored.names.join() === names.join();
    const signed = await authority.order({
      account,
      email,
      names,
      key: newKey(),
      begun: isSame ? stored : undefined,
      replaces: held && suggested ? await findRenewalId(held.pair.cert) : undefined,
      registered: (url) => savePrivately(accountFile, JSON.stringify({ ...account, directory, url })),
      began: (order) => savePrivately(issuedFilePath("order.json"), JSON.stringify({ ...order, directory, names })),
      challenge: challenge.type,
      show: challenge.show,
    });
    const obtained = { cert: signed.cert.trim(), key: signed.key.trim() };
    requireUsable(obtained, names);
    await saveKeyPair(issuedFilePath("certificate.pem"), obtained);
    return obtained;
  }

  /** @throws Error for a pair that cannot take the place of the one in use */
  function requireUsable(pair: KeyPair, names: readonly string[]): void {
    const problem = findKeyPairProblem(pair) ?? findCertificateChainFault(pair.cert);
    if (problem !== undefined) throw new Error(`the authority gave a certificate that is none: ${problem}`);
    const certificate = new X509Certificate(pair.cert);
    const its = new Set(listCertificateNames(certificate));
    const missing = names.find((name) => !its.has(name));
    if (missing !== undefined) throw new Error(`the authority gave a certificate that is not for ${missing}`);
    const until = certificate.validToDate;
    // One that lasts longer has ended on this machine's clock alone.
    if (held && until.getTime() <= runtime.now() && until < held.certificate.validToDate) {
      throw new Error("the authority gave a certificate that has ended: is this machine's clock right?");
    }
  }

  async function fail(error: unknown, names: readonly string[]): Promise<void> {
    const now = runtime.now();
    const reason = toShownSentence((error as Error).message);
    const [byte = 0] = runtime.randomBytes(1);
    const askedFor = error instanceof AuthorityRefusal ? error.retryAt : undefined;
    const about = { reason, type: failureType(error), of: subject() };
    const trouble = addCertificateFailure(standing(), { now, chance: byte / 255, askedFor, ...about });
    state = { ...state, orderedAt: now, trouble };
    const wrong = blamed(error, names);
    for (const name of wrong) if (name !== required) leftOut.set(name, now);
    // A failed order is of no more use; an interrupted one can continue.
    if (wrong.length > 0) await rm(issuedFilePath("order.json"), { force: true });
    // The next attempt registers a new account.
    const isForgotten = error instanceof AuthorityRefusal && error.type === "accountDoesNotExist";
    if (isForgotten) await rm(accountFile, { force: true });
    const facts = {
      directory,
      challenge: challenge.type,
      reason,
      names: wrong,
      failures: trouble.failures,
      retryAt: new Date(trouble.retryAt),
    };
    log.warn("no certificate could be obtained, the present one stays", facts);
    await saveState();
  }

  /** When the certificate is due for renewal, epoch ms: 0 when there is none for these names, never without names. */
  function dueAt(names: readonly string[]): number {
    if (names.length === 0) return Number.POSITIVE_INFINITY;
    return held && isOfDirectory() && names.every(covers)
      ? certificateRenewalTime(held.certificate, suggested, (state.obtainedAt ?? 0) + SOONEST_MS)
      : 0;
  }

  return {
    /** Reads the files. Never rejects. */
    async load(): Promise<void> {
      state = await readState(folder);
      const pair = await readPair(folder);
      if (pair) hold(pair);
    },
    pair: (): KeyPair | undefined => held?.pair,
    /** When the certificate ends, epoch ms. */
    until: (): number | undefined => held?.certificate.validToDate.getTime(),
    /** Tells whether the certificate is for the name, given in lower case. */
    covers,
    /** The last failure, if no order has succeeded since. */
    trouble: (): Trouble | undefined => state.trouble,
    /** When the last order ended, epoch ms; 0 before the first. */
    orderedAt: (): number => state.orderedAt ?? 0,
    /** The names for an order now: without those that failed lately, unless the renewal can wait for them. */
    wanted(names: readonly string[]): readonly string[] {
      const now = runtime.now();
      const waits = held !== undefined && mayCertificateRenewalWait(held.certificate, now);
      // Absolute differences, since the clock may have been set back.
      const isLeftOut = (name: string) => Math.abs(now - (leftOut.get(name) ?? 0)) < LEFT_OUT_MS;
      return names.filter((name) => name === required || !isLeftOut(name) || (waits && covers(name)));
    },
    /** When to order for these names next, epoch ms. `isStale`: the certificate must be replaced at once. */
    nextOrderAt: (names: readonly string[], isStale = false): number =>
      Math.max(isStale ? 0 : dueAt(names), standing()?.retryAt ?? 0),
    /** Takes the certificate of another for the time until its own is there. */
    async adopt(pair: KeyPair): Promise<void> {
      hold(pair);
      await saveKeyPair(issuedFilePath("certificate.pem"), pair);
    },
    /** Asks when the authority wants a renewal, as often as it allows; it wants a revoked certificate renewed at once. */
    async askWindow(): Promise<void> {
      const { trouble } = state;
      if (trouble && trouble.at > runtime.now()) {
        state = { ...state, trouble: moveCertificateFailureToNow(trouble, runtime.now()) };
        await saveState();
      }
      if (!held || !isOfDirectory() || runtime.now() < askWindowAt) return;
      askWindowAt = runtime.now() + ASK_AGAIN_MS;
      try {
        const id = await findRenewalId(held.pair.cert);
        suggested = id === undefined ? undefined : await Promise.race([authority.renewalWindow(id), stopped]);
        askWindowAt = suggested?.askAt ?? askWindowAt;
      } catch (error) {
        log.debug("the authority gives no renewal window", { reason: toShownSentence((error as Error).message) });
      }
    },
    /** Makes the next order as if none had failed: a person asks for it, who may have mended the cause. */
    forgive(): void {
      leftOut.clear();
      state = { ...state, trouble: undefined };
    },
    /** Result of the last order. `names`: those of that order. */
    outcome: (names: readonly string[]): Renewal => ({
      names,
      until: held?.certificate.validToDate.getTime(),
      trouble: state.trouble,
    }),
    /** Orders a certificate for the names. Resolves with it, or with undefined after a failure, which it notes. */
    async order(names: readonly string[]): Promise<KeyPair | undefined> {
      try {
        const pair = await Promise.race([obtain(names), stopped]);
        hold(pair);
        const now = runtime.now();
        const last = standing();
        state = { directory, orderedAt: now, obtainedAt: now };
        // Without this, a clock that is wrong by years would cause one renewal after another.
        if (dueAt(names) <= now) {
          state.trouble = addCertificateFailure(last, { now, reason: CLOCK, type: "clock", of: subject(), chance: 0 });
        }
        await saveState();
        await rm(issuedFilePath("order.json"), { force: true });
        const until = held?.certificate.validToDate;
        log.info("certificate obtained", { directory, challenge: challenge.type, names, until });
        return pair;
      } catch (error) {
        if ((error as Error).message !== STOPPING) await fail(error, names);
        return undefined;
      } finally {
        await challenge.clear();
      }
    },
    /** Removes the certificate with its key, and all else that is known of it. */
    async remove(): Promise<void> {
      await rm(folder, { recursive: true, force: true });
      held = undefined;
      state = {};
    },
  };
}

/** The kind of a failure: the authority's word for it, or `away` when it did not respond. */
function failureType(error: unknown): string | undefined {
  if (error instanceof AuthorityAway) return "away";
  return error instanceof AuthorityRefusal || error instanceof ChallengeFailure ? error.type : undefined;
}

/** The names of an order that made it fail, as far as the authority says. */
function blamed(error: unknown, names: readonly string[]): readonly string[] {
  if (error instanceof ChallengeFailure) return error.hosts;
  if (!(error instanceof AuthorityRefusal)) return [];
  if (error.names.length > 0 || error.type !== "rejectedIdentifier") {
    return names.filter((name) => error.names.includes(name));
  }
  // Boulder and Pebble name the one that they refuse in the text alone; others name none.
  const words = new Set(error.message.toLowerCase().split(/[^a-z0-9.-]/));
  const named = names.filter((name) => words.has(name) || words.has(`${name}.`));
  return named.length > 0 ? named : names;
}
