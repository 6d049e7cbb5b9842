/** Attachments and forwarding over REST (rules: Attached files), on a whole appliance. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { findPersonAsCaller } from "../../src/access/caller.ts";
import { createApiKey } from "../../src/access/credentials.ts";
import * as people from "../../src/admin/people.ts";
import { readDraft } from "../../src/mailbox/changing/drafts.ts";
import type { Scope } from "../../src/store/schema.ts";
import type { Answer, Client } from "../harness/clients/api.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=",
  "base64",
);

interface Attachment {
  id: string;
  filename: string;
  contentType: string;
  size: number;
  inline: boolean;
  contentId?: string;
}
interface Message {
  id: string;
  threadId: string;
  subject: string;
  text: string;
  html?: string;
  attachments: Attachment[];
}
interface Sent {
  emailId: string;
  threadId: string;
  draftId: string;
  error?: string;
  code?: string;
}

const folder = temporaryFolder();
let booted: Booted;
let api: Client;
/** A message from outside with a file, an image in its HTML, and Alice's copy of a message with a Bcc. */
let received: Message;
beforeAll(async () => {
  // Mail to remote.example waits.
  booted = await boot(
    { MAILROOM_DATA: folder },
    zone({ "remote.example": { mx: [[10, "mx.remote.example"]] }, "mx.remote.example": { a: ["127.0.0.1"] } }),
  );
  settle({ "sending.mailboxPerHour": "1000000", "sending.workspacePerHour": "1000000", "sending.warmup": "off" });
  api = booted.api;
  const client = await connectSmtp(booted.mx);
  await client.deliver(
    { to: ALICE },
    [
      "From: Zoe <zoe@remote.example>",
      `To: ${ALICE}`,
      "Subject: The invoice",
      "Message-ID: <invoice@remote.example>",
      'Content-Type: multipart/mixed; boundary="b"',
      "",
      "--b",
      'Content-Type: multipart/related; boundary="r"',
      "",
      "--r",
      "Content-Type: text/html; charset=utf-8",
      "",
      '<p>See <b>below</b> <img src="cid:logo" alt="Logo"></p>',
      "--r",
      'Content-Type: image/png; name="logo.png"',
      'Content-Disposition: inline; filename="logo.png"',
      "Content-ID: <logo>",
      "Content-Transfer-Encoding: base64",
      "",
      PNG.toString("base64"),
      "--r--",
      "--b",
      'Content-Type: application/pdf; name="invoice.pdf"',
      'Content-Disposition: attachment; filename="invoice.pdf"',
      "Content-Transfer-Encoding: base64",
      "",
      Buffer.from("%PDF-1.4 invoice").toString("base64"),
      "--b--",
      "",
    ].join("\r\n"),
  );
  const { body } = await api.get<{ messages: { id: string }[] }>("/messages");
  received = await messageOf(body.messages[0]?.id ?? "");
});

const messageOf = async (id: string): Promise<Message> =>
  (await api.get<{ message: Message }>(`/messages/${id}`)).body.message;
const send = (more: object, headers?: Record<string, string>, by: Client = api): Promise<Answer<Sent>> =>
  by.post<Sent>("/send", { from: ALICE, to: "bob@remote.example", text: "See the file.", ...more }, headers);

/** Sends, and reads what was sent. */
async function sent(more: object): Promise<Message> {
  const { status, body } = await send(more);
  expect([status, body]).toEqual([202, expect.anything()]);
  return messageOf(body.emailId);
}
const contentOf = async ({ id }: { id: string }): Promise<string> =>
  Buffer.from((await api.bytes(`/attachments/${id}`)).body).toString();
const filesOf = ({ attachments }: Message) =>
  Promise.all(attachments.map(async (file) => [file.filename, file.contentType, await contentOf(file)]));
const idOf = (filename: string) => received.attachments.find((file) => file.filename === filename)?.id ?? "";

async function post(path: string, body: RequestInit["body"], headers: Record<string, string> = {}) {
  const response = await fetch(`${booted.http}/api/v1${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${booted.owner.apiKey}`, ...headers },
    body: body as never,
  });
  return { status: response.status, body: (await response.json()) as Sent };
}

