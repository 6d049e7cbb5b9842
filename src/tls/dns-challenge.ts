/**
 * DNS-01 (RFC 8555 §8.4): publishes a TXT record at `_acme-challenge.` of the name, or where its CNAME leads, so that
 * the operator can delegate a small zone for it.
 *
 * Invariant: each record is written to <data>/tls/acme/records.json before it is published, and stays there until it is
 * removed: so a record that a crash or an unreachable DNS server left behind is removed later.
 */
import { accessSync, constants } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { awaitAtMost } from "../base/pause.ts";
import type { DnsClient, NameServer, Runtime } from "../base/runtime.ts";
import { lookUpAddresses } from "../net/host-addresses.ts";
import type { Challenge } from "./certificate-authority.ts";
import { readFileIfPresent, savePrivately } from "./pair.ts";

interface Published {
  name: string;
  value: string;
}

/**
 * Most records to remember. A failed removal is tried again with the next certificate; beyond this the oldest are
 * dropped.
 */
const MOST_KEPT = 50;
/** Failed removals that end an attempt, since each may take minutes, and other certificates wait. */
const MOST_FAILED = 3;
/** Longest time that a stop waits for removals. */
const LAST_MS = 3_000;

/**
 * `program`: the operator's hook. `folder`: where records.json is kept.
 * @throws ConfigError for a hook that cannot be run
 */
export function dnsChallenge({
  program,
  folder,
  runtime,
  log,
}: {
  program: string;
  folder: string;
  runtime: Network;
  log: Log;
}): Challenge {
  const hook = openHook(program, runtime);
  const path = join(folder, "records.json");
  const stopped = Promise.withResolvers<void>();
  let isStopped = false;
  /** Calls run one after the other: hooks may not support concurrent calls. */
  let last: Promise<void> = Promise.resolve();

  async function storedRecords(): Promise<Published[]> {
    try {
      return JSON.parse((await readFileIfPresent(path)) ?? "[]") as Published[];
    } catch {
      return [];
    }
  }

  async function keep(list: readonly Published[]): Promise<void> {
    if (list.length === 0) await rm(path, { force: true });
    else await savePrivately(path, JSON.stringify(list.slice(-MOST_KEPT)));
  }

  async function publish({ name, value }: Published): Promise<void> {
    await keep([...(await storedRecords()), { name, value }]);
    if (isStopped) throw new Error("this server is stopping");
    await hook.present(name, value);
  }

  async function removeAll(): Promise<void> {
    let failed = 0;
    // The newest first: the order that has just ended made them.
    for (const { name, value } of (await storedRecords()).reverse()) {
      try {
        await hook.cleanup(name, value);
        await keep((await storedRecords()).filter((one) => one.name !== name || one.value !== value));
      } catch (error) {
        log.warn("a record for the certificate authority stays in DNS for now", {
          name,
          reason: (error as Error).message,
        });
        if (isStopped || ++failed >= MOST_FAILED) return;
      }
    }
  }

  return {
    type: "dns-01",
    async show({ host, value }) {
      const name = await followAliases(`_acme-challenge.${host}`, runtime.dns);
      const published = last.then(() => publish({ name, value }));
      last = published.catch(() => {});
      await published;
      await awaitPublished(name, value, runtime, stopped.promise);
    },
    async clear() {
      const removed = removeAll().catch((error) => log.warn("records.json cannot be written", { error }));
      await Promise.race([removed, stopped.promise]);
      if (!isStopped) return;
      await awaitAtMost(runtime, LAST_MS, removed);
      hook.stop();
    },
    stop() {
      isStopped = true;
      stopped.resolve();
      hook.stop();
    },
  };
}

/*
 * The hook: a program of the operator that changes DNS records, called as `PROGRAM present|cleanup NAME. VALUE`.
 * Programs for lego's `exec` provider work unchanged.
 *
 * Invariant: the program's output is discarded, since it may contain secrets. The program and its children end within
 * the time limit.
 */

const LONGEST_CALL_MS = 2 * 60_000;

