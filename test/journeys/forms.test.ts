/** Forms of mail (rules: Forms of mail, Charsets, Subject prefixes) from another server to the API and search. */
import { beforeAll, expect, test } from "bun:test";
import { deflateSync } from "node:zlib";
import { compressedCms, encryptedCms, signedCms } from "../harness/mail/cms.ts";
import { mailer } from "../harness/mail/mail.ts";
import { compressedRtf, tnef } from "../harness/mail/tnef.ts";
import { uuencoded } from "../harness/mail/uuencode.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
let booted: Booted;
let count = 0;

interface Message {
  id: string;
  threadId: string;
  subject: string;
  text: string;
  to: { email: string }[];
  attachments: { id: string; filename: string; contentType: string; size: number }[];
}

/** Delivers a message: fields of its header without end, and its body. */
async function deliver(fields: string[], body: string | Buffer): Promise<Message> {
  const id = `${++count}@remote.example`;
  const header = ["From: Bea <bea@remote.example>", `Message-ID: <${id}>`, ...fields, "", ""].join("\r\n");
  const mail = Buffer.concat([Buffer.from(header), Buffer.isBuffer(body) ? body : Buffer.from(body, "latin1")]);
  await mailer(booted.mx).send({ from: "bea@remote.example", to: ALICE }, mail.toString("latin1"));
  const { body: found } = await booted.api.get<{ messages: { id: string }[] }>(`/messages?messageId=${id}`);
  return (await booted.api.get<{ message: Message }>(`/messages/${found.messages[0]?.id}`)).body.message;
}
const base64 = (type: string, content: Buffer) =>
  deliver(
    ["Subject: Forms", `Content-Type: ${type}`, "Content-Transfer-Encoding: base64"],
    content.toString("base64").replace(/.{76}/g, "$&\r\n"),
  );
const files = ({ attachments }: Message) => attachments.map(({ filename, contentType }) => [filename, contentType]);

beforeAll(async () => {
  // What is sent waits.
  booted = await boot({}, zone({ "remote.example": "SERVFAIL" }));
});

test("winmail.dat: its body is found, its files are served", async () => {
  const body = compressedRtf("{\\rtf1\\ansi Rhubarb crumble\\par}");
  const file = { title: "a.txt", content: Buffer.from("Custard") };
  const message = await base64(
    "application/ms-tnef; name=winmail.dat",
    tnef({ properties: [[0x1009, body]], files: [file] }),
  );
  expect([message.text.trim(), files(message)]).toEqual(["Rhubarb crumble", [["a.txt", "text/plain"]]]);
  const { body: found } = await booted.api.get<{ threads: { id: string }[] }>("/threads?q=rhubarb");
  expect(found.threads.map(({ id }) => id)).toEqual([message.threadId]);
  const served = await booted.api.bytes(`/attachments/${message.attachments[0]?.id}`);
  expect(Buffer.from(served.body).toString()).toBe("Custard");
});

test("S/MIME: signed, compressed and encrypted", async () => {
  const type = "application/pkcs7-mime; name=smime.p7m";
  const entity = Buffer.from("Content-Type: text/plain\r\n\r\nSigned words\r\n");
  for (const cms of [signedCms(entity), signedCms(entity, "ber"), compressedCms(deflateSync(entity))]) {
    const message = await base64(type, cms);
    expect([message.text, files(message)]).toEqual(["Signed words", []]);
  }
  const message = await base64(type, encryptedCms());
  expect(message.text).toBe("This message is encrypted with S/MIME. Read it in a mail app that has the key.");
  expect(files(message)).toEqual([["smime.p7m", "application/pkcs7-mime"]]);
});

test("a file that is uuencoded in a text", async () => {
  const body = `Before\n${uuencoded("a.bin", Buffer.from("B".repeat(100)))}After\n`.replaceAll("\n", "\r\n");
  const message = await deliver(["Subject: x"], body);
  expect([message.text, files(message)]).toEqual(["Before\n\nAfter", [["a.bin", "application/octet-stream"]]]);
  expect(message.attachments[0]?.size).toBe(100);
});

test("charsets of DOS and of seven bits", async () => {
  const fields = ["Subject: =?cp850?Q?Gr=81=E1e?=", "Content-Type: text/plain; charset=iso-2022-kr"];
  const message = await deliver(fields, "\x1b$)C\r\n\x0e>H3g\x0f\r\n");
  expect([message.subject, message.text.trim()]).toEqual(["Grüße", "안녕"]);
});

test("recipients without a comma between them", async () => {
  const { to } = await deliver([`To: Alice <${ALICE}> Bob <bob@remote.example>`, "Subject: x"], "Hi");
  expect(to.map(({ email }) => email)).toEqual([ALICE, "bob@remote.example"]);
});

test("a reply in Hungarian without References, and the reply to it, whose Reply-To names only the mailbox", async () => {
  const { body: sent } = await booted.api.post<{ threadId: string }>("/send", {
    from: ALICE,
    to: "bea@remote.example",
    subject: "Plan",
    text: "Hi",
  });
  const message = await deliver([`To: ${ALICE}`, "Subject: =?utf-8?Q?V=C3=A1:_Plan?=", `Reply-To: ${ALICE}`], "Jó");
  expect(message.threadId).toBe(sent.threadId);
  const reply = await booted.api.post(`/threads/${sent.threadId}/reply`, { text: "Good" });
  expect(reply.status).toBe(202);
  const { body } = await booted.api.get<{ messages: Message[] }>("/messages?folder=sent&limit=1");
  const [last] = body.messages;
  expect([last?.subject, last?.to.map(({ email }) => email)]).toEqual(["Vá: Plan", ["bea@remote.example"]]);
});
