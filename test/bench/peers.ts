/**
 * Mailroom beside Debian's Postfix and Dovecot, in turns in one run: what each takes, files and makes searchable a second, and
 * the processors and disk that a message costs.
 */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { corpusFiles } from "../harness/corpus.ts";
import { startDnsServer } from "../harness/dns-server.ts";
import { labelledPresent, readLabelled } from "../harness/labelled-mail.ts";
import { serve } from "../harness/process.ts";
import { ADDRESS, familyOf, median, newPlace, print } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { absent, hasIndex, startPostfixDovecot } from "./postfix-dovecot.ts";
import { pump } from "./smtp-load.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const MESSAGES = 1_000;
const CONNECTIONS = 10;
const LOOK_MS = 20;
/** Of a round of Dovecot with its text index, which takes its time. */
const INDEXED_MESSAGES = 100;
/** From one message of the corpus to the next: a prime. */
const STRIDE = 2_503;
const MESSAGE_ID = /^message-id: *(<[^>\s]+>)/im;
const IDS = /^(?:message-id|in-reply-to|references):.*(?:\r\n[ \t].*)*/gim;

interface Contender {
  name: string;
  /** Where it takes mail. */
  port: number;
  /** Those that started all others. */
  processes: number[];
  /** Messages of a round. */
  messages: number;
  /** Messages in the mailbox that a reader gets. */
  filed(): number;
  /** Resolves when a search has found the message of that Message-ID. */
  found?(messageId: string): Promise<void>;
}

interface Kind {
  label: string;
  /** The nth message, ready to be sent. */
  message(n: number): Buffer;
}

/** What one round gave, by the name of the figure. */
type Figures = Record<string, number>;

/** What processes have used, with those that they started, ended or not: CPU in ms and bytes written. */
function used(processes: number[]): { cpu: number; bytes: number } {
  let [cpu, bytes] = [0, 0];
  for (const pid of processes.flatMap(familyOf)) {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Fields 14 to 17 of proc(5): user and system time, its own and that of children that ended.
    const times = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 15);
    cpu += times.reduce((sum, time) => sum + Number(time) * 10, 0);
    // The kernel adds the bytes of a child that ended to its parent's.
    bytes += Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
  }
  return { cpu, bytes };
}

async function measure(contender: Contender, messages: Buffer[]): Promise<Figures> {
  const count = messages.length;
  const before = used(contender.processes);
  const total = contender.filed() + count;
  const started = performance.now();
  const perSecond = (): number => count / ((performance.now() - started) / 1_000);
  const message = (n: number): Buffer => messages[n] as Buffer;
  const accepted = await pump({
    port: contender.port,
    to: ADDRESS,
    connections: CONNECTIONS,
    messages: count,
    message,
  });
  while (contender.filed() < total) await Bun.sleep(LOOK_MS);
  const filed = perSecond();
  const id = MESSAGE_ID.exec((messages.at(-1) as Buffer).toString("latin1"))?.[1] ?? "";
  await contender.found?.(id);
  const searchable = contender.found ? { searchable: perSecond() } : {};
  // What is left to do after the last message is counted too.
  await Bun.sleep(1_000);
  const after = used(contender.processes);
  if (contender.filed() !== total) throw new Error(`${contender.name} has ${contender.filed()} messages, not ${total}`);
  return {
    accepted,
    filed,
    ...searchable,
    cpu: (after.cpu - before.cpu) / count,
    bytes: (after.bytes - before.bytes) / count / 1_000,
  };
}

/**
 * Mail that people wrote, spread over the corpus, and again from its start once all was sent. Message-IDs, and references to
 * them, get the number of the turn. What lacks a Message-ID or repeats one is left out.
 */
