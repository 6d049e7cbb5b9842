/** Content-Type of files with its parameters, on arrival and when mail leaves (rules: Types of files), over real sockets. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createApiKey } from "../../src/access/credentials.ts";
import { MAIL_SCOPES, type Policy } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { deliverTo, type RemoteMx, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@remote.example";
const ICS = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n";
const TYPE = "text/calendar; method=REQUEST; charset=utf-8";
const LATIN = Buffer.from("Größe", "latin1").toString("base64");

interface Attachment {
  id: string;
  filename: string;
  contentType: string;
}
interface Sent {
  emailId: string;
  threadId: string;
  draftId: string;
  id: string;
  revision: number;
  held?: boolean;
  code?: string;
  error?: string;
}

let booted: Booted;
let api: Client;
let remote: RemoteMx;
beforeAll(async () => {
  remote = await startRemoteMx();
  booted = await boot(
    {},
    zone({ "remote.example": { mx: [[10, "mx.remote.example"]] }, "mx.remote.example": { a: ["127.0.0.1"] } }),
  );
  deliverTo(remote, booted.core);
  api = booted.api;
});

let transmittedCount = 0;
/** The next message that has left. */
async function transmitted(): Promise<string> {
  transmittedCount++;
  await booted.server.settled();
  return (await remote.waitFor(transmittedCount))[transmittedCount - 1]?.content ?? "";
}

/** The types of the parts of a message, in order, unfolded; for each part that has one, its disposition. */
const typesIn = (raw: string): string[] =>
  [...raw.replace(/\r\n[ \t]+/g, " ").matchAll(/^Content-(?:Type|Disposition): (.*)$/gim)].map(([, value = ""]) =>
    value.trim().replace(/; boundary=.*/, ""),
  );

const rawOf = async (id: string): Promise<string> =>
  Buffer.from((await api.bytes(`/messages/${id}/raw`)).body).toString();
const filesOf = async (id: string): Promise<Attachment[]> =>
  (await api.get<{ message: { attachments: Attachment[] } }>(`/messages/${id}`)).body.message.attachments;
const downloadOf = async ({ id }: Attachment, by = api) => {
  const { headers, body } = await by.bytes(`/attachments/${id}`);
  return [headers.get("content-type"), Buffer.from(body).toString("latin1")];
};

async function accepted(path: string, body: object, headers?: Record<string, string>): Promise<Sent> {
  const answer = await api.post<Sent>(path, body, headers);
  expect([answer.status, answer.body]).toEqual([
    path.endsWith("draft") || path.endsWith("drafts") ? 201 : 202,
    expect.anything(),
  ]);
  return answer.body;
}

/** The API with another key of Alice's. */
function keyWith(policy: Policy): Client {
  const { userId } = booted.owner;
  return booted.apiWith(
    booted.write((tx) => createApiKey(tx, booted.runtime, { userId, name: "k", scopes: MAIL_SCOPES, policy })).key,
  );
}

const INVITATION = { contentType: TYPE, text: ICS, alternative: true };
const NOTE = {
  filename: "note.txt",
  contentType: 'text/plain; charset=iso-8859-1; X-Title="Größe; 5 m²"; name=other.exe',
  content: LATIN,
};
const LEFT = [
  "multipart/mixed;",
  "multipart/alternative;",
  "text/plain; charset=utf-8",
  "text/html; charset=utf-8",
  TYPE,
  "text/plain; charset=iso-8859-1; x-title*0*=utf-8''Gr%C3%B6%C3%9Fe%3B%205%20m%C2%B2; name=note.txt",
  "attachment; filename=note.txt",
].map((type) => type.replace(/;$/, ""));
const content = { text: "Come.", html: "<p>Come.</p>", attachments: [INVITATION, NOTE] };

