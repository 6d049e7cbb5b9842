/**
 * Certificates for hosts of tenants' domains, one a domain, each in a folder of its own: what an authority refuses for
 * one never delays another. They are ordered with an account of their own, so that no tenant uses up what the authority
 * allows to the server's own.
 *
 * Invariants: at most one order is under way. Orders are few an hour, and shared fairly among the owners of the
 * domains. The files of a domain that is no longer served here are removed.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { lookUpAddresses } from "../net/host-addresses.ts";
import {
  createIssuedCertificate,
  type Issued,
  type Issuer,
  readStoredCertificate,
  type StoredCertificate,
} from "./issued.ts";
import type { KeyPair } from "./pair.ts";
import type { CertificateSetup, DomainHosts, Renewal } from "./source.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Orders that may follow each other at once; later ones follow in this distance. */
const MOST_AT_ONCE = 10;
const DISTANCE_MS = 2 * MINUTE_MS;
/** Domains to examine at the same time. */
const MOST_EXAMINED = 20;
const EXAMINE_AGAIN_MS = 10 * MINUTE_MS;

/** The folder of domains in the folder of the authority. */
const FOLDER = "domains";
/** Domains whose name can be that of a folder. Those that people add can. */
const FOLDER_NAME = /^[a-z0-9_][a-z0-9_.-]*$/;

interface Entry {
  name: string;
  issued: Issued;
  /** Undefined until the domain is listed. */
  listed: DomainHosts | undefined;
  /** Hosts that lead here, as of the last examination. */
  here: readonly string[];
  /** Epoch ms; undefined before the first. */
  examinedAt: number | undefined;
}

