/**
 * The guardrails, one by one, to the millisecond (rules: Recipients, Sending caps, Warm-up, Pause, Order of refusals).
 */
import { describe, expect, test } from "bun:test";
import { lt } from "drizzle-orm";
import { AppError } from "../../src/base/errors.ts";
import { sendMessage } from "../../src/compose/send.ts";
import { mergeRecipients, resolveSender } from "../../src/outbound/guardrails.ts";
import { addOutbound } from "../../src/outbound/queue.ts";
import { queueEntries } from "../../src/store/schema.ts";
import { START } from "../harness/runtime.ts";
import { createOffice, LARGEST_QUEUE, type Office, outsiders, refusal } from "../harness/servers/outgoing.ts";

const SECOND = 1_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const ALICE = "alice@example.test";

const sendTo = (office: Office, to: string | string[], from = ALICE) =>
  sendMessage(office.core, office.alice, { from, to, subject: "S", text: "x" });

/** Expects a refusal that stored nothing and recorded no response. */
async function refused(office: Office, to: string | string[], from = ALICE) {
  const before = office.stored();
  let recorded = 0;
  const request = { from, to, subject: "S", text: "x" };
  const error = await refusal(sendMessage(office.core, office.alice, request, () => void recorded++));
  expect(office.stored()).toEqual(before);
  expect(recorded).toBe(0);
  const { code, status, message, retryAfter } = error;
  return { code, status, message, retryAfter };
}

