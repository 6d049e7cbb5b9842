/**
 * A mailbox that expires (rules: Mailbox expiry), over real sockets: from then on neither mail nor people's programs get anything through it; what
 * it has can be read for 30 days, and is gone after them, whatever the clock and the process did meanwhile.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { attachments, mailboxes, messages, threads } from "../../src/store/schema.ts";
import { setPassword, signIn } from "../harness/clients/browser-session.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Booted, boot, bootEmpty } from "../harness/servers/boot.ts";
import { signedIn, world } from "../harness/servers/submission-world.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const UNKNOWN = expect.stringMatching(/^550 5\.1\.1 /);

/** Beside Alice's, a mailbox temp@ that expires in an hour, with an alias, and one for whatever nobody else has. */
async function office(booted?: Booted) {
  const it = booted ?? (await boot());
  const { core, write } = it;
  const { store } = core;
  const { workspaceId, userId } = it.owner;
  const add = (name: string, more = {}) =>
    write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address: `${name}@example.test`, name, ...more }));
  const expiresAt = it.runtime.now() + HOUR;
  const temp = add("temp", { expiresAt, ownerId: userId });
  const rest = add("rest");
  write((tx) => {
    mailboxAdmin.addAlias(core, tx, temp, "brief@example.test");
    mailboxAdmin.addAlias(core, tx, rest, "*@example.test");
  });
  return {
    ...it,
    ...{ store, add, temp, rest, expiresAt },
    subjectsIn: async (mailbox: string) =>
      (await it.api.get<{ threads: { subject: string }[] }>(`/threads?mailbox=${mailbox}&folder=all`)).body.threads.map(
        ({ subject }) => subject,
      ),
  };
}

async function rcpt({ mx }: Pick<Booted, "mx">, to: string): Promise<string> {
  const client = await connectSmtp(mx);
  await client.expect(250, "MAIL FROM:<carol@remote.example>");
  const { code, status } = await client.command(`RCPT TO:<${to}>`);
  client.destroy();
  return `${code} ${status} `;
}

const mailTo = (to: string, subject: string) =>
  letter({ from: "carol@remote.example", to, subject, messageId: `<${subject}@remote.example>` }).replaceAll(
    /\r?\n/g,
    "\r\n",
  );

async function deliver({ mx }: Pick<Booted, "mx">, to: string, subject: string): Promise<number> {
  const client = await connectSmtp(mx);
  const { code } = await client.deliver({ from: "carol@remote.example", to }, mailTo(to, subject));
  client.destroy();
  return code;
}

