/**
 * Mail apps over IMAP, with mail that people and servers wrote: a mailbox that is opened for the first time, pages of envelopes, a
 * whole folder fetched, searches, and the memory of connections that wait; beside Debian's Dovecot with the same files, where it
 * is installed. Both over TLS.
 */
import { Database } from "bun:sqlite";
import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { selfSign } from "../../src/tls/pair.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { noDovecot, PASSWORD, runDovecot } from "../harness/peers/dovecot.ts";
import { takePort } from "../harness/port.ts";
import { runJson, type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, cpuMs, familyOf, median, newPlace, print, residentMB, settled, timingsInTurn } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { type ImapClient, imapClient } from "./imap-client.ts";
import { importInto } from "./import.ts";
import { realMail } from "./real-mail.ts";
import { pump } from "./smtp-load.ts";

const MESSAGES = Number(process.env.BENCH_MESSAGES ?? 100_000);
/** Messages of a whole folder that is fetched, at most. */
const SYNCED = 10_000;
const PAGE = 25;
/** Messages that are fetched at once, to be given to Dovecot. */
const PORTION = 2_000;
const IDLING = 1_000;
/** Most connections that one network and one person may have. */
const OF_NETWORK = 50;
const OF_PERSON = 25;
const TIMES = 20;
/** Turns of arriving mail, and messages of each. */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const ARRIVING = 1_000;
/** Owner of Dovecot's directories (harness/peers/dovecot.ts). */
const OWNER = 65_534;

/** A word and a phrase of the corpora. */
const WORD = "mailbox";
const PHRASE = "could not be delivered";

const ENVELOPES = "(UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)";

/** The messages of an answer to FETCH BODY.PEEK[], latin1. */
function* octetsIn(answer: string): Generator<string> {
  const announced = /\* \d+ FETCH \([^{]*\{(\d+)\}\r\n/g;
  for (let found = announced.exec(answer); found; found = announced.exec(answer)) {
    const end = announced.lastIndex + Number(found[1]);
    yield answer.slice(announced.lastIndex, end);
    announced.lastIndex = end;
  }
}

/** Dovecot with the mail of a client's selected mailbox. */
async function dovecotWith(
  mail: ImapClient,
  count: number,
): Promise<{ port: number; pid: number; end(): Promise<void> }> {
  const folder = temporaryFolder();
  const [home, port] = [join(folder, "mail"), await takePort()];
  const now = Date.now();
  const { cert, key } = await selfSign("localhost", now - 86_400_000, now + 86_400_000, new Uint8Array(8));
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
  const daemon = await runDovecot(
    { folder, mail: home, user: ADDRESS, port },
    `
protocols = imap
ssl = required
ssl_cert = <${join(folder, "cert.pem")}
ssl_key = <${join(folder, "key.pem")}
mail_max_userip_connections = ${2 * IDLING}
service imap-login {
  client_limit = ${2 * IDLING}
  process_limit = ${2 * IDLING}
  inet_listener imap {
    port = 0
  }
  inet_listener imaps {
    address = 127.0.0.1
    port = ${port}
  }
}
service imap {
  process_limit = ${2 * IDLING}
}
service anvil {
  client_limit = ${5 * IDLING}
}
service auth {
  client_limit = ${5 * IDLING}
}
`,
  );
  const inbox = join(home, "Maildir/cur");
  for (const name of ["", "cur", "new", "tmp"]) {
    mkdirSync(join(home, "Maildir", name), { recursive: true });
    chownSync(join(home, "Maildir", name), OWNER, OWNER);
  }
  let number = 10_000_000;
  for (let first = 1; first <= count; first += PORTION) {
    const answer = await mail.command(`FETCH ${first}:${Math.min(count, first + PORTION - 1)} BODY.PEEK[]`);
    for (const octets of octetsIn(answer)) {
      const path = join(inbox, `${number++}:2,S`);
      writeFileSync(path, octets, "latin1");
      chmodSync(path, 0o644);
    }
  }
  return { port, pid: daemon.pid, end: daemon.end };
}

const residentOf = (pid: number): number => familyOf(pid).reduce((sum, one) => sum + residentMB(one), 0);

/** Opens connections that wait for news; returns the kB of each. */
async function idling(pid: number, open: (n: number) => Promise<ImapClient>): Promise<number> {
  const before = residentOf(pid);
  const clients: ImapClient[] = [];
  for (let n = 0; n < IDLING; n++) {
    const client = await open(n);
    clients.push(client);
    await client.command("SELECT INBOX");
    client.begin("IDLE");
  }
  const each = ((residentOf(pid) - before) * 1_024) / IDLING;
  for (const client of clients) client.close();
  return each;
}

/**
 * Measures what UIDs and octets cost arriving mail: the same mail goes, in turns, into a mailbox that was opened over IMAP and
 * one that was not.
 */
async function ingest(): Promise<void> {
  const sides = await Promise.all(
    ["opened", "unopened"].map(async (name) => {
      const { place, apiKey } = await newPlace(`imap-${name}`);
      const server = await serve({ ...place, env: { ...place.env, MAILROOM_IMAPS: "127.0.0.1:0" } });
      if (name === "opened") {
        const client = await imapClient(imapsOf(server), ADDRESS, apiKey, { secure: true });
        await client.command("SELECT INBOX");
        client.close();
      }
      const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
      return { server, sqlite, rates: [] as number[], cpu: [] as number[] };
    }),
  );
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { server, sqlite, rates, cpu } of round % 2 === 0 ? sides : sides.toReversed()) {
      const before = cpuMs(server.pid);
      const message = messageMaker(round + 1, 10_000, ADDRESS);
      const load = { port: server.mx.port, to: ADDRESS, connections: 20, messages: ARRIVING, message };
      const rate = await pump(load);
      await settled(sqlite);
      if (round === 0) continue;
      rates.push(rate);
      cpu.push((cpuMs(server.pid) - before) / ARRIVING);
    }
  }
  const [opened, unopened] = sides as [(typeof sides)[0], (typeof sides)[0]];
  const figure = "ingest 10 kB into a mailbox that was opened over IMAP, beside one that was not";
  print({ figure, value: median(opened.rates), floor: median(unopened.rates), unit: "messages/s" });
  print({ figure: `${figure}: CPU`, value: median(opened.cpu), floor: median(unopened.cpu), unit: "ms a message" });
  for (const { server, sqlite } of sides) {
    sqlite.close();
    await server.kill("SIGTERM");
  }
}

