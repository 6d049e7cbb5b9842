/**
 * Mailroom beside Debian's Postfix and Dovecot, in turns: how many messages a second they accept, file and make searchable, what
 * a message costs, and how long a search and the first page take. Where those are not installed, Mailroom alone.
 */
import { Database } from "bun:sqlite";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { serve } from "../harness/servers/process.ts";
import {
  ADDRESS,
  cpuMs,
  familyOf,
  folder,
  median,
  newPlace,
  print,
  settled,
  timingsInTurn,
  written,
} from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { absent, noIndex, type PostfixDovecot, startPostfixDovecot } from "./postfix-dovecot.ts";
import { realMail } from "./real-mail.ts";
import { pump } from "./smtp-load.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const MESSAGES = 1_000;
/** Messages of a round that Dovecot indexes at delivery, which takes it a tenth of a second each. */
const INDEXED_MESSAGES = 50;
const CONNECTIONS = 10;
const LOOK_MS = 20;
/** Work that a server still does for so long after the last message counts as its cost. */
const REST_MS = 1_000;
/** Messages of a mailbox that is read. Dovecot takes half a minute to index them. */
const READ_MESSAGES = 1_000;
const PAGE = 25;

/** The figures of a round, with their units. */
const UNITS = {
  accepted: "messages/s",
  filed: "messages/s",
  searchable: "messages/s",
  "CPU a message": "ms",
  "written a message": "kB",
  "written to the disk a message": "kB",
};
type Name = keyof typeof UNITS;
type Round = Readonly<Record<Name, number>>;
const ALL = Object.keys(UNITS) as Name[];

interface Contender extends Pick<PostfixDovecot, "port" | "processes" | "filed" | "end"> {
  name: string;
  /** Messages of a round. */
  messages: number;
  /** The figures that are compared with it. */
  figures: readonly Name[];
  /** Resolves with a search's result, which takes every filed message into account. Absent where there is no index to wait for. */
  search?(): Promise<unknown>;
}

interface Usage {
  cpuMs: number;
  /** Bytes of pages of files that the processes have changed. */
  writtenBytes: number;
  /**
   * Bytes written to the disk, with the journal of its file system and what others write; NaN where the folder lies on no disk
   * of its own.
   */
  diskBytes: number;
}

/**
 * Measures what processes and their children, also those that have ended, have used so far. Flushes what waits to be written.
 */
function used(processes: readonly number[]): Usage {
  Bun.spawnSync(["sync"]);
  for (let attempt = 1; ; attempt++) {
    try {
      const family = processes.flatMap(familyOf);
      const sum = (of: (pid: number) => number): number => family.reduce((total, pid) => total + of(pid), 0);
      // The kernel adds the bytes of a child that has ended to its parent's.
      return { cpuMs: sum(cpuMs), writtenBytes: sum(writtenBytes), diskBytes: diskBytes() };
    } catch (error) {
      // One of them may have ended meanwhile.
      if (attempt === 3) throw error;
    }
  }
}

const writtenBytes = (pid: number): number =>
  Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);

function diskBytes(): number {
  const { dev } = statSync(folder);
  const [major, minor] = [(dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xfff00)];
  // The tenth field counts sectors of 512 bytes (Documentation/admin-guide/iostats.rst).
  const line = new RegExp(`^ *${major} +${minor} .*$`, "m").exec(readFileSync("/proc/diskstats", "utf8"))?.[0];
  return Number(line?.trim().split(/ +/)[9]) * 512;
}

async function measure(contender: Contender, messages: readonly Buffer[]): Promise<Round> {
  const { port, processes } = contender;
  const count = messages.length;
  const message = (n: number): Buffer => messages[n] as Buffer;
  const total = contender.filed() + count;
  const before = used(processes);
  const started = performance.now();
  const rate = (): number => count / ((performance.now() - started) / 1_000);
  const accepted = await pump({ port, to: ADDRESS, connections: CONNECTIONS, messages: count, message });
  while (contender.filed() < total) await Bun.sleep(LOOK_MS);
  const filed = rate();
  await contender.search?.();
  const searchable = rate();
  await Bun.sleep(REST_MS);
  const after = used(processes);
  return {
    accepted,
    filed,
    searchable,
    "CPU a message": (after.cpuMs - before.cpuMs) / count,
    "written a message": (after.writtenBytes - before.writtenBytes) / count / 1_000,
    "written to the disk a message": (after.diskBytes - before.diskBytes) / count / 1_000,
  };
}

