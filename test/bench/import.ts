/** Import of a large mbox into a stopped appliance: messages a second, and the most memory that it took. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Place } from "../harness/servers/process.ts";
import { ADDRESS, folder, newPlace, print, residentMB } from "./figures.ts";
import { messageMaker, writeMbox } from "./generator.ts";

const MESSAGES = 200_000;
const BYTES = 4_000;
const LOOK_MS = 500;

/** Imports so many messages; returns the time it took, the CPU of all its threads, and its most memory. */
export async function importInto(
  place: Place,
  messages: number,
  make: (n: number) => Buffer,
): Promise<{ seconds: number; cpuMs: number; residentMB: number }> {
  const path = join(folder, "import.mbox");
  await writeMbox(path, messages, make);
  const started = performance.now();
  const [program = "", ...args] = place.program ?? [];
  const child = Bun.spawn([program, ...args, "import", "--mailbox", ADDRESS, path], {
    env: { PATH: process.env.PATH ?? "", MAILROOM_DATA: place.data, ...place.env },
    stdio: ["ignore", "ignore", "ignore"],
  });
  let most = 0;
  while (child.exitCode === null) {
    await Promise.race([child.exited, Bun.sleep(LOOK_MS)]);
    if (child.exitCode === null) most = Math.max(most, residentMB(child.pid));
  }
  if (child.exitCode !== 0) throw new Error(`import ended with ${child.exitCode}`);
  const seconds = (performance.now() - started) / 1_000;
  rmSync(path);
  return { seconds, cpuMs: Number(child.resourceUsage()?.cpuTime.total ?? Number.NaN) / 1_000, residentMB: most };
}

export async function importing(): Promise<void> {
  const { place } = await newPlace("import");
  const { seconds, cpuMs, residentMB } = await importInto(place, MESSAGES, messageMaker(5, BYTES, ADDRESS));
  print({
    ...{ figure: `import of ${MESSAGES} × ${BYTES / 1_000} kB`, value: MESSAGES / seconds, unit: "messages/s" },
    toReach: "1000",
  });
  // What a noisy machine changes least.
  print({ figure: "import, CPU a message", value: cpuMs / MESSAGES, unit: "ms" });
  print({
    ...{ figure: `resident during import of ${MESSAGES} messages, at most`, value: residentMB, unit: "MB" },
    toReach: "300",
  });
}