describe("what leaves", () => {
  test("has the types as they were given, and the alternative without a name after the HTML", async () => {
    const { emailId } = await accepted("/send", { from: ALICE, to: BOB, subject: "Lunch", ...content });
    const raw = await transmitted();
    expect(typesIn(raw)).toEqual(LEFT);
    expect(raw).toContain(Buffer.from(ICS).toString("base64"));
    expect(typesIn(await rawOf(emailId))).toEqual(LEFT);
    const files = await filesOf(emailId);
    expect(files.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ["attachment-1.ics", "text/calendar"],
      ["note.txt", "text/plain"],
    ]);
    // HTTP has no way to say what is not ASCII.
    expect(await Promise.all(files.map((file) => downloadOf(file)))).toEqual([
      [TYPE, ICS],
      ["text/plain; charset=iso-8859-1", "Größe"],
    ]);
  });

  test("by a reply, a draft of a reply, a draft, one that is changed, and one that waits for its time or a person", async () => {
    const { threadId } = await accepted("/send", { from: ALICE, to: BOB, subject: "Lunch", text: "?" });
    await transmitted();
    await accepted(`/threads/${threadId}/reply`, content);
    expect(typesIn(await transmitted())).toEqual(LEFT);

    const { draftId } = await accepted(`/threads/${threadId}/draft`, content);
    await accepted(`/api/ext/v1/drafts/${draftId}/send`, {});
    expect(typesIn(await transmitted())).toEqual(LEFT);

    const empty = await accepted("/api/ext/v1/drafts", { to: BOB });
    const { body: changed } = await api.patch<Sent>(`/api/ext/v1/drafts/${empty.id}`, {
      ...content,
      revision: empty.revision,
    });
    expect(typesIn(await rawOf(changed.emailId))).toEqual(LEFT);
    await accepted(`/api/ext/v1/drafts/${changed.id}/send`, {});
    expect(typesIn(await transmitted())).toEqual(LEFT);

    const sendAt = new Date(booted.runtime.now() + 60_000).toISOString();
    await accepted("/send", { from: ALICE, to: BOB, ...content, sendAt });
    await booted.advance(60_000);
    expect(typesIn(await transmitted())).toEqual(LEFT);

    const held = await keyWith({ send: "hold" }).post<Sent>("/send", { from: ALICE, to: BOB, ...content });
    expect(held.body.held).toBe(true);
    expect(typesIn(await rawOf(held.body.emailId))).toEqual(LEFT);
    await api.post(`/api/admin/v1/holds/${held.body.emailId}/approve`, {});
    expect(typesIn(await transmitted())).toEqual(LEFT);
  });

  test("has several alternatives in their order, and an empty text before them where there is none", async () => {
    const card = { contentType: "text/vcard; profile=VCARD", text: "BEGIN:VCARD", alternative: true };
    const { id } = await accepted("/api/ext/v1/drafts", { to: BOB, subject: "x", attachments: [card, INVITATION] });
    await accepted(`/api/ext/v1/drafts/${id}/send`, {});
    expect(typesIn(await transmitted())).toEqual([
      "multipart/alternative",
      "text/plain; charset=utf-8",
      "text/vcard; profile=VCARD; charset=utf-8",
      TYPE,
    ]);
  });

  test("is in UTF-8 where it was given as text, whatever charset is named", async () => {
    const { emailId } = await accepted("/send", {
      ...{ from: ALICE, to: BOB, text: "x" },
      attachments: [{ filename: "a.csv", contentType: "text/csv; charset=latin1; header=present", text: "ä" }],
    });
    await transmitted();
    const [file] = await filesOf(emailId);
    expect(await downloadOf(file as Attachment)).toEqual(["text/csv; charset=utf-8; header=present", "\u00c3\u00a4"]);
  });

  test("is the same message again only with the same place of its files", async () => {
    const body = { from: ALICE, to: BOB, text: "x", attachments: [INVITATION] };
    const headers = { "idempotency-key": "place-1" };
    const { emailId } = await accepted("/send", body, headers);
    await transmitted();
    const [file] = await filesOf(emailId);
    const attachments = [{ attachmentId: file?.id, alternative: true }];
    expect((await accepted("/send", { ...body, attachments }, headers)).emailId).toBe(emailId);
    const named = await api.post<Sent>("/send", { ...body, attachments: [{ attachmentId: file?.id }] }, headers);
    expect(named.status).toBe(422);
  });

  test.each([
    ["a line break", { ...NOTE, contentType: "text/plain; x=a\r\nBcc: eve@evil.example" }],
    ["a NUL", { ...NOTE, contentType: "text/plain; x=\u0000" }],
    ["a boundary", { ...NOTE, contentType: "text/plain; BOUNDARY=x" }],
    ["a boundary in pieces", { ...NOTE, contentType: "multipart/mixed; boundary*0=x" }],
    ["more than 1,000 characters", { ...NOTE, contentType: `text/plain; x=${"y".repeat(1_000)}` }],
    ["an alternative with a name", { ...INVITATION, filename: "a.ics" }],
    ["an alternative that is inline", { ...INVITATION, inline: true, contentId: "c" }],
    ["an alternative that readers take for the text", { ...INVITATION, contentType: "text/html" }],
    ["an alternative that nobody here would see", { ...INVITATION, contentType: "text/x-amp-html" }],
  ])("does not with %s", async (_, attachment) => {
    const { status, body } = await api.post<Sent>("/send", {
      from: ALICE,
      to: BOB,
      text: "x",
      attachments: [attachment],
    });
    expect([status, body.code]).toEqual([400, "bad_request"]);
  });

  test("over MCP", async () => {
    const mcp = await connectMcp(booted.http, booted.owner.apiKey);
    const result = await mcp.call("send_email", { from: ALICE, to: BOB, text: "Come.", attachments: [INVITATION] });
    await mcp.close();
    expect(result.isError).toBe(false);
    expect(typesIn(await transmitted())).toEqual(["multipart/alternative", "text/plain; charset=utf-8", TYPE]);
  });
});

