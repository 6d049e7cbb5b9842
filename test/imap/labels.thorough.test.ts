/** Labels as mailboxes, by apps that do at random what apps may, and what is copied in more than one portion. */
import { expect, test } from "bun:test";
import { changeMessages } from "../../src/mailbox/changing/message-changes.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { appPassword, numbersIn } from "../harness/servers/imap-world.ts";
import { chance } from "./chance.ts";
import { labelled, patch, validityOf } from "./labels.ts";

const SEED = Number(process.env.STRESS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const ROUNDS = Number(process.env.STRESS_ROUNDS ?? 60);

for (const [name, folder, elsewhere] of [
  ["INBOX", "inbox", "archive"],
  ["Trash", "trash", "inbox"],
] as const) {
  test(`a COPY from ${name} that fails leaves what another app moved meanwhile where it is`, async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const { core } = app.opened;
    const { store } = core;
    const arrived = await world.arriveAll(Array.from({ length: 105 }, (_, i) => `Mail ${i}`));
    const [first, last] = [arrived[0], arrived[104]] as [(typeof arrived)[0], (typeof arrived)[0]];
    if (name !== "INBOX") {
      await mail.say("SELECT INBOX");
      await mail.say(`MOVE 1:* ${name}`);
    }
    await mail.say("CREATE Labels/Work");
    await mail.say(`SELECT ${name}`);
    store.db.$client.run(
      `CREATE TRIGGER fails BEFORE INSERT ON thread_labels
       WHEN new.thread_seq = (SELECT thread_seq FROM messages WHERE seq = ${last.seq})
       BEGIN SELECT RAISE(ABORT, 'no'); END`,
    );
    const { userId, workspaceId, mailboxId } = app.owner;
    const scopes = new Set(["read", "write"] as const);
    const caller = { userId, workspaceId, role: "owner", email: world.alice, scopes } as const;
    const isLabelled = "SELECT 1 FROM thread_labels JOIN messages USING (thread_seq) WHERE seq = ?";
    const stop = store.onCommit(() => {
      if (!store.db.$client.query(isLabelled).get(first.seq)) return;
      stop();
      queueMicrotask(() =>
        store.transact((tx) => changeMessages(tx, caller, [first.seq], { folder: elsewhere }, core.now())),
      );
    });
    expect((await mail.say("COPY 1:* Labels/Work")).status).toBe("NO");
    store.db.$client.run("DROP TRIGGER fails");
    const placed = store.db.$client
      .query("SELECT folder, count(*) AS n FROM messages WHERE mailbox_id = ? GROUP BY folder ORDER BY n")
      .all(mailboxId);
    expect(placed).toEqual([
      { folder: elsewhere, n: 1 },
      { folder, n: 104 },
    ]);
    expect((await mail.say("STATUS Labels/Work (MESSAGES)")).untagged).toContain('* STATUS "Labels/Work" (MESSAGES 0)');
  });
}

