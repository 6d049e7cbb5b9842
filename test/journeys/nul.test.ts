/** Mail with NUL (rules: NUL): what comes from other servers is filed without, what mail apps hand in is refused. */
import { expect, test } from "bun:test";
import { queueEntries } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { newSigner, signed } from "../harness/mail/dkim-signer.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { deliverTo, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { boot } from "../harness/servers/boot.ts";
import { authPlain, brief } from "../harness/servers/submission-rig.ts";

const ALICE = "alice@example.test";
const signer = newSigner("strict.example");

interface Message {
  threadId: string;
  from: { email: string; name?: string };
  subject: string;
  text: string;
  attachments: { filename: string; url: string }[];
  auth: { dkim: string; dmarc: string };
}

async function world() {
  const remote = await startRemoteMx({});
  const dns = zone({
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
    "s._domainkey.strict.example": { txt: [signer.record] },
    "_dmarc.strict.example": { txt: ["v=DMARC1; p=reject"] },
  });
  const app = await boot({}, dns);
  deliverTo(remote, app.core);

  async function deliver(message: string): Promise<string> {
    const client = await connectSmtp(app.mx);
    const reply = await client.deliver({ from: "list@unknown.example", to: ALICE }, message);
    client.destroy();
    return brief(reply);
  }

  async function newest(): Promise<Message> {
    const { body } = await app.api.get<{ messages: { id: string }[] }>("/messages");
    return (await app.api.get<{ message: Message }>(`/messages/${body.messages[0]?.id}`)).body.message;
  }

  const contentOf = async ({ url }: { url: string }) =>
    Buffer.from((await app.api.bytes(url.replace(/^\/api\/v1/, ""))).body).toString();
  return { ...app, remote, deliver, newest, contentOf };
}

const lines = (...text: string[]) => text.join("\r\n");

test("from another server, header, texts and files lose it, unless it is encoded in a file", async () => {
  const it = await world();
  const message = lines(
    'From: "B\0en" <ben@remote.example>',
    `To: ${ALICE}`,
    "Subject: Lun\0ch =?utf-8?q?is=00_on?=",
    "Message-ID: <1@remote.example>",
    "MIME-Version: 1.0",
    "Content-Type: multipart/mixed; boundary=b",
    "",
    "--b",
    "Content-Type: text/plain",
    "",
    "At no\0on?",
    "--b",
    "Content-Type: text/plain",
    "Content-Transfer-Encoding: base64",
    "",
    Buffer.from("Or la\0ter?").toString("base64"),
    "--b",
    'Content-Type: application/octet-stream; name="me\0nu.bin"',
    "Content-Transfer-Encoding: base64",
    "",
    Buffer.from("a\0b").toString("base64"),
    "--b",
    "Content-Type: application/octet-stream; name=list.bin",
    "",
    "a\0b",
    "--b--",
  );
  expect(await it.deliver(message)).toBe("250 2.6.0");
  const filed = await it.newest();
  expect(filed).toMatchObject({
    from: { email: "ben@remote.example", name: "Ben" },
    subject: "Lunch is on",
    text: "At noon?\n\nOr later?",
    attachments: [{ filename: "menu.bin" }, { filename: "list.bin" }],
  });
  expect(await Promise.all(filed.attachments.map(it.contentOf))).toEqual(["a\0b", "ab"]);

  await it.api.post(`/threads/${filed.threadId}/reply`, { text: "Fi\0ne.", html: "<p>Fi\0ne.</p>", quote: true });
  await it.server.settled();
  const [sent] = it.remote.messages;
  expect(sent?.content).toContain("Fine.");
  expect(sent?.content).toContain("> At noon?");
  expect(sent?.content).not.toMatch(/\0|=00/);
});

test("what no parser takes apart is attached without it", async () => {
  const it = await world();
  const many = "--b\r\n\r\nx\r\n".repeat(1_001);
  expect(
    await it.deliver(`From: ben@remote.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${many}\0.`),
  ).toBe("250 2.6.0");
  const [original] = (await it.newest()).attachments;
  expect(original?.filename).toBe("original.eml");
  expect(await it.contentOf(original ?? { url: "" })).toEndWith("x\r\n.\r\n");
});

test("a signature is checked over the message as it came, and no NUL hides a field from it", async () => {
  const it = await world();
  const message = signed(
    lines("From: Ann <ann@strict.example>", `To: ${ALICE}`, "Subject: Hi", "", "At no\0on?"),
    signer,
  );
  expect(await it.deliver(message)).toBe("250 2.6.0");
  expect(await it.newest()).toMatchObject({ text: "At noon?", auth: { dkim: "pass", dmarc: "pass" } });
  expect(await it.deliver(`Fr\0om: Boss <boss@strict.example>\r\n${message}`)).toBe("550 5.7.1");
  expect(await it.deliver(`\0\r\n${message}`)).toBe("250 2.6.0");
  expect((await it.newest()).from.email).toBe("unknown@unknown.invalid");
});

test("from a mail app, the message is refused, and nothing of it stays", async () => {
  const it = await world();
  const client = await connectSmtp(it.submissions, { tls: true });
  await authPlain(client, ALICE, it.owner.apiKey);
  const envelope = { from: ALICE, to: "ben@remote.example" };
  const header = lines(`From: ${ALICE}`, "To: ben@remote.example", "Subject: Hi", "");
  for (const message of [`${header}\r\nAt no\0on?`, `X-No\0te: y\r\n${header}\r\nAt noon?`, `${header}\r\n\0`]) {
    expect(brief(await client.deliver(envelope, message))).toBe("554 5.6.0");
  }
  const { body } = await it.api.get<{ messages: unknown[] }>("/messages");
  expect(body.messages).toEqual([]);
  expect(it.core.store.db.select().from(queueEntries).all()).toEqual([]);

  const file = `Content-Type: application/x-y\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from("a\0b").toString("base64")}`;
  expect(brief(await client.deliver(envelope, `${header}${file}`))).toBe("250 2.0.0");
  client.destroy();
});