describe("mail to it", () => {
  test("is taken until then and refused from then on, by every address that it has", async () => {
    const it = await office();
    const own = ["temp@example.test", "TEMP+tag@example.test", "brief@example.test", "brief+x@example.test"];
    await it.advance(HOUR - 1);
    for (const address of own) expect(await rcpt(it, address)).toStartWith("250 ");
    await it.advance(1);
    // No catch-all has what was somebody's.
    for (const address of own) expect(await rcpt(it, address)).toEqual(UNKNOWN);
    expect(await rcpt(it, "whatever@example.test")).toStartWith("250 ");
    expect(await rcpt(it, "alice@example.test")).toStartWith("250 ");
  });

  test("as a catch-all is refused like any mail to nobody", async () => {
    const it = await office();
    it.write((tx) => mailboxAdmin.setExpiry(it.core, tx, it.rest, it.expiresAt));
    expect(await deliver(it, "whatever@example.test", "before")).toBe(250);
    await it.advance(HOUR);
    expect(await rcpt(it, "whatever@example.test")).toEqual(UNKNOWN);
    expect(await it.subjectsIn("rest@example.test")).toEqual(["before"]);
  });

  test("of postmaster goes to a mailbox of the owner that takes mail, and is refused without one", async () => {
    const it = await office();
    it.write((tx) => {
      mailboxAdmin.addAlias(it.core, tx, it.temp, "postmaster@example.test");
      mailboxAdmin.removeAlias(tx, it.rest, "*@example.test");
    });
    expect(await deliver(it, "postmaster@example.test", "first")).toBe(250);
    await it.advance(HOUR);
    expect(await deliver(it, "postmaster@example.test", "second")).toBe(250);
    expect(await it.subjectsIn("temp@example.test")).toEqual(["first"]);
    expect(await it.subjectsIn("alice@example.test")).toEqual(["second"]);
    it.write((tx) => mailboxAdmin.setExpiry(it.core, tx, it.owner.mailboxId, it.runtime.now() + HOUR));
    await it.advance(HOUR);
    for (const address of ["postmaster", "postmaster@example.test", "abuse@example.test"]) {
      expect(await rcpt(it, address)).toEqual(UNKNOWN);
    }
  });

  test("is refused at DATA when it expires between", async () => {
    const it = await office();
    await it.advance(HOUR - 1);
    const client = await connectSmtp(it.mx);
    await client.expect(250, "MAIL FROM:<carol@remote.example>");
    await client.expect(250, "RCPT TO:<temp@example.test>");
    await client.expect(354, "DATA");
    await it.advance(1);
    client.write(`${mailTo("temp@example.test", "late")}\r\n.\r\n`);
    expect(await client.reply()).toMatchObject({ code: 550, status: "5.1.1" });
    client.destroy();
    expect(await it.subjectsIn(it.temp)).toEqual([]);
  });

  test("from a mailbox of this server bounces as to an unknown recipient", async () => {
    const it = await office();
    const send = (subject: string) =>
      it.api.post<{ emailId: string }>("/send", {
        ...{ from: "alice@example.test", to: ["temp@example.test", "brief@example.test"], subject, text: "Text" },
      });
    expect((await send("in time")).status).toBe(202);
    await it.advance(0);
    expect(await it.subjectsIn(it.temp)).toEqual(["in time"]);
    await it.advance(HOUR);
    expect((await send("too late")).status).toBe(202);
    await it.advance(0);
    expect(await it.subjectsIn(it.temp)).toEqual(["in time"]);
    const { body } = await it.api.get<{ threads: { id: string; subject: string }[] }>(
      `/threads?mailbox=${it.owner.mailboxId}&folder=all`,
    );
    const thread = body.threads.find(({ subject }) => subject.includes("too late"));
    const shown = await it.api.get<{ messages: { text: string }[] }>(`/threads/${thread?.id}`);
    expect(JSON.stringify(shown.body)).toContain("550 5.1.1");
    // An unknown recipient is one that nothing is sent to again.
    const again = await send("again");
    expect([again.status, JSON.stringify(again.body)]).toEqual([422, expect.stringContaining("suppression list")]);
  });
});

describe("mail from it", () => {
  const EXPIRED = "The mailbox temp@example.test expired at 2026-01-05T10:00:00Z: nothing can be sent from it";

  test("is refused by the API with 422, new and as an answer, while drafts of it can be written", async () => {
    const it = await office();
    expect(await deliver(it, "temp@example.test", "question")).toBe(250);
    const { body } = await it.api.get<{ threads: { id: string }[] }>(`/threads?mailbox=${it.temp}`);
    const threadId = body.threads[0]?.id;
    const message = { from: "temp@example.test", to: ["alice@example.test"], subject: "Hello", text: "Text" };
    const reply = () => it.api.post(`/threads/${threadId}/reply`, { text: "Answer" });
    expect([(await it.api.post("/send", message)).status, (await reply()).status]).toEqual([202, 202]);
    await it.advance(HOUR);
    for (const refused of [await it.api.post("/send", message), await reply()]) {
      expect(refused).toMatchObject({ status: 422, body: { code: "unprocessable", error: EXPIRED } });
    }
    expect((await it.api.post(`/threads/${threadId}/draft`, { text: "Answer" })).status).toBe(201);
  });

  test("is refused to mail apps before the message is on its way", async () => {
    const it = await world();
    const { write, core, owner } = await office(it);
    await it.advance(HOUR);
    const client = await signedIn(it);
    expect(await client.command("MAIL FROM:<temp@example.test>")).toMatchObject({
      ...{ code: 550, status: "5.7.1", lines: [`5.7.1 ${EXPIRED}`] },
    });
    await client.expect(250, "MAIL FROM:<alice@example.test>");
    client.destroy();
    write((tx) => mailboxAdmin.setExpiry(core, tx, owner.mailboxId, null));
  });

  test("that was written for later stays a draft that says why, and the app does not take another", async () => {
    const it = await office();
    await setPassword(it, it.owner.userId);
    const alice = await signIn(it, "alice@example.test");
    const fields = { from: "temp@example.test", to: "bob@example.test", subject: "Later", text: "Text" };
    const send = async (at: number) => {
      const { body: draft } = await alice.send("POST", "/drafts", fields);
      const { draftId, revision } = draft as { draftId: string; revision: number };
      const asked = { ...fields, revision, attachments: [], at: new Date(at).toISOString() };
      return { draftId, ...(await alice.send("POST", `/drafts/${draftId}/send`, asked)) };
    };
    const later = await send(it.expiresAt + HOUR);
    expect(later.status).toBe(200);
    await it.advance(2 * HOUR);
    const { body: draft } = await alice.get<{ dueAt: string | null; refusal: string }>(`/drafts/${later.draftId}`);
    expect(draft).toMatchObject({ dueAt: null, refusal: EXPIRED });
    const refused = await send(it.runtime.now() + HOUR);
    expect(refused).toMatchObject({ status: 422, body: { error: EXPIRED } });
  });
});

