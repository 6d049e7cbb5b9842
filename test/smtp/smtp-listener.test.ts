import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import type { AcceptResult } from "../../src/inbound/data.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { createSmtpListener } from "../../src/smtp/smtp-listener.ts";
import { connectSmtp, type Reply } from "../harness/clients/smtp-client.ts";
import { makePair } from "../harness/peers/remote-mx.ts";
import { plain } from "../harness/runner/plain.ts";
import { START } from "../harness/runtime.ts";
import { sendCore, testCore } from "../harness/servers/core.ts";
import { listenAndKeep, openMxRole, replaceableCertificates } from "../harness/servers/mx-rig.ts";
import { until } from "../harness/until.ts";

const brief = ({ code, status }: Reply): string => (status === "" ? String(code) : `${code} ${status}`);
const MESSAGE = "Subject: hello\r\n\r\nHow are you?";

describe("the session", () => {
  test("greets with its name, and offers only the extensions that it supports", async () => {
    const { address } = await listenAndKeep({ maxBytes: () => 12_345 });
    const client = await connectSmtp(address, { greet: false });
    expect((await client.reply()).lines).toEqual(["mx.example.test ESMTP Mailroom"]);
    const { code, lines } = await client.command("EHLO client.example");
    expect(code).toBe(250);
    expect(lines[0]).toStartWith("mx.example.test ");
    expect(lines.slice(1).sort()).toEqual(
      [
        "8BITMIME",
        "CHUNKING",
        "ENHANCEDSTATUSCODES",
        "LIMITS RCPTMAX=100",
        "PIPELINING",
        "SIZE 12345",
        "SMTPUTF8",
        "STARTTLS",
      ].sort(),
    );
    expect(brief(await client.command("QUIT"))).toBe("221 2.0.0");
    await client.closed;
  });

  test("accepts a message and replies with its emailId", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    const reply = await client.deliver({ to: ["alice@example.test", "bob@example.test"] }, MESSAGE);
    expect(brief(reply)).toBe("250 2.6.0");
    expect(reply.lines).toEqual(["2.6.0 msg_1 filed"]);
    expect(accepted).toEqual([
      {
        envelope: {
          trace: expect.stringMatching(/^[\w-]{12}$/),
          ip: "127.0.0.1",
          helo: "client.example",
          tls: false,
          reversePath: "sender@remote.example",
          recipients: ["alice@example.test", "bob@example.test"],
          dsn: {
            recipients: new Map([
              ["alice@example.test", {}],
              ["bob@example.test", {}],
            ]),
          },
        },
        content: `${MESSAGE}\r\n`,
      },
    ]);
    client.destroy();
  });

  test("accepts many messages, and RSET begins anew", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    for (let i = 0; i < 3; i++) expect((await client.deliver({ to: `r${i}@example.test` }, MESSAGE)).code).toBe(250);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    await client.expect(250, "RCPT TO:<x@example.test>");
    await client.expect(250, "RSET");
    expect(brief(await client.command("DATA"))).toBe("503 5.5.1");
    expect(accepted.map(({ envelope }) => envelope.recipients)).toEqual([
      ["r0@example.test"],
      ["r1@example.test"],
      ["r2@example.test"],
    ]);
    client.destroy();
  });

  test("accepts HELO, the null reverse-path, 8BITMIME, SMTPUTF8 and dot-stuffing", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address, { ehlo: false });
    await client.expect(250, "HELO old.example");
    expect((await client.deliver({ from: "", to: "alice@example.test" }, "..\r\n...a\r\nb..")).code).toBe(250);
    await client.expect(250, "EHLO new.example");
    await client.expect(250, "MAIL FROM:<jürgen@remote.example> BODY=8BITMIME SMTPUTF8 SIZE=100");
    await client.expect(250, "RCPT TO:<δοκιμή@example.test>");
    await client.expect(354, "DATA");
    client.write("\xfc\r\n.\r\n");
    expect((await client.reply()).code).toBe(250);
    expect(accepted[0]).toMatchObject({ envelope: { reversePath: "" }, content: ".\r\n..a\r\nb..\r\n" });
    expect(accepted[1]?.envelope).toMatchObject({
      reversePath: "jürgen@remote.example",
      recipients: ["δοκιμή@example.test"],
    });
    client.destroy();
  });

  test("replies to pipelined commands one by one, and reads the message in the same packet", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    client.write(
      "MAIL FROM:<a@remote.example>\r\nRCPT TO:<alice@example.test>\r\nDATA\r\nSubject: x\r\n\r\none\r\n.\r\n" +
        "MAIL FROM:<b@remote.example>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\ntwo\r\n.\r\nQUIT\r\n",
    );
    const codes: number[] = [];
    for (let i = 0; i < 9; i++) codes.push((await client.reply()).code);
    expect(codes).toEqual([250, 250, 354, 250, 250, 250, 354, 250, 221]);
    expect(accepted.map(({ content }) => content)).toEqual(["Subject: x\r\n\r\none\r\n", "two\r\n"]);
  });

  const refusals: [line: string, reply: string][] = [
    ["MAIL FROM:<a@remote.example> AUTH=<>", "555 5.5.4"],
    ["MAIL FROM:<a@remote.example> RET=FULL ENVID=x", "555 5.5.4"],
    ["MAIL FROM:<a@remote.example> BODY=BINARYMIME", "501 5.5.4"],
    ["MAIL FROM:<a@remote.example> SIZE=many", "501 5.5.4"],
    ["MAIL FROM:<a@remote.example> SIZE=1000001", "552 5.3.4"],
    ["MAIL FROM:a@remote.example", "501 5.1.7"],
    ["MAIL FROM:<a\x01@remote.example>", "501 5.1.7"],
    ["RCPT TO:<alice@example.test>", "503 5.5.1"],
    ["DATA", "503 5.5.1"],
    ["AUTH PLAIN AGEAYg==", "500 5.5.2"],
    ["XCLIENT ADDR=192.0.2.1", "500 5.5.2"],
    ["XFORWARD ADDR=192.0.2.1", "500 5.5.2"],
    ["WIZ secret", "500 5.5.2"],
    ["EXPN staff", "502 5.5.1"],
    ["VRFY alice", "252 2.1.5"],
    ["STARTTLS now", "501 5.5.4"],
  ];
  test.each(refusals.map((row) => [plain(row[0]), ...row] as const))("%s", async (_, line, reply) => {
    const { address } = await listenAndKeep();
    const client = await connectSmtp(address);
    expect(brief(await client.command(line))).toBe(reply);
    await client.expect(250, "NOOP");
    client.destroy();
  });

  test("VRFY and EXPN have the same reply for every name", async () => {
    const { address } = await listenAndKeep();
    const client = await connectSmtp(address);
    for (const verb of ["VRFY", "EXPN"]) {
      expect(await client.command(`${verb} alice@example.test`)).toEqual(await client.command(`${verb} x@y.z`));
    }
    client.destroy();
  });

  test("requires HELO or EHLO first", async () => {
    const { address } = await listenAndKeep();
    const client = await connectSmtp(address, { ehlo: false });
    for (const line of ["MAIL FROM:<a@remote.example>", "RCPT TO:<alice@example.test>", "DATA"]) {
      expect(brief(await client.command(line))).toBe("503 5.5.1");
    }
    // RFC 5321 §4.1.4: commands other than mail need no EHLO.
    const others = ["NOOP", "RSET", "HELP", "VRFY alice", "EXPN staff"];
    for (const [i, code] of [250, 250, 214, 252, 502].entries()) await client.expect(code, others[i]);
    expect((await client.command("EHLO")).code).toBe(501);
    // A malformed name is accepted.
    await client.expect(250, "EHLO not_a..name");
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    client.destroy();
  });

  test("refuses one recipient, and goes on with the others", async () => {
    const admit = (recipient: string): void => {
      if (recipient.startsWith("nobody")) throw new Refusal("unknownRecipient");
      if (recipient.startsWith("broken")) throw new Error("of ours");
    };
    const { address, accepted, lines } = await listenAndKeep({ admit });
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    expect(brief(await client.command("RCPT TO:<nobody@example.test>"))).toBe("550 5.1.1");
    const broken = await client.command("RCPT TO:<broken@example.test>");
    expect(brief(broken)).toBe("451 4.3.0");
    expect(broken.lines.join()).not.toContain("of ours");
    expect(brief(await client.command("RCPT TO:<alice@example.test> NOTIFY=NEVER"))).toBe("555 5.5.4");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(354, "DATA");
    expect((await client.command(`${MESSAGE}\r\n.`)).code).toBe(250);
    expect(accepted.map(({ envelope }) => envelope.recipients)).toEqual([["alice@example.test"]]);
    expect(lines.filter(({ level }) => level === "error").map(({ message }) => message)).toEqual([
      "recipient not checked",
    ]);
    client.destroy();
  });

  test("passes the declared size to the check of the recipient", async () => {
    const declared: number[] = [];
    const { address } = await listenAndKeep({ admit: (_, size) => void declared.push(size) });
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example> SIZE=777");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(250, "RSET");
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    expect(declared).toEqual([777, 0]);
    client.destroy();
  });

  test("follows smtp.maxMessageBytes", async () => {
    let maxBytes = 1000;
    const { address } = await listenAndKeep({ maxBytes: () => maxBytes });
    const client = await connectSmtp(address);
    expect(brief(await client.command("MAIL FROM:<a@remote.example> SIZE=1500"))).toBe("552 5.3.4");
    maxBytes = 2000;
    expect((await client.command("EHLO client.example")).lines).toContain("SIZE 2000");
    await client.expect(250, "MAIL FROM:<a@remote.example> SIZE=1500");
    client.destroy();
  });
});