describe("a message is refused", () => {
  for (const [what, arrange, request, expected] of [
    ["from a domain that is not verified", unverified, {}, [422, "unprocessable", /example\.test is not verified/]],
    [
      "to more recipients than one message may have",
      (office: Office) => office.set("sending.maxRecipients", "2"),
      { to: outsiders(3) },
      [422, "unprocessable", /3 recipients.*at most 2/],
    ],
    ["to what is no address", () => {}, { to: "dave@remote.example, nobody" }, [422, "unprocessable", /"nobody"/]],
    ["to a host by its number", () => {}, { to: "dave@[192.0.2.1]" }, [422, "unprocessable", /192\.0\.2\.1/]],
    [
      "to a suppressed recipient, in any case",
      (office: Office) => office.suppress("gone@remote.example"),
      { to: "dave@remote.example, Gone@REMOTE.example" },
      [422, "unprocessable", /Gone@remote\.example/],
    ],
    [
      "from a paused mailbox",
      (office: Office) => office.pauseMailbox(office.boxes.alice, "unpaid invoices"),
      {},
      [423, "locked", /alice@example\.test is paused: unpaid invoices/],
    ],
    [
      "from a paused workspace",
      (office: Office) => office.pauseWorkspace("under attack"),
      {},
      [423, "locked", /whole workspace: under attack/],
    ],
    ["that the queue has no room for", fillQueue, { to: outsiders(2) }, [502, "upstream_failed", /queue is full/]],
    [
      "while the smarthost refuses our credentials",
      (office: Office) => {
        office.smarthost.refusal = "535 5.7.8 no";
      },
      {},
      [502, "upstream_failed", /refuses this server's credentials/],
    ],
    [
      "from a mailbox without room",
      (office: Office) => office.quota(office.boxes.alice, 10),
      {},
      [507, "insufficient_storage", /alice@example\.test is out of storage/],
    ],
  ] as const) {
    test(what, async () => {
      const office = await createOffice();
      arrange(office);
      const { to = "dave@remote.example" } = request as { to?: string | string[] };
      const [status, code, message] = expected;
      expect(await refused(office, to)).toEqual({
        status,
        code,
        message: expect.stringMatching(message),
        retryAfter: undefined,
      });
    });
  }

  test("for the first of several reasons, in their order (rules: Order of refusals)", async () => {
    const office = await createOffice();
    const cures: [status: number, cure: () => unknown][] = [
      [422, () => office.set("sending.maxRecipients", "100")],
      [423, () => office.pauseMailbox(office.boxes.alice, null)],
      [423, () => office.pauseWorkspace(null)],
      [429, () => office.set("sending.mailboxPerHour", "100")],
      [429, () => office.set("sending.workspacePerHour", "100")],
      [429, () => office.set("sending.warmup", "off")],
      [
        502,
        () => {
          office.smarthost.refusal = undefined;
        },
      ],
      [507, () => office.quota(office.boxes.alice, 1_000_000)],
    ];
    office.set("sending.maxRecipients", "1");
    office.pauseMailbox(office.boxes.alice, "m");
    office.pauseWorkspace("w");
    office.set("sending.mailboxPerHour", "0");
    office.set("sending.workspacePerHour", "0");
    office.verify("example.test", START);
    office.set("sending.warmup", "0");
    office.smarthost.refusal = "535";
    office.quota(office.boxes.alice, 0);
    for (const [status, cure] of cures) {
      expect((await refused(office, outsiders(2))).status).toBe(status);
      cure();
    }
    await sendTo(office, outsiders(2));
  });

  function unverified(office: Office): void {
    office.store.db.$client.run("UPDATE domains SET verified_at = NULL");
  }

  /** The queue has room for one more recipient: `held` entries count. */
  function fillQueue(office: Office): void {
    const { store, workspaceId, boxes } = office;
    const names = Array.from({ length: LARGEST_QUEUE - 1 }, (_, i) => `r${i}@remote.example`);
    store.transact((tx) => {
      addOutbound(tx, {
        id: "msg_full",
        workspaceId,
        mailboxId: boxes.alice,
        mailbox: ALICE,
        threadId: "thr_full",
        messageId: "<full@example.test>",
        subject: "",
        domain: "example.test",
        returnPath: "full@example.test",
        acceptedAt: START - DAY,
        outsideRecipients: 0,
        content: { bytes: new Uint8Array() },
        recipients: names.map((email, i) => ({ id: `que_${i}`, email, field: "to" })),
      });
    });
    store.db.update(queueEntries).set({ state: "held" }).where(lt(queueEntries.seq, 500)).run();
  }
});

describe("recipients in 60 minutes", () => {
  test("are counted together, with Cc and Bcc, and leave the count to the millisecond", async () => {
    const office = await createOffice();
    office.set("sending.mailboxPerHour", "10");
    await sendTo(office, outsiders(4));
    office.runtime.advanceTo(START + 20 * 60 * SECOND + 1);
    await sendMessage(office.core, office.alice, {
      from: ALICE,
      to: "a@remote.example",
      cc: outsiders(2),
      bcc: outsiders(3, 2),
      text: "x",
    });
    office.runtime.advanceTo(START + 30 * 60 * SECOND);

    expect(await refused(office, "b@remote.example")).toEqual({
      status: 429,
      code: "rate_limited",
      retryAfter: 1_800,
      message: expect.stringMatching(
        /hourly limit of alice@example\.test is 10.*10 were sent.*has 1\. It fits at 2026-01-05T10:00:00Z/,
      ),
    });
    // Five fit only once the second message, too, has left the window, which is rounded up.
    expect((await refused(office, outsiders(5))).retryAfter).toBe(3_001);

    office.runtime.advanceTo(START + HOUR - 1);
    expect((await refused(office, outsiders(4))).retryAfter).toBe(1);
    office.runtime.advanceTo(START + HOUR);
    await sendTo(office, outsiders(4));
    office.runtime.advanceTo(START + HOUR + 20 * 60 * SECOND);
    expect((await refused(office, outsiders(5))).retryAfter).toBe(1);
    office.runtime.advanceTo(START + HOUR + 20 * 60 * SECOND + 1);
    await sendTo(office, outsiders(6));
  });

  test("pass up to exactly the limit", async () => {
    const office = await createOffice();
    office.set("sending.mailboxPerHour", "5");
    await sendTo(office, outsiders(3));
    expect((await refused(office, outsiders(3))).status).toBe(429);
    await sendTo(office, outsiders(2));
    expect((await refused(office, outsiders(1))).status).toBe(429);
  });

  test("count for their mailbox and for the whole workspace, not for other mailboxes", async () => {
    const office = await createOffice();
    office.set("sending.mailboxPerHour", "3");
    office.set("sending.workspacePerHour", "5");
    await sendTo(office, outsiders(3));
    await sendTo(office, outsiders(2), "team@example.test");
    expect((await refused(office, outsiders(1), "team@example.test")).message).toMatch(
      /hourly limit of this workspace is 5 recipients; 5 were sent to/,
    );
  });

  test("of another workspace do not count", async () => {
    const office = await createOffice();
    const other = office.world.workspace("Other", "other.test");
    office.verify("other.test", START - 30 * DAY);
    const olga = office.world.user(other, "olga@other.test", "owner");
    office.world.box(other, "olga@other.test", olga);
    office.set("sending.workspacePerHour", "3");
    await sendTo(office, outsiders(3));
    await sendMessage(office.core, olga, { from: "olga@other.test", to: outsiders(3), text: "x" });
    expect((await refused(office, outsiders(1))).status).toBe(429);
  });

  test("a message with more than ever fit is refused with that reason", async () => {
    const office = await createOffice();
    office.set("sending.mailboxPerHour", "3");
    expect(await refused(office, outsiders(4))).toMatchObject({
      status: 429,
      retryAfter: 3_600,
      message: expect.stringMatching(
        /has 4 recipients, more than the 3 that alice@example\.test may.*fits only if it is divided/,
      ),
    });
  });

  test("a limit that was lowered counts mail sent before", async () => {
    const office = await createOffice();
    await sendTo(office, outsiders(6));
    office.runtime.advanceTo(START + 10 * SECOND);
    await sendTo(office, outsiders(6));
    office.set("sending.mailboxPerHour", "7");
    expect((await refused(office, outsiders(1))).retryAfter).toBe(3_590);
    expect((await refused(office, outsiders(2))).retryAfter).toBe(3_600);
  });

  test("two messages at the edge do not both pass", async () => {
    const office = await createOffice();
    office.set("sending.mailboxPerHour", "5");
    const outcomes = await Promise.allSettled([0, 10, 20, 30].map((from) => sendTo(office, outsiders(2, from))));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "fulfilled", "rejected", "rejected"]);
    expect(office.stored()).toMatchObject({ messages: 2, outbound_messages: 2, queue_entries: 4, events: 2 });
  });
});