describe("what it has", () => {
  test("can be read as ever for 30 days, then all of it goes, and nothing else", async () => {
    const it = await office();
    await deliver(it, "temp@example.test", "kept-a-while");
    await deliver(it, "alice@example.test", "kept");
    const listed = async () => (await it.api.get<{ mailboxes: { id: string }[] }>("/mailboxes")).body.mailboxes;
    const before = await listed();
    await it.advance(30 * DAY + HOUR - 1);
    expect(await listed()).toEqual(before);
    expect(before.map((mailbox) => Object.keys(mailbox).sort())).toContainEqual(
      ["access", "address", "aliases", "displayName", "id", "source", "unread"].sort(),
    );
    expect(await it.subjectsIn(it.temp)).toEqual(["kept-a-while"]);
    const found = await it.api.get<{ threads: object[] }>("/search?q=kept-a-while");
    expect(found.body.threads).toHaveLength(1);
    await it.advance(HOUR + 1);
    await it.advance(1_000);
    expect((await listed()).map(({ id }) => id)).toEqual(before.map(({ id }) => id).filter((id) => id !== it.temp));
    expect((await it.api.get("/threads?mailbox=temp@example.test")).status).toBe(404);
    expect((await it.api.get<{ threads: object[] }>("/search?q=kept-a-while")).body.threads).toEqual([]);
    expect(it.store.db.select().from(messages).all()).toHaveLength(1);
    expect(it.store.db.select().from(threads).all()).toHaveLength(1);
    expect(it.store.db.select().from(attachments).all()).toEqual([]);
    expect(await it.subjectsIn("alice@example.test")).toEqual(["kept"]);
    // Its address is free again: the catch-all has it, and it may be made anew.
    expect(await rcpt(it, "temp@example.test")).toStartWith("250 ");
    it.add("temp");
  });

  test("stays when it is given more time, also after it expired, and it takes and sends mail again", async () => {
    const it = await office();
    await deliver(it, "temp@example.test", "kept");
    await it.advance(20 * DAY);
    it.write((tx) => mailboxAdmin.setExpiry(it.core, tx, it.temp, it.runtime.now() + 30 * DAY));
    expect(await deliver(it, "temp@example.test", "also-kept")).toBe(250);
    await it.advance(50 * DAY);
    it.write((tx) => mailboxAdmin.setExpiry(it.core, tx, it.temp, null));
    await it.advance(90 * DAY);
    expect((await it.subjectsIn(it.temp)).sort()).toEqual(["also-kept", "kept"]);
    const message = { from: "temp@example.test", to: ["alice@example.test"], subject: "Hello", text: "Text" };
    expect((await it.api.post("/send", message)).status).toBe(202);
  });

  test("goes after a restart, too", async () => {
    const env = { MAILROOM_DATA: temporaryFolder() };
    const file = join(env.MAILROOM_DATA, "mailroom.db");
    const first = await office(await boot(env, undefined, { file }));
    await deliver(first, "temp@example.test", "kept-a-while");
    await first.advance(2 * HOUR);
    await first.server.stop(0);
    const second = await bootEmpty(env, { file });
    const subjects = () => second.core.store.db.select().from(messages).all().length;
    await second.advance(30 * DAY + HOUR - 1);
    expect(subjects()).toBe(1);
    await second.advance(HOUR + 1);
    await second.advance(1_000);
    expect(subjects()).toBe(0);
    expect(second.core.store.db.select().from(mailboxes).all()).toHaveLength(2);
  });

  test("does not go at once when the clock leaps ahead, and stays when it is put right", async () => {
    const it = await office();
    await it.advance(2 * HOUR);
    it.runtime.setBy(60 * DAY);
    await it.advance(HOUR / 2);
    expect(await it.subjectsIn(it.temp)).toEqual([]);
    expect(it.store.db.select().from(mailboxes).all()).toHaveLength(3);
    it.runtime.setBy(-60 * DAY);
    await it.advance(3 * HOUR);
    expect(it.store.db.select().from(mailboxes).all()).toHaveLength(3);
    await it.advance(30 * DAY);
    await it.advance(1_000);
    expect(it.store.db.select().from(mailboxes).all()).toHaveLength(2);
  });
});

