/** A session with a scripted remote: the bytes on the wire, and the results for each recipient. */
import { describe, expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { openSmtpSession, type SmtpSession } from "../../src/smtp/client.ts";
import type { Target, TlsPolicy } from "../../src/smtp/client-connection.ts";
import { DeliveryFailure, type DeliveryResult } from "../../src/smtp/delivery-result.ts";
import {
  gate,
  HANG_UP,
  makePair,
  type RemoteMx,
  type RemoteScript,
  startRemoteMx,
} from "../harness/peers/remote-mx.ts";
import { type FakeRuntime, fakeRuntime } from "../harness/runtime.ts";
import { until } from "../harness/until.ts";

const MINUTE = 60_000;
const OPPORTUNISTIC: TlsPolicy = { mode: "opportunistic", verify: false, plainIfBroken: true };
const LETTER = Buffer.from("From: a@us.test\r\nTo: b@example.net\r\nSubject: Hi\r\n\r\nText\r\n");

interface OpenedSession extends SmtpSession {
  remote: RemoteMx;
  runtime: FakeRuntime;
  lines: Record<string, unknown>[];
  stop(): void;
}

function prepare(remote: RemoteMx, target: Partial<Target> = {}) {
  const runtime = fakeRuntime();
  const lines: Record<string, unknown>[] = [];
  const stopped = new AbortController();
  const log = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  const world = { runtime, hostname: "us.test", log, signal: stopped.signal };
  const { host: address, port } = remote;
  const open = () => openSmtpSession({ host: "mx.example.net", address, port, tls: OPPORTUNISTIC, ...target }, world);
  return { open, runtime, lines, stop: () => stopped.abort() };
}

/** Opens a session with a new remote of that script. */
async function sessionWith(script: RemoteScript = {}, target: Partial<Target> = {}): Promise<OpenedSession> {
  const remote = await startRemoteMx(script);
  const { open, ...rest } = prepare(remote, target);
  return { ...(await open()), ...rest, remote };
}

/** The failure of opening a session. */
async function failureOf(opening: Promise<unknown>): Promise<DeliveryResult> {
  const thrown = await opening.then(
    () => new Error("there is a session"),
    (error: unknown) => error,
  );
  if (thrown instanceof DeliveryFailure) return thrown.result;
  throw thrown;
}

function send(session: SmtpSession, recipients: readonly string[], content: Uint8Array = LETTER) {
  return session.transmit({ reversePath: "bounce+1@us.test", recipients, content });
}

/** Resolves when the next event can only be a timer of `ms` from now. */
const isAwaited = (runtime: FakeRuntime, ms: number) => until(() => runtime.nextTimer() === runtime.now() + ms);

/** `kind reply` of each result. */
const told = ({ results }: { results: DeliveryResult[] }) => results.map(({ kind, reply }) => `${kind}: ${reply}`);

describe.each([
  [true, false],
  [false, false],
  [true, true],
  [false, true],
])("a transaction, PIPELINING offered: %p, CHUNKING: %p", (pipelining, chunking) => {
  const offered = { pipelining, chunking };

  test("carries the message unchanged, to every recipient", async () => {
    const session = await sessionWith({ ...offered, size: 1_000_000 });
    const content = Buffer.from("Subject: dots\r\n\r\n.\r\n..\r\n.end\r\n\r\n");
    const sent = await send(session, ["a@example.net", "b@example.net"], content);
    expect(sent).toMatchObject({
      unstarted: false,
      results: [1, 2].map(() => ({
        kind: "accepted",
        reply: "250 2.0.0 queued as 4711",
        code: 250,
        status: "2.0.0",
        remote: "mx.example.net",
      })),
    });
    expect(session.remote.messages).toMatchObject([
      { from: "bounce+1@us.test", to: ["a@example.net", "b@example.net"], content: content.toString(), secure: false },
    ]);
    expect(session.remote.commands).toEqual([
      "EHLO us.test",
      `MAIL FROM:<bounce+1@us.test> SIZE=${content.length}`,
      "RCPT TO:<a@example.net>",
      "RCPT TO:<b@example.net>",
      offered.chunking ? `BDAT ${content.length} LAST` : "DATA",
    ]);
  });

  test("gives a result for each recipient, in order", async () => {
    const replies: Record<string, string> = {
      "no@example.net": "550-5.1.1 There is\n550 5.1.1 no such user",
      "later@example.net": "450 4.2.1 greylisted",
      "full@example.net": "552 5.2.2 full",
    };
    const session = await sessionWith({ ...offered, rcpt: ({ address }) => replies[address] });
    const sent = await send(session, ["no@example.net", "yes@example.net", "later@example.net", "full@example.net"]);
    expect(told(sent)).toEqual([
      "refused: 550 5.1.1 There is no such user",
      "accepted: 250 2.0.0 queued as 4711",
      "deferred: 450 4.2.1 greylisted",
      "refused: 552 5.2.2 full",
    ]);
    expect(sent.results.map(({ hard }) => hard)).toEqual([true, false, false, false]);
    expect(session.remote.messages.map(({ to }) => to)).toEqual([["yes@example.net"]]);
  });

  test("whose recipients are all refused transmits nothing", async () => {
    const session = await sessionWith({ ...offered, rcpt: "550 5.7.1 no" });
    expect(told(await send(session, ["a@example.net"]))).toEqual(["refused: 550 5.7.1 no"]);
    expect(session.remote.messages).toEqual([]);
    expect(session.usable()).toBe(true);
  });

  test.each([
    ["refused: 550 5.1.1 we know no such sender", { mail: "550 5.1.1 we know no such sender" }],
    ["deferred: 451 4.3.0 later", { mail: "451 4.3.0 later" }],
    ["refused: 554 5.6.0 content", { end: "554 5.6.0 content" }],
    ["refused: 550 5.1.1 whoever", { end: "550 5.1.1 whoever" }],
    ["deferred: 452 4.3.1 disk", { end: "452 4.3.1 disk" }],
  ] as const)(
    "that ends with %s gives all recipients the same result, and no address the fault",
    async (outcome, script) => {
      const session = await sessionWith({ ...offered, ...script });
      const sent = await send(session, ["a@example.net", "b@example.net"]);
      expect(told(sent)).toEqual([outcome, outcome]);
      expect(sent.results.map(({ hard }) => hard)).toEqual([false, false]);
      expect(session.remote.messages).toEqual([]);
      expect(session.usable()).toBe(true);
    },
  );

  test("to one recipient may be refused for the address in the reply to the message", async () => {
    const session = await sessionWith({ ...offered, end: "550 5.1.1 no such user" });
    const { results } = await send(session, ["a@example.net"]);
    expect(results).toMatchObject([{ kind: "refused", hard: true }]);
  });

  test("that follows a refused one starts anew", async () => {
    const session = await sessionWith({
      ...offered,
      mail: ({ attempt }) => (attempt === 1 ? "451 4.3.0 later" : undefined),
      rcpt: ({ address }) => (address === "no@example.net" ? "550 5.1.1 no" : undefined),
      end: ({ address, attempt }) => (address === "a@example.net" && attempt === 1 ? "554 5.6.0 content" : undefined),
    });
    const outcomes = [];
    for (const recipient of ["a", "no", "a", "a", "b"])
      outcomes.push(...told(await send(session, [`${recipient}@example.net`])));
    expect(outcomes).toEqual([
      "deferred: 451 4.3.0 later",
      "refused: 550 5.1.1 no",
      "refused: 554 5.6.0 content",
      "accepted: 250 2.0.0 queued as 4711",
      "accepted: 250 2.0.0 queued as 4711",
    ]);
    expect(session.remote.messages.map(({ to }) => to)).toEqual([["a@example.net"], ["b@example.net"]]);
    expect(session.remote.commands.filter((line) => line === "RSET")).toHaveLength(3);
    expect(session.remote.connections).toBe(1);
  });

  test("recipients beyond the remote's limit go into further transactions", async () => {
    let accepted = 0;
    const session = await sessionWith({
      ...offered,
      mail: () => {
        accepted = 0;
        return undefined;
      },
      rcpt: () => (++accepted > 2 ? "452 4.5.3 too many recipients" : undefined),
    });
    const recipients = ["a", "b", "c", "d", "e"].map((name) => `${name}@example.net`);
    expect((await send(session, recipients)).results.map(({ kind }) => kind)).toEqual(recipients.map(() => "accepted"));
    expect(session.remote.messages.map(({ to }) => to.length)).toEqual([2, 2, 1]);
  });

  test("is not repeated for a recipient that the remote refuses as one too many each time", async () => {
    const session = await sessionWith({
      ...offered,
      rcpt: ({ address }) => (address.startsWith("b") ? "452 4.5.3 too many recipients" : undefined),
    });
    expect(told(await send(session, ["a@example.net", "b@example.net"]))).toEqual([
      "accepted: 250 2.0.0 queued as 4711",
      "deferred: 452 4.5.3 too many recipients",
    ]);
    expect(session.remote.messages).toHaveLength(1);
  });
});

test.each([true, false])("DATA may be refused, PIPELINING offered: %p", async (pipelining) => {
  const session = await sessionWith({ pipelining, data: "554 5.3.0 no data" });
  const sent = await send(session, ["a@example.net", "b@example.net"]);
  expect(told(sent)).toEqual(Array(2).fill("refused: 554 5.3.0 no data"));
  expect(sent.results.map(({ hard }) => hard)).toEqual([false, false]);
  expect(session.usable()).toBe(true);
});

describe("DSN", () => {
  const dsn = {
    ret: "FULL",
    envid: "Q+2B1",
    recipients: new Map([
      ["a@example.net", { notify: "SUCCESS", orcpt: "rfc822;A+2B@example.net" }],
      ["b@example.net", {}],
    ]),
  } as const;
  const transaction = {
    reversePath: "bounce+1@us.test",
    recipients: ["a@example.net", "b@example.net"],
    content: LETTER,
  };

  test("goes to a remote that supports it, which then reports", async () => {
    const session = await sessionWith({ dsn: true });
    const { results } = await session.transmit({ ...transaction, dsn });
    expect(results.map(({ reports }) => reports)).toEqual([true, true]);
    // None of it stays for the next message.
    const { results: others } = await session.transmit(transaction);
    expect(others.map(({ reports }) => reports)).toEqual([undefined, undefined]);
    expect(session.remote.commands.filter((line) => /^(MAIL|RCPT)/.test(line))).toEqual([
      "MAIL FROM:<bounce+1@us.test> RET=FULL ENVID=Q+2B1",
      "RCPT TO:<a@example.net> NOTIFY=SUCCESS ORCPT=rfc822;A+2B@example.net",
      "RCPT TO:<b@example.net>",
      "MAIL FROM:<bounce+1@us.test>",
      "RCPT TO:<a@example.net>",
      "RCPT TO:<b@example.net>",
    ]);
  });

  test("does not go to another", async () => {
    const session = await sessionWith();
    const { results } = await session.transmit({ ...transaction, dsn });
    expect(results.map(({ reports }) => reports)).toEqual([undefined, undefined]);
    expect(session.remote.commands.join("\n")).not.toMatch(/RET|ENVID|NOTIFY|ORCPT/);
  });
});

test("a message of several megabytes goes as one chunk", async () => {
  const session = await sessionWith({ chunking: true });
  const content = Buffer.from(`Subject: long\r\n\r\n${"..\r\n.\r\n".repeat(500_000)}`);
  expect(told(await send(session, ["a@example.net"], content))).toEqual(["accepted: 250 2.0.0 queued as 4711"]);
  expect(session.remote.messages[0]?.bytes.length).toBe(content.length);
});

describe.each([false, true])("a connection that ends, CHUNKING offered: %p", (chunking) => {
  const LOST = "deferred: mx.example.net [127.0.0.1]: ";

  test.each([
    ["at MAIL", { mail: HANG_UP }, true],
    ["at RCPT", { rcpt: HANG_UP }, true],
    ["at DATA", { chunking: false, pipelining: false, data: HANG_UP }, false],
    ["at the end of the message", { end: HANG_UP }, false],
  ] as [string, RemoteScript, boolean][])("%s defers all", async (_when, script, unstarted) => {
    const session = await sessionWith({ chunking, ...script });
    const sent = await send(session, ["a@example.net", "b@example.net"]);
    expect(sent.unstarted).toBe(unstarted);
    for (const outcome of told(sent)) expect(outcome).toStartWith(LOST);
    expect(sent.results).toMatchObject([1, 2].map(() => ({ hard: false, status: "4.4.2", code: undefined })));
    expect(session.usable()).toBe(false);
  });

  test("keeps the earlier replies about recipients", async () => {
    const session = await sessionWith({
      chunking,
      pipelining: false,
      rcpt: ({ address }) => (address.startsWith("no") ? "550 5.1.1 no" : HANG_UP),
    });
    const sent = await send(session, ["no@example.net", "a@example.net"]);
    expect(sent.unstarted).toBe(false);
    expect(sent.results).toMatchObject([
      { kind: "refused", hard: true },
      { kind: "deferred", status: "4.4.2" },
    ]);
  });

  test.each([
    ["MAIL", { mail: "421 4.7.0 enough for now" }, true],
    ["RCPT", { rcpt: "421 4.7.0 enough for now" }, true],
    ["the message", { end: "421 4.7.0 enough for now" }, false],
  ] as [string, RemoteScript, boolean][])(
    "with 421 to %s defers all, and is not used again",
    async (_what, script, unstarted) => {
      for (const pipelining of [true, false]) {
        const session = await sessionWith({ chunking, ...script, pipelining });
        const sent = await send(session, ["a@example.net", "b@example.net"]);
        expect(told(sent)).toEqual([1, 2].map(() => "deferred: 421 4.7.0 enough for now"));
        expect(sent.unstarted).toBe(unstarted);
        expect(session.usable()).toBe(false);
        await session.remote.idle();
      }
    },
  );

  test("while it is idle is noticed", async () => {
    const session = await sessionWith({ chunking });
    await send(session, ["a@example.net"]);
    await session.remote.close();
    const sent = await send(session, ["a@example.net"]);
    expect(sent.unstarted).toBe(true);
    expect(session.usable()).toBe(false);
  });

  test("after a refused RSET is not used again", async () => {
    const session = await sessionWith({ chunking, mail: "451 4.3.0 later", rset: "502 5.5.1 what?" });
    await send(session, ["a@example.net"]);
    expect(await send(session, ["a@example.net"])).toMatchObject({ unstarted: true, results: [{ kind: "deferred" }] });
    expect(session.usable()).toBe(false);
  });
});

describe("a remote that does not reply", () => {
  test.each([
    ["mail", true],
    ["rcpt", true],
    ["data", false],
    ["end", false],
  ] as const)("at %s is given up", async (stage, unstarted) => {
    const silence = gate();
    const session = await sessionWith({ pipelining: false, [stage]: silence.wait });
    const sending = send(session, ["a@example.net"]);
    await silence.reached;
    expect(session.usable()).toBe(false);
    session.runtime.advanceTo(session.runtime.now() + 20 * MINUTE);
    expect(await sending).toMatchObject({
      unstarted,
      results: [{ kind: "deferred", reply: "mx.example.net [127.0.0.1]: no answer in time", status: "4.4.2" }],
    });
    await session.remote.idle();
  });

  test.each(["greeting", "ehlo"] as const)("at %s is given up", async (stage) => {
    const silence = gate();
    const remote = await startRemoteMx({ [stage]: silence.wait });
    const { open, runtime } = prepare(remote);
    const failure = failureOf(open());
    await silence.reached;
    await isAwaited(runtime, 5 * MINUTE);
    runtime.advanceTo(runtime.now() + 5 * MINUTE);
    expect(await failure).toMatchObject({ kind: "deferred", status: "4.4.2", code: undefined });
    await remote.idle();
  });

  test("at QUIT is disconnected", async () => {
    const silence = gate();
    const session = await sessionWith({ quit: silence.wait });
    session.close();
    await silence.reached;
    session.runtime.advanceTo(session.runtime.now() + 5_000);
    await session.remote.idle();
    expect(session.usable()).toBe(false);
  });
});

describe("closing", () => {
  test("says QUIT", async () => {
    const session = await sessionWith();
    await send(session, ["a@example.net"]);
    session.close();
    session.close();
    await session.remote.idle();
    expect(session.remote.commands.at(-1)).toBe("QUIT");
    expect(await send(session, ["a@example.net"])).toMatchObject({ results: [{ kind: "deferred" }] });
  });

  test("cuts a transaction short", async () => {
    const silence = gate();
    const session = await sessionWith({ end: silence.wait });
    const sending = send(session, ["a@example.net"]);
    await silence.reached;
    session.close();
    expect(await sending).toMatchObject({ results: [{ kind: "deferred", status: "4.4.2" }] });
    await session.remote.idle();
  });

  test("of all, by the signal, ends sessions and attempts, and prevents new ones", async () => {
    const silence = gate();
    const remote = await startRemoteMx({
      greeting: ({ connection }) => (connection === 1 ? undefined : silence.wait()),
    });
    const { open, stop } = prepare(remote);
    const session = await open();
    const failure = failureOf(open());
    await silence.reached;
    stop();
    expect(await failure).toMatchObject({ kind: "deferred" });
    await remote.idle();
    expect(session.usable()).toBe(false);
    expect(await failureOf(open())).toMatchObject({ kind: "deferred", status: "4.3.2" });
    expect(remote.connections).toBe(2);
  });
});

describe("a session that cannot be opened", () => {
  test.each([
    ["554 5.7.1 we do not want you", { greeting: "554 5.7.1 we do not want you" }, "refused", 554],
    ["421 4.3.2 busy", { greeting: "421 4.3.2 busy" }, "deferred", 421],
    ["550 5.7.1 not under that name", { ehlo: "550 5.7.1 not under that name" }, "refused", 550],
    ["421 4.3.2 busy", { ehlo: "421 4.3.2 busy" }, "deferred", 421],
  ] as [string, RemoteScript, DeliveryResult["kind"], number][])("%s", async (reply, script, kind, code) => {
    const remote = await startRemoteMx(script);
    const result = await failureOf(prepare(remote).open());
    expect(result).toMatchObject({ kind, code, reply, hard: false, remote: "mx.example.net" });
    await remote.idle();
  });

  test("no server listens", async () => {
    const remote = await startRemoteMx();
    const { open } = prepare(remote);
    await remote.close();
    expect(await failureOf(open())).toMatchObject({
      kind: "deferred",
      status: "4.4.1",
      code: undefined,
      reply: "mx.example.net [127.0.0.1]: connection refused",
    });
  });

  test.each<[string, RemoteScript]>([
    ["a greeting without an end", { greeting: `220 ${"x".repeat(100_000)}` }],
    ["an EHLO reply of a line without an end", { ehlo: `250-A${" ".repeat(60_000)}\rX\rY\r\n250 B` }],
    ["an EHLO reply of lines without an end", { ehlo: `${"250-A\r\n".repeat(100)}250 B` }],
    ["an EHLO reply of codes of four digits", { ehlo: `${"2500-A\r\n".repeat(100)}250 B` }],
    ["empty lines without an end", { ehlo: `${"\r\n".repeat(100_000)}250 B` }],
  ])("%s ends the session at once", async (_, script) => {
    const remote = await startRemoteMx(script);
    const begun = process.cpuUsage();
    expect(await failureOf(prepare(remote).open())).toMatchObject({ kind: "deferred" });
    const { user, system } = process.cpuUsage(begun);
    expect(user + system).toBeLessThan(500_000);
    await remote.idle();
  });

  test("a reply of the longest lines, and of as many as may be, is read", async () => {
    const line = `250-X${"y".repeat(2_000)}\r\n`;
    const session = await sessionWith({ ehlo: `${line.repeat(50)}${"250-Z\r\n".repeat(40)}250 SIZE 10` });
    expect(await send(session, ["a@example.net"])).toMatchObject({ results: [{ status: "5.3.4" }] });
    session.close();
    await session.remote.idle();
  });

  test.each([{ greeting: HANG_UP }, { ehlo: HANG_UP }])("the remote hangs up: %j", async (script) => {
    const remote = await startRemoteMx(script);
    expect(await failureOf(prepare(remote).open())).toMatchObject({ kind: "deferred", status: "4.4.2" });
  });
});

describe("TLS", () => {
  test("is used where it is offered, with the name of the host", async () => {
    const session = await sessionWith({ starttls: true });
    expect(told(await send(session, ["a@example.net"]))).toEqual(["accepted: 250 2.0.0 queued as 4711"]);
    expect(session.remote.messages).toMatchObject([
      { secure: true, servername: "mx.example.net", content: LETTER.toString() },
    ]);
    expect(session.lines).toContainEqual(expect.objectContaining({ message: "connected", tls: true }));
  });

  test.each(["broken", "refused"] as const)(
    "that is %s: the client uses the same host without TLS",
    async (starttls) => {
      const session = await sessionWith({ starttls });
      await send(session, ["a@example.net"]);
      expect(session.remote.messages).toMatchObject([{ secure: false, connection: 2 }]);
      expect(session.remote.commands.filter((line) => line === "STARTTLS")).toHaveLength(1);
    },
  );

  test("that never finishes its handshake: the client uses the same host without TLS", async () => {
    const remote = await startRemoteMx({ starttls: "silent" });
    const { open, runtime } = prepare(remote);
    const opening = open();
    await remote.heard("STARTTLS");
    runtime.advanceTo(runtime.now() + 5 * MINUTE);
    await send(await opening, ["a@example.net"]);
    expect(remote.messages).toMatchObject([{ secure: false, connection: 2 }]);
  });

  test.each(["required", "opportunistic"] as const)(
    "that is broken, %s and not to go without: no session",
    async (mode) => {
      const remote = await startRemoteMx({ starttls: "broken" });
      const { open } = prepare(remote, { tls: { mode, verify: false, plainIfBroken: false } });
      expect(await failureOf(open())).toMatchObject({ kind: "deferred", status: "4.7.5", hard: false });
      expect(remote.connections).toBe(1);
    },
  );

  test("that is required and not offered: the client opens no session", async () => {
    const remote = await startRemoteMx({ starttls: false });
    const { open } = prepare(remote, { tls: { mode: "required", verify: false, plainIfBroken: false } });
    expect(await failureOf(open())).toMatchObject({ kind: "deferred", status: "4.7.5" });
    expect(remote.commands).not.toContainEqual(expect.stringMatching(/^MAIL/));
  });

  test("begins with the first byte", async () => {
    const session = await sessionWith(
      { implicitTls: true },
      { tls: { mode: "implicit", verify: false, plainIfBroken: false } },
    );
    await send(session, ["a@example.net"]);
    expect(session.remote.messages).toMatchObject([{ secure: true, servername: "mx.example.net" }]);
  });

  test.each(["required", "implicit"] as const)(
    "whose certificate must be valid, %s: a self-signed one is not",
    async (mode) => {
      const remote = await startRemoteMx({
        starttls: mode === "required",
        implicitTls: mode === "implicit",
        pair: await makePair("mx.example.net"),
      });
      const { open } = prepare(remote, { tls: { mode, verify: true, plainIfBroken: false } });
      const result = await failureOf(open());
      expect(result).toMatchObject({ kind: "deferred", status: "4.7.5", hard: false });
      expect(result.reply).toMatch(/certificate/i);
    },
  );
});

describe("AUTH", () => {
  const auth = { user: "us", pass: "sésame:@ /%" };

  test("allows sending", async () => {
    const session = await sessionWith({ auth });
    await session.authenticate(auth);
    expect(told(await send(session, ["a@example.net"]))).toEqual(["accepted: 250 2.0.0 queued as 4711"]);
  });

  test("with wrong credentials defers all recipients", async () => {
    const session = await sessionWith({ auth });
    expect(await failureOf(session.authenticate({ user: "us", pass: "guess" }))).toMatchObject({
      kind: "deferred",
      hard: false,
      code: 535,
      status: "4.7.8",
      reply: "535 5.7.8 credentials are invalid",
    });
    expect(session.usable()).toBe(false);
    expect(JSON.stringify(session.lines)).not.toContain("guess");
  });

  test("during which the connection is lost does not count as refused", async () => {
    const session = await sessionWith({ auth });
    await session.remote.close();
    expect(await failureOf(session.authenticate(auth))).toMatchObject({ kind: "deferred", code: undefined });
  });
});

describe("internationalised mail", () => {
  const utf8Header = Buffer.from("From: a@us.test\r\nTo: jürgen@example.net\r\nSubject: Grüße\r\n\r\nText\r\n");
  const utf8Body = Buffer.from("Subject: Hi\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n");

  test.each([
    ["an address", ["jürgen@example.net"], LETTER, "MAIL FROM:<bounce+1@us.test> SMTPUTF8"],
    ["a header", ["a@example.net"], utf8Header, "MAIL FROM:<bounce+1@us.test> BODY=8BITMIME SMTPUTF8"],
    [
      "both",
      ["a@example.net", "jürgen@example.net"],
      utf8Header,
      "MAIL FROM:<bounce+1@us.test> SMTPUTF8 BODY=8BITMIME",
    ],
    ["the body alone", ["a@example.net"], utf8Body, "MAIL FROM:<bounce+1@us.test> BODY=8BITMIME"],
    ["nothing", ["a@example.net"], LETTER, "MAIL FROM:<bounce+1@us.test>"],
  ])("is declared for %s", async (_what, recipients, content, mail) => {
    const session = await sessionWith();
    expect((await send(session, recipients, content)).results.every(({ kind }) => kind === "accepted")).toBe(true);
    expect(session.remote.commands).toContain(mail);
    expect(session.remote.messages).toMatchObject([{ to: recipients, content: content.toString() }]);
  });

  test("is declared for one message and not for the next", async () => {
    const session = await sessionWith();
    for (const content of [utf8Header, LETTER]) await send(session, ["a@example.net"], content);
    expect(session.remote.commands.filter((line) => line.startsWith("MAIL"))).toEqual([
      "MAIL FROM:<bounce+1@us.test> BODY=8BITMIME SMTPUTF8",
      "MAIL FROM:<bounce+1@us.test>",
    ]);
  });

  const REFUSED = { kind: "refused", hard: false, status: "5.6.7", code: undefined, remote: "mx.example.net" };

  test("is refused here for the addresses that need it, where the remote does not offer it", async () => {
    const session = await sessionWith({ smtputf8: false });
    const { results } = await send(session, ["jürgen@example.net", "a@example.net"]);
    expect(results).toMatchObject([REFUSED, { kind: "accepted" }]);
    expect(session.remote.messages).toMatchObject([{ to: ["a@example.net"] }]);
  });

  test("is refused here for all recipients when a header needs it, and nothing is sent", async () => {
    const session = await sessionWith({ smtputf8: false });
    const { results } = await send(session, ["a@example.net", "b@example.net"], utf8Header);
    expect(results).toMatchObject([REFUSED, REFUSED]);
    expect(session.remote.commands).toEqual(["EHLO us.test"]);
    expect(session.usable()).toBe(true);
  });

  const offering = [
    [{ eightBitMime: false }, { eightBit: false, utf8: false }],
    [{ smtputf8: false }, { eightBit: true, utf8: false }],
    [
      { smtputf8: false, eightBitMime: false },
      { eightBit: false, utf8: false },
    ],
  ] as const;
  test.each(offering)("is brought into another form for a remote that offers %j", async (script, offers) => {
    const session = await sessionWith(script);
    const asked: unknown[] = [];
    const recode = async (offers: unknown) => {
      asked.push(offers);
      return LETTER;
    };
    const given = { reversePath: "bounce+1@us.test", recipients: ["a@example.net"], recode };
    for (const content of [utf8Body, utf8Header, LETTER]) {
      expect((await session.transmit({ ...given, content })).results).toMatchObject([{ kind: "accepted" }]);
    }
    expect(asked).toEqual([offers, offers]);
    expect(session.remote.commands.filter((line) => line.startsWith("MAIL"))).toEqual(
      Array(3).fill("MAIL FROM:<bounce+1@us.test>"),
    );
    expect(session.remote.messages.map(({ content }) => content)).toEqual(Array(3).fill(LETTER.toString()));
  });

  test("stays as it is where the remote offers all that it needs", async () => {
    const session = await sessionWith();
    const recode = () => Promise.reject(new Error("not needed"));
    const given = { reversePath: "bounce+1@us.test", recipients: ["a@example.net"], recode };
    for (const content of [utf8Body, utf8Header]) await session.transmit({ ...given, content });
    expect(session.remote.messages.map(({ content }) => content)).toEqual([utf8Body, utf8Header].map(String));
  });

  test("in a body without another form is refused here where the remote does not offer 8BITMIME", async () => {
    const session = await sessionWith({ eightBitMime: false });
    expect((await send(session, ["a@example.net"], utf8Body)).results).toMatchObject([{ ...REFUSED, status: "5.6.3" }]);
    expect(session.remote.commands).toEqual(["EHLO us.test"]);
  });
});

test("a message larger than the remote takes is refused here", async () => {
  const session = await sessionWith({ size: 100 });
  const { results } = await send(session, ["a@example.net"], Buffer.alloc(101, "a"));
  expect(results).toMatchObject([{ kind: "refused", hard: false, status: "5.3.4" }]);
  expect((await send(session, ["a@example.net"], Buffer.alloc(100, "a"))).results).toMatchObject([
    { kind: "accepted" },
  ]);
  expect(session.remote.messages).toHaveLength(1);
});

test("an address with a quoted bracket is not sent, and others still get the message", async () => {
  const session = await sessionWith();
  const { results } = await send(session, ['"a>b"@example.net', '"a b"@example.net']);
  expect(results).toMatchObject([{ kind: "refused", hard: false, status: "5.1.3" }, { kind: "accepted" }]);
  expect(session.remote.messages).toMatchObject([{ to: ['"a b"@example.net'] }]);
});

test("a remote that only supports HELO gets mail", async () => {
  const session = await sessionWith({ ehlo: ({ attempt }) => (attempt === 1 ? "502 5.5.1 what?" : undefined) });
  expect(told(await send(session, ["a@example.net"]))).toEqual(["accepted: 250 2.0.0 queued as 4711"]);
  expect(session.remote.commands.slice(0, 3)).toEqual(["EHLO us.test", "HELO us.test", "MAIL FROM:<bounce+1@us.test>"]);
});

test("the log names hosts, and neither recipients nor content", async () => {
  const session = await sessionWith();
  await send(session, ["secret@example.net"]);
  const text = JSON.stringify(session.lines);
  expect(text).toContain("mx.example.net");
  expect(text).not.toContain("secret@");
  expect(text).not.toContain("Subject");
});
