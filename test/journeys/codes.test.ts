/** Keys that read no codes (rules: Codes) over real sockets: every read by REST and MCP, and searches for a code. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { composeMessage } from "../../src/message/compose.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { EXT_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import type { Client } from "../harness/clients/api.ts";
import { connectMcp, type ToolClient } from "../harness/clients/mcp-client.ts";
import { docx } from "../harness/mail/documents.ts";
import { mailer } from "../harness/mail/mail.ts";
import { ALICE, bootExt, type ExtWorld } from "../harness/servers/ext-world.ts";
import { until } from "../harness/until.ts";

const EXT = "/api/ext/v1";
const CODE = "482913";
const TOKEN = "Zx81abc7Qr55def0";
const LINK = `https://remote.example/login?token=${TOKEN}`;
const SAID = `Your code is ${CODE}. Or sign in at ${LINK}`;
/** Far behind the words that its snippet has. */
const LATE = "771204";

let world: ExtWorld;
let agent: Client;
let tools: ToolClient;
let whole: ToolClient;
/** The messages whose codes must not be read: one that arrived, and one that is like it but for its code. */
let mail: { threadId: string; emailId: string };
let late: { threadId: string; emailId: string };
let draftId: string;
let attachments: { id: string; filename: string }[];

const file = (filename: string, contentType: string, content: Uint8Array | string) => ({
  filename,
  contentType,
  content: Buffer.from(content),
  inline: false,
});

const EML = composeMessage({
  id: "msg_inner",
  headers: [["Subject", `${CODE} is your code`]],
  text: SAID,
  attachments: [],
});

const FILES = [
  file(`code ${CODE}.txt`, "text/plain", SAID),
  file("page.html", "text/html", `<html><p>Your code</p><b>48</b><b>2913</b><a href="${LINK}">Sign in</a></html>`),
  file("forwarded.eml", "message/rfc822", EML),
  file("renamed.bin", "application/octet-stream", SAID),
  file(
    "invite.ics",
    "text/calendar",
    `BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Your code is ${CODE}\r\nEND:VEVENT\r\nEND:VCALENDAR`,
  ),
  file(
    "letter.docx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    docx(`<w:p><w:r><w:t>${SAID}</w:t></w:r></w:p>`),
  ),
];

async function deliver(subject: string, parts: Partial<Parameters<typeof composeMessage>[0]>) {
  const headers = [
    ["From", `"${subject}" <no-reply@remote.example>`],
    ["To", ALICE],
    ["Subject", subject],
    ["Message-ID", `<${Bun.hash(JSON.stringify(parts)).toString(16)}@remote.example>`],
    ["Date", "Mon, 05 Jan 2026 08:00:00 +0000"],
  ] as const;
  const sender = mailer(world.mx);
  const bytes = composeMessage({ id: "msg_outer", headers, text: "", attachments: [], ...parts });
  await sender.send({ from: "no-reply@remote.example", to: ALICE }, bytes);
  sender.close();
  await world.server.settled();
  const { body } = await world.api.get<{ messages: { id: string; threadId: string; subject: string }[] }>("/messages");
  const found = body.messages.find((one) => one.subject === subject);
  if (!found) throw new Error("the message was not filed");
  return { threadId: found.threadId, emailId: found.id };
}

async function keyWithoutCodes(scopes: string[]): Promise<string> {
  const policy = { codes: false };
  const { body } = await world.api.post<{ key: string }>("/api/admin/v1/keys", { name: "Agent", scopes, policy });
  return body.key;
}

beforeAll(async () => {
  world = await bootExt();
  const key = await keyWithoutCodes(["read", "write", "send"]);
  agent = world.apiWith(key);
  tools = await connectMcp(world.http, key);
  whole = await connectMcp(world.http, world.owner.apiKey);
  mail = await deliver(`${CODE} is your Nimbus code`, {
    text: `Hello Alice,\n\n${SAID}\n`,
    html: `<p>Hello Alice,</p><p>Your code:</p><table><tr>${[...CODE].map((d) => `<td>${d}</td>`).join("")}</tr></table><a href="${LINK}">Sign in</a>`,
    attachments: FILES,
  });
  late = await deliver("Sign in to Parcelio", {
    text: `${"Thanks for travelling with us. ".repeat(6)}\n${LATE}\n\nis the code that you asked for.`,
  });
  const { body } = await world.api.get<{ message: { attachments: typeof attachments } }>(`/messages/${mail.emailId}`);
  attachments = body.message.attachments;
  const draft = await world.api.post<{ draftId: string }>(`${EXT}/drafts`, {
    to: ["bob@remote.example"],
    subject: `Your code is ${CODE}`,
    text: SAID,
  });
  draftId = draft.body.draftId;
});
afterAll(async () => {
  await tools.close();
  await whole.close();
});

