/** Mail from this server to itself: the mailboxes that get it, the results of the others, and Bcc. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { listThreads } from "../../src/mailbox/reading/listing.ts";
import { getMessage, listMessages } from "../../src/mailbox/reading/messages.ts";
import { localDomain } from "../../src/mailbox/state/addresses.ts";
import { deliverHere } from "../../src/outbound/attempt.ts";
import { type Claim, claimQueueEntries } from "../../src/outbound/claims.ts";
import { domains, mailboxes } from "../../src/store/schema.ts";
import { letter } from "../harness/mail/mail.ts";
import { START } from "../harness/runtime.ts";
import { sendCore } from "../harness/servers/core.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";
import { createQueue } from "./queue-rig.ts";

/** alice@ and bob@example.test, each with an alias, and the verified other.test of another workspace, with carol@. */
function createOffice() {
  const world = createWorld();
  const { store, runtime } = world;
  const workspaceId = world.workspace("Demo", "example.test");
  const alice = world.user(workspaceId, "alice@example.test", "owner");
  const bob = world.user(workspaceId, "bob@example.test", "member");
  const otherId = world.workspace("Other", "other.test");
  const carol = world.user(otherId, "carol@other.test", "owner");
  store.db.update(domains).set({ verifiedAt: START }).where(eq(domains.name, "other.test")).run();
  const boxes = {
    alice: world.box(workspaceId, "alice@example.test", alice),
    bob: world.box(workspaceId, "bob@example.test", bob),
    carol: world.box(otherId, "carol@other.test", carol),
  };
  world.alias(boxes.alice, "sales@example.test");
  world.alias(boxes.bob, "help@example.test");

  const parser = { prepare: (_: unknown, source: unknown) => prepareMessage(source as Uint8Array, store.blobs) };
  const sending = sendCore(world.core);
  const core = { ...sending, parser: { ...sending.parser, ...parser } };
  const { accept } = createQueue(runtime, store);
  const content = Buffer.from(
    letter({
      messageId: "<1@example.test>",
      from: "alice@example.test",
      to: "bob@example.test",
      subject: "Hi",
    }).replaceAll(/\r?\n/g, "\r\n"),
  );

  /** Accepts mail to these recipients and claims all of it. */
  function claimFor(...to: string[]): Claim {
    accept({ to, workspaceId });
    const terms = { now: runtime.now(), leaseUntil: runtime.now() + 1, together: () => true };
    const given = store.transact((tx) => claimQueueEntries(tx, terms) as never) as Claim | undefined;
    if (!given) throw new Error("nothing was claimed");
    return given;
  }

  /** Delivers a claim; returns the results. */
  async function deliver(given: Claim, bytes = content): Promise<string[]> {
    const { results, portions } = await deliverHere(core, given, bytes);
    for (const file of portions) store.transact((tx) => file(tx));
    return results.map(({ kind, reply, hard }) => `${kind}${hard ? ", hard" : ""}: ${reply}`);
  }

  const shown = (who: typeof alice) =>
    listMessages(core, who, { mailbox: who.email, limit: 10 })
      .map(({ id }) => getMessage(core, who, id, { html: false }))
      .map(({ subject, bcc }) => ({ subject, bcc: bcc?.map(({ email }) => email) }));
  const inbound = () => world.events().filter(({ event }) => event === "message.inbound");
  return { ...world, workspaceId, otherId, alice, bob, carol, boxes, core, claimFor, deliver, shown, inbound };
}

const ACCEPTED = "accepted: 250 2.1.5 Delivered here";
const UNKNOWN = "refused, hard: 550 5.1.1 No such mailbox here";
const FULL = "deferred: 452 4.2.2 Mailbox is full";

