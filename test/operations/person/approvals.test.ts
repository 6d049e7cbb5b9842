/** Messages that wait for approval, as the app gets them over HTTP (rules: Held for approval). */
import { beforeAll, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import type { Policy } from "../../../src/store/schema.ts";
import { confirm, type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { zone } from "../../harness/peers/dns-server.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";

let world: ExtWorld;
/** The owner; a member, who may send from his own mailbox and view hers. */
let alice: Page;
let max: Page;

beforeAll(async () => {
  // Mail to it waits, since its DNS fails.
  world = await bootExt({}, zone({ "remote.example": "SERVFAIL" }));
  for (const id of [world.owner.userId, world.maxId]) await setPassword(world, id);
  [alice, max] = await Promise.all([signIn(world, ALICE), signIn(world, MAX)]);
});

interface Approval {
  id: string;
  subject: string;
  key: string | null;
  state: string;
  reason: string;
  recipients: { field: string; email: string; name?: string }[];
  answers: string | null;
  decider: string | null;
  agent: { name: string; person: string; policy: Policy } | null;
}

/** A key of alice's whose messages wait. */
async function agent(policy: Policy = { send: "hold" }) {
  const { body } = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
    ...{ name: "Agent", scopes: ["read", "send"], policy },
  });
  return { id: body.id, api: world.apiWith(body.key) };
}

/** Has a new agent send a message, which waits; returns its id. */
async function held(subject: string, more: object = {}): Promise<string> {
  const letter = { from: ALICE, to: "bob@remote.example", subject, text: "Hello", ...more };
  const { status, body } = await (await agent()).api.post<{ emailId: string }>("/send", letter);
  expect(status).toBe(202);
  return body.emailId;
}

const listed = async (as: Page) => (await as.get<{ waiting: Approval[]; more: boolean }>("/approvals")).body;
const approval = async (id: string, as = alice) => (await as.get<Approval>(`/approvals/${id}`)).body;

describe("what waits", () => {
  test("is listed for who may send from the mailbox, the longest waiting first, and for nobody else", async () => {
    const first = await held("First");
    await world.advance(1000);
    const second = await held("Second");
    const { waiting, more } = await listed(alice);
    expect(waiting.map(({ id }) => id)).toEqual([first, second]);
    expect(more).toBe(false);
    expect(waiting[0]).toMatchObject({
      subject: "First",
      key: "Agent",
      mailbox: ALICE,
      snippet: "Hello",
      sendAt: null,
    });
    // He may view her mailbox, and not send from it.
    expect(await listed(max)).toEqual({ waiting: [], more: false });
    expect((await max.get(`/approvals/${first}`)).status).toBe(403);
    for (const path of [`/holds/${first}/approve`, `/holds/${first}/reject`, `/approvals/${first}/copy`]) {
      expect([path, (await max.send("POST", path)).status]).toEqual([path, 403]);
    }
    world.core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "send"));
    expect((await listed(max)).waiting).toHaveLength(2);
    world.core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "view"));
    for (const id of [first, second]) expect((await alice.send("POST", `/holds/${id}/reject`)).status).toBe(204);
  });

  test("beyond a hundred messages it says that there are more", async () => {
    const { api } = await agent();
    const ids: string[] = [];
    for (let n = 0; n <= 100; n++) {
      const { body } = await api.post<{ emailId: string }>("/send", {
        ...{ from: ALICE, to: "bob@remote.example", subject: `Number ${n}`, text: `Hello ${n}` },
      });
      ids.push(body.emailId);
    }
    const { waiting, more } = await listed(alice);
    expect([waiting.length, waiting[0]?.subject, more]).toEqual([100, "Number 0", true]);
    for (const id of ids) await alice.send("POST", `/holds/${id}/reject`);
  });

  test("is shown with every recipient, its key, the policy and the reason", async () => {
    const { threadId } = await world.receive(ALICE, "A question");
    const { api } = await agent({ recipients: ["thread"], otherwise: "hold" });
    const { body } = await api.post<{ emailId: string }>(`/threads/${threadId}/reply`, {
      ...{ text: "An answer", cc: '"Émile, the cook" <emile@remote.example>', bcc: "eve@remote.example" },
    });
    const shown = await approval(body.emailId);
    expect(shown.recipients).toEqual([
      { field: "to", email: "carol@remote.example", name: "Carol" },
      { field: "cc", email: "emile@remote.example", name: "Émile, the cook" },
      { field: "bcc", email: "eve@remote.example" },
    ]);
    expect(shown).toMatchObject({
      ...{ state: "waiting", answers: threadId, decider: null },
      agent: { name: "Agent", person: ALICE, policy: { recipients: ["thread"], otherwise: "hold" }, isRevoked: false },
    });
    expect(shown.reason).toContain("emile@remote.example");
    await alice.send("POST", `/holds/${body.emailId}/reject`, { reason: "No" });
    expect(await approval(body.emailId)).toMatchObject({ state: "rejected", reason: "No", decider: "Alice" });
  });

  test("is marked among the drafts of its mailbox", async () => {
    const id = await held("Marked");
    const marks = async () => (await alice.get<{ held: object[] }>(`/drafts?mailbox=${ALICE}`)).body.held[0];
    expect(await marks()).toMatchObject({ emailId: id, state: "waiting", answers: null });
    await alice.send("POST", `/holds/${id}/reject`);
    expect(await marks()).toMatchObject({ emailId: id, state: "rejected" });
  });

  test("cannot be deleted for good before somebody has decided", async () => {
    const id = await held("Not to be lost");
    const { threadId } = (await alice.get<{ message: { threadId: string } }>(`/messages/${id}`)).body.message;
    const remove = async () =>
      (await alice.send<{ deleted: string[] }>("POST", "/threads/delete", { ids: [threadId] })).body.deleted;
    expect(await remove()).toEqual([]);
    expect(await approval(id)).toMatchObject({ state: "waiting" });
    await alice.send("POST", `/holds/${id}/reject`);
    expect(await remove()).toEqual([threadId]);
  });
});

