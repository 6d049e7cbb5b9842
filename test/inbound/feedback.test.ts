import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import type { Authentication } from "../../src/authentication/dmarc.ts";
import { getThread } from "../../src/mailbox/changing/threads.ts";
import { listThreads } from "../../src/mailbox/reading/listing.ts";
import { getAttachment } from "../../src/mailbox/reading/messages.ts";
import { concludeAttempt } from "../../src/outbound/outcome.ts";
import { addOutbound, type OutboundMessage, setEntriesDelivered } from "../../src/outbound/queue.ts";
import { addresses, events, mailboxes, outboundMessages, queueEntries, threads } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { heldReply, START } from "../harness/runtime.ts";
import { listenForMailbox } from "../harness/servers/mx-rig.ts";
import { formsOf, said } from "../harness/servers/sent.ts";
import { createReceiver, from, UNCHECKED } from "./feedback-rig.ts";

interface Reported {
  recipient: string;
  original?: string;
  action?: string;
  status?: string;
  diagnostic?: string;
}

interface Dsn {
  to?: string;
  /** Message-ID of the returned message. */
  messageId?: string;
  returnPath?: string;
  recipients: Reported[];
  text?: string;
}

const lines = (...parts: (string | string[])[]): string => parts.flat().join("\n");

/** A delivery status notification as servers write it (RFC 3464). */
function dsn({ to = "alice@example.test", messageId, returnPath, recipients, text = "It failed." }: Dsn): string {
  return lines(
    "From: MAILER-DAEMON@mx.remote.example (Mail Delivery System)",
    `To: ${to}`,
    "Subject: Undelivered Mail Returned to Sender",
    "Message-ID: <dsn-1@mx.remote.example>",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=delivery-status; boundary="part"',
    "",
    "--part",
    "Content-Type: text/plain",
    "",
    text,
    "",
    "--part",
    "Content-Type: message/delivery-status",
    "",
    "Reporting-MTA: dns; mx.remote.example",
    "",
    recipients.flatMap(({ recipient, original, action = "failed", status = "5.1.1", diagnostic }) => [
      ...(original === undefined ? [] : [`Original-Recipient: rfc822; ${original}`]),
      `Final-Recipient: rfc822; ${recipient}`,
      `Action: ${action}`,
      `Status: ${status}`,
      ...(diagnostic === undefined ? [] : [`Diagnostic-Code: smtp; ${diagnostic}`]),
      "",
    ]),
    "--part",
    "Content-Type: text/rfc822-headers",
    "",
    ...(returnPath === undefined ? [] : [`Return-Path: <${returnPath}>`]),
    ...(messageId === undefined ? [] : [`Message-ID: ${messageId}`]),
    "From: Alice <alice@example.test>",
    "Subject: Lunch",
    "",
    "--part--",
    "",
  );
}

/** A feedback report as providers write it (RFC 5965). */
function arf(given: { type?: string; messageId?: string; mailFrom?: string; recipients?: string[] }): string {
  const { type = "abuse", messageId, mailFrom, recipients = [] } = given;
  return lines(
    "From: Feedback loop <fbl@provider.example>",
    "To: abuse@example.test",
    "Subject: FW: Lunch",
    "Message-ID: <arf-1@provider.example>",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=feedback-report; boundary="part"',
    "",
    "--part",
    "Content-Type: text/plain",
    "",
    "This is an email abuse report.",
    "",
    "--part",
    "Content-Type: message/feedback-report",
    "",
    `Feedback-Type: ${type}`,
    "User-Agent: Provider/1.0",
    "Version: 1",
    ...(mailFrom === undefined ? [] : [`Original-Mail-From: <${mailFrom}>`]),
    recipients.map((recipient) => `Original-Rcpt-To: <${recipient}>`),
    "",
    "--part",
    "Content-Type: message/rfc822",
    "",
    ...(messageId === undefined ? [] : [`Message-ID: ${messageId}`]),
    "From: Alice <alice@example.test>",
    "Subject: Lunch",
    "",
    "How are you?",
    "--part--",
    "",
  );
}

const UNTOUCHED = { told: [], suppressed: [], notices: 0, deliveredAt: START };
const REPORT = "alice@example.test: Undelivered Mail Returned to Sender";
const COMPLAINT = "alice@example.test: FW: Lunch";

