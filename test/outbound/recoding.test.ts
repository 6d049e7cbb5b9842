/** Mail that leaves is what SMTP can carry: mail of mail apps and rules on its way to servers that take less than others. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { isAscii } from "node:buffer";
import { normalizeGivenRules, putRules } from "../../src/mailbox/filing/rules.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { dkimKeys, suppressions } from "../../src/store/schema.ts";
import { verifyDkim } from "../harness/mail/dkim-verifier.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { noticesOf, signedIn, type World, world } from "../harness/servers/submission-world.ts";

// The first test starts the workers.
setDefaultTimeout(20_000);

const FROM = "From: Alice <alice@example.test>\r\n";
const TEXT = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n";
const TO = "To: bob@remote.example\r\n";
const ALL: RemoteScript = { eightBitMime: true, smtputf8: true, chunking: false };
const SEVEN_BIT: RemoteScript = { eightBitMime: false, smtputf8: false };

/** Submits a message for people elsewhere and here. */
async function submit(it: World, message: string, to = ["bob@remote.example"]): Promise<void> {
  const client = await signedIn(it);
  await client.expect(250, "MAIL FROM:<alice@example.test> BODY=8BITMIME SMTPUTF8");
  for (const recipient of to) await client.expect(250, `RCPT TO:<${recipient}>`);
  await client.expect(354, "DATA");
  client.write(`${message.replace(/^\./gm, "..")}.\r\n`);
  await client.expect(250);
  client.destroy();
  await it.server.settled();
}

let shared: Promise<World> | undefined;

/** The world of the tests that change nothing in it. No connection to the remote server is open, nor an earlier one known. */
async function sharedWorld(script: RemoteScript): Promise<World> {
  shared ??= world();
  const it = await shared;
  // Longer than idle connections are kept.
  await it.advance(10_000);
  await it.remote.idle();
  it.remote.script({ ...ALL, ...script });
  return it;
}

async function sent(script: RemoteScript, message: string) {
  const it = await sharedWorld(script);
  const before = it.remote.messages.length;
  await submit(it, message);
  return { it, count: it.remote.messages.length - before, ...arrived(it, before) };
}

/** The last of the messages that came after the first `before`. */
function arrived(it: World, before: number) {
  const message = it.remote.messages.slice(before).at(-1);
  const bytes = Buffer.from(message?.bytes ?? []);
  return { bytes, content: bytes.toString(), mail: it.remote.commands.findLast((line) => line.startsWith("MAIL")) };
}

/** Verifies every signature of a message with the keys that its domain publishes. */
function expectSigned({ core }: World, bytes: Buffer): void {
  const published = core.store.db.select().from(dkimKeys).all();
  const signatures = verifyDkim(bytes, (selector) => published.find((key) => key.selector === selector)?.publicKey);
  expect(signatures.map(({ valid }) => valid)).toEqual([true, true]);
}

const longest = (bytes: Buffer) =>
  Math.max(
    ...bytes
      .toString("latin1")
      .split("\r\n")
      .map(({ length }) => length),
  );

describe("8-bit text", () => {
  const message = `${FROM}${TO}Subject: Hi\r\n${TEXT}\r\n.Schöne Grüße \r\n`;

  test("goes as it is where the server takes it", async () => {
    const { it, bytes, mail } = await sent({}, message);
    expect(bytes.toString()).toEndWith(message);
    expect(mail).toMatch(/^MAIL FROM:<bounce\+\S+> BODY=8BITMIME$/);
    expectSigned(it, bytes);
  });

  test.each([
    ["BDAT", { chunking: true }],
    ["DATA", { chunking: false }],
    ["a message too large for a row", { chunking: true }],
  ])("is re-encoded and signed where it does not: %s", async (what, more) => {
    const text = what.startsWith("a message") ? message + "Grüße\r\n".repeat(60_000) : message;
    const { it, bytes, mail } = await sent({ ...SEVEN_BIT, ...more }, text);
    expect(isAscii(bytes)).toBe(true);
    expect(mail).toMatch(/^MAIL FROM:<bounce\+\S+>$/);
    expectSigned(it, bytes);
    const { text: read } = await parseMessage(bytes);
    expect(read).toBe((await parseMessage(Buffer.from(text))).text);
  });

  test("reaches servers of both kinds and a colleague, each in its form", async () => {
    const it = await world();
    const old = await startRemoteMx({ ...SEVEN_BIT, host: "127.0.0.2", port: it.remote.port });
    await submit(it, message, ["bob@remote.example", "carl@old.example", "alice@example.test"]);
    const [modern] = it.remote.messages;
    const [converted] = old.messages;
    expect(modern?.content).toEndWith(message);
    expect(isAscii(Buffer.from(converted?.bytes ?? []))).toBe(true);
    for (const one of [modern, converted]) expectSigned(it, Buffer.from(one?.bytes ?? []));
    for (const folder of ["sent", "inbox"]) {
      const { body } = await it.api.get<{ messages: { id: string }[] }>(`/messages?folder=${folder}`);
      expect(body.messages).toHaveLength(1);
      const { message: read } = (await it.api.get<{ message: { text: string } }>(`/messages/${body.messages[0]?.id}`))
        .body;
      expect(read.text.trimEnd()).toBe(".Schöne Grüße");
    }
  });
});

