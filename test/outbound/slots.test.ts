/** The health of destinations, and what of it is restored after a start. */
import { expect, test } from "bun:test";
import { moveDomainToQueueLine } from "../../src/outbound/claims.ts";
import { setEntriesDelivered, setEntryBounced } from "../../src/outbound/queue.ts";
import { createDestinationHealth } from "../../src/outbound/slots.ts";
import { createQueue } from "./queue-rig.ts";

test("a destination is new until something is noted, and again when it is forgotten", () => {
  const { getQueueLine, note } = createDestinationHealth(createQueue().store.db);
  expect(getQueueLine("a.example")).toBe("new");
  expect([note("a.example", "open"), note("a.example", "open"), getQueueLine("a.example")]).toEqual([
    true,
    false,
    "open",
  ]);
  expect([note("a.example", "slow"), getQueueLine("a.example")]).toEqual([true, "slow"]);
  expect([note("a.example", "new"), getQueueLine("a.example")]).toEqual([true, "new"]);
});

test("the 10,000 destinations noted last are kept", () => {
  const { getQueueLine, note } = createDestinationHealth(createQueue().store.db);
  for (let i = 0; i < 10_000; i++) note(`d${i}.example`, "open");
  note("d0.example", "open");
  note("one.more.example", "slow");
  expect(["d0.example", "d1.example", "d2.example", "one.more.example"].map(getQueueLine)).toEqual([
    "open",
    "new",
    "open",
    "slow",
  ]);
});

test("at start destinations of delivered mail are open, and those in the slow line are slow", () => {
  const { accept, claimNext, store, runtime } = createQueue();
  for (const domain of ["fine", "bad", "slow", "both", "waiting"]) accept({ to: [`ann@${domain}.example`] });
  accept({ to: ["bob@both.example"] });
  store.transact((tx) => {
    for (const domain of ["fine", "both"]) {
      setEntriesDelivered(tx, claimNext({ domain: `${domain}.example` })?.entries ?? [], runtime.now(), "250 ok");
    }
    for (const entry of claimNext({ domain: "bad.example" })?.entries ?? [])
      setEntryBounced(tx, entry, runtime.now(), "550 no");
    for (const domain of ["slow", "both"]) moveDomainToQueueLine(tx, `${domain}.example`, "slow");
  });
  const { getQueueLine } = createDestinationHealth(store.db);
  expect(["fine", "bad", "slow", "both", "waiting"].map((name) => getQueueLine(`${name}.example`))).toEqual([
    "open",
    "new",
    "slow",
    "slow",
    "new",
  ]);
});