describe("an end that a key gave", () => {
  /** A key of Alice's that administers, and her mail about mailboxes that end. */
  async function ending() {
    const it = await office();
    const admin = await it.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
      ...{ name: "Janitor", scopes: ["admin", "read"] },
    });
    const notices = async (mailbox = "alice@example.test") =>
      (await it.api.get<{ messages: { subject: string; bodyText: string }[] }>(`/messages?mailbox=${mailbox}`)).body
        .messages;
    const patch = (id: string, expiresAt: number | null, api = it.apiWith(admin.body.key)) =>
      api.patch(`/api/admin/v1/mailboxes/${id}`, { expiresAt: expiresAt && new Date(expiresAt).toISOString() });
    const undo = async (since: number) =>
      (await it.api.post(`/api/admin/v1/keys/${admin.body.id}/undo`, { since: new Date(since).toISOString() })).body;
    return { ...it, api: it.api, byKey: it.apiWith(admin.body.key), notices, patch, undo };
  }

  test("is told to the mailbox's owner a day before, once; one that a person gave is not", async () => {
    const it = await ending();
    const begun = it.runtime.now();
    const until = begun + 3 * DAY;
    const own = it.add("own", { ownerId: it.owner.userId });
    expect((await it.patch(own, until)).status).toBe(200);
    await it.advance(2 * DAY - 60_000);
    expect(await it.notices()).toEqual([]);
    await it.advance(2 * 60_000);
    const [told, ...more] = await it.notices();
    expect([told?.subject, more]).toEqual(["The mailbox own@example.test ends within a day", []]);
    expect(told?.bodyText).toContain("The API key “Janitor” ended the mailbox own@example.test: from");
    expect(told?.bodyText).toContain(new Date(until).toUTCString());
    // Another end is told again.
    expect((await it.patch(own, it.runtime.now() + 2 * DAY)).status).toBe(200);
    await it.advance(DAY + HOUR);
    expect(await it.notices()).toHaveLength(2);
    await it.advance(DAY);
    expect(await it.notices()).toHaveLength(2);
    it.write((tx) => mailboxAdmin.setExpiry(it.core, tx, it.rest, it.runtime.now() + HOUR));
    await it.advance(HOUR);
    expect(await it.notices()).toHaveLength(2);
  });

  test("is told at once when the key ends the mailbox, and taken away it is told no more", async () => {
    const it = await ending();
    const [team, kept] = [it.add("team", { ownerId: it.owner.userId }), it.add("kept", { ownerId: it.owner.userId })];
    expect((await it.byKey.delete(`/api/admin/v1/mailboxes/${team}`)).status).toBe(200);
    expect((await it.patch(kept, it.runtime.now() + 2 * DAY)).status).toBe(200);
    expect((await it.patch(kept, null)).status).toBe(200);
    await it.advance(60_000);
    expect((await it.notices()).map(({ subject }) => subject)).toEqual(["The mailbox team@example.test has ended"]);
    await it.advance(2 * DAY);
    expect(await it.notices()).toHaveLength(1);
  });

  test("is counted and named when the key is undone, as long as it stands", async () => {
    const it = await ending();
    const begun = it.runtime.now();
    const [team, gone] = [it.add("team"), it.add("gone")];
    const until = begun + 3 * DAY;
    await it.patch(team, until);
    await it.byKey.delete(`/api/admin/v1/mailboxes/${gone}`);
    await it.advance(1_000);
    const named = [
      { id: gone, address: "gone@example.test", expiresAt: new Date(begun).toISOString() },
      { id: team, address: "team@example.test", expiresAt: new Date(until).toISOString() },
    ];
    const { ended } = (await it.undo(begun)) as { ended: { mailboxes: number; latest: object[] } };
    expect(ended.mailboxes).toBe(2);
    expect(ended.latest).toHaveLength(2);
    for (const one of named) expect(ended.latest).toContainEqual(one);
    expect(((await it.undo(begun + 500)) as { ended: object }).ended).toEqual({ mailboxes: 0, latest: [] });
    // A time to come finds nothing.
    expect(((await it.undo(begun + DAY)) as { ended: object }).ended).toEqual({ mailboxes: 0, latest: [] });
    await it.patch(gone, null, it.api);
    expect(((await it.undo(begun)) as { ended: object }).ended).toMatchObject({ mailboxes: 1 });
  });
});
