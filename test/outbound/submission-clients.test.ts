/** nodemailer through the whole appliance to a server elsewhere; and apps that did not receive our 250. */
import { describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import type { SmtpClient } from "../harness/clients/smtp-client.ts";
import { signedIn, watch, world } from "../harness/servers/submission-world.ts";

/** Started once: every test looks only at its own mail. */
const shared = world();

const LETTER =
  "From: Alice <alice@example.test>\r\nTo: Bob <bob@remote.example>\r\nSubject: Plans\r\n" +
  "Message-ID: <plans@app.example>\r\nDate: Mon, 05 Jan 2026 08:00:00 +0000\r\n\r\nLunch?";

let letters = 0;
/** Makes a copy of LETTER with a Message-ID of its own. */
const letter = (): string => LETTER.replace("<plans@", `<plans-${++letters}@`);

describe("a message", () => {
  test("is filed, announced, signed and sent on, with its Bcc visible only to the sender", async () => {
    const it = await shared;
    const { sent: newSent, relayed } = await watch(it);
    const client = await signedIn(it);
    const reply = await client.deliver(
      { from: "alice@example.test", to: ["bob@remote.example", "hidden@remote.example"] },
      LETTER.replace("Subject", "Bcc: Hidden <hidden@remote.example>\r\nSubject"),
    );
    expect(reply.lines).toEqual([expect.stringMatching(/^2\.0\.0 msg_\w+ accepted for delivery$/)]);
    const messages = await relayed();
    const [sent, ...others] = await newSent();
    expect(others).toEqual([]);
    expect(reply.lines[0]).toContain(sent?.id as string);
    expect(sent).toMatchObject({
      direction: "outbound",
      messageId: "<plans@app.example>",
      subject: "Plans",
      text: "Lunch?",
      to: [{ email: "bob@remote.example", name: "Bob" }],
      bcc: [{ email: "hidden@remote.example", name: "Hidden" }],
    });
    expect(messages.flatMap(({ to }) => to).sort()).toEqual(["bob@remote.example", "hidden@remote.example"]);
    for (const { content, from } of messages) {
      expect(from).toMatch(/^bounce\+\w{26}\.\w{16}@example\.test$/);
      expect(content).toMatch(/^DKIM-Signature: /);
      expect(content).toContain("\r\nReceived: by localhost (Mailroom) with ESMTPSA id ");
      expect(content).toEndWith(LETTER.slice(LETTER.indexOf("From:")).concat("\r\n"));
      expect(content).not.toMatch(/hidden|127\.0\.0\.1/i);
    }
    client.destroy();
  });

  test("is refused by the guardrails, with nothing filed", async () => {
    const it = await shared;
    const { sent } = await watch(it);
    const { opened, owner } = it;
    const {
      core: { store, options },
    } = opened;
    const client = await signedIn(it);
    const send = () => client.deliver({ from: "alice@example.test", to: "bob@remote.example" }, letter());
    store.transact((tx) => mailboxAdmin.pauseMailbox(tx, owner.mailboxId, "audit"));
    expect((await send()).lines).toEqual(["4.7.1 Sending from alice@example.test is paused: audit"]);
    store.transact((tx) => {
      mailboxAdmin.resumeMailbox(tx, owner.mailboxId);
      options.set(tx, "sending.mailboxPerHour", "0");
    });
    expect((await send()).lines.join()).toMatch(/^4\.7\.1 .*alice@example\.test/);
    expect(await sent()).toEqual([]);
    store.transact((tx) => options.reset(tx, "sending.mailboxPerHour"));
    expect((await send()).code).toBe(250);
    client.destroy();
  });
});

test("smtp.maxMessageBytes limits the message that an app submits, before we add fields", async () => {
  const it = await shared;
  const { store, options } = it.core;
  const client = await signedIn(it);
  const most = 2_000;
  store.transact((tx) => options.set(tx, "smtp.maxMessageBytes", String(most)));
  const header = "From: alice@example.test\r\n\r\n";
  const send = (size: number) =>
    client.deliver(
      { from: "alice@example.test", to: "bob@remote.example" },
      `${header}${"x".repeat(size - header.length - 2)}`,
    );
  expect([(await send(most)).code, (await send(most + 1)).code]).toEqual([250, 552]);
  store.transact((tx) => options.reset(tx, "smtp.maxMessageBytes"));
  client.destroy();
});

describe("a message submitted again", () => {
  const send = (client: SmtpClient, to: string | string[], text: string) =>
    client.deliver({ from: "alice@example.test", to }, text);

  test("is accepted as the same, and sent once", async () => {
    const it = await shared;
    const { sent, relayed } = await watch(it);
    const plans = letter();
    const client = await signedIn(it);
    const first = await send(client, "bob@remote.example", plans);
    const again = await send(await signedIn(it), "BOB@Remote.Example", plans);
    expect(again).toEqual(first);
    expect(await relayed()).toHaveLength(1);
    expect(await sent()).toHaveLength(1);
    client.destroy();
  });

  test("is sent once also while the first is being accepted", async () => {
    const it = await shared;
    const { sent } = await watch(it);
    const plans = letter();
    const clients = await Promise.all(Array.from({ length: 5 }, () => signedIn(it)));
    const replies = await Promise.all(clients.map((client) => send(client, "bob@remote.example", plans)));
    expect(new Set(replies.map(({ lines }) => lines.join())).size).toBe(1);
    expect(await sent()).toHaveLength(1);
    for (const client of clients) client.destroy();
  });

  test("goes only to recipients who were not among the first", async () => {
    const it = await shared;
    const { relayed } = await watch(it);
    const plans = letter();
    const client = await signedIn(it);
    await send(client, ["bob@remote.example", "carol@remote.example"], plans);
    expect((await send(client, ["carol@remote.example", "dave@remote.example"], plans)).code).toBe(250);
    expect((await relayed()).flatMap(({ to }) => to).sort()).toEqual([
      "bob@remote.example",
      "carol@remote.example",
      "dave@remote.example",
    ]);
    client.destroy();
  });

  test("with other content, without a Message-ID, or after an hour, is sent again", async () => {
    const it = await shared;
    const { sent } = await watch(it);
    const plans = letter();
    const client = await signedIn(it);
    await send(client, "bob@remote.example", plans);
    await send(client, "bob@remote.example", plans.replace("Lunch?", "Dinner?"));
    expect(await sent()).toHaveLength(2);
    const nameless = plans.replace(/Message-ID: .*\r\n/, "");
    await send(client, "bob@remote.example", nameless);
    await send(client, "bob@remote.example", nameless);
    expect(await sent()).toHaveLength(4);
    client.destroy();
    await it.advance(60 * 60_000);
    const later = await signedIn(it);
    await send(later, "bob@remote.example", plans);
    expect(await sent()).toHaveLength(5);
    later.destroy();
  });
});

describe("nodemailer", () => {
  test.each<[string, "submission" | "submissions"]>([
    ["STARTTLS", "submission"],
    ["implicit TLS", "submissions"],
  ])("over %s", async (_, listener) => {
    const it = await shared;
    const { sent, relayed } = await watch(it);
    const transport = createTransport({
      ...it[listener],
      secure: listener === "submissions",
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: "alice@example.test", pass: it.owner.apiKey },
    });
    const { response } = await transport.sendMail({
      from: "Alice <alice@example.test>",
      to: "bob@remote.example",
      bcc: "hidden@remote.example",
      subject: "Grüße",
      text: "Schöne Grüße\n.\n..\nEnde",
      attachments: [{ filename: "ü.txt", content: "Anhang" }],
    });
    transport.close();
    expect(response).toMatch(/^250 2\.0\.0 msg_/);
    expect(await sent()).toMatchObject([
      { subject: "Grüße", text: "Schöne Grüße\n.\n..\nEnde", bcc: [{ email: "hidden@remote.example" }] },
    ]);
    expect((await relayed()).flatMap(({ to }) => to)).toHaveLength(2);
  });

  test("gets a refusal for a wrong password", async () => {
    const it = await shared;
    const transport = createTransport({
      ...it.submission,
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: "alice@example.test", pass: "wrong" },
    });
    const refusal = await transport.verify().catch((error) => error);
    transport.close();
    expect(refusal).toMatchObject({ code: "EAUTH", responseCode: 535 });
  });
});