function formOf(request: object, ...files: [name: string, content: string, type: string][]): FormData {
  const form = new FormData();
  form.set("request", new Blob([JSON.stringify(request)], { type: "application/json" }));
  for (const [name, content, type] of files) form.append("files", new Blob([content], { type }), name);
  return form;
}

const keyWith = (...scopes: Scope[]): Client => {
  const { store, runtime } = booted.core;
  const { key } = store.transact((tx) => createApiKey(tx, runtime, { userId: booted.owner.userId, name: "k", scopes }));
  return booted.apiWith(key);
};

/** The key of a member who reaches their own mailbox only. */
async function strangersKey(): Promise<Client> {
  const { core } = booted.opened;
  const { store, runtime } = core;
  return store.transact((tx) => {
    const carl = { workspaceId: booted.owner.workspaceId, email: "carl@example.test", name: "Carl" } as const;
    const { userId } = people.addUser(core, tx, { ...carl, role: "member", ownMailbox: true });
    return booted.apiWith(createApiKey(tx, runtime, { userId, name: "k", scopes: ["read", "send"] }).key);
  });
}

const alice = () => {
  const caller = findPersonAsCaller(booted.core.store.db, booted.owner.userId);
  if (!caller) throw new Error("Alice is gone");
  return caller;
};

const spoolOf = (): string[] => readdirSync(join(folder, "spool"));

function settle(settings: Record<string, string>): void {
  const { store, options } = booted.core;
  store.transact((tx) => {
    for (const [name, value] of Object.entries(settings)) options.set(tx, name, value);
  });
}

