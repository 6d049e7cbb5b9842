/** Room for mail: bytes and inodes of the file system that the data folder is on. */
import type { Check, Finding, State } from "../check.ts";

const GB = 1_000_000_000;
const LOW = { share: 0.1, bytes: 2 * GB };
const SHORT = { share: 0.03, bytes: GB / 2 };

const gigabytes = (bytes: number): string => `${(bytes / GB).toFixed(1)} GB`;
const percent = (share: number): string => `${Math.floor(share * 100)} %`;

export const checkDisk: Check = async ({ config, system }) => {
  const { free, total, freeInodes, inodes } = await system.space(config.data);
  const isBelow = ({ share, bytes }: typeof LOW) => free < bytes && free / total < share;
  const state: State = isBelow(SHORT) ? "bad" : isBelow(LOW) ? "warning" : "ok";
  const todo = `Make room on the disk of ${config.data}, or move it to a larger one: a full disk refuses mail until there is room. mailroom settings set retention.trashDays 30 empties trash and spam by itself.`;
  const findings: Finding[] = [
    {
      ...{ id: "disk", name: "Disk space", state },
      detail: `${gigabytes(free)} of ${gigabytes(total)} free`,
      ...(state !== "ok" && { todo }),
    },
  ];
  if (inodes > 0) {
    const share = freeInodes / inodes;
    const inodeState: State = share < SHORT.share ? "bad" : share < LOW.share ? "warning" : "ok";
    findings.push({
      ...{ id: "inodes", name: "Inodes", state: inodeState, detail: `${percent(share)} of ${inodes} free` },
      ...(inodeState !== "ok" && {
        todo: `Remove small files from the disk of ${config.data}, or make its file system anew with more inodes.`,
      }),
    });
  }
  return findings;
};