const imapsOf = ({ ready }: Served): number => Number(String(ready.imaps).split(":")[1]);

export async function imap(): Promise<void> {
  await ingest();
  const { place, apiKey } = await newPlace("imap");
  await importInto(place, MESSAGES, realMail());
  const people: { user: string; key: string }[] = [];
  for (let n = 0; n < IDLING / OF_PERSON; n++) {
    const user = `person${n}@example.test`;
    await runJson(place, "user", "add", user, "--name", `Person ${n}`, "--role", "member");
    const scopes = ["--scopes", "read,write"];
    const { key } = await runJson<{ key: string }>(place, "key", "create", "--user", user, "--name", "IMAP", ...scopes);
    people.push({ user, key });
  }
  const server = await serve({ ...place, env: { ...place.env, MAILROOM_IMAPS: "127.0.0.1:0" } });
  const port = imapsOf(server);
  const ours = await imapClient(port, ADDRESS, apiKey, { secure: true });
  const started = performance.now();
  const opened = await ours.command("SELECT INBOX");
  const took = performance.now() - started;
  // Some of the corpora's messages are the same, and are filed once.
  const count = Number(/^\* (\d+) EXISTS/m.exec(opened)?.[1]);
  print({
    figure: `IMAP: the first SELECT of ${count} messages`,
    value: took,
    unit: "ms",
    toReach: "1000",
  });
  const dovecot = noDovecot === undefined ? await dovecotWith(ours, count) : undefined;
  const theirs = dovecot && (await imapClient(dovecot.port, ADDRESS, PASSWORD, { secure: true }));
  // Dovecot makes its index and cache at the first look.
  await theirs?.command("SELECT INBOX");
  await theirs?.command(`FETCH 1:* ${ENVELOPES}`);

  const clients = [ours, ...(theirs ? [theirs] : [])];
  async function compare(figure: string, times: number, command: (i: number) => string): Promise<void> {
    const [own, other] = await timingsInTurn(
      clients.map((client) => {
        let i = 0;
        return () => client.command(command(i++));
      }),
      times,
      2,
    );
    const peer = other && { peer: other[0] };
    print({ figure: `IMAP: ${figure}`, value: own?.[0] ?? Number.NaN, unit: "ms", ...peer });
  }
  const pageAt = (i: number): string => {
    const first = 1 + ((i * 7_919) % (count - PAGE));
    return `${first}:${first + PAGE - 1}`;
  };
  await compare(`${PAGE} envelopes`, 10 * TIMES, (i) => `FETCH ${pageAt(i)} ${ENVELOPES}`);
  await compare(
    `${PAGE} structures and header fields`,
    10 * TIMES,
    (i) => `FETCH ${pageAt(i)} (UID BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS (FROM REFERENCES)])`,
  );
  await compare(`SELECT of ${count} messages`, TIMES, () => "SELECT INBOX");
  await compare(`flags of ${count} messages`, 3, () => "FETCH 1:* (UID FLAGS)");
  const synced = Math.min(count, SYNCED);
  await compare(`${synced} messages whole`, 3, () => `FETCH 1:${synced} (UID FLAGS BODY.PEEK[])`);
  await compare("SEARCH of a subject", 3, () => `SEARCH SUBJECT "${WORD}"`);
  await compare("SEARCH UNSEEN", 3, () => "SEARCH UNSEEN");
  await compare("SEARCH SENTSINCE", 3, () => "SEARCH SENTSINCE 1-Jan-2012");
  await compare("SEARCH of a phrase in a text", 1, () => `SEARCH BODY "${PHRASE}"`);
  await compare("SEARCH of a word in a text", 1, () => `SEARCH BODY "${WORD}"`);
  await compare("SEARCH of a part of words in a text", 1, () => `SEARCH BODY "${WORD.slice(1)}"`);
  await compare("SEARCH of a word anywhere", 1, () => `SEARCH TEXT "${WORD}"`);

  // Anew, since memory that was used before would be used again.
  for (const client of clients) client.close();
  await server.kill("SIGTERM");
  const again = await serve({ ...place, env: { ...place.env, MAILROOM_IMAPS: `127.0.0.1:${port}` } });
  const own = await idling(again.pid, (n) => {
    const { user, key } = people[n % people.length] as { user: string; key: string };
    return imapClient(port, user, key, { secure: true, from: `127.0.1.${1 + Math.floor(n / OF_NETWORK)}` });
  });
  const peer =
    dovecot && (await idling(dovecot.pid, () => imapClient(dovecot.port, ADDRESS, PASSWORD, { secure: true })));
  print({
    figure: `IMAP: memory of each of ${IDLING} connections that wait`,
    value: own,
    unit: "kB",
    ...(peer !== undefined && { peer }),
  });
  await dovecot?.end();
  await again.kill("SIGTERM");
}