describe("attachments", () => {
  test("by handle, as a message, as text and in base64, in their order", async () => {
    const message = await sent({
      attachments: [
        { attachmentId: idOf("invoice.pdf") },
        { emailId: received.id, filename: "original.eml" },
        { filename: "notes.txt", text: "Größe: 5 m²\n" },
        { filename: "a/b\u0000\r\nX: y.bin", content: Buffer.from("bytes").toString("base64") },
        { attachmentId: idOf("invoice.pdf"), filename: "renamed.pdf" },
        { filename: "data.csv", contentType: "Text/CSV; charset=latin1", text: "a,b" },
      ],
    });
    const files = await filesOf(message);
    expect(files.map(([name, type]) => [name, type])).toEqual([
      ["invoice.pdf", "application/pdf"],
      ["original.eml", "message/rfc822"],
      ["notes.txt", "text/plain"],
      [expect.not.stringMatching(/[/\0\r\n]/), "application/octet-stream"],
      ["renamed.pdf", "application/pdf"],
      ["data.csv", "text/csv"],
    ]);
    expect(files.map(([, , content]) => content)).toEqual([
      "%PDF-1.4 invoice",
      expect.stringContaining("Subject: The invoice"),
      "Größe: 5 m²\n",
      "bytes",
      "%PDF-1.4 invoice",
      "a,b",
    ]);
    expect(spoolOf()).toEqual([]);
  });

  test("on replies and drafts; a draft keeps them when a person opens it", async () => {
    const thread = received.threadId;
    const attachments = [{ filename: "a.txt", text: "a" }, { attachmentId: idOf("invoice.pdf") }];
    const reply = await api.post<Sent>(`/threads/${thread}/reply`, { text: "Here.", attachments });
    expect(reply.status).toBe(202);
    expect((await messageOf(reply.body.emailId)).attachments.map(({ filename }) => filename)).toEqual([
      "a.txt",
      "invoice.pdf",
    ]);
    const draft = await api.post<Sent>(`/threads/${thread}/draft`, { text: "Here.", attachments });
    expect([draft.status, draft.body]).toEqual([201, expect.anything()]);
    const { body: opened } = await api.get<{ messages: Message[] }>(`/threads/${draft.body.draftId}`);
    expect(await filesOf(opened.messages[0] as Message)).toEqual([
      ["a.txt", "text/plain", "a"],
      ["invoice.pdf", "application/pdf", "%PDF-1.4 invoice"],
    ]);
  });

  test("an image is shown in the HTML by its contentId", async () => {
    const content = PNG.toString("base64");
    const message = await sent({
      html: '<p><img src="cid:chart"></p>',
      attachments: [{ filename: "chart.png", contentType: "image/png", content, inline: true, contentId: "chart" }],
    });
    expect(message.attachments).toMatchObject([{ filename: "chart.png", inline: true, contentId: "chart" }]);
    expect(message.html).toContain("cid:chart");
  });

  test("a form brings files, which come after the attachments that its JSON lists", async () => {
    const request = {
      from: ALICE,
      to: "bob@remote.example",
      text: "x",
      attachments: [{ filename: "1.txt", text: "one" }],
    };
    const form = formOf(request, ["2.txt", "two", "text/plain"], ["Straße.bin", "three", ""]);
    const { status, body } = await post("/send", form);
    expect([status, body]).toEqual([202, expect.anything()]);
    expect(await filesOf(await messageOf(body.emailId))).toEqual([
      ["1.txt", "text/plain", "one"],
      ["2.txt", "text/plain", "two"],
      ["Straße.bin", "application/octet-stream", "three"],
    ]);
    const plain = new FormData();
    plain.set("request", JSON.stringify({ from: ALICE, to: "bob@remote.example", text: "x" }));
    expect((await post("/send", plain)).status).toBe(202);
    expect(spoolOf()).toEqual([]);
  });

  test("files of a form keep their names and the parameters of their types, whatever stands around the parts", async () => {
    const part = (disposition: string, type: string, content: string): string =>
      `--b b\r\nContent-Disposition: ${disposition}\r\n${type && `Content-Type: ${type}\r\n`}\r\n${content}\r\n`;
    const request = JSON.stringify({ from: ALICE, to: "bob@remote.example", text: "x" });
    const body = [
      "A preamble\r\n",
      part('form-data; name="request"', "application/json; charset=utf-8", request),
      "--b b\r\nX-Part: of no form\r\n\r\nSkipped\r\n",
      part(
        'form-data; name="f"; filename="C:\\\\cal\\\\a \\"b\\".ics"',
        'Text/Calendar; method=REQUEST; x="a; b"',
        "c",
      ),
      part('form-data; filename="/tmp/Grüße.txt"; name=f', "text/plain;\r\n charset=iso-8859-1", "d".repeat(200_000)),
      part("form-data; name=f; filename*=UTF-8''%e2%82%ac.bin", "", "e"),
      "--b b--\r\n",
      "An epilogue\r\n".repeat(50_000),
    ].join("");
    const headers = { "content-type": 'multipart/form-data; boundary="b b"' };
    const sent = await post("/send", body, headers);
    expect([sent.status, sent.body]).toEqual([202, expect.anything()]);
    const { attachments } = await messageOf(sent.body.emailId);
    const served = await Promise.all(
      attachments.map(async ({ id, filename }) => {
        const { headers, body } = await api.bytes(`/attachments/${id}`);
        return [filename, headers.get("content-type"), body.byteLength];
      }),
    );
    expect(served).toEqual([
      ['a "b".ics', 'text/calendar; method=REQUEST; x="a; b"', 1],
      ["Grüße.txt", "text/plain; charset=iso-8859-1", 200_000],
      ["€.bin", "text/plain", 1],
    ]);
    const bounded = part("form-data; name=f; filename=f", "multipart/mixed; boundary=c", "f");
    const refused = await post(
      "/send",
      `${part("form-data; name=request", "", request)}${bounded}--b b--\r\n`,
      headers,
    );
    expect([refused.status, refused.body.error]).toEqual([400, expect.stringContaining("has a boundary")]);
    expect(spoolOf()).toEqual([]);
  });

  const file = (more: object) => ({ attachments: [{ filename: "a", ...more }] });
  const text = { filename: "a.txt", text: "a" };
  test.each<[what: string, more: object, says: RegExp]>([
    ["bad base64", file({ content: "!!!" }), /content is not base64/],
    ["base64 without its padding", file({ content: "YQ" }), /content is not base64/],
    ["base64 with more behind its padding", file({ content: "YQ==YQ==" }), /content is not base64/],
    ["text in the alphabet of URLs", file({ content: "_-8=" }), /content is not base64/],
    ["two forms", file({ text: "a", content: "YQ==" }), /attachments\[0\] must be one of .*, not several/],
    [
      "a handle and text",
      { attachments: [text, { ...text, attachmentId: "att_1" }] },
      /attachments\[1\] must be one of/,
    ],
    ["neither form", file({}), /attachments\[0\] must be one of attachmentId, emailId, text and content$/],
    ["no name", { attachments: [{ text: "a" }] }, /attachments\[0\] needs a filename/],
    ["inline without a contentId", file({ text: "a", inline: true }), /needs a contentId/],
    ["more than 50", { attachments: Array(51).fill(text) }, /attachments must be a list of at most 50 items/],
    ["more than 50 in base64", { attachments: Array(51).fill({ filename: "a", content: "YQ==" }) }, /at most 50 items/],
    ["what is no list", { attachments: text }, /attachments must be a list/],
    ["an item that is none", { attachments: ["att_1"] }, /attachments\[0\] must be a JSON object/],
    ["a number as content", file({ content: 1 }), /attachments\[0\]\[content\] must be text/],
  ])("400 for %s", async (_what, more, says) => {
    const { status, body } = await send(more);
    expect<unknown>([status, body]).toEqual([400, { code: "bad_request", error: expect.stringMatching(says) }]);
    expect(spoolOf()).toEqual([]);
  });

  test("400 for forms that are none", async () => {
    const request = { from: ALICE, to: "bob@remote.example", text: "x" };
    const inForm = formOf({ ...request, attachments: [{ filename: "a", content: "YQ==" }] }, ["b", "b", ""]);
    expect(await post("/send", inForm)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining("content is not taken in a form") },
    });
    const without = new FormData();
    without.set("files", new Blob(["x"]), "x.txt");
    expect((await post("/send", without)).body.error).toMatch(/no part named request/);
    const extra = formOf(request);
    extra.set("subject", "x");
    expect((await post("/send", extra)).body.error).toMatch(/The part "subject" is no file/);
    const many = formOf(
      request,
      ...Array.from({ length: 51 }, (_, n) => [`${n}`, "x", ""] as [string, string, string]),
    );
    expect((await post("/send", many)).body.error).toMatch(/at most 50 items/);
    const multipart = (rest: string) => ({ "content-type": `multipart/form-data${rest}` });
    expect((await post("/send", "x", multipart(""))).body.error).toMatch(/boundary/);
    expect((await post("/send", "--b\r\nbroken", multipart("; boundary=b"))).body).toMatchObject({
      code: "bad_request",
    });
    const json = '--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n{"from":\r\n--b--\r\n';
    expect((await post("/send", json, multipart("; boundary=b"))).body.error).toMatch(/not valid JSON/);
    expect(spoolOf()).toEqual([]);
  });

  test("a form is bounded in its parts and in what stands between them, and may break off", async () => {
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const request = `--b\r\nContent-Disposition: form-data; name="request"\r\n\r\n{"from":"${ALICE}","to":"b@remote.example","text":"x"}\r\n`;
    expect((await post("/send", `${request}${"--b\r\n\r\n".repeat(100)}--b--\r\n`, headers)).body.error).toMatch(
      /at most 50 items/,
    );
    settle({ "smtp.maxMessageBytes": "100000" });
    expect((await post("/send", `${"x".repeat(8_600_000)}\r\n${request}--b--\r\n`, headers)).status).toBe(413);
    settle({ "smtp.maxMessageBytes": "26214400" });
    const file = '--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nbegun';
    for (const body of [`${request}${file}`, `${request}--b\r\nContent-Dis`]) {
      expect((await post("/send", body, headers)).body).toMatchObject({ code: "bad_request" });
    }
    expect(spoolOf()).toEqual([]);
  });

  test("JSON of eight million escapes or brackets costs no more than reading it", async () => {
    const json = { "content-type": "application/json" };
    const begun = performance.now();
    const escapes = `{"from":"${ALICE}","to":"b@remote.example","text":"x","x":"${"\\n".repeat(4_000_000)}"}`;
    expect((await post("/send", escapes, json)).status).toBe(202);
    expect((await post("/send", "[".repeat(8_000_000), json)).body.error).toMatch(/nested too deep/);
    const fields = Array.from({ length: 10_001 }, (_, n) => `"k${n}":0`).join();
    expect((await post("/send", `{${fields}}`, json)).body.error).toMatch(/too many fields/);
    expect((await post("/send", `{"x":[${"1,".repeat(4_000_000)}1]}`, json)).status).toBe(400);
    for (const path of ["/send", "/threads/thr_none/draft"]) {
      for (const part of ["{},", "[],", '{"":0},']) {
        const many = await post(path, `{"x":[${part.repeat(1_000_000)}{}]}`, json);
        expect(many.body.error).toMatch(/^The JSON has (?:more than 50000 fields, objects and lists|too many fields)$/);
      }
    }
    const quoted = `${'\\"{[:'.repeat(200_000)}\\\\`;
    const shown = `{"from":"${ALICE}","to":"b@remote.example","text":"x","x":"${quoted}"}`;
    expect((await post("/send", shown, json)).status).toBe(202);
    expect(performance.now() - begun).toBeLessThan(20_000);
  });

  test("422 in the same words for what does not exist and for what the key does not reach", async () => {
    const stranger = await strangersKey();
    const asked = (attachmentId: string, emailId: string) => [
      { attachments: [{ attachmentId }] },
      { attachments: [{ emailId }] },
      { forward: emailId },
    ];
    const from = "carl@example.test";
    for (const more of [...asked("att_none", "msg_none"), ...asked(idOf("invoice.pdf"), received.id)]) {
      const { status, body } = await send({ ...more, from }, {}, stranger);
      const error = expect.stringMatching(/^There is no (attachment|message) .* that this key can read$/);
      expect<unknown>([status, body]).toEqual([422, { code: "unprocessable", error }]);
    }
  });

  test("403 for handles, forwarding and quoting without the scope read; text and content need none", async () => {
    const onlySend = keyWith("send");
    for (const [way, scope] of [
      ["reply", "send"],
      ["draft", "write"],
    ] as const) {
      const asked = (quote: boolean) =>
        keyWith(scope).post<{ code?: string }>(`/threads/${received.threadId}/${way}`, { text: "Thanks", quote });
      expect(await asked(true)).toMatchObject({ status: 403, body: { code: "missing_scope" } });
      expect((await asked(false)).status).toBeLessThan(300);
    }
    for (const more of [
      { attachments: [{ attachmentId: idOf("invoice.pdf") }] },
      { attachments: [{ emailId: received.id }] },
      { forward: received.id },
    ]) {
      const { status, body } = await send(more, {}, onlySend);
      expect([status, body.code]).toEqual([403, "missing_scope"]);
    }
    const attachments = [
      { filename: "a.txt", text: "a" },
      { filename: "b", content: "Yg==" },
    ];
    expect((await send({ attachments }, {}, onlySend)).status).toBe(202);
  });

  test("413 for a message that is too large; the limit of 1 MB is for text and HTML alone", async () => {
    const content = Buffer.alloc(1_500_000, "x");
    expect((await send({ attachments: [{ filename: "a", content: content.toString("base64") }] })).status).toBe(202);
    settle({ "smtp.maxMessageBytes": "1500000" });
    const form = () => formOf({ from: ALICE, to: "b@remote.example", text: "x" }, ["a", content.toString(), ""]);
    const refused = [
      (await send({ attachments: [{ filename: "a", content: content.toString("base64") }] })).body.code,
      (await send({ attachments: [{ filename: "a", text: "x".repeat(1_490_000) }] })).body.code,
      (await post("/send", form())).body.code,
      (await send({ text: "x".repeat(1_048_577) })).body.code,
    ];
    expect(refused).toEqual(Array(4).fill("payload_too_large"));
    settle({ "smtp.maxMessageBytes": "26214400" });
    expect(spoolOf()).toEqual([]);
  });

  test("any bytes arrive as they are, in base64 with or without line breaks, and by a form", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.boolean(), async (bytes, isWrapped) => {
        const base64 = Buffer.from(bytes).toString("base64");
        const content = isWrapped ? base64.replace(/(.{20})/g, "$1\r\n") : base64;
        const form = new FormData();
        form.set("request", JSON.stringify({ from: ALICE, to: "b@remote.example", text: "x" }));
        form.append("f", new Blob([bytes as BlobPart]), "f.bin");
        for (const { body } of [
          await send({ attachments: [{ filename: "f.bin", content }] }),
          await post("/send", form),
        ]) {
          const [stored] = (await messageOf(body.emailId)).attachments;
          const { body: got } = await api.bytes(`/attachments/${stored?.id}`);
          expect(Buffer.from(got).equals(Buffer.from(bytes))).toBe(true);
        }
      }),
      { numRuns: 25 },
    );
  });

  test("JSON means what it means elsewhere, however it is cut and escaped", async () => {
    const request = `{"from":"${ALICE}","to":"b@remote.example","\\u0074ext":"\\ud83d\\ude00 \\"q\\" \\\\ \\n","n":[1.5e3,-0,null,{"content":"YQ=="}],
      "attach\\u006dents":[{"filename":"\\u00e9.txt","conten\\u0074":"\\u0059\\u0051=\\u003d"}],"attachments2":[{"content":"not base64"}]}`;
    const message = await messageOf(
      (await post("/send", request, { "content-type": "application/json" })).body.emailId,
    );
    expect(message.text).toContain('😀 "q" \\');
    expect(await filesOf(message)).toEqual([["é.txt", "application/octet-stream", "a"]]);
    for (const broken of [
      '{"attachments":[{"filename":"a","content":"YQ',
      '{"a":1} x',
      "[",
      "{'a':1}",
      '{"a":\u0001}',
      '"\\x"',
    ]) {
      const { status, body } = await post("/send", broken, { "content-type": "application/json" });
      expect([broken, status, body.code]).toEqual([broken, 400, "bad_request"]);
    }
    expect(spoolOf()).toEqual([]);
  });
});

