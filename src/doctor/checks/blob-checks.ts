/** Checks of attachments that are in S3: whether it answers and lets us do all that we need, and what is not there yet. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isUnavailable } from "../../base/errors.ts";
import type { RemoteBlobs } from "../../store/remote-blobs.ts";
import type { Check, Finding } from "../check.ts";

const SLOW_MS = 1_000;
const PROBE = "doctor-probe";

const base = { id: "blobs", name: "Attachments in S3" } as const;

export const checkBlobs: Check = async ({ store: { remote }, runtime }) => {
  if (!remote) return [];
  const { s3 } = remote;
  const startedAt = runtime.now();
  try {
    const text = String(startedAt);
    await s3.writeNote(PROBE, text);
    const read = await s3.readNote(PROBE);
    if (read !== text) {
      return [{ ...base, state: "bad", detail: `${s3.place} gave back something else than was written`, todo: PLACE }];
    }
    await s3.list();
    await s3.removeNote(PROBE);
    const ms = Math.round((runtime.now() - startedAt) / 4);
    const isSlow = ms > SLOW_MS;
    return [
      {
        ...base,
        state: isSlow ? "warning" : "ok",
        detail: `${s3.place} answers in ${ms} ms`,
        ...(isSlow && { todo: "Use a place that is nearer: each message with attachments waits for it." }),
      },
      ...(await checkPlacing(remote)),
    ];
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    const reason = error.cause instanceof Error ? error.cause.message : error.message;
    const detail = `${s3.place} fails: ${reason}. Mail with attachments waits until it works`;
    return [{ ...base, state: "bad", detail, todo: PLACE }];
  }
};

const PLACE =
  "Look at MAILROOM_BLOBS, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and at the server there. The key needs s3:GetObject, s3:PutObject and s3:DeleteObject below the prefix, and s3:ListBucket.";

/** Where blobs are, compared with where they should be. */
async function checkPlacing(remote: RemoteBlobs): Promise<Finding[]> {
  const { place, target } = remote.mark();
  if (target === "files") {
    const detail =
      place === null
        ? "they were moved back: new ones are files, though MAILROOM_BLOBS is set"
        : "a move into files has not ended; new ones are files";
    const todo = `Unset MAILROOM_BLOBS${place === null ? "" : " once mailroom blobs move --to files has ended"}, or run mailroom blobs move --to s3.`;
    return [{ ...base, id: "blobs-target", name: "Place of attachments", state: "warning", detail, todo }];
  }
  if (!(await remote.isOwner())) {
    return [
      {
        ...base,
        id: "blobs-target",
        name: "Place of attachments",
        state: "warning",
        detail: "another data folder looks after this place, so what is deleted here stays there",
        todo: "Give each server a place of its own. If this one has taken over from the other, run mailroom blobs move --to s3.",
      },
    ];
  }
  const left = await countFiles(join(remote.data, "blobs"));
  if (left === 0) return [];
  return [
    {
      ...base,
      id: "blobs-target",
      name: "Place of attachments",
      state: "warning",
      detail: `${left} ${left === 1 ? "file is" : "files are"} still in the data folder alone`,
      todo: "Run mailroom blobs move --to s3, beside the running server.",
    },
  ];
}

async function countFiles(folder: string): Promise<number> {
  let count = 0;
  for (const shard of await readdir(folder)) {
    if (/^[0-9a-f]{2}$/.test(shard)) count += (await readdir(join(folder, shard))).length;
  }
  return count;
}