/** Everything readable in a message as a file. */
async function readableIn(bytes: Uint8Array): Promise<string> {
  const { attachments: files, ...parsed } = await parseMessage(bytes);
  const inside = files.map(({ content, contentType }) =>
    contentType === "message/rfc822" ? readableIn(content) : Buffer.from(content).toString("latin1"),
  );
  return [JSON.stringify(parsed), ...(await Promise.all(inside))].join("\n");
}

/** Cells and elements of a digit each, too. */
const squeezed = (text: string): string => `${text}\n${text.replace(/<[^>]*>/g, "")}`;

const SECRETS = [CODE, TOKEN, LATE];
const secretsIn = (text: string): string[] => SECRETS.filter((secret) => squeezed(text).includes(secret));

/** The reads of each operation that answers with mail, or may. */
const READS: Record<string, () => string[]> = {
  listMailboxes: () => ["/mailboxes"],
  listThreads: () => ["/threads", "/threads?q=code", "/threads?folder=drafts", "/threads?q=sign&sort=relevance"],
  searchMail: () => [
    "/search?q=code",
    "/search?q=subject:nimbus&sort=relevance",
    "/search?q=asked",
    "/search?q=filename:txt",
  ],
  getThread: () => [`/threads/${mail.threadId}`, `/threads/${late.threadId}`, `/threads/${mail.threadId}?html=false`],
  listMessages: () => ["/messages", `/messages?threadId=${mail.threadId}`, `/messages?from=no-reply@remote.example`],
  getMessage: () => [`/messages/${mail.emailId}`, `/messages/${late.emailId}?html=false`],
  getRawMessage: () => [`/messages/${mail.emailId}/raw`, `/messages/${late.emailId}/raw`],
  // Refused (test/api/originals.test.ts).
  getOriginal: () => [],
  getAttachment: () =>
    attachments.filter(({ filename }) => !filename.endsWith("docx")).map(({ id }) => `/attachments/${id}`),
  listDeliveries: () => [`${EXT}/messages/${mail.emailId}/deliveries`],
  getDraft: () => [`${EXT}/drafts/${draftId}`],
  listLabels: () => [`${EXT}/labels`],
  listChanges: () => [`${EXT}/changes`],
};

/** Operations that read no mail of others. */
const WITHOUT_MAIL = ["listMailboxes", "listDeliveries", "listLabels", "listChanges"];

/** Fields of answers that hold text of mail, which is masked, and the others that are strings. */
const MASKED = ["bodyText", "cc", "filename", "html", "name", "snippet", "subject", "text", "to", "value"];
const NO_TEXT_OF_MAIL = [
  ...[
    "address",
    "aliases",
    "approvedBy",
    "at",
    "code",
    "contentId",
    "contentType",
    "date",
    "deliveredAt",
    "displayName",
  ],
  ...["dkim", "dmarc", "draftId", "email", "emailId", "error", "from", "headerMessageId", "id", "inReplyTo", "labels"],
  ...[
    "lastMessageAt",
    "mailbox",
    "mailboxId",
    "messageId",
    "nearWords",
    "next",
    "nextAfter",
    "nextAttemptAt",
    "nextCursor",
  ],
  ...[
    "notes",
    "reason",
    "receivedOn",
    "recipient",
    "references",
    "refusal",
    "reply",
    "replyToThreadId",
    "savedAt",
    "sendAt",
  ],
  ...["settledAt", "since", "snoozedUntil", "spf", "suggestion", "threadId", "url", "urls"],
];

