/**
 * Many mail apps on the same mailbox, with the API and arriving mail beside them: each is told a consistent story, and in the
 * end all know the same. STRESS_SEED repeats a run, STRESS_ROUNDS makes it longer.
 */
import { expect, test } from "bun:test";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { boot } from "../harness/servers/boot.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { arrive } from "./arrive.ts";
import { chance } from "./chance.ts";

const SEED = Number(process.env.STRESS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const ROUNDS = Number(process.env.STRESS_ROUNDS ?? 60);
const APPS = 6;
const FOLDERS = ["INBOX", "Archive", "Sent", "Drafts", "Junk", "Trash"];
const FLAGS = ["\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "$Forwarded", "Invoices", "Later"];

const isAnswered = { status: expect.stringMatching(/^(?:OK|NO)$/) };

interface App extends ImapAccount {
  folder: string;
}

test(`mail apps that change the same mail are told the same (seed ${SEED})`, async () => {
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const { store } = app.core;
  const port = Number(app.ready.imaps?.split(":")[1]);
  const pick = chance(SEED);
  const one = <T>(of: readonly T[]): T => of[pick(of.length)] as T;
  let made = 0;

  async function fill(): Promise<void> {
    // Two of three begin a conversation.
    const subject = pick(3) === 0 ? "Re: Together" : `Message ${made}`;
    await arrive(app, { subject, from: "bob@remote.example", messageId: `<${++made}@remote.example>` });
  }
  for (let i = 0; i < 20; i++) await fill();

  const apps: App[] = [];
  const password = appPassword(app);
  for (let i = 0; i < APPS; i++) {
    const account = await imapAccount(port, "alice@example.test", password);
    if (i % 3 === 0) await account.say("ENABLE QRESYNC");
    await account.say("SELECT INBOX");
    await account.say("FETCH 1:* (UID FLAGS)");
    apps.push(Object.assign(account, { folder: "INBOX" }));
  }

  const some = (client: App): string => {
    const known = client.uids.length;
    const [a, b] = [1 + pick(known), 1 + pick(known)];
    return one([`${a}`, `${a}:${b}`, `${a},${b}`, "*", `${Math.min(a, b)}:*`]);
  };
  const act = async (client: App): Promise<void> => {
    const isEmpty = client.uids.length === 0;
    const what = pick(12);
    if (isEmpty || what === 0) {
      client.folder = one(FOLDERS);
      expect(await client.say(`SELECT ${client.folder}`)).toMatchObject({ status: "OK" });
      await client.say("FETCH 1:* (UID FLAGS)");
    } else if (what <= 2) await client.say(`FETCH ${some(client)} (UID FLAGS)`);
    else if (what <= 5) {
      const silent = one(["", ".SILENT"]);
      const stored = `${one(["", "+", "-"])}FLAGS${silent} (${one(FLAGS)} ${one(FLAGS)})`;
      expect(await client.say(`STORE ${some(client)} ${stored}`)).toMatchObject(isAnswered);
      // It is not told what it knows.
      if (silent) client.flags.clear();
    } else if (what === 6) {
      expect(await client.say(`${one(["MOVE", "COPY"])} ${some(client)} ${one(FOLDERS)}`)).toMatchObject(isAnswered);
    } else if (what === 7) {
      expect(await client.say("EXPUNGE")).toMatchObject({ status: "OK" });
    } else if (what === 8) {
      const octets = `From: ann@remote.example\r\nMessage-ID: <${++made}@app>\r\n\r\nAppended\r\n`;
      const appended = `APPEND ${one(FOLDERS)} (${one(FLAGS)}) {${octets.length}+}\r\n${octets}`;
      expect(await client.say(appended)).toMatchObject(isAnswered);
    } else if (what === 9) await fill();
    else if (what === 10) {
      const { body } = await app.api.get<{ threads: { id: string }[] }>("/threads?folder=all&limit=20");
      const { id = "" } = one(body.threads) ?? {};
      await app.api.patch(`/threads/${id}`, one([{ unread: true }, { starred: true }, { folder: "archive" }]));
    } else await client.say("NOOP");
  };
  for (let round = 0; round < ROUNDS; round++) await Promise.all(apps.map((client) => act(client)));

  for (const client of apps) expect(client.mistakes).toEqual([]);
  // In the end, all know what is there.
  const all: number[] = [];
  for (const folder of FOLDERS) {
    const fresh = await imapAccount(port, "alice@example.test", app.owner.apiKey);
    await fresh.say(`SELECT ${folder}`);
    await fresh.say("FETCH 1:* (UID FLAGS)");
    all.push(fresh.uids.length);
    for (const client of apps.filter((one) => one.folder === folder)) {
      await client.say("NOOP");
      const told = new Map(client.flags);
      await client.say("FETCH 1:* (UID FLAGS)");
      expect(client.mistakes).toEqual([]);
      expect(client.uids).toEqual(fresh.uids);
      expect(client.flags).toEqual(fresh.flags);
      // What it was told without asking was right.
      for (const [uid, flags] of told) expect([uid, flags]).toEqual([uid, fresh.flags.get(uid) ?? "gone"]);
    }
    fresh.end();
  }
  const there = all.reduce((sum, count) => sum + count, 0);
  const rows = store.db.$client.query("SELECT count(*) AS n FROM messages").get() as { n: number };
  expect(there).toBe(rows.n);
  expect(store.db.$client.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  for (const client of apps) client.end();
}, 120_000);