/** Reads what the files say of each domain's certificate, for another process. `folder`: of the authority. */
export async function readDomainCertificates(folder: string): Promise<(StoredCertificate & { domain: string })[]> {
  const names = await namesIn(join(folder, FOLDER));
  return Promise.all(
    names.map(async (domain) => ({ domain, ...(await readStoredCertificate(join(folder, FOLDER, domain))) })),
  );
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

/** `folder`: of the authority. `own`: names of this server; the first is the one to which its addresses belong. */
export function createDomainCertificates({
  folder,
  own,
  list,
  issuer,
  runtime,
}: {
  folder: string;
  own: readonly string[];
  list: () => readonly DomainHosts[];
  issuer: Issuer;
  runtime: CertificateSetup["runtime"];
}) {
  const { log } = issuer;
  const account = join(folder, "domains-account.json");
  const entries = new Map<string, Entry>();
  /** The end of the distances of all orders so far, epoch ms. */
  let spentUntil = 0;
  let isStopped = false;
  issuer.stopped.catch(() => {
    isStopped = true;
  });

  function getOrCreateEntry(name: string): Entry {
    const known = entries.get(name);
    if (known) return known;
    const asked = () => entries.get(name)?.listed?.hosts ?? [];
    const issued = createIssuedCertificate({ folder: join(folder, FOLDER, name), account, asked, issuer });
    const entry: Entry = { name, issued, listed: undefined, here: [], examinedAt: undefined };
    entries.set(name, entry);
    return entry;
  }

  const listWantedNames = ({ issued, here }: Entry): readonly string[] => issued.wanted(here);
  const nextOrderTime = (entry: Entry): number => entry.issued.nextOrderAt(listWantedNames(entry));

  /** When another order may begin, epoch ms. */
  const roomAt = (): number => spentUntil - (MOST_AT_ONCE - 1) * DISTANCE_MS;

  function spend(at: number): void {
    spentUntil = Math.max(spentUntil, at) + DISTANCE_MS;
  }

  /** When what is kept of a domain is of no more use while nothing of it leads here: a failure is forgotten after a day. */
  function forgetTime({ issued }: Entry): number {
    const trouble = issued.trouble();
    return issued.until() ?? (trouble ? trouble.retryAt + DAY_MS : Number.POSITIVE_INFINITY);
  }

  async function remove(entry: Entry): Promise<void> {
    try {
      await entry.issued.remove();
      if (!entry.listed) entries.delete(entry.name);
    } catch (error) {
      log.warn("the certificate of a domain cannot be removed yet", { domain: entry.name, error });
    }
  }

  async function lookUpHostAddresses(host: string): Promise<string[]> {
    return lookUpAddresses(host, runtime.dns).catch(() => []);
  }

  /** Finds out which hosts of a domain lead here. `addresses`: the server's. */
  async function findHosts(entry: Entry, addresses: readonly string[]): Promise<void> {
    const hosts = entry.listed?.hosts ?? [];
    const found = await Promise.all(hosts.map(lookUpHostAddresses));
    entry.here = hosts.filter((_, i) => found[i]?.some((address) => addresses.includes(address)));
  }

  /** Finds out which hosts lead here and when to renew, of those for which that is longest ago. */
  async function examine(): Promise<void> {
    const now = runtime.now();
    // The absolute difference, since the clock may have been set back.
    const due = [...entries.values()]
      .filter(({ examinedAt = 0 }) => Math.abs(now - examinedAt) >= EXAMINE_AGAIN_MS)
      .sort((a, b) => (a.examinedAt ?? 0) - (b.examinedAt ?? 0))
      .slice(0, MOST_EXAMINED);
    if (due.length === 0) return;
    const addresses = await lookUpHostAddresses(own[0] ?? "");
    await Promise.all(
      due.map(async (entry) => {
        await findHosts(entry, addresses);
        await entry.issued.askWindow();
        entry.examinedAt = now;
        if (entry.here.length === 0 && forgetTime(entry) < now) await remove(entry);
      }),
    );
  }

  /** The domain whose turn it is; undefined when none is due. Owners take turns, and new orders come before repeated ones. */
  function chooseDue(now: number): Entry | undefined {
    const due = [...entries.values()].filter((entry) => nextOrderTime(entry) <= now);
    if (due.length < 2) return due[0];
    const last = new Map<string | undefined, number>();
    for (const { listed, issued } of entries.values()) {
      last.set(listed?.owner, Math.max(last.get(listed?.owner) ?? 0, Math.min(issued.orderedAt(), now)));
    }
    const rank = ({ listed, issued }: Entry) => [last.get(listed?.owner) ?? 0, issued.trouble()?.failures ?? 0];
    return due.reduce((best, entry) => (compare(rank(entry), rank(best)) < 0 ? entry : best));
  }

  return {
    /** Reads the files of all domains. Never rejects. */
    async load(): Promise<void> {
      for (const name of await namesIn(join(folder, FOLDER))) await getOrCreateEntry(name).issued.load();
      const orders = [...entries.values()].map(({ issued }) => Math.min(issued.orderedAt(), runtime.now()));
      for (const at of orders.sort((a, b) => a - b)) spend(at);
    },
    /**
     * Follows the list of domains. While the server's own certificate names hosts of a domain that has none, as it did
     * in earlier versions, it is the domain's as well. Never rejects.
     */
    async follow(ours: Issued): Promise<void> {
      let listed: readonly DomainHosts[];
      try {
        listed = list();
      } catch (error) {
        return log.warn("the domains cannot be listed, their certificates stay", { error });
      }
      for (const entry of entries.values()) entry.listed = undefined;
      for (const domain of listed.filter(({ name }) => FOLDER_NAME.test(name))) {
        const hosts = domain.hosts.filter((host) => !own.includes(host));
        const entry = getOrCreateEntry(domain.name);
        entry.listed = { ...domain, hosts };
        const pair = ours.pair();
        if (!pair || entry.issued.pair() || !hosts.some(ours.covers)) continue;
        await entry.issued.adopt(pair).catch((error) => log.warn("the certificate cannot be written", { error }));
      }
      for (const entry of entries.values()) {
        if (entry.listed) continue;
        if (entry.issued.pair())
          log.info("certificate removed: the domain is served here no longer", { domain: entry.name });
        await remove(entry);
      }
    },
    /** Tells whether a certificate names a host of a domain. */
    isShared: (issued: Issued): boolean =>
      [...entries.values()].some(({ listed }) => listed?.hosts.some(issued.covers)),
    /** Orders one certificate, if one is due and may be ordered now. Resolves with false when it has not. */
    async orderNext(): Promise<boolean> {
      await examine();
      const now = runtime.now();
      // The clock may have been set back.
      spentUntil = Math.min(spentUntil, now + MOST_AT_ONCE * DISTANCE_MS);
      if (isStopped || roomAt() > now) return false;
      const entry = chooseDue(now);
      if (!entry) return false;
      spend(now);
      await entry.issued.order(listWantedNames(entry));
      return true;
    },
    /** Orders a domain's certificate for a person who asks for it. @throws Error that says why nothing is ordered */
    async renew(name: string): Promise<Renewal> {
      const entry = entries.get(name);
      if (!entry?.listed) throw new Error(`this server serves no domain ${name}`);
      await findHosts(entry, await lookUpHostAddresses(own[0] ?? ""));
      entry.issued.forgive();
      const names = listWantedNames(entry);
      if (names.length === 0) {
        throw new Error(`none of the hosts of ${name} leads here (${entry.listed.hosts.join(", ")})`);
      }
      spend(runtime.now());
      await entry.issued.order(names);
      return entry.issued.outcome(names);
    },
    /** When to come back, epoch ms. */
    nextAt(): number {
      const isNew = [...entries.values()].some(({ examinedAt }) => examinedAt === undefined);
      if (isNew) return runtime.now();
      const next = Math.min(...[...entries.values()].map(nextOrderTime));
      return Math.max(next, roomAt());
    },
    /** The pair for a host, given in lower case; undefined when it has none of its own. */
    pairFor(host: string): KeyPair | undefined {
      const entry = own.includes(host) ? undefined : entries.get(host.slice(host.indexOf(".") + 1));
      return entry?.issued.covers(host) ? entry.issued.pair() : undefined;
    },
    /** The domains that have a certificate, and when it ends (epoch ms); whether its last order failed. */
    states: () =>
      [...entries.values()].map(({ name, issued }) => ({
        domain: name,
        until: issued.until(),
        isFailing: issued.trouble() !== undefined,
      })),
  };
}

/** Compares lists of numbers, the first that differ. */
function compare(a: readonly number[], b: readonly number[]): number {
  return a.map((one, i) => one - (b[i] ?? 0)).find((difference) => difference !== 0) ?? 0;
}