test("every field of an answer is masked, or known to hold no text of mail", () => {
  interface Schema {
    type?: string;
    enum?: unknown;
    properties?: Record<string, Schema>;
    items?: Schema;
    anyOf?: Schema[];
    allOf?: Schema[];
  }
  const names = new Set<string>();
  const note = (schema: Schema, name: string): void => {
    if (schema.type === "string" && schema.enum === undefined) names.add(name);
    for (const [field, of] of Object.entries(schema.properties ?? {})) note(of, field);
    for (const of of [schema.items ?? [], schema.anyOf ?? [], schema.allOf ?? []].flat()) note(of, name);
  };
  for (const { response } of [...MAIL_OPERATIONS, ...EXT_OPERATIONS]) note(response as Schema, "");
  expect([...names].sort()).toEqual([...MASKED, ...NO_TEXT_OF_MAIL].sort());
});

describe("no read over REST has a code or a link", () => {
  const gets = [...MAIL_OPERATIONS, ...EXT_OPERATIONS].filter(({ method }) => method === "GET").map(({ name }) => name);
  test("every operation that reads is looked at", () => {
    expect(Object.keys(READS).sort()).toEqual(gets.toSorted());
  });

  test.each(gets)("%s", async (name) => {
    for (const path of READS[name]?.() ?? []) {
      const read = async (client: Client) => {
        const { status, headers, body } = await client.bytes(path);
        const text = name === "getRawMessage" ? await readableIn(body) : Buffer.from(body).toString();
        return { status, text: JSON.stringify([...headers]) + text };
      };
      const [masked, plain] = [await read(agent), await read(world.api)];
      expect([path, masked.status, secretsIn(masked.text)]).toEqual([path, 200, []]);
      // Another key reads them in the same place.
      expect([path, secretsIn(plain.text).length > 0]).toEqual([path, !WITHOUT_MAIL.includes(name)]);
    }
  });

  test("what is left is what it was", async () => {
    const read = async (client: Client) =>
      (await client.get<{ message: Record<string, unknown> }>(`/messages/${mail.emailId}`)).body.message;
    const [masked, plain] = [await read(agent), await read(world.api)];
    expect(masked.subject).toBe("[code hidden] is your Nimbus code");
    expect(masked.text).toBe("Hello Alice,\n\nYour code is [code hidden]. Or sign in at [link hidden]");
    expect(masked.from).toEqual({ email: "no-reply@remote.example", name: "[code hidden] is your Nimbus code" });
    const others = ({
      subject: _,
      text: __,
      html: ___,
      from: ____,
      attachments: _____,
      ...rest
    }: Record<string, unknown>) => rest;
    expect(others(masked)).toEqual(others(plain));
  });

  test("the answers of other requests are masked, and replays of them", async () => {
    const body = { subject: `Your code is ${CODE}`, text: SAID };
    const headers = { "idempotency-key": "codes-1" };
    for (let time = 0; time < 2; time++) {
      const { status, body: made } = await agent.post<Record<string, string>>(`${EXT}/drafts`, body, headers);
      expect([status, made.subject, secretsIn(JSON.stringify(made))]).toEqual([201, "Your code is [code hidden]", []]);
    }
    const draft = await agent.post(`/threads/${mail.threadId}/draft`, { text: "Thanks", quote: true });
    expect([draft.status, draft.body.to]).toEqual([
      201,
      '"[code hidden] is your Nimbus code" <no-reply@remote.example>',
    ]);
    const { isError, text, structured } = await tools.call("draft_reply", { id: mail.threadId, text: "Thanks" });
    expect([isError, secretsIn(text + JSON.stringify(structured))]).toEqual([false, []]);
    const { body: changed } = await agent.patch(`/threads/${mail.threadId}`, { unread: true });
    expect(JSON.stringify(changed)).toContain("[code hidden] is your Nimbus code");
    const all = await agent.patch(`${EXT}/threads`, { ids: [mail.threadId, late.threadId], starred: false });
    expect(secretsIn(JSON.stringify(all.body))).toEqual([]);
  });

  const WRITES: [what: string, path: () => string, body: () => object][] = [
    [
      "a draft with files and a message attached",
      () => `${EXT}/drafts`,
      () => ({
        ...{ subject: "Look", text: "x" },
        attachments: [
          ...attachments.map(({ id }) => ({ attachmentId: id })),
          { emailId: mail.emailId, filename: "a.eml" },
        ],
      }),
    ],
    ["a draft that forwards", () => `${EXT}/drafts`, () => ({ text: "x", forward: mail.emailId })],
    ["a draft that forwards text alone", () => `${EXT}/drafts`, () => ({ text: "x", forward: late.emailId })],
    [
      "a reply that quotes and forwards",
      () => `/threads/${mail.threadId}/draft`,
      () => ({ text: "x", quote: true, forward: late.emailId }),
    ],
  ];
  test.each(WRITES)("%s has of other mail what the key reads, whoever reads it", async (_, path, body) => {
    const read = async (client: Client): Promise<string> => {
      const made = await client.post<{ draftId: string }>(path(), body());
      expect(made.status).toBe(201);
      const draft = await world.api.get<{ emailId: string }>(`${EXT}/drafts/${made.body.draftId}`);
      const raw = await world.api.bytes(`/messages/${draft.body.emailId}/raw`);
      expect(raw.status).toBe(200);
      return readableIn(raw.body);
    };
    expect(secretsIn(await read(agent))).toEqual([]);
    expect(secretsIn(await read(world.api))).not.toEqual([]);
  });

  test("what it attaches of other mail is otherwise what it was", async () => {
    const made = await agent.post<{ attachments: { id: string; filename: string; contentType: string }[] }>(
      `${EXT}/drafts`,
      { subject: "Look", text: "x", attachments: attachments.map(({ id }) => ({ attachmentId: id })) },
    );
    const files = made.body.attachments;
    expect(files.map(({ filename }) => filename)).toEqual([
      "code [code hidden].txt",
      ...FILES.slice(1).map(({ filename }) => filename),
    ]);
    expect(files.map(({ contentType }) => contentType)).toEqual(FILES.map(({ contentType }) => contentType));
    const contentOf = async (n: number) => Buffer.from((await world.api.bytes(`/attachments/${files[n]?.id}`)).body);
    expect((await contentOf(0)).toString()).toBe("Your code is [code hidden]. Or sign in at [link hidden]");
    expect((await contentOf(FILES.length - 1)).equals(FILES.at(-1)?.content ?? Buffer.of())).toBe(true);
  });
});