/** @throws ConfigError for a program that cannot be run */
function openHook(program: string, runtime: Pick<Runtime, "setTimer">) {
  try {
    accessSync(program, constants.X_OK);
  } catch (error) {
    throw new ConfigError(`MAILROOM_ACME_CHALLENGE: cannot run ${program}: ${(error as Error).message}`);
  }
  const running = new Set<() => void>();

  async function call(action: "present" | "cleanup", name: string, value: string): Promise<void> {
    // A process group of its own, so that its children end with it.
    const child = Bun.spawn([program, action, `${name}.`, value], {
      cwd: "/",
      detached: true,
      stdio: ["ignore", "ignore", "ignore"],
    });
    let isLate = false;
    const end = () => killGroup(child.pid);
    running.add(end);
    const cancelTimer = runtime.setTimer(() => {
      isLate = true;
      end();
    }, LONGEST_CALL_MS);
    const status = await child.exited;
    cancelTimer();
    running.delete(end);
    const problem = isLate
      ? `did not end within ${LONGEST_CALL_MS / 1_000} s`
      : status === 0
        ? undefined
        : `ended with ${child.signalCode ?? `status ${status}`}`;
    if (problem !== undefined) throw new Error(`${program} ${action} ${name}. ${problem}`);
  }

  return {
    /** Publishes a record; other records of the same name stay. @throws Error for people */
    present: (name: string, value: string) => call("present", name, value),
    /** Removes a record, if it exists. @throws Error for people */
    cleanup: (name: string, value: string) => call("cleanup", name, value),
    /** Ends the calls under way. */
    stop() {
      for (const end of running) end();
    },
  };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}

/*
 * Waiting for a record: asks every authoritative server of the name directly, as a certificate authority does, because
 * resolvers cache earlier answers.
 */

const DNS_PORT = 53;
const MOST_ALIASES = 8;
const MOST_SERVERS = 12;
/** DNS providers publish within seconds, slow ones within minutes. */
const LONGEST_PUBLISHING_MS = 5 * 60_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 20_000;

/**
 * Follows the CNAME records of a name to its target, in lower case without a final dot. A question for the TXT record would leave its
 * absence in the resolver's cache. Never rejects.
 */
async function followAliases(name: string, dns: DnsClient): Promise<string> {
  let target = name.toLowerCase();
  for (let step = 0; step < MOST_ALIASES; step++) {
    const [alias] = await listAnswerRecords(dns.ask(target, "CNAME"));
    if (alias === undefined) break;
    target = alias;
  }
  return target;
}

type Network = Pick<Runtime, "now" | "setTimer" | "dns">;

/**
 * Resolves once at least one authoritative server answers, and all that answer have the TXT record. `stopped` ends the
 * wait. When none answers, as behind a firewall, the system's resolver decides.
 * @throws Error after five minutes, naming a server without the record
 */
async function awaitPublished(name: string, value: string, runtime: Network, stopped: Promise<void>): Promise<void> {
  const until = runtime.now() + LONGEST_PUBLISHING_MS;
  let isStopped = false;
  void stopped.then(() => {
    isStopped = true;
  });
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const lacking = await findLacking(name, value, runtime);
    if (lacking === undefined) return;
    if (isStopped) throw new Error("this server is stopping");
    if (runtime.now() >= until)
      throw new Error(`after ${LONGEST_PUBLISHING_MS / 60_000} minutes, ${lacking} still lacks the TXT record ${name}`);
    await awaitAtMost(runtime, wait, stopped);
  }
}

/** Names a server that lacks the record, for people; undefined when none does. */
async function findLacking(name: string, value: string, { dns }: Network): Promise<string | undefined> {
  const servers = await authoritativeServers(name, dns);
  const answers = await Promise.all(
    servers.map(async (server) => {
      const answer = await dns.ask(name, "TXT", [server]).catch(() => undefined);
      return { host: server.host, has: answer?.records.includes(value) };
    }),
  );
  const lacking = answers.find(({ has }) => has === false);
  if (lacking || answers.some(({ has }) => has)) return lacking && `DNS server ${lacking.host}`;
  return (await listAnswerRecords(dns.ask(name, "TXT"))).includes(value) ? undefined : "DNS";
}

/** Gives the records of an answer; none when DNS fails. */
const listAnswerRecords = <T extends string>(question: Promise<{ records: T[] }>): Promise<T[]> =>
  question.then(({ records }) => records).catch(() => []);

/** Finds the servers of the closest zone that contains the name. */
async function authoritativeServers(name: string, dns: DnsClient): Promise<NameServer[]> {
  for (let zone = name; zone.includes("."); zone = zone.replace(/^[^.]*\./, "")) {
    const hosts = (await listAnswerRecords(dns.ask(zone, "NS"))).slice(0, MOST_SERVERS);
    if (hosts.length === 0) continue;
    const addresses = await Promise.all(hosts.map((host) => lookUpAddresses(host, dns).catch(() => [])));
    return [...new Set(addresses.flat())].slice(0, MOST_SERVERS).map((host) => ({ host, port: DNS_PORT }));
  }
  return [];
}