test(`apps that change labels at once are told the same (seed ${SEED})`, async () => {
  const world = await labelled();
  const { app } = world;
  const pick = chance(SEED);
  const one = <T>(of: readonly T[]): T => of[pick(of.length)] as T;
  const NAMES = ["Labels/A", "Labels/B", "Labels/B/C", "INBOX", "Archive", "Trash"];
  let made = 0;
  const more = async (): Promise<void> => {
    const subject = pick(3) === 0 ? "Re: Together" : `Message ${made}`;
    const { threadId } = await world.arrive({ subject, messageId: `<${++made}@remote.example>` });
    if (pick(2) === 0) await patch(world, threadId, { addLabels: [one(["A", "B", "B/C"])] });
  };
  for (const name of NAMES) await world.own.say(`CREATE ${name}`);
  for (let i = 0; i < 20; i++) await more();
  const apps: { mail: ImapAccount; name: string }[] = [];
  const person = { email: world.alice, key: appPassword(app) };
  for (let i = 0; i < 4; i++) {
    const mail = await world.client(person);
    if (i % 2 === 0) await mail.say("ENABLE QRESYNC");
    const name = one(NAMES);
    await mail.say(`SELECT ${name}`);
    await mail.say("FETCH 1:* (UID FLAGS)");
    apps.push({ mail, name });
  }
  const isAnswered = { status: expect.stringMatching(/^(?:OK|NO)$/) };
  const act = async (client: (typeof apps)[number]): Promise<void> => {
    const { mail } = client;
    const what = pick(10);
    const set = `${1 + pick(mail.uids.length)}`;
    if (mail.uids.length === 0 || what === 0) {
      client.name = one(NAMES);
      expect(await mail.say(`SELECT ${client.name}`)).toMatchObject({ status: "OK" });
      await mail.say("FETCH 1:* (UID FLAGS)");
    } else if (what <= 2) {
      const flags = one(["\\Seen", "\\Deleted", "\\Answered", "A", "B"]);
      expect(await mail.say(`STORE ${set} ${one(["+", "-"])}FLAGS (${flags})`)).toMatchObject(isAnswered);
    } else if (what <= 5) {
      expect(await mail.say(`${one(["COPY", "MOVE"])} ${set} ${one(NAMES)}`)).toMatchObject(isAnswered);
    } else if (what === 6) expect(await mail.say("EXPUNGE")).toMatchObject({ status: "OK" });
    else if (what === 7) await more();
    else if (what === 8) {
      const { body } = await app.api.get<{ threads: { id: string }[] }>("/threads?folder=all&limit=20");
      const { id = "" } = one(body.threads) ?? {};
      const changes = [{ addLabels: ["A"] }, { removeLabels: ["A"] }, { labels: ["B", "B/C"] }, { folder: "archive" }];
      await app.api.patch(`/threads/${id}`, one(changes));
    } else await mail.say("NOOP");
  };
  // One that returns now and then, and keeps what it knows.
  const returning = await world.client();
  await returning.say("ENABLE QRESYNC");
  const kept = new Map<number, string>();
  let known = "";
  async function comeBack(): Promise<void> {
    const { untagged } = await returning.say(`SELECT Labels/A${known}`);
    const lines = known === "" ? (await returning.say("UID FETCH 1:* (FLAGS)")).untagged : untagged;
    const [, gone] = /^\* VANISHED \(EARLIER\) (\S+)$/m.exec(untagged.join("\n")) ?? [];
    for (const uid of gone === undefined ? [] : numbersIn(gone)) kept.delete(uid);
    for (const line of lines) {
      const [, uid] = /[( ]UID (\d+)/.exec(line) ?? [];
      const [, flags] = /FLAGS \(([^)]*)\)/.exec(line) ?? [];
      if (uid !== undefined && flags !== undefined) kept.set(Number(uid), flags.split(" ").sort().join(" "));
    }
    const [, modseq] = /HIGHESTMODSEQ (\d+)/.exec(untagged.join("\n")) ?? [];
    known = ` (QRESYNC (${validityOf({ untagged })} ${modseq}))`;
    await returning.say("UNSELECT");
  }
  for (let round = 0; round < ROUNDS; round++) {
    await Promise.all(apps.map(act));
    if (round % 10 === 0) await comeBack();
  }
  await comeBack();
  const now = await world.client();
  await now.say("SELECT Labels/A");
  await now.say("FETCH 1:* (UID FLAGS)");
  expect([...kept].sort(([a], [b]) => a - b)).toEqual([...now.flags].sort(([a], [b]) => a - b));
  for (const { mail, name } of apps) {
    await mail.say("NOOP");
    const told = new Map(mail.flags);
    await mail.say("FETCH 1:* (UID FLAGS)");
    const fresh = await world.client();
    await fresh.say(`SELECT ${name}`);
    await fresh.say("FETCH 1:* (UID FLAGS)");
    expect(mail.mistakes).toEqual([]);
    expect(mail.uids).toEqual(fresh.uids);
    expect(mail.flags).toEqual(fresh.flags);
    for (const [uid, flags] of told) expect([uid, flags]).toEqual([uid, fresh.flags.get(uid) ?? "gone"]);
  }
  // Each label's mailbox has what the conversations say.
  const { $client } = app.core.store.db;
  for (const key of ["a", "b", "b/c"]) {
    await world.own.say(`SELECT Labels/${key.toUpperCase()}`);
    const there = $client
      .query<{ seq: number }, [string]>(
        `SELECT messages.seq FROM messages JOIN thread_labels USING (thread_seq)
         WHERE label_key = ? AND folder NOT IN ('trash', 'spam') ORDER BY seq`,
      )
      .all(key);
    const numbered = $client
      .query<{ seq: number }, [string]>(
        `SELECT message_seq AS seq FROM imap_labelled JOIN imap_labels ON id = label_id WHERE label_key = ? ORDER BY seq`,
      )
      .all(key);
    expect(numbered).toEqual(there);
  }
}, 120_000);
