/** Servers of other projects at the other end of a connection: Postfix, and its test server smtp-sink. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { type Connection, createTransport, type Transport } from "../../src/outbound/transport.ts";
import type { DeliveryResult } from "../../src/smtp/delivery-result.ts";
import type { Options } from "../../src/store/settings.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { noPostfix, startPostfix } from "../harness/peers/postfix.ts";
import { makePair, OPPORTUNISTIC, type RemoteMx, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { isListening, takePort } from "../harness/port.ts";
import { until } from "../harness/until.ts";

const PATH = `${process.env.PATH}:/usr/sbin`;
const smtpSink = Bun.which("smtp-sink", { PATH });
const isRoot = process.getuid?.() === 0;

const children: Bun.Subprocess[] = [];
const transports: Transport[] = [];
afterAll(async () => {
  for (const transport of transports) transport.close();
  for (const child of children) child.kill();
  await Promise.all(children.map((child) => child.exited));
});

/** Resolves with a child that listens on the port. @throws when it ends first, with its output */
async function listening(child: Bun.Subprocess, port: number): Promise<void> {
  children.push(child);
  await until(async () => {
    if (child.exitCode !== null)
      throw new Error(`${child.exitCode}: ${await new Response(child.stderr as ReadableStream).text()}`);
    return isListening(port);
  });
}

/** A connection to the server on that port, as the MX of postfix.test. */
async function connectTo(port: number): Promise<Connection> {
  const dns = zone({ "postfix.test": { mx: [[10, "mx.postfix.test"]] }, "mx.postfix.test": { a: ["127.0.0.1"] } });
  const values: Record<string, unknown> = {
    "smtp.relay": "none",
    "smtp.outboundPort": port,
    "smtp.allowNetworks": ["127.0.0.0/8"],
  };
  const transport = createTransport({
    runtime: { ...systemRuntime(), dns },
    tlsPolicies: OPPORTUNISTIC,
    hostname: "us.test",
    options: { get: (name: string) => values[name] } as Pick<Options, "get">,
    log: createLog("silent", Date.now, () => {}),
  });
  transports.push(transport);
  return await transport.connect("postfix.test");
}

const HEADERS = "From: us@us.test\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <1@us.test>\r\n";
const letter = (subject: string) => Buffer.from(`${HEADERS}Subject: ${subject}\r\n\r\n.\r\n..two\r\nEnd\r\n`);
const send = (connection: Connection, recipients: string[], content: Uint8Array = letter("Hi")) =>
  connection.send({ reversePath: "bounce+1@us.test", recipients, content });
const told = (results: DeliveryResult[]) => results.map(({ kind, code, status, hard }) => [kind, code, status, hard]);

const withoutSink = smtpSink ? (isRoot ? "" : " (only as root)") : " (not installed)";

describe.skipIf(withoutSink !== "")(`smtp-sink${withoutSink}`, () => {
  async function sinkWith(...args: string[]) {
    const port = await takePort();
    const folder = temporaryFolder();
    chmodSync(folder, 0o777);
    const command = [
      smtpSink as string,
      "-u",
      "nobody",
      "-R",
      folder,
      "-d",
      "message.",
      ...args,
      `127.0.0.1:${port}`,
      "100",
    ];
    await listening(Bun.spawn(command, { env: { PATH }, stdio: ["ignore", "ignore", "pipe"] }), port);
    return {
      port,
      /** The messages that it got, in order of arrival. */
      messages: () => readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8")),
    };
  }

  test.each([[[]], [["-p"]], [["-e"]]])("accepts a hundred messages over one connection: %j", async (args) => {
    const { port, messages } = await sinkWith(...args);
    const connection = await connectTo(port);
    for (let i = 0; i < 100; i++) {
      expect(told(await send(connection, ["a@postfix.test", "b@postfix.test"], letter(`number ${i}`)))).toEqual(
        [1, 2].map(() => ["accepted", 250, "2.0.0", false]),
      );
    }
    connection.close();
    const received = messages();
    expect(received).toHaveLength(100);
    for (const message of received) expect(message).toEndWith("\n\n.\n..two\nEnd\n\n");
    expect(new Set(received.map((message) => /^Subject: (.*)$/m.exec(message)?.[1])).size).toBe(100);
  });

  test.each([
    ["hard to MAIL", ["-f", "MAIL"], ["refused", 500, "5.3.0", false]],
    ["hard to RCPT", ["-f", "RCPT"], ["refused", 500, "5.3.0", false]],
    ["soft to RCPT", ["-r", "RCPT"], ["deferred", 450, "4.3.0", false]],
    ["soft to the message", ["-r", "."], ["deferred", 450, "4.3.0", false]],
    ["gone at DATA", ["-q", "DATA"], ["deferred", undefined, "4.4.2", false]],
  ])("answers %s", async (_what, args, outcome) => {
    const { port } = await sinkWith(...args);
    expect(told(await send(await connectTo(port), ["a@postfix.test"]))).toEqual([outcome as never]);
  });
});

