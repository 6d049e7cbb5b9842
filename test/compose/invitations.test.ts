/** Invitations in received mail, and the answers that go to their organizers. */
import { beforeAll, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { type Invited, invitationMail } from "../harness/mail/invitations.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let alice: Page;
let viewer: Page;
let count = 0;

interface View {
  guest?: string;
  method: string;
  summary: string;
  isForeign: boolean;
  answered?: { answer: string; at: string; isOld: boolean };
}

async function deliver(invited: Invited = {}, { to = ALICE, headers = "" } = {}): Promise<string> {
  const uid = `${++count}@remote.example`;
  const raw = invitationMail({ to, id: `${count}@x`, headers }, { uid, ...invited });
  await mailer(booted.mx).send({ from: "bea@remote.example", to }, raw);
  const { body } = await booted.api.get<{ messages: { id: string }[] }>(`/messages?messageId=${count}@x`);
  return body.messages[0]?.id ?? "";
}
const read = async (id: string, page = alice) =>
  (await page.get<{ invitation: View | null }>(`/messages/${id}/invitation`)).body.invitation;
const answer = (id: string, given: string, page = alice) =>
  page.send<{ invitation: View; code: string }>("POST", `/messages/${id}/invitation`, { answer: given });
async function sent(): Promise<{ id: string; threadId: string; raw: string }> {
  const { body } = await booted.api.get<{ messages: { id: string; threadId: string }[] }>(
    "/messages?folder=sent&limit=1",
  );
  const [{ id = "", threadId = "" } = {}] = body.messages;
  const raw = await (await alice.fetch(`/messages/${id}/raw`)).text();
  return { id, threadId, raw };
}

beforeAll(async () => {
  // The answers wait.
  booted = await boot({}, zone({ "remote.example": "SERVFAIL" }));
  const { core } = booted.opened;
  const { store } = core;
  const { workspaceId, userId, mailboxId } = booted.owner;
  const bob = store.transact((tx) =>
    people.addUser(core, tx, { workspaceId, email: "bob@example.test", name: "Bob", role: "member", ownMailbox: true }),
  );
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bob.userId, "view"));
  for (const id of [userId, bob.userId]) await setPassword(booted, id);
  alice = await signIn(booted, ALICE);
  viewer = await signIn(booted, "bob@example.test");
});

