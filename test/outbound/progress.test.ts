/** The operator's list of unsettled recipients. */
import { expect, test } from "bun:test";
import { listUnsettled } from "../../src/outbound/progress.ts";
import { setEntriesDelivered, setEntriesHeld, setEntryBounced, setEntryDeferred } from "../../src/outbound/queue.ts";
import { START } from "../harness/runtime.ts";
import { createQueue } from "./queue-rig.ts";

test("the operator's list has waiting recipients, then held ones, with message and next attempt", () => {
  const { accept, claimNext, store } = createQueue();
  for (const domain of ["leased", "deferred", "held", "delivered", "bounced", "fresh"])
    accept({ to: [`ann@${domain}.example`] });
  accept({ to: ["bcc:other@example.org"], workspaceId: "wsp_2" });
  const entriesAt = (domain: string) => claimNext({ domain: `${domain}.example` })?.entries ?? [];
  const [, deferred, held, delivered, bounced] = ["leased", "deferred", "held", "delivered", "bounced"].map(entriesAt);
  store.transact((tx) => {
    for (const entry of deferred ?? []) setEntryDeferred(tx, entry, START + 60_000, "450 later");
    setEntriesHeld(tx, held ?? []);
    setEntriesDelivered(tx, delivered ?? [], START, "250 ok");
    for (const entry of bounced ?? []) setEntryBounced(tx, entry, START, "550 no");
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

test("a list longer than a page has each recipient once, in order", () => {
  const { accept, store } = createQueue();
  const to = Array.from({ length: 1_203 }, (_, i) => `r${i}@a.example`);
  accept({ to });
  expect([...listUnsettled(store.db)].map(({ recipient }) => recipient)).toEqual(to);
});