describe.skipIf(noPostfix !== undefined)(`Postfix${noPostfix === undefined ? "" : ` (${noPostfix})`}`, () => {
  let port = 0;
  /** The address to which Postfix delivers its mail. */
  let beyond: RemoteMx;

  beforeAll(async () => {
    beyond = await startRemoteMx();
    const { cert, key } = await makePair("mx.postfix.test");
    const pair = join(temporaryFolder(), "pair.pem");
    writeFileSync(pair, `${key}\n${cert}\n`);
    ({ port } = await startPostfix(`
myhostname = mx.postfix.test
mynetworks = 192.0.2.0/24
relay_domains = postfix.test
relay_recipient_maps = inline:{ ada@postfix.test=ok, bob@postfix.test=ok, busy@postfix.test=ok, jürgen@postfix.test=ok }
relay_transport = smtp:[127.0.0.1]:${beyond.port}
smtpd_relay_restrictions =
smtpd_recipient_restrictions =
  check_recipient_access inline:{ { busy@postfix.test = 450 4.2.1 Greylisted } }, reject_unauth_destination
smtpd_reject_unlisted_recipient = yes
smtpd_tls_security_level = may
smtpd_tls_chain_files = ${pair}
message_size_limit = 100000
`));
  });

  test("accepts mail over TLS for known recipients, and refuses the others with a reason", async () => {
    const connection = await connectTo(port);
    const recipients = [
      "ada@postfix.test",
      "nobody@postfix.test",
      "busy@postfix.test",
      "eve@elsewhere.test",
      "bob@postfix.test",
    ];
    const results = await send(connection, recipients, letter("to some"));
    expect(told(results)).toEqual([
      ["accepted", 250, "2.0.0", false],
      ["refused", 550, "5.1.1", true],
      ["deferred", 450, "4.2.1", false],
      ["refused", 554, "5.7.1", false],
      ["accepted", 250, "2.0.0", false],
    ]);
    expect(results[1]?.reply).toStartWith("550 5.1.1 <nobody@postfix.test>: Recipient address rejected");
    const [message] = await beyond.waitFor(1);
    expect(message).toMatchObject({ from: "bounce+1@us.test", to: ["ada@postfix.test", "bob@postfix.test"] });
    expect(message?.content).toEndWith(letter("to some").toString());
    expect(message?.content).toMatch(/^Received: from us\.test .*\r\n\tby mx\.postfix\.test \(Postfix\) with ESMTPS /);
    expect(connection.usable()).toBe(true);
  });

  test("gets a new transaction after one without accepted recipients", async () => {
    const connection = await connectTo(port);
    const before = beyond.messages.length;
    expect(told(await send(connection, ["nobody@postfix.test"]))).toEqual([["refused", 550, "5.1.1", true]]);
    expect(told(await send(connection, ["ada@postfix.test"], letter("after all")))).toMatchObject([
      ["accepted", 250, "2.0.0", false],
    ]);
    const messages = await beyond.waitFor(before + 1);
    expect(messages.at(-1)).toMatchObject({ to: ["ada@postfix.test"] });
  });

  test("accepts internationalised addresses and headers", async () => {
    const before = beyond.messages.length;
    const content = Buffer.from(`${HEADERS}To: jürgen@postfix.test\r\nSubject: Grüße\r\n\r\nSchöne Grüße\r\n`);
    expect(told(await send(await connectTo(port), ["jürgen@postfix.test"], content))).toEqual([
      ["accepted", 250, "2.0.0", false],
    ]);
    const messages = await beyond.waitFor(before + 1);
    expect(messages.at(-1)).toMatchObject({ to: ["jürgen@postfix.test"] });
    expect(messages.at(-1)?.content).toEndWith(content.toString());
  });

  test("is not sent a message that it declares too large", async () => {
    const content = Buffer.concat([letter("large"), Buffer.alloc(100_000, "a\r\n")]);
    expect(told(await send(await connectTo(port), ["ada@postfix.test"], content))).toEqual([
      ["refused", undefined, "5.3.4", false],
    ]);
  });
});