describe("no tool of MCP shows a code or a link", () => {
  const CALLS: [tool: string, args: () => Record<string, unknown>][] = [
    ["list_mailboxes", () => ({})],
    ["list_threads", () => ({})],
    ["list_threads", () => ({ folder: "drafts" })],
    ["search_mail", () => ({ q: "code" })],
    ["get_thread", () => ({ id: mail.threadId })],
    ["get_thread", () => ({ id: late.threadId, newTextOnly: false })],
    ["list_messages", () => ({})],
    ["get_message", () => ({ id: mail.emailId })],
    ["get_message", () => ({ id: mail.emailId, html: true })],
    ["get_message", () => ({ id: mail.emailId, list: "attachments" })],
    ["get_message", () => ({ id: late.emailId, newTextOnly: true })],
    ["get_raw_message", () => ({ id: mail.emailId })],
    ...FILES.map((_, n): [string, () => Record<string, unknown>] => [
      "get_attachment",
      () => ({ id: attachments[n]?.id }),
    ]),
    ["update_thread", () => ({ id: mail.threadId, unread: true })],
  ];
  test.each(CALLS)("%s", async (name, args) => {
    const read = async (client: ToolClient) => {
      const { text, structured, content, isError } = await client.call(name, args());
      expect(isError).toBe(false);
      const blobs = content.map(({ resource }) => Buffer.from(resource?.blob ?? "", "base64").toString());
      const decoded = name === "get_raw_message" ? await readableIn(Buffer.from(structured.text)) : "";
      return [text, JSON.stringify(structured), ...blobs, decoded].join("\n");
    };
    expect(secretsIn(await read(tools))).toEqual([]);
    if (name !== "list_mailboxes") expect(secretsIn(await read(whole))).not.toEqual([]);
  });
});

