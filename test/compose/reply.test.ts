/** POST /threads/{id}/reply and draft over a mailbox (rules: Reply request, Draft response, Reply). */
import { describe, expect, test } from "bun:test";
import type { Caller } from "../../src/access/caller.ts";
import type { ReplyArguments } from "../../src/compose/requests.ts";
import { createReplyDraft, sendReply } from "../../src/compose/send.ts";
import { getThread, updateThread } from "../../src/mailbox/changing/threads.ts";
import { getMessage, getRawMessage } from "../../src/mailbox/reading/messages.ts";
import { messages } from "../../src/store/schema.ts";
import type { Letter } from "../harness/mail/mail.ts";
import { createOffice, refusal } from "../harness/servers/outgoing.ts";

const ALICE = "alice@example.test";

async function conversation(mail: Letter = {}, receivedOn = ALICE) {
  const office = await createOffice();
  const first = await office.world.file(
    office.boxes.alice,
    { messageId: "<1@remote.example>", subject: "Plans", text: "Lunch?", ...mail },
    { receivedOn },
  );
  const answer = (request: ReplyArguments, caller: Caller = office.alice) =>
    sendReply(office.core, caller, first.threadId, { text: "Yes.", ...request });
  const draft = (request: ReplyArguments, caller: Caller = office.alice) =>
    createReplyDraft(office.core, caller, first.threadId, { text: "Yes.", ...request });
  /** The newest queued message, as it is transmitted. */
  const transmitted = async () => {
    const message = (await office.queued()).at(-1);
    const bytes = (message?.bytes ?? "").replace(/\r\n[ \t]+/g, " ");
    const header = (name: string) => new RegExp(`^${name}: (.*)\r$`, "im").exec(bytes)?.[1];
    return { bytes, header, to: message?.entries.map(({ recipient, field }) => `${field} ${recipient}`), message };
  };
  return { ...office, first, reply: answer, draft, transmitted };
}

describe("a reply", () => {
  test("goes to the sender, from the address where the mail arrived, in the conversation, with references", async () => {
    const it = await conversation({}, "sales@example.test");
    const view = await it.reply({});
    expect(view).toMatchObject({ ok: true, from: "sales@example.test", threadId: it.first.threadId });
    const { header, to } = await it.transmitted();
    expect(to).toEqual(["to carol@remote.example"]);
    expect(["from", "to", "subject", "in-reply-to", "references"].map(header)).toEqual([
      "Alice Example <sales@example.test>",
      "Carol <carol@remote.example>",
      "Re: Plans",
      "<1@remote.example>",
      "<1@remote.example>",
    ]);
    const { thread, messages: shown } = getThread(it.core, it.alice, it.first.threadId, { html: true });
    expect(thread).toMatchObject({ messageCount: 2, folder: "inbox", unread: true });
    expect(shown.map(({ direction }) => direction)).toEqual(["inbound", "outbound"]);
    expect(it.events().map(({ event }) => event)).toEqual(["message.inbound", "message.outbound"]);
  });

  test("stays in its conversation without references: no Message-ID, another subject", async () => {
    const office = await createOffice();
    const mail = "From: carol@remote.example\nTo: alice@example.test\nSubject: Plans\n\nLunch?\n";
    const { threadId } = await office.world.file(office.boxes.alice, mail);
    const view = await sendReply(office.core, office.alice, threadId, { text: "Yes.", subject: "Dinner" });
    expect(view.threadId).toBe(threadId);
  });

  test("with replyAll also goes to the other recipients", async () => {
    const it = await conversation({
      to: `${ALICE}, dave@remote.example`,
      cc: "erin@remote.example, sales@example.test",
    });
    await it.reply({ replyAll: true, cc: "frank@remote.example, ERIN@remote.example", bcc: "gwen@remote.example" });
    const { to, header } = await it.transmitted();
    expect(to).toEqual([
      "to carol@remote.example",
      "cc dave@remote.example",
      "cc erin@remote.example",
      "cc frank@remote.example",
      "bcc gwen@remote.example",
    ]);
    expect(header("cc")).toBe("dave@remote.example, erin@remote.example, frank@remote.example");
    expect(header("bcc")).toBeUndefined();
  });

  test("goes to `to` instead of the default recipients", async () => {
    const it = await conversation({ cc: "erin@remote.example" });
    await it.reply({ to: ["Dave <dave@remote.example>"], replyAll: true, cc: "frank@remote.example" });
    expect((await it.transmitted()).to).toEqual(["to dave@remote.example", "cc frank@remote.example"]);
  });

  test("goes to the default recipients if `to` names nobody", async () => {
    const it = await conversation();
    await it.reply({ to: [] });
    expect((await it.transmitted()).to).toEqual(["to carol@remote.example"]);
  });

  test("takes the given subject", async () => {
    const it = await conversation();
    await it.reply({ subject: "Dinner" });
    expect((await it.transmitted()).header("subject")).toBe("Dinner");
    await it.reply({ subject: "" });
    expect((await it.transmitted()).bytes).not.toMatch(/^subject:/im);
  });

  test("answers the newest received message, in spite of later sent mail and notices", async () => {
    const it = await conversation();
    await it.reply({ subject: "ours" });
    const dave = {
      from: "Dave <dave@remote.example>",
      headers: ["References: <1@remote.example>"],
      subject: "Re: Plans",
    };
    await it.world.file(it.boxes.alice, {
      ...dave,
      date: "Mon, 05 Jan 2026 08:30:00 +0000",
      messageId: "<2@remote.example>",
    });
    const notice = {
      from: "MAILER-DAEMON@example.test",
      messageId: "<n@example.test>",
      date: "Mon, 05 Jan 2026 08:45:00 +0000",
    };
    await it.world.file(it.boxes.alice, notice, { kind: "notice", threadId: it.first.threadId });
    await it.reply({});
    const { header, to } = await it.transmitted();
    expect(to).toEqual(["to dave@remote.example"]);
    expect(header("in-reply-to")).toBe("<2@remote.example>");
    expect(header("references")).toBe("<1@remote.example> <2@remote.example>");
  });

  test("answers the newest message by date, in any order of arrival", async () => {
    const it = await conversation();
    const late = {
      from: "dave@remote.example",
      headers: ["References: <1@remote.example>"],
      date: "Mon, 05 Jan 2026 07:00:00 +0000",
    };
    expect((await it.world.file(it.boxes.alice, late)).threadId).toBe(it.first.threadId);
    await it.reply({});
    expect((await it.transmitted()).to).toEqual(["to carol@remote.example"]);
  });

  test("with replyAll goes to the others if the sender gave no address", async () => {
    const it = await conversation({ from: "(no address)", cc: "erin@remote.example" });
    await it.reply({ replyAll: true });
    expect((await it.transmitted()).to).toEqual(["cc erin@remote.example"]);
  });

  test("in a conversation of sent mail only goes to its recipients, from its sender", async () => {
    const office = await createOffice();
    const { threadId } = await office.world.file(
      office.boxes.alice,
      { from: "sales@example.test", to: "dave@remote.example", messageId: "<s@example.test>" },
      { kind: "sent", sentBy: office.alice.userId, receivedOn: "sales@example.test" },
    );
    const view = await sendReply(office.core, office.alice, threadId, { text: "And?" });
    expect(view).toMatchObject({ from: "sales@example.test", threadId });
    expect((await office.queued())[0]?.entries.map(({ recipient }) => recipient)).toEqual(["dave@remote.example"]);
  });
});

