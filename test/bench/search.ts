/**
 * Search at scale: how fast mail is indexed, how soon a page of GET /search comes and the engine alone answers, and what
 * the index takes on disk and in memory; with FTS5, and with Meilisearch where MEILISEARCH_BIN names one.
 *
 *   BENCH_MESSAGES=1000000 bun run bench search        (100,000 unless it says otherwise)
 */
import { Database } from "bun:sqlite";
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemRuntime } from "../../src/base/runtime.ts";
import { createFts5Engine } from "../../src/search/fts5/fts5.ts";
import { SEARCH_FOLDER } from "../../src/search/meilisearch/process.ts";
import { parseQuery } from "../../src/search/query.ts";
import { openStore } from "../../src/store/store.ts";
import { apiClient } from "../harness/clients/api.ts";
import { labelledNote, labelledPresent, readLabelled } from "../harness/mail/labelled-mail.ts";
import { type Place, run, type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, familyOf, newPlace, print, residentMB, settled, timings, written } from "./figures.ts";
import { wordAt } from "./generator.ts";
import { PHRASE, seededPlace } from "./seed.ts";

const MESSAGES = Number(process.env.BENCH_MESSAGES ?? 100_000);
const ROUNDS = 10;
const AT_A_TIME = 20;

/** Words of these ranks: as many as make the engine forget the first (search/fts5/fts5.ts) before it is asked for again. */
const ranked = (from: number, step: number): string[] =>
  Array.from({ length: AT_A_TIME }, (_, i) => wordAt(from + i * step));
/** Words that are in about a tenth of the messages each, and words in some ten of ten thousand. */
const COMMON = ranked(150, 1);
const RARE = ranked(20_000, 97);
const person = (i: number): string => `person${37 * i}@remote${(37 * i) % 31}.example`;

/** Queries by kind. Each is found anew, but for the kind that says otherwise. Most of the mail came after the day in them. */
const QUERIES: Readonly<Record<string, readonly string[]>> = {
  "a common word": COMMON,
  "a common word, again": COMMON.slice(0, 1),
  "a rare word": RARE,
  "a phrase": COMMON.map((_, i) => `"${written(PHRASE.slice(i % 2 === 0 ? 0 : PHRASE.indexOf(" ") + 1), i)}"`),
  "two common words": COMMON.map((word, i) => `${word} ${wordAt(170 + i)}`),
  "a common word, unread": COMMON.map((word) => `${word} is:unread`),
  "a common word, excluding another": COMMON.map((word, i) => `${word} -${wordAt(170 + i)}`),
  "a common word since a day": COMMON.map((word) => `${word} after:2023-01-15`),
  "a sender": COMMON.map((_, i) => `from:${person(i)}`),
  "a sender and a common word": COMMON.map((word, i) => `from:${person(i)} ${word}`),
};

interface Seeded {
  place: Place;
  apiKey: string;
  mailboxId: string;
}

/** Adds what there is to reach to figures of the embedded engine alone. */
const ofFts5 = (figure: string, toReach: string) => (figure.includes("fts5") ? { toReach } : {});

async function printTimings(figure: string, queries: readonly string[], ask: (q: string) => unknown): Promise<void> {
  let n = 0;
  const [middle, p99] = await timings(
    () => ask(queries[n++ % queries.length] as string),
    ROUNDS * queries.length,
    2 * queries.length,
  );
  print({ figure: `${figure}, median`, value: middle, unit: "ms" });
  const goal = queries === COMMON ? ofFts5(figure, "25 at a million") : {};
  print({ figure: `${figure}, p99`, value: p99, unit: "ms", ...goal });
}

async function printPages(engine: string, { http }: Served, apiKey: string): Promise<void> {
  const api = apiClient(http, apiKey);
  const ask = async (q: string, order = "") => {
    const { status, body } = await api.get(`/search?q=${encodeURIComponent(q)}${order}`);
    if (status !== 200) throw new Error(`/search?q=${q}${order} answered ${status} ${JSON.stringify(body)}`);
  };
  for (const [kind, queries] of Object.entries(QUERIES)) {
    await printTimings(`/search with ${engine}, ${kind}`, queries, (q) => ask(q));
  }
  await printTimings(`/search with ${engine}, a common word by relevance`, [...COMMON], (q) =>
    ask(q, "&sort=relevance"),
  );
}

/** Prints what the engine takes to find matches in the process of the benchmark, beside the server. */
async function printMatches({ place, mailboxId }: Seeded): Promise<void> {
  const store = openStore({ folder: place.data, runtime: systemRuntime() });
  const engine = createFts5Engine(store);
  const { workspaceId } = store.db.$client
    .query("SELECT workspace_id AS workspaceId FROM mailboxes WHERE id = ?")
    .get(mailboxId) as { workspaceId: string };
  const scope = { mailboxIds: [mailboxId], workspaceId };
  for (const [kind, queries] of Object.entries(QUERIES)) {
    await printTimings(`fts5 alone, ${kind}`, queries, (q) => engine.match(parseQuery(q, 0), scope));
  }
  store.close();
}

