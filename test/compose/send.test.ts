/**
 * POST /send: the message that its fields become, who sees Bcc, and fields that try to be others (rules: Send request,
 * Bcc).
 */
import { describe, expect, test } from "bun:test";
import { sendMessage } from "../../src/compose/send.ts";
import { getThread } from "../../src/mailbox/changing/threads.ts";
import { searchThreads } from "../../src/mailbox/reading/listing.ts";
import { getMessage, getRawMessage, listMessages } from "../../src/mailbox/reading/messages.ts";
import { dkimKeys } from "../../src/store/schema.ts";
import { verifyDkim } from "../harness/mail/dkim-verifier.ts";
import { START } from "../harness/runtime.ts";
import { createOffice, refusal } from "../harness/servers/outgoing.ts";

const ALICE = "alice@example.test";
const headerOf = (bytes: string): string[] => bytes.slice(0, bytes.indexOf("\r\n\r\n")).split(/\r\n(?![ \t])/);
const own = (bytes: string): string[] => headerOf(bytes).filter((line) => !line.startsWith("DKIM-Signature:"));
const unfolded = (bytes: string): string[] => own(bytes).map((line) => line.replace(/\r\n/g, ""));

describe("a sent message", () => {
  test("has names that sort after those of earlier messages, so that they are neighbours in the indexes", async () => {
    const office = await createOffice();
    for (let n = 0; n < 5; n++) {
      await sendMessage(office.core, office.alice, { from: ALICE, to: "dave@remote.example", text: `${n}` });
      office.runtime.advanceTo(office.runtime.now() + 1);
    }
    const sent = await office.queued();
    for (const name of ["messageId", "returnPath"] as const) {
      const names = sent.map((message) => message[name]);
      expect(names).toEqual(names.toSorted());
      expect(new Set(names).size).toBe(5);
    }
  });

  test("is the same in the queue, in the Sent copy, in the event and in the response", async () => {
    const office = await createOffice();
    const view = await sendMessage(office.core, office.alice, {
      from: "Alice@EXAMPLE.test",
      to: ["Dave <dave@remote.example>, erin@remote.example"],
      cc: "Frank <frank@remote.example>",
      subject: "Plans",
      text: "Lunch?",
    });
    const messageId = expect.stringMatching(/^<[A-Za-z0-9]{22}@example\.test>$/);
    expect(view).toEqual({
      ok: true,
      id: view.messageId,
      messageId,
      emailId: expect.stringMatching(/^msg_/),
      threadId: expect.stringMatching(/^thr_/),
      mailboxId: office.boxes.alice,
      from: ALICE,
    });

    const [message, ...more] = await office.queued();
    expect(more).toEqual([]);
    expect(message).toMatchObject({
      id: view.emailId,
      workspaceId: office.workspaceId,
      mailboxId: office.boxes.alice,
      mailbox: ALICE,
      threadId: view.threadId,
      messageId: view.messageId,
      subject: "Plans",
      domain: "example.test",
      returnPath: expect.stringMatching(/^bounce\+[0-9a-z]{26}\.@example\.test$/),
      acceptedAt: START,
      recipients: 3,
      outsideRecipients: 3,
    });
    expect(message?.entries.map(({ recipient, name, field, state }) => [recipient, name, field, state])).toEqual([
      ["dave@remote.example", "Dave", "to", "waiting"],
      ["erin@remote.example", null, "to", "waiting"],
      ["frank@remote.example", "Frank", "cc", "waiting"],
    ]);
    expect(unfolded(message?.bytes ?? "")).toEqual([
      "From: Alice Example <alice@example.test>",
      "To: Dave <dave@remote.example>, erin@remote.example",
      "Cc: Frank <frank@remote.example>",
      "Subject: Plans",
      "Date: Mon, 05 Jan 2026 09:00:00 +0000",
      `Message-ID: ${view.messageId}`,
      "MIME-Version: 1.0",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Transfer-Encoding: 7bit",
    ]);

    expect(office.as(office.alice).message(view.emailId ?? "")).toMatchObject({
      direction: "outbound",
      read: true,
      threadId: view.threadId,
      messageId: view.messageId,
      from: { email: ALICE, name: "Alice Example" },
      to: [{ email: "dave@remote.example", name: "Dave" }, { email: "erin@remote.example" }],
      cc: [{ email: "frank@remote.example", name: "Frank" }],
      subject: "Plans",
      text: "Lunch?",
      date: new Date(START).toISOString(),
    });
    expect(getThread(office.core, office.alice, view.threadId, { html: true }).thread).toMatchObject({
      folder: "sent",
      unread: false,
      receivedOn: ALICE,
    });
    expect(office.events()).toEqual([
      {
        event: "message.outbound",
        data: {
          emailId: view.emailId,
          threadId: view.threadId,
          messageId: view.messageId,
          mailbox: ALICE,
          from: { email: ALICE, name: "Alice Example" },
          to: [{ email: "dave@remote.example", name: "Dave" }, { email: "erin@remote.example" }],
          subject: "Plans",
        },
      },
    ]);
  });

  test("carries a valid signature of every key of its domain", async () => {
    const office = await createOffice();
    await sendMessage(office.core, office.alice, {
      from: ALICE,
      to: "dave@remote.example",
      subject: "S",
      text: "Grüße",
    });
    const [message] = await office.queued();
    const published = office.store.db.select().from(dkimKeys).all();
    const signatures = verifyDkim(Buffer.from(message?.bytes ?? "", "latin1"), (selector, domain) =>
      domain === "example.test" ? published.find((key) => key.selector === selector)?.publicKey : undefined,
    );
    expect(signatures.map(({ valid, tags }) => [valid, tags.a])).toEqual([
      [true, "rsa-sha256"],
      [true, "ed25519-sha256"],
    ]);
    expect(signatures[0]?.tags.t).toBe(String(START / 1_000));
  });

  test("is unsigned if its domain has no keys, with a warning in the log", async () => {
    const office = await createOffice();
    office.store.db.delete(dkimKeys).run();
    await sendMessage(office.core, office.alice, { from: ALICE, to: "dave@remote.example", text: "x" });
    expect((await office.queued())[0]?.bytes).toStartWith("From:");
    expect(office.lines.filter(({ level }) => level === "warn")).toMatchObject([{ domain: "example.test" }]);
  });

  for (const [what, content, expected] of [
    ["text alone is text/plain", { text: "Grüße\nund mehr" }, { text: "Grüße\nund mehr", types: ["text/plain"] }],
    [
      "HTML alone gets its text",
      { html: "<p>One <b>two</b></p>" },
      { text: "One two", html: "<p>One <b>two</b></p>", types: ["multipart/alternative", "text/plain", "text/html"] },
    ],
    [
      "both are kept as given",
      { text: "plain", html: "<i>rich</i>" },
      { text: "plain", html: "<i>rich</i>", types: ["multipart/alternative", "text/plain", "text/html"] },
    ],
    [
      "HTML is made safe before it leaves",
      { html: '<p onclick="x()">a<script>alert(1)</script><a href="javascript:x()">b</a></p>' },
      { text: "ab", html: "<p>a<a>b</a></p>", types: ["multipart/alternative", "text/plain", "text/html"] },
    ],
  ] as const) {
    test(what, async () => {
      const office = await createOffice();
      const { emailId } = await sendMessage(office.core, office.alice, {
        from: ALICE,
        to: "dave@remote.example",
        ...content,
      });
      const { types, ...bodies } = expected;
      const message = office.as(office.alice).message(emailId ?? "");
      expect({ text: message.text, ...(message.html === undefined ? {} : { html: message.html }) }).toEqual(bodies);
      const [queued] = await office.queued();
      expect([...(queued?.bytes ?? "").matchAll(/^content-type: ([^;\r]+)/gim)].map(([, type]) => type)).toEqual([
        ...types,
      ]);
      expect(queued?.bytes).not.toContain("javascript");
    });
  }

  test("that is too large for a row is transmitted whole from a file", async () => {
    const office = await createOffice();
    const text = `${"long line of text ".repeat(40)}\n`.repeat(700);
    await sendMessage(office.core, office.alice, { from: ALICE, to: "dave@remote.example", text });
    const [message] = await office.queued();
    const body = message?.bytes.slice(message.bytes.indexOf("\r\n\r\n")) ?? "";
    expect(body.length).toBeGreaterThan(256 * 1024);
    expect(message?.bytes).toContain("DKIM-Signature:");
  });

  test("is queued once for each address: the first of To, Cc and Bcc counts", async () => {
    const office = await createOffice();
    const { emailId } = await sendMessage(office.core, office.alice, {
      from: ALICE,
      to: "Dave@Remote.example, dave@remote.example",
      cc: "DAVE@remote.EXAMPLE, erin@bücher.example",
      bcc: "erin@xn--bcher-kva.example, frank@remote.example",
      text: "x",
    });
    const [message] = await office.queued();
    expect(message?.entries.map(({ recipient, field, domain }) => [recipient, field, domain])).toEqual([
      ["Dave@remote.example", "to", "remote.example"],
      ["erin@xn--bcher-kva.example", "cc", "xn--bcher-kva.example"],
      ["frank@remote.example", "bcc", "remote.example"],
    ]);
    expect(office.as(office.alice).message(emailId ?? "").bcc).toEqual([{ email: "frank@remote.example" }]);
  });
});

