/** The cache of blobs on a disk that fills: it makes room before mail is refused. */
import { expect, test } from "bun:test";
import { systemRuntime } from "../../src/base/runtime.ts";
import { openBlobCache } from "../../src/store/blob-cache.ts";
import { writeFileAt } from "../../src/store/blobs.ts";
import { diskNote, MB, mountDisk } from "../harness/small-disk.ts";

test.skipIf(diskNote !== "")(`the cache leaves a tenth of a small disk free${diskNote}`, async () => {
  const disk = mountDisk(20 * MB);
  const system = systemRuntime();
  let ahead = 0;
  const cache = openBlobCache(disk.path, { now: () => system.now() + ahead, randomBytes: system.randomBytes });
  const names = Array.from({ length: 12 }, (_, n) => n.toString(16).padStart(64, "0"));
  for (const name of names) {
    const path = await cache.onTheWay(name);
    await writeFileAt(path, [new Uint8Array(MB)], new Date(system.now() + ahead));
    await cache.take(name, path, system.now());
    ahead += 120_000;
  }
  await cache.trim();
  expect(cache.bytes()).toBe(12 * MB);
  disk.fill(MB);
  await cache.trim();
  expect(cache.bytes()).toBeLessThan(12 * MB);
  expect(await cache.use(names[0] ?? "")).toBeUndefined();
  expect(await cache.use(names[11] ?? "")).toBeDefined();
});