describe("a delivery report", () => {
  const failed = { recipient: "carol@remote.example", diagnostic: "550 5.1.1 No such user" };

  test.each<[name: string, report: (message: OutboundMessage) => Dsn, to: (message: OutboundMessage) => string]>([
    ["at the return path", () => ({ recipients: [failed] }), ({ returnPath }) => returnPath],
    ["at the return path, shouting", () => ({ recipients: [failed] }), ({ returnPath }) => returnPath.toUpperCase()],
    [
      "at the return path, with another Message-ID",
      () => ({ recipients: [failed], messageId: "<rewritten@remote.example>" }),
      ({ returnPath }) => returnPath,
    ],
    [
      "at the address it is from, returning the return path",
      ({ returnPath }) => ({ recipients: [failed], returnPath }),
      () => "alice@example.test",
    ],
    [
      "at the address it is from, returning the Message-ID",
      ({ messageId }) => ({ recipients: [failed], messageId }),
      () => "alice@example.test",
    ],
    [
      "about the recipient as addressed, now elsewhere",
      () => ({ recipients: [{ ...failed, recipient: "c.jones@inside.example", original: "Carol@Remote.example" }] }),
      ({ returnPath }) => returnPath,
    ],
  ])("%s: recorded as bounced, and announced once", async (_name, report, to) => {
    const { delivered, receive, traces, came, runtime, notices } = createReceiver(from("remote.example"));
    await delivered({ to: "carol@remote.example", subject: "Another" });
    const message = await delivered({ to: "Carol <carol@remote.example>, dave@remote.example" });
    runtime.advanceTo(START + 3_600_000);
    for (let time = 0; time < 3; time++) {
      expect(await receive(dsn(report(message)), { to: [to(message)] })).toEqual([]);
      expect(traces(message)).toEqual({
        told: [
          {
            event: "message.bounced",
            data: {
              emailId: message.id,
              threadId: message.threadId,
              messageId: message.messageId,
              mailbox: "alice@example.test",
              recipient: "carol@remote.example",
              hard: true,
              detail: "550 5.1.1 No such user",
            },
          },
        ],
        suppressed: [["carol@remote.example", "hard bounce"]],
        states: { "carol@remote.example": "bounced", "dave@remote.example": "delivered" },
        deliveredAt: START,
        notices: 1,
      });
    }
    expect(notices(message)[0]?.text).toContain(
      "Carol <carol@remote.example>\n    550 5.1.1 No such user\n    A server had accepted",
    );
    expect(came()).toEqual([]);
  });

  test.each<[action: string, status: string]>([
    ["delayed", "4.4.1"],
    ["delivered", "2.0.0"],
    ["relayed", "2.0.0"],
    ["expanded", "2.0.0"],
  ])("%s changes nothing, and is filed like other mail", async (action, status) => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const recipients = [{ recipient: "carol@remote.example", action, status }];
    expect(await receive(dsn({ recipients }), { to: [message.returnPath] })).toHaveLength(1);
    expect(traces(message)).toEqual({ ...UNTOUCHED, states: { "carol@remote.example": "delivered" } });
    expect(came()).toEqual([REPORT]);
  });

  test.each<[status: string, diagnostic: string, hard: boolean]>([
    ["5.1.1", "550 5.1.1 No such user", true],
    ["5.2.1", "550 5.2.1 Disabled", true],
    ["5.2.2", "552 5.2.2 Mailbox is full", false],
    ["5.7.1", "550 5.7.1 Not welcome", false],
    ["5.1.8", "550 5.1.8 Sender's domain does not exist", false],
    ["4.4.7", "Message expired", false],
  ])("%s", async (status, diagnostic, hard) => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const recipients = [{ recipient: "carol@remote.example", status, diagnostic }];
    await receive(dsn({ recipients }), { to: [message.returnPath] });
    const { told, suppressed, notices } = traces(message);
    expect(told).toMatchObject([{ event: "message.bounced", data: { hard, detail: diagnostic } }]);
    expect(suppressed).toEqual(hard ? [["carol@remote.example", "hard bounce"]] : []);
    expect(notices).toBe(1);
  });

  test.each<[reply: string, text: string, hard: boolean]>([
    [
      "550 no such user",
      "<carol@remote.example>: host mx said: 550 no such user (in\n    reply to RCPT TO command)",
      true,
    ],
    ["552 quota", "<carol@remote.example>: host mx said: 552 quota (in reply to RCPT TO\n    command)", false],
    ["550 5.0.0 no", "<carol@remote.example>: host mx said: 550 5.0.0 no (in reply to RCPT TO command)", false],
    ["550 spam", "<carol@remote.example>: host mx said: 550 spam (in reply to end of DATA command)", false],
    ["450 later", "<carol@remote.example>: host mx said: 450 later (in reply to RCPT TO command)", false],
    [
      "550 no such user",
      "  carol@remote.example\n    SMTP error from remote mail server after RCPT TO:<carol@remote.example>:\n    host mx: 550 no such user",
      true,
    ],
    [
      "550 no such user",
      ">>> RCPT To:<carol@remote.example>\n<<< 550 no such user\n550 carol@remote.example... no",
      true,
    ],
    ["550 spam", ">>> RCPT To:<carol@remote.example>\n<<< 250 ok\n>>> DATA\n<<< 550 spam", false],
    [
      "550 no such user",
      "<carol@remote.example>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 no such user",
      true,
    ],
  ])("with a bare %s gives %j", async (diagnostic, text, hard) => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const recipients = [{ recipient: "carol@remote.example", status: "5.0.0", diagnostic }];
    await receive(dsn({ recipients, text }), { to: [message.returnPath] });
    expect(traces(message).told).toMatchObject([{ event: "message.bounced", data: { hard, detail: diagnostic } }]);
  });

  test("that comes before the server's reply is recorded is deferred, and counts when it comes again", async () => {
    const { sent, lease, core, receive, traces, store, came } = createReceiver();
    const message = await sent({ to: "carol@remote.example" });
    const leased = lease();
    if (leased === undefined) throw new Error("nothing is due");
    const report = dsn({ recipients: [{ recipient: "carol@remote.example" }] });
    expect(await receive(report, { to: [message.returnPath] })).toMatch(/^451 4\.3\.0 /);
    expect(came()).toEqual([]);
    const conclude = await concludeAttempt(core, leased, [said("250 2.0.0 queued")]);
    store.transact((tx) => conclude(tx));
    await receive(report, { to: [message.returnPath] });
    expect(traces(message)).toMatchObject({ notices: 1, states: { "carol@remote.example": "bounced" } });
  });

  test("is deferred while the message is being sent, whether it names a Bcc recipient or somebody else", async () => {
    const { sent, lease, receive, came } = createReceiver();
    const message = await sent({ to: "carol@remote.example", bcc: "dave@remote.example" });
    expect(lease()).toBeDefined();
    const replyTo = (recipient: string) =>
      receive(dsn({ recipients: [{ recipient, action: "delayed" }] }), { to: [message.returnPath] });
    const replies = [await replyTo("dave@remote.example"), await replyTo("erin@remote.example")];
    expect(replies).toEqual(Array(2).fill(expect.stringMatching(/^451 4\.3\.0 /)));
    expect(came()).toEqual([]);
  });

  test("announces each recipient once, when a report first names it", async () => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example, dave@remote.example, frank@remote.example" });
    const failures = (...names: string[]) => ({
      recipients: names.map((name) => ({ recipient: `${name}@remote.example` })),
    });
    await receive(dsn(failures("carol")), { to: [message.returnPath] });
    await receive(dsn(failures("carol", "dave", "dave")), { to: [message.returnPath] });
    const { told, states, notices } = traces(message);
    expect(told.map(({ data }) => data.recipient)).toEqual(["carol@remote.example", "dave@remote.example"]);
    expect(Object.values(states)).toEqual(["bounced", "bounced", "delivered"]);
    expect(notices).toBe(2);
  });

  test("of a failure that the sender wants not to be told of counts, and is not told", async () => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example", notify: "NEVER" });
    expect(await receive(dsn({ recipients: [failed] }), { to: [message.returnPath] })).toEqual([]);
    expect(traces(message)).toMatchObject({
      told: [{ event: "message.bounced", data: { hard: true } }],
      states: { "carol@remote.example": "bounced" },
      notices: 0,
    });
    expect(came()).toEqual([]);
  });

  test("of success is filed with the sender of the message", async () => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example", notify: "SUCCESS" });
    const delivery = dsn({ recipients: [failed] })
      .toString()
      .replace("Action: failed", "Action: delivered");
    expect(await receive(delivery, { to: [message.returnPath] })).toHaveLength(1);
    expect(traces(message)).toMatchObject({ states: { "carol@remote.example": "delivered" } });
    expect(came()).toHaveLength(1);
  });

  test("counts once for each of the messages that share a Message-ID", async () => {
    const { delivered, receive, states } = createReceiver(from("remote.example"));
    const messageId = "<again@example.test>";
    const messages = [
      await delivered({ to: "dave@remote.example", messageId }),
      await delivered({ to: "carol@remote.example", messageId }),
      await delivered({ to: "carol@remote.example", messageId }),
    ];
    const seen: string[] = [];
    for (let time = 0; time < 3; time++) {
      await receive(dsn({ recipients: [failed], messageId }), { to: ["alice@example.test"] });
      seen.push(messages.flatMap((message) => Object.values(states(message))).join(" "));
    }
    expect(seen).toEqual(["delivered bounced delivered", "delivered bounced bounced", "delivered bounced bounced"]);
  });

  test("two copies at the same moment count once", async () => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const report = dsn({ recipients: [failed] });
    await Promise.all([receive(report, { to: [message.returnPath] }), receive(report, { to: [message.returnPath] })]);
    const { told, notices } = traces(message);
    expect([told.length, notices]).toEqual([1, 1]);
  });

  test("is filed for its other recipients, and not for the sender of the message", async () => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const to = ["bob@example.test", message.returnPath, "alice@example.test"];
    expect(await receive(dsn({ recipients: [failed] }), { to })).toHaveLength(1);
    expect(came()).toEqual(["bob@example.test: Undelivered Mail Returned to Sender"]);
    expect(traces(message).notices).toBe(1);
  });

  test("counts even when the mailbox is gone", async () => {
    const { delivered, receive, store, suppressed, told, states } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    store.transact((tx) => {
      tx.delete(threads).run();
      tx.delete(addresses).where(eq(addresses.address, "alice@example.test")).run();
      tx.delete(mailboxes).where(eq(mailboxes.address, "alice@example.test")).run();
    });
    expect(await receive(dsn({ recipients: [failed] }), { to: [message.returnPath] })).toEqual([]);
    expect(told().at(-1)).toMatchObject({ event: "message.bounced" });
    expect(suppressed()).toHaveLength(1);
    expect(states(message)).toEqual({ "carol@remote.example": "bounced" });
    // Other mail is then refused.
    expect(await receive("Subject: Away\n\nUntil Monday.\n", { to: [message.returnPath] })).toBe(
      "550 5.1.1 No such mailbox here",
    );
  });

  test("counts also without a notification part", async () => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    const bounce = lines(
      "From: MAILER-DAEMON@mx.remote.example",
      "To: alice@example.test",
      "Subject: failure notice",
      "",
      "Hi. This is the qmail-send program at mx.remote.example.",
      "I'm afraid I wasn't able to deliver your message to the following addresses.",
      "This is a permanent error; I've given up. Sorry it didn't work out.",
      "",
      "<carol@remote.example>:",
      "Sorry, no mailbox here by that name. (#5.1.1)",
      "",
      "--- Below this line is a copy of the message.",
      "",
      `Return-Path: <${message.returnPath}>`,
      `Message-ID: ${message.messageId}`,
      "Subject: Lunch",
      "",
      "How are you?",
      "",
    );
    expect(await receive(bounce, { to: [message.returnPath] })).toEqual([]);
    expect(traces(message)).toMatchObject({
      told: [{ event: "message.bounced", data: { recipient: "carol@remote.example", hard: true } }],
      states: { "carol@remote.example": "bounced" },
    });
  });
});