describe("Bcc", () => {
  const SECRET = "secret";

  async function withBcc() {
    const office = await createOffice();
    const view = await sendMessage(office.core, office.alice, {
      from: ALICE,
      to: "dave@remote.example",
      bcc: ["Bob <bob@example.test>", `${SECRET}@remote.example`],
      subject: "Plans",
      text: "Lunch?",
    });
    return { ...office, emailId: view.emailId ?? "", view };
  }

  test("is visible to the sender, complete, in every view", async () => {
    const { core, alice, emailId } = await withBcc();
    const bcc = [{ email: "bob@example.test", name: "Bob" }, { email: "secret@remote.example" }];
    expect(getMessage(core, alice, emailId, { html: true }).bcc).toEqual(bcc);
    expect(Buffer.from(await getRawMessage(core, alice, emailId)).toString()).toContain("secret@remote.example");
  });

  test("is visible to nobody else: other readers of the mailbox, a Bcc recipient who reads it, search, events, log", async () => {
    const it = await withBcc();
    const admin = it.world.user(it.workspaceId, "admin@example.test", "admin");
    it.grant(it.boxes.alice, it.bob, "view");
    for (const [caller, seen] of [
      [admin, undefined],
      [it.bob, [{ email: "bob@example.test", name: "Bob" }]],
    ] as const) {
      const message = getMessage(it.core, caller, it.emailId, { html: true });
      expect(message.bcc).toEqual(seen as typeof message.bcc);
      const thread = getThread(it.core, caller, it.view.threadId, { html: true });
      const raw = Buffer.from(await getRawMessage(it.core, caller, it.emailId)).toString();
      const summaries = listMessages(it.core, caller, { limit: 10 });
      expect(JSON.stringify([message, thread, raw, summaries])).not.toContain(SECRET);
    }
    for (const caller of [it.alice, admin]) {
      expect((await searchThreads(it.core, caller, { q: `to:${SECRET}`, limit: 10 })).threads).toEqual([]);
    }
    expect(JSON.stringify([it.view, it.events(), it.lines])).not.toContain(SECRET);
    expect(JSON.stringify(it.events())).not.toContain("bob@");
  });

  test("is in no transmitted byte", async () => {
    const { queued } = await withBcc();
    const [message] = await queued();
    expect(message?.entries.map(({ field }) => field)).toEqual(["to", "bcc", "bcc"]);
    // Without hashes and signatures, which may contain any letters.
    expect(message?.bytes.replaceAll(/\bbh?=[^;]*?(?=;|\r\n\S)/g, "")).not.toMatch(/secret|bcc|bob@/i);
  });

  test("may be the only field with recipients; the header then names nobody", async () => {
    const office = await createOffice();
    await sendMessage(office.core, office.alice, { from: ALICE, to: "", bcc: "bob@example.test", text: "x" });
    const [message] = await office.queued();
    expect(own(message?.bytes ?? "")[1]).toBe("To: undisclosed-recipients:;");
    expect(office.events()[0]?.data.to).toEqual([]);
  });
});

