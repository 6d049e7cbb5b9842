import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { getThread, updateThread } from "../../src/mailbox/changing/threads.ts";
import { getAttachment, getRawMessage } from "../../src/mailbox/reading/messages.ts";
import type { MessageView } from "../../src/mailbox/state/views.ts";
import { concludeAttempt } from "../../src/outbound/outcome.ts";
import { findOutboundContent } from "../../src/outbound/queue.ts";
import type { DeliveryResult } from "../../src/smtp/delivery-result.ts";
import { mailboxes, queueEntries, threads } from "../../src/store/schema.ts";
import { START } from "../harness/runtime.ts";
import { ACCEPTED, createSender, formsOf, HOSTNAME, type Sender, said } from "../harness/servers/sent.ts";

const DEFERRED = said("450 4.2.0 Try again later");
const REFUSED = said("550 5.1.1 No such user");

/** Results by recipient; ACCEPTED for the others. */
const results =
  (given: Record<string, DeliveryResult>) =>
  (recipient: string): DeliveryResult =>
    given[recipient] ?? ACCEPTED;

const briefly = ({ event, data }: ReturnType<Sender["told"]>[number]): string =>
  event === "message.delivered"
    ? `delivered ${(data.to as { email: string }[]).map(({ email }) => email).join(" ")}`
    : `${event.replace("message.", "")} ${data.recipient}${data.hard ? " hard" : ""}`;

/** The attachments of a message, as texts. */
async function attachmentsOf({ core, alice }: Sender, message: MessageView | undefined): Promise<string[]> {
  return Promise.all(
    (message?.attachments ?? []).map(async ({ id }) => (await getAttachment(core, alice, id)).content.text()),
  );
}

describe("accepted", () => {
  test.each<[to: string, cc: string, bcc: string, told: string[]]>([
    ["carol@remote.example", "", "", ["delivered carol@remote.example"]],
    ["", "carol@remote.example", "", ["delivered carol@remote.example"]],
    ["", "", "eve@hidden.example", []],
    ["carol@remote.example", "", "eve@hidden.example", ["delivered carol@remote.example"]],
    [
      "carol@remote.example, Dave <dave@remote.example>",
      "frank@remote.example",
      "",
      ["delivered carol@remote.example dave@remote.example frank@remote.example"],
    ],
  ])("to %j, cc %j, bcc %j", async (to, cc, bcc, told) => {
    const sender = createSender();
    const message = await sender.sent({ to, cc, bcc });
    sender.runtime.advanceTo(START + 5_000);
    await sender.attempt(() => ACCEPTED);
    expect(sender.told().map(briefly)).toEqual(told);
    expect(sender.deliveredAt(message)).toBe(told.length === 0 ? null : START + 5_000);
    expect(new Set(Object.values(sender.states(message)))).toEqual(new Set(["delivered"]));
    expect(sender.notices(message)).toEqual([]);
    expect(sender.suppressed()).toEqual([]);
    expect(findOutboundContent(sender.store.db, message.seq)).toBeUndefined();
  });

  test("message.delivered has its documented data (rules: Event data)", async () => {
    const sender = createSender();
    const message = await sender.sent({
      to: "Carol <carol@remote.example>",
      cc: "dave@remote.example",
      subject: "Tea",
    });
    await sender.attempt(() => ACCEPTED);
    expect(sender.told()).toEqual([
      {
        event: "message.delivered",
        data: {
          emailId: message.id,
          threadId: message.threadId,
          messageId: message.messageId,
          mailbox: "alice@example.test",
          to: [{ email: "carol@remote.example", name: "Carol" }, { email: "dave@remote.example" }],
          subject: "Tea",
          deliveredAt: new Date(START).toISOString(),
        },
      },
    ]);
  });

  test("a later acceptance is announced too, and leaves deliveredAt", async () => {
    const sender = createSender();
    const message = await sender.sent({ to: "carol@remote.example, dave@remote.example" });
    await sender.attempt(results({ "dave@remote.example": DEFERRED }));
    sender.runtime.advanceTo(START + 60_000);
    await sender.attempt(() => ACCEPTED);
    expect(sender.told().map(briefly)).toEqual(["delivered carol@remote.example", "delivered dave@remote.example"]);
    expect(sender.deliveredAt(message)).toBe(START);
  });
});

