/** The outbox: an event exists exactly when its cause does (rules: Events). */
import { expect, test } from "bun:test";
import { emitEvent, type NewEvent } from "../../src/events/outbox.ts";
import { events } from "../../src/store/schema.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

const inbound = (workspaceId: string, id = "evt_1"): NewEvent<"message.inbound"> => ({
  id,
  workspaceId,
  event: "message.inbound",
  now: 1_700_000_000_000,
  data: {
    emailId: "msg_1",
    threadId: "thr_1",
    mailboxId: "mbx_1",
    mailbox: "a@example.test",
    messageId: "<m@remote.example>",
    inReplyTo: null,
    from: { email: "b@remote.example", name: "Bé 'q' \"x\"" },
    to: [{ email: "a@example.test" }],
    cc: [],
    subject: "Über 你好",
    snippet: "…",
    hasAttachments: false,
    attachmentCount: 0,
    isSpam: false,
    receivedAt: new Date(1_700_000_000_000).toISOString(),
  },
});

test("an event is kept as given, with its id and time", () => {
  const world = createWorld();
  const workspaceId = world.workspace("W", "example.test");
  world.store.transact((tx) => emitEvent(tx, inbound(workspaceId)));
  expect(world.store.db.select().from(events).all()).toEqual([
    {
      seq: 1,
      id: "evt_1",
      workspaceId,
      event: "message.inbound",
      createdAt: 1_700_000_000_000,
      data: inbound(workspaceId).data,
      emailId: inbound(workspaceId).data.emailId,
    },
  ]);
});

test("an event is not written when its transaction fails", () => {
  const world = createWorld();
  const workspaceId = world.workspace("W", "example.test");
  expect(() =>
    world.store.transact((tx) => {
      emitEvent(tx, inbound(workspaceId));
      throw new Error("the cause failed");
    }),
  ).toThrow("the cause failed");
  expect(world.events()).toEqual([]);
});

test("events keep the order in which they happened", () => {
  const world = createWorld();
  const workspaceId = world.workspace("W", "example.test");
  for (const id of ["evt_b", "evt_a"]) world.store.transact((tx) => emitEvent(tx, inbound(workspaceId, id)));
  const rows = world.store.db.select({ seq: events.seq, id: events.id }).from(events).orderBy(events.seq).all();
  expect(rows.map(({ id }) => id)).toEqual(["evt_b", "evt_a"]);
});

test("a second event with the same id is refused", () => {
  const world = createWorld();
  const workspaceId = world.workspace("W", "example.test");
  world.store.transact((tx) => emitEvent(tx, inbound(workspaceId)));
  expect(() => world.store.transact((tx) => emitEvent(tx, inbound(workspaceId)))).toThrow();
});