describe("a decision", () => {
  test("is told to programs and open pages as a change of the conversation", async () => {
    const id = await held("Decided");
    const start = await world.api.get<{ next: string }>("/api/ext/v1/changes");
    const { threadId } = (await alice.get<{ message: { threadId: string } }>(`/messages/${id}`)).body.message;
    await alice.send("POST", `/holds/${id}/reject`);
    const { body } = await world.api.get<{ changes: object[] }>(`/api/ext/v1/changes?after=${start.body.next}`);
    expect(body.changes).toMatchObject([{ threadId, kind: "upserted" }]);
  });

  test("names who approved it beside the delivery of the sent message", async () => {
    const id = await held("Approved");
    const progress = async (of: string) => (await alice.get<{ approver: unknown }>(`/messages/${of}/progress`)).body;
    expect((await alice.send("POST", `/holds/${id}/approve`)).status).toBe(200);
    expect(await progress(id)).toMatchObject({ approver: { name: "Alice" } });
    const { body } = await world.api.post<{ emailId: string }>("/send", {
      ...{ from: ALICE, to: "bob@remote.example", subject: "Not held", text: "Hello" },
    });
    expect(await progress(body.emailId)).toMatchObject({ approver: null });
  });
});

describe("a copy to edit", () => {
  interface Draft {
    draftId: string;
    from: string;
    to: { email: string; name?: string }[];
    cc: { email: string; name?: string }[];
    bcc: { email: string; name?: string }[];
    subject: string;
    text: string;
    html: boolean;
    answers: string | null;
    agent: unknown;
    attachments: { filename: string; size: number; inline: boolean }[];
  }
  const copyOf = async (id: string): Promise<Draft> => {
    const made = await alice.send<{ draftId: string }>("POST", `/approvals/${id}/copy`);
    expect(made.status).toBe(201);
    return (await alice.get<Draft>(`/drafts/${made.body.draftId}`)).body;
  };

  test("has recipients, Bcc included, text, HTML and files, is the person's own, and the message waits on", async () => {
    const id = await held("An offer", {
      ...{ to: '"Bob, the baker" <bob@remote.example>', cc: "Émile <emile@remote.example>", bcc: "eve@remote.example" },
      html: '<p onclick="x()">Hello <b>there</b> <img src="cid:logo"></p>',
      attachments: [
        { filename: "figures.csv", text: "a,b" },
        { filename: "logo.png", contentType: "image/png", content: "iVBORw0KGgo=", inline: true, contentId: "logo" },
      ],
    });
    const copy = await copyOf(id);
    expect(copy).toMatchObject({
      ...{ from: ALICE, subject: "An offer", html: true, answers: null, agent: null },
      to: [{ email: "bob@remote.example", name: "Bob, the baker" }],
      cc: [{ email: "emile@remote.example", name: "Émile" }],
      bcc: [{ email: "eve@remote.example" }],
    });
    expect(copy.text).toContain("Hello there");
    expect(copy.attachments.map(({ filename, inline }) => [filename, inline])).toEqual([
      ["logo.png", true],
      ["figures.csv", false],
    ]);
    expect(await approval(id)).toMatchObject({ state: "waiting" });
  });

  test("answers the conversation that the message answers, while there is one", async () => {
    const { threadId } = await world.receive(ALICE, "Another question");
    const { body } = await (await agent()).api.post<{ emailId: string }>(`/threads/${threadId}/reply`, { text: "Yes" });
    expect(await copyOf(body.emailId)).toMatchObject({
      answers: threadId,
      subject: "Re: Another question",
      html: false,
    });
    await alice.send("POST", "/threads/change", { ids: [threadId], folder: "trash" });
    await alice.send("POST", "/threads/delete", { ids: [threadId] });
    expect(await copyOf(body.emailId)).toMatchObject({ answers: null, subject: "Re: Another question" });
  });

  test("is not made of what was sent, or is out of reach", async () => {
    const id = await held("Sent by now");
    await alice.send("POST", `/holds/${id}/approve`);
    for (const path of [`/approvals/${id}/copy`, "/approvals/msg_none/copy"]) {
      expect([path, (await alice.send("POST", path)).status]).toEqual([path, 404]);
    }
  });
});