describe("deferred", () => {
  test("attempts follow the schedule, to the millisecond, and a bounce that is not hard follows the last", async () => {
    const sender = createSender();
    const { runtime } = sender;
    const message = await sender.sent({ to: "carol@remote.example" });
    const waits = [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 57_600];
    let at = START;
    for (const wait of waits) {
      await sender.attempt(() => DEFERRED);
      expect(sender.states(message)).toEqual({ "carol@remote.example": "waiting" });
      at += wait * 1_000;
      runtime.advanceTo(at - 1);
      expect(sender.lease()).toBeUndefined();
      runtime.advanceTo(at);
    }
    expect(sender.told()).toEqual([]);
    expect(sender.notices(message)).toEqual([]);

    await sender.attempt(() => DEFERRED);
    const detail = "gave up after 10 attempts over 32 hours; last reply: 450 4.2.0 Try again later";
    expect(sender.told()).toEqual([
      {
        event: "message.bounced",
        data: {
          emailId: message.id,
          threadId: message.threadId,
          messageId: message.messageId,
          mailbox: "alice@example.test",
          recipient: "carol@remote.example",
          hard: false,
          detail,
        },
      },
    ]);
    expect(sender.states(message)).toEqual({ "carol@remote.example": "bounced" });
    expect(sender.suppressed()).toEqual([]);
    const [notice] = sender.notices(message);
    expect(notice?.text).toContain(`carol@remote.example\n    ${detail}\n`);
    expect(notice?.text).toContain("It is not tried again");
    runtime.advanceTo(at + 10 * 86_400_000);
    expect(sender.lease()).toBeUndefined();
  });

  test("the schedule follows the present setting, in fractions of seconds", async () => {
    const sender = createSender();
    const { runtime, store, options } = sender;
    const message = await sender.sent({ to: "carol@remote.example" });
    store.transact((tx) => options.set(tx, "smtp.retrySeconds", "0.5,7"));
    await sender.attempt(() => DEFERRED);
    runtime.advanceTo(START + 499);
    expect(sender.lease()).toBeUndefined();
    runtime.advanceTo(START + 500);
    store.transact((tx) => options.set(tx, "smtp.retrySeconds", "0.5"));
    await sender.attempt(() => DEFERRED);
    expect(sender.states(message)).toEqual({ "carol@remote.example": "bounced" });
    expect(sender.told()[0]?.data.detail).toBe(
      "gave up after 2 attempts over 1 second; last reply: 450 4.2.0 Try again later",
    );
  });
});

