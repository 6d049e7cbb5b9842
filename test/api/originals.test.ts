/**
 * The originals of messages over real sockets (rules: Originals): the octets that IMAP serves the same person, whole, in ranges and
 * by their tag, and what is attached of them to other messages.
 */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { readRange } from "../../src/api/ranges.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { messageOctets } from "../../src/store/schema.ts";
import { setPassword, signIn } from "../harness/clients/browser-session.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { fileLetter } from "../harness/servers/core.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { signedIn, type World, world } from "../harness/servers/submission-world.ts";

const ALICE = "alice@example.test";
const EXT = "/api/ext/v1";

let it: World;
let hers: ImapAccount;
const portOf = ({ ready }: World): number => Number(ready.imaps?.split(":")[1]);
beforeAll(async () => {
  it = await world({ MAILROOM_IMAPS: "127.0.0.1:0" });
  hers = await imapAccount(portOf(it), ALICE, appPassword(it));
});

/** The octets of the last message of a folder over IMAP, latin1. */
async function last(folder: string, client = hers): Promise<string> {
  await client.say(`SELECT ${folder}`);
  const { untagged } = await client.say("FETCH * (BODY.PEEK[])");
  const line = untagged.find((one) => one.includes("FETCH (")) ?? "";
  return /\{\d+\}\r\n([\s\S]*)\)$/.exec(line)?.[1] ?? line;
}

const lines = (...all: string[]): string => all.map((line) => `${line}\r\n`).join("");
const letter = (subject: string, ...more: string[]): string =>
  lines("From: Ben <ben@remote.example>", `To: ${ALICE}`, `Subject: ${subject}`, ...more);
/** A letter that takes a parser to put together. */
const LARGE = letter("Large", "", ...Array.from({ length: 3_000 }, (_, i) => `Line ${i} of a long letter, ${i ** 3}`));

/** The id of the newest message. */
const newest = async (): Promise<string> =>
  (await it.api.get<{ messages: { id: string }[] }>("/messages?limit=1&folder=inbox")).body.messages[0]?.id ?? "";

async function arrives(message: string): Promise<string> {
  const client = await connectSmtp(it.mx);
  expect((await client.deliver({ to: ALICE }, message)).code).toBe(250);
  client.destroy();
  return newest();
}

const ask = (id: string, headers: Record<string, string> = {}, { key = it.owner.apiKey, method = "GET" } = {}) =>
  fetch(`${it.http}${EXT}/messages/${id}/original`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
const octetsIn = async (answer: Response): Promise<string> =>
  Buffer.from(await answer.arrayBuffer()).toString("latin1");
const original = async (id: string, key?: string): Promise<string> => {
  const answer = await ask(id, {}, key === undefined ? {} : { key });
  expect(answer.status).toBe(200);
  return octetsIn(answer);
};
const tagOf = (octets: string): string =>
  `"${new Bun.CryptoHasher("sha256").update(Buffer.from(octets, "latin1")).digest("base64url")}"`;

const journalOf = async (keyId: string): Promise<unknown[]> =>
  (await it.api.get<{ entries: unknown[] }>(`/api/admin/v1/keys/${keyId}/journal`)).body.entries;

describe("an original is what came, below this server's own fields", () => {
  test.each([
    ["of eight bits", letter("Gr\u00fc\u00dfe", "", "Gr\u00fc\u00dfe\t \r\n\r\n")],
    ["that is signed", letter("Signed", "Content-type:  text/plain; charset=us-ascii", "", "Text ", "=20")],
    ["that is large", LARGE],
  ])("mail %s", async (_, message) => {
    const id = await arrives(message);
    const octets = await original(id);
    expect(octets).toStartWith("Return-Path: <sender@remote.example>\r\nReceived: from ");
    expect(octets).toEndWith(Buffer.from(`${message}\r\n`).toString("latin1"));
    expect(octets).toBe(await last("INBOX"));
  });

  test("as a download, which browsers do not show in this origin", async () => {
    const id = await arrives(letter("Headers", "", "Text"));
    const answer = await ask(id);
    const octets = await octetsIn(answer);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "message/rfc822",
      "content-disposition": `attachment; filename="${id}.eml"`,
      "content-length": String(octets.length),
      "content-security-policy": "sandbox; default-src 'none'",
      "x-content-type-options": "nosniff",
      "cache-control": "private, no-store",
      "accept-ranges": "bytes",
      etag: tagOf(octets),
    });
    const head = await ask(id, { range: "bytes=0-3" }, { method: "HEAD" });
    expect([head.status, head.headers.get("etag"), await octetsIn(head)]).toEqual([200, tagOf(octets), ""]);
  });
});

