/** Blobs on a server whose checks are as strict as those of a real place: signatures, lengths, Content-MD5. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { moveBlobsToFiles, moveBlobsToS3 } from "../../src/store/blob-move.ts";
import { openBlobs } from "../../src/store/blobs.ts";
import { openS3Blobs } from "../../src/store/s3-blobs.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { bytesOf, hurriedRuntime, keyOf, openRemote } from "../harness/peers/remote-blobs.ts";
import { startS3, without } from "../harness/peers/s3.ts";

const missing = without("versitygw");
const HOUR = 3_600_000;

describe.skipIf(missing !== undefined)(`blobs on a strict S3 server${missing ? `: ${missing}` : ""}`, () => {
  test("are written, read, listed in pages, swept and moved", async () => {
    const rig = await openRemote(await startS3("versitygw"), 2);
    const { blobs, runtime } = rig;
    const large = new Uint8Array(30_000_000).map((_, n) => n);
    const texts = Array.from({ length: 1_100 }, (_, n) => `blob ${n}`);
    const name = await blobs.write(large);
    const names = await Promise.all(texts.map((text) => blobs.write(bytesOf(text))));
    await blobs.cache.clear();
    expect(
      createHash("sha256")
        .update(await blobs.read(name))
        .digest("hex"),
    ).toBe(name);
    expect(Buffer.from(await blobs.read(names[7] ?? "")).toString()).toBe("blob 7");

    const kept = new Set([name, ...names.slice(0, 1_000)]);
    const isNamed = (some: string[]) => new Set(some.filter((one) => kept.has(one)));
    expect(await blobs.sweep(Date.now() + HOUR, isNamed)).toBe(100);
    const move = {
      remote: blobs,
      isNamed,
      names: () => kept,
      runtime,
      isInterrupted: () => false,
      onProgress: () => {},
    };
    expect(await moveBlobsToFiles(move)).toMatchObject({ moved: 1_001, lost: [] });
    expect(rig.inFiles()).toEqual([...kept].sort());
    await rig.s3.direct.delete(keyOf(name));
    expect(await moveBlobsToS3(move)).toMatchObject({ moved: 1_001, lost: [] });
    expect(rig.inFiles()).toEqual([]);
    expect(
      createHash("sha256")
        .update(await blobs.read(name))
        .digest("hex"),
    ).toBe(name);
  }, 120_000);

  test("a wrong secret, a missing bucket and changed bytes on the way are refused", async () => {
    const s3 = await startS3("versitygw");
    const runtime = hurriedRuntime();
    const file = openBlobs(temporaryFolder(), runtime);
    const name = await file.write(bytesOf("refused"));
    const refusal = (location: Partial<typeof s3.location>) =>
      openS3Blobs({ ...s3.location, ...location }, runtime)
        .put(name, file.localBlobPath(name))
        .catch((error) => error.cause.message);
    expect(await refusal({ secretAccessKey: "wrong" })).toContain("403 SignatureDoesNotMatch");
    expect(await refusal({ accessKeyId: "nobody" })).toContain("404 XAdminUserNotFound");
    expect(await refusal({ bucket: "not-there" })).toContain("404 NoSuchBucket");
    s3.interfere((request) => {
      if (request.method !== "PUT") return undefined;
      const { pathname, search } = new URL(request.url);
      return fetch(new URL(pathname + search, s3.endpoint), {
        method: "PUT",
        headers: request.headers,
        body: "Refused",
      });
    });
    expect(await refusal({})).toContain("400 BadDigest");
  });
});