describe("an idempotency key", () => {
  const once = (key: string, attachments: unknown[]) => send({ attachments }, { "idempotency-key": key });

  test("covers attachments by content and name, however they are given", async () => {
    const content = Buffer.from("%PDF-1.4 invoice").toString("base64");
    const first = await once("k1", [{ attachmentId: idOf("invoice.pdf") }]);
    const again = await once("k1", [{ filename: "invoice.pdf", content }]);
    expect([again.status, again.headers.get("idempotency-replayed"), again.body]).toEqual([202, "true", first.body]);
    const form = formOf({ from: ALICE, to: "bob@remote.example", text: "See the file." }, [
      "invoice.pdf",
      "%PDF-1.4 invoice",
      "",
    ]);
    expect((await post("/send", form, { "idempotency-key": "k1" })).body).toEqual(first.body);
    for (const attachments of [
      [{ filename: "invoice.pdf", text: "%PDF-1.4 invoicf" }],
      [{ filename: "other.pdf", content }],
      [],
      [{ attachmentId: idOf("logo.png") }],
    ]) {
      expect((await once("k1", attachments)).body.code).toBe("idempotency_key_reused");
    }
    expect(spoolOf()).toEqual([]);
  });

  test("replays although the file is gone since", async () => {
    const { body } = await send({ to: ALICE, attachments: [{ filename: "gone.txt", text: "gone" }] });
    const [file] = (await messageOf(body.emailId)).attachments;
    const attachments = [{ attachmentId: file?.id }];
    const first = await once("k2", attachments);
    booted.core.store.db.$client.run("UPDATE attachments SET id = 'att_gone' WHERE id = ?", [file?.id ?? ""]);
    const again = await once("k2", attachments);
    expect([again.status, again.body]).toEqual([202, first.body]);
  });
});

