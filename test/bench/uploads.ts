/**
 * A message with a file of 20 MB, sent by a form: how long other requests wait meanwhile, and what it takes of memory. The
 * sender is a process of its own, and its message waits for a DNS server that is not there.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run, type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, folder, median, newPlace, print } from "./figures.ts";

const BYTES = 20_000_000;
const ROUNDS = 9;
const PING_MS = 2;
/** After it, workers and main thread have collected their garbage. */
const IDLE_MS = 2_500;

/** Without the cache of files. */
const anonymousMB = ({ pid }: Served): number =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

/** Asks for /healthz until `work` has ended. Returns the longest wait, ms, and the most memory, MB. */
async function watch(server: Served, work: () => Promise<unknown>): Promise<{ longest: number; most: number }> {
  let longest = 0;
  let most = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const asked = performance.now();
      await (await fetch(`${server.http}/healthz`)).arrayBuffer();
      longest = Math.max(longest, performance.now() - asked);
      most = Math.max(most, anonymousMB(server));
      await Bun.sleep(PING_MS);
    }
  })();
  await work();
  isOver = true;
  await watching;
  return { longest, most };
}

export async function uploads(): Promise<void> {
  const { place, apiKey } = await newPlace("uploads");
  await run(place, ["settings", "set", "smtp.maxMessageBytes", String(2 * BYTES)]);
  const server = await serve({ ...place, env: { ...place.env, MAILROOM_DNS: "127.0.0.1:9" } });
  const file = join(folder, "upload.bin");
  writeFileSync(
    file,
    crypto.getRandomValues(Buffer.alloc(60_000)).toString("latin1").repeat(400).slice(0, BYTES),
    "latin1",
  );
  const request = JSON.stringify({ from: ADDRESS, to: "reader@remote.example", subject: "Large", text: "x" });
  const script = `
    const form = new FormData();
    form.set("request", ${JSON.stringify(request)});
    form.append("file", new Blob([await Bun.file(${JSON.stringify(file)}).arrayBuffer()]), "a.bin");
    const headers = { authorization: "Bearer ${apiKey}" };
    const { status } = await fetch("${server.http}/api/v1/send", { method: "POST", headers, body: form });
    if (status !== 202) throw new Error("/send answered " + status);`;
  const send = async (): Promise<void> => {
    const child = Bun.spawn([process.execPath, "-e", script], { stdio: ["ignore", "ignore", "inherit"] });
    if ((await child.exited) !== 0) throw new Error("the message was not sent");
  };
  await send();
  const rounds: { longest: number; idle: number; memory: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await Bun.sleep(IDLE_MS);
    const before = anonymousMB(server);
    const { longest: idle } = await watch(server, () => Bun.sleep(1_000));
    const { longest, most } = await watch(server, send);
    rounds.push({ longest, idle, memory: most - before });
  }
  print({
    figure: `longest wait of a request while a file of 20 MB is sent, median of ${ROUNDS}`,
    value: median(rounds.map(({ longest }) => longest)),
    unit: "ms",
    floor: median(rounds.map(({ idle }) => idle)),
    toReach: "50",
  });
  print({
    figure: "the same, the longest of all",
    value: Math.max(...rounds.map(({ longest }) => longest)),
    unit: "ms",
  });
  print({
    figure: "memory beyond idle meanwhile, median",
    value: median(rounds.map(({ memory }) => memory)),
    unit: "MB",
    toReach: "60",
  });
  print({ figure: "the same, the most", value: Math.max(...rounds.map(({ memory }) => memory)), unit: "MB" });
  await server.kill("SIGTERM");
}