describe("an answer", () => {
  test("goes to the organizer from the guest's address, in the conversation, and is remembered", async () => {
    const id = await deliver();
    expect(await read(id)).toMatchObject({ guest: ALICE, method: "request", isForeign: false });
    const { status, body } = await answer(id, "tentative");
    const answered = { answer: "tentative", at: "2026-01-05T09:00:00.000Z", isOld: false };
    expect([status, body.invitation.answered]).toEqual([200, answered]);
    expect((await read(id))?.answered).toEqual(answered);

    const { raw, threadId } = await sent();
    const { body: invitation } = await booted.api.get<{ message: { threadId: string } }>(`/messages/${id}`);
    expect(threadId).toBe(invitation.message.threadId);
    expect(raw).toContain("From: Alice <alice@example.test>\r\n");
    expect(raw).toContain("To: bea@remote.example\r\n");
    expect(raw).toContain("Subject: Maybe: Boards by the lake\r\n");
    expect(raw).toContain(`In-Reply-To: <${count}@x>\r\n`);
    expect(raw).toContain("Alice may come: Boards by the lake");
    await answer(id, "declined");
    expect((await read(id))?.answered?.answer).toBe("declined");
  });

  test("goes to the organizer of a file that is declared as something else", async () => {
    const id = await deliver({
      declared: "application/octet-stream; name=invite.ics",
      lines: "DTSTART;TZID=W. Europe Standard Time:20260601T100000",
    });
    expect(await read(id)).toMatchObject({ guest: ALICE, start: { at: "2026-06-01T08:00:00.000Z" } });
    expect((await answer(id, "accepted")).status).toBe(200);
  });

  test("is transmitted as RFC 6047 says", async () => {
    const id = await deliver();
    await answer(id, "accepted");
    const { content } = booted.core.store.db.$client
      .query("SELECT bytes AS content FROM outbound_contents ORDER BY message_seq DESC LIMIT 1")
      .get() as { content: Uint8Array };
    const bytes = Buffer.from(content).toString();
    const [, type = ""] = /^Content-Type: (multipart\/[a-z]+)/m.exec(bytes) ?? [];
    expect(type).toBe("multipart/alternative");
    expect(bytes).toMatch(/^Content-Type: text\/calendar; method=REPLY; charset=utf-8\r\n/m);
    const [answered] = (await parseMessage(content)).attachments;
    const calendar = Buffer.from(answered?.content ?? []).toString();
    expect(calendar).toMatch(/PARTSTAT=ACCEPTED/);
    expect(calendar).toMatch(/^METHOD:REPLY\r\n/m);
    expect(calendar.match(/^ATTENDEE/gm)).toHaveLength(1);
  });

  test("comes from the alias that was invited", async () => {
    const { store } = booted.core;
    store.db.$client.run(
      "INSERT INTO addresses SELECT 'sales@example.test', mailbox_id, domain_id, 'alias', created_at FROM addresses WHERE address = ?",
      [ALICE],
    );
    const id = await deliver({ attendees: ["sales@example.test", ALICE] }, { to: "sales@example.test" });
    expect((await read(id))?.guest).toBe("sales@example.test");
    await answer(id, "accepted");
    expect((await sent()).raw).toContain("From: Alice <sales@example.test>\r\n");
  });

  test("to an earlier version is told as such", async () => {
    const uid = "update@remote.example";
    await answer(await deliver({ uid }), "accepted");
    const update = await deliver({ uid, sequence: 1 });
    expect((await read(update))?.answered).toMatchObject({ answer: "accepted", isOld: true });
    await answer(update, "accepted");
    expect((await read(update))?.answered).toMatchObject({ isOld: false });
  });
});

test("an organizer who is not the sender is told as such", async () => {
  expect((await read(await deliver({ organizer: "carol@other.example" })))?.isForeign).toBe(true);
});

describe("is refused", () => {
  const nobodys: [name: string, invited: Invited][] = [
    ["for somebody else", { attendees: ["carol@remote.example"] }],
    ["to a cancellation", { method: "CANCEL" }],
    ["to a reply", { method: "REPLY" }],
    ["to an event that invites nobody", { method: "PUBLISH" }],
    ["to nobody", { organizer: "" }],
    ["in a file without end", { summary: "s".repeat(600_000) }],
  ];
  for (const [name, invited] of nobodys) {
    test(name, async () => {
      const id = await deliver(invited);
      expect((await read(id))?.guest).toBeUndefined();
      expect((await answer(id, "accepted")).status).toBe(409);
    });
  }

  test("to those who may only read, who see the card", async () => {
    const id = await deliver();
    expect((await read(id, viewer))?.summary).toBe("Boards by the lake");
    expect((await read(id, viewer))?.guest).toBeUndefined();
    expect((await answer(id, "accepted", viewer)).status).toBe(403);
  });

  test("in spam, where there is no card", async () => {
    const id = await deliver();
    const { body } = await booted.api.get<{ message: { threadId: string } }>(`/messages/${id}`);
    await booted.api.patch(`/threads/${body.message.threadId}`, { folder: "spam" });
    expect(await read(id)).toBeNull();
    expect((await answer(id, "accepted")).status).toBe(409);
  });

  test("for another answer, and to those out of reach", async () => {
    const id = await deliver();
    expect((await answer(id, "perhaps")).status).toBe(400);
    expect((await alice.get("/messages/msg_none/invitation")).status).toBe(404);
  });
});

test("answers end with the mailbox", async () => {
  const rows = () => booted.core.store.db.$client.query("SELECT count(*) AS n FROM invitation_answers").get();
  expect(rows()).not.toEqual({ n: 0 });
  booted.core.store.db.$client.run("DELETE FROM mailboxes WHERE id = ?", [booted.owner.mailboxId]);
  expect(rows()).toEqual({ n: 0 });
});
