/** Following the messages that arrive, over REST: `after`, `waitSeconds` and the filters (rules: List of messages). */
import { beforeAll, describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as people from "../../src/admin/people.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";
import { until } from "../harness/until.ts";

interface Page {
  messages: { id: string; subject: string; threadId: string; headerMessageId?: string }[];
  count: number;
  nextAfter: string;
}

let world: ExtWorld;
beforeAll(async () => {
  world = await bootExt();
});

const read = async (query = "", as = world.api): Promise<Page> => {
  const { status, body } = await as.get<Page>(`/messages${query}`);
  expect([status, body]).toEqual([200, expect.anything()]);
  return body;
};
const subjects = ({ messages }: Page): string[] => messages.map(({ subject }) => subject);

test("each nextAfter leads to what arrived since, once", async () => {
  await world.receive(ALICE, "Before");
  const { nextAfter } = await read();
  expect(await read(`?after=${nextAfter}`)).toEqual({ messages: [], count: 0, nextAfter });
  await world.receive(ALICE, "One", { date: "Mon, 05 Jan 1998 08:00:00 +0000" });
  await world.receive(ALICE, "Two");
  const first = await read(`?after=${nextAfter}&limit=1`);
  expect(subjects(first)).toEqual(["One"]);
  const second = await read(`?after=${first.nextAfter}&limit=1`);
  expect(subjects(second)).toEqual(["Two"]);
  expect(subjects(await read(`?after=${second.nextAfter}`))).toEqual([]);
});

test("after may be a time: what arrived from then on", async () => {
  await world.receive(ALICE, "Too early");
  await world.advance(60_000);
  const time = new Date(world.runtime.now()).toISOString();
  await world.receive(ALICE, "In time");
  await world.advance(60_000);
  await world.receive(ALICE, "Later");
  expect(subjects(await read(`?after=${time}`)).sort()).toEqual(["In time", "Later"]);
  expect(subjects(await read(`?after=${encodeURIComponent(time.replace("Z", "+00:00"))}`)).sort()).toEqual([
    "In time",
    "Later",
  ]);
  const ahead = new Date(world.runtime.now() + 1e9).toISOString();
  expect(subjects(await read(`?after=${ahead}`))).toEqual([]);
});

test.each([
  ["x", "after is not valid"],
  ["MS4x", undefined],
  ["2026-01-05T09:00Z", undefined],
  ["2026-02-31T00:00:00Z", "must be a time as in"],
  ["2020-01-01T00:00:00Z", "within the last 30 days"],
])("after=%s", async (after, says) => {
  const { status, body } = await world.api.get<{ error: string }>(`/messages?after=${after}`);
  expect(status).toBe(says === undefined ? 200 : 400);
  if (says !== undefined) expect(body.error).toContain(says);
});

describe("waiting", () => {
  const timers = () => world.runtime.timers().filter((at) => at - world.runtime.now() > 10_000).length;
  test("for a conversation, a sender, or a mailbox ends with the right message", async () => {
    const { threadId } = await world.receive(ALICE, "Question", { messageId: "<question@remote.example>" });
    const before = timers();
    const inThread = read(`?waitSeconds=50&threadId=${threadId}`);
    const ofDave = read("?waitSeconds=50&from=DAVE@remote.example");
    const ofMax = read("?waitSeconds=50", world.asMax);
    await until(() => timers() === before + 3);
    await world.receive(ALICE, "Something else");
    await world.advance(250);
    expect(subjects(await ofMax)).toEqual(["Something else"]);
    await world.receive(ALICE, "Re: Question", { headers: ["In-Reply-To: <question@remote.example>"] });
    await world.advance(250);
    expect(subjects(await inThread)).toEqual(["Re: Question"]);
    await world.receive(ALICE, "From Dave", { from: "Dave <dave@remote.example>" });
    await world.advance(250);
    expect(subjects(await ofDave)).toEqual(["From Dave"]);
  });

  test("a fifth request of a key is 429, and ends when its client goes", async () => {
    const ending = new AbortController();
    const before = timers();
    const { core } = world.opened;
    const { store } = core;
    const made = store.transact((tx) =>
      developers.createKey(core, tx, { userId: world.maxId, name: "W", scopes: ["read"] }),
    );
    const headers = { authorization: `Bearer ${made.key}` };
    const open = () =>
      fetch(`${world.http}/api/v1/messages?waitSeconds=50`, { headers, signal: ending.signal }).catch(() => undefined);
    const four = [open(), open(), open(), open()];
    await until(() => timers() === before + 4);
    const fifth = await world.apiWith(made.key).get("/messages?waitSeconds=50");
    expect([fifth.status, fifth.headers.get("retry-after")]).toEqual([429, "50"]);
    ending.abort();
    await Promise.all(four);
    await until(() => timers() === before);
  });
});

describe("messageId and threadId", () => {
  test("find messages, with brackets or without, in reach alone", async () => {
    const { emailId, threadId } = await world.receive(ALICE, "Named", { messageId: "<a+b@remote.example>" });
    const id = encodeURIComponent("a+b@remote.example");
    expect((await read(`?messageId=${id}`)).messages.map((message) => message.id)).toEqual([emailId]);
    expect((await read(`?messageId=%3C${id}%3E`)).messages.map((message) => message.id)).toEqual([emailId]);
    expect((await read(`?messageId=${id}&folder=trash`)).messages).toEqual([]);
    expect((await read("?messageId=unknown@remote.example")).messages).toEqual([]);
    expect((await read(`?threadId=${threadId}`)).messages.map((message) => message.id)).toEqual([emailId]);
    const other = await world.receive(MAX, "His", { messageId: "<his@remote.example>" });
    const stranger = world.core.store.transact((tx) => {
      const { core } = world.opened;
      const { workspaceId } = world.owner;
      const eve = people.addUser(core, tx, {
        workspaceId,
        email: "eve@example.test",
        name: "Eve",
        role: "member",
        ownMailbox: false,
      });
      return developers.createKey(core, tx, { userId: eve.userId, name: "Eve's", scopes: ["read"] }).key;
    });
    for (const query of ["?messageId=his@remote.example", `?threadId=${other.threadId}`]) {
      expect((await read(query, world.apiWith(stranger))).messages).toEqual([]);
    }
  });

  test("from lists the latest of a sender, in any case", async () => {
    const { emailId } = await world.receive(ALICE, "Rare", { from: "Rare <rare@remote.example>" });
    expect((await read("?from=RARE@remote.example")).messages.map(({ id }) => id)).toEqual([emailId]);
    expect((await read("?from=RARE@remote.example&folder=sent")).messages).toEqual([]);
    expect((await read("?from=nobody@remote.example")).messages).toEqual([]);
  });
});