describe("a part of an original", () => {
  test.each([
    ["small", letter("Range", "", "A text that is long enough")],
    ["large", LARGE],
  ])("of a %s one", async (_, message) => {
    const id = await arrives(message);
    const octets = await original(id);
    const { length: size } = octets;
    const parts: [range: string, start: number, end: number][] = [
      ["bytes=0-0", 0, 1],
      ["bytes=10-19", 10, 20],
      [`bytes=${size - 1}-`, size - 1, size],
      [`bytes=${size - 1}-${size + 5}`, size - 1, size],
      ["bytes=-7", size - 7, size],
      [`bytes=-${size + 1}`, 0, size],
      ["Bytes=5-", 5, size],
    ];
    for (const [range, start, end] of parts) {
      const answer = await ask(id, { range });
      const { status, headers } = answer;
      expect([range, status, headers.get("content-range")]).toEqual([range, 206, `bytes ${start}-${end - 1}/${size}`]);
      expect([range, headers.get("etag")]).toEqual([range, tagOf(octets)]);
      expect(await octetsIn(answer)).toBe(octets.slice(start, end));
    }
    for (const range of [`bytes=${size}-`, `bytes=${size}-${size + 1}`, "bytes=-0"]) {
      const answer = await ask(id, { range });
      expect([range, answer.status, answer.headers.get("content-range")]).toEqual([range, 416, `bytes */${size}`]);
      expect(await octetsIn(answer)).toBe("");
    }
    for (const range of [
      "bytes=0-1,4-5",
      "bytes=5-2",
      "bytes=-",
      "lines=0-1",
      "bytes=a-b",
      `bytes=0-${"9".repeat(400)}`,
    ]) {
      const answer = await ask(id, { range });
      expect([range, answer.status, answer.headers.get("content-range")]).toEqual([range, 200, null]);
      expect((await octetsIn(answer)).length).toBe(size);
    }
  });

  test("of no octets there is none", () => {
    const read = (range: string) => readRange(new Request("http://x.test", { headers: { range } }), 0, '"x"');
    expect(["bytes=0-", "bytes=0-0", "bytes=-1", "bytes="].map(read)).toEqual(["none", "none", "none", "all"]);
  });

  test("is of the octets with the tag, or all is answered", async () => {
    const id = await arrives(letter("If-Range", "", "Text"));
    const tag = tagOf(await original(id));
    const range = { range: "bytes=0-1" };
    const statusOf = async (ifRange: string) => (await ask(id, { ...range, "if-range": ifRange })).status;
    expect([
      await statusOf(tag),
      await statusOf(`W/${tag}`),
      await statusOf('"other"'),
      await statusOf("Mon, 05 Jan 2026 09:00:00 GMT"),
    ]).toEqual([206, 200, 200, 200]);
  });
});

test("an original that a program has is not sent again", async () => {
  const id = await arrives(letter("Known", "", "Text"));
  const tag = tagOf(await original(id));
  for (const known of [tag, `"other", ${tag}`, `W/${tag}`, "*"]) {
    const answer = await ask(id, { "if-none-match": known, range: "bytes=0-1" });
    expect([known, answer.status, answer.headers.get("etag"), await octetsIn(answer)]).toEqual([known, 304, tag, ""]);
  }
  expect((await ask(id, { "if-none-match": '"other"' })).status).toBe(200);
});