function realMail(): (n: number) => Buffer {
  const known = new Set<string>();
  const mail: { head: string; body: string }[] = [];
  for (const { bytes } of labelledPresent ? readLabelled() : corpusFiles()) {
    const text = Buffer.from(bytes)
      .toString("latin1")
      .replace(/^From .*\r?\n/, "")
      .replace(/\r\n|\r|\n/g, "\r\n");
    const end = text.indexOf("\r\n\r\n");
    const head = text.slice(0, end + 2);
    const id = MESSAGE_ID.exec(head)?.[1];
    if (end < 0 || id === undefined || known.has(id)) continue;
    known.add(id);
    mail.push({ head, body: text.slice(end + 2) });
  }
  return (n) => {
    const { head, body } = mail[(n * STRIDE) % mail.length] as (typeof mail)[number];
    const own = head.replace(IDS, (field) => field.replaceAll("<", `<${Math.floor(n / mail.length)}.`));
    return Buffer.from(`${own}${body}`.replace(/^\./gm, ".."), "latin1");
  };
}

async function mailroom(name: string, dns: string): Promise<Contender> {
  const { place } = await newPlace(name);
  const server = await serve({ ...place, env: { MAILROOM_DNS: dns } });
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = sqlite.query("SELECT count(*) AS n FROM messages");
  return {
    name: "Mailroom",
    port: server.mx.port,
    processes: [server.pid],
    messages: MESSAGES,
    filed: () => (count.get() as { n: number }).n,
    // Its 250 says so.
    found: async () => {},
  };
}

async function postfixDovecot(index: boolean): Promise<Contender> {
  const { open, ...server } = await startPostfixDovecot(index);
  const name = `Postfix and Dovecot${index ? " with a text index" : ""}`;
  if (!index) return { ...server, name, messages: MESSAGES };
  const client = await open();
  return {
    ...server,
    name,
    messages: INDEXED_MESSAGES,
    async found(messageId) {
      await client.command("NOOP");
      const response = await client.command(`UID SEARCH HEADER MESSAGE-ID "${messageId}"`);
      if (!/^\* SEARCH \d/m.test(response)) throw new Error(`${messageId} is not found: ${response}`);
    },
  };
}

const UNITS: Readonly<Record<string, string>> = {
  accepted: "messages/s",
  filed: "messages/s",
  searchable: "messages/s",
  cpu: "ms a message",
  bytes: "kB written a message",
};

export async function peers(): Promise<void> {
  for (const reason of absent) console.error(`${reason}: Postfix and Dovecot are not measured`);
  if (absent.length === 0 && !hasIndex)
    console.error("dovecot-fts-xapian is not installed: Dovecot is measured without a text index");
  const zone = await startDnsServer({ "remote.example": { txt: ["v=spf1 ip4:127.0.0.0/8 -all"] } });
  const kinds: Kind[] = [
    { label: "4 kB", message: messageMaker(21, 4_000, ADDRESS) },
    { label: "10 kB", message: messageMaker(22, 10_000, ADDRESS) },
    { label: "real mail", message: realMail() },
  ];
  const contenders = [await mailroom("peers", zone.address)];
  if (absent.length === 0) contenders.push(await postfixDovecot(false));
  if (absent.length === 0 && hasIndex) contenders.push(await postfixDovecot(true));
  for (const { label, message } of kinds) {
    const rounds: Figures[][] = contenders.map(() => []);
    for (let round = 0; round <= ROUNDS; round++) {
      const messages = Array.from({ length: MESSAGES }, (_, n) => message(round * MESSAGES + n));
      for (const [i, contender] of contenders.entries()) {
        const figures = await measure(contender, messages.slice(0, contender.messages));
        // The first warms up.
        if (round > 0) rounds[i]?.push(figures);
      }
    }
    const medians = rounds.map((all) =>
      Object.fromEntries(
        Object.keys(all[0] ?? {}).map((name) => [name, median(all.map((one) => one[name] as number))]),
      ),
    );
    for (const [i, contender] of contenders.entries()) {
      for (const [name, peer] of Object.entries(medians[i] ?? {})) {
        const value = medians[0]?.[name] as number;
        const unit = UNITS[name] as string;
        if (i === 0) print({ figure: `${label}, ${name}`, value, unit });
        else print({ figure: `${label}, ${name}, beside ${contender.name}`, value, unit, peer });
      }
    }
  }
  await zone.close();
}
