/** Mail from people's mail apps: senders, recipients, and the message that reaches the pipeline, which is a fake. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { eq } from "drizzle-orm";
import { AppError, type ErrorCode, unavailable } from "../../src/base/errors.ts";
import { suppress } from "../../src/outbound/suppression.ts";
import { domains, mailboxes, workspaces } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { START } from "../harness/runtime.ts";
import { replaceableCertificates } from "../harness/servers/mx-rig.ts";
import {
  authPlain,
  brief,
  listenForSubmission,
  PASSWORD,
  type SubmissionRig,
} from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const letter = (header: string, body = "How are you?"): string => `${header}\r\nSubject: hello\r\n\r\n${body}`;
const FROM_BOB = letter("From: Bob <bob@example.test>\r\nTo: x@remote.example");

describe("MAIL", () => {
  test("accepts the person's own addresses, and those that they may send as", async () => {
    const table: [who: "alice" | "bob", reversePath: string, reply: string][] = [
      ["bob", "bob@example.test", "250 2.1.0"],
      ["bob", "BOB@Example.TEST", "250 2.1.0"],
      ["bob", "", "250 2.1.0"],
      ["bob", "shared@example.test", "250 2.1.0"],
      ["bob", "view@example.test", "553 5.7.1"],
      ["bob", "alice@example.test", "553 5.7.1"],
      ["bob", "sales@example.test", "553 5.7.1"],
      ["bob", "mallory@other.test", "553 5.7.1"],
      ["bob", "bob@elsewhere.example", "553 5.7.1"],
      ["bob", "nobody@example.test", "553 5.7.1"],
      ["alice", "sales@example.test", "250 2.1.0"],
      ["alice", "bob@example.test", "250 2.1.0"],
      ["alice", "mallory@other.test", "553 5.7.1"],
    ];
    const rig = await listenForSubmission();
    const clients = { alice: await rig.connectAs(rig.alice), bob: await rig.connectAs(rig.bob) };
    const got: typeof table = [];
    for (const [who, reversePath] of table) {
      got.push([who, reversePath, brief(await clients[who].command(`MAIL FROM:<${reversePath}>`))]);
      await clients[who].expect(250, "RSET");
    }
    expect(got).toEqual(table);
    clients.alice.destroy();
    clients.bob.destroy();
  });

  test.each([
    ["AUTH=<>", "250 2.1.0"],
    ["AUTH=alice+40example.test SIZE=100 BODY=8BITMIME SMTPUTF8", "250 2.1.0"],
    ["XVERP", "555 5.5.4"],
    ["SIZE=26214401", "552 5.3.4"],
  ])("with %s: %s", async (parameters, reply) => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    expect(brief(await client.command(`MAIL FROM:<bob@example.test> ${parameters}`))).toBe(reply);
    client.destroy();
  });
});

describe("MAIL refuses a sender that cannot send", () => {
  test.each<[string, (rig: SubmissionRig) => unknown, reply: string, text: string]>([
    [
      "while the mailbox is paused",
      ({ world }) =>
        world.store.db
          .update(mailboxes)
          .set({ pausedReason: "audit" })
          .where(eq(mailboxes.address, "bob@example.test"))
          .run(),
      "450 4.7.1",
      "Sending from bob@example.test is paused: audit",
    ],
    [
      "while the workspace is",
      ({ world }) => world.store.db.update(workspaces).set({ pausedReason: "audit" }).run(),
      "450 4.7.1",
      "Sending is paused for the whole workspace: audit",
    ],
    [
      "before the domain is verified",
      ({ world }) => world.store.db.update(domains).set({ verifiedAt: null }).run(),
      "550 5.7.1",
      "The domain example.test is not verified, so nothing can be sent from bob@example.test",
    ],
  ])("%s", async (_, change, reply, text) => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    await client.expect(250, "MAIL FROM:<bob@example.test>");
    await client.expect(250, "RSET");
    change(rig);
    const refused = await client.command("MAIL FROM:<bob@example.test>");
    expect([brief(refused), refused.lines]).toEqual([reply, [`${refused.status} ${text}`]]);
    client.destroy();
  });
});

describe("RCPT", () => {
  test("accepts any address that is not suppressed", async () => {
    const table = [
      ["x@remote.example", "250 2.1.5"],
      ['"odd local"@remote.example', "250 2.1.5"],
      ["δοκιμή@παράδειγμα.example", "250 2.1.5"],
      ["alice@example.test", "250 2.1.5"],
      ["x@[192.0.2.1]", "553 5.1.3"],
      ["x.@remote.example", "553 5.1.3"],
      ["x@remote..example", "553 5.1.3"],
      ["postmaster", "553 5.1.3"],
      ["x", "501 5.1.3"],
      ["gone@remote.example", "550 5.7.1"],
      ["GONE@Remote.Example", "550 5.7.1"],
    ];
    const rig = await listenForSubmission();
    rig.world.store.transact((tx) => {
      const { workspaceId } = rig;
      suppress(tx, { id: "sup_1", workspaceId, address: "gone@remote.example", reason: "hard bounce", now: START });
    });
    const client = await rig.connectAs(rig.bob);
    await client.expect(250, "MAIL FROM:<bob@example.test> SMTPUTF8");
    const got: typeof table = [];
    for (const [recipient = ""] of table) {
      const reply = await client.command(`RCPT TO:<${recipient}>`);
      got.push([recipient, brief(reply)]);
      if (reply.code === 550) expect(reply.lines.join().toLowerCase()).toContain("gone@remote.example");
    }
    expect(got).toEqual(table);
    client.destroy();
  });

  test("accepts as many as a message may have, and defers the others", async () => {
    const rig = await listenForSubmission();
    rig.set("sending.maxRecipients", "2");
    const client = await rig.connectAs(rig.bob);
    await client.expect(250, "MAIL FROM:<bob@example.test>");
    await client.expect(250, "RCPT TO:<a@remote.example>");
    await client.expect(250, "RCPT TO:<b@remote.example>");
    expect(brief(await client.command("RCPT TO:<c@remote.example>"))).toBe("452 4.5.3");
    await client.expect(354, "DATA");
    expect(brief(await client.command(`${FROM_BOB}\r\n.`))).toBe("250 2.0.0");
    expect(rig.submitted[0]?.recipients.map(({ email }) => email)).toEqual(["a@remote.example", "b@remote.example"]);
    client.destroy();
  });
});

describe("DATA", () => {
  test.each<[header: string, reply: string, box: string | undefined]>([
    ["From: bob@example.test", "250 2.0.0", "bob@example.test"],
    ["From: Shared <SHARED@example.test>", "250 2.0.0", "shared@example.test"],
    ["From: shared@example.test\r\nSender: bob@example.test", "250 2.0.0", "shared@example.test"],
    ["From: bob@example.test\r\nReply-To: anybody@remote.example", "250 2.0.0", "bob@example.test"],
    ["From: view@example.test", "550 5.7.1", undefined],
    ["From: alice@example.test", "550 5.7.1", undefined],
    ["From: ceo@bank.example", "550 5.7.1", undefined],
    ["From: bob@example.test, alice@example.test", "550 5.7.1", undefined],
    ["From: bob@example.test\r\nFrom: alice@example.test", "550 5.6.0", undefined],
    ["From: bob@example.test\r\nSender: alice@example.test", "550 5.7.1", undefined],
    ["Sender: bob@example.test", "550 5.6.0", undefined],
    ["X-From: bob@example.test", "550 5.6.0", undefined],
  ])("%j: %s", async (header, reply, box) => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    const replied = await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, letter(header));
    expect(brief(replied)).toBe(reply);
    expect(rig.submitted.map(({ mailbox }) => mailbox.address)).toEqual(box === undefined ? [] : [box]);
    await client.expect(250, "NOOP");
    client.destroy();
  });

  test("passes on the person, the sender, the recipients and the completed message", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.alice);
    const reply = await client.deliver(
      {
        from: "",
        to: [
          "Zoe@Remote.Example",
          "x@remote.example",
          "hidden@remote.example",
          "also@remote.example",
          "BOTH@remote.example",
        ],
      },
      letter(
        'From: Sales <Sales@example.test>\r\nTo: "X, Y" <x@remote.example>, not-asked@remote.example, both@remote.example\r\n' +
          "Cc: Zoe <zoe@remote.example>, both@remote.example\r\nBcc: Hidden One <hidden@remote.example>",
      ),
    );
    expect(reply).toEqual({ code: 250, status: "2.0.0", lines: ["2.0.0 msg_1 accepted for delivery"] });
    const [submission] = rig.submitted;
    const messageId = submission?.messageId;
    expect(submission).toMatchObject({
      caller: { userId: rig.alice.userId, scopes: new Set(["send"]) },
      mailbox: { address: "alice@example.test" },
      from: "sales@example.test",
      recipients: [
        { email: "x@remote.example", name: "X, Y", field: "to" },
        { email: "BOTH@remote.example", field: "to" },
        { email: "Zoe@remote.example", name: "Zoe", field: "cc" },
        { email: "hidden@remote.example", name: "Hidden One", field: "bcc" },
        { email: "also@remote.example", field: "bcc" },
      ],
      messageId: expect.stringMatching(/^<[A-Za-z0-9]{22}@example\.test>$/),
    });
    expect(submission?.threadId).toBeUndefined();
    const trace = rig.lines.find(({ message }) => message === "submission")?.trace;
    expect(submission?.content).toStartWith(
      `Received: by mail.example.test (Mailroom) with ESMTPSA id ${trace};\r\n\tMon, 05 Jan 2026 09:00:00 +0000\r\n` +
        `Message-ID: ${messageId}\r\nDate: Mon, 05 Jan 2026 09:00:00 +0000\r\nFrom: Sales <`,
    );
    expect(submission?.content).toContain(
      "both@remote.example\r\nCc: Zoe <zoe@remote.example>, both@remote.example\r\nSubject",
    );
    expect(submission?.content).not.toContain("idden");
    expect(submission?.content).not.toContain("127.0.0.1");
    client.destroy();
  });

  test("logs the outcome, without addresses", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, FROM_BOB);
    await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, letter("From: alice@example.test"));
    const logged = rig.lines.filter(({ message }) => message === "submission");
    expect(logged).toMatchObject([
      { outcome: "accepted", emailId: "msg_1", recipients: 1, ip: "127.0.0.1", level: "info" },
      { outcome: "550 notAccepted", recipients: 1 },
    ]);
    expect(JSON.stringify(rig.lines)).not.toContain("remote.example");
    client.destroy();
  });

  test("notes the use of an API key", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob, rig.keyOf(rig.bob));
    await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, FROM_BOB);
    expect(rig.submitted[0]?.caller.keyId).toMatch(/^key_/);
    // The use is recorded while the session goes on.
    const lastUsedAt = () => rig.world.store.db.query.apiKeys.findFirst().sync()?.lastUsedAt;
    await until(() => typeof lastUsedAt() === "number");
    expect(lastUsedAt()).toBe(START);
    client.destroy();
  });

  test("refuses a message that is too large or loops, and leaves nothing in the spool", async () => {
    const rig = await listenForSubmission();
    rig.set("smtp.maxMessageBytes", "300000");
    const client = await rig.connectAs(rig.bob);
    const send = (message: string) => client.deliver({ from: "bob@example.test", to: "x@remote.example" }, message);
    expect(brief(await send(letter("From: bob@example.test", "x".repeat(400_000))))).toBe("552 5.3.4");
    expect(brief(await send(letter(`${"Received: by x\r\n".repeat(101)}From: bob@example.test`)))).toBe("554 5.4.6");
    expect(brief(await send(letter("From: bob@example.test", "x".repeat(290_000))))).toBe("250 2.0.0");
    expect(rig.submitted).toHaveLength(1);
    expect(readdirSync(rig.spoolFolder)).toEqual([]);
    client.destroy();
  });

  test("a message ends at CRLF . CRLF alone, and leaves with no bare CR or LF", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    const smuggled = "\n.\nMAIL FROM:<bob@example.test>\nRCPT TO:<y@remote.example>\r.\rDATA\r\n.\nend";
    const reply = await client.deliver(
      { from: "bob@example.test", to: "x@remote.example" },
      letter("From: bob@example.test", smuggled),
    );
    expect(reply.code).toBe(250);
    expect(rig.submitted.map(({ recipients }) => recipients.map(({ email }) => email))).toEqual([["x@remote.example"]]);
    expect(rig.submitted[0]?.content.replaceAll("\r\n", "")).not.toMatch(/[\r\n]/);
    client.destroy();
  });

  test("a broken connection submits nothing", async () => {
    const rig = await listenForSubmission();
    const client = await rig.connectAs(rig.bob);
    await client.expect(250, "MAIL FROM:<bob@example.test>");
    await client.expect(250, "RCPT TO:<x@remote.example>");
    await client.expect(354, "DATA");
    client.write(FROM_BOB);
    client.destroy();
    await until(() => rig.lines.some(({ message }) => message === "submission"));
    expect(rig.submitted).toEqual([]);
  });
});

describe("a refusal of the pipeline", () => {
  const app = (code: ErrorCode, text: string) => new AppError(code, text);
  test.each<[thrown: unknown, reply: string, text: string]>([
    [app("unprocessable", "The domain is not verified"), "550 5.7.1", "The domain is not verified"],
    [app("forbidden", "You may not"), "550 5.7.1", "You may not"],
    [app("locked", "Sending is paused: audit"), "450 4.7.1", "Sending is paused: audit"],
    [app("rate_limited", "100 an hour; free at 10:00"), "451 4.7.1", "100 an hour; free at 10:00"],
    [app("insufficient_storage", "bob@ is full"), "452 4.2.2", "bob@ is full"],
    [app("upstream_failed", "The queue is full"), "451 4.4.0", "The queue is full"],
    [app("payload_too_large", "Too many bytes"), "552 5.3.4", "Too many bytes"],
    [app("server_error", "inner workings"), "451 4.3.0", "Local error, try again later"],
    [unavailable("busy"), "452 4.3.1", "Mail store is briefly unavailable, try again"],
    [new Error("inner workings"), "451 4.3.0", "Local error, try again later"],
    [app("locked", "Two\r\n250 lines, “quoted”\tand\0 more"), "450 4.7.1", "Two 250 lines, ?quoted? and? more"],
    [app("locked", "x".repeat(1_000)), "450 4.7.1", "x".repeat(400)],
  ])("%s: %s", async (thrown, reply, text) => {
    const rig = await listenForSubmission({
      submit: () => {
        throw thrown;
      },
    });
    const client = await rig.connectAs(rig.bob);
    const replied = await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, FROM_BOB);
    expect(brief(replied)).toBe(reply);
    expect(replied.lines).toEqual([`${reply.slice(4)} ${text}`]);
    expect(rig.submitted).toEqual([]);
    await client.expect(250, "NOOP");
    client.destroy();
  });

  test("is logged when it is a fault of ours", async () => {
    const rig = await listenForSubmission({
      submit: () => {
        throw new Error("inner workings");
      },
    });
    const client = await rig.connectAs(rig.bob);
    await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, FROM_BOB);
    expect(rig.lines.filter(({ level }) => level === "error")).toMatchObject([{ message: "submission not accepted" }]);
    client.destroy();
  });
});

describe("implicit TLS", () => {
  test("presents our certificate before the greeting, follows its change, and offers no STARTTLS", async () => {
    const { certificates, replace } = await replaceableCertificates();
    const rig = await listenForSubmission({ implicitTls: true, certificates });
    const shown = async () => {
      const client = await connectSmtp(rig.address, { greet: false });
      const { fingerprint } = await client.secure();
      await client.expect(220);
      expect((await client.expect(250, "EHLO client.example")).lines).toContain("AUTH PLAIN LOGIN");
      expect(brief(await client.command("STARTTLS"))).toBe("503 5.5.1");
      expect(brief(await authPlain(client, "bob@example.test", PASSWORD))).toBe("235 2.7.0");
      client.destroy();
      return fingerprint;
    };
    const fingerprintOf = () => new X509Certificate(certificates.current().cert).fingerprint256;
    const first = fingerprintOf();
    expect(await shown()).toBe(first);
    replace(await makePair("mx.example.test"));
    expect(fingerprintOf()).not.toBe(first);
    expect(await shown()).toBe(fingerprintOf());
  });

  test("accepts a message", async () => {
    const rig = await listenForSubmission({ implicitTls: true });
    const client = await rig.connectAs(rig.bob);
    expect((await client.deliver({ from: "bob@example.test", to: "x@remote.example" }, FROM_BOB)).code).toBe(250);
    expect(rig.lines.find(({ message }) => message === "submission")).toMatchObject({ ip: "127.0.0.1" });
    client.destroy();
  });

  test("a client that speaks in plain text is disconnected, and no other", async () => {
    const rig = await listenForSubmission({ implicitTls: true });
    const plain = await openSocket(rig);
    const closed = closing(plain);
    plain.write("EHLO client.example\r\n");
    await closed;
    const client = await rig.connectAs(rig.bob);
    client.destroy();
  });

  test("clients that do not finish the handshake count, and are disconnected after a minute", async () => {
    const rig = await listenForSubmission({ implicitTls: true, limits: { connectionsPerSource: 2 } });
    const idle = [await openSocket(rig), await openSocket(rig)];
    await closing(await openSocket(rig));
    expect(rig.lines.at(-1)).toMatchObject({ message: "refused", reason: "tooManyConnections", ip: "127.0.0.1" });
    const gone = Promise.all(idle.map(closing));
    rig.runtime.advanceTo(START + 60_000);
    await gone;
    const client = await rig.connectAs(rig.bob);
    client.destroy();
  });

  test("stopping does not wait for unfinished handshakes", async () => {
    const rig = await listenForSubmission({ implicitTls: true });
    const idle = await openSocket(rig);
    const gone = closing(idle);
    await rig.listener.stop(60_000);
    await gone;
    expect(rig.listener.isListening()).toBe(false);
  });
});

/** A connection that sends nothing. */
async function openSocket({ address }: SubmissionRig): Promise<Socket> {
  const socket = connect(address.port, address.host);
  socket.on("error", () => {});
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  return socket;
}

const closing = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    socket.resume();
    socket.once("close", () => resolve());
  });