describe("limits", () => {
  test("100 recipients are accepted, and the next is deferred", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    for (let i = 0; i < 100; i++) await client.expect(250, `RCPT TO:<r${i}@example.test>`);
    for (let i = 100; i < 250; i++) {
      expect(brief(await client.command(`RCPT TO:<r${i}@example.test>`))).toBe("452 4.5.3");
    }
    await client.expect(354, "DATA");
    expect((await client.command(`${MESSAGE}\r\n.`)).code).toBe(250);
    expect(accepted[0]?.envelope.recipients).toHaveLength(100);
    client.destroy();
  });

  test("a long command line ends the session", async () => {
    const { address } = await listenAndKeep();
    const client = await connectSmtp(address);
    expect(brief(await client.command(`NOOP ${"x".repeat(1000)}`))).toBe("250 2.0.0");
    expect(brief(await client.command(`NOOP ${"x".repeat(3000)}`))).toBe("500 5.5.2");
    await client.closed;
    const endless = await connectSmtp(address);
    endless.write("x".repeat(3000));
    expect(brief(await endless.reply())).toBe("500 5.5.2");
    await endless.closed;
  });

  test("too many unknown commands, refused recipients and unproductive commands end the session", async () => {
    const admit = (): never => {
      throw new Refusal("unknownRecipient");
    };
    const { address } = await listenAndKeep({ admit, limits: { refusals: 20, replies: 50 } });
    const tries = async (line: string): Promise<number> => {
      const client = await connectSmtp(address);
      await client.expect(250, "MAIL FROM:<a@remote.example>");
      for (let count = 1; ; count++) {
        if (brief(await client.command(line)) === "421 4.7.0") {
          await client.closed;
          return count;
        }
      }
    };
    expect(await tries("BLAH")).toBe(10);
    expect(await tries("RCPT TO:<guess@example.test>")).toBe(22);
    expect(await tries("NOOP")).toBe(49);
  });

  test("connections are limited, from one source and in all", async () => {
    const { address } = await listenAndKeep({
      limits: { connectionsPerSource: 2, connections: 100 },
      settings: { "mx.trustedNetworks": "none" },
    });
    const first = await connectSmtp(address);
    const second = await connectSmtp(address);
    const third = await connectSmtp(address, { greet: false });
    expect(brief(await third.reply())).toBe("421 4.7.0");
    await third.closed;
    await first.expect(221, "QUIT");
    await first.closed;
    const fourth = await connectSmtp(address);
    await fourth.expect(250, "NOOP");
    second.destroy();
    fourth.destroy();

    const filing = Promise.withResolvers<AcceptResult>();
    const started = Promise.withResolvers<void>();
    const few = await listenAndKeep({
      limits: { connections: 1 },
      async accept(_, content) {
        for await (const _chunk of content);
        started.resolve();
        return filing.promise;
      },
    });
    const silent = await connectSmtp(few.address);
    const only = await connectSmtp(few.address);
    expect(brief(await silent.reply())).toBe("421 4.7.0");
    const reply = only.deliver({ to: "alice@example.test" }, MESSAGE);
    await started.promise;
    const refused = await connectSmtp(few.address, { greet: false });
    expect(brief(await refused.reply())).toBe("421 4.7.0");
    filing.resolve({ emailIds: ["msg_1"], isReport: false });
    expect((await reply).code).toBe(250);
    only.destroy();
  });

  test("with implicit TLS, a stranger that does not begin its handshake makes room", async () => {
    const { address } = await listenAndKeep({ implicitTls: true, limits: { connections: 3 } });
    const silent = await Promise.all(
      [2, 3, 4].map(async (n) => {
        const socket = connect({ ...address, localAddress: `127.0.${n}.1` });
        await once(socket, "connect");
        return { socket, ended: once(socket, "close") };
      }),
    );
    const client = await connectSmtp(address, { tls: true, from: "127.0.5.1" });
    await silent[0]?.ended;
    await client.expect(250, "NOOP");
    client.destroy();
    for (const { socket } of silent) socket.destroy();
  });

  test("a client that sends nothing, or sends slowly, is disconnected after five minutes", async () => {
    const { address, runtime } = await listenAndKeep();
    const client = await connectSmtp(address);
    client.write("NOO");
    runtime.advanceTo(START + 5 * 60_000 - 1);
    client.write("P\r\n");
    expect((await client.reply()).code).toBe(250);
    client.write("N");
    runtime.advanceTo(START + 10 * 60_000);
    expect(brief(await client.reply())).toBe("421 4.4.2");
    await client.closed;
  });

  const LINE = `${"x".repeat(1022)}\r\n`;
  test.each([
    ["less than 64 KiB of a message in three minutes", 63, 1],
    ["no whole message in half an hour", 65, 10],
  ])("a client that sends %s is disconnected, and nothing of it is filed", async (_what, lines, spans) => {
    let received = 0;
    const { address, runtime, accepted } = await listenAndKeep({
      maxBytes: () => 10_000_000,
      async accept(_envelope, content) {
        for await (const chunk of content) received += chunk.byteLength;
        throw new Refusal("aborted");
      },
    });
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(354, "DATA");
    for (let span = 1; span <= spans; span++) {
      client.write(LINE.repeat(lines));
      // The last bytes may belong to the end of the message.
      await until(() => received >= span * lines * LINE.length - 4);
      runtime.advanceTo(START + span * 3 * 60_000 - 1);
      expect(runtime.nextTimer()).toBe(START + span * 3 * 60_000);
      runtime.advanceTo(START + span * 3 * 60_000);
    }
    expect(brief(await client.reply())).toBe("421 4.4.2");
    await client.closed;
    expect(accepted).toEqual([]);
  });

  test("a client that waits for our reply is not disconnected", async () => {
    const filing = Promise.withResolvers<AcceptResult>();
    const started = Promise.withResolvers<void>();
    const { address, runtime } = await listenAndKeep({
      async accept(_, content) {
        for await (const _chunk of content);
        started.resolve();
        return filing.promise;
      },
    });
    const client = await connectSmtp(address);
    const reply = client.deliver({ to: "alice@example.test" }, MESSAGE);
    await started.promise;
    expect(runtime.nextTimer()).toBeUndefined();
    filing.resolve({ emailIds: ["msg_late"], isReport: false });
    expect((await reply).lines).toEqual(["2.6.0 msg_late filed"]);
    client.destroy();
  });

  test("a client with an idle socket is disconnected", async () => {
    const { address } = await listenAndKeep({ limits: { commandMs: 150 } });
    const client = await connectSmtp(address, { greet: false });
    await client.closed;
    expect([brief(await client.reply()), brief(await client.reply())]).toEqual(["220", "421 4.4.2"]);
  });

  test("no timer outlives its session", async () => {
    const left = Promise.withResolvers<void>();
    const { address, runtime } = await listenAndKeep({
      async accept(_, content) {
        try {
          for await (const _chunk of content);
        } catch {
          left.resolve();
        }
        throw new Refusal("aborted");
      },
    });
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(354, "DATA");
    client.write("half a mess");
    client.destroy();
    await left.promise;
    await until(() => runtime.nextTimer() === undefined);
  });
});

