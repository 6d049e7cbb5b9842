/**
 * Events of real mail as a receiver gets them: all five kinds of one appliance, with the shape that the published schemas
 * say, and never a body or a Bcc recipient (rules: Events, Bcc).
 */
import { expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import { describeApi } from "../../src/api/openapi.ts";
import { MAIL_API } from "../../src/api/surfaces.ts";
import { EVENT_NAMES } from "../../src/events/kinds.ts";
import { faults, type JsonObject, resolve } from "../harness/clients/schema-validator.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { settingsFor, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { heldReply } from "../harness/runtime.ts";
import { openRig, WITH_MX } from "../harness/servers/webhook-rig.ts";

const document = describeApi(MAIL_API, "https://mail.example.test") as JsonObject;
const BODY = "The body, which nobody is told";

/** An ARF report (RFC 5965) about a message of ours. */
const complaint = (messageId: string, recipient: string): string =>
  [
    "From: feedback@remote.example",
    "To: alice@example.test",
    "Subject: Complaint",
    "Message-ID: <arf@remote.example>",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b"',
    "",
    "--b",
    "Content-Type: text/plain",
    "",
    "A complaint.",
    "--b",
    "Content-Type: message/feedback-report",
    "",
    "Feedback-Type: abuse",
    "User-Agent: Test/1",
    "Version: 1",
    `Original-Rcpt-To: ${recipient}`,
    "",
    "--b",
    "Content-Type: text/rfc822-headers",
    "",
    `Message-ID: ${messageId}`,
    "",
    "--b--",
    "",
  ].join("\n");

test("all kinds", async () => {
  const remote = await startRemoteMx({
    rcpt: ({ address }) => (address.startsWith("nobody") ? "550 5.1.1 no such user" : undefined),
  });
  const dns = zone({
    "remote.example": { mx: [[10, "mx.remote.example"]], txt: ["v=spf1 ip4:127.0.0.1 -all"] },
    "mx.remote.example": { a: [remote.host] },
  });
  const { receive, api, apiWith, settled, mx, core, opened, runtime, owner } = await openRig(
    settingsFor(remote),
    WITH_MX,
    dns,
  );
  const receiver = receive();
  const { status, body: sent } = await api.post<{ messageId: string; emailId: string }>("/send", {
    from: "alice@example.test",
    to: "Bob <bob@remote.example>, nobody@remote.example",
    cc: "Zoë <zoe@remote.example>",
    bcc: "secret@remote.example",
    subject: "Grüße",
    text: BODY,
  });
  expect(status).toBe(202);
  await settled();
  const sender = mailer(mx);
  const from = { from: "carol@remote.example", to: "alice@example.test" };
  await sender.send(from, letter({ cc: "dan@remote.example", text: BODY, headers: ["Bcc: secret@remote.example"] }));
  const report = complaint(sent.messageId, "bob@remote.example");
  await heldReply(runtime, sender.send({ ...from, from: "feedback@remote.example" }, report));
  sender.close();
  const key = core.store.transact((tx) =>
    developers.createKey(opened.core, tx, {
      userId: owner.userId,
      name: "Agent",
      scopes: ["send"],
      policy: { send: "hold" },
    }),
  );
  const hold = async () => {
    const letter = { from: "alice@example.test", to: "zoe@remote.example", bcc: "secret@remote.example", text: BODY };
    return (await apiWith(key.key).post<{ emailId: string }>("/send", letter)).body.emailId;
  };
  const [approved, rejected] = [await hold(), await hold()];
  for (const path of [`${approved}/approve`, `${rejected}/reject`]) {
    expect((await api.post(`/api/admin/v1/holds/${path}`, {})).status).toBe(200);
  }
  await settled();

  const told = receiver.hooks.map(({ body }) => JSON.parse(body) as JsonObject & { event: string; data: JsonObject });
  expect(new Set(told.map(({ event }) => event))).toEqual(new Set(EVENT_NAMES));
  for (const event of told) {
    const { post } = (document.webhooks as Record<string, { post: JsonObject }>)[event.event] as { post: JsonObject };
    const { content } = post.requestBody as { content: Record<string, { schema: JsonObject }> };
    const schema = content["application/json"]?.schema as JsonObject;
    expect([event, faults(document, resolve(document, String(schema.$ref)), event)]).toEqual([event, []]);
    expect(Object.keys(event)).toEqual(["id", "event", "createdAt", "data"]);
  }
  const dataOf = (name: string) => told.filter(({ event }) => event === name).map(({ data }) => data);
  const bob = { email: "bob@remote.example", name: "Bob" };
  const zoe = { email: "zoe@remote.example", name: "Zoë" };
  expect(dataOf("message.outbound")).toMatchObject([
    { emailId: sent.emailId, subject: "Grüße", to: [bob, {}] },
    { emailId: approved },
  ]);
  expect(dataOf("message.delivered")).toMatchObject([{ to: [bob, zoe] }, { emailId: approved }]);
  const held = { keyId: key.id, mailbox: "alice@example.test", reason: expect.stringContaining("approves everything") };
  expect(dataOf("message.held")).toMatchObject([
    { ...held, emailId: approved },
    { ...held, emailId: rejected },
  ]);
  expect(dataOf("message.approved")).toMatchObject([{ ...held, emailId: approved, approvedBy: owner.userId }]);
  expect(dataOf("message.rejected")).toMatchObject([
    { ...held, emailId: rejected, rejectedBy: owner.userId, reason: "rejected" },
  ]);
  expect(dataOf("message.bounced")).toMatchObject([{ recipient: "nobody@remote.example", hard: true }]);
  expect(dataOf("message.complaint")).toMatchObject([{ recipient: "bob@remote.example" }]);
  expect(dataOf("message.inbound")[0]).toMatchObject({ cc: [{ email: "dan@remote.example" }], isSpam: false });

  const all = receiver.hooks.map(({ body, headers }) => body + JSON.stringify([...headers])).join("\n");
  expect(all).not.toContain("secret");
  // Mail that arrives is told with its snippet (rules: Event data); what was written here is not told at all.
  for (const event of told) if (event.event !== "message.inbound") expect(JSON.stringify(event)).not.toContain(BODY);
  expect(Object.keys(dataOf("message.inbound")[0] ?? {})).not.toContain("text");
  const states = developers.listDeliveries(opened.core, receiver.id, { limit: 100 }).map(({ state }) => state);
  expect(new Set(states)).toEqual(new Set(["delivered"]));
});
