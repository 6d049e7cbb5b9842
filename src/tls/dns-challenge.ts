/**
 * DNS-01 (RFC 8555 §8.4): a TXT record at `_acme-challenge.` of the name, or where its CNAME leads, so that a small zone
 * of its own can be delegated for it.
 *
 * Invariant: what is to be published is written to <data>/tls/acme/records.json first, and stays there until it is taken
 * away again: neither a crash nor a server that does not answer leaves a record behind for good.
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

/** Those that cannot be taken away are tried again with the next certificate; of more than that, the oldest are let be. */
const MOST_KEPT = 50;
/** A server that is stopping waits no longer for them. */
const LAST_MS = 3_000;

export function dnsChallenge({ hook, folder, runtime, log }: DnsChallengeParts): Challenge {
  const path = join(folder, "records.json");
  const stopped = Promise.withResolvers<void>();
  let isStopped = false;
  /** One after the other: hooks are not written for more. */
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
