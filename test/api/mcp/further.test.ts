/**
 * Tools that agents have beyond the twelve operations of REST (rules: MCP, Arguments of tools, Results of tools), over HTTP.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import * as developers from "../../../src/admin/developers.ts";
import { connectMcp } from "../../harness/clients/mcp-client.ts";
import { letter, mailer } from "../../harness/mail/mail.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";
import { bodyIn, openFences } from "./mcp-mail.ts";
import { CAROL, createCalls, type Structured } from "./tool-calls.ts";

const HOUR = 3_600_000;
type Calls = ReturnType<typeof createCalls>;
let world: ExtWorld;
let calls: Calls;
beforeAll(async () => {
  world = await bootExt();
  calls = createCalls(world);
});

const { call, rest, receiveFiles }: Omit<Calls, "expectForwarded"> = {
  call: (...given) => calls.call(...given),
  rest: (path) => calls.rest(path),
  receiveFiles: (...given) => calls.receiveFiles(...given),
};

const errorOf = async (name: string, args: object): Promise<string> => {
  const { isError, structured } = await call(name, args);
  return isError ? `${structured.code}: ${structured.error}` : "no error";
};

describe("arguments", () => {
  test("unread and hasAttachments of list_threads take true alone; unread of update_thread both", async () => {
    const { threadId: id } = await world.receive(ALICE, "Unread");
    for (const name of ["unread", "hasAttachments"]) {
      expect(await errorOf("list_threads", { [name]: false })).toBe(
        `bad_request: ${name} takes true only: leave it out for all`,
      );
      expect((await call("list_threads", { [name]: true })).isError).toBe(false);
      expect((await world.api.get(`/threads?${name}=false`)).status).toBe(200);
    }
    for (const unread of [false, true]) {
      await call("update_thread", { id, unread });
      expect((await rest(`/threads/${id}`)).thread.unread).toBe(unread);
    }
  });

  const IDS: [id: string, what: string][] = [
    ["thr_0000000000", "the id of a conversation"],
    ["msg_0000000000", "the id of a message"],
    ["att_0000000000", "the id of an attachment"],
    ["mbx_0000000000", "the id of a mailbox"],
    ["evt_0000000000", "the id of an event"],
    ["usr_0000000000", "the id of a person"],
    ["dom_0000000000", "the id of a domain"],
    ["key_0000000000", "the id of an API key"],
    ["sup_0000000000", "the id of a suppression"],
    ["whk_0000000000", "the id of a webhook"],
    ["whd_0000000000", "the id of a webhook's delivery"],
    ["wsp_0000000000", "the id of a workspace"],
    ["<0@remote.example>", "a Message-ID"],
  ];
  const draft = { from: ALICE, to: [MAX], text: "x" };
  const TAKES: [tool: string, argument: string, takes: string, args: (id: string) => object][] = [
    ["get_thread", "id", "thr_", (id) => ({ id })],
    ["get_thread", "before", "msg_", (before) => ({ id: "thr_0", before })],
    ["update_thread", "id", "thr_", (id) => ({ id, starred: true })],
    ["update_thread", "ids", "thr_", (id) => ({ ids: ["thr_0", id], starred: true })],
    ["reply_to_thread", "id", "thr_", (id) => ({ id, text: "x" })],
    ["reply_to_thread", "forward", "msg_", (forward) => ({ id: "thr_0", forward })],
    ["draft_reply", "id", "thr_", (id) => ({ id, text: "x" })],
    ["draft_reply", "forward", "msg_", (forward) => ({ ...draft, forward })],
    ["list_messages", "threadId", "thr_", (threadId) => ({ threadId })],
    ["list_messages", "messageId", "<", (messageId) => ({ messageId })],
    ["get_message", "id", "msg_", (id) => ({ id })],
    ["get_raw_message", "id", "msg_", (id) => ({ id })],
    ["get_attachment", "id", "att_", (id) => ({ id })],
    ["list_threads", "mailbox", "mbx_", (mailbox) => ({ mailbox })],
    ["search_mail", "mailbox", "mbx_", (mailbox) => ({ q: "x", mailbox })],
    ["send_email", "forward", "msg_", (forward) => ({ ...draft, forward })],
    ["send_email", "emailId", "msg_", (emailId) => ({ ...draft, attachments: [{ emailId }] })],
    ["send_email", "attachmentId", "att_", (attachmentId) => ({ ...draft, attachments: [{ attachmentId }] })],
  ];
  test.each(TAKES)("%s says of which kind another id is, as %s", async (tool, argument, takes, args) => {
    const as = argument === "id" ? "" : ` as ${argument}`;
    const [, wanted] = IDS.find(([id]) => id.startsWith(takes)) ?? [];
    for (const [id, what] of IDS) {
      const error = await errorOf(tool, args(id));
      if (id.startsWith(takes)) expect(error).not.toContain("That is");
      else expect(error).toBe(`bad_request: That is ${what}: give ${wanted}${as}, ${takes}…`);
    }
  });

  test("an address that begins as an id is one, and ids of no kind are not found", async () => {
    expect(await errorOf("list_threads", { mailbox: "key_account@example.test" })).toStartWith("not_found");
    expect(await errorOf("get_thread", { id: "tri_0000000000" })).toStartWith("not_found");
  });

  test("an empty text is as if left out, in attachments too", async () => {
    const { threadId } = await world.receive(ALICE, "Empty");
    const empty = { mailbox: "", folder: "", label: "", q: "", sort: "", cursor: "" };
    expect((await call("list_threads", empty)).structured.threads).toEqual(
      (await call("list_threads")).structured.threads,
    );
    const asked = { mailbox: "", folder: "", direction: "", messageId: "", threadId: "", from: "", after: "" };
    expect((await call("list_messages", asked)).structured.count).toBeGreaterThan(0);
    const { messages } = await rest(`/threads/${threadId}`);
    const attachment = { attachmentId: "", emailId: messages[0].id, filename: "", text: "", contentType: null };
    const none = { id: "", cc: "", bcc: "", html: "", subject: "", from: "", replyTo: "", forward: "" };
    const { structured } = await call("draft_reply", {
      ...{ ...none, to: [MAX], text: "See", idempotencyKey: "" },
      attachments: [attachment, { filename: "empty.txt", text: "", emailId: "" }],
    });
    const saved = (await rest(`/threads/${structured.draftId}`)).messages[0];
    expect(saved.attachments.map(({ filename, size }: Structured) => [filename, size > 0])).toEqual([
      [expect.stringContaining(".eml"), true],
      ["empty.txt", false],
    ]);
    expect(await errorOf("update_thread", { id: "", ids: "", starred: true })).toBe("bad_request: Give id or ids");
  });
});

describe("update_thread with ids", () => {
  test("changes each, and says once for each reason which it refused", async () => {
    const ids: string[] = [];
    for (const subject of ["One", "Two"]) ids.push((await world.receive(ALICE, `Several ${subject}`)).threadId);
    const { draftId } = (await call("draft_reply", { id: ids[0], text: "Soon" })).structured;
    const all = [...ids, draftId, "thr_0000000001", "thr_0000000002"];
    const { text, structured } = await call("update_thread", { ids: all, folder: "archive", addLabels: ["News"] });
    expect(structured).toEqual({
      changed: 2,
      refused: [
        { reason: "conflict: A draft can only be moved to trash", ids: [draftId] },
        { reason: expect.stringMatching(/^not_found: There is no such thread/), ids: all.slice(3) },
      ],
    });
    expect(text).toBe(
      [
        "Changed 2 conversations; refused:",
        ...structured.refused.map(({ reason, ids }: Structured) => `${reason}: ${ids.join(", ")}`),
      ].join("\n"),
    );
    for (const id of ids) {
      expect((await rest(`/threads/${id}`)).thread).toMatchObject({ folder: "archive", labels: ["News"] });
    }
    expect((await call("update_thread", { ids, starred: true })).text).toBe("Changed 2 conversations.");
  });

  test("takes 1 to 100, each once, and something to change", async () => {
    const many = Array.from({ length: 101 }, (_, n) => `thr_${n}`);
    const refused = await call("update_thread", { ids: many.slice(1), starred: true });
    expect(refused.structured).toMatchObject({ changed: 0, refused: [{ ids: many.slice(1) }] });
    expect(countTokens(refused.text)).toBeLessThan(600);
    for (const ids of [many, [], ["thr_1", "thr_1"]]) {
      expect(await errorOf("update_thread", { ids, starred: true })).toStartWith("bad_request: ids ");
    }
    expect(await errorOf("update_thread", { ids: ["thr_1"] })).toContain("at least one of");
    expect(await errorOf("update_thread", { ids: ["thr_1"], id: "thr_1", starred: true })).toContain("ids does not go");
  });
});

describe("draft_reply", () => {
  const inDrafts = async (id: string): Promise<Structured> => {
    const { thread, messages } = await rest(`/threads/${id}`);
    expect(thread.folder).toBe("drafts");
    return messages[0];
  };

  test("without id and with to drafts a new message, once for one idempotencyKey", async () => {
    const { emailId } = await world.receive(ALICE, "To pass on");
    const args = { to: [`Max <${MAX}>`], subject: "Fresh", text: "New.", forward: emailId, idempotencyKey: "fresh" };
    const { text, structured } = await call("draft_reply", args);
    expect(structured).toEqual({ text, draftId: expect.stringMatching(/^thr_/), from: ALICE });
    const { outside, inside } = openFences(text);
    expect(outside).toBe(
      `Draft ${structured.draftId} saved from ${ALICE}, a new message. Nothing is sent: a person reviews and sends it in the app.`,
    );
    expect(inside).toBe(`To: "Max" <${MAX}>\nSubject: Fresh`);
    const draft = await inDrafts(structured.draftId);
    expect(draft).toMatchObject({ subject: "Fresh", to: [{ email: MAX, name: "Max" }] });
    expect(draft.text).toMatch(/^New\.(?:.|\n)*Hello/);
    const again = await call("draft_reply", args);
    expect(again.structured).toMatchObject({ draftId: structured.draftId, replayed: true });
  });

  test("with both, replies to whom it is told", async () => {
    const { threadId: id } = await world.receive(ALICE, "Both");
    const { structured, text } = await call("draft_reply", { id, to: [MAX], text: "See" });
    expect(structured).toEqual({ text, draftId: expect.any(String), replyToThreadId: id, from: ALICE });
    expect(openFences(text).inside).toBe(`To: ${MAX}\nSubject: Re: Both`);
    expect(await inDrafts(structured.draftId)).toMatchObject({ to: [{ email: MAX }] });
  });

  test("refuses what makes no sense", async () => {
    expect(await errorOf("draft_reply", { text: "x" })).toBe("bad_request: Give id or to");
    expect(await errorOf("draft_reply", { to: [MAX], text: "x", quote: true })).toBe("bad_request: quote needs id");
    expect(await errorOf("draft_reply", { id: "thr_1", text: "x", idempotencyKey: "k" })).toContain(
      "does not go with id",
    );
    expect(await errorOf("draft_reply", { to: [MAX], sendAt: "2030-01-01T00:00:00Z" })).toContain(
      "sendAt is no argument",
    );
    expect(await errorOf("draft_reply", { id: "thr_1" })).toContain("text or html is required");
  });
});

describe("forward", () => {
  test("shows a message below a reply or its draft, with its attachments; REST ignores it there", async () => {
    const { threadId: id } = await world.receive(ALICE, "Where is it?", { messageId: "<where@remote.example>" });
    const { id: forward } = await receiveFiles("The plan", [["plan.pdf", Buffer.from("%PDF-1.7 plan")]]);
    const sent = await call("reply_to_thread", { id, to: [MAX], text: "Here:", forward });
    const { message } = await rest(`/messages/${sent.structured.emailId}`);
    expect(message).toMatchObject({ subject: "Re: Where is it?", threadId: id, inReplyTo: "<where@remote.example>" });
    expect(message.text).toMatch(/^Here:(?:.|\n)*Subject: The plan(?:.|\n)*Attached\./);
    expect(message.attachments).toMatchObject([{ filename: "plan.pdf" }]);
    const { structured } = await call("draft_reply", { id, forward, forwardAttachments: false });
    const [draft] = (await rest(`/threads/${structured.draftId}`)).messages;
    expect([draft.text.includes("The plan"), draft.attachments]).toEqual([true, []]);
    expect(await errorOf("reply_to_thread", { id, text: "x", forward, quote: true })).toContain(
      "quote does not go with",
    );
    expect(await errorOf("reply_to_thread", { id, text: "x", forward: "msg_0000000000" })).toStartWith("unprocessable");
    expect(await errorOf("reply_to_thread", { id: "thr_0000000000", forward: "msg_0" })).toStartWith("not_found");
    const plain = await world.api.post<Structured>(`/threads/${id}/reply`, { to: MAX, text: "Only this", forward });
    expect((await rest(`/messages/${plain.body.emailId}`)).message).toMatchObject({
      text: "Only this",
      attachments: [],
    });
    expect((await world.api.post(`/threads/${id}/reply`, { to: MAX, forward })).status).toBe(400);
  });

  test("needs the scope read, as handles do", async () => {
    const { threadId: id, emailId } = await world.receive(ALICE, "Scoped");
    const { core } = world.opened;
    const { store } = core;
    const { userId } = world.owner;
    const { key } = store.transact((tx) => developers.createKey(core, tx, { userId, name: "S", scopes: ["send"] }));
    for (const more of [{ forward: emailId }, { attachments: [{ emailId }] }]) {
      const { structured } = await call("reply_to_thread", { id, to: [MAX], text: "x", ...more }, key);
      expect(structured).toMatchObject({ code: "missing_scope" });
    }
  });

  test("is part of what an idempotencyKey covers", async () => {
    const { threadId: id, emailId: forward } = await world.receive(ALICE, "Covered");
    const args = { id, to: [MAX], text: "Once", idempotencyKey: "covered" };
    const first = await call("reply_to_thread", { ...args, forward });
    const again = await call("reply_to_thread", { ...args, forward });
    expect(again.structured).toEqual({ ...first.structured, replayed: true });
    expect(await errorOf("reply_to_thread", args)).toStartWith("idempotency_key_reused");
  });
});

test("send, reply and draft take replyTo and headers", async () => {
  const { threadId: id } = await world.receive(ALICE, "Fields");
  const more = { text: "x", to: [MAX], replyTo: ["desk@example.test"], headers: { "X-Ticket": "17" } };
  for (const [tool, args] of [
    ["send_email", { from: ALICE, ...more }],
    ["reply_to_thread", { id, ...more }],
    ["draft_reply", { id, ...more }],
    ["draft_reply", more],
  ] as const) {
    const { structured } = await call(tool, args);
    const emailId = structured.emailId ?? (await rest(`/threads/${structured.draftId}`)).messages[0].id;
    const { text } = await call("get_raw_message", { id: emailId });
    expect([tool, text]).toEqual([tool, expect.stringMatching(/^Reply-To: desk@example\.test$/m)]);
    expect([tool, text]).toEqual([tool, expect.stringMatching(/^X-Ticket: 17$/m)]);
  }
});

describe("sendAt", () => {
  test("schedules, which the result says, and trash cancels", async () => {
    const sendAt = new Date(world.runtime.now() + HOUR).toISOString();
    const { threadId: id } = await world.receive(ALICE, "Later");
    for (const [tool, args] of [
      ["send_email", { from: ALICE, to: [MAX], text: "Later" }],
      ["reply_to_thread", { id, to: [MAX], text: "Later" }],
    ] as const) {
      const { text, structured } = await call(tool, { ...args, sendAt });
      const { draftId } = structured;
      expect(structured).toMatchObject({ emailId: null, scheduled: true, sendAt, from: ALICE });
      expect(text).toBe(
        `Scheduled: it is sent from ${ALICE} at ${sendAt}. Until then it is draft ${draftId}: update_thread with that id and folder trash cancels it.`,
      );
      expect((await call("update_thread", { id: draftId, folder: "trash" })).isError).toBe(false);
    }
    const before = (await rest("/messages?direction=outbound&limit=100")).count;
    await world.advance(2 * HOUR);
    expect((await rest("/messages?direction=outbound&limit=100")).count).toBe(before);
    expect(await errorOf("send_email", { from: ALICE, to: [MAX], text: "x", sendAt: "tomorrow" })).toContain(
      "sendAt must",
    );
  });
});

describe("get_message", () => {
  test("has folder, mailbox, Reply-To and what List-Unsubscribe says, which is a person's to press", async () => {
    const { emailId: id, threadId } = await world.receive(ALICE, "Newsletter", {
      messageId: "<news@remote.example>",
      headers: [
        "Reply-To: Editors <editors@remote.example>",
        "List-Unsubscribe: <mailto:leave@remote.example>, <https://remote.example/leave?u=1>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
      ],
    });
    const { text, structured } = await call("get_message", { id });
    const { outside, inside } = openFences(text);
    expect(inside.split("\n").slice(0, 6)).toEqual([
      `From: "Carol" <${CAROL}>`,
      'Reply-To: "Editors" <editors@remote.example>',
      `To: ${ALICE}`,
      "Subject: Newsletter",
      "Message-ID: <news@remote.example>",
      "List-Unsubscribe: mailto:leave@remote.example, https://remote.example/leave?u=1",
    ]);
    expect(outside).toContain(`| ${ALICE} | inbox |`);
    expect(outside).toContain("Unsubscribing is for a person to press");
    expect(structured.message).toMatchObject({ id, threadId, mailbox: ALICE, folder: "inbox" });
    const plain = await call("get_message", { id: (await world.receive(ALICE, "Plain")).emailId });
    expect(plain.text).not.toContain("nsubscrib");
    const tools = await fetch(`${world.http}/api/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${world.owner.apiKey}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    });
    expect(await tools.text()).not.toContain("nsubscribe");
  });

  test("of sent mail has its delivery, by recipient where they differ, and Bcc for the sender alone", async () => {
    const sent = await call("send_email", {
      ...{ from: ALICE, to: [MAX, "x@gone.example"], bcc: ["hidden@gone.example"], subject: "Out", text: "x" },
    });
    const { emailId: id } = sent.structured;
    await world.server.settled();
    const own = await call("get_message", { id });
    const { delivery } = own.structured.message;
    expect(own.structured.message).toMatchObject({ folder: "sent", mailbox: ALICE });
    expect(openFences(own.text).outside).toContain(`| delivery ${delivery}`);
    expect(openFences(own.text).inside).toMatch(
      new RegExp(`^Delivery: ${MAX} delivered, x@gone.example \\w+, hidden@gone.example \\w+$`, "m"),
    );
    const { core } = world.opened;
    const { store } = core;
    const maxKey = store.transact((tx) =>
      developers.createKey(core, tx, { userId: world.maxId, name: "M", scopes: ["read"] }),
    );
    const his = await call("get_message", { id }, maxKey.key);
    expect(his.text).toMatch(new RegExp(`^Delivery: ${MAX} delivered, x@gone.example \\w+$`, "m"));
    expect(his.wire).not.toContain("hidden@");
    const local = await call("send_email", { from: ALICE, to: [MAX], text: "x" });
    await world.server.settled();
    const { text } = await call("get_message", { id: local.structured.emailId });
    expect(openFences(text).outside).toContain("| delivery delivered | delivered ");
    expect(text).not.toContain("Delivery:");
  });
});

describe("results", () => {
  const NAMES = [
    "Annual report 2025 of the northern branch, final version.pdf",
    "Annual report 2025 of the southern branch, final version.pdf",
    "Minutes of the meeting in March, with corrections.pdf",
    "Budget for next year, draft of the finance department.pdf",
  ];

  test("a small get_thread and get_message name the attachments", async () => {
    const { id, threadId } = await receiveFiles(
      "Files for the meeting",
      NAMES.map((name) => [name, Buffer.from("%PDF-1.7")]),
    );
    for (const [tool, args] of [
      ["get_thread", { id: threadId }],
      ["get_message", { id }],
    ] as const) {
      const { text, structured } = await call(tool, { ...args, maxChars: 4_000 });
      const named = [...text.matchAll(/^Attachment: (att_\w+) "(.*?)"/gm)];
      expect([tool, named.map(([, , name]) => name)]).toEqual([tool, NAMES]);
      const { attachments } = structured.message ?? structured.messages[0];
      expect(attachments).toEqual(named.map(([, id]) => ({ id, size: 8 })));
      expect(JSON.stringify(structured).length).toBeLessThanOrEqual(4_000);
    }
  });

  test("structured content has mail in its text alone, inside the same fences", async () => {
    const MARK = "obeyme";
    const sender = mailer(world.mx);
    const from = `"${MARK}" <${MARK}@remote.example>`;
    const headers = [`Reply-To: ${MARK} <${MARK}@remote.example>`, `List-Unsubscribe: <https://${MARK}.example/>`];
    const mail = { from, to: ALICE, subject: MARK, text: `${MARK} "quoted"`, headers };
    await sender.send({ from: CAROL, to: ALICE }, letter({ ...mail, messageId: `<${MARK}@remote.example>` }));
    sender.close();
    const [{ id, threadId }] = (await rest(`/messages?from=${MARK}@remote.example`)).messages;
    const named = await receiveFiles(MARK, [[`${MARK}.pdf`, Buffer.from(`%PDF-1.7 ${MARK}`)]]);
    const [{ id: file }] = (await rest(`/messages/${named.id}`)).message.attachments;
    const wordless = new Set(["list_mailboxes", "reply_to_thread", "send_email"]);
    const seen = new Set<string>();
    for (const [tool, args] of [
      ["list_mailboxes", {}],
      ["list_threads", {}],
      ["search_mail", { q: MARK }],
      ["list_messages", { threadId }],
      ["get_thread", { id: threadId }],
      ["get_message", { id }],
      ["get_message", { id, list: "recipients" }],
      ["get_message", { id: named.id, list: "attachments" }],
      ["get_raw_message", { id }],
      ["get_attachment", { id: file }],
      ["update_thread", { id: threadId, starred: true }],
      ["draft_reply", { id: threadId, text: "x" }],
      ["reply_to_thread", { id: threadId, text: "x", replyAll: true }],
      ["send_email", { from: ALICE, to: [MAX], forward: id }],
    ] as const) {
      seen.add(tool);
      const { text, structured } = await call(tool, args);
      const { text: again = text, ...given } = structured;
      expect([tool, JSON.stringify(given).includes(MARK)]).toEqual([tool, false]);
      expect([tool, text.startsWith(again)]).toEqual([tool, true]);
      expect([tool, openFences(again).outside.includes(MARK)]).toEqual([tool, false]);
      if (!("list" in args && args.list === "recipients") && !wordless.has(tool))
        expect([tool, again.includes(MARK)]).toEqual([tool, true]);
    }
    // So it is for every tool.
    const reader = await connectMcp(world.http, world.owner.apiKey);
    const { tools } = await reader.client.listTools();
    await reader.close();
    expect([...seen].sort()).toEqual(tools.map(({ name }) => name).sort());
    expect(bodyIn((await call("get_message", { id })).structured.text)).toBe(`${MARK} "quoted"`);
  });

  test("a PDF is forwarded by its handle for less than 300 tokens in all", () => calls.expectForwarded(180_000));
});