async function mailroom(name: string, dns: string) {
  const { place, apiKey } = await newPlace(name);
  // It logs what it logs by default, as the others do.
  const server = await serve({ ...place, env: { MAILROOM_DNS: dns } });
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = sqlite.query("SELECT count(*) AS n FROM messages");
  return {
    name: "Mailroom",
    messages: MESSAGES,
    figures: ALL,
    port: server.mx.port,
    processes: [server.pid],
    filed: () => (count.get() as { n: number }).n,
    settled: () => settled(sqlite),
    api: apiClient(server.http, apiKey),
    async end() {
      await server.kill("SIGTERM");
      sqlite.close();
    },
  };
}

async function postfixDovecot() {
  const server = await startPostfixDovecot(false);
  const figures = ALL.filter((name) => name !== "searchable");
  return { ...server, name: "Postfix and Dovecot", messages: MESSAGES, figures };
}

/** Dovecot indexes at delivery. */
async function postfixDovecotIndexing(): Promise<Contender> {
  const server = await startPostfixDovecot(true);
  const inbox = await server.openInbox();
  return {
    ...server,
    name: "Postfix and Dovecot with a text index",
    messages: INDEXED_MESSAGES,
    figures: ALL.filter((name) => name !== "accepted" && name !== "filed"),
    async search() {
      // The session learns of new messages; the search waits until the index has them.
      await inbox.command("NOOP");
      await inbox.command("UID SEARCH BODY mail");
    },
  };
}

const uidsIn = (response: string): string[] => /^\* SEARCH (.*)\r$/m.exec(response)?.[1]?.split(" ") ?? [];

/** Sends the messages to all in turn, and prints medians of the rounds and of their ratios. The first round warms up. */
async function rounds(label: string, message: (n: number) => Buffer, contenders: readonly Contender[]): Promise<void> {
  const taken = new Map(contenders.map((contender): [Contender, Round[]] => [contender, []]));
  for (let round = 0; round <= ROUNDS; round++) {
    const messages = Array.from({ length: MESSAGES }, (_, n) => message(round * MESSAGES + n));
    for (const [contender, all] of taken) {
      const figures = await measure(contender, messages.slice(0, contender.messages));
      if (round > 0) all.push(figures);
    }
  }
  const [[, ours = []] = [], ...peers] = taken;
  if (peers.length === 0) {
    for (const name of ALL)
      print({ figure: `${label}, ${name}`, value: median(ours.map((round) => round[name])), unit: UNITS[name] });
  }
  for (const [peer, theirs] of peers) {
    for (const name of peer.figures) {
      print({
        figure: `${label}, ${name}, beside ${peer.name}`,
        value: median(ours.map((round) => round[name])),
        unit: UNITS[name],
        peer: median(theirs.map((round) => round[name])),
        ratio: median(ours.map((round, i) => round[name] / (theirs[i] as Round)[name])),
      });
    }
  }
}

/** Words that about that share of the messages have. */
function wordsOf(messages: readonly Buffer[], share: number): string[] {
  const having = new Map<string, number>();
  for (const message of messages) {
    for (const word of new Set(message.toString("latin1").match(/\b[a-z]{5,10}\b/g)))
      having.set(word, (having.get(word) ?? 0) + 1);
  }
  const distance = (n: number): number => Math.abs(n / messages.length - share);
  return [...having]
    .sort((a, b) => distance(a[1]) - distance(b[1]))
    .slice(0, 20)
    .map(([word]) => word);
}

