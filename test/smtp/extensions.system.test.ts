/**
 * CHUNKING and DSN with Debian's programs: Exim, Postfix and OpenSMTPD as clients of submission and of the MX listener, and as the next
 * hop of our relay; swaks as a mail app.
 */
import { describe, expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { openSmtpSession } from "../../src/smtp/client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { startExim, whyNoExim } from "../harness/peers/exim.ts";
import { startOpenSmtpd, whyNoOpenSmtpd } from "../harness/peers/opensmtpd.ts";
import { noPostfix, startPostfix } from "../harness/peers/postfix.ts";
import { type RemoteMx, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { installed, run } from "../harness/programs.ts";
import { listenForMailbox } from "../harness/servers/mx-rig.ts";
import { PASSWORD } from "../harness/servers/submission-rig.ts";
import { type World, world } from "../harness/servers/submission-world.ts";
import { until } from "../harness/until.ts";

const noExim = await whyNoExim();
const because = (reason: string | undefined): string => (reason === undefined ? "" : ` (${reason})`);

const BODY = `.\r\n..two\r\nGr${"\u00fc"}\u00dfe\r\n${"0123456789".repeat(90)}\r\n`;
const letter = (subject: string) =>
  `From: alice@example.test\r\nTo: bob@remote.example\r\nSubject: ${subject}\r\nMessage-ID: <${subject}@app.example>\r\n` +
  `Date: Mon, 05 Jan 2026 09:00:00 +0000\r\n\r\n${BODY}`;

/** Hands a message to another server, which takes it from anybody. */
async function handTo(port: number, mail: string, rcpt: string, subject: string): Promise<void> {
  const client = await connectSmtp({ host: "127.0.0.1", port });
  await client.expect(250, `MAIL FROM:<alice@example.test> BODY=8BITMIME${mail}`);
  await client.expect(250, `RCPT TO:${rcpt}`);
  await client.expect(354, "DATA");
  client.write(`${letter(subject).replace(/^\./gm, "..")}.\r\n`);
  await client.expect(250);
  await client.expect(221, "QUIT");
}

/** Starts an appliance before a server elsewhere that supports DSN and CHUNKING. */
async function start(): Promise<World> {
  const it = await world();
  it.remote.script({ dsn: true, chunking: true });
  return it;
}

/** Resolves with the commands that the server elsewhere got, once it has the message, and the end of its content. */
async function arrived({ remote, server }: World, count: number): Promise<string[]> {
  await until(async () => {
    await server.settled();
    return remote.messages.length >= count;
  });
  expect(remote.messages.at(-1)?.content).toEndWith(`\r\n\r\n${BODY}`);
  return remote.commands.filter((line) => /^(MAIL|RCPT|BDAT|DATA)/.test(line)).slice(-3);
}

const swaks = installed("swaks");
describe.skipIf(swaks.absent)(swaks.named, () => {
  test("asks for notices", async () => {
    const it = await start();
    const { host, port } = it.submission;
    const { exitCode, output } = await run([
      ...[swaks.path, "--server", host, "--port", String(port), "--tls", "--auth", "PLAIN"],
      ...["--auth-user", "alice@example.test", "--auth-password", PASSWORD],
      // It has no option for parameters, and writes the last bracket itself, which is xtext.
      ...["--from", "alice@example.test> RET=HDRS ENVID=swaks", "--to", "bob@remote.example> NOTIFY=SUCCESS ORCPT=x;y"],
      ...["--header", "From: alice@example.test", "--body", BODY],
    ]);
    expect({ exitCode, output }).toMatchObject({ exitCode: 0, output: expect.stringMatching(/^<~ {2}250-DSN$/m) });
    expect(output).toMatch(/^<~ {2}250-CHUNKING$/m);
    expect(output).toMatch(/^<~ {2}250 LIMITS RCPTMAX=100$/m);
    await it.server.settled();
    expect(it.remote.commands.filter((line) => /^(MAIL|RCPT)/.test(line))).toEqual([
      expect.stringMatching(/ RET=HDRS ENVID=swaks>$/),
      "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS ORCPT=x;y>",
    ]);
  });
});

describe.skipIf(noExim !== undefined)(`Exim${because(noExim)}`, () => {
  test("sends chunks and DSN to submission, which go on to a server elsewhere", async () => {
    const it = await start();
    const exim = await startExim({
      port: it.submission.port,
      auth: { user: "alice@example.test", password: it.owner.apiKey },
    });
    const rcpt = "<bob@remote.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2B1@remote.example";
    await handTo(exim.port, " RET=HDRS ENVID=exim+2B1", rcpt, "by-exim");
    expect(await arrived(it, 1)).toEqual([
      expect.stringMatching(/^MAIL FROM:<bounce\+\S+@example\.test> BODY=8BITMIME RET=HDRS ENVID=exim\+2B1$/),
      "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2B1@remote.example",
      expect.stringMatching(/^BDAT \d+ LAST$/),
    ]);
    // K: by BDAT.
    await until(() => / => bob@remote\.example .* K .*C="250 2\.0\.0 msg_/.test(exim.log()));
  });

  test("sends chunks to the MX listener", async () => {
    const { address, filed } = await listenForMailbox();
    const exim = await startExim({ port: address.port });
    const long = `${BODY}${`${"x".repeat(70)}\r\n`.repeat(20_000)}`;
    const client = await connectSmtp({ host: "127.0.0.1", port: exim.port });
    await client.deliver({ to: "alice@example.test" }, `Subject: long\r\n\r\n${long.replace(/^\./gm, "..")}`);
    await until(() => filed().length === 1);
    expect(filed()[0]?.text.replaceAll("\n", "\r\n").trimEnd()).toBe(long.trimEnd());
    await until(() => / => alice@example\.test .* K .*C="250 2\.6\.0 msg_/.test(exim.log()));
  });

  test("takes chunks and DSN as the next hop", async () => {
    const beyond = await startRemoteMx({ dsn: true });
    const exim = await startExim({ port: beyond.port });
    await relayTo(exim.port);
    expect(await passedOn(beyond)).toEqual(PASSED_ON);
    expect(exim.log()).toMatch(/ <= bounce\+1@us\.test .* K S=/);
  });
});

describe.skipIf(noPostfix !== undefined)(`Postfix${because(noPostfix)}`, () => {
  test("sends DSN to submission, which goes on to a server elsewhere", async () => {
    const it = await start();
    const { port } = await startPostfix(`
myhostname = mx.postfix.test
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:${it.submission.port}
smtp_tls_security_level = encrypt
smtp_sasl_auth_enable = yes
smtp_sasl_security_options = noanonymous
smtp_sasl_password_maps = inline:{ { [127.0.0.1]:${it.submission.port} = alice@example.test:${it.owner.apiKey} } }
`);
    const rcpt = "<bob@remote.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2B1@remote.example";
    await handTo(port, " RET=HDRS ENVID=postfix+2B1", rcpt, "by-postfix");
    expect(await arrived(it, 1)).toEqual([
      expect.stringMatching(/^MAIL FROM:<bounce\+\S+@example\.test> BODY=8BITMIME RET=HDRS ENVID=postfix\+2B1$/),
      "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2B1@remote.example",
      expect.stringMatching(/^BDAT \d+ LAST$/),
    ]);
  });

  test("takes chunks and DSN as the next hop", async () => {
    const beyond = await startRemoteMx({ dsn: true });
    const postfix = await startPostfix(`
myhostname = mx.postfix.test
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:${beyond.port}
`);
    await relayTo(postfix.port);
    expect(await passedOn(beyond)).toEqual(PASSED_ON);
    await until(() => /disconnect from .* mail=1 rcpt=1 bdat=1 quit=1/.test(postfix.log()));
  });
});

const noOpenSmtpd = await whyNoOpenSmtpd();

describe.skipIf(noOpenSmtpd !== undefined)(`OpenSMTPD${because(noOpenSmtpd)}`, () => {
  test("signs in to submission, from which its mail goes on to a server elsewhere", async () => {
    const it = await start();
    const { port } = await startOpenSmtpd(
      (port) => `
table secrets { us = "alice@example.test:${it.owner.apiKey}" }
listen on 127.0.0.1 port ${port} hostname mx.opensmtpd.test
action submit relay host smtp+tls://us@127.0.0.1:${it.submission.port} auth <secrets> tls no-verify
match from any for any action submit
`,
    );
    await handTo(port, "", "<bob@remote.example> NOTIFY=SUCCESS", "by-opensmtpd");
    expect(await arrived(it, 1)).toEqual([
      expect.stringMatching(/^MAIL FROM:<bounce\+\S+@example\.test> BODY=8BITMIME$/),
      "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS",
      expect.stringMatching(/^BDAT \d+ LAST$/),
    ]);
  }, 30_000);
});

/** Sends a message by our client. */
async function relayTo(port: number): Promise<void> {
  const log = createLog("silent", Date.now, () => {});
  const tls = { mode: "opportunistic", verify: false, plainIfBroken: true } as const;
  const session = await openSmtpSession(
    { host: "mx.next.test", address: "127.0.0.1", port, tls },
    { runtime: systemRuntime(), hostname: "us.test", log, signal: new AbortController().signal },
  );
  const { results } = await session.transmit({
    reversePath: "bounce+1@us.test",
    recipients: ["bob@remote.example"],
    content: Buffer.from(letter("onward")),
    dsn: {
      ret: "HDRS",
      envid: "us+2B1",
      recipients: new Map([["bob@remote.example", { notify: "NEVER", orcpt: "rfc822;Bob+2B1@remote.example" }]]),
    },
  });
  session.close();
  expect(results).toMatchObject([{ kind: "accepted", reports: true }]);
}

/** Parameters of the commands, and end of the body, that the server beyond the next hop gets. */
async function passedOn(beyond: RemoteMx): Promise<unknown> {
  const [message] = await beyond.waitFor(1);
  const [mail, rcpt] = beyond.commands.filter((line) => /^(MAIL|RCPT)/.test(line));
  const parametersOf = (line = "") => line.split(" ").filter((word) => /^(RET|ENVID|NOTIFY|ORCPT)=/.test(word));
  return {
    mail: parametersOf(mail).sort(),
    rcpt: parametersOf(rcpt).sort(),
    body: message?.content.slice(-BODY.length - 4),
  };
}

const PASSED_ON = {
  mail: ["ENVID=us+2B1", "RET=HDRS"],
  rcpt: ["NOTIFY=NEVER", "ORCPT=rfc822;Bob+2B1@remote.example"],
  body: `\r\n\r\n${BODY}`,
};
