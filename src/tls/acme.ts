/**
 * Obtains a certificate from an authority (rules: Certificates): orders it once the listeners are up, and renews it
 * while they run. The self-signed certificate serves until the first one is obtained.
 *
 * Files in <data>/tls/acme, each replaced whole: account.json, certificate.pem, order.json (an order under way, with
 * its key, so that it continues after a crash) and state.json (the authority that signed, and the last failure).
 *
 * Invariants: a failure here leaves the current pair in use and stops nothing else. The server asks an authority no
 * more often than the schedule at the end of this file allows, even when the clock jumps or the server is restarted
 * over and over.
 */
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { openHttpClient } from "../net/http-client.ts";
import {
  type Account,
  AuthorityRefusal,
  type BegunOrder,
  ChallengeFailure,
  openAuthority,
  type RenewalWindow,
} from "./authority.ts";
import { openChallenge } from "./challenge.ts";
import { type KeyPair, loadPair, problemOf, readPrivately, renewalIdOf, savePair, savePrivately } from "./pair.ts";
import { type CertificateSetup, type Source, selfSignedSource, type Trouble } from "./source.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Time between two checks of the names and the renewal time. */
const LOOK_MS = 10 * MINUTE_MS;
/** Wait before the renewal window is asked for again, unless the authority says when. */
const ASK_AGAIN_MS = 6 * HOUR_MS;
/** How long a failed name, other than the main one, is left out of orders. */
const LEFT_OUT_MS = 24 * HOUR_MS;
/** The operator may choose an authority at any address. */
const EVERYWHERE = ["0.0.0.0/0", "::/0"];
const STOPPING = "this server is stopping";
const CLOCK = "the certificate just obtained is to be renewed at once: is this machine's clock right?";

interface State {
  /** The directory of the authority that signed the certificate; undefined until one has. */
  directory?: string | undefined;
  trouble?: Trouble | undefined;
}

type AccountFile = Account & { directory: string };
type OrderFile = BegunOrder & { directory: string; names: readonly string[] };

const folderOf = (data: string): string => join(data, "tls", "acme");

/** Reads the last failure with the certificate of a data folder; undefined without one. Never rejects. */
export async function readAcmeTrouble(data: string): Promise<Trouble | undefined> {
  return (await readJson<State>(join(folderOf(data), "state.json")))?.trouble;
}

/** Reads a file's value; undefined when the file is missing or damaged. */
async function readJson<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse((await readPrivately(path)) ?? "") as T;
  } catch {
    return undefined;
  }
}

const newKey = (): string =>
  generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();

type AcmeMode = Extract<CertificateSetup["mode"], { mode: "acme" }>;

