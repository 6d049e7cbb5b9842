/** Blobs in a real S3 server, with the system's clock, which can be moved, and short waits. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { systemRuntime } from "../../../src/base/runtime.ts";
import { openBlobs } from "../../../src/store/blobs.ts";
import { openRemoteBlobs, type RemoteBlobs } from "../../../src/store/remote-blobs.ts";
import { openS3Blobs } from "../../../src/store/s3-blobs.ts";
import { temporaryFolder } from "../folder.ts";
import { type S3, startS3 } from "./s3.ts";

const system = systemRuntime();

/** Waits are shorter by this factor. */
export function hurriedRuntime(by = 10) {
  let ahead = 0;
  return {
    now: () => system.now() + ahead,
    randomBytes: system.randomBytes,
    fetch,
    setTimer: (wake: () => void, ms: number) => system.setTimer(wake, ms / by),
    advance(ms: number) {
      ahead += ms;
    },
  };
}

export const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
export const nameOfText = (text: string): string => createHash("sha256").update(text).digest("hex");
export const keyOf = (name: string): string => `team/blobs/${name.slice(0, 2)}/${name.slice(2)}`;

/** Names of the files of a folder of blobs, also of those on their way, with a dot. */
export function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name))
    .flatMap(({ name }) =>
      readdirSync(join(folder, name)).map((entry) => (entry.startsWith(".") ? entry : name + entry)),
    );
}

export interface RemoteRig {
  s3: S3;
  data: string;
  runtime: ReturnType<typeof hurriedRuntime>;
  blobs: RemoteBlobs;
  /** Opens the same data folder as another process does. */
  again(): RemoteBlobs;
  /** The requests since the last call, without LIST, as `PUT name`. */
  asked(): string[];
  inCache(): string[];
  inFiles(): string[];
  inS3(): Promise<string[]>;
}

export async function openRemote(s3?: S3, hurry = 10): Promise<RemoteRig> {
  const server = s3 ?? (await startS3());
  const data = temporaryFolder();
  const runtime = hurriedRuntime(hurry);
  const again = (): RemoteBlobs =>
    openRemoteBlobs({
      data,
      files: openBlobs(join(data, "blobs"), runtime),
      s3: openS3Blobs(server.location, runtime),
      runtime,
    });
  return {
    s3: server,
    data,
    runtime,
    blobs: again(),
    again,
    asked: () =>
      server.asked
        .splice(0)
        .filter((line) => line.includes("/blobs/"))
        .map((line) => line.replace(/\/.*\/blobs\/(..)\//, "$1")),
    inCache: () => filesIn(join(data, "blob-cache")).sort(),
    inFiles: () => filesIn(join(data, "blobs")).sort(),
    async inS3() {
      const { contents = [] } = await server.direct.list({ prefix: "team/blobs/" });
      return contents.map(({ key }) => key.slice("team/blobs/".length).replace("/", "")).sort();
    },
  };
}