describe("refused", () => {
  test.each<[reply: string, command: "rcpt" | "data", hard: boolean]>([
    ["550 5.1.1 No such user", "rcpt", true],
    ["550 5.2.1 Mailbox is disabled", "rcpt", true],
    ["550 no such user here", "rcpt", true],
    ["550 5.7.1 Not welcome", "rcpt", false],
    ["552 5.2.2 Mailbox is full", "rcpt", false],
    ["554 5.6.0 Content is not acceptable", "data", false],
    ["554 Spam", "data", false],
  ])("%s to %s", async (reply, command, hard) => {
    const sender = createSender();
    const message = await sender.sent({ to: "Carol <Carol@remote.example>" });
    await sender.attempt(() => said(reply, "mx.remote.example", command));
    expect(sender.told()).toMatchObject([
      { event: "message.bounced", data: { recipient: "Carol@remote.example", hard, detail: reply } },
    ]);
    expect(sender.suppressed()).toEqual(hard ? [["carol@remote.example", "hard bounce"]] : []);
    expect(sender.states(message)).toEqual({ "Carol@remote.example": "bounced" });
    expect(sender.deliveredAt(message)).toBeNull();
    const [notice, ...more] = sender.notices(message);
    expect(more).toEqual([]);
    expect(notice?.text).toContain(`Carol <Carol@remote.example>\n    ${reply}\n    mx.remote.example refused it`);
    expect(notice?.text.includes("suppressed")).toBe(hard);
  });

  test("one notice for all refused recipients is filed in the conversation, and is not sent", async () => {
    const sender = createSender();
    const { alice, store, core } = sender;
    const message = await sender.sent({
      to: "carol@remote.example, dave@remote.example",
      cc: "frank@remote.example, grace@remote.example",
      subject: "Mañana",
    });
    const before = sender.thread(message.threadId);
    expect(before).toMatchObject({ folder: "sent", unread: false, messageCount: 1 });
    sender.runtime.advanceTo(START + 3 * 60_000);
    await sender.attempt(
      results({
        "carol@remote.example": REFUSED,
        "frank@remote.example": said("550 5.7.1 Not welcome"),
        "grace@remote.example": DEFERRED,
      }),
    );
    expect(sender.told().map(briefly)).toEqual([
      "delivered dave@remote.example",
      "bounced carol@remote.example hard",
      "bounced frank@remote.example",
    ]);
    expect(sender.events().filter(({ event }) => event === "message.inbound")).toEqual([]);
    expect(sender.suppressed().map(([address]) => address)).toEqual(["carol@remote.example"]);

    const { thread, messages } = getThread(core, alice, message.threadId, { html: true });
    expect(thread).toEqual({
      ...before,
      folder: "inbox",
      unread: true,
      messageCount: 2,
      hasAttachments: true,
      lastMessageAt: new Date(START + 3 * 60_000).toISOString(),
      snippet: thread.snippet,
    });
    const [sent, notice] = messages;
    expect(sent?.deliveredAt).toBe(new Date(START + 3 * 60_000).toISOString());
    expect(notice).toMatchObject({
      direction: "inbound",
      from: { email: "postmaster@example.test", name: "Mail Delivery System" },
      to: [{ email: "alice@example.test" }],
      cc: [],
      subject: "Not delivered: Mañana",
      read: false,
    });
    expect(notice?.text).toContain(
      'Your message "Mañana", sent on 2026-01-05 09:00 UTC, did not reach:\n\ncarol@remote.example',
    );
    expect(notice?.text).toContain(HOSTNAME);
    for (const recipient of ["dave@remote.example", "grace@remote.example"]) {
      expect(notice?.text).not.toContain(recipient);
    }

    const raw = Buffer.from(await getRawMessage(core, alice, notice?.id ?? "")).toString();
    expect(raw).toContain(`In-Reply-To: ${message.messageId}\r\n`);
    expect(raw).toContain(`References: ${message.messageId}\r\n`);
    expect(raw).toContain("Auto-Submitted: auto-replied\r\n");
    const [status = "", header = ""] = await attachmentsOf(sender, notice);
    expect(status).toContain(`Reporting-MTA: dns; ${HOSTNAME}`);
    expect(status.match(/^Final-Recipient: .*/gm)).toEqual([
      "Final-Recipient: rfc822; carol@remote.example",
      "Final-Recipient: rfc822; frank@remote.example",
    ]);
    expect(status).toContain("Diagnostic-Code: smtp; 550 5.1.1 No such user");
    expect(header).toContain(`Message-ID: ${message.messageId}`);
    // Only the entry of grace is left to be sent.
    expect(
      store.db
        .select()
        .from(queueEntries)
        .where(eq(queueEntries.state, "waiting"))
        .all()
        .map(({ recipient }) => recipient),
    ).toEqual(["grace@remote.example"]);
  });

  test("a notice takes a conversation out of the trash, but not out of spam", async () => {
    for (const folder of ["spam", "trash"] as const) {
      const sender = createSender();
      const message = await sender.sent({ to: "carol@remote.example" });
      updateThread(sender.core, sender.alice, message.threadId, { folder });
      await sender.attempt(() => REFUSED);
      expect(sender.thread(message.threadId).folder).toBe(folder === "spam" ? "spam" : "inbox");
      expect(sender.notices(message)).toHaveLength(1);
    }
  });
});