describe("the switch over all keys", () => {
  test("pauses and resumes them, for owners and admins alone", async () => {
    const set = (as: Page, paused: boolean) => as.send("PATCH", "/settings/key-pause", { paused });
    expect((await alice.get("/settings/key-pause")).body).toEqual({ since: null });
    const paused = await set(alice, true);
    expect(paused.body).toEqual({ since: new Date(world.runtime.now()).toISOString() });
    expect((await world.api.get("/mailboxes")).status).toBe(403);
    await world.advance(1000);
    // Once more leaves the time as it is.
    expect((await set(alice, true)).body).toEqual(paused.body);
    expect([(await set(max, false)).status, (await max.get("/settings/key-pause")).status]).toEqual([403, 403]);
    expect((await set(alice, false)).body).toEqual({ since: null });
    expect((await world.api.get("/mailboxes")).status).toBe(200);
  });
});

test("what is sent later is listed with what was approved for later, the next first, and without Bcc", async () => {
  const at = (hours: number) => new Date(world.runtime.now() + hours * 3_600_000).toISOString();
  const { body: mine } = await world.api.get<{ mailboxes: { id: string; address: string }[] }>("/mailboxes");
  const mailbox = mine.mailboxes.find(({ address }) => address === ALICE)?.id;
  const held2 = await held("In two hours", { sendAt: at(2), cc: "cy@remote.example", bcc: "bo@remote.example" });
  await alice.send("POST", `/holds/${held2}/approve`);
  await held("Waits", { sendAt: at(1) });
  for (const [subject, hours] of [
    ["In three hours", 3],
    ["In one hour", 1],
  ] as const) {
    await world.api.post("/send", {
      from: ALICE,
      to: "Bob <bob@remote.example>",
      bcc: "bo@remote.example",
      subject,
      text: "Later",
      sendAt: at(hours),
    });
  }
  type Scheduled = { id: string; emailId: string | null; subject: string; to: { email: string }[]; dueAt: string };
  const scheduled = async (as: Page) =>
    (await as.get<{ scheduled: Scheduled[] }>(`/scheduled?mailbox=${mailbox}`)).body.scheduled;
  const list = await scheduled(alice);
  expect(list.map(({ subject }) => subject)).toEqual(["In one hour", "In two hours", "In three hours"]);
  expect(list.map(({ emailId }) => emailId)).toEqual([null, held2, null]);
  expect(list[0]).toMatchObject({
    snippet: "Later",
    to: [{ email: "bob@remote.example", name: "Bob" }],
    cc: [],
    dueAt: at(1),
  });
  expect(list[1]).toMatchObject({ cc: [{ email: "cy@remote.example" }], dueAt: at(2) });
  expect(JSON.stringify(list)).not.toContain("bo@remote.example");
  // He may view her mailbox: approved messages are for those who could have approved them.
  expect((await scheduled(max)).map(({ subject }) => subject)).toEqual(["In one hour", "In three hours"]);
  expect((await max.get("/scheduled?mailbox=mbx_none")).status).toBe(404);
});

test("the scope approve is given in the app, by a person who has proved again that it is them", async () => {
  const asked = { name: "Reviewer", scopes: ["approve"] };
  await world.advance(10 * 60_000);
  expect((await alice.send("POST", "/settings/keys", asked)).status).toBe(403);
  await confirm(alice);
  expect((await alice.send("POST", "/settings/keys", asked)).status).toBe(201);
});