describe("forward", () => {
  test("shows the message below the text, with its attachments, and needs no text", async () => {
    const message = await sent({ forward: received.id, text: "", html: "<p>For you</p>" });
    expect(message.subject).toBe("Fwd: The invoice");
    expect(message.text).toMatch(
      /^For you\n\n---------- Forwarded message ----------\nFrom: Zoe <zoe@remote.example>\n/,
    );
    expect(message.html).toMatch(/For you[\s\S]*Forwarded message[\s\S]*<b>below<\/b>[\s\S]*cid:logo/);
    expect(message.attachments).toMatchObject([
      { filename: "logo.png", inline: true, contentId: "logo" },
      { filename: "invoice.pdf", inline: false },
    ]);
    const { status, body } = await api.post<Sent>("/send", {
      from: ALICE,
      to: "b@remote.example",
      forward: received.id,
    });
    expect(status).toBe(202);
    const bare = await messageOf(body.emailId);
    expect(bare.text).toStartWith("---------- Forwarded message ----------");
  });

  test("leaves the attachments out if asked to, keeps a given subject, and takes further files first", async () => {
    const message = await sent({
      forward: received.id,
      forwardAttachments: false,
      subject: "Look",
      attachments: [{ filename: "a.txt", text: "a" }],
    });
    expect([message.subject, message.attachments.map(({ filename }) => filename)]).toEqual(["Look", ["a.txt"]]);
    expect(message.html).not.toContain("cid:");
    expect(message.html).toContain("Logo");
  });

  test("and attached messages show no Bcc", async () => {
    const { body } = await send({ bcc: "secret@remote.example", subject: "Not for all" });
    const forwarded = await sent({ forward: body.emailId });
    const attached = await sent({ attachments: [{ emailId: body.emailId }] });
    const raw = await contentOf(attached.attachments[0] as Attachment);
    expect(raw).toContain("Subject: Not for all");
    expect(`${raw}${forwarded.text}${forwarded.html}`).not.toMatch(/secret@|bcc/i);
  });
});