describe("a bounce that names nobody", () => {
  const bounce = ({ messageId }: OutboundMessage) =>
    lines(
      "From: MAILER-DAEMON@mx.remote.example",
      "Subject: failure notice",
      "",
      "550 5.1.1 There is nobody of that name.",
      "",
      "From: alice@example.test",
      "To: carol@remote.example",
      "Subject: Lunch",
      `Message-ID: ${messageId}`,
      "",
    );

  test("counts for the only recipient, and suppresses nobody", async () => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    await receive(bounce(message), { to: [message.returnPath] });
    const { told, suppressed } = traces(message);
    expect(told).toMatchObject([{ data: { recipient: "carol@remote.example", hard: false } }]);
    expect(suppressed).toEqual([]);
  });

  test.each([{ cc: "dave@remote.example" }, { bcc: "dave@remote.example" }])(
    "changes nothing where another may be meant: %j",
    async (others) => {
      const { delivered, receive, traces } = createReceiver();
      const message = await delivered({ to: "carol@remote.example", ...others });
      const filed = await receive(bounce(message), { to: [message.returnPath] });
      const states = { "carol@remote.example": "delivered", "dave@remote.example": "delivered" };
      expect(traces(message)).toEqual({ ...UNTOUCHED, states });
      // It may be about the Bcc recipient.
      expect(filed).toHaveLength("bcc" in others ? 0 : 1);
    },
  );
});

