/**
 * Networks that have delivered wanted mail, for which the MX listener keeps connections: strangers who take all others
 * cannot keep out the servers that people here have mail from. The only writer of known_networks.
 *
 * Invariant: the table is bounded; of too many networks, those are forgotten that were wanted least recently.
 */
import { asc, count, eq, inArray, lt, sql } from "drizzle-orm";
import type { Job } from "../base/scheduler.ts";
import { canonicalIpAddress, ipAddressNetwork } from "../net/ip.ts";
import type { Core, Reader } from "../store/core.ts";
import { knownNetworks, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

const DAY_MS = 24 * 60 * 60_000;
/** Since the last wanted mail: a quarterly mailing stays known. */
const REMEMBERED_MS = 100 * DAY_MS;
/** About 3 MB. */
const MOST_ROWS = 50_000;
const SWEEP_MS = 60 * 60_000;

const statements = prepared((db) => ({
  find: db
    .select({ wantedAt: knownNetworks.wantedAt })
    .from(knownNetworks)
    .where(eq(knownNetworks.network, sql.placeholder("network")))
    .prepare(),
  count: db.select({ rows: count() }).from(knownNetworks).prepare(),
}));

/** Large senders deliver from many addresses of their network. */
const senderNetwork = (ip: string): string => ipAddressNetwork(canonicalIpAddress(ip));

const findWantedAt = (db: Db, network: string): number | undefined => statements(db).find.get({ network })?.wantedAt;

/** Tells whether the network of `ip` has delivered wanted mail lately. While the store cannot be read, none has. */
export function isKnownNetwork({ db }: Reader, ip: string): boolean {
  try {
    return findWantedAt(db, senderNetwork(ip)) !== undefined;
  } catch {
    return false;
  }
}

/** Notes that `ip` has delivered messages, which are filed. Mail in spam is not wanted. */
export function noteNetworkDelivery({ now }: Reader, tx: Tx, ip: string, emailIds: readonly string[]): void {
  const network = senderNetwork(ip);
  const wantedAt = now();
  // Renewed once a day, not at every message.
  if (Math.abs(wantedAt - (findWantedAt(tx, network) ?? 0)) < DAY_MS) return;
  const ids = inArray(messages.id, [...emailIds]);
  const filed = tx.select({ folder: messages.folder }).from(messages).where(ids).all();
  if (!filed.some(({ folder }) => folder !== "spam")) return;
  tx.insert(knownNetworks)
    .values({ network, wantedAt })
    .onConflictDoUpdate({ target: knownNetworks.network, set: { wantedAt } })
    .run();
}

/** Forgets networks in time. Tests set `mostRows`. */
export const forgetNetworks = ({ store }: Core, mostRows = MOST_ROWS): Job => ({
  name: "known-networks",
  deletes: true,
  async runDue(now) {
    await store.enqueue((tx) => sweep(tx, now, mostRows));
    return now + SWEEP_MS;
  },
});

/** Removes expired networks, and the longest known of too many. */
function sweep(tx: Tx, now: number, mostRows: number): void {
  tx.delete(knownNetworks)
    .where(lt(knownNetworks.wantedAt, now - REMEMBERED_MS))
    .run();
  const surplus = (statements(tx).count.get()?.rows ?? 0) - mostRows;
  if (surplus <= 0) return;
  const { network, wantedAt } = knownNetworks;
  const oldest = tx.select({ network }).from(knownNetworks).orderBy(asc(wantedAt)).limit(surplus);
  tx.delete(knownNetworks).where(inArray(network, oldest)).run();
}