describe("the sender of a reply", () => {
  test("is the mailbox's address if the mail arrived at an alias that no longer exists", async () => {
    const it = await conversation({}, "old@example.test");
    expect((await it.reply({})).from).toBe(ALICE);
  });

  test("may be an alias, in any case", async () => {
    const it = await conversation();
    expect((await it.reply({ from: "Sales@EXAMPLE.test" })).from).toBe("sales@example.test");
  });

  test("is, for mail to a catch-all, the address where it arrived, and in no other conversation", async () => {
    const it = await conversation({}, "shop@example.test");
    it.world.alias(it.boxes.alice, "*@example.test");
    expect((await it.reply({})).from).toBe("shop@example.test");
    expect((await it.reply({ from: "shop@example.test" })).from).toBe("shop@example.test");
    for (const from of ["other@example.test", "*@example.test"]) {
      expect((await refusal(it.reply({ from }))).code).toBe("unprocessable");
    }
  });

  for (const from of ["bob@example.test", "team@example.test", "eve@evil.example", "alice", "*@example.test"]) {
    test(`is refused if it is ${from}, with the possible addresses`, async () => {
      const it = await conversation();
      const before = it.stored();
      const { code, message } = await refusal(it.reply({ from }));
      expect([code, message]).toEqual([
        "unprocessable",
        expect.stringContaining("alice@example.test, sales@example.test"),
      ]);
      expect(it.stored()).toEqual(before);
    });
  }
});

test("a refusal of any `from` is short and without control characters", async () => {
  const it = await conversation();
  const { message } = await refusal(it.reply({ from: `x\r\n${"x".repeat(1_000_000)}@example.test` }));
  expect(message).toMatch(/^[^\p{C}]{1,220}$/u);
});