describe("a forged report", () => {
  const carol = { recipient: "carol@remote.example" };
  const UNKNOWN = `bounce+${"x".repeat(26)}@example.test`;

  test.each<[name: string, mail: (message: OutboundMessage) => string, to?: (message: OutboundMessage) => string]>([
    ["a return path that is in none of our messages", () => dsn({ recipients: [carol], returnPath: UNKNOWN })],
    ["a Message-ID of no message of ours", () => dsn({ recipients: [carol], messageId: "<guess@example.test>" })],
    ["no sign of a message at all", () => dsn({ recipients: [carol] })],
    [
      "the right return path and somebody we never wrote to",
      () => dsn({ recipients: [{ recipient: "mallory@remote.example", original: "carol+x@remote.example" }] }),
      ({ returnPath }) => returnPath,
    ],
    [
      "the right Message-ID and somebody we never wrote to",
      ({ messageId }) => dsn({ recipients: [{ recipient: "carol@remote.example.test" }], messageId }),
    ],
    [
      "a complaint with the Message-ID of no message of ours",
      () => arf({ messageId: "<guess@example.test>", recipients: ["carol@remote.example"] }),
    ],
    [
      "a complaint by somebody we never wrote to",
      ({ messageId }) => arf({ messageId, recipients: ["mallory@remote.example"] }),
    ],
    ["a complaint by nobody", () => arf({})],
    [
      "a complaint of a return path by somebody we never wrote to",
      ({ returnPath }) => arf({ mailFrom: returnPath, recipients: ["mallory@remote.example"] }),
    ],
  ])("%s: changes nothing, and is filed like other mail", async (_name, mail, to = () => "alice@example.test") => {
    const { delivered, receive, traces, came } = createReceiver(from("remote.example"));
    const message = await delivered({ to: "carol@remote.example" });
    expect(await receive(mail(message), { to: [to(message)] })).toHaveLength(1);
    expect(traces(message)).toEqual({ ...UNTOUCHED, states: { "carol@remote.example": "delivered" } });
    expect([[REPORT], [COMPLAINT]]).toContainEqual(came());
  });

  const FORGERIES: [name: string, mail: (message: OutboundMessage) => string, came: string][] = [
    ["a bounce by the Message-ID", ({ messageId }) => dsn({ recipients: [carol], messageId }), REPORT],
    ["a bounce that quotes the return path", ({ returnPath }) => dsn({ recipients: [carol], returnPath }), REPORT],
    ["a complaint by the Message-ID", ({ messageId }) => arf({ messageId, recipients: [carol.recipient] }), COMPLAINT],
    ["a complaint that quotes the return path", ({ returnPath }) => arf({ mailFrom: returnPath }), COMPLAINT],
  ];

  test.each(FORGERIES)(
    "%s, from nobody known: nothing changes, and it is mail like any other",
    async (_name, mail, filed) => {
      const { delivered, receive, traces, came, authenticateAs } = createReceiver();
      let count = 0;
      for (const organizations of [
        [],
        ["attacker.example"],
        ["mote.example"],
        ["sub.remote.example"],
        ["mx.attacker.example"],
      ]) {
        authenticateAs(from(...organizations));
        const message = await delivered({ to: "carol@remote.example" });
        expect(await receive(mail(message), { to: ["alice@example.test"] })).toHaveLength(1);
        expect(traces(message)).toEqual({ ...UNTOUCHED, states: { "carol@remote.example": "delivered" } });
        expect(came()).toEqual(Array(++count).fill(filed));
      }
    },
  );

  test.each(FORGERIES)("%s, from the recipient's domain or the host that accepted it, counts", async (_name, mail) => {
    const { delivered, receive, events, suppressed, authenticateAs } = createReceiver();
    const counted: string[] = [];
    const senders = ["custom.example", "mail.custom.example", "remote.example", "mx.remote.example"];
    for (const [i, organization] of senders.entries()) {
      authenticateAs(from("elsewhere.example", organization));
      const recipient = `carol.${i}@mail.custom.example`;
      const message = await delivered({ to: recipient });
      await receive(mail(message).replaceAll(carol.recipient, recipient), { to: ["alice@example.test"] });
      counted.push(recipient);
      const told = events().filter(({ event }) => /^message\.(bounced|complaint)$/.test(event));
      expect(told.map(({ data }) => data.recipient)).toEqual(counted);
      expect(suppressed()).toHaveLength(counted.length);
    }
  });

  test("a report that is believed for one recipient alone counts for that one, and is filed as well", async () => {
    const { delivered, receive, traces, came } = createReceiver(from("other.example"));
    const message = await delivered({ to: "carol@remote.example, dave@other.example" });
    const recipients = [carol, { recipient: "dave@other.example" }];
    expect(
      await receive(dsn({ recipients, messageId: message.messageId }), { to: ["alice@example.test"] }),
    ).toHaveLength(1);
    expect(traces(message)).toMatchObject({
      suppressed: [["dave@other.example", "hard bounce"]],
      states: { "carol@remote.example": "delivered", "dave@other.example": "bounced" },
    });
    expect(came()).toEqual([REPORT]);
  });

  test("a report that is not believed does not learn whether an attempt is under way", async () => {
    const { sent, lease, receive, came } = createReceiver();
    const { messageId } = await sent({ to: "carol@remote.example" });
    lease();
    expect(await receive(dsn({ recipients: [carol], messageId }), { to: ["alice@example.test"] })).toHaveLength(1);
    expect(came()).toEqual([REPORT]);
  });

  test("RCPT to an unknown return path is refused", async () => {
    const { receive, came, delivered } = createReceiver();
    await delivered({ to: "carol@remote.example" });
    for (const to of [UNKNOWN, "bounce+@example.test", "bounce+x@example.test", "bounce@example.test"]) {
      expect(await receive(dsn({ recipients: [carol] }), { to: [to] })).toBe("550 5.1.1 No such mailbox here");
    }
    expect(came()).toEqual([]);
  });

  test("mail that no other server has accepted cannot bounce later", async () => {
    const { sent, attempt, receive, traces, came, store, runtime } = createReceiver();
    const message = await sent({ to: "carol@remote.example" });
    const untouched = { ...UNTOUCHED, deliveredAt: null };
    const reports = [dsn({ recipients: [carol] }), arf({ recipients: ["carol@remote.example"] })];
    for (const report of reports) await receive(report, { to: [message.returnPath] });
    expect(traces(message)).toEqual({ ...untouched, states: { "carol@remote.example": "waiting" } });
    await attempt(() => said("450 4.2.0 Try again later"));
    const later = reports.map((report) => report.replace("Message-ID: <", "Message-ID: <later-"));
    for (const report of later) await receive(report, { to: [message.returnPath] });
    expect(traces(message)).toEqual({ ...untouched, states: { "carol@remote.example": "waiting" } });
    expect(came()).toHaveLength(4);

    runtime.advanceTo(START + 60_000);
    await attempt(() => said("550 5.7.1 Not welcome"));
    const refused = traces(message);
    expect(refused).toMatchObject({ notices: 1, suppressed: [], states: { "carol@remote.example": "bounced" } });
    for (const report of reports) await receive(report, { to: [message.returnPath] });
    expect(traces(message)).toEqual(refused);
    expect(store.db.select().from(outboundMessages).all()).toEqual([message]);
  });

  test("no other server can report on mail that stayed here", async () => {
    const { delivered, receive, traces } = createReceiver();
    const message = await delivered({ to: "bob@example.test, carol@remote.example" });
    const recipients = [{ recipient: "bob@example.test" }];
    await receive(dsn({ recipients }), { to: [message.returnPath] });
    await receive(arf({ recipients: ["bob@example.test"] }), { to: [message.returnPath] });
    expect(traces(message)).toEqual({
      ...UNTOUCHED,
      states: { "bob@example.test": "delivered", "carol@remote.example": "delivered" },
    });
  });
});