describe("Bcc", () => {
  /** All texts about the outcome that webhooks and readers other than Alice get. */
  async function everythingTold(sender: Sender, threadId: string): Promise<string> {
    const { core, workspaceId, user } = sender;
    const admin = user(workspaceId, "admin@example.test", "admin");
    const detail = getThread(core, admin, threadId, { html: true });
    const raws = await Promise.all(detail.messages.map(({ id }) => getRawMessage(core, admin, id)));
    const attached = await Promise.all(detail.messages.map((message) => attachmentsOf(sender, message)));
    const texts = [...raws.map((raw) => Buffer.from(raw).toString()), ...attached.flat()];
    return [JSON.stringify(detail), JSON.stringify(sender.events()), ...texts].join("\n").toLowerCase();
  }

  const HIDDEN = "grace.hopper@hidden.example";
  const HIDDEN_REMOTE = "mx7.hosting.example";

  test.each<[name: string, results: Record<string, DeliveryResult>, shown: string[]]>([
    [
      "both are refused",
      {
        "carol@remote.example": REFUSED,
        [HIDDEN]: said(`550 5.1.1 <${HIDDEN}> is unknown here, says ${HIDDEN_REMOTE}`, HIDDEN_REMOTE),
      },
      ["550 5.1.1 No such user", "a Bcc recipient"],
    ],
    [
      "the reply for another recipient names them",
      {
        "carol@remote.example": said(`550 5.7.1 Rejected: sent to ${HIDDEN.toUpperCase()} as well`),
        [HIDDEN]: said("550 5.7.1 Rejected"),
      },
      ["550 5.7.1 (text not shown)"],
    ],
    [
      "so does the name of the server that replied",
      { "carol@remote.example": said("550 5.7.1 Rejected", "mx.hidden.example"), [HIDDEN]: said("550 5.7.1 Rejected") },
      ["550 5.7.1 Rejected", "It was refused at the first attempt."],
    ],
    [
      "they alone are refused",
      { [HIDDEN]: said(`550 5.1.1 ${HIDDEN} is unknown`, HIDDEN_REMOTE) },
      ["a Bcc recipient"],
    ],
  ])("%s", async (_name, given, shown) => {
    const sender = createSender();
    const message = await sender.sent({ to: "carol@remote.example", bcc: `Grace <${HIDDEN}>` });
    await sender.attempt(results(given));
    const told = await everythingTold(sender, message.threadId);
    for (const form of [...formsOf(HIDDEN), HIDDEN_REMOTE]) expect(told).not.toContain(form);
    const [notice] = sender.notices(message);
    for (const text of shown) expect(notice?.text).toContain(text);
    const bounced = sender.told().filter(({ event }) => event === "message.bounced");
    expect(bounced.map(({ data }) => data.recipient)).toEqual(Object.keys(given).filter((to) => to !== HIDDEN));
    expect(sender.states(message)[HIDDEN]).toBe("bounced");
  });

  test("a hard bounce suppresses the address, without an announcement", async () => {
    const sender = createSender();
    const message = await sender.sent({ bcc: `${HIDDEN}, Ivan@hidden.example` });
    await sender.attempt(() => said("550 5.1.1 No such user", HIDDEN_REMOTE));
    expect(sender.told()).toEqual([]);
    expect(sender.suppressed().map(([address]) => address)).toEqual([HIDDEN, "ivan@hidden.example"]);
    const [notice] = sender.notices(message);
    expect(notice?.text).toContain("2 Bcc recipients");
    const [status] = await attachmentsOf(sender, notice);
    expect(status?.match(/^Final-Recipient: .*/gm)).toHaveLength(2);
    const told = await everythingTold(sender, message.threadId);
    for (const form of [...formsOf(HIDDEN), HIDDEN_REMOTE, "no such user"]) expect(told).not.toContain(form);
  });

  test("a bounce after the last retry names them no more than a refusal", async () => {
    const sender = createSender();
    sender.store.transact((tx) => sender.options.set(tx, "smtp.retrySeconds", "1"));
    const message = await sender.sent({ to: "carol@remote.example", bcc: HIDDEN });
    const defer = () => said(`450 4.7.1 Greylisted: ${HIDDEN}`, HIDDEN_REMOTE);
    await sender.attempt(defer);
    sender.runtime.advanceTo(START + 1_000);
    await sender.attempt(defer);
    const told = await everythingTold(sender, message.threadId);
    for (const form of formsOf(HIDDEN)) expect(told).not.toContain(form);
    expect(sender.notices(message)[0]?.text).toContain("last reply: 450 4.7.1 (text not shown)");
  });
});