describe("lines that are too long", () => {
  test.each([[{}], [{ chunking: true }], [SEVEN_BIT]])("become shorter for every server: %j", async (script) => {
    const text = `${"lang ü ".repeat(900)}\r\n${"x".repeat(5_000)}\r\n`;
    const subject = `Subject: ${"word ".repeat(199)}end\r\n`;
    const { it, bytes } = await sent(script, `${FROM}${TO}${subject}${TEXT}\r\n${text}`);
    expect(longest(bytes)).toBeLessThanOrEqual(998);
    expectSigned(it, bytes);
    const read = await parseMessage(bytes);
    expect(read.text).toBe(text.replaceAll("\r\n", "\n").trimEnd());
    expect(read.subject).toBe(`${"word ".repeat(199)}end`);
  });
});

describe("a header in UTF-8", () => {
  const header = "To: Bjørn <bob@remote.example>\r\nSubject: Schöne Grüße\r\n";
  const message = `${FROM}${header}MIME-Version: 1.0\r\n\r\nText\r\n`;

  test("goes as it is where the server takes it", async () => {
    const { it, bytes, mail } = await sent({}, message);
    expect(bytes.toString()).toEndWith(message);
    expect(mail).toMatch(/ BODY=8BITMIME SMTPUTF8$/);
    expectSigned(it, bytes);
  });

  test("is encoded and signed where it does not", async () => {
    const { it, bytes, mail } = await sent({ smtputf8: false }, message);
    expect(isAscii(bytes)).toBe(true);
    expect(mail).toMatch(/^MAIL FROM:<bounce\+\S+>$/);
    expectSigned(it, bytes);
    const { subject, to } = await parseMessage(bytes);
    expect({ subject, to }).toEqual({ subject: "Schöne Grüße", to: [{ email: "bob@remote.example", name: "Bjørn" }] });
  });

  test("with an address that has no other form bounces there", async () => {
    const it = await world();
    it.remote.script({ smtputf8: false });
    await submit(
      it,
      message
        .replace("To: ", "To: Bob <bob@remote.example>, ")
        .replace("<bob@remote.example>\r", "<bjørn@remote.example>\r"),
    );
    expect(it.remote.messages).toEqual([]);
    const [notice] = await noticesOf(it);
    expect(notice?.text).toContain("takes no internationalised mail (SMTPUTF8)");
  });

  test("in another charset is encoded for every server", async () => {
    const it = await sharedWorld({});
    const before = it.remote.messages.length;
    const client = await signedIn(it);
    await client.expect(250, "MAIL FROM:<alice@example.test>");
    await client.expect(250, "RCPT TO:<bob@remote.example>");
    await client.expect(354, "DATA");
    const latin1 = `${FROM}${TO}Subject: Gr\xfc\xdfe\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe\r\n`;
    client.write(Buffer.from(`${latin1}.\r\n`, "latin1"));
    await client.expect(250);
    await it.server.settled();
    const { bytes, mail } = arrived(it, before);
    expect(mail).toMatch(/ BODY=8BITMIME$/);
    expectSigned(it, bytes);
    expect(bytes.toString("latin1")).toEndWith("\r\n\r\nGr\xfc\xdfe\r\n");
    expect(bytes.toString("latin1")).toContain("\r\nSubject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n");
  });
});

