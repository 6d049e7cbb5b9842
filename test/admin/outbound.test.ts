/** Outbound mail as administration sees it: the queue and the suppression list over a store in memory. */
import { expect, test } from "bun:test";
import * as outbound from "../../src/admin/outbound.ts";
import { claimQueueEntries } from "../../src/outbound/claims.ts";
import { addOutbound } from "../../src/outbound/queue.ts";
import { queueEntries } from "../../src/store/schema.ts";
import { openOffice } from "../harness/servers/admin-office.ts";

function openOutbound() {
  const office = openOffice();
  const { core, store, runtime, acme, beta, write } = office;
  const put = (id: string, workspaceId: string, recipient: string) =>
    write((tx) =>
      addOutbound(tx, {
        id: `msg_${id}`,
        workspaceId,
        mailboxId: "mbx_1",
        mailbox: "ada@acme.test",
        threadId: "thr_1",
        messageId: `<${id}@acme.test>`,
        subject: "Hello",
        domain: "acme.test",
        returnPath: `bounce+${id}@acme.test`,
        acceptedAt: runtime.now(),
        outsideRecipients: 1,
        recipients: [{ id: `que_${id}`, email: recipient, field: "to" }],
        content: { bytes: new TextEncoder().encode("Subject: Hello\r\n\r\n") },
      }),
    );
  put("a", acme, "zoe@remote.example");
  put("b", beta, "max@remote.example");
  const states = () =>
    Object.fromEntries(
      store.db
        .select()
        .from(queueEntries)
        .all()
        .map(({ id, state }) => [id, state]),
    );
  return {
    ...office,
    states,
    listed: (id?: string) => [...outbound.listQueue(core, id)].map((entry) => entry.id),
  };
}

test("the queue is listed for one workspace, or for all", () => {
  const { core, listed, acme, runtime } = openOutbound();
  expect(listed()).toEqual(["que_a", "que_b"]);
  expect(listed(acme)).toEqual(["que_a"]);
  expect([...outbound.listQueue(core, acme)]).toMatchObject([
    { recipient: "zoe@remote.example", state: "waiting", attempts: 0, nextAttemptAt: runtime.now() },
  ]);
});

test("an entry is retried or given up while it is unsettled and no attempt is under way", () => {
  const { core, write, listed, states, runtime } = openOutbound();
  const now = runtime.now();
  const claimed = write((tx) => claimQueueEntries(tx, { now, leaseUntil: now + 60_000 }));
  const leased = claimed?.entries[0]?.id ?? "";
  expect(() => write((tx) => outbound.retryQueueEntry(core, tx, leased))).toThrow(/under way/);
  expect(() => write((tx) => outbound.cancelQueueEntry(core, tx, leased))).toThrow(/under way/);
  runtime.advanceTo(now + 60_000);
  write((tx) => outbound.retryQueueEntry(core, tx, leased));
  expect([...outbound.listQueue(core)].find(({ id }) => id === leased)).toMatchObject({ nextAttemptAt: now + 60_000 });
  write((tx) => outbound.cancelQueueEntry(core, tx, "que_a"));
  expect(states()).toEqual({ que_a: "cancelled", que_b: "waiting" });
  expect(listed()).toEqual(["que_b"]);
  expect(() => write((tx) => outbound.cancelQueueEntry(core, tx, "que_a"))).toThrow(/cancelled already/);
  expect(() => write((tx) => outbound.retryQueueEntry(core, tx, "que_none"))).toThrow(/no queue entry que_none/);
});

test("an address is suppressed once for one workspace, in any spelling", () => {
  const { core, write, acme, beta, runtime } = openOutbound();
  const suppress = (workspaceId: string, address: string, reason: string) =>
    write((tx) => outbound.suppress(core, tx, { workspaceId, address, reason }));
  suppress(acme, " Zoe@REMOTE.example ", " Asked us to stop ");
  runtime.advanceTo(runtime.now() + 1_000);
  suppress(acme, "zoe@remote.example", "Again");
  suppress(beta, "zoe@remote.example", "Theirs");
  expect(outbound.listSuppressions(core)).toMatchObject([
    {
      id: expect.stringMatching(/^sup_/),
      workspaceId: acme,
      address: "zoe@remote.example",
      reason: "Asked us to stop",
    },
    { workspaceId: beta, reason: "Theirs" },
  ]);
  expect(outbound.listSuppressions(core, beta)).toHaveLength(1);
  expect(() => suppress(acme, "zoe", "x")).toThrow(/"zoe" is not an address/);
  expect(() => suppress(acme, "max@remote.example", "two\nlines")).toThrow(/give a reason/);

  const [{ id } = { id: "" }] = outbound.listSuppressions(core, acme);
  expect(() => write((tx) => outbound.unsuppress(tx, beta, id))).toThrow(/no suppression/);
  write((tx) => outbound.unsuppress(tx, acme, id));
  expect(outbound.listSuppressions(core)).toMatchObject([{ workspaceId: beta }]);
  expect(() => write((tx) => outbound.unsuppress(tx, acme, id))).toThrow(/no suppression/);
});
