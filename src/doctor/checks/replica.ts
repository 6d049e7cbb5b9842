/** Checks the replica, if there is one: the lease, Litestream, and whether what is committed gets there. */
import { join } from "node:path";
import { readProcessState } from "../../base/child-process.ts";
import { openS3 } from "../../net/s3.ts";
import { readReplicaLease } from "../../replica/lease.ts";
import { findLitestream, REPLICA_FOLDER, syncReplica } from "../../replica/litestream.ts";
import { readReplicaIdentity } from "../../replica/replica-identity.ts";
import type { Check, Finding, World } from "../check.ts";

type Found = Pick<Finding, "state" | "detail" | "todo">;

/** How long the replica may take to get what is committed, ms. */
const SYNC_LIMIT_MS = 10_000;
/** The log is longer than Litestream lets it become. */
const LONG_LOG_BYTES = 600_000_000;
const MB = 1_000_000;

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const checkReplica: Check = async (world) => {
  const { config } = world;
  if (!config.replica) return [];
  const [lease, copy] = await Promise.all([seeLease(world, config.replica), seeCopy(world)]);
  return [
    { id: "replica-lease", name: "Lease of the replica", ...lease },
    { id: "replica", name: "Replica", ...copy },
  ];
};

/** Whether this server has the lease, as the replica says. */
async function seeLease(
  { config, runtime, serving }: World,
  location: NonNullable<World["config"]["replica"]>,
): Promise<Found> {
  const identity = readReplicaIdentity(config.data, location);
  try {
    const lease = await readReplicaLease(openS3(location, runtime));
    if (!lease) return { state: serving ? "bad" : "ok", detail: "nobody has it", ...(serving && { todo: TODO_TAKEN }) };
    const holder = `epoch ${lease.epoch}, ${lease.released ? "released" : "last renewed"} ${lease.renewedAt}`;
    if (lease.holder === identity?.holder) return { state: "ok", detail: `this server has it: ${holder}` };
    return { state: "bad", detail: `${lease.url} has it: ${holder}`, todo: TODO_TAKEN };
  } catch (error) {
    return {
      state: "bad",
      detail: describeError(error),
      todo: "Check MAILROOM_REPLICA, the credentials and the server of the replica: without a sight of the lease, this server stops (replica.onLost)",
    };
  }
}

const TODO_TAKEN =
  "One server at a time may write. If another has taken over, make this machine its standby (docs/standby.md)";

/** Whether Litestream runs, and what it is told gets there. */
async function seeCopy({ config, options, runtime, serving }: World): Promise<Found> {
  const todo = `Mail is taken as replica.ack says (${options.get("replica.ack")}). Its reason is in the log (journalctl -u mailroom)`;
  if (!serving) {
    const setting = options.get("replica.litestreamPath");
    try {
      const { path, version } = await findLitestream(setting, config.data, runtime, new AbortController().signal);
      return { state: "ok", detail: `${path} is version ${version}; it runs while the server does` };
    } catch (error) {
      return { state: "bad", detail: describeError(error), todo: "install.sh --litestream FILE places it" };
    }
  }
  const stored = readProcessState(join(config.data, REPLICA_FOLDER));
  if (stored?.state === "failed") return { state: "bad", detail: `Litestream does not run: ${stored.reason}`, todo };
  if (stored?.state !== "running") return { state: "warning", detail: "Litestream is starting" };
  const startedAt = runtime.now();
  try {
    await syncReplica(config.data, runtime, SYNC_LIMIT_MS);
  } catch (error) {
    return { state: "bad", detail: `it does not get what is committed: ${describeError(error)}`, todo };
  }
  const seconds = ((runtime.now() - startedAt) / 1_000).toFixed(1);
  const restarts = stored.restarts === 0 ? "" : `, started again ${stored.restarts} times`;
  const detail = `it has everything, which took ${seconds} s (Litestream ${stored.version}, process ${stored.pid}${restarts})`;
  const log = Bun.file(join(config.data, "mailroom.db-wal")).size;
  if (log < LONG_LOG_BYTES) return { state: "ok", detail };
  return {
    state: "warning",
    detail: `${detail}; the write-ahead log has grown to ${Math.round(log / MB)} MB`,
    todo: "A long read, such as a backup, keeps it from being written to the database: it shrinks afterwards",
  };
}