test("a `to` that names nobody is refused", async () => {
  const office = await createOffice();
  const request = { from: ALICE, to: "undisclosed-recipients:;", text: "x" };
  expect((await refusal(sendMessage(office.core, office.alice, request))).code).toBe("unprocessable");
  await sendMessage(office.core, office.alice, { ...request, bcc: "bob@example.test" });
});

describe("no field becomes another", () => {
  const EVIL = "x\r\nBcc: eve@evil.example\r\n\r\nX-Evil: 1\n.\r\n";

  test("subject, display name and text add no header field", async () => {
    const office = await createOffice();
    const subject = `S${EVIL}`;
    await sendMessage(office.core, office.alice, { from: ALICE, to: "dave@remote.example", subject, text: EVIL });
    const [message] = await office.queued();
    expect(own(message?.bytes ?? "").map((line) => line.split(":")[0])).toEqual([
      "From",
      "To",
      "Subject",
      "Date",
      "Message-ID",
      "MIME-Version",
      "Content-Type",
      "Content-Transfer-Encoding",
    ]);
    expect(message?.subject).toBe("Sx Bcc: eve@evil.example X-Evil: 1 .");
    expect(message?.entries.map(({ recipient }) => recipient)).toEqual(["dave@remote.example"]);
  });

  for (const field of ["to", "cc", "bcc"] as const) {
    const asked = (address: string) => ({ from: ALICE, to: "frank@remote.example", text: "x", [field]: address });

    for (const address of [`dave@remote.example${EVIL}`, `<dave${EVIL}@x.example>`]) {
      test(`${field}: an address with line breaks is refused`, async () => {
        const office = await createOffice();
        const before = office.stored();
        expect((await refusal(sendMessage(office.core, office.alice, asked(address)))).code).toBe("unprocessable");
        expect(office.stored()).toEqual(before);
      });
    }

    test(`${field}: a display name adds no recipient or field`, async () => {
      const office = await createOffice();
      await sendMessage(office.core, office.alice, asked(`"Dave${EVIL}" <dave@remote.example>`));
      const [message] = await office.queued();
      expect(headerOf(message?.bytes ?? "").filter((line) => /^(x-evil|bcc|$)/i.test(line))).toEqual([]);
      expect(message?.entries.map(({ recipient }) => recipient)).not.toContain("eve@evil.example");
      expect(message?.entries.at(-1)).toMatchObject({ recipient: "dave@remote.example", field });
    });
  }

  test("from: anything but an address is refused", async () => {
    const office = await createOffice();
    const request = { from: `${ALICE}${EVIL}`, to: "dave@remote.example", text: "x" };
    expect((await refusal(sendMessage(office.core, office.alice, request))).code).toBe("unprocessable");
  });

  test("the name of the mailbox adds no sender or field", async () => {
    const office = await createOffice();
    office.store.db.$client.run("UPDATE mailboxes SET name = ?", [`"Eve" <eve@evil.example>, ${EVIL}`]);
    await sendMessage(office.core, office.alice, { from: ALICE, to: "dave@remote.example", text: "x" });
    const [message] = await office.queued();
    expect(own(message?.bytes ?? "").filter((line) => /^from|^x-evil|^bcc/i.test(line))).toHaveLength(1);
    expect(office.events()[0]?.data.from).toMatchObject({ email: ALICE });
  });
});