describe("a complaint", () => {
  const recipients = ["Carol@remote.example"];

  test.each<[name: string, report: (message: OutboundMessage) => string]>([
    ["by the Message-ID", ({ messageId }) => arf({ messageId, recipients })],
    ["by the return path", ({ returnPath }) => arf({ mailFrom: returnPath, recipients })],
    ["as fraud", ({ messageId }) => arf({ messageId, recipients, type: "Fraud" })],
    ["without a name, of one recipient", ({ messageId }) => arf({ messageId })],
  ])("%s: announced once, suppressed, and filed for its recipients", async (_name, report) => {
    const { delivered, receive, traces, came } = createReceiver(from("remote.example"));
    const message = await delivered({ to: "Carol <carol@remote.example>" });
    for (let time = 0; time < 2; time++) {
      await receive(report(message), { to: ["abuse@example.test"] });
      const { told, suppressed, states, notices } = traces(message);
      expect(told).toEqual([
        {
          event: "message.complaint",
          data: {
            emailId: message.id,
            threadId: message.threadId,
            messageId: message.messageId,
            mailbox: "alice@example.test",
            recipient: "carol@remote.example",
          },
        },
      ]);
      expect(suppressed).toEqual([["carol@remote.example", "complaint"]]);
      expect(states).toEqual({ "carol@remote.example": "complained" });
      expect(notices).toBe(0);
    }
    expect(came()).toEqual([COMPLAINT]);
  });

  test("at the return path is announced, and not filed", async () => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example, dave@remote.example" });
    expect(await receive(arf({ recipients }), { to: [message.returnPath] })).toEqual([]);
    expect(traces(message).told).toMatchObject([{ data: { recipient: "carol@remote.example" } }]);
    expect(came()).toEqual([]);
  });

  test.each<[name: string, to: string, report: (message: OutboundMessage) => string]>([
    [
      "without a name, of two recipients",
      "carol@remote.example, dave@remote.example",
      ({ messageId }) => arf({ messageId }),
    ],
    ["that it is no spam", "carol@remote.example", ({ messageId }) => arf({ messageId, recipients, type: "not-spam" })],
    ["of a signature", "carol@remote.example", ({ messageId }) => arf({ messageId, recipients, type: "auth-failure" })],
  ])("%s counts for no recipient, and is filed", async (_name, to, report) => {
    const { delivered, receive, traces, came } = createReceiver();
    const message = await delivered({ to });
    await receive(report(message), { to: ["abuse@example.test"] });
    const { states, ...rest } = traces(message);
    expect(rest).toEqual(UNTOUCHED);
    expect(new Set(Object.values(states))).toEqual(new Set(["delivered"]));
    expect(came()).toEqual([COMPLAINT]);
  });
});

