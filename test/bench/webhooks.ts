/**
 * Webhooks: how fast one receiver is told of a backlog, durably recorded, which is to be compared with ingest in the same run;
 * and how long after the filing of mail a receiver that works is told of it, alone and beside 50 that never answer.
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { newId, systemRuntime } from "../../src/base/runtime.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Place, run, runJson, serve } from "../harness/servers/process.ts";
import { ADDRESS, cpuMs, median, newPlace, print, residentMB } from "./figures.ts";

const DELIVERIES = 20_000;
/** Before those that are measured: code that has run for a while is compared, not how soon it is compiled. */
const WARM_UP = 5_000;
const ROUNDS = 3;
const DEAD = 50;
const MAILS = 200;
const BACKLOG = 100_000;

interface Stats {
  count: number;
  first: number;
  last: number;
  delay: number;
}

interface Sink {
  url(path: string): string;
  /** Resolves with what is known once `count` requests have come since the last reset. */
  take(count: number): Promise<Stats>;
  reset(): Promise<unknown>;
  close(): void;
}

async function openSink(): Promise<Sink> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "receiver.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { value } = await child.stdout.getReader().read();
  const url = (path: string) => `http://127.0.0.1:${new TextDecoder().decode(value).trim()}${path}`;
  return {
    url,
    async take(count) {
      for (;;) {
        const stats = (await (await fetch(url("/stats"))).json()) as Stats;
        if (stats.count >= count) return stats;
        await Bun.sleep(50);
      }
    },
    reset: () => fetch(url("/reset")),
    close: () => child.kill(),
  };
}

const rateOf = ({ count, first, last }: Stats): number => (count - 1) / ((last - first) / 1_000);

async function hookPlace(name: string): Promise<{ place: Place; add(url: string): Promise<unknown> }> {
  const { place } = await newPlace(name);
  const { exitCode, stderr } = await run(place, ["settings", "set", "webhooks.allowNetworks", "127.0.0.0/8"]);
  if (exitCode !== 0) throw new Error(stderr);
  return { place, add: (url) => runJson(place, "webhook", "add", "--url", url, "--events", "message.inbound") };
}

/** Events such as mail leaves behind. */
function putEvents(place: Place, count: number): void {
  const sqlite = new Database(join(place.data, "mailroom.db"));
  sqlite.exec("PRAGMA busy_timeout = 5000");
  const people = Array.from({ length: 3 }, (_, i) => ({ email: `person-${i}@remote.example`, name: `Person ${i}` }));
  const data = JSON.stringify({
    ...{ emailId: "msg_x".padEnd(26, "x"), threadId: "thr_x".padEnd(26, "x"), mailboxId: "mbx_x".padEnd(26, "x") },
    ...{
      mailbox: ADDRESS,
      messageId: "<0123456789@remote.example>",
      inReplyTo: null,
      from: people[0],
      to: people,
      cc: people,
    },
    ...{ subject: "A subject of usual length", snippet: "word ".repeat(30), hasAttachments: false, attachmentCount: 0 },
    ...{ isSpam: false, receivedAt: new Date().toISOString() },
  });
  const insert = sqlite.prepare(
    `INSERT INTO events (id, workspace_id, event, created_at, data)
     SELECT ?1, (SELECT id FROM workspaces), 'message.inbound', ?2, ?3`,
  );
  const runtime = systemRuntime();
  sqlite.transaction(() => {
    for (let i = 0; i < count; i++) insert.run(newId(runtime, "evt"), Date.now(), data);
  })();
  sqlite.close();
}

async function throughput(sink: Sink): Promise<void> {
  const { place, add } = await hookPlace("webhooks");
  await add(sink.url("/hook"));
  const rates: number[] = [];
  const cpu: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const server = await serve(place);
    await sink.reset();
    putEvents(place, WARM_UP);
    await sink.take(WARM_UP);
    await sink.reset();
    const before = cpuMs(server.pid);
    putEvents(place, DELIVERIES);
    rates.push(rateOf(await sink.take(DELIVERIES)));
    cpu.push((cpuMs(server.pid) - before) / DELIVERIES);
    await server.kill("SIGTERM");
  }
  print({
    ...{ figure: "webhook deliveries to one receiver, recorded", value: median(rates), unit: "deliveries/s" },
    toReach: "3 times ingest of 10 kB",
  });
  print({ figure: "the same, CPU a delivery", value: median(cpu), unit: "ms" });
}

async function delay(sink: Sink): Promise<void> {
  const { place, add } = await hookPlace("webhooks-delay");
  await add(sink.url("/hook"));
  const server = await serve(place);
  const measure = async (): Promise<number> => {
    await sink.reset();
    const sender = mailer(server.mx);
    for (let i = 0; i < MAILS; i++)
      await sender.send({ from: "a@remote.example", to: ADDRESS }, letter({ to: ADDRESS }));
    sender.close();
    return (await sink.take(MAILS)).delay;
  };
  await measure();
  const alone = await measure();
  for (let i = 0; i < DEAD; i++) await add(sink.url("/dead"));
  const beside = await measure();
  print({
    figure: `from filing to the receiver's door, median, beside ${DEAD} receivers that never answer`,
    value: beside,
    unit: "ms",
    floor: alone,
    toReach: "2x of alone",
  });
  await server.kill("SIGKILL");
}

async function backlog(sink: Sink): Promise<void> {
  const { place, add } = await hookPlace("webhooks-backlog");
  await add(sink.url("/dead"));
  putEvents(place, BACKLOG);
  const server = await serve(place);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const waiting = sqlite.query("SELECT count(*) AS n FROM webhook_deliveries");
  while ((waiting.get() as { n: number }).n < BACKLOG) await Bun.sleep(50);
  print({ figure: `resident with ${BACKLOG} webhook deliveries waiting`, value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGKILL");
}

export async function webhooks(): Promise<void> {
  const sink = await openSink();
  await throughput(sink);
  await delay(sink);
  await backlog(sink);
  sink.close();
}