describe("STARTTLS", () => {
  test("presents our certificate, and begins the session anew", async () => {
    const { certificates } = await replaceableCertificates();
    const { address, accepted } = await listenAndKeep({ certificates });
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<before@remote.example>");
    await client.expect(220, "STARTTLS");
    const { fingerprint } = await client.secure();
    expect(fingerprint).toBe(new X509Certificate(certificates.current().cert).fingerprint256);
    expect(brief(await client.command("MAIL FROM:<a@remote.example>"))).toBe("503 5.5.1");
    const { lines } = await client.expect(250, "EHLO secure.example");
    expect(lines).not.toContain("STARTTLS");
    expect(brief(await client.command("STARTTLS"))).toBe("503 5.5.1");
    expect((await client.deliver({ to: "alice@example.test" }, MESSAGE)).code).toBe(250);
    expect(accepted[0]?.envelope).toMatchObject({ tls: true, helo: "secure.example" });
    client.destroy();
  });

  test("discards plain text that was sent after it", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    client.write("STARTTLS\r\nMAIL FROM:<injected@remote.example>\r\nRCPT TO:<alice@example.test>\r\n");
    expect((await client.reply()).code).toBe(220);
    await client.secure();
    await client.expect(250, "EHLO client.example");
    expect(brief(await client.command("DATA"))).toBe("503 5.5.1");
    expect((await client.deliver({ from: "real@remote.example", to: "bob@example.test" }, MESSAGE)).code).toBe(250);
    expect(accepted.map(({ envelope }) => envelope.reversePath)).toEqual(["real@remote.example"]);
    client.destroy();
  });

  test("discards a flood of plain text too, and half a line", async () => {
    const { address } = await listenAndKeep();
    const client = await connectSmtp(address);
    client.write(`STARTTLS\r\n${"NOOP\r\n".repeat(250)}MAIL FROM:<injected`);
    expect((await client.reply()).code).toBe(220);
    await client.secure();
    expect((await client.command("EHLO client.example")).lines).toContain("PIPELINING");
    expect((await client.command("NOOP")).lines).toEqual(["2.0.0 OK"]);
    client.destroy();
  });

  test("a failed handshake ends only its connection", async () => {
    const { address } = await listenAndKeep({ limits: { connectionsPerSource: 1 } });
    const client = await connectSmtp(address);
    await client.expect(220, "STARTTLS");
    client.write("this is no ClientHello\r\n\r\n\r\n\r\n");
    await client.closed;
    const next = await connectSmtp(address);
    await next.expect(250, "NOOP");
    next.destroy();
  });

  test("a new certificate is presented without a restart", async () => {
    const { certificates, replace } = await replaceableCertificates();
    const { address } = await listenAndKeep({ certificates });
    const seen: string[] = [];
    for (const next of [await makePair("mx.example.test"), undefined]) {
      const client = await connectSmtp(address);
      await client.expect(220, "STARTTLS");
      seen.push((await client.secure()).fingerprint);
      client.destroy();
      if (next) replace(next);
    }
    expect(seen[1]).toBe(new X509Certificate(certificates.current().cert).fingerprint256);
    expect(seen[0]).not.toBe(seen[1]);
  });

  test("a new certificate is presented with implicit TLS too, and open connections stay", async () => {
    const { certificates, replace } = await replaceableCertificates();
    const { address } = await listenAndKeep({ certificates, implicitTls: true });
    const first = await connectSmtp(address, { tls: true });
    replace(await makePair("mx.example.test"));
    const socket = connectTls({ ...address, rejectUnauthorized: false });
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    expect(fingerprint256).toBe(new X509Certificate(certificates.current().cert).fingerprint256);
    await first.expect(250, "NOOP");
    first.destroy();
  });
});