describe.each([
  ["multipart/signed", 'multipart/signed; protocol="application/pgp-signature"; boundary=s'],
  ["multipart/encrypted", 'multipart/encrypted; protocol="application/pgp-encrypted"; boundary=s'],
])("%s", (_what, type) => {
  const sealed = `--s\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße  \r\n--s\r\n\r\nx\r\n--s--\r\n`;
  const message = `${FROM}${TO}Subject: Grüße\r\nContent-Type: ${type}\r\n\r\n${sealed}`;

  test("goes as it is where the server takes it, its header encoded", async () => {
    const { it, content, bytes } = await sent({ smtputf8: false }, message);
    expect(content).toEndWith(`\r\n\r\n${sealed}`);
    expect(content).toContain("Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n");
    expectSigned(it, bytes);
  });

  test("with long lines goes as it is", async () => {
    const long = message.replace("Grüße  ", "x".repeat(3_000));
    const { content } = await sent({}, long);
    expect(content).toEndWith(long);
  });

  test("bounces with 5.6.3 where the server does not take 8-bit octets", async () => {
    const before = await noticesOf(await sharedWorld({}));
    const { it, count } = await sent(SEVEN_BIT, message);
    expect(count).toBe(0);
    const [notice, ...more] = (await noticesOf(it)).slice(before.length);
    expect(more).toEqual([]);
    expect(notice?.text).toContain("takes no 8-bit mail (8BITMIME)");
    expect(notice?.parts[0]).toContain("Status: 5.6.3\r\n");
    expect(it.core.store.db.select().from(suppressions).all()).toEqual([]);
  });
});

test("what a rule forwards is re-encoded, also within an attached message", async () => {
  const it = await world();
  it.remote.script(SEVEN_BIT);
  const { store, options } = it.core;
  store.transact((tx) => {
    options.set(tx, "rules.forwardOutside", "true");
    const rule = { match: "subject:oak", actions: [{ type: "forward" as const, to: "carol@remote.example" }] };
    putRules(tx, it.owner.mailboxId, normalizeGivenRules([rule], it.runtime.now()));
  });
  const inner = `Subject: Grüße\r\nFrom: Jörg <j@y.example>\r\n${TEXT}\r\nSchöne Grüße ${"x".repeat(2_000)}\r\n`;
  const sender = mailer(it.mx, { starttls: false });
  await sender.send(
    { from: "bob@remote.example", to: "alice@example.test" },
    `From: bob@remote.example\r\nSubject: oak\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n${inner}\r\n--b--\r\n`,
  );
  sender.close();
  await it.server.settled();
  const { bytes } = arrived(it, 0);
  expect(isAscii(bytes)).toBe(true);
  expect(longest(bytes)).toBeLessThanOrEqual(998);
  expectSigned(it, bytes);
  const { attachments } = await parseMessage(bytes);
  const attached = await parseMessage(Buffer.from(attachments[0]?.content ?? []));
  expect(attached).toMatchObject({ subject: "Grüße", text: `Schöne Grüße ${"x".repeat(2_000)}` });
});

test.each([[{}], [{ chunking: true }]])("line ends of an attached message are those of mail: %j", async (script) => {
  const it = await sharedWorld(script);
  const before = it.remote.messages.length;
  const content = "Subject: Grüße\nContent-Type: text/plain; charset=utf-8\n\nSchöne\nGrüße\r\nund\rmehr\n";
  const file = {
    filename: "mail.eml",
    contentType: "message/rfc822",
    content: Buffer.from(content).toString("base64"),
  };
  const request = {
    from: "alice@example.test",
    to: "bob@remote.example",
    subject: "S",
    text: "T",
    attachments: [file],
  };
  expect((await it.api.post("/send", request)).status).toBe(202);
  await it.server.settled();
  const { bytes } = arrived(it, before);
  expect(bytes.toString()).toContain("\r\n\r\nSchöne\r\nGrüße\r\nund\r\nmehr\r\n");
  expect(bytes.toString("latin1")).not.toMatch(/(?<!\r)\n|\r(?!\n)/);
  expectSigned(it, bytes);
});

test("a smarthost without extensions gets mail re-encoded", async () => {
  const it = await world();
  it.remote.script(SEVEN_BIT);
  const { store, options } = it.core;
  store.transact((tx) => options.set(tx, "smtp.relay", `smtp://127.0.0.1:${it.remote.port}`));
  await submit(it, `${FROM}${TO}Subject: Grüße\r\n${TEXT}\r\nGrüße\r\n`, ["bob@remote.example", "eve@any.example"]);
  const { bytes } = arrived(it, 0);
  expect(it.remote.messages.map(({ to }) => to)).toEqual([["bob@remote.example", "eve@any.example"]]);
  expect(isAscii(bytes)).toBe(true);
  expectSigned(it, bytes);
});
