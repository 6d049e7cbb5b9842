/**
 * Measures what one machine holds: a mailbox of many short messages, seeded as rows (seed.ts) or imported, and what it costs:
 * disk, start, lists, searches, arriving mail beside it, a backup, and moving its workspace to another server.
 *
 *   BENCH_MESSAGES=10000000 bun run bench scale        (a million unless it says otherwise; only when it is named)
 *   BENCH_IMPORT=yes bun run bench scale               (messages of 4 kB go through `mailroom import`)
 *
 * It needs some 2 GB of disk for each million, twice that with a backup, and three times for the move, which it leaves out
 * above two million.
 */
import { Database } from "bun:sqlite";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { type Place, run, serve } from "../harness/servers/process.ts";
import { ADDRESS, folder, newPlace, print, residentMB, settled, timings, written } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { importInto } from "./import.ts";
import { COMMON_WORD, RARE_WORD, seededPlace } from "./seed.ts";
import { pump } from "./smtp-load.ts";

const MESSAGES = Number(process.env.BENCH_MESSAGES ?? 1_000_000);
const IS_IMPORTED = process.env.BENCH_IMPORT !== undefined;
/** Bytes of the text of a message: the median of those that are seeded. */
const SHORT = 100;
const IMPORTED = 4_000;
const STARTS = 3;
const ARRIVING = 2_000;
const MOST_MOVED = 2_000_000;

const gigabytes = (path: string): number => statSync(path).size / 1e9;

/** Runs a command to its end; returns seconds. @throws Error when it fails */
async function secondsOf(place: Place, ...args: string[]): Promise<number> {
  const started = performance.now();
  const { exitCode, stderr } = await run(place, args);
  if (exitCode !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
  return (performance.now() - started) / 1_000;
}

/** A place with one mailbox of messages that were imported, with the words that are searched for. */
async function importedPlace(): Promise<Awaited<ReturnType<typeof newPlace>>> {
  const made = await newPlace(`imported-${MESSAGES}`);
  const make = messageMaker(7, IMPORTED, ADDRESS);
  const word = (n: number): string => (n % 10_000 === 0 ? RARE_WORD : n % 10 === 0 ? COMMON_WORD : "");
  const { seconds, residentMB } = await importInto(made.place, MESSAGES, (n) =>
    Buffer.concat([make(n), Buffer.from(`${word(n)}\r\n`)]),
  );
  print({ figure: `import of ${MESSAGES} messages`, value: MESSAGES / seconds, unit: "messages/s" });
  print({ figure: "resident meanwhile, at most", value: residentMB, unit: "MB" });
  return made;
}

export async function scale(): Promise<void> {
  const { place, apiKey } = await (IS_IMPORTED ? importedPlace() : seededPlace(MESSAGES, SHORT));
  const among = (figure: string) => `${figure}, among ${MESSAGES} messages`;
  const database = join(place.data, "mailroom.db");
  print({ figure: among("database"), value: gigabytes(database), unit: "GB" });

  for (let i = 1; i < STARTS; i++) {
    const started = performance.now();
    const server = await serve(place);
    print({ figure: among("start"), value: performance.now() - started, unit: "ms" });
    await server.kill("SIGTERM");
  }
  const server = await serve(place);
  const sqlite = new Database(database, { readonly: true });
  await settled(sqlite);
  sqlite.close();
  const api = apiClient(server.http, apiKey);
  const asks: [figure: string, path: (n: number) => string][] = [
    ["first page of /threads", () => "/threads?limit=25"],
    ["first page of /messages", () => "/messages"],
    ["/search, word in a tenth", (n) => `/search?q=${written(COMMON_WORD, n)}`],
    ["/search, rare word", (n) => `/search?q=${written(RARE_WORD, n)}`],
  ];
  for (const [figure, path] of asks) {
    let n = 0;
    const ask = async () => {
      const { status } = await api.get(path(n++));
      if (status !== 200) throw new Error(`${figure} answered ${status}`);
    };
    const [middle, p99] = await timings(ask, 200, 20);
    print({ figure: `${among(figure)}, median`, value: middle, unit: "ms" });
    print({ figure: `${among(figure)}, p99`, value: p99, unit: "ms" });
  }
  const load = { port: server.mx.port, to: ADDRESS, connections: 20, message: messageMaker(3, 10_000, ADDRESS) };
  print({ figure: among("ingest of 10 kB"), value: await pump({ ...load, messages: ARRIVING }), unit: "messages/s" });
  const backup = join(folder, "backup");
  print({ figure: among("backup while serving"), value: await secondsOf(place, "backup", backup), unit: "s" });
  rmSync(backup, { recursive: true });
  print({ figure: among("resident"), value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGTERM");
  if (MESSAGES <= MOST_MOVED) await move(place, among);
}

async function move(place: Place, among: (figure: string) => string): Promise<void> {
  const moved = join(folder, "moved");
  const exporting = () => secondsOf(place, "workspace", "export", "example.test", "--to", moved, "--final");
  print({ figure: among("workspace export"), value: await exporting(), unit: "s" });
  const other = { ...place, data: join(folder, "other") };
  print({ figure: among("workspace import"), value: await secondsOf(other, "workspace", "import", moved), unit: "s" });
}