test("an original is not put together for an answer without any of it", async () => {
  const sent = await it.api.post<{ emailId: string }>("/send", {
    ...{ from: ALICE, to: ["carol@remote.example"], bcc: ["dave@remote.example"], subject: "Unread", text: "Text" },
  });
  const { key } = it.join("unread@example.test", "member", { access: "full" });
  const author = await ask(sent.body.emailId);
  const reader = await ask(sent.body.emailId, {}, { key });
  const size = Number(reader.headers.get("content-length"));
  // What cannot be put together any more is 500 once it is.
  it.core.db
    .update(messageOctets)
    .set({ skeleton: Buffer.from("nothing") })
    .run();
  for (const [answer, given] of [
    [author, {}],
    [reader, { key }],
  ] as const) {
    const tag = answer.headers.get("etag") ?? "";
    expect((await ask(sent.body.emailId, { "if-none-match": tag }, given)).status).toBe(304);
    expect((await ask(sent.body.emailId, { "if-none-match": '"other"' }, given)).status).toBe(500);
  }
  const beyond = await ask(sent.body.emailId, { range: `bytes=${size}-` }, { key });
  expect([beyond.status, beyond.headers.get("content-range")]).toEqual([416, `bytes */${size}`]);
});

describe("what was sent", () => {
  const readerOf = (name: string) => it.join(`${name}@example.test`, "member", { access: "full" });

  test("over the API is what was transmitted, with its Bcc for its author alone", async () => {
    const sent = await it.api.post<{ emailId: string }>("/send", {
      ...{ from: ALICE, to: ["carol@remote.example"], bcc: ["dave@remote.example"], subject: "Sent", text: "Grüße" },
    });
    await it.server.settled();
    const transmitted = it.remote.messages.at(-1)?.content ?? "nothing";
    const { emailId } = sent.body;
    const octets = await original(emailId);
    expect(octets).toBe(`Bcc: dave@remote.example\r\n${transmitted}`);
    const answer = await ask(emailId, {}, { key: readerOf("erin").key });
    expect(answer.headers.get("etag")).toBe(tagOf(transmitted));
    expect(await octetsIn(answer)).toBe(transmitted);
    // An older key of the author's is the author.
    expect(await original(emailId, it.keyOf(it.owner.userId, ["read"]))).toBe(octets);
  });

  test("by a mail app is what it handed in, below the signature", async () => {
    const smtp = await signedIn(it);
    await smtp.expect(250, `MAIL FROM:<${ALICE}>`);
    for (const to of ["carol@remote.example", "dave@remote.example"]) await smtp.expect(250, `RCPT TO:<${to}>`);
    await smtp.expect(354, "DATA");
    const handed = lines(
      ...["From: Alice <alice@example.test>", "To: carol@remote.example", "Message-ID: <handed@app>"],
      ...["Date: Mon, 05 Jan 2026 08:00:00 +0000", "Subject: Handed in", "", "Hello "],
    );
    smtp.write(`${handed}.\r\n`);
    expect((await smtp.reply()).code).toBe(250);
    smtp.destroy();
    const { body } = await it.api.get<{ messages: { id: string }[] }>("/messages?messageId=%3Chanded@app%3E");
    const octets = await original(body.messages[0]?.id ?? "");
    expect(octets).toMatch(/^Bcc: dave@remote\.example\r\nDKIM-Signature: /);
    expect(octets).toEndWith(handed);
    expect(octets).toBe(await last("Sent"));
  });
});