export function acmeSource(mode: AcmeMode, setup: CertificateSetup): Source {
  const { hostname, folder, runtime, log } = setup;
  const names = setup.names ?? (async () => ({ main: hostname.toLowerCase(), others: [] }));
  const { directory, email } = mode;
  const fileOf = (name: string): string => join(folderOf(folder), name);
  const http = openHttpClient({ runtime, allow: () => EVERYWHERE });
  const authority = openAuthority({ directory, http, runtime });
  const challenge = openChallenge(mode.challenge, setup);
  /** Names whose challenge failed, and when: epoch ms. */
  const leftOut = new Map<string, number>();
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {});
  let pair: KeyPair | undefined;
  let state: State = {};
  let suggested: RenewalWindow | undefined;
  let askWindowAt = 0;
  let isFirstLook = true;

  const saveState = () => savePrivately(fileOf("state.json"), JSON.stringify(state));

  async function accountOf(): Promise<Account> {
    const kept = await readJson<AccountFile>(fileOf("account.json"));
    if (kept?.directory === directory && kept.key) return kept;
    const account = { directory, key: newKey(), url: undefined };
    await savePrivately(fileOf("account.json"), JSON.stringify(account));
    return account;
  }

  /** Asks when the authority wants a renewal, as often as it allows; it wants a revoked certificate renewed at once. */
  async function askWindow(cert: string): Promise<void> {
    if (runtime.now() < askWindowAt) return;
    askWindowAt = runtime.now() + ASK_AGAIN_MS;
    try {
      const id = await renewalIdOf(cert);
      suggested = id === undefined ? undefined : await Promise.race([authority.renewalWindow(id), stopped.promise]);
      askWindowAt = suggested?.askAt ?? askWindowAt;
    } catch (error) {
      log.debug("the authority gives no renewal window", { reason: (error as Error).message });
    }
  }

  async function obtain(wanted: readonly string[]): Promise<KeyPair> {
    const account = await accountOf();
    const kept = await readJson<OrderFile>(fileOf("order.json"));
    const isSame = kept?.directory === directory && kept.names.join() === wanted.join();
    const signed = await authority.order({
      account,
      email,
      names: wanted,
      key: newKey(),
      begun: isSame ? kept : undefined,
      replaces: pair && suggested ? await renewalIdOf(pair.cert) : undefined,
      registered: (url) => savePrivately(fileOf("account.json"), JSON.stringify({ ...account, directory, url })),
      began: (order) => savePrivately(fileOf("order.json"), JSON.stringify({ ...order, directory, names: wanted })),
      challenge: challenge.type,
      show: challenge.show,
    });
    const obtained = { cert: signed.cert.trim(), key: signed.key.trim() };
    const problem = problemOf(obtained);
    if (problem !== undefined) throw new Error(`the authority gave a certificate that is none: ${problem}`);
    await savePair(fileOf("certificate.pem"), obtained);
    return obtained;
  }

  /** Returns when the current certificate is due for renewal, epoch ms; 0 when there is none for these names. */
  const dueAt = (wanted: readonly string[]): number =>
    pair && state.directory === directory && covers(pair.cert, wanted) ? renewalTime(pair.cert, suggested) : 0;

  async function fail(error: unknown): Promise<void> {
    const now = runtime.now();
    const reason = error instanceof Error ? error.message : String(error);
    const [byte = 0] = runtime.randomBytes(1);
    const askedFor = error instanceof AuthorityRefusal ? error.retryAt : undefined;
    const trouble = afterFailure(state.trouble, { now, reason, chance: byte / 255, askedFor });
    state = { ...state, trouble };
    const wrong =
      error instanceof ChallengeFailure ? error.hosts : error instanceof AuthorityRefusal ? error.names : [];
    const { main } = await names();
    for (const name of wrong) if (name !== main) leftOut.set(name, now);
    // A failed order is of no more use; an interrupted one can continue.
    if (wrong.length > 0) await rm(fileOf("order.json"), { force: true });
    // The next attempt registers a new account.
    const isForgotten = error instanceof AuthorityRefusal && error.type === "accountDoesNotExist";
    if (isForgotten) await rm(fileOf("account.json"), { force: true });
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

  async function wantedNames(): Promise<readonly string[]> {
    const { main, others } = await names();
    // Absolute differences, since the clock may have been set back.
    const isLeftOut = (name: string) => Math.abs(runtime.now() - (leftOut.get(name) ?? 0)) < LEFT_OUT_MS;
    return [main, ...others.filter((name) => name !== main && !isLeftOut(name))];
  }

  async function renew(wanted: readonly string[], replace: (pair: KeyPair) => void): Promise<void> {
    try {
      pair = await Promise.race([obtain(wanted), stopped.promise]);
      replace(pair);
      suggested = undefined;
      askWindowAt = 0;
      const until = new X509Certificate(pair.cert).validToDate;
      const last = state.trouble;
      state = { directory };
      // Without this, a clock that is wrong by years would cause one renewal after another.
      if (dueAt(wanted) <= runtime.now()) {
        state.trouble = afterFailure(last, { now: runtime.now(), reason: CLOCK, chance: 0 });
      }
      await saveState();
      await rm(fileOf("order.json"), { force: true });
      log.info("certificate obtained", { directory, challenge: challenge.type, names: wanted, until });
    } catch (error) {
      if ((error as Error).message !== STOPPING) await fail(error);
    } finally {
      await challenge.clear();
    }
  }

  return {
    async first() {
      state = (await readJson<State>(fileOf("state.json"))) ?? {};
      pair = await loadPair(fileOf("certificate.pem")).catch(() => undefined);
      return pair ?? (await selfSignedSource(setup).first());
    },
    async look(replace) {
      // Clears proofs that a crash left; an order that continues shows its proofs again.
      if (isFirstLook) await challenge.clear();
      isFirstLook = false;
      const wanted = await wantedNames();
      if (pair && state.directory === directory) await askWindow(pair.cert);
      const { trouble } = state;
      if (trouble && trouble.at > runtime.now()) {
        state = { ...state, trouble: asOfNow(trouble, runtime.now()) };
        await saveState();
      }
      const nextOrder = () => Math.max(dueAt(wanted), state.trouble?.retryAt ?? 0);
      if (nextOrder() <= runtime.now()) await renew(wanted, replace);
      const next = nextOrder();
      return Math.max(runtime.now() + 1_000, Math.min(next, runtime.now() + LOOK_MS));
    },
    proof: (token) => challenge.proof?.(token),
    alpn: challenge.alpn,
    trouble: () => state.trouble,
    stop() {
      stopped.reject(new Error(STOPPING));
      challenge.stop?.();
      http.close();
    },
  };
}

