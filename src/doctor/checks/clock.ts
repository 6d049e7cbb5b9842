/**
 * The clock: what signs mail, ends sessions and checks certificates trusts it. Whether it follows a time server, and
 * whether it has gone back behind what was filed.
 */
import { desc } from "drizzle-orm";
import { messages } from "../../store/schema.ts";
import type { Db } from "../../store/store.ts";
import type { Check } from "../check.ts";

const TOLERANCE_MS = 5 * 60_000;
/** Those looked at: among imported ones, which are as old as they are, some that arrived. The server waits meanwhile. */
const LAST_MESSAGES = 100;

/** When the newest message here was filed: epoch ms; undefined without any. */
export function newestFiledAt(db: Db): number | undefined {
  const last = db
    .select({ at: messages.filedAt })
    .from(messages)
    .orderBy(desc(messages.seq))
    .limit(LAST_MESSAGES)
    .all();
  return last.length === 0 ? undefined : Math.max(...last.map(({ at }) => at));
}

export const checkClock: Check = async ({ store, runtime, system }) => {
  const base = { id: "clock", name: "Clock" } as const;
  const todo = "Switch time synchronisation on: timedatectl set-ntp true (with systemd-timesyncd or chrony installed).";
  const behind = (newestFiledAt(store.db) ?? 0) - runtime.now();
  if (behind > TOLERANCE_MS) {
    const detail = `it is ${Math.round(behind / 60_000)} minutes behind the newest message here`;
    return [{ ...base, state: "bad", detail, todo }];
  }
  const follows = await system.clockFollows();
  if (follows === undefined)
    return [{ ...base, state: "unknown", detail: "the system does not tell whether it follows a time server" }];
  return follows
    ? [{ ...base, state: "ok", detail: "it follows a time server" }]
    : [{ ...base, state: "warning", detail: "it follows no time server", todo }];
};
