/** `mailroom blobs move`: the files of attachments to S3, or back into the data folder, beside the running server. */
import { UsageError } from "../base/errors.ts";
import { moveBlobs } from "../mailbox/changing/removal.ts";
import { defineCommand, FailedCheck } from "./command.ts";
import { watchProgress } from "./output.ts";

const PLACES = ["s3", "files"] as const;

export const blobsMove = defineCommand({
  name: "blobs move",
  summary: "Move the files of attachments to S3, or back into the data folder; safe to interrupt and to repeat",
  options: { to: { value: PLACES, summary: "Where they go; MAILROOM_BLOBS says which place in S3" } },
  async run({ opened: { core }, config, runtime, io }, { options: { to } }) {
    if (to === undefined) throw new UsageError("give --to s3 or --to files");
    if (!config.blobs)
      throw new UsageError("set MAILROOM_BLOBS to the place in S3, for this command as for the server");
    const { isInterrupted, tell } = watchProgress({ io, runtime });
    const moved = await moveBlobs(core, to, {
      isInterrupted,
      onProgress: ({ moved, bytes }) => tell(() => `${moved} files, ${bytes} bytes`),
    });
    const { lost, ...rest } = moved;
    if (lost.length === 0) {
      if (to === "files") {
        io.writeStderr("all are files again: MAILROOM_BLOBS can be unset. What the bucket still has may be deleted\n");
      }
      return rest;
    }
    const files = lost.length === 1 ? "1 file was" : `${lost.length} files were`;
    throw new FailedCheck(`${files} left alone, being damaged or missing; mailroom backup verify may find them`, moved);
  },
});
