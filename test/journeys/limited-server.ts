/** A place for the executable under a limit of memory, on a real disk: as on a small machine. */
import { join } from "node:path";
import { settle } from "../harness/data/settle.ts";
import { buildExecutable, builtExecutable } from "../harness/servers/executable.ts";
import { type Place, runJson } from "../harness/servers/process.ts";
import { folderOnDisk, limitMemory, type MemoryLimit } from "./memory-limit.ts";

export interface LimitedPlace {
  limit: MemoryLimit;
  place: Place;
  apiKey: string;
}

/** Sets up `acme.test` with a mailbox, without limits of rates and of its size. `memory`: bytes. */
export async function setUpLimited(
  memory: number,
  address: string,
  env: Record<string, string> = {},
): Promise<LimitedPlace> {
  const folder = await folderOnDisk();
  const limit = limitMemory(memory);
  const executable = join(folder, "mailroom");
  // Copied under the limit, so that its pages count there, too.
  const original = builtExecutable ?? (await buildExecutable(join(folder, "built")));
  await Bun.spawn([...limit.within(["cp", original, executable])]).exited;
  const place = { data: join(folder, "data"), cwd: folder, program: limit.within([executable]), env };
  const { apiKey } = await runJson<{ apiKey: string }>(
    ...([place, "setup", "--domain", "acme.test", "--email", address, "--name", "Ada"] as const),
  );
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  const unlimited = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };
  settle(place, { ...unlimited, "storage.mailboxBytes": String(2 ** 40) });
  return { limit, place, apiKey };
}