describe("mail to a return path that is no report", () => {
  const reply = lines(
    "From: Carol <carol@remote.example>",
    "To: alice@example.test",
    "Subject: Away",
    "",
    "Until Monday.",
    "",
  );

  test("is filed with the sender of the message", async () => {
    const { delivered, receive, traces, came, events } = createReceiver();
    const message = await delivered({ to: "carol@remote.example", bcc: "grace@hidden.example" });
    expect(await receive(reply, { to: [message.returnPath] })).toHaveLength(1);
    expect(came()).toEqual(["alice@example.test: Away"]);
    expect(events().at(-1)?.data).toMatchObject({ mailbox: "alice@example.test" });
    expect(traces(message)).toMatchObject(UNTOUCHED);
  });

  test("is refused while the mailbox is full, after DATA only", async () => {
    const { delivered, receive, store, came } = createReceiver();
    const message = await delivered({ to: "carol@remote.example" });
    store.transact((tx) => tx.update(mailboxes).set({ quotaBytes: 0 }).run());
    expect(await receive(reply, { to: [message.returnPath] })).toBe("452 4.2.2 Mailbox is full");
    expect(
      await receive(dsn({ recipients: [{ recipient: "carol@remote.example" }] }), { to: [message.returnPath] }),
    ).toEqual([]);
    expect(came()).toEqual([]);
  });
});