describe("a search does not find a code", () => {
  interface Found {
    threads: { id: string; highlights?: unknown[] }[];
    unread: number;
    nextCursor: string | null;
    suggestion?: string;
    nearWords?: string[];
    notes?: string[];
  }
  const search = async (client: Client, q: string, more = "") =>
    (await client.get<Found>(`/search?q=${encodeURIComponent(q)}${more}`)).body;

  const DIGITS = "0123456789";
  const QUERIES = [
    ...[
      CODE,
      `"${CODE}"`,
      `subject:${CODE}`,
      `filename:${CODE}`,
      `from:${CODE}`,
      `"code is ${CODE}"`,
      `nimbus ${CODE}`,
    ],
    ...[LINK, TOKEN, `"token ${TOKEN}"`, LATE, "482914", "４８２９１３", "④", "48291", `is:unread ${CODE}`],
    // Digit by digit.
    ...[...DIGITS].flatMap((digit) => [digit, `4${digit}`, `48${digit}`, `"code is ${digit}"`]),
  ];
  test.each(QUERIES)("%s", async (q) => {
    for (const sort of ["", "&sort=relevance"]) {
      const found = await search(agent, q, sort);
      const { threads, unread, nextCursor, suggestion, nearWords, notes } = found;
      expect({ threads, unread, nextCursor, suggestion, nearWords }).toEqual({
        ...{ threads: [], unread: 0, nextCursor: null, suggestion: undefined, nearWords: undefined },
      });
      expect(notes?.join()).toContain("this key reads no codes");
    }
  });

  test("nor does it find one by what it excludes", async () => {
    const ids = async (q: string) => (await search(agent, q)).threads.map(({ id }) => id).sort();
    const all = await ids("in:inbox");
    expect(all).toContain(mail.threadId);
    for (const q of [CODE, `"${CODE}"`, `subject:${CODE}`, LATE, "4", LINK])
      expect(await ids(`in:inbox -${q}`)).toEqual(all);
    expect((await search(world.api, `in:inbox -${CODE}`)).threads.map(({ id }) => id)).not.toContain(mail.threadId);
  });

  test("which another key finds", async () => {
    for (const q of [CODE, `subject:${CODE}`, `filename:${CODE}`, `"code is ${CODE}"`]) {
      expect((await search(world.api, q)).threads.map(({ id }) => id)).toContain(mail.threadId);
    }
  });

  test("words and whole addresses are found as ever, and shown masked", async () => {
    const { threads, notes } = await search(agent, "nimbus hello in:inbox");
    expect(threads.map(({ id }) => id)).toEqual([mail.threadId]);
    expect(JSON.stringify(threads[0]?.highlights)).toContain("[code hidden] is your Nimbus code");
    expect(notes).toBeUndefined();
    expect((await search(agent, "from:no-reply@remote.example in:inbox")).threads).toHaveLength(2);
    const member = await world.receive(ALICE, "From a number", { from: "Agent <agent007@remote.example>" });
    expect((await search(agent, "from:agent007@remote.example")).threads.map(({ id }) => id)).toEqual([
      member.threadId,
    ]);
  });

  test("nothing is suggested", async () => {
    expect((await search(world.api, "nimbsu")).suggestion).toBe("nimbus");
    expect((await search(agent, "nimbsu")).suggestion).toBeUndefined();
  });

  test("nor are words of the HTML alone shown with it", async () => {
    await deliver("Welcome to Aurora", {
      text: "Welcome.",
      html: "<p>Welcome.</p><p>Your confirmation code is 739154</p><p>Petrichor</p>",
    });
    const shown = async (client: Client) => JSON.stringify((await search(client, "petrichor")).threads[0]?.highlights);
    expect(await shown(world.api)).toContain("739154");
    expect(await shown(agent)).toContain("Your confirmation code is [code hidden] Petrichor");
  });

  describe("nor one of letters, by a guess of it", () => {
    let letters: { threadId: string; emailId: string };
    beforeAll(async () => {
      letters = await deliver("Orbit code: WDJB-MJHT", {
        text: "Hello Alice,\n\nYour verification code:\n\nQXRZPT\n\nSign in at https://remote.example/magic/heliotrope?token=Zx81abc7Qr55def0\n",
        html: "<p>Hello Alice,</p><p>Your verification code:</p><p>QXRZPT</p><p>Cormorant</p>",
        attachments: [file("code WDJB-MJHT.txt", "text/plain", "x")],
      });
    });

    const GUESSES = [
      ...[
        "wdjb",
        "mjht",
        '"wdjb mjht"',
        '"code wdjb"',
        "subject:wdjb",
        "from:wdjb",
        "from:mjht",
        "qxrzpt",
        "ＱＸＲＺＰＴ",
      ],
      ...["orbit qxrzpt", "heliotrope", "filename:wdjb", "cormorant qxrzpt", "has:attachment qxrzpt"],
    ];
    const ids = ({ threads }: Found) => threads.map(({ id }) => id);

    test.each(GUESSES)("%s", async (q) => {
      expect(ids(await search(world.api, q))).toEqual([letters.threadId]);
      for (const path of ["/search?", "/search?sort=relevance&", "/threads?", "/search?folder=inbox&unread=true&"]) {
        const { body } = await agent.get<Found>(`${path}q=${encodeURIComponent(q)}`);
        expect([path, body]).toEqual([path, { ...body, threads: [], unread: 0, nextCursor: null }]);
        expect(body.notes).toBeUndefined();
      }
      const { isError, structured } = await tools.call("search_mail", { q });
      expect([isError, structured.threads]).toEqual([false, []]);
    });

    test.each(["wdjb", "subject:mjht", "qxrzpt", "heliotrope", '"code wdjb"', "filename:mjht"])(
      "nor by what is excluded: -%s",
      async (q) => {
        for (const rest of ["orbit", "in:inbox", "has:attachment", "larger:1"]) {
          const [all, left] = [await search(agent, rest), await search(agent, `${rest} -${q}`)];
          expect(left).toEqual(all);
          expect(ids(left)).toContain(letters.threadId);
          expect(ids(await search(world.api, `${rest} -${q}`))).not.toContain(letters.threadId);
        }
      },
    );

    test("words that can be read are found, and exclude", async () => {
      for (const q of ["cormorant", "orbit", "subject:orbit", '"hello alice" cormorant', "from:orbit -nimbus"]) {
        const found = await search(agent, q);
        expect([q, ids(found), found.unread]).toEqual([q, [letters.threadId], 1]);
        expect(found.threads[0]?.highlights).not.toEqual([]);
      }
      for (const q of ["in:inbox -cormorant", "alice -cormorant", "alice -subject:orbit"]) {
        expect(ids(await search(agent, q))).toContain(mail.threadId);
        expect(ids(await search(agent, q))).not.toContain(letters.threadId);
      }
    });

    test("nor by where another message of its conversation matches", async () => {
      const { body } = await world.api.get<{ message: { messageId: string } }>(`/messages/${letters.emailId}`);
      const answer = await world.receive(ALICE, "Re: Orbit code: WDJB-MJHT", {
        from: "no-reply@remote.example",
        headers: [`In-Reply-To: <${body.message.messageId.replace(/[<>]/g, "")}>`],
        text: "Alice, is it qxrzpt?",
      });
      expect(answer.threadId).toBe(letters.threadId);
      const { threads } = await search(agent, "alice qxrzpt");
      expect(threads.map(({ id }) => id)).toEqual([letters.threadId]);
      const places = threads[0]?.highlights as { emailId: string }[];
      expect([...new Set(places.map(({ emailId }) => emailId))]).toEqual([answer.emailId]);
    });
  });
});

