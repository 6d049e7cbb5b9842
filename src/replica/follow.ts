/**
 * Follows one epoch of the replica into a file, with Litestream's `restore -f` as a child process, which applies what the
 * server writes a moment later.
 *
 * Invariant: `isWhole` only while the file has all of some state of the server's database. A process that was killed may
 * have left half a change behind; the next one applies it again, at the latest with the last that the replica had when
 * it began.
 */
import { closeSync, existsSync, openSync, readFileSync, readSync, rmSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { endLeftoverProcesses, startChild } from "../base/child-process.ts";
import { isMissing } from "../base/files.ts";
import type { Log } from "../base/log.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { S3Location, S3Objects } from "../net/s3.ts";
import { epochPath } from "./lease.ts";
import { LITESTREAM, litestreamEnvironment } from "./litestream.ts";

export type Follower = ReturnType<typeof followEpoch>;

/** Pause between Litestream's looks for changes. Each look is a request to list objects, which costs money on some servers. */
const FOLLOW_INTERVAL = "1s";
const LOOK_MS = 200;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 15_000;
/** Words of Litestream when it cannot go on with a file, which then has to be made anew. */
const CANNOT_RESUME = /cannot resume follow mode/;
/**
 * Litestream does not say when the replica has newer changes, but no longer the next one (retention). A file that did not
 * change for so long, ms, although there is something newer, is given up.
 */
const PATIENCE_MS = 120_000;

/** The folder of single transactions. Litestream keeps the last one of them for good. */
const transactionFolder = (epoch: number): string => `${epochPath(epoch)}/0000/`;

/** The last transaction in the replica of an epoch; undefined if it has none. `after`: one that is known. @throws S3Error */
export async function findLastReplicaTransaction(
  objects: S3Objects,
  epoch: number,
  after = "",
): Promise<string | undefined> {
  const folder = transactionFolder(epoch);
  let last = after;
  for (let from: string | undefined = folder + after; from !== undefined; ) {
    const found: Awaited<ReturnType<S3Objects["list"]>> = await objects.list(folder, from);
    const [, transaction] = /-([0-9a-f]{16})\.ltx$/.exec(found.objects.at(-1)?.key ?? "") ?? [];
    if (transaction !== undefined && transaction > last) last = transaction;
    from = found.next;
  }
  return last === "" ? undefined : last;
}

/** Litestream writes it after each change that it has applied. */
export function readAppliedTransaction(file: string): string | undefined {
  try {
    return /^[0-9a-f]{16}/.exec(readFileSync(`${file}-txid`, "latin1"))?.[0];
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Removes a followed file, and what Litestream has beside it. */
export function removeFollowedDatabase(file: string): void {
  for (const end of ["", "-txid", "-txid.tmp", ".tmp", "-shm", "-wal"]) rmSync(file + end, { force: true });
}

/**
 * Takes a database out of WAL mode, in which a restored one is until its first change: a reader would make a log of its own.
 * Bytes 18 and 19 are the versions of the format for writing and reading (https://sqlite.org/fileformat2.html).
 */
function leaveWalMode(file: string): void {
  const fd = openSync(file, "r+");
  try {
    const versions = new Uint8Array(2);
    readSync(fd, versions, 0, 2, 18);
    if (versions.some((version) => version !== 1)) writeSync(fd, new Uint8Array([1, 1]), 0, 2, 18);
  } finally {
    closeSync(fd);
  }
}

/** `file`: made, or followed on. `executable`: Litestream's. `changed` is called when `isWhole` or `trouble` changes. */
export function followEpoch({
  epoch,
  file,
  location,
  objects,
  executable,
  changed,
  log,
  patienceMs = PATIENCE_MS,
  ...runtime
}: Pick<Runtime, "now" | "setTimer"> & {
  patienceMs?: number | undefined;
  epoch: number;
  file: string;
  location: S3Location;
  objects: S3Objects;
  executable: string;
  changed(): void;
  log: Log;
}) {
  const over = new AbortController();
  const { signal } = over;
  let isWhole = false;
  let trouble: string | undefined;
  let cannotResume = false;
  let progress: { applied: string; at: number } | undefined;
  /** Never again after the file was whole: closing it here would release the locks that SQLite has on it. */
  let isReadable = false;

  function say(next: { isWhole: boolean; trouble?: string }): void {
    if (next.isWhole === isWhole && next.trouble === trouble) return;
    isWhole = next.isWhole;
    trouble = next.trouble;
    changed();
  }

  const output = ["-o", resolve(file)];

  function start() {
    const { bucket, prefix, endpoint, region } = location;
    const url = `s3://${bucket}/${prefix}${epochPath(epoch)}?${new URLSearchParams({ endpoint, region })}`;
    return startChild(
      {
        name: LITESTREAM.name,
        command: [executable, "restore", "-f", "-follow-interval", FOLLOW_INTERVAL, ...output, url],
        folder: dirname(file),
        env: litestreamEnvironment(location),
        secret: location.secretAccessKey,
        hear: (line) => (line === "" ? "ignore" : { last: line.replace(/^Error: /, "") }),
      },
      { ...runtime, log },
    );
  }

  /** Waits until the child has applied what the replica has by now. */
  async function catchUp(ended: AbortSignal): Promise<void> {
    let goal: string | undefined;
    while (!ended.aborted) {
      try {
        goal ??= await findLastReplicaTransaction(objects, epoch);
      } catch (error) {
        say({ isWhole: false, trouble: error instanceof Error ? error.message : String(error) });
      }
      const applied = readAppliedTransaction(file);
      if (goal !== undefined && applied !== undefined && applied >= goal) {
        if (!isReadable) leaveWalMode(file);
        isReadable = true;
        return say({ isWhole: true });
      }
      await pause(runtime, LOOK_MS, ended);
    }
  }

  async function keepFollowing(): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      const ended = new AbortController();
      await endLeftoverProcesses(LITESTREAM.name, output, { ...runtime, log });
      const child = start();
      const end = () => child.kill("SIGTERM");
      signal.addEventListener("abort", end);
      const exited = child.exited.finally(() => ended.abort());
      await catchUp(ended.signal);
      if (isWhole) failures = 0;
      const reason = await exited;
      signal.removeEventListener("abort", end);
      if (signal.aborted) return;
      cannotResume ||= CANNOT_RESUME.test(reason);
      say({ isWhole: false, trouble: `Litestream does not follow: ${reason}` });
      log.warn("the replica is not followed", { epoch, reason });
      await pause(runtime, Math.min(FIRST_RETRY_MS * 2 ** failures, LONGEST_RETRY_MS), signal);
    }
  }

  const following = keepFollowing();
  return {
    epoch,
    file,
    isWhole: () => isWhole,
    /** Why it is not whole, if not for want of time. */
    trouble: () => trouble,
    /** The file is of no more use: the replica no longer has what comes next. */
    cannotResume: () => cannotResume,
    /** Gives it up when it has not changed for long, although the replica has this transaction. */
    noteLast(last: string): void {
      const applied = readAppliedTransaction(file);
      const now = runtime.now();
      if (applied === undefined || applied >= last) progress = undefined;
      else if (progress?.applied !== applied || now < progress.at) progress = { applied, at: now };
      else if (now - progress.at >= patienceMs) cannotResume = true;
    },
    applied: () => readAppliedTransaction(file),
    exists: () => existsSync(file),
    /** Resolves when the child has ended. The file stays. */
    async stop(): Promise<void> {
      over.abort();
      await following;
      isWhole = false;
    },
  };
}
