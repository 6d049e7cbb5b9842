/** What is known of outbound messages: found again for a report, counted for the limit, listed for the operator. */
import { expect, test } from "bun:test";
import {
  entriesOf,
  findByMessageId,
  findByReturnPath,
  listUnsettled,
  waitingCount,
} from "../../src/outbound/outbound.ts";
import { setBounced, setDeferred, setDelivered, setHeld } from "../../src/outbound/queue.ts";
import { createQueue } from "../harness/queue-rig.ts";
import { START } from "../harness/runtime.ts";

test("a message is found by its reverse-path and by its Message-ID, settled or not, with its recipients in order", () => {
  const { accept, claimNext, store } = createQueue();
  const seq = accept({ to: ["ann@a.example", "bcc:bob@b.example"], returnPath: "bounce+x@example.test" });
  const again = accept({ to: ["cy@c.example"], messageId: "<1@example.test>" });
  for (let next = claimNext(); next; next = claimNext()) {
    const { entries } = next;
    store.transact((tx) => setDelivered(tx, entries, START, "250 ok"));
  }
  expect(findByReturnPath(store.db, "bounce+x@example.test")).toMatchObject({ seq, id: "msg_1", recipients: 2 });
  expect(findByReturnPath(store.db, "bounce+y@example.test")).toBeUndefined();
  expect(findByMessageId(store.db, "<1@example.test>").map((message) => message.seq)).toEqual([seq, again]);
  expect(findByMessageId(store.db, "<2@example.test>")).toEqual([]);
  expect(entriesOf(store.db, seq).map(({ recipient, field }) => [recipient, field])).toEqual([
    ["ann@a.example", "to"],
    ["bob@b.example", "bcc"],
  ]);
});

test("recipients waiting or held are counted, at most once a second", () => {
  const { accept, claimNext, runtime, store } = createQueue();
  const count = () => waitingCount(store.db, runtime.now());
  expect(count()).toBe(0);
  accept({ to: ["ann@a.example", "bob@b.example", "cy@c.example"] });
  expect(count()).toBe(0);
  runtime.advanceTo(START + 1_000);
  expect(count()).toBe(3);
  const [ann, bob] = [claimNext(), claimNext()];
  store.transact((tx) => {
    setDelivered(tx, ann?.entries ?? [], START, "250 ok");
    setHeld(tx, bob?.entries ?? []);
  });
  runtime.advanceTo(START + 1_999);
  expect(count()).toBe(3);
  runtime.advanceTo(START + 2_000);
  expect(count()).toBe(2);
});

test("the operator's list: what waits, then what is held, with its message and its next attempt", () => {
  const { accept, claimNext, store } = createQueue();
  for (const domain of ["leased", "deferred", "held", "delivered", "bounced", "fresh"])
    accept({ to: [`ann@${domain}.example`] });
  accept({ to: ["bcc:other@example.org"], workspaceId: "wsp_2" });
  const entriesAt = (domain: string) => claimNext({ domain: `${domain}.example` })?.entries ?? [];
  const [, deferred, held, delivered, bounced] = ["leased", "deferred", "held", "delivered", "bounced"].map(entriesAt);
  store.transact((tx) => {
    for (const entry of deferred ?? []) setDeferred(tx, entry, START + 60_000, "450 later");
    setHeld(tx, held ?? []);
    setDelivered(tx, delivered ?? [], START, "250 ok");
    for (const entry of bounced ?? []) setBounced(tx, entry, START, "550 no");
  });
  const listed = (workspaceId?: string) =>
    [...listUnsettled(store.db, workspaceId)].map(
      ({ recipient, state, attempting, attempts, nextAttemptAt, reply }) => [
        recipient,
        state,
        attempting,
        attempts,
        nextAttemptAt === null ? null : nextAttemptAt - START,
        reply,
      ],
    );
  const ours = [
    ["ann@leased.example", "waiting", true, 0, null, null],
    ["ann@deferred.example", "waiting", false, 1, 60_000, "450 later"],
    ["ann@fresh.example", "waiting", false, 0, 0, null],
    ["ann@held.example", "held", false, 0, null, null],
  ];
  const others = ["other@example.org", "waiting", false, 0, 0, null];
  expect(listed("wsp_1")).toEqual(ours);
  expect(listed("wsp_2")).toEqual([others]);
  expect(listed()).toEqual([...ours.slice(0, 3), others, ...ours.slice(3)]);
  const [first] = [...listUnsettled(store.db)];
  expect(first).toMatchObject({
    id: expect.stringMatching(/^que_/),
    workspaceId: "wsp_1",
    emailId: "msg_1",
    messageId: "<1@example.test>",
    mailbox: "alice@example.test",
    field: "to",
    acceptedAt: START,
  });
});

test("a list longer than a page is whole, each once, in order", () => {
  const { accept, store } = createQueue();
  const to = Array.from({ length: 1_203 }, (_, i) => `r${i}@a.example`);
  accept({ to });
  expect([...listUnsettled(store.db)].map(({ recipient }) => recipient)).toEqual(to);
});
