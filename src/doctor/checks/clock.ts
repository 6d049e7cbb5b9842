/**
 * The clock: what signs mail, ends sessions and checks certificates trusts it. Whether it follows a time server, and
 * whether it has gone back behind what was filed.
 */
import { desc } from "drizzle-orm";
import { messages } from "../../store/schema.ts";
import type { Check } from "../check.ts";

const TOLERANCE_MS = 5 * 60_000;
/** Those looked at: among imported ones, which are as old as they are, some that arrived. The server waits meanwhile. */
const LAST_MESSAGES = 100;

export const checkClock: Check = async ({ store, runtime, system }) => {
  const base = { id: "clock", name: "Clock" } as const;
  const todo = "Switch time synchronisation on: timedatectl set-ntp true (with systemd-timesyncd or chrony installed).";
  const last = store.db
    .select({ at: messages.filedAt })
    .from(messages)
    .orderBy(desc(messages.seq))
    .limit(LAST_MESSAGES)
    .all();
  const behind = Math.max(0, ...last.map(({ at }) => at)) - runtime.now();
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