/** Prints times of the first page and of searches, over REST and IMAP, in mailboxes of the same real mail. */
async function reading(own: Awaited<ReturnType<typeof mailroom>>, dovecot?: Contender & PostfixDovecot): Promise<void> {
  const make = realMail();
  const messages = Array.from({ length: READ_MESSAGES }, (_, n) => make(n));
  for (const contender of dovecot ? [own, dovecot] : [own]) await measure(contender, messages);
  const inbox = await dovecot?.openInbox();
  if (inbox && noIndex === undefined) {
    const started = performance.now();
    await inbox.command("UID SEARCH BODY mail");
    const seconds = (performance.now() - started) / 1_000;
    const figure = `Dovecot indexing ${READ_MESSAGES} messages of real mail at the first search`;
    print({ figure, value: READ_MESSAGES / seconds, unit: "messages/s" });
  }
  await own.settled();

  const get = async (path: string): Promise<void> => {
    const { status } = await own.api.get(path);
    if (status !== 200) throw new Error(`${path} answered ${status}`);
  };
  const fetch = (which: string) => inbox?.command(`${which} (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)`);
  async function searchAndFetch(word: string): Promise<void> {
    const hits = uidsIn((await inbox?.command(`UID SEARCH TEXT ${word}`)) ?? "");
    if (hits.length > 0) await fetch(`UID FETCH ${hits.slice(-PAGE).join(",")}`);
  }
  async function compare(figure: string, times: number, rest: () => unknown, imap: () => unknown): Promise<void> {
    const [ours, theirs] = await timingsInTurn(inbox ? [rest, imap] : [rest], times, times / 5);
    for (const [i, name] of ["median", "p99"].entries()) {
      const value = ours?.[i] as number;
      if (theirs) print({ figure: `${figure}, ${name}, beside IMAP`, value, unit: "ms", peer: theirs[i] as number });
      else print({ figure: `${figure}, ${name}`, value, unit: "ms" });
    }
  }

  const lastPage = () => fetch(`FETCH ${READ_MESSAGES - PAGE + 1}:${READ_MESSAGES}`);
  await compare("first page of /threads", 300, () => get(`/threads?limit=${PAGE}`), lastPage);
  await compare("first page of /messages", 300, () => get(`/messages?limit=${PAGE}`), lastPage);
  for (const [kind, share] of [
    ["a tenth", 0.1],
    ["a 200th", 0.005],
  ] as const) {
    const words = wordsOf(messages, share);
    const word = (n: number): string => written(words[n % words.length] as string, n / words.length);
    let [asked, askedThere] = [0, 0];
    await compare(
      `/search, a word of ${kind} of the mail`,
      noIndex === undefined ? 300 : 20,
      () => get(`/search?limit=${PAGE}&q=${word(asked++)}`),
      () => searchAndFetch(word(askedThere++)),
    );
  }
  inbox?.close();
}

export async function peers(): Promise<void> {
  const missing = [...absent, noIndex].filter((reason) => reason !== undefined);
  if (missing.length > 0) {
    const hence = absent.length > 0 ? "Mailroom is measured alone" : "Dovecot is measured without a text index";
    console.error(`${missing.join(", ")}: ${hence}`);
  }
  const dns = await startDnsServer({
    "remote.example": { txt: ["v=spf1 ip4:127.0.0.0/8 -all"] },
    "_dmarc.remote.example": { txt: ["v=DMARC1; p=reject"] },
  });
  const startOthers = async () => (absent.length > 0 ? [] : [await postfixDovecot()]);
  for (const [label, message] of [
    ["4 kB", messageMaker(21, 4_000, ADDRESS)],
    ["10 kB", messageMaker(22, 10_000, ADDRESS)],
    ["real mail", realMail()],
  ] as const) {
    const contenders: Contender[] = [await mailroom(`peers-${label}`, dns.address), ...(await startOthers())];
    if (missing.length === 0) contenders.push(await postfixDovecotIndexing());
    await rounds(label, message, contenders);
    for (const contender of contenders) await contender.end();
  }
  const own = await mailroom("peers-reading", dns.address);
  const [dovecot] = await startOthers();
  await reading(own, dovecot);
  await own.end();
  await dovecot?.end();
  await dns.close();
}