describe("mail that fails DMARC, as unsigned bounces do", () => {
  const refused: Authentication = { ...UNCHECKED, policy: "reject" };
  const report = (messageId: string) => dsn({ messageId, recipients: [{ recipient: "carol@remote.example" }] });

  test("counts at the return path, which only receivers of our mail know", async () => {
    const { delivered, receive, states, came } = createReceiver(refused);
    const message = await delivered({ to: "carol@remote.example" });
    expect(await receive(report(message.messageId), { to: [message.returnPath] })).toEqual([]);
    expect(states(message)).toEqual({ "carol@remote.example": "bounced" });
    expect(came()).toEqual([]);
  });

  test("goes to spam there when it reports nothing", async () => {
    const { delivered, receive, events } = createReceiver(refused);
    const message = await delivered({ to: "carol@remote.example" });
    expect(await receive("From: x@remote.example\n\nAway.\n", { to: [message.returnPath] })).toHaveLength(1);
    expect(events().at(-1)?.data).toMatchObject({ mailbox: "alice@example.test", isSpam: true });
  });

  test("is refused at other addresses, and changes nothing", async () => {
    const { delivered, receive, traces } = createReceiver(refused);
    const message = await delivered({ to: "carol@remote.example" });
    expect(await receive(report(message.messageId), { to: ["alice@example.test"] })).toStartWith("550 5.7.1");
    expect(traces(message)).toMatchObject(UNTOUCHED);
  });
});

describe("Bcc", () => {
  const HIDDEN = "grace.hopper@hidden.example";
  const failed = { recipient: HIDDEN, diagnostic: `550 5.1.1 ${HIDDEN} is unknown` };
  const carolDelayed = { recipient: "carol@remote.example", action: "delayed", status: "4.4.1" };

  /** Tells whether a text that others read gives the recipient away. */
  async function givesAway({ core, bob, events }: ReturnType<typeof createReceiver>): Promise<boolean> {
    const { threads } = await listThreads(core, bob, { limit: 100, folder: "all" });
    const details = threads.map(({ id }) => getThread(core, bob, id, { html: true }));
    const attached = await Promise.all(
      details
        .flatMap(({ messages }) => messages)
        .flatMap(({ attachments }) =>
          attachments.map(async ({ id }) => (await getAttachment(core, bob, id)).content.text()),
        ),
    );
    const all = [JSON.stringify(details), JSON.stringify(events()), ...attached].join("\n").toLowerCase();
    return formsOf(HIDDEN).some((form) => all.includes(form));
  }

  test("the search for Bcc recipients finds them where they are shown", async () => {
    const receiver = createReceiver();
    await receiver.receive(dsn({ recipients: [failed] }), { to: ["alice@example.test"] });
    expect(await givesAway(receiver)).toBe(true);
  });

  test.each<
    [
      name: string,
      mail: (message: OutboundMessage) => string,
      to: (message: OutboundMessage) => string[],
      suppressed: boolean,
    ]
  >([
    ["a failure at the return path", () => dsn({ recipients: [failed] }), ({ returnPath }) => [returnPath], true],
    [
      "a failure at real mailboxes",
      ({ messageId }) => dsn({ recipients: [failed], messageId }),
      () => ["alice@example.test", "bob@example.test"],
      true,
    ],
    [
      "a failure with another's delay",
      () => dsn({ recipients: [carolDelayed, failed] }),
      ({ returnPath }) => [returnPath],
      true,
    ],
    [
      "a delay",
      () => dsn({ recipients: [{ ...failed, action: "delayed", status: "4.4.1" }] }),
      ({ returnPath }) => [returnPath],
      false,
    ],
    [
      "a failure where their mail is forwarded to",
      () => dsn({ recipients: [{ recipient: "gh@navy.example" }], text: `Forwarded by ${HIDDEN}` }),
      ({ returnPath }) => [returnPath],
      false,
    ],
    [
      "another's delay that names them",
      () => dsn({ recipients: [carolDelayed], text: `Also sent to ${HIDDEN}.` }),
      ({ returnPath }) => [returnPath],
      false,
    ],
    [
      "a bounce that cannot be read",
      () => lines("From: Gateway <gate@remote.example>", "Subject: Sorry", "", "We found no grace.hopper here.", ""),
      ({ returnPath }) => [returnPath],
      false,
    ],
    [
      "a complaint",
      ({ messageId }) => arf({ messageId, recipients: [HIDDEN] }),
      () => ["abuse@example.test", "bob@example.test"],
      true,
    ],
  ])("%s is not announced", async (_name, mail, to, suppressed) => {
    const receiver = createReceiver(from("hidden.example"));
    const message = await receiver.delivered({ to: "carol@remote.example", bcc: HIDDEN });
    expect(await receiver.receive(mail(message), { to: to(message) })).toEqual([]);
    expect(receiver.traces(message).told).toEqual([]);
    expect(receiver.suppressed().map(([address]) => address)).toEqual(suppressed ? [HIDDEN] : []);
    expect(receiver.came()).toEqual([]);
    expect(await givesAway(receiver)).toBe(false);
  });

  test("a failure of others beside them is announced, without them", async () => {
    const receiver = createReceiver();
    const message = await receiver.delivered({ to: "carol@remote.example", bcc: HIDDEN });
    const carol = {
      recipient: "carol@remote.example",
      diagnostic: `550 5.7.1 Blocked, as was ${HIDDEN}`,
      status: "5.7.1",
    };
    await receiver.receive(dsn({ recipients: [failed, carol] }), { to: [message.returnPath] });
    expect(receiver.traces(message)).toMatchObject({
      told: [{ data: { recipient: "carol@remote.example", hard: false, detail: "5.7.1 (text not shown)" } }],
      suppressed: [[HIDDEN, "hard bounce"]],
      states: { "carol@remote.example": "bounced", [HIDDEN]: "bounced" },
      notices: 1,
    });
    expect(receiver.notices(message)[0]?.text).toContain("a Bcc recipient");
    expect(await givesAway(receiver)).toBe(false);
  });

  test("a delay of others alone is filed like other mail, and so is mail that they write themselves", async () => {
    const receiver = createReceiver();
    const message = await receiver.delivered({ to: "carol@remote.example", bcc: HIDDEN });
    await receiver.receive(dsn({ recipients: [carolDelayed] }), { to: [message.returnPath] });
    const away = lines(
      `From: Grace <${HIDDEN}>`,
      "Subject: Away",
      "Auto-Submitted: auto-replied",
      "",
      "Until Monday.",
      "",
    );
    await receiver.receive(away, { to: [message.returnPath] });
    expect(receiver.came()).toEqual([REPORT, "alice@example.test: Away"]);
  });
});