describe("a quote", () => {
  const mail = {
    headers: ["MIME-Version: 1.0"],
    text: "Lunch?\nOr dinner?",
    date: "Mon, 05 Jan 2026 08:00:00 +0000",
  };
  const newest = (it: Awaited<ReturnType<typeof conversation>>, emailId: string | null) =>
    getMessage(it.core, it.alice, emailId ?? "", { html: true });

  test("is appended to the text, without adding HTML", async () => {
    const it = await conversation(mail);
    const message = newest(it, (await it.reply({ quote: true })).emailId);
    expect(message.text).toMatch(
      /^Yes\.\n\nOn .*2026.*Carol <carol@remote\.example> wrote:\n> Lunch\?\n> Or dinner\?$/,
    );
    expect(message).not.toHaveProperty("html");
  });

  test("is appended to HTML and to its text", async () => {
    const it = await conversation(mail);
    const message = newest(it, (await it.reply({ quote: true, text: undefined, html: "<b>Yes.</b>" })).emailId);
    expect(message.html).toMatch(/^<b>Yes\.<\/b>[\s\S]*wrote:[\s\S]*<blockquote[\s\S]*Lunch\?/);
    expect(message.text).toMatch(/^Yes\.\n\nOn .*wrote:\n> Lunch\?/);
  });

  test("is absent unless requested", async () => {
    const it = await conversation(mail);
    expect(newest(it, (await it.reply({})).emailId).text).toBe("Yes.");
  });
});

describe("a reply is refused", () => {
  for (const [what, request, code] of [
    ["for a body over 1 MiB", { text: "x".repeat(1_048_577) }, "payload_too_large"],
    [
      "for text and HTML over 1 MiB together, in UTF-8",
      { text: "ü".repeat(262_145), html: "ü".repeat(262_144) },
      "payload_too_large",
    ],
    ["for a recipient that is not an address", { cc: "nobody" }, "unprocessable"],
  ] as const) {
    test(what, async () => {
      const it = await conversation();
      const before = it.stored();
      expect((await refusal(it.reply(request))).code).toBe(code);
      expect((await refusal(it.draft(request))).code).toBe(code);
      expect(it.stored()).toEqual(before);
    });
  }

  test("if Reply-To names a host by its IP address", async () => {
    const it = await conversation({ headers: ["Reply-To: carol@[192.0.2.1]"] });
    expect(await refusal(it.reply({}))).toMatchObject({
      code: "unprocessable",
      message: expect.stringContaining("carol@[192.0.2.1]"),
    });
  });

  test("only above 1 MiB: a body of exactly 1 MiB is accepted", async () => {
    const it = await conversation();
    await it.reply({ text: "x".repeat(524_288), html: "y".repeat(524_288) });
  });

  test("as not found for a conversation out of reach, as forbidden for one that may only be viewed", async () => {
    const it = await conversation();
    const shared = await it.world.file(it.boxes.team, { subject: "Team" }, { receivedOn: "team@example.test" });
    for (const act of [sendReply, createReplyDraft]) {
      const code = async (caller: Caller, id: string) => (await refusal(act(it.core, caller, id, { text: "x" }))).code;
      expect(await code(it.bob, it.first.threadId)).toBe("not_found");
      expect(await code(it.bob, "thr_none")).toBe("not_found");
      expect(await code(it.bob, shared.threadId)).toBe("forbidden");
    }
    expect((await sendReply(it.core, it.carl, shared.threadId, { text: "x" })).from).toBe("team@example.test");
  });

  test("for its size first, then for its reach, then for its fields", async () => {
    const it = await conversation();
    const wrong = { from: "eve@evil.example", cc: "nobody" };
    const code = async (id: string, request: ReplyArguments) =>
      (await refusal(sendReply(it.core, it.bob, id, request))).code;
    expect(await code(it.first.threadId, { ...wrong, text: "x".repeat(1_048_577) })).toBe("payload_too_large");
    expect(await code(it.first.threadId, { ...wrong, text: "x" })).toBe("not_found");
  });

  test("if there is nobody to reply to: an anonymous sender, Bcc recipients only", async () => {
    const anonymous = await conversation({ from: "(no address)" });
    const office = await createOffice();
    const { threadId } = await office.world.file(
      office.boxes.alice,
      { from: ALICE, to: "undisclosed-recipients:;" },
      { kind: "sent", bcc: [{ email: "secret@remote.example" }] },
    );
    for (const request of [
      anonymous.reply({ bcc: "dave@remote.example" }),
      sendReply(office.core, office.alice, threadId, { text: "x", replyAll: true }),
    ]) {
      const { code, message } = await refusal(request);
      expect([code, message]).toEqual(["unprocessable", expect.stringMatching(/no address to reply to/)]);
      expect(message).not.toContain("secret");
    }
    await anonymous.reply({ to: "dave@remote.example" });
  });

  test("if there is no message to reply to: a draft, a notice", async () => {
    const it = await conversation();
    const { draftId } = await it.draft({});
    const notice = await it.world.file(it.boxes.alice, { from: "MAILER-DAEMON@example.test" }, { kind: "notice" });
    for (const id of [draftId, notice.threadId]) {
      for (const act of [sendReply, createReplyDraft]) {
        expect((await refusal(act(it.core, it.alice, id, { text: "x" }))).message).toMatch(/no message to reply to/);
      }
    }
  });
});