describe("mail whose octets were not kept", () => {
  test.each([
    ["a mail app has seen", true],
    ["no mail app has seen", false],
  ])("that %s is what IMAP serves", async (_, before) => {
    const at = it.join(`old-${before}@example.test`);
    const app = await imapAccount(portOf(it), at.email, at.key);
    const letter = { subject: "Old", text: "Grüße", messageId: `<old-${before}@remote.example>` };
    const { messageId } = await fileLetter(it.core, letter, {
      mailboxId: at.mailboxId,
      receivedOn: at.email,
      auth: { spf: "pass", dkim: "none", dmarc: "pass" },
      withoutOctets: true,
    });
    const seen = before ? await last("INBOX", app) : undefined;
    const octets = await original(messageId, at.key);
    expect(octets).toStartWith(`Received: by example.test with ESMTP id ${messageId}\r\n`);
    expect(octets).toBe(seen ?? (await last("INBOX", app)));
    app.end();
  });

  test("that was sent has its Bcc for its author", async () => {
    const bcc = [{ email: "dave@remote.example" }];
    const { messageId } = await fileLetter(
      it.core,
      { from: ALICE, subject: "Old", text: "Sent", messageId: "<old-sent@example.test>" },
      {
        mailboxId: it.owner.mailboxId,
        receivedOn: ALICE,
        kind: "sent",
        sentBy: it.owner.userId,
        bcc,
        withoutOctets: true,
      },
    );
    const reader = it.join("frank@example.test", "member", { access: "full" });
    const [whole, seen] = [await original(messageId), await original(messageId, reader.key)];
    expect(whole).toContain("Bcc: dave@remote.example\r\n");
    expect(seen).toBe(whole.replace("Bcc: dave@remote.example\r\n", ""));
  });

  test("such as a draft", async () => {
    const made = await it.api.post<{ emailId: string }>(`${EXT}/drafts`, { subject: "Draft", text: "Not yet" });
    expect(await original(made.body.emailId)).toContain("Subject: Draft\r\n");
  });
});

describe("an original is refused", () => {
  let restore: (() => void) | undefined;
  afterEach(() => restore?.());

  test.each([
    ["with another digest", { digest: Buffer.alloc(32) }],
    ["damaged", { skeleton: Buffer.from("nothing") }],
    ["gone", { skeleton: null }],
    ["in a blob that is gone", { skeleton: null, blob: "0".repeat(64) }],
  ])("whose octets are %s", async (_, change) => {
    for (const message of [letter("Damaged", "", "Text"), LARGE]) {
      const id = await arrives(message);
      const { db } = it.core;
      const row = db.select().from(messageOctets).all().at(-1);
      if (!row) throw new Error("nothing is kept");
      const where = eq(messageOctets.messageSeq, row.messageSeq);
      restore = () => db.update(messageOctets).set(row).where(where).run();
      db.update(messageOctets).set(change).where(where).run();
      const answer = await ask(id);
      expect([answer.status, await answer.json()]).toMatchObject([500, { code: "server_error" }]);
      restore();
    }
    it.lines.length = 0;
  });

  test("that does not exist, is out of reach, or whose key may not read", async () => {
    const id = await arrives(letter("Reach", "", "Text"));
    const stranger = it.join("stranger@example.test");
    const codes = async (of: string, key: string) => {
      const answer = await ask(of, {}, { key });
      return [answer.status, ((await answer.json()) as { code: string }).code];
    };
    expect(await codes(id, stranger.key)).toEqual([404, "not_found"]);
    expect(await codes("msg_none", it.owner.apiKey)).toEqual([404, "not_found"]);
    expect(await codes(id, it.keyOf(it.owner.userId, ["send"]))).toEqual([403, "missing_scope"]);
    expect((await ask(id, {}, { key: "none" })).status).toBe(401);
  });
});