test("a key without the policy is answered byte for byte as before", async () => {
  const { key } = (
    await world.api.post<{ key: string }>("/api/admin/v1/keys", {
      name: "Plain",
      scopes: ["read"],
      policy: { codes: true },
    })
  ).body;
  const plain = world.apiWith(key);
  for (const path of [`/messages/${mail.emailId}`, `/messages/${mail.emailId}/raw`, "/search?q=code", "/threads"]) {
    expect(Buffer.from((await plain.bytes(path)).body)).toEqual(Buffer.from((await world.api.bytes(path)).body));
  }
});

test("a request that waits while its key loses the codes shows none", async () => {
  const scopes = ["read"];
  const { body } = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", { name: "Waits", scopes });
  const timers = () => world.runtime.timers().filter((at) => at - world.runtime.now() > 10_000).length;
  const before = timers();
  const waiting = world.apiWith(body.key).get("/messages?waitSeconds=50");
  await until(() => timers() > before);
  const policy = { codes: false };
  expect((await world.api.patch(`/api/admin/v1/keys/${body.id}`, { policy })).status).toBe(200);
  await deliver(`${CODE} is your later code`, { text: SAID });
  await world.advance(250);
  const { status, body: answer } = await waiting;
  const told = JSON.stringify(answer);
  expect([status, told.includes("is your later code"), secretsIn(told)]).toEqual([200, true, []]);
});