describe("a new domain", () => {
  async function newDomain(verifiedAt: number, warmup = "2,4,8") {
    const office = await createOffice();
    office.verify("example.test", verifiedAt);
    office.set("sending.warmup", warmup);
    return office;
  }
  const MIDNIGHT = Date.parse("2026-01-06T00:00:00Z");

  test("reaches a limited number of recipients outside on each UTC day, the first being that of its verification", async () => {
    const office = await newDomain(Date.parse("2026-01-05T00:00:00Z"));
    await sendTo(office, outsiders(2));
    office.runtime.advanceTo(MIDNIGHT - 1);
    expect(await refused(office, outsiders(1))).toEqual({
      status: 429,
      code: "rate_limited",
      retryAfter: 1,
      message: expect.stringMatching(
        /example\.test is new: on day 1 it may reach 2 .*, 2 were sent to today.*It fits at 2026-01-06T00:00:00Z/,
      ),
    });
    office.runtime.advanceTo(MIDNIGHT);
    await sendTo(office, outsiders(4));
    expect((await refused(office, outsiders(1))).retryAfter).toBe(DAY / SECOND);
    office.runtime.advanceTo(MIDNIGHT + DAY);
    await sendTo(office, outsiders(8));
    office.runtime.advanceTo(MIDNIGHT + 2 * DAY);
    await sendTo(office, outsiders(50));
  });

  test("verified a millisecond before midnight is on its second day after it", async () => {
    const office = await newDomain(Date.parse("2026-01-04T23:59:59.999Z"));
    await sendTo(office, outsiders(4));
    expect((await refused(office, outsiders(1))).status).toBe(429);
  });

  test("gets the day on which the message fits, even far ahead", async () => {
    const office = await newDomain(MIDNIGHT - DAY);
    expect((await refused(office, outsiders(8))).message).toMatch(/fits at 2026-01-07T00:00:00Z/);
    expect(await refused(office, outsiders(9))).toMatchObject({
      message: expect.stringMatching(/fits at 2026-01-08T00:00:00Z/),
      retryAfter: (MIDNIGHT + 2 * DAY - START) / SECOND,
    });
    office.runtime.advanceTo(MIDNIGHT + 2 * DAY);
    await sendTo(office, outsiders(9));
  });

  test("writes to this server without limit, and that does not count", async () => {
    const office = await newDomain(START, "1");
    office.set("sending.maxRecipients", "500");
    await sendTo(
      office,
      Array.from({ length: 50 }, () => "bob@example.test,team@example.test"),
    );
    await sendTo(office, ["bob@example.test", ...outsiders(1)]);
    await sendTo(office, "team@example.test");
    expect((await refused(office, ["bob@example.test", ...outsiders(1)])).message).toMatch(/this message has 1\b/);
  });

  test("counts a domain of another workspace as this server only when it is verified", async () => {
    const office = await newDomain(START, "1");
    office.world.workspace("Other", "other.test");
    expect((await refused(office, ["a@other.test", "b@other.test"])).status).toBe(429);
    office.verify("other.test", START);
    await sendTo(office, ["a@other.test", "b@other.test"]);
  });

  test("writes to this server over the ceiling too", async () => {
    const office = await newDomain(START, "5");
    await sendTo(office, outsiders(5));
    office.set("sending.warmup", "1");
    await sendTo(office, "bob@example.test");
    expect((await refused(office, outsiders(1))).status).toBe(429);
  });

  test("is on its first day when the clock was set back", async () => {
    const office = await newDomain(START + 3 * DAY, "1");
    expect((await refused(office, outsiders(2))).message).toMatch(/on day 1 it may reach 1/);
  });

  test("is not held back when the ramp is off", async () => {
    const office = await newDomain(START, "off");
    await sendTo(office, outsiders(60));
  });

  test("does not hold back another domain", async () => {
    const office = await newDomain(START, "1");
    const other = office.world.workspace("Other", "other.test");
    office.verify("other.test", START);
    const olga = office.world.user(other, "olga@other.test", "owner");
    office.world.box(other, "olga@other.test", olga);
    await sendTo(office, outsiders(1));
    await sendMessage(office.core, olga, { from: "olga@other.test", to: outsiders(1), text: "x" });
    expect((await refused(office, outsiders(1))).status).toBe(429);
  });
});

