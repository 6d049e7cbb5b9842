/** Downloads of attachments and messages: their bytes, and headers that mail cannot change. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { downloadResponse } from "../../src/api/download.ts";
import { getAttachment } from "../../src/mailbox/reading/messages.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { startApi } from "../harness/servers/api-setup.ts";

const BYTES = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7919) & 255));

const withAttachment = (type: string, filename: string) => `From: zoe@remote.example
To: olga@example.test
Subject: File
Message-ID: <file-${Math.abs(Bun.hash.crc32(type + filename))}@remote.example>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

here
--b
Content-Type: ${type}
Content-Disposition: attachment; ${filename}
Content-Transfer-Encoding: base64

${BYTES.toString("base64").replaceAll(/.{76}/g, "$&\n")}
--b--
`;

async function fileAttachment(type: string, filename: string) {
  const api = await startApi();
  const { messageId } = await api.file(withAttachment(type, filename));
  const { message } = (await api.ask(`/messages/${messageId}`)).body as {
    message: { attachments: { id: string; url: string; size: number }[] };
  };
  const [attachment] = message.attachments;
  if (!attachment) throw new Error("the message has no attachment");
  const download = (headers: Record<string, string> = {}, method = "GET") =>
    fetch(api.origin + attachment.url, { method, headers: { authorization: `Bearer ${api.key}`, ...headers } });
  return { ...api, messageId, attachment, download };
}

test("an attachment is a download with its bytes, which browsers do not show in this origin", async () => {
  const { download, attachment } = await fileAttachment("text/html", 'filename="page.html"');
  expect(attachment.url).toStartWith("/api/v1/attachments/att_");
  const answer = await download();
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "text/html",
    "content-disposition": 'attachment; filename="page.html"',
    "content-length": String(BYTES.length),
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "private, no-store",
    "x-ratelimit-limit": "1000000",
  });
  expect(Buffer.from(await answer.arrayBuffer())).toEqual(BYTES);

  const part = await download({ range: "bytes=10-19" });
  expect([part.status, part.headers.get("content-range")]).toEqual([206, `bytes 10-19/${BYTES.length}`]);
  expect(Buffer.from(await part.arrayBuffer())).toEqual(BYTES.subarray(10, 20));

  const head = await download({}, "HEAD");
  expect([head.status, head.headers.get("content-length"), (await head.arrayBuffer()).byteLength]).toEqual([
    200,
    String(BYTES.length),
    0,
  ]);
});

test("a download needs a key", async () => {
  const { origin, attachment } = await fileAttachment("image/png", 'filename="x.png"');
  expect((await fetch(origin + attachment.url)).status).toBe(401);
});

test("a missing blob is server_error, in JSON", async () => {
  const { core, download, lines } = await fileAttachment("image/png", 'filename="x.png"');
  const { content } = await getAttachment(
    core,
    { userId: "olga", workspaceId: "wsp_1", role: "owner", email: "olga@example.test", scopes: new Set() },
    (await download()).url.split("/").pop() ?? "",
  );
  await content.delete();
  const answer = await download();
  expect([answer.status, await answer.json()]).toMatchObject([500, { code: "server_error" }]);
  expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
});

test("a raw message is a download of type message/rfc822", async () => {
  const { ask, messageId } = await fileAttachment("image/png", 'filename="x.png"');
  const { headers, text } = await ask(`/messages/${messageId}/raw`);
  expect(Object.fromEntries(headers)).toMatchObject({
    "content-type": "message/rfc822",
    "content-disposition": `attachment; filename="${messageId}.eml"`,
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
  });
  expect(Number(headers.get("content-length"))).toBe(Buffer.byteLength(text));
  expect(text).toMatch(/^Subject: File\r$/m);
});

test("a large raw message is streamed, and whole", async () => {
  const { file, origin, key } = await startApi();
  const lines = Array.from({ length: 20_000 }, (_, i) => `Line ${i} of a long letter`);
  const { messageId } = await file(
    `From: zoe@remote.example\nTo: olga@example.test\nSubject: Long\nMessage-ID: <long@remote.example>\n\n${lines.join("\n")}\n`,
  );
  const ask = (method: string) =>
    fetch(`${origin}/api/v1/messages/${messageId}/raw`, { method, headers: { authorization: `Bearer ${key}` } });
  const answer = await ask("GET");
  expect(answer.headers.get("content-type")).toBe("message/rfc822");
  const text = await answer.text();
  const body = Buffer.from(text.slice(text.indexOf("\r\n\r\n")), "base64").toString();
  expect(body.trimEnd()).toBe(lines.join("\r\n"));
  const head = await ask("HEAD");
  expect([head.status, await head.text()]).toEqual([200, ""]);
});

test("a name is sent in ASCII, and in full beside it (RFC 6266)", async () => {
  const table: [filename: string, disposition: string][] = [
    ["report.pdf", 'attachment; filename="report.pdf"'],
    ["two words (1).pdf", 'attachment; filename="two words (1).pdf"'],
    ["naïve.txt", "attachment; filename=\"na_ve.txt\"; filename*=UTF-8''na%C3%AFve.txt"],
    ["日本.txt", "attachment; filename=\"__.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"],
    ["it's*.txt", `attachment; filename="it's*.txt"`],
    ["ü'(*).txt", "attachment; filename=\"_'(*).txt\"; filename*=UTF-8''%C3%BC%27%28%2A%29.txt"],
    ['a"b\\c.txt', "attachment; filename=\"a_b_c.txt\"; filename*=UTF-8''a%22b_c.txt"],
    ["100%25.txt", "attachment; filename=\"100_25.txt\"; filename*=UTF-8''100%2525.txt"],
    ["../../etc/passwd", 'attachment; filename=".._.._etc_passwd"'],
    ["a\r\nSet-Cookie: x=1", 'attachment; filename="a_Set-Cookie: x=1"'],
    ["invoice\u202Efdp.exe", 'attachment; filename="invoice_fdp.exe"'],
    ["half \ud83d.txt", "attachment; filename=\"half _.txt\"; filename*=UTF-8''half%20%EF%BF%BD.txt"],
    ["", 'attachment; filename="attachment"'],
    ["  ", 'attachment; filename="attachment"'],
    ["x".repeat(300), `attachment; filename="${"x".repeat(200)}"`],
  ];
  for (const [filename, disposition] of table) {
    const { headers } = await downloadResponse({ filename, contentType: "image/png", content: new Uint8Array(1) });
    expect([filename, headers.get("content-disposition")]).toEqual([filename, disposition]);
  }
});

test("an invalid media type becomes application/octet-stream", async () => {
  const table: [given: string, answered: string][] = [
    ["application/vnd.ms-excel.sheet.macroEnabled.12+x", "application/vnd.ms-excel.sheet.macroEnabled.12+x"],
    ["text/plain", "text/plain"],
    ["text/html; charset=utf-7", "application/octet-stream"],
    ["text", "application/octet-stream"],
    ["", "application/octet-stream"],
    ["text/html\r\nx: y", "application/octet-stream"],
    ["text/ü", "application/octet-stream"],
    [`text/${"x".repeat(128)}`, "application/octet-stream"],
  ];
  for (const [contentType, answered] of table) {
    const { headers } = await downloadResponse({ filename: "x", contentType, content: new Uint8Array(1) });
    expect([contentType, headers.get("content-type")]).toEqual([contentType, answered]);
  }
});

test("every name gives a valid header that clients can decode", async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: anyCharacter }), async (filename) => {
      const { headers } = await downloadResponse({ filename, contentType: "image/png", content: new Uint8Array(1) });
      const header = headers.get("content-disposition") ?? "";
      const [, plain, encoded] =
        /^attachment; filename="([\x20-\x7e]+)"(?:; filename\*=UTF-8''([\w!#$&+.^`|~%-]+))?$/.exec(header) ?? [];
      expect(plain).not.toMatch(/["\\%]/);
      expect(decodeURIComponent(encoded ?? "")).not.toMatch(/[\p{Cc}/\\]/u);
    }),
  );
});
