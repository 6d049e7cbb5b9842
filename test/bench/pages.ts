/**
 * Pages and bytes that filing writes for a message, of the server as it runs: with the groups that 10 and 20 connections form,
 * in a mailbox that has 50,000 messages already.
 *
 * Pages are counted in the write-ahead log: a reader with an old snapshot keeps the server from starting the log again, and
 * dbstat tells which table or index a page belongs to. Bytes are those of all write calls, checkpoints included.
 */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { labelledPresent, readLabelled } from "../harness/mail/labelled-mail.ts";
import { serve } from "../harness/servers/process.ts";
import { ADDRESS, newPlace, print } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { pump } from "./smtp-load.ts";

const STORED = 50_000;
const COUNTED = 2_000;
/** Trees below this many pages a message are not printed. */
const LEAST = 0.1;

type Maker = (n: number) => Buffer;

/** Mail of the SpamAssassin corpus in turn, each time with another Message-ID. */
function labelledMaker(seed: number): Maker {
  const mail = [...readLabelled()].map(({ bytes }) =>
    Buffer.from(bytes)
      .toString("latin1")
      .replace(/^From .*\n/, "")
      .replaceAll(/\r?\n/g, "\r\n")
      .replaceAll("\r\n.", "\r\n.."),
  );
  return (n) =>
    Buffer.from(String(mail[(n * 7) % mail.length]).replace(/^(Message-ID:\s*<)/im, `$1${seed}.${n}.`), "latin1");
}

const KINDS: Record<string, (seed: number) => Maker> = {
  "5 kB": (seed) => messageMaker(seed, 5_000, ADDRESS),
  "10 kB": (seed) => messageMaker(seed, 10_000, ADDRESS),
  ...(labelledPresent && { "SpamAssassin's mail": labelledMaker }),
};

/** The numbers of the pages in a log, in the order in which they were written, and how many commits wrote them. */
function framesOf(log: string): { pages: number[]; commits: number } {
  const bytes = readFileSync(log);
  const frame = 24 + bytes.readUInt32BE(8);
  const salts = bytes.subarray(16, 24);
  const pages: number[] = [];
  let commits = 0;
  for (let at = 32; at + frame <= bytes.length && bytes.subarray(at + 8, at + 16).equals(salts); at += frame) {
    pages.push(bytes.readUInt32BE(at));
    if (bytes.readUInt32BE(at + 4) > 0) commits++;
  }
  return { pages, commits };
}

const bytesWritten = (pid: number): number => Number(/wchar: (\d+)/.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);

/** CPU of the main thread, ms. */
const mainCpu = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;

export async function pages(): Promise<void> {
  const { place } = await newPlace("pages");
  const file = join(place.data, "mailroom.db");
  const server = await serve(place);
  let seed = 100;
  const load = (connections: number, messages: number, make: (seed: number) => Maker) =>
    pump({ port: server.mx.port, to: ADDRESS, connections, messages, message: make(seed++) });
  for (const make of Object.values(KINDS)) await load(20, STORED / Object.keys(KINDS).length, make);

  for (const [kind, make] of Object.entries(KINDS)) {
    for (const connections of [10, 20]) {
      const of = `a message of ${kind}, ${connections} connections`;
      const written = bytesWritten(server.pid);
      const cpu = mainCpu(server.pid);
      await load(connections, 2 * COUNTED, make);
      const bytes = (bytesWritten(server.pid) - written) / COUNTED / 2;
      print({ figure: `written for ${of}, with checkpoints`, value: bytes / 1_000, unit: "kB" });
      print({
        figure: `CPU of the main thread for ${of}`,
        value: (mainCpu(server.pid) - cpu) / COUNTED / 2,
        unit: "ms",
      });

      const reader = new Database(file, { readonly: true });
      reader.exec("BEGIN");
      reader.query("SELECT count(*) FROM options").get();
      const before = framesOf(`${file}-wal`);
      await load(connections, COUNTED, make);
      const after = framesOf(`${file}-wal`);
      reader.close();
      const counted = after.pages.slice(before.pages.length);
      print({ figure: `messages of ${of} in a commit`, value: COUNTED / (after.commits - before.commits), unit: "" });
      print({ figure: `pages in the log for ${of}`, value: counted.length / COUNTED, unit: "pages" });
      if (connections === 10) printTrees(file, kind, counted);
    }
  }
  await server.kill("SIGTERM");
}

function printTrees(file: string, kind: string, counted: readonly number[]): void {
  const sqlite = new Database(file, { readonly: true });
  const treeOf = new Map(sqlite.query("SELECT pageno, name FROM dbstat").values() as [number, string][]);
  sqlite.close();
  const trees = Map.groupBy(counted, (page) => treeOf.get(page) ?? "unused");
  const sorted = [...trees]
    .map(([tree, { length }]) => ({ tree, value: length / COUNTED }))
    .sort((a, b) => b.value - a.value);
  for (const { tree, value } of sorted) {
    if (value >= LEAST) print({ figure: `of them ${tree}, ${kind}`, value, unit: "pages" });
  }
}