describe("results of recipients", () => {
  interface Case {
    to: string[];
    results: string[];
    /** Mailboxes that have the message, and the address it arrived on. */
    filed: Record<string, string>;
  }
  const cases: Record<string, Case> = {
    "a mailbox": { to: ["bob@example.test"], results: [ACCEPTED], filed: { "bob@example.test": "bob@example.test" } },
    "an alias, with a tag": {
      to: ["help+now@example.test"],
      results: [ACCEPTED],
      filed: { "bob@example.test": "help@example.test" },
    },
    "several that reach one mailbox: one copy, on the first": {
      to: ["help@example.test", "cc:bob@example.test", "bcc:bob+x@example.test"],
      results: [ACCEPTED, ACCEPTED, ACCEPTED],
      filed: { "bob@example.test": "help@example.test" },
    },
    "the sender": {
      to: ["alice@example.test"],
      results: [ACCEPTED],
      filed: { "alice@example.test": "alice@example.test" },
    },
    "another workspace": {
      to: ["carol@other.test"],
      results: [ACCEPTED],
      filed: { "carol@other.test": "carol@other.test" },
    },
    nobody: { to: ["nobody@example.test"], results: [UNKNOWN], filed: {} },
    "some and nobody": {
      to: ["nobody@example.test", "bob@example.test", "none@other.test", "alice@example.test"],
      results: [UNKNOWN, ACCEPTED, UNKNOWN, ACCEPTED],
      filed: { "bob@example.test": "bob@example.test", "alice@example.test": "alice@example.test" },
    },
    "the owner, as postmaster": {
      to: ["postmaster@example.test"],
      results: [ACCEPTED],
      filed: { "alice@example.test": "postmaster@example.test" },
    },
  };
  for (const [name, { to, results, filed }] of Object.entries(cases)) {
    test(name, async () => {
      const { claimFor, deliver, events, core, alice, bob, carol } = createOffice();
      expect(await deliver(claimFor(...to))).toEqual(results);
      const threads = await Promise.all(
        [alice, bob, carol].map(async (who) => (await listThreads(core, who, { limit: 10 })).threads),
      );
      const found = threads.flat().map((thread) => [thread.mailbox, thread.receivedOn]);
      expect(Object.fromEntries(found)).toEqual(filed);
      expect(
        events()
          .map(({ event, data }) => [event, data.mailbox])
          .sort(),
      ).toEqual(
        Object.keys(filed)
          .map((address) => ["message.inbound", address])
          .sort(),
      );
    });
  }

  test("a full mailbox defers mail; the workspace's postmaster still accepts it", async () => {
    const { claimFor, deliver, store, inbound } = createOffice();
    store.db.update(mailboxes).set({ quotaBytes: 10 }).run();
    expect(await deliver(claimFor("bob@example.test", "postmaster@example.test"))).toEqual([FULL, ACCEPTED]);
    expect(inbound().map(({ data }) => data.mailbox)).toEqual(["alice@example.test"]);
    store.isDiskLow = () => true;
    const another = Buffer.from("From: alice@example.test\r\nMessage-ID: <2@example.test>\r\n\r\nHi\r\n");
    expect(await deliver(claimFor("postmaster@example.test"), another)).toEqual([FULL]);
  });

  test("a copy that an earlier attempt filed counts as delivered, even if it filled the mailbox", async () => {
    const { claimFor, deliver, store, boxes, shown, bob, inbound } = createOffice();
    const given = claimFor("bob@example.test", "alice@example.test");
    await deliver(claimFor("bob@example.test"));
    store.db.update(mailboxes).set({ quotaBytes: 10 }).where(eq(mailboxes.id, boxes.bob)).run();
    expect(await deliver(given)).toEqual([ACCEPTED, ACCEPTED]);
    expect(shown(bob)).toHaveLength(1);
    expect(inbound()).toHaveLength(2);
  });

  test("a message delivered twice, as after a crash, is filed once and announced once", async () => {
    const { claimFor, deliver, shown, bob, inbound } = createOffice();
    const given = claimFor("bob@example.test");
    expect([await deliver(given), await deliver(given)]).toEqual([[ACCEPTED], [ACCEPTED]]);
    expect(shown(bob)).toHaveLength(1);
    expect(inbound()).toHaveLength(1);
  });

  test("when a mailbox is removed while its mail is prepared, the transaction fails", async () => {
    const { claimFor, core, store, boxes, inbound } = createOffice();
    const given = claimFor("bob@example.test", "alice@example.test");
    const { portions } = await deliverHere(core, given, Buffer.from("Subject: Hi\r\n\r\nHi\r\n"));
    store.db.delete(mailboxes).where(eq(mailboxes.id, boxes.bob)).run();
    expect(() => store.transact((tx) => portions[0]?.(tx))).toThrow("recipients changed");
    expect(inbound()).toEqual([]);
  });
});

describe("Bcc", () => {
  interface Case {
    to: string[];
    alice?: string[] | undefined;
    bob?: string[] | undefined;
  }
  const cases: Record<string, Case> = {
    "who was Bcc'd sees their own address": { to: ["bcc:bob@example.test"], bob: ["bob@example.test"] },
    "and no other, and who was not sees none": {
      to: ["alice@example.test", "bcc:bob@example.test", "bcc:carol@other.test", "bcc:far@remote.example"],
      alice: undefined,
      bob: ["bob@example.test"],
    },
    "also when To reaches the same mailbox": {
      to: ["bob@example.test", "bcc:help@example.test"],
      bob: ["help@example.test"],
    },
  };
  for (const [name, { to, ...expected }] of Object.entries(cases)) {
    test(name, async () => {
      const { claimFor, deliver, shown, ...office } = createOffice();
      await deliver(claimFor(...to));
      for (const [who, bcc] of Object.entries(expected)) {
        expect(shown(office[who as "alice" | "bob"])).toEqual([{ subject: "Hi", bcc }]);
      }
    });
  }

  test("and when the To recipient was delivered first", async () => {
    const { claimFor, deliver, shown, bob } = createOffice();
    const { entries, ...rest } = claimFor("bob@example.test", "bcc:help@example.test");
    await deliver({ ...rest, entries: entries.slice(0, 1) });
    await deliver({ ...rest, entries: entries.slice(1) });
    expect(shown(bob)).toEqual([{ subject: "Hi", bcc: ["help@example.test"] }]);
  });
});

test("mail stays here for the sender's own domains, and for verified ones of other workspaces", () => {
  const { core, workspaceId, otherId } = createOffice();
  const areLocal = [
    [workspaceId, "example.test"],
    [workspaceId, "other.test"],
    [otherId, "example.test"],
    [otherId, "other.test"],
    [workspaceId, "remote.example"],
  ].map(([id = "", domain = ""]) => localDomain(core.db, id, domain) !== undefined);
  expect(areLocal).toEqual([true, true, false, true, false]);
});