describe("what arrives", () => {
  let emailId: string;
  beforeAll(async () => {
    const sender = mailer(booted.mx);
    await sender.send(
      { from: BOB, to: ALICE },
      [
        `From: ${BOB}`,
        `To: ${ALICE}`,
        "Subject: Arrived",
        "Message-ID: <types@remote.example>",
        'Content-Type: multipart/mixed; boundary="m"',
        "",
        "--m",
        'Content-Type: multipart/alternative; boundary="a"',
        "",
        "--a",
        "Content-Type: text/plain",
        "",
        "Come.",
        "--a",
        'Content-Type: text/calendar; method=REQUEST; charset="utf-8"',
        "",
        ICS,
        "--a--",
        "--m",
        "Content-Type: application/pdf; x-pages=5",
        "Content-Disposition: attachment",
        "",
        "%PDF-1.4",
        "--m",
        "Content-Type: text/plain; charset=koi8-r; name*0*=koi8-r''%C1; name*1=.txt",
        "Content-Disposition: attachment",
        "Content-Transfer-Encoding: base64",
        "",
        Buffer.from([0xc1, 0xc2]).toString("base64"),
        "--m--",
        "",
      ].join("\r\n"),
    );
    sender.close();
    const { body } = await api.get<{ messages: { id: string; subject: string }[] }>("/messages?direction=inbound");
    emailId = body.messages.find(({ subject }) => subject === "Arrived")?.id ?? "";
  });

  test("is shown by its bare type, under a name, and downloaded with its parameters", async () => {
    const files = await filesOf(emailId);
    expect(files.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ["attachment-1.ics", "text/calendar"],
      ["attachment-2.pdf", "application/pdf"],
      ["а.txt", "text/plain"],
    ]);
    expect(await Promise.all(files.map(async (file) => (await downloadOf(file))[0]))).toEqual([
      TYPE,
      "application/pdf; x-pages=5",
      "text/plain; charset=koi8-r",
    ]);
  });

  test("has its types, and no names but its own, where it is composed again", async () => {
    expect(typesIn(await rawOf(emailId))).toEqual([
      "multipart/mixed",
      "multipart/alternative",
      "text/plain; charset=utf-8",
      TYPE,
      "application/pdf; x-pages=5",
      "attachment",
      'text/plain; charset=koi8-r; name="=?UTF-8?Q?=D0=B0=2Etxt?="',
      "attachment; filename*0*=utf-8''%D0%B0.txt",
    ]);
  });

  test("keeps its types in another message, where it is a file with the name that is shown", async () => {
    const forwarded = [
      "multipart/mixed",
      "text/plain; charset=utf-8",
      `${TYPE}; name=attachment-1.ics`,
      "attachment; filename=attachment-1.ics",
      "application/pdf; x-pages=5; name=attachment-2.pdf",
      "attachment; filename=attachment-2.pdf",
    ];
    await accepted("/send", { from: ALICE, to: BOB, forward: emailId });
    expect(typesIn(await transmitted()).slice(0, 6)).toEqual(forwarded);
    const attachments = (await filesOf(emailId)).slice(0, 2).map(({ id }) => ({ attachmentId: id }));
    await accepted("/send", { from: ALICE, to: BOB, text: "x", attachments });
    expect(typesIn(await transmitted())).toEqual(forwarded);
  });

  test("keeps all of it as a message that is attached", async () => {
    await accepted("/send", { from: ALICE, to: BOB, text: "x", attachments: [{ emailId }] });
    const types = typesIn(await transmitted());
    // As its sender wrote it.
    expect(types).toContain('text/calendar; method=REQUEST; charset="utf-8"');
    expect(types).toContain("application/pdf; x-pages=5");
  });

  test("is UTF-8 for a key from which codes are hidden", async () => {
    const sender = mailer(booted.mx);
    await sender.send(
      { from: BOB, to: ALICE },
      [
        ...[`From: ${BOB}`, `To: ${ALICE}`, "Subject: Code", "Message-ID: <code@remote.example>"],
        "Content-Type: text/plain; charset=iso-8859-1; x-kept=yes",
        "Content-Disposition: attachment; filename=code.txt",
        "Content-Transfer-Encoding: base64",
        "",
        Buffer.from("Schöner Tag. Your verification code is 482913.", "latin1").toString("base64"),
        "",
      ].join("\r\n"),
    );
    sender.close();
    const { body } = await api.get<{ messages: { id: string; subject: string }[] }>("/messages?direction=inbound");
    const [file] = await filesOf(body.messages.find(({ subject }) => subject === "Code")?.id ?? "");
    const [type, text = ""] = await downloadOf(file as Attachment, keyWith({ codes: false }));
    expect(type).toBe("text/plain; charset=utf-8; x-kept=yes");
    expect(Buffer.from(text ?? "", "latin1").toString()).toMatch(/^Schöner Tag\. (?!.*482913)/);
  });
});
