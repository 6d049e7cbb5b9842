/**
 * DNS-01 (RFC 8555 §8.4): publishes a TXT record at `_acme-challenge.` of the name, or where its CNAME leads, so that the
 * operator can delegate a small zone for it.
 *
 * Invariant: each record is written to <data>/tls/acme/records.json before it is published, and stays there until it is
 * removed: so a record that a crash or an unreachable DNS server left behind is removed later.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../base/log.ts";
import { atMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Challenge } from "./authority.ts";
import type { DnsHook } from "./dns-hook.ts";
import { readPrivately, savePrivately } from "./pair.ts";
import { awaitPublished, followAliases } from "./published.ts";

export interface DnsChallengeParts {
  hook: DnsHook;
  /** Where records.json is kept. */
  folder: string;
  runtime: Pick<Runtime, "now" | "setTimer" | "dns" | "secureDns">;
  log: Log;
}

interface Published {
  name: string;
  value: string;
}

/** Most records to remember. A failed removal is tried again with the next certificate; beyond this the oldest are dropped. */
const MOST_KEPT = 50;
/** Longest time that a stop waits for removals. */
const LAST_MS = 3_000;

export function dnsChallenge({ hook, folder, runtime, log }: DnsChallengeParts): Challenge {
  const path = join(folder, "records.json");
  const stopped = Promise.withResolvers<void>();
  let isStopped = false;
  /** Calls run one after the other: hooks may not support concurrent calls. */
  let last: Promise<void> = Promise.resolve();

  async function kept(): Promise<Published[]> {
    try {
      return JSON.parse((await readPrivately(path)) ?? "[]") as Published[];
    } catch {
      return [];
    }
  }

  async function keep(list: readonly Published[]): Promise<void> {
    if (list.length === 0) await rm(path, { force: true });
    else await savePrivately(path, JSON.stringify(list.slice(-MOST_KEPT)));
  }

  async function publish({ name, value }: Published): Promise<void> {
    await keep([...(await kept()), { name, value }]);
    if (isStopped) throw new Error("this server is stopping");
    await hook.present(name, value);
  }

  async function removeAll(): Promise<void> {
    for (const { name, value } of await kept()) {
      try {
        await hook.cleanup(name, value);
        await keep((await kept()).filter((one) => one.name !== name || one.value !== value));
      } catch (error) {
        log.warn("a record for the certificate authority stays in DNS for now", {
          name,
          reason: (error as Error).message,
        });
        if (isStopped) return;
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
      await awaitPublished(name, value, { runtime, stopped: stopped.promise });
    },
    async clear() {
      const removed = removeAll().catch((error) => log.warn("records.json cannot be written", { error }));
      await Promise.race([removed, stopped.promise]);
      if (!isStopped) return;
      await atMost(runtime, LAST_MS, removed);
      hook.stop();
    },
    stop() {
      isStopped = true;
      stopped.resolve();
      hook.stop();
    },
  };
}