/** Bytes of what can be searched for, as it is written: addresses and names without the JSON around them. */
function textBytes(sqlite: Database): number {
  const ofAddresses = (list: string): string =>
    `(SELECT coalesce(sum(octet_length(value ->> 'email') + coalesce(octet_length(value ->> 'name'), 0)), 0) FROM json_each(${list}))`;
  const row = sqlite
    .query(
      `SELECT sum(octet_length(b.text) + octet_length(m.subject) + ${ofAddresses(`json_array(json(m."from"))`)}
           + ${ofAddresses(`m."to"`)} + ${ofAddresses("m.cc")})
         + (SELECT coalesce(sum(octet_length(filename)), 0) FROM attachments) AS n
       FROM messages m JOIN message_bodies b ON b.message_seq = m.seq`,
    )
    .get() as { n: number };
  return row.n;
}

const pagesBytes = (sqlite: Database): number =>
  (sqlite.query("SELECT sum(pgsize) AS n FROM dbstat WHERE name LIKE 'message_index%'").get() as { n: number }).n;

const folderBytes = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).blocks * 512, 0);

function printDisk(
  engine: string,
  bytes: number,
  text: number,
  mail = `${MESSAGES} messages as long as people's`,
): void {
  const figure = `index of ${engine} for ${mail}, beside their text`;
  print({ figure, value: bytes / 1e6, unit: "MB", floor: text / 1e6, ...ofFts5(figure, "0.5 × the text") });
}

async function reindexed({ place }: Seeded): Promise<void> {
  const started = performance.now();
  const { exitCode, stderr } = await run(place, ["reindex"]);
  if (exitCode !== 0) throw new Error(stderr);
  const seconds = (performance.now() - started) / 1_000;
  print({ figure: `fts5 indexing ${MESSAGES} stored messages`, value: MESSAGES / seconds, unit: "messages/s" });
}

async function withFts5(seeded: Seeded, sqlite: Database, text: number): Promise<void> {
  await reindexed(seeded);
  const server = await serve(seeded.place);
  await settled(sqlite);
  printDisk("fts5", pagesBytes(sqlite), text);
  await printPages("fts5", server, seeded.apiKey);
  print({ figure: "resident after searching with fts5", value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGTERM");
  await printMatches(seeded);
}

/** Measures searches in mail that people wrote, which is longer than generated mail and repeats its words. */
async function printNatural(): Promise<void> {
  if (!labelledPresent) return console.error(`mail that people wrote is not measured${labelledNote}`);
  const { place } = await newPlace("natural");
  const folder = join(place.data, "mail");
  mkdirSync(folder);
  let count = 0;
  for (const { bytes, isSpam } of readLabelled()) {
    if (!isSpam) writeFileSync(join(folder, `${count++}.eml`), bytes);
  }
  const { exitCode, stderr } = await run(place, ["import", "--mailbox", ADDRESS, folder]);
  if (exitCode !== 0) throw new Error(stderr);
  const server = await serve(place);
  using sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  await settled(sqlite);
  await server.kill("SIGTERM");
  printDisk("fts5", pagesBytes(sqlite), textBytes(sqlite), `${count} messages of people, imported`);
}

async function withMeilisearch(seeded: Seeded, text: number, executable: string): Promise<void> {
  const { place } = seeded;
  for (const [name, value] of [
    ["search.meilisearchPath", executable],
    ["search.engine", "meilisearch"],
  ] as const) {
    const { exitCode, stderr } = await run(place, ["settings", "set", name, value]);
    if (exitCode !== 0) throw new Error(stderr);
  }
  const server = await serve(place);
  const started = performance.now();
  const engine = async (): Promise<unknown> =>
    ((await (await fetch(`${server.http}/healthz`)).json()) as { search?: string }).search;
  while ((await engine()) !== "meilisearch") await Bun.sleep(100);
  const seconds = (performance.now() - started) / 1_000;
  print({ figure: `meilisearch indexing ${MESSAGES} stored messages`, value: MESSAGES / seconds, unit: "messages/s" });
  printDisk("meilisearch", folderBytes(join(place.data, SEARCH_FOLDER)), text);
  await printPages("meilisearch", server, seeded.apiKey);
  const resident = familyOf(server.pid).reduce((sum, pid) => sum + residentMB(pid), 0);
  print({ figure: "resident after searching with meilisearch, both processes", value: resident, unit: "MB" });
  await server.kill("SIGTERM");
}

export async function search(): Promise<void> {
  const seeded = await seededPlace(MESSAGES);
  const sqlite = new Database(join(seeded.place.data, "mailroom.db"), { readonly: true });
  const text = textBytes(sqlite);
  await withFts5(seeded, sqlite, text);
  await printNatural();
  const executable = process.env.MEILISEARCH_BIN;
  if (executable) await withMeilisearch(seeded, text, executable);
  else console.error("MEILISEARCH_BIN names no executable: Meilisearch is not measured");
  sqlite.close();
  rmSync(seeded.place.data, { recursive: true });
}
