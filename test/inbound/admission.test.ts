/**
 * Admission at the MX listener, over real sockets: no client is trusted, and clients come from several addresses of
 * 127.0.0.0/8.
 */
import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import type { AcceptResult } from "../../src/inbound/data.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { type Options, SETTINGS } from "../../src/store/settings.ts";
import { connectSmtp, type Reply, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { type FakeRuntime, START } from "../harness/runtime.ts";
import { sendCore, testCore } from "../harness/servers/core.ts";
import { type ListenerOptions, listenAndKeep, openMxRole } from "../harness/servers/mx-rig.ts";
import { listenForSubmission } from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const MESSAGE = "Subject: hello\r\n\r\nHow are you?";
const MINUTE = 60_000;
const brief = ({ code, status }: Reply): string => (status === "" ? String(code) : `${code} ${status}`);

function admit(recipient: string): void {
  if (recipient.startsWith("nobody")) throw new Refusal("unknownRecipient");
}

/** A listener that trusts no client. */
function listenUntrusted(
  settings: ListenerOptions["settings"] = {},
  options: Parameters<typeof listenAndKeep>[0] = {},
) {
  return listenAndKeep({ admit, ...options, settings: { "mx.trustedNetworks": "none", ...settings } });
}

/** Lets the clock jump to the delays until there is a reply; returns the time that took, and the reply. */
async function afterWaiting(runtime: FakeRuntime, reply: Promise<Reply>): Promise<[ms: number, reply: string]> {
  const started = runtime.now();
  let isThere = false;
  const noted = reply.finally(() => {
    isThere = true;
  });
  while (!isThere) {
    await new Promise((resolve) => setImmediate(resolve));
    const next = runtime.nextTimer();
    if (!isThere && next !== undefined && next <= started + 10_000) runtime.advanceTo(next);
  }
  return [runtime.now() - started, brief(await noted)];
}

async function startMail(client: SmtpClient, reversePath = "a@remote.example"): Promise<void> {
  await client.expect(250, `MAIL FROM:<${reversePath}>`);
}

describe("limits of one source", () => {
  test("connections a minute, and four times as many from its network", async () => {
    const { address, runtime, lines } = await listenUntrusted({ "mx.connectionsPerMinute": 2 });
    const greeting = async (from: string): Promise<string> => {
      const client = await connectSmtp(address, { greet: false, from });
      const reply = brief(await client.reply());
      client.destroy();
      return reply;
    };
    const sources = ["127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.3"];
    const greeted = await Promise.all(sources.map(greeting));
    expect(greeted).toEqual(["220", "220", "421 4.7.0", "220", "220", "421 4.7.0"]);
    const neighbours = ["127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.1.8"];
    expect(await Promise.all(neighbours.map(greeting))).toEqual(["220", "220", "220", "220", "421 4.7.0", "220"]);
    expect(lines.filter(({ message }) => message === "refused")).toEqual([
      expect.objectContaining({ reason: "tooManyConnections", ip: "127.0.0.2" }),
    ]);
    runtime.advanceTo(START + MINUTE);
    expect(await greeting("127.0.0.2")).toBe("220");
  });

  test("connections at once from its network", async () => {
    const { address } = await listenUntrusted({}, { limits: { connectionsPerNetwork: 2 } });
    const first = await connectSmtp(address, { from: "127.0.0.2" });
    const second = await connectSmtp(address, { from: "127.0.0.3" });
    // The silent one of longest makes room.
    await first.expect(250, "NOOP");
    const third = await connectSmtp(address, { from: "127.0.0.4" });
    expect(brief(await second.reply())).toBe("421 4.7.0");
    await second.closed;
    const elsewhere = await connectSmtp(address, { from: "127.0.1.4" });
    await first.expect(250, "NOOP");
    for (const client of [first, third, elsewhere]) client.destroy();
  });

  test("strangers leave a quarter of all connections to networks whose mail was wanted", async () => {
    const isKnown = (ip: string) => ip.startsWith("127.0.9.");
    const { address } = await listenUntrusted({}, { limits: { connections: 5 }, isKnown });
    const open = (from: string) => connectSmtp(address, { from, greet: false });
    const strangers = await Promise.all([1, 2, 3, 4].map((i) => open(`127.0.${i}.1`)));
    for (const client of strangers) expect(brief(await client.reply())).toBe("220");
    const ended: number[] = [];
    for (const [i, client] of strangers.entries()) void client.closed.then(() => ended.push(i));
    const known = await open("127.0.9.1");
    expect(brief(await known.reply())).toBe("220");
    expect(ended).toEqual([]);
    const late = await open("127.0.5.1");
    expect(brief(await late.reply())).toBe("220");
    await strangers[0]?.closed;
    const another = await open("127.0.9.2");
    expect(brief(await another.reply())).toBe("220");
    await strangers[1]?.closed;
    expect(ended).toEqual([0, 1]);
    for (const client of [...strangers, known, late, another]) client.destroy();
  });

  test("a client that waits for us, or that sends its message, does not make room", async () => {
    const filing = Promise.withResolvers<AcceptResult>();
    let received = 0;
    const { address } = await listenUntrusted(
      {},
      {
        limits: { connections: 3 },
        async accept(_envelope, content) {
          for await (const chunk of content) received += chunk.byteLength;
          return filing.promise;
        },
      },
    );
    const inData = async (from: string) => {
      const client = await connectSmtp(address, { from });
      await startMail(client);
      await client.expect(250, "RCPT TO:<alice@example.test>");
      await client.expect(354, "DATA");
      return client;
    };
    const filed = await inData("127.0.1.1");
    filed.write(`${MESSAGE}\r\n.\r\n`);
    await until(() => received > 0);
    const sending = await inData("127.0.2.1");
    const silent = await connectSmtp(address, { from: "127.0.3.1" });
    let last = silent;
    for (const i of [4, 5, 6]) {
      const before = received;
      sending.write(`${"x".repeat(70)}\r\n`.repeat(500));
      await until(() => received > before + 20_000);
      const next = await connectSmtp(address, { from: `127.0.${i}.1` });
      expect(brief(await last.reply())).toBe("421 4.7.0");
      last = next;
    }
    sending.write(".\r\n");
    filing.resolve({ emailIds: ["msg_1"], isReport: false });
    expect([(await filed.reply()).code, (await sending.reply()).code]).toEqual([250, 250]);
    for (const client of [filed, sending, last]) client.destroy();
  });

  test.each([
    ["strangers", () => false],
    ["clients of known networks", (ip: string) => ip !== "127.0.7.1"],
  ] as const)("a thousand silent %s keep nobody out: an honest client is greeted at once", async (_who, isKnown) => {
    const { address } = await listenAndKeep({ admit, isKnown });
    const silent = await Promise.all(
      Array.from({ length: 1_000 }, (_, i) => connectSmtp(address, { from: `127.0.0.${2 + (i % 250)}`, greet: false })),
    );
    await Promise.all(silent.map((client) => client.reply()));
    for (const from of ["127.0.0.253", "127.0.7.1", "127.0.0.1"]) {
      const startedAt = performance.now();
      const honest = await connectSmtp(address, { from });
      expect(performance.now() - startedAt).toBeLessThan(1_000);
      expect((await honest.deliver({ to: "alice@example.test" }, MESSAGE)).code).toBe(250);
      honest.destroy();
    }
    for (const client of silent) client.destroy();
  });

  test("messages a minute, begun or sent", async () => {
    const { address, runtime } = await listenUntrusted({ "mx.messagesPerMinute": 2 });
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(client);
    await client.expect(250, "RSET");
    expect((await client.deliver({ to: "alice@example.test" }, MESSAGE)).code).toBe(250);
    expect(brief(await client.command("MAIL FROM:<a@remote.example>"))).toBe("451 4.7.1");
    const other = await connectSmtp(address, { from: "127.0.0.3" });
    await startMail(other);
    runtime.advanceTo(START + MINUTE);
    await startMail(client);
    for (const each of [client, other]) each.destroy();
  });

  test("recipients a minute, while those before them get their message", async () => {
    const { address, accepted } = await listenUntrusted({ "mx.recipientsPerMinute": 2 });
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(client);
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(550, "RCPT TO:<nobody@example.test>");
    expect(brief(await client.command("RCPT TO:<bob@example.test>"))).toBe("450 4.7.1");
    await client.expect(354, "DATA");
    expect((await client.command(`${MESSAGE}\r\n.`)).code).toBe(250);
    expect(accepted.map(({ envelope }) => envelope.recipients)).toEqual([["alice@example.test"]]);
    client.destroy();
  });

  test("loopback is trusted unless told otherwise: it meets no limit and waits for nothing", async () => {
    const settings = { "mx.connectionsPerMinute": 1, "mx.messagesPerMinute": 1, "mx.recipientsPerMinute": 1 };
    const { address } = await listenAndKeep({ admit, settings, limits: { connectionsPerSource: 1 } });
    const clients = await Promise.all([1, 2, 3].map(() => connectSmtp(address)));
    for (const client of clients) {
      await startMail(client, "");
      for (let i = 0; i < 30; i++) await client.expect(550, `RCPT TO:<nobody${i}@example.test>`);
      for (let i = 0; i < 3; i++) await client.expect(250, `RCPT TO:<r${i}@example.test>`);
      client.destroy();
    }
    const hasty = await connectSmtp(address, { ehlo: false });
    hasty.write("EHLO client.example\r\nMAIL FROM:<a@remote.example>\r\n");
    expect([(await hasty.reply()).code, (await hasty.reply()).code]).toEqual([250, 250]);
    hasty.destroy();
  });
});

test("clients that may speak first are greeted at once: mail apps, and trusted servers", async () => {
  const trusting = await listenAndKeep({ admit });
  const forApps = await listenForSubmission();
  // The timer of smtp-server.
  const timers = spyOn(globalThis, "setTimeout").mockImplementation((() => ({ unref() {} })) as never);
  try {
    for (const { address } of [trusting, forApps]) (await connectSmtp(address, { ehlo: false })).destroy();
  } finally {
    timers.mockRestore();
  }
});

describe("a client that speaks out of turn", () => {
  const EARLY: [what: string, text: string][] = [
    ["a command before the greeting", "EHLO client.example\r\n"],
    ["a session before the greeting", "HELO x\r\nMAIL FROM:<a@remote.example>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n"],
    ["half a line before the greeting", "EHLO"],
  ];
  test.each(EARLY)("%s: refused, after a delay", async (_, text) => {
    const { address, runtime, accepted } = await listenUntrusted();
    const client = await connectSmtp(address, { greet: false, from: "127.0.0.2" });
    client.write(text);
    expect(await afterWaiting(runtime, client.reply())).toEqual([5_000, "554 5.5.1"]);
    await client.closed;
    expect(accepted).toEqual([]);
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test.each(["EHLO", "HELO"])("MAIL before the reply to %s is refused", async (hello) => {
    const { address, runtime, lines } = await listenUntrusted();
    const client = await connectSmtp(address, { ehlo: false, from: "127.0.0.2" });
    client.write(`${hello} client.example\r\nMAIL FROM:<a@remote.example>\r\nRCPT TO:<b@example.test>\r\nDATA\r\n`);
    expect((await client.reply()).code).toBe(250);
    expect(await afterWaiting(runtime, client.reply())).toEqual([5_000, "554 5.5.1"]);
    await client.closed;
    expect(lines).toContainEqual(expect.objectContaining({ message: "refused", reason: "outOfTurn", ip: "127.0.0.2" }));
  });

  test("may leave before the refusal, and leaves nothing behind", async () => {
    const { address, runtime } = await listenUntrusted();
    const client = await connectSmtp(address, { ehlo: false, from: "127.0.0.2" });
    client.write("EHLO client.example\r\nMAIL FROM:<a@remote.example>\r\n");
    expect((await client.reply()).code).toBe(250);
    client.destroy();
    await until(() => runtime.nextTimer() === undefined);
  });

  test("may pipeline as RFC 2920 allows", async () => {
    const { address, accepted } = await listenUntrusted();
    const leaving = await connectSmtp(address, { ehlo: false, from: "127.0.0.2" });
    leaving.write("EHLO client.example\r\nQUIT\r\n");
    expect([(await leaving.reply()).code, (await leaving.reply()).code]).toEqual([250, 221]);
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    client.write("MAIL FROM:<a@remote.example>\r\nRCPT TO:<alice@example.test>\r\nDATA\r\n");
    for (const code of [250, 250, 354]) expect((await client.reply()).code).toBe(code);
    client.write("one\r\n.\r\nMAIL FROM:<a@remote.example>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\n");
    for (const code of [250, 250, 250, 354]) expect((await client.reply()).code).toBe(code);
    expect((await client.command("two\r\n.")).code).toBe(250);
    expect(accepted).toHaveLength(2);
    await client.expect(220, "STARTTLS");
    await client.secure();
    await client.expect(250, "EHLO client.example");
    await startMail(client);
    client.destroy();
  });
});

describe("a client that guesses recipients", () => {
  const GUESS = "RCPT TO:<nobody@example.test>";

  test("waits longer for each reply, and is disconnected after twenty", async () => {
    const { address, runtime, lines } = await listenUntrusted();
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(client);
    const replies: [number, string][] = [];
    for (let i = 0; i < 20; i++) replies.push(await afterWaiting(runtime, client.command(GUESS)));
    expect(replies.map(([ms]) => ms)).toEqual([
      0,
      0,
      0,
      0,
      0,
      500,
      1_000,
      2_000,
      4_000,
      8_000,
      ...Array<number>(10).fill(10_000),
    ]);
    expect(replies.map(([, reply]) => reply)).toEqual([...Array<string>(19).fill("550 5.1.1"), "421 4.7.0"]);
    await client.closed;
    const told = lines.filter(({ message }) => message === "refused").map(({ reason }) => reason);
    expect([...new Set(told)].sort()).toEqual(["tooManyGuesses", "unknownRecipient"]);
  });

  test("waits on the next connection too, and from another address of its network; not for known recipients; not for long", async () => {
    const { address, runtime } = await listenUntrusted();
    for (const from of ["127.0.0.2", "127.0.0.3"]) {
      const client = await connectSmtp(address, { from });
      await startMail(client);
      for (let i = 0; i < 4; i++) await afterWaiting(runtime, client.command(GUESS));
      client.destroy();
    }
    const next = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(next);
    expect(await afterWaiting(runtime, next.command(GUESS))).toEqual([4_000, "550 5.1.1"]);
    expect(await afterWaiting(runtime, next.command("RCPT TO:<alice@example.test>"))).toEqual([0, "250 2.1.5"]);
    const elsewhere = await connectSmtp(address, { from: "127.0.1.2" });
    await startMail(elsewhere);
    expect(await afterWaiting(runtime, elsewhere.command(GUESS))).toEqual([0, "550 5.1.1"]);
    elsewhere.destroy();
    runtime.advanceTo(runtime.now() + 10 * MINUTE);
    next.destroy();
    const later = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(later);
    expect(await afterWaiting(runtime, later.command(GUESS))).toEqual([0, "550 5.1.1"]);
    later.destroy();
  });

  test("restarts the count of twenty with an accepted message", async () => {
    const { address, runtime } = await listenUntrusted();
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    for (let round = 0; round < 2; round++) {
      await startMail(client);
      for (let i = 0; i < 15; i++) expect((await afterWaiting(runtime, client.command(GUESS)))[1]).toBe("550 5.1.1");
      await client.expect(250, "RCPT TO:<alice@example.test>");
      await client.expect(354, "DATA");
      expect((await client.command(`${MESSAGE}\r\n.`)).code).toBe(250);
    }
    client.destroy();
  });

  test("gets no replies on many connections at once", async () => {
    const { address, runtime } = await listenUntrusted();
    const clients = await Promise.all(Array.from({ length: 16 }, () => connectSmtp(address, { from: "127.0.0.2" })));
    await Promise.all(clients.map((client) => startMail(client)));
    const first = clients.slice(0, 5).map((client) => client.command(GUESS));
    expect((await Promise.all(first)).map(brief)).toEqual(Array<string>(5).fill("550 5.1.1"));
    const answered = new Set<SmtpClient>();
    const rest = clients.slice(5).map((client) => client.command(GUESS).finally(() => answered.add(client)));
    const hasty = brief(await Promise.race(rest));
    expect(hasty).toBe("421 4.7.0");
    expect(answered.size).toBe(1);
    runtime.advanceTo(runtime.now() + 10_000);
    expect((await Promise.all(rest)).map(brief).filter((reply) => reply === "550 5.1.1")).toHaveLength(10);
    for (const client of clients) client.destroy();
  });
});

describe("mail without a return path", () => {
  test("goes to one recipient at a time, whether it is a report or not", async () => {
    const { address, accepted } = await listenUntrusted();
    const client = await connectSmtp(address, { from: "127.0.0.2" });
    await startMail(client, "");
    await client.expect(550, "RCPT TO:<nobody@example.test>");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    expect(brief(await client.command("RCPT TO:<bob@example.test>"))).toBe("452 4.5.3");
    await client.expect(250, "RCPT TO:<ALICE@example.test>");
    await client.expect(354, "DATA");
    expect((await client.command("Auto-Submitted: auto-replied\r\n\r\nI am away.\r\n.")).code).toBe(250);
    expect((await client.deliver({ from: "", to: "bob@example.test" }, MESSAGE)).code).toBe(250);
    const several = ["alice@example.test", "bob@example.test"];
    expect((await client.deliver({ to: several }, MESSAGE)).code).toBe(250);
    expect(accepted.map(({ envelope }) => envelope.recipients.map((each) => each.toLowerCase()))).toEqual([
      ["alice@example.test"],
      ["bob@example.test"],
      several,
    ]);
    client.destroy();
  });
});

describe("counting", () => {
  /** A listener's context with these settings, and no client that is trusted. */
  function open(settings: Record<string, unknown> = {}) {
    const core = sendCore(testCore());
    const get = ((name: keyof typeof SETTINGS) =>
      (({ "mx.trustedNetworks": "none", ...settings }) as Record<string, unknown>)[name] ??
      SETTINGS[name].default) as Options["get"];
    return { ...core, options: { ...core.options, get } };
  }

  test("an hour holds twenty minutes at full rate", () => {
    const core = open({ "mx.messagesPerMinute": 5 });
    const { runtime } = core;
    const role = openMxRole(core);
    const session = role.open({ trace: "t", ip: "192.0.2.1" });
    const perMinute = Array.from({ length: 61 }, () => {
      let taken = 0;
      try {
        for (; taken < 100; taken++) session.startMail("a@remote.example");
      } catch (error) {
        expect(error).toMatchObject({ reason: "tooMuchMail" });
      }
      runtime.advanceTo(runtime.now() + MINUTE);
      return taken;
    });
    expect(perMinute).toEqual([...Array<number>(20).fill(5), ...Array<number>(40).fill(0), 5]);
  });

  test("no malformed address is trusted or makes the listener fail", () => {
    const group = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16));
    const core = open();
    const ipv6 = fc.array(group, { minLength: 8, maxLength: 8 }).map((groups) => groups.join(":"));
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.ipV4(), ipv6, fc.string()), { maxLength: 50 }), (addresses) => {
        const role = openMxRole(core);
        for (const address of addresses) {
          expect(role.isTrusted(address)).toBe(false);
          expect(() => role.open({ trace: "t", ip: address })).not.toThrow();
        }
      }),
      { numRuns: 50 },
    );
  });

  test("a source is an IPv4 address or an IPv6 /64, a network four times as much", () => {
    const role = openMxRole(open());
    const opened = (addressOf: (i: number) => string): number => {
      let count = 0;
      for (let i = 0; i < 2_000; i++) {
        try {
          role.open({ trace: "t", ip: addressOf(i) });
          count++;
        } catch (error) {
          expect(error).toMatchObject({ reason: "tooManyConnections" });
        }
      }
      return count;
    };
    expect(opened(() => "198.51.100.1")).toBe(300);
    expect(opened(() => "::ffff:198.51.100.2")).toBe(300);
    expect(opened((i) => `203.0.113.${i % 256}`)).toBe(1_200);
    expect(opened((i) => `2001:db8:1:1::${i.toString(16)}`)).toBe(300);
    expect(opened((i) => `2001:db8:2:${i.toString(16)}::1`)).toBe(1_200);
  });
});