/* The schedule: when to order a certificate for renewal, for new names, and after failures. */

/**
 * Waits after failures in a row. Public authorities allow few failed orders an hour for a name, and a person has to fix
 * the usual causes, such as DNS or a firewall.
 */
const WAITS_MS = [5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS];

/** Latest renewal, as a part of a certificate's life. */
const LATEST = 0.8;
/** Longest wait that an authority may ask for: its certificates are valid for weeks. */
const LONGEST_WAIT_MS = 7 * 24 * HOUR_MS;

/**
 * Returns when to renew the certificate, epoch ms: a moment in the window that the authority suggests, or else after
 * two thirds of its life. Its fingerprint chooses the exact moment, which so stays the same, and differs between
 * servers.
 */
export function renewalTime(cert: string, suggested: RenewalWindow | undefined): number {
  const { validFromDate, validToDate, fingerprint256 } = new X509Certificate(cert);
  const [from, until] = [validFromDate.getTime(), validToDate.getTime()];
  const chance = Number.parseInt(fingerprint256.replaceAll(":", "").slice(0, 8), 16) / 2 ** 32;
  // A later window is ignored: failures in a row could outlast the certificate.
  const latest = from + (until - from) * (LATEST + chance / 20);
  if (suggested) return Math.min(suggested.start + (suggested.end - suggested.start) * chance, latest);
  return from + (until - from) * (2 / 3 + chance / 20);
}

/** Tells whether the certificate covers all these names. */
function covers(cert: string, names: readonly string[]): boolean {
  const certificate = new X509Certificate(cert);
  return names.every((name) => certificate.checkHost(name, { wildcards: false }) !== undefined);
}

/** Adds a failure. `chance`: 0 to 1. `askedFor`: the earliest time that the authority allows, epoch ms. */
export function afterFailure(
  last: Trouble | undefined,
  { now, reason, chance, askedFor = 0 }: { now: number; reason: string; chance: number; askedFor?: number | undefined },
): Trouble {
  const failures = (last?.failures ?? 0) + 1;
  const wait = (WAITS_MS[failures - 1] ?? 24 * HOUR_MS) * (1 + chance / 5);
  return { failures, at: now, retryAt: Math.max(now + wait, Math.min(askedFor, now + LONGEST_WAIT_MS)), reason };
}

/** Moves a failure to `now`, with its wait, after the clock was set back to before it. */
const asOfNow = (trouble: Trouble, now: number): Trouble => ({
  ...trouble,
  at: now,
  retryAt: now + trouble.retryAt - trouble.at,
});