describe("fields of the header", () => {
  const rawOf = async (id: string): Promise<string> =>
    Buffer.from((await api.bytes(`/messages/${id}/raw`)).body).toString();

  test("Reply-To, X- and List- fields are sent, on replies and drafts too, and a person's draft keeps them", async () => {
    const added = {
      replyTo: ["Help <help@example.test>", "desk@example.test"],
      headers: { "X-Ticket": "42", "List-Unsubscribe": "<https://example.test/u?id=1>" },
    };
    const { headers } = added;
    const { status, body } = await send(added);
    expect(status).toBe(202);
    const raw = await rawOf(body.emailId);
    expect(raw).toMatch(/^Reply-To: Help <help@example\.test>, desk@example\.test\r$/m);
    expect(raw).toMatch(/^X-Ticket: 42\r$/m);
    expect(raw).toMatch(/^List-Unsubscribe: <https:\/\/example\.test\/u\?id=1>\r$/m);

    const thread = received.threadId;
    const reply = await api.post<Sent>(`/threads/${thread}/reply`, { text: "x", replyTo: "help@example.test" });
    expect(await rawOf(reply.body.emailId)).toMatch(/^Reply-To: help@example\.test\r$/m);
    const draft = await api.post<Sent>(`/threads/${thread}/draft`, { text: "x", headers });
    const opened = readDraft(booted.opened.core.db, alice(), draft.body.draftId);
    expect(opened.headers.map(([name]) => name)).toEqual(expect.arrayContaining(["References", "X-Ticket"]));
  });

  test.each<[what: string, more: object, status: number, says: RegExp]>([
    ["another name", { headers: { Subject: "x" } }, 400, /X-… and List-…/],
    ["a name with a line break", { headers: { "X-A\r\nBcc": "x" } }, 400, /X-… and List-…/],
    ["a value of two lines", { headers: { "X-A": "x\r\nBcc: eve@remote.example" } }, 400, /X-A must be one line/],
    ["a value that is no text", { headers: { "X-A": 1 } }, 400, /headers\[X-A\] must be text/],
    [
      "more than 50",
      { headers: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`X-${n}`, "x"])) },
      400,
      /headers/,
    ],
    ["a Reply-To that is no address", { replyTo: "nobody" }, 422, /nobody/],
    ["a name of another API", { reply_to: "help@example.test" }, 400, /reply_to is not a field .* called replyTo/],
    ["files of another API", { files: [] }, 400, /called attachments/],
    ["a time of another API", { send_at: 1_800_000_000 }, 400, /called sendAt/],
    ["a template", { template: "welcome" }, 400, /nothing like it/],
  ])("%s is refused", async (_what, more, status, says) => {
    const refused = await send(more);
    expect<unknown>([refused.status, refused.body]).toEqual([
      status,
      { code: expect.any(String), error: expect.stringMatching(says) },
    ]);
  });
});
