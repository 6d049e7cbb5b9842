/**
 * Notifications that a mail app asks for with DSN (RFC 3461), through the whole appliance to mailboxes here and to a server
 * elsewhere.
 */
import { describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import type { RemoteScript } from "../harness/peers/remote-mx.ts";
import { noticesOf, signedIn, world } from "../harness/servers/submission-world.ts";

interface Sent {
  mail?: string;
  /** Recipients with their parameters. */
  to: Record<string, string>;
  header?: string;
}

let count = 0;

async function send(client: SmtpClient, { mail = "", to, header }: Sent): Promise<void> {
  await client.expect(250, `MAIL FROM:<alice@example.test>${mail && ` ${mail}`}`);
  for (const [address, parameters] of Object.entries(to)) {
    await client.expect(250, `RCPT TO:<${address}>${parameters && ` ${parameters}`}`);
  }
  await client.expect(354, "DATA");
  const fields = header ?? `To: ${Object.keys(to).join(", ")}`;
  client.write(
    `From: alice@example.test\r\n${fields}\r\nSubject: Plans ${++count}\r\nMessage-ID: <p${count}@app.example>\r\n\r\nLunch?\r\n.\r\n`,
  );
  await client.expect(250);
}

async function start(script: RemoteScript = {}) {
  const it = await world();
  it.remote.script(script);
  const client = await signedIn(it);
  const envelope = () => it.remote.commands.filter((line) => /^(MAIL|RCPT)/.test(line));
  return { ...it, client, envelope, notices: () => noticesOf(it) };
}

const REFUSES: RemoteScript = { rcpt: () => "550 5.1.1 No such user" };

describe("the server elsewhere supports DSN", () => {
  test("it is told everything, and tells the outcome itself", async () => {
    const { client, envelope, notices } = await start({ dsn: true });
    await send(client, {
      mail: "RET=HDRS ENVID=QQ+2B1",
      to: {
        "bob@remote.example": "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2Bx@remote.example",
        "carol@remote.example": "",
      },
    });
    expect(await notices()).toEqual([]);
    expect(envelope().map((line) => line.replace(/<bounce[^>]+>/, "<>").replace(/ SIZE=\d+/, ""))).toEqual([
      "MAIL FROM:<> RET=HDRS ENVID=QQ+2B1",
      "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Bob+2Bx@remote.example",
      "RCPT TO:<carol@remote.example>",
    ]);
  });

  test("its refusal is told here, as it has taken nothing over", async () => {
    const { client, notices } = await start({ dsn: true, ...REFUSES });
    await send(client, { to: { "bob@remote.example": "NOTIFY=SUCCESS,FAILURE" } });
    expect((await notices()).map(({ subject }) => subject)).toEqual([`Not delivered: Plans ${count}`]);
  });

  test("texts that name a Bcc recipient go nowhere, except the recipient's own address to its server", async () => {
    const { client, envelope, server } = await start({ dsn: true });
    await send(client, {
      mail: "ENVID=for-eve@hidden.example",
      header: "To: bob@remote.example",
      to: {
        "bob@remote.example": "ORCPT=rfc822;eve@remote.example",
        "eve@remote.example": "NOTIFY=NEVER ORCPT=rfc822;eve@remote.example",
      },
    });
    await send(client, {
      mail: "ENVID=eve@remote.example",
      header: "To: bob@remote.example",
      to: { "bob@remote.example": "", "eve@remote.example": "NOTIFY=SUCCESS" },
    });
    await server.settled();
    const lines = envelope().filter((line) => !line.startsWith("MAIL") || line.includes("ENVID"));
    expect(lines).toEqual([
      "RCPT TO:<bob@remote.example>",
      "RCPT TO:<eve@remote.example> NOTIFY=NEVER ORCPT=rfc822;eve@remote.example",
      "RCPT TO:<bob@remote.example>",
      "RCPT TO:<eve@remote.example> NOTIFY=SUCCESS",
    ]);
  });
});

describe("the server elsewhere does not support DSN", () => {
  test("it is told nothing, and success is told here as relayed", async () => {
    const { client, envelope, notices } = await start();
    await send(client, {
      mail: "RET=FULL ENVID=QQ+2B1",
      to: {
        "bob@remote.example": "NOTIFY=SUCCESS ORCPT=rfc822;Bob+2Bx@remote.example",
        "carol@remote.example": "",
      },
    });
    const [notice, ...more] = await notices();
    expect(more).toEqual([]);
    expect(envelope().join("\n")).not.toMatch(/RET|ENVID|NOTIFY|ORCPT/);
    expect(notice?.subject).toBe(`Delivered: Plans ${count}`);
    expect(notice?.text).toContain("bob@remote.example\n    at a server that tells no more");
    const [status = "", returned = ""] = notice?.parts ?? [];
    expect(status).toContain("Original-Envelope-Id: QQ+1\r\n");
    expect(status.split("\r\n\r\n")[1]).toBe(
      [
        "Original-Recipient: rfc822;Bob+x@remote.example",
        "Final-Recipient: rfc822; bob@remote.example",
        "Action: relayed",
        "Status: 2.0.0",
        "Remote-MTA: dns; mx.remote.example\r\n",
      ].join("\r\n"),
    );
    expect(status).not.toContain("carol");
    // RET is about failures (RFC 3461 §4.3).
    expect(returned).not.toContain("Lunch?");
  });

  test.each([
    ["NOTIFY=NEVER", 0],
    ["NOTIFY=SUCCESS", 0],
    ["NOTIFY=DELAY", 0],
    ["NOTIFY=FAILURE", 1],
    ["ORCPT=rfc822;x@remote.example", 1],
    ["", 1],
  ])(
    "a failure with %j makes %p notices; the queue, the webhooks and the suppression know it anyway",
    async (parameters, notified) => {
      const { client, notices, core } = await start(REFUSES);
      await send(client, { to: { "bob@remote.example": parameters } });
      expect(await notices()).toHaveLength(notified);
      const rows = core.store.db.query.queueEntries.findMany().sync();
      expect(rows.map(({ state }) => state)).toEqual(["bounced"]);
      expect(core.store.db.query.suppressions.findMany().sync()).toHaveLength(1);
    },
  );

  test.each([
    ["RET=FULL", true],
    ["RET=HDRS", false],
    ["", false],
  ])("a failure with %j returns the text: %p", async (mail, isWhole) => {
    const { client, notices } = await start(REFUSES);
    await send(client, { mail, to: { "bob@remote.example": "" } });
    const [notice] = await notices();
    const returned = notice?.parts.at(-1) ?? "";
    expect(returned).toContain(`Subject: Plans ${count}\r\n`);
    expect(returned.includes("\r\n\r\nLunch?\r\n")).toBe(isWhole);
  });

  test("a notice names no Bcc recipient, and no text that does", async () => {
    const { client, notices } = await start();
    await send(client, {
      mail: "ENVID=eve@hidden.example",
      header: "To: bob@remote.example",
      to: {
        "bob@remote.example": "NOTIFY=SUCCESS ORCPT=rfc822;eve@remote.example",
        "eve@remote.example": "NOTIFY=SUCCESS ORCPT=rfc822;eve@remote.example",
      },
    });
    const [notice] = await notices();
    expect(notice?.text).toContain("\n\na Bcc recipient\n\n");
    expect(notice?.parts[0]).toContain("Final-Recipient: x-undisclosed; a Bcc recipient\r\nAction: relayed\r\n");
    expect(JSON.stringify(notice)).not.toMatch(/eve|hidden/);
  });
});

test("success in a mailbox here is told as delivered", async () => {
  const { client, notices, core, opened, owner } = await start();
  const { workspaceId } = owner;
  core.store.transact((tx) =>
    mailboxAdmin.addMailbox(opened.core, tx, { workspaceId, address: "dora@example.test", name: "Dora" }),
  );
  await send(client, { mail: "RET=HDRS", to: { "dora@example.test": "NOTIFY=SUCCESS" } });
  const [notice] = await notices();
  expect(notice?.text).toContain("dora@example.test\n    in the mailbox, on this server");
  expect(notice?.parts[0]).toContain("Final-Recipient: rfc822; dora@example.test\r\nAction: delivered\r\n");
});

test("a message without a return address asks for silence at most", async () => {
  const { client, notices } = await start();
  await client.expect(250, "MAIL FROM:<>");
  await client.expect(250, "RCPT TO:<bob@remote.example> NOTIFY=SUCCESS");
  await client.expect(354, "DATA");
  client.write("From: alice@example.test\r\nTo: bob@remote.example\r\nSubject: read\r\n\r\nread\r\n.\r\n");
  await client.expect(250);
  expect(await notices()).toEqual([]);
});

describe("commands", () => {
  test("DSN is offered to mail apps, and not to strangers", async () => {
    const it = await world();
    const offers = async (client: SmtpClient) => (await client.command("EHLO client.example")).lines.includes("DSN");
    expect(await offers(await signedIn(it))).toBe(true);
    const stranger = await connectSmtp(it.mx);
    expect(await offers(stranger)).toBe(false);
    await stranger.expect(555, "MAIL FROM:<x@remote.example> RET=HDRS");
    await stranger.expect(250, "MAIL FROM:<x@remote.example>");
    await stranger.expect(555, "RCPT TO:<alice@example.test> NOTIFY=SUCCESS");
  });

  test.each([
    ["RET=ALL", ""],
    ["RET=FULL RET=FULL", ""],
    ["RET", ""],
    ["ENVID=", ""],
    ["ENVID=a+3d", ""],
    [`ENVID=${"x".repeat(101)}`, ""],
    ["ENVID=a+0D+0Ab", ""],
    ["", "NOTIFY=NEVER,FAILURE"],
    ["", "NOTIFY="],
    ["", "NOTIFY=SUCCESS NOTIFY=FAILURE"],
    ["", "ORCPT=bob@remote.example"],
    ["", "ORCPT=rfc822;a+0D+0Ab"],
    ["", "ORCPT=rfc822;a=b"],
    ["", `ORCPT=rfc822;${"x".repeat(500)}`],
  ])("%s%s is 501, and harms no later command", async (mail, rcpt) => {
    const client = await signedIn(await world());
    const first = await client.command(`MAIL FROM:<alice@example.test> ${mail}`);
    if (mail) {
      expect(first.code).toBe(501);
      await client.expect(250, "MAIL FROM:<alice@example.test>");
    }
    if (rcpt) await client.expect(501, `RCPT TO:<bob@remote.example> ${rcpt}`);
    await client.expect(250, "RCPT TO:<bob@remote.example>");
  });

  test("a quoted local part, and its spaces as xtext", async () => {
    const it = await start({ dsn: true });
    await send(it.client, {
      header: "To: undisclosed-recipients:;",
      to: { '"b ENVID=x"@remote.example': 'NOTIFY=FAILURE ORCPT=rfc822;"b+20ENVID+3Dx"@remote.example' },
    });
    await it.server.settled();
    expect(it.envelope()[1]).toBe(
      'RCPT TO:<"b ENVID=x"@remote.example> NOTIFY=FAILURE ORCPT=rfc822;"b+20ENVID+3Dx"@remote.example',
    );
  });
});
