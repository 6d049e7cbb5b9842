/** Files of mail whose bytes are not those of their names, at every face: never served, nor taken for a copy of what arrives. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { checkBlobBytes } from "../../src/doctor/checks/blob-bytes.ts";
import { runDoctorChecks } from "../../src/doctor/doctor.ts";
import { blobPath } from "../../src/store/blobs.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { appPassword, uidsOf } from "../harness/servers/imap-world.ts";

let app: Booted;
let data: string;
beforeAll(async () => {
  data = temporaryFolder();
  app = await boot({ MAILROOM_DATA: data, MAILROOM_IMAPS: "127.0.0.1:0" });
});

const nameOf = (file: Buffer): string => createHash("sha256").update(file).digest("hex");
const pathOf = (file: Buffer): string => blobPath(join(data, "blobs"), nameOf(file));

/** Hands in a message with a file as another server does, and finds it. */
async function arrive(subject: string, file: Buffer) {
  const headers = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"'];
  const base64 = file.toString("base64").replaceAll(/.{76}/g, "$&\n");
  const text = `--b\nContent-Type: text/plain\n\nHello\n--b\nContent-Type: image/png; name="a.png"\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n${base64}\n--b--`;
  const message = letter({ to: "alice@example.test", subject, headers, text });
  const smtp = await connectSmtp(app.mx);
  try {
    const reply = await smtp.deliver({ to: "alice@example.test" }, message.replaceAll(/\r?\n/g, "\r\n"));
    expect(reply.code).toBe(250);
  } finally {
    smtp.destroy();
  }
  const { body } = await app.api.get<{ messages: { id: string; subject: string }[] }>("/messages?limit=100");
  const id = body.messages.find((found) => found.subject === subject)?.id ?? "";
  const { message: found } = (
    await app.api.get<{ message: { attachments: { id: string; url: string }[] } }>(`/messages/${id}`)
  ).body;
  const [attachment] = found.attachments;
  return { id, attachment: attachment?.id ?? "", url: attachment?.url.replace("/api/v1", "") ?? "" };
}

const openApp = () => imapAccount(Number(app.ready.imaps?.split(":")[1]), "alice@example.test", appPassword(app));

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

const DAMAGES: [string, (path: string) => void][] = [
  ["a flipped bit", (path) => flip(path, 99_999)],
  ["a short file", (path) => truncateSync(path, 50_000)],
  ["an empty file", (path) => truncateSync(path, 0)],
  ["a longer file", (path) => writeFileSync(path, "more", { flag: "a" })],
  [
    "a link to another file",
    (path) => {
      writeFileSync(`${path}.other`, randomBytes(100_000));
      rmSync(path);
      symlinkSync(`${path}.other`, path);
    },
  ],
  [
    "a link to nothing",
    (path) => {
      rmSync(path);
      symlinkSync("/nowhere", path);
    },
  ],
  ["a missing file", (path) => rmSync(path)],
];

describe("octets of large mail, whose file is damaged", () => {
  test.each(DAMAGES)("%s", async (what, damage) => {
    const subject = `octets, ${what}`;
    const text = randomBytes(100_000).toString("hex").replaceAll(/.{76}/g, "$&\r\n");
    const smtp = await connectSmtp(app.mx);
    const message = letter({ to: "alice@example.test", subject, text }).replaceAll(/\r?\n/g, "\r\n");
    expect((await smtp.deliver({ to: "alice@example.test" }, message)).code).toBe(250);
    smtp.destroy();
    const { $client: sqlite } = app.core.store.db;
    const { id, blob } = sqlite
      .query("SELECT id, blob FROM messages JOIN message_octets ON message_seq = seq WHERE subject = ?")
      .get(subject) as { id: string; blob: string };
    const path = blobPath(join(data, "blobs"), blob);
    const bytes = readFileSync(path);
    damage(path);

    const original = async () => (await app.api.bytes(`/api/ext/v1/messages/${id}/original`)).status;
    expect(await original()).toBe(500);
    const mail = await openApp();
    await mail.say("SELECT INBOX");
    const [uid] = await uidsOf(mail, subject);
    for (const part of ["BODY.PEEK[]", "BODY.PEEK[HEADER]", "BODY.PEEK[1]", "BINARY.PEEK[1]", "RFC822"]) {
      const { status, text, untagged } = await mail.say(`UID FETCH ${uid} ${part}`);
      expect([part, status, text]).toEqual([part, "NO", expect.stringContaining("[SERVERBUG]")]);
      expect(untagged.filter((line) => line.length > 500)).toEqual([]);
    }
    // What is stored beside the octets is there.
    expect((await mail.say(`UID FETCH ${uid} (ENVELOPE BODYSTRUCTURE RFC822.SIZE)`)).status).toBe("OK");
    expect((await app.api.get(`/messages/${id}`)).status).toBe(200);
    const [finding] = await runDoctorChecks({ store: app.core.store, runtime: app.runtime } as never, {
      bytes: checkBlobBytes,
    });
    expect(finding).toMatchObject({ id: "blob-bytes", state: "bad", detail: expect.stringContaining(blob) });

    rmSync(path, { force: true });
    writeFileSync(path, bytes);
    expect(await original()).toBe(200);
    expect((await mail.say(`UID FETCH ${uid} BODY.PEEK[1]`)).status).toBe("OK");
    mail.end();
  });
});

