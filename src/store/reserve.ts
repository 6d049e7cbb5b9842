/**
 * Space that is kept in the data folder for the day on which its disk is full: deleting mail takes room, too, as every
 * commit does. A command that finds the disk full gives it up, and tries again. The server takes it back once there is room, and
 * takes no mail from others in between, which would fill the disk again.
 */
import { closeSync, existsSync, openSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Runtime } from "../base/runtime.ts";
import { measureDiskSpace } from "./store.ts";

const FILE = "reserve";
const MOST_BYTES = 32_000_000;
/** Largest share of a disk that the reserve takes. */
const SHARE = 0.05;
/** The room for the reserve to be taken, in sizes of it. */
const TIMES = 3;
const PIECE_BYTES = 1_000_000;

const sizeOn = (total: number): number => Math.floor(Math.min(MOST_BYTES, total * SHARE));

/** Takes the reserve, if it is not there and there is room. Never throws: the disk may fill meanwhile. */
export function takeDiskReserve(data: string, runtime: Pick<Runtime, "randomBytes">): void {
  const room = measureDiskSpace(data);
  const path = join(data, FILE);
  if (!room || room.free < TIMES * sizeOn(room.total) || existsSync(path)) return;
  const unfinished = `${path}.new`;
  try {
    const file = openSync(unfinished, "w", 0o600);
    // Zeros would take no room where the file system compresses.
    const piece = runtime.randomBytes(Math.min(PIECE_BYTES, sizeOn(room.total)));
    try {
      for (let left = sizeOn(room.total); left > 0; left -= piece.length) writeSync(file, piece.subarray(0, left));
    } finally {
      closeSync(file);
    }
    renameSync(unfinished, path);
  } catch {
    rmSync(unfinished, { force: true });
  }
}

/** Gives the reserve up, if the disk is full. Returns its bytes; undefined if there was no need, or none. */
export function giveUpDiskReserve(data: string): number | undefined {
  const room = measureDiskSpace(data);
  const present = statSync(join(data, FILE), { throwIfNoEntry: false });
  if (!room || !present || room.free > sizeOn(room.total)) return undefined;
  rmSync(join(data, FILE), { force: true });
  return present.size;
}

/** True while the disk is full but for what was kept in reserve, which is for whoever makes room. */
export function isDiskReserveSpent(data: string): boolean {
  if (existsSync(join(data, FILE))) return false;
  const room = measureDiskSpace(data);
  return room !== undefined && room.free < sizeOn(room.total);
}
