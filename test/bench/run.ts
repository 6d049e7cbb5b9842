/**
 * `bun run bench`: one JSON line a figure, each beside a floor measured in the same run, so that the ratio can be
 * compared between machines. It builds the executable and measures it from outside, as a child process, over loopback.
 *
 *   bun run bench                 everything (about nine minutes, without peers)
 *   bun run bench ingest read     only the named parts: ingest, pages, authentication, sending, uploads, blobs, documents, webhooks,
 *                                 read, changes, tails, readers, start, mcp, import, replica, search, imap (beside Dovecot), peers (beside Debian's Postfix and
 *                                 Dovecot where they are installed; more turns with BENCH_ROUNDS=9). BENCH_MESSAGES=1000000:
 *                                 changes and search among a million messages
 *   bun run bench scale           what one machine holds; not among everything, since it takes long
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { endFile } from "../harness/end.ts";
import { newSigner, signed } from "../harness/mail/dkim-signer.ts";
import { startDnsServer, type Zone } from "../harness/peers/dns-server.ts";
import { type Served, serve } from "../harness/servers/process.ts";
import { blobs } from "./blobs.ts";
import { changes } from "./changes.ts";
import { documents } from "./documents.ts";
import { ADDRESS, cpuMs, median, newPlace, print, ROOT, residentMB, settled, timings, written } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { imap } from "./imap.ts";
import { importing } from "./import.ts";
import { mcp } from "./mcp.ts";
import { pages } from "./pages.ts";
import { peers } from "./peers.ts";
import { readers } from "./readers.ts";
import { replica } from "./replica.ts";
import { scale } from "./scale.ts";
import { search } from "./search.ts";
import { COMMON_WORD, MESSAGES, PHRASE, RARE_WORD, seededPlace } from "./seed.ts";
import { sending } from "./sending.ts";
import { pump } from "./smtp-load.ts";
import { tails } from "./tails.ts";
import { uploads } from "./uploads.ts";
import { webhooks } from "./webhooks.ts";

/** Messages per second of the same load into smtp-server alone, which throws it away. */
async function discardRate(connections: number, messages: number, bytes: number): Promise<number> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "discard-server.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { value } = await child.stdout.getReader().read();
  const load = {
    port: Number(new TextDecoder().decode(value)),
    to: ADDRESS,
    connections,
    message: messageMaker(9, bytes, ADDRESS),
  };
  await pump({ ...load, messages: messages / 5 });
  const rate = await pump({ ...load, messages });
  child.kill();
  return rate;
}

async function ingest(): Promise<void> {
  for (const [label, bytes, messages] of [
    ["10 kB", 10_000, 3_000],
    ["1 MB", 1_000_000, 150],
  ] as const) {
    const { place } = await newPlace(`ingest-${bytes}`);
    const server = await serve(place);
    const load = { port: server.mx.port, to: ADDRESS, connections: 20 };
    await pump({ ...load, messages: messages / 5, message: messageMaker(1, bytes, ADDRESS) });
    const rates: number[] = [];
    for (let i = 2; i < 5; i++) rates.push(await pump({ ...load, messages, message: messageMaker(i, bytes, ADDRESS) }));
    print({
      figure: `ingest ${label}, durable, 20 connections`,
      value: median(rates),
      unit: "messages/s",
      floor: await discardRate(20, messages, bytes),
      ...(bytes === 10_000 ? { toReach: "600" } : {}),
    });
    print({ figure: `resident after ingest of ${messages * 3} × ${label}`, value: residentMB(server.pid), unit: "MB" });
    await server.kill("SIGTERM");
  }
}

/**
 * Mail that is signed, from a domain that publishes SPF, a key and DMARC, as most mail does; beside it, as its floor, mail
 * of a domain that publishes nothing. Both ask a DNS server beside them, once: the answers are cached.
 */
async function authentication(): Promise<void> {
  const signer = newSigner("remote.example", { bits: 2_048 });
  const published = {
    "remote.example": { txt: ["v=spf1 ip4:127.0.0.0/8 -all"] },
    "s._domainkey.remote.example": { txt: [signer.record] },
    "_dmarc.remote.example": { txt: ["v=DMARC1; p=reject"] },
  };
  const SIZE = 10_000;
  const COUNT = 1_500;

  async function ingestOf(name: string, zone: Zone, make: (message: Buffer) => Buffer) {
    const dns = await startDnsServer(zone);
    const { place } = await newPlace(`authentication-${name}`);
    const server = await serve({ ...place, env: { ...place.env, MAILROOM_DNS: dns.address } });
    const rates: number[] = [];
    const cpu: number[] = [];
    for (let round = 1; round < 5; round++) {
      const plain = messageMaker(round, SIZE, ADDRESS);
      // Signed beforehand: what is measured is the server.
      const messages = Array.from({ length: COUNT }, (_, n) => make(plain(n)));
      const message = (n: number): Buffer => messages[n] as Buffer;
      const load = { port: server.mx.port, to: ADDRESS, connections: 20, messages: COUNT, message };
      const used = cpuMs(server.pid);
      const rate = await pump(load);
      if (round === 1) continue;
      rates.push(rate);
      cpu.push((cpuMs(server.pid) - used) / COUNT);
    }
    await server.kill("SIGTERM");
    await dns.close();
    return { rate: median(rates), cpu: median(cpu) };
  }

  const without = await ingestOf("without", {}, (message) => message);
  const signing = (message: Buffer): Buffer => Buffer.from(signed(message.toString("latin1"), signer), "latin1");
  const authenticated = await ingestOf("with", published, signing);
  print({
    figure: "ingest 10 kB, signed and authenticated, 20 connections",
    value: authenticated.rate,
    unit: "messages/s",
    floor: without.rate,
    toReach: "ratio 0.6",
  });
  print({ figure: "the same, CPU a message", value: authenticated.cpu, unit: "ms", floor: without.cpu });
}