describe("from", async () => {
  const office = await createOffice();
  const beta = office.world.workspace("Beta", "beta.test");
  office.world.box(beta, "olga@beta.test", office.world.user(beta, "olga@beta.test", "owner"));
  office.world.alias(office.boxes.alice, "*@example.test");
  const { alice, bob, carl, boxes } = office;

  for (const [who, caller, address, alias, expected] of [
    ["an owner", alice, "alice@example.test", false, boxes.alice],
    ["an owner", alice, " ALICE@Example.TEST ", false, boxes.alice],
    ["an owner", alice, "team@example.test", false, boxes.team],
    ["an owner", alice, "bob@example.test", false, boxes.bob],
    ["an owner", alice, "sales@example.test", false, "unprocessable"],
    ["an owner", alice, "sales@example.test", true, boxes.alice],
    ["an owner", alice, "anything@example.test", true, "unprocessable"],
    ["an owner", alice, "*@example.test", true, "unprocessable"],
    ["an owner", alice, "alice+tag@example.test", true, "unprocessable"],
    ["an owner", alice, "olga@beta.test", true, "unprocessable"],
    ["an owner", alice, "Alice <alice@example.test>", true, "unprocessable"],
    ["an owner", alice, "", true, "unprocessable"],
    ["a member", bob, "bob@example.test", false, boxes.bob],
    ["a member", bob, "alice@example.test", false, "unprocessable"],
    ["a member", bob, "sales@example.test", true, "unprocessable"],
    ["a member with a view-only share", bob, "team@example.test", false, "forbidden"],
    ["a member with a sending share", carl, "team@example.test", false, boxes.team],
    ["a member with a sending share", carl, "alice@example.test", false, "unprocessable"],
  ] as const) {
    test(`${JSON.stringify(address)} by ${who}${alias ? ", aliases allowed" : ""}: ${expected}`, () => {
      const outcome = () => {
        try {
          return resolveSender(office.store.db, caller, address, { alias }).reach.mailbox.id;
        } catch (error) {
          return error instanceof AppError ? error.code : error;
        }
      };
      expect(outcome()).toBe(expected);
    });
  }

  test("names the given text in a few words", () => {
    for (const address of [`${"x".repeat(1_000_000)}@example.test`, "alice@example.test\r\nBcc: x"]) {
      expect(() => resolveSender(office.store.db, alice, address, { alias: true })).toThrow(/^[^\p{C}]{1,160}$/u);
    }
  });

  test("gives the same refusal for an unknown address and for one out of reach", () => {
    const said = (address: string) => {
      try {
        return resolveSender(office.store.db, bob, address, { alias: true }).address;
      } catch (error) {
        return String(error).replaceAll(address, "X");
      }
    };
    expect(
      new Set(["alice@example.test", "sales@example.test", "nobody@example.test", "olga@beta.test"].map(said)).size,
    ).toBe(1);
  });
});

test("each address once, as first written, in the order of To, Cc, Bcc", () => {
  expect(
    mergeRecipients({
      bcc: [{ email: "c@x.example", name: "Hidden" }, { email: "A@x.example" }],
      cc: [{ email: "b@x.example" }, { email: '"a"@X.example' }],
      to: [
        { email: "A@x.example", name: "A" },
        { email: "a@x.example", name: "again" },
      ],
    }),
  ).toEqual([
    { email: "A@x.example", name: "A", field: "to" },
    { email: "b@x.example", field: "cc" },
    { email: "c@x.example", name: "Hidden", field: "bcc" },
  ]);
});

test("a text that is not an address is kept, to be refused by name", () => {
  expect(mergeRecipients({ to: [{ email: "nobody" }], cc: [], bcc: [] })).toEqual([{ email: "nobody", field: "to" }]);
});