test("over a socket: RCPT to the return path is accepted, and the report gets its reply", async () => {
  const { address, store, runtime } = await listenForMailbox();
  const returnPath = `bounce+${"7".repeat(26)}@example.test`;
  const sent = {
    id: "msg_1",
    workspaceId: "wsp_1",
    mailboxId: "mbx_alice",
    mailbox: "alice@example.test",
    threadId: "thr_1",
  };
  store.transact((tx) => {
    addOutbound(tx, {
      ...sent,
      messageId: "<sent@example.test>",
      subject: "Lunch",
      domain: "example.test",
      returnPath,
      acceptedAt: runtime.now(),
      outsideRecipients: 1,
      recipients: [{ id: "que_1", email: "carol@remote.example", field: "to" }],
      content: { bytes: new Uint8Array() },
    });
    const entries = tx.select().from(queueEntries).all();
    setEntriesDelivered(tx, entries, runtime.now(), "250 2.0.0 Ok");
  });
  const client = await connectSmtp(address);
  const report = dsn({ recipients: [{ recipient: "carol@remote.example" }] }).replaceAll("\n", "\r\n");
  const reply = await heldReply(runtime, client.deliver({ from: "", to: returnPath }, report));
  expect(reply).toMatchObject({ code: 250, lines: [expect.stringContaining("report taken")] });
  client.destroy();
  expect(store.db.select({ state: queueEntries.state }).from(queueEntries).all()).toEqual([{ state: "bounced" }]);
  expect(store.db.select({ event: events.event }).from(events).all()).toEqual([{ event: "message.bounced" }]);
});

test("ordinary mail makes no query of the queue", async () => {
  const { receive, store, came, delivered } = createReceiver();
  await delivered({ to: "carol@remote.example" });
  const asked: string[] = [];
  const client = store.db.$client;
  const prepare = client.prepare.bind(client);
  client.prepare = ((query: string, ...rest: []) => {
    asked.push(query);
    return prepare(query, ...rest);
  }) as typeof client.prepare;
  const letter = lines(
    "From: Carol <carol@remote.example>",
    "Subject: Re: Lunch",
    "In-Reply-To: <x@example.test>",
    "",
    "Yes.",
    "",
  );
  await receive(letter, { to: ["alice@example.test", "bob+bounce@example.test"] });
  expect(came()).toHaveLength(2);
  expect(asked.filter((query) => /outbound_|queue_/.test(query))).toEqual([]);
});