describe("a draft", () => {
  test("is a conversation of its own, complete for sending; nothing is sent or announced", async () => {
    const it = await conversation({ cc: "erin@remote.example" });
    const before = it.stored();
    const view = await it.draft({
      replyAll: true,
      cc: '"Frank, F." <frank@remote.example>',
      bcc: "gwen@remote.example",
      quote: true,
    });
    expect(view).toEqual({
      ok: true,
      draftId: expect.stringMatching(/^thr_/),
      replyToThreadId: it.first.threadId,
      from: ALICE,
      to: '"Carol" <carol@remote.example>',
      cc: 'erin@remote.example, "Frank, F." <frank@remote.example>',
      subject: "Re: Plans",
    });
    expect(view.draftId).not.toBe(it.first.threadId);
    expect(it.stored()).toEqual({ ...before, messages: 2, threads: 2 });

    const { thread, messages: drafts } = getThread(it.core, it.alice, view.draftId, { html: true });
    expect(thread).toMatchObject({
      folder: "drafts",
      unread: false,
      messageCount: 1,
      from: { email: "carol@remote.example" },
    });
    expect(drafts).toMatchObject([
      {
        direction: "outbound",
        read: true,
        from: { email: ALICE, name: "Alice Example" },
        to: [{ email: "carol@remote.example", name: "Carol" }],
        bcc: [{ email: "gwen@remote.example" }],
        text: expect.stringMatching(/^Yes\.\n\nOn .*\n> Lunch\?$/),
      },
    ]);
    const raw = Buffer.from(await getRawMessage(it.core, it.alice, drafts[0]?.id ?? "")).toString();
    for (const header of [
      "In-Reply-To: <1@remote.example>",
      "References: <1@remote.example>",
      "Bcc: gwen@remote.example",
    ]) {
      expect(raw).toContain(`${header}\r\n`);
    }
  });

  test("shows its Bcc only to its author, not to the people it names", async () => {
    const it = await conversation();
    const { draftId } = await it.draft({ bcc: "bob@example.test" });
    it.grant(it.boxes.alice, it.bob, "send");
    const [draft] = getThread(it.core, it.bob, draftId, { html: true }).messages;
    expect(draft).not.toHaveProperty("bcc");
    const raw = Buffer.from(await getRawMessage(it.core, it.bob, draft?.id ?? "")).toString();
    expect(raw).not.toMatch(/bob@|bcc/i);
    expect(JSON.stringify(it.events())).not.toContain("bob@");
  });

  test("is not part of the conversation: no mail joins it, and no reply answers it", async () => {
    const it = await conversation();
    const { draftId } = await it.draft({});
    const answer = await it.world.file(it.boxes.alice, {
      subject: "Re: Plans",
      headers: ["In-Reply-To: <1@remote.example>"],
    });
    expect(answer.threadId).toBe(it.first.threadId);
    updateThread(it.core, it.alice, draftId, { folder: "trash" });
    const later = await it.world.file(it.boxes.alice, { subject: "Re: Plans", from: "Carol <carol@remote.example>" });
    expect(later.threadId).not.toBe(draftId);
    expect(getThread(it.core, it.alice, draftId, { html: true }).thread.folder).toBe("trash");
  });

  test("is accepted in spite of pauses, limits and suppression, but not by a full mailbox", async () => {
    const it = await conversation();
    it.pauseMailbox(it.boxes.alice, "m");
    it.pauseWorkspace("w");
    it.set("sending.mailboxPerHour", "0");
    it.suppress("carol@remote.example");
    expect((await it.draft({})).to).toBe('"Carol" <carol@remote.example>');
    it.quota(it.boxes.alice, 1);
    const before = it.stored();
    expect(await refusal(it.draft({}))).toMatchObject({
      code: "unprocessable",
      message: expect.stringMatching(/storage/),
    });
    expect(it.stored()).toEqual(before);
  });

  test("is refused if its mailbox is deleted meanwhile", async () => {
    const it = await conversation();
    const { prepare } = it.parser;
    it.parser.prepare = (work, source) => {
      it.store.db.$client.run("DELETE FROM mailboxes WHERE id = ?", [it.boxes.alice]);
      return prepare(work, source);
    };
    expect((await refusal(it.draft({}))).code).toBe("not_found");
  });

  test("may have no recipients, for a person to add", async () => {
    const it = await conversation({ from: "(no address)" });
    expect(await it.draft({})).toMatchObject({ to: "", cc: null });
    expect(it.store.db.select().from(messages).all().at(-1)).toMatchObject({ kind: "draft", to: [] });
  });
});