describe("files of mail that are damaged", () => {
  test.each(DAMAGES)("%s", async (what, damage) => {
    const file = randomBytes(100_000);
    const { id, attachment, url } = await arrive(`with ${what}`, file);
    damage(pathOf(file));

    const sent = { from: "alice@example.test", to: ["bob@remote.example"], subject: "Fwd" };
    const attachments = [{ attachmentId: attachment }];
    const headers = { authorization: `Bearer ${app.owner.apiKey}`, range: "bytes=0-9" };
    const refused = [
      await app.api.get(url),
      await app.api.get(`/messages/${id}/raw`),
      await app.api.get(`/api/ext/v1/messages/${id}/original`),
      await app.api.post("/send", { ...sent, forward: id }),
      await app.api.post("/send", { ...sent, text: "x", attachments }),
      { status: (await fetch(`${app.http}/api/v1${url}`, { headers })).status, body: { code: "server_error" } },
    ];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual(refused.map(() => [500, "server_error"]));
    const { body: queue } = await app.api.get<{ messages: unknown[] }>("/messages?folder=sent");
    expect(queue.messages).toEqual([]);

    const tools = await connectMcp(app.http, app.owner.apiKey);
    for (const answer of [
      await tools.call("get_attachment", { attachmentId: attachment }),
      await tools.call("get_raw_message", { emailId: id }),
    ]) {
      expect([answer.isError, answer.text.length]).toEqual([true, expect.any(Number)]);
    }
    await tools.close();

    const mail = await openApp();
    await mail.say("SELECT INBOX");
    const [uid] = await uidsOf(mail, `with ${what}`);
    for (const part of ["BODY.PEEK[]", "BODY.PEEK[2]", "BINARY.PEEK[2]", "RFC822"]) {
      const { status, text, untagged } = await mail.say(`UID FETCH ${uid} ${part}`);
      expect([part, status, text]).toEqual([part, "NO", expect.stringContaining("[SERVERBUG]")]);
      expect(untagged.filter((line) => line.length > 500)).toEqual([]);
    }

    const [finding] = await runDoctorChecks({ store: app.core.store, runtime: app.runtime } as never, {
      bytes: checkBlobBytes,
    });
    expect(finding).toMatchObject({ id: "blob-bytes", state: "bad", detail: expect.stringContaining(nameOf(file)) });

    // It arrives again.
    const again = await arrive(`again ${what}`, file);
    expect(nameOf(readFileSync(pathOf(file)))).toBe(nameOf(file));
    for (const { url: one, id: message } of [{ url, id }, again]) {
      expect(Buffer.from((await app.api.bytes(one)).body).equals(file)).toBe(true);
      for (const asked of [`/messages/${message}/raw`, `/api/ext/v1/messages/${message}/original`])
        expect([asked, (await app.api.bytes(asked)).status]).toEqual([asked, 200]);
    }
    const { status, untagged } = await mail.say(`UID FETCH ${uid} BINARY.PEEK[2]`);
    expect([status, untagged.some((line) => line.includes(file.toString("latin1")))]).toEqual(["OK", true]);
    mail.end();
    const [after] = await runDoctorChecks({ store: app.core.store, runtime: app.runtime } as never, {
      bytes: checkBlobBytes,
    });
    expect(after).toMatchObject({ state: "ok", detail: expect.stringContaining("and are whole") });
  });
});