describe("a key that reads no codes", () => {
  const SECRET = "739201";
  async function masked() {
    const { body } = await it.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
      ...{ name: "Masked", scopes: ["read", "write", "send"], policy: { codes: false } },
    });
    const id = await arrives(letter("Your sign-in code", "X-Kept: yes", "", `Your code is ${SECRET}`));
    return { id, key: body.key, keyId: body.id };
  }

  test("gets no original, and the journal says so", async () => {
    const { id, key, keyId } = await masked();
    const answer = await ask(id, {}, { key });
    expect([answer.status, await answer.json()]).toMatchObject([403, { code: "forbidden" }]);
    expect(await journalOf(keyId)).toMatchObject([{ operation: "getOriginal", ids: [id], outcome: "forbidden" }]);
    expect((await ask("msg_none", {}, { key })).status).toBe(404);
  });

  test("attaches what it reads of a message, and others attach the original", async () => {
    const { id, key } = await masked();
    const attach = async (by: string) => {
      const made = await it.apiWith(by).post<{ attachments: { id: string }[] }>(`${EXT}/drafts`, {
        ...{ subject: "Look", text: "x", attachments: [{ emailId: id, filename: "forwarded.eml" }] },
      });
      expect(made.status).toBe(201);
      const { body } = await it.api.bytes(`/attachments/${made.body.attachments[0]?.id}`);
      return Buffer.from(body).toString("latin1");
    };
    const whole = await attach(it.owner.apiKey);
    expect(whole).toBe(await original(id));
    const theirs = await attach(key);
    const { subject, text } = await parseMessage(Buffer.from(theirs, "latin1"));
    expect([subject, text.trim()]).toEqual(["Your sign-in code", "Your code is [code hidden]"]);
    expect(theirs).not.toContain(SECRET);
  });
});

test("an original that is attached has no Bcc, whoever attaches it", async () => {
  const sent = await it.api.post<{ emailId: string }>("/send", {
    ...{ from: ALICE, to: ["carol@remote.example"], bcc: ["dave@remote.example"], subject: "Sent", text: "Hi" },
  });
  await it.server.settled();
  const transmitted = it.remote.messages.at(-1)?.content;
  const forwarded = await it.api.post<{ emailId: string }>("/send", {
    ...{ from: ALICE, to: ["erin@remote.example"], subject: "Fwd", text: "See" },
    attachments: [{ emailId: sent.body.emailId, filename: "forwarded.eml" }],
  });
  expect(forwarded.status).toBe(202);
  await it.server.settled();
  expect(it.remote.messages.at(-1)?.content).toContain(`\r\n\r\n${transmitted?.trimEnd()}`);
  const { body } = await it.api.get<{ message: { attachments: { id: string }[] } }>(
    `/messages/${forwarded.body.emailId}`,
  );
  const file = await it.api.bytes(`/attachments/${body.message.attachments[0]?.id}`);
  expect(Buffer.from(file.body).toString("latin1")).toBe(transmitted ?? "");
});

test("an original with lines that no server takes is attached, and leaves in lines that all take", async () => {
  const id = await arrives(
    letter("Long lines", "Content-Type: text/plain; charset=utf-8", "", `Grüße ${"x".repeat(3_000)}`),
  );
  const sent = await it.api.post<{ emailId: string }>("/send", {
    ...{ from: ALICE, to: ["erin@remote.example"], subject: "Fwd", text: "See" },
    attachments: [{ emailId: id, filename: "forwarded.eml" }],
  });
  expect(sent.status).toBe(202);
  await it.server.settled();
  const content = it.remote.messages.at(-1)?.content ?? "";
  expect(Math.max(...content.split("\r\n").map(({ length }) => length))).toBeLessThan(999);
  const [file] = (await parseMessage(Buffer.from(content, "latin1"))).attachments;
  const attached = await parseMessage(Buffer.from(file?.content ?? []));
  expect([attached.subject, attached.text.includes("Grüße xxx"), attached.text.length > 3_000]).toEqual([
    "Long lines",
    true,
    true,
  ]);
});

test("the app downloads the original of a person who is signed in", async () => {
  await setPassword(it, it.owner.userId);
  const page = await signIn(it, ALICE);
  const id = await arrives(letter("In the app", "", "Text"));
  const answer = await page.fetch(`/messages/${id}/original`);
  const octets = await octetsIn(answer);
  expect([answer.status, octets]).toEqual([200, await original(id)]);
  expect(answer.headers.get("content-disposition")).toBe(`attachment; filename="${id}.eml"`);
  const part = await page.fetch(`/messages/${id}/original`, { headers: { range: "bytes=0-10" } });
  expect([part.status, await octetsIn(part)]).toEqual([206, octets.slice(0, 11)]);
  expect((await fetch(`${it.http}/app/messages/${id}/original`)).status).toBe(401);
  expect((await page.fetch("/messages/msg_none/original")).status).toBe(404);
});