describe("without a conversation to file the notice in", () => {
  const rest = (sender: Sender) => ({ told: sender.told().map(briefly), suppressed: sender.suppressed().length });
  const REST = { told: ["bounced carol@remote.example hard"], suppressed: 1 };

  test.each<[what: string, remove: (sender: Sender) => void]>([
    ["conversation", ({ store }) => store.transact((tx) => tx.delete(threads).run())],
    [
      "mailbox",
      ({ store }) =>
        store.transact((tx) => {
          tx.delete(threads).run();
          tx.delete(mailboxes).run();
        }),
    ],
  ])("the %s is gone: the rest is recorded", async (_what, remove) => {
    const sender = createSender();
    const message = await sender.sent({ to: "carol@remote.example" });
    remove(sender);
    await sender.attempt(() => REFUSED);
    expect(rest(sender)).toEqual(REST);
    expect(sender.states(message)).toEqual({ "carol@remote.example": "bounced" });
    expect(sender.lines.map(({ message }) => message)).toEqual(["no bounce notice: the conversation is gone"]);
  });

  test("removed while the notice was made: the rest is recorded", async () => {
    const sender = createSender();
    await sender.sent({ to: "carol@remote.example" });
    const claim = sender.lease();
    if (claim === undefined) throw new Error("nothing is due");
    const conclude = await concludeAttempt(sender.core, claim, [REFUSED]);
    sender.store.transact((tx) => {
      tx.delete(threads).run();
      conclude(tx);
    });
    expect(rest(sender)).toEqual(REST);
    expect(sender.store.db.select().from(threads).all()).toEqual([]);
  });

  test("a notice that cannot be written: the rest is recorded", async () => {
    const refuse = () => Promise.reject(Object.assign(new Error("disk full"), { code: "ENOSPC" }));
    const full = { write: refuse, keep: refuse };
    const sender = createSender(({ blobs }) => ({ blobs: { ...blobs, ...full } }));
    const message = await sender.sent({ to: "carol@remote.example" });
    await sender.attempt(() => REFUSED);
    expect(rest(sender)).toEqual(REST);
    expect(sender.notices(message)).toEqual([]);
    expect(sender.lines.map(({ level, message }) => [level, message])).toEqual([
      ["error", "a notice to the sender cannot be made"],
    ]);
  });
});

test("an outcome that is rolled back and run again is recorded once", async () => {
  const sender = createSender();
  const message = await sender.sent({ to: "carol@remote.example, dave@remote.example" });
  const claim = sender.lease();
  if (claim === undefined) throw new Error("nothing is due");
  const conclude = await concludeAttempt(sender.core, claim, [ACCEPTED, REFUSED]);
  expect(() =>
    sender.store.transact((tx) => {
      conclude(tx);
      throw new Error("no room in this commit");
    }),
  ).toThrow("no room");
  expect(sender.told()).toEqual([]);
  expect(sender.deliveredAt(message)).toBeNull();
  sender.store.transact((tx) => conclude(tx));
  expect(sender.told().map(briefly)).toEqual(["delivered carol@remote.example", "bounced dave@remote.example hard"]);
  expect(sender.notices(message)).toHaveLength(1);
  expect(sender.states(message)).toEqual({ "carol@remote.example": "delivered", "dave@remote.example": "bounced" });
});