describe("stopping", () => {
  test("sends 421 to idle clients, and lets clients that are sending finish", async () => {
    const { address, listener, accepted } = await listenAndKeep();
    const idle = await connectSmtp(address);
    const sending = await connectSmtp(address);
    await sending.expect(250, "MAIL FROM:<a@remote.example>");
    await sending.expect(250, "RCPT TO:<alice@example.test>");
    await sending.expect(354, "DATA");
    sending.write("Subject: last\r\n\r\n");
    expect(listener.isListening()).toBe(true);

    const stopped = listener.stop(10_000);
    expect(listener.isListening()).toBe(false);
    expect(brief(await idle.reply())).toBe("421 4.3.2");
    await idle.closed;
    expect(
      await connectSmtp(address).then(
        () => "in",
        () => "refused",
      ),
    ).toBe("refused");

    expect((await sending.command("one more line\r\n.")).code).toBe(250);
    expect(brief(await sending.reply())).toBe("421 4.3.2");
    await sending.closed;
    await stopped;
    expect(accepted.map(({ content }) => content)).toEqual(["Subject: last\r\n\r\none more line\r\n"]);
  });

  test("waits no longer than its grace", async () => {
    const { address, listener, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    await client.expect(250, "MAIL FROM:<a@remote.example>");
    await client.expect(250, "RCPT TO:<alice@example.test>");
    await client.expect(354, "DATA");
    await listener.stop(20);
    expect(brief(await client.reply())).toBe("421 4.3.2");
    await client.closed;
    expect(accepted).toEqual([]);
  });

  test("reports a port that is in use when it starts", async () => {
    const { address } = await listenAndKeep();
    const { certificates } = await replaceableCertificates();
    const core = sendCore(testCore());
    const other = createSmtpListener(core, { listen: address, certificates, role: openMxRole(core) });
    expect(await other.start().catch((error) => error.code)).toBe("EADDRINUSE");
  });
});
