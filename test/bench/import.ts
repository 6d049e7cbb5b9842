/** Import of a large mbox into a stopped appliance: messages a second, and the most memory that it took. */
import { join } from "node:path";
import { ADDRESS, folder, newPlace, print, residentMB } from "./figures.ts";
import { messageMaker, writeMbox } from "./generator.ts";

const MESSAGES = 200_000;
const BYTES = 4_000;
const LOOK_MS = 500;

export async function importing(): Promise<void> {
  const { place } = await newPlace("import");
  const path = join(folder, "import.mbox");
  await writeMbox(path, MESSAGES, messageMaker(5, BYTES, ADDRESS));
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
  // Of all its threads: what a noisy machine changes least.
  const cpuMs = Number(child.resourceUsage()?.cpuTime.total ?? Number.NaN) / 1_000 / MESSAGES;
  const seconds = (performance.now() - started) / 1_000;
  print({
    ...{ figure: `import of ${MESSAGES} × ${BYTES / 1_000} kB`, value: MESSAGES / seconds, unit: "messages/s" },
    toReach: "1000",
  });
  print({ figure: "import, CPU a message", value: cpuMs, unit: "ms" });
  print({ figure: `resident during import of ${MESSAGES} messages, at most`, value: most, unit: "MB", toReach: "300" });
}