async function start(): Promise<void> {
  const empty = await newPlace("empty");
  for (const [label, place] of [
    ["an empty mailbox", empty.place],
    ["100,000 messages", (await seededPlace(MESSAGES)).place],
  ] as const) {
    const bare = await startTimes(async () => {
      const child = Bun.spawn([process.execPath, "-e", "console.log(1)"], { stdio: ["ignore", "pipe", "ignore"] });
      await child.stdout.getReader().read();
      child.kill();
      await child.exited;
    });
    let resident = 0;
    const ready = await startTimes(async () => {
      const server = await serve(place);
      resident = residentMB(server.pid);
      return () => server.kill("SIGKILL");
    });
    print({ figure: `start to ready, ${label}`, value: ready, unit: "ms", floor: bare, toReach: "500" });
    print({ figure: `resident after start, ${label}`, value: resident, unit: "MB", toReach: "130" });
  }
}

/** Median ms of five runs; what `begin` returns ends it, untimed. */
async function startTimes(begin: () => Promise<unknown>): Promise<number> {
  const taken: number[] = [];
  for (let i = 0; i < 5; i++) {
    const started = performance.now();
    const end = await begin();
    taken.push(performance.now() - started);
    if (typeof end === "function") await end();
  }
  return median(taken);
}

async function read(): Promise<void> {
  const { place, apiKey } = await seededPlace(MESSAGES);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const server: Served = await serve(place);
  await settled(sqlite);
  const api = apiClient(server.http, apiKey);
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const { status, body } = await api.get(path);
    if (status !== 200) throw new Error(`${path} answered ${status} ${JSON.stringify(body)}`);
    return body;
  };

  let cursor = "";
  for (let page = 1; page < 40; page++) cursor = `&cursor=${(await get(`/threads?limit=25${cursor}`)).nextCursor}`;
  const longThread = ((await get("/search?q=subject:longthread")).threads as { id: string }[])[0]?.id;

  const [bareRow] = await timings(() =>
    sqlite
      .query("SELECT * FROM threads WHERE folder = 'inbox' ORDER BY mailbox_id, last_message_at DESC LIMIT 25")
      .all(),
  );
  const [bareMessages] = await timings(() =>
    sqlite
      .query(
        "SELECT * FROM messages m JOIN message_bodies b ON b.message_seq = m.seq WHERE m.thread_seq = (SELECT seq FROM threads WHERE id = ?)",
      )
      .all(longThread as string),
  );
  const bareSearch = async (match: string): Promise<number> =>
    (
      await timings(
        () =>
          sqlite
            .query("SELECT rowid FROM message_index WHERE message_index MATCH ? ORDER BY rowid DESC LIMIT 25")
            .all(match),
        200,
      )
    )[0];

  /** The nth search for a text, found anew each time. */
  const searchFor =
    (text: string) =>
    (n: number): string =>
      `/search?q=${encodeURIComponent(`"${written(text, n)}"`)}`;
  const measured: [figure: string, path: (n: number) => string, floor: number, toReach?: string][] = [
    ["first page of /threads", () => "/threads?limit=25", bareRow, "5"],
    ["40th page of /threads", () => `/threads?limit=25${cursor}`, bareRow, "5"],
    ["thread of 50 messages", () => `/threads/${longThread}`, bareMessages],
    ["first page of /messages", () => "/messages", bareRow],
    ["/search, common word", searchFor(COMMON_WORD), await bareSearch(COMMON_WORD), "20"],
    ["/search, rare word", searchFor(RARE_WORD), await bareSearch(RARE_WORD), "20"],
    ["/search, phrase", searchFor(PHRASE), await bareSearch(`"${PHRASE}"`), "20"],
  ];
  for (const [figure, path, floor, toReach] of measured) {
    let n = 0;
    const [middle, p99] = await timings(() => get(path(n++)), 300);
    print({ figure: `${figure}, median`, value: middle, unit: "ms", floor });
    print({ figure: `${figure}, p99`, value: p99, unit: "ms", floor, ...(toReach === undefined ? {} : { toReach }) });
  }
  print({ figure: "resident after reading, 100,000 messages", value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGTERM");
}

const parts = {
  ingest,
  pages,
  authentication,
  sending,
  uploads,
  blobs,
  documents,
  webhooks,
  read,
  changes,
  tails,
  readers,
  start,
  mcp,
  import: importing,
  replica,
  search,
  imap,
  peers,
  scale,
};
/** Only if it is named. */
const LONG = new Set(["scale"]);
const chosen = process.argv.slice(2);
const unknown = chosen.find((name) => !Object.hasOwn(parts, name));
if (unknown !== undefined) {
  console.error(`no part is called ${unknown}: ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}
const build = Bun.spawnSync([process.execPath, "run", "build"], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
if (build.exitCode !== 0) process.exit(1);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void end(1));
try {
  for (const [name, part] of Object.entries(parts)) {
    if (chosen.length === 0 ? !LONG.has(name) : chosen.includes(name)) await part();
  }
} catch (error) {
  console.error(error);
  await end(1);
}
await end(0);

/** Ends with every process that was started. */
async function end(code: number): Promise<never> {
  await endFile();
  process.exit(code);
}
