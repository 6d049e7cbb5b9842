/** `mailroom trace`: the steps of mail that was received, refused, sent and bounced, with its webhooks. */
import { expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import { type Step, traceMessage } from "../../src/monitoring/trace.ts";
import { traceSteps } from "../../src/store/schema.ts";
import { openBackupRig } from "../harness/data/backup-rig.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { startReceiver } from "../harness/peers/receiver.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const DAY_MS = 24 * 60 * 60_000;
/** A DNS in which only strict.example exists, with the DMARC policy p=reject. */
const strictDns = zone({ "_dmarc.strict.example": { txt: ["v=DMARC1; p=reject"] } });

const trace = ({ core }: Booted, reference: string) => traceMessage(core.store.db, reference);
const named = (steps: Step[]): string[] => steps.map(({ step }) => step);
const only = (steps: Step[], step: string): Step => {
  const [found, ...others] = steps.filter((one) => one.step === step);
  expect([step, others.length, found !== undefined]).toEqual([step, 0, true]);
  return found as Step;
};

async function hand(booted: Booted, from: string, mail: string): Promise<void> {
  const sender = mailer(booted.mx);
  try {
    await sender.send({ from, to: "alice@example.test" }, mail);
  } finally {
    sender.close();
  }
}

async function listen(booted: Booted, answer: () => Response): Promise<string> {
  const { core, opened, owner } = booted;
  const server = startReceiver();
  server.answer = answer;
  core.store.transact((tx) => core.options.set(tx, "webhooks.allowNetworks", "127.0.0.0/8"));
  const events = ["message.inbound", "message.outbound", "message.delivered", "message.bounced"];
  core.store.transact((tx) =>
    developers.addWebhook(opened.core, tx, { workspaceId: owner.workspaceId, url: server.url, events }),
  );
  return server.url;
}

test("a trace of received mail has sender, verdicts, trace id, folder, webhooks", async () => {
  const booted = await boot();
  const url = await listen(booted, () => new Response("no", { status: 503 }));
  const messageId = "<first@remote.example>";
  await hand(booted, "carol@remote.example", letter({ messageId }));
  await booted.advance(0);
  const { steps, emailIds } = trace(booted, messageId);
  expect(named(steps)).toEqual(["received", "filed", "event", "webhook"]);
  const { trace: id } = only(steps, "received");
  expect(booted.lines.filter((line) => line.trace === id).map(({ message }) => message)).toContain("message");
  expect(only(steps, "received")).toEqual({
    at: booted.runtime.now(),
    step: "received",
    trace: expect.any(String),
    ip: "127.0.0.1",
    helo: expect.any(String),
    tls: true,
    reversePath: "carol@remote.example",
    recipients: 1,
    size: expect.any(Number),
    auth: { spf: "none", dkim: "none", dmarc: "none" },
    outcome: "filed",
    emailIds,
  });
  const [{ id: threadId } = { id: "" }] = (await booted.api.get<{ threads: { id: string }[] }>("/threads")).body
    .threads;
  expect(only(steps, "filed")).toMatchObject({
    mailbox: "alice@example.test",
    folder: "inbox",
    threadId,
    emailId: emailIds[0],
  });
  expect(only(steps, "event")).toMatchObject({ event: "message.inbound" });
  expect(only(steps, "webhook")).toMatchObject({
    event: "message.inbound",
    url,
    state: "retrying",
    attempts: 1,
    status: 503,
    nextAttemptAt: new Date(booted.runtime.now() + 60_000).toISOString(),
  });
  // By Message-ID in any form, or by id.
  for (const reference of ["first@remote.example", ` ${messageId} `, emailIds[0] ?? ""]) {
    expect(trace(booted, reference)).toEqual({ messageId, emailIds, steps });
  }
});

test("a trace covers a retry of a filed message, and mail without a Message-ID", async () => {
  const booted = await boot();
  const mail = letter({ messageId: "<again@remote.example>" });
  await hand(booted, "carol@remote.example", mail);
  await hand(booted, "carol@remote.example", mail);
  const { steps, emailIds } = trace(booted, "<again@remote.example>");
  expect(steps.filter(({ step }) => step === "received").map(({ outcome }) => outcome)).toEqual(["filed", "duplicate"]);
  expect(emailIds).toHaveLength(1);

  await hand(booted, "carol@remote.example", mail.replace(/^Message-ID.*\n/m, ""));
  const { body } = await booted.api.get<{ messages: { id: string }[] }>("/messages?limit=2");
  const id = body.messages.map((message) => message.id).find((one) => one !== emailIds[0]) ?? "";
  const traced = trace(booted, id);
  expect([traced.messageId, traced.emailIds, named(traced.steps)]).toEqual([
    null,
    [id],
    ["received", "filed", "event"],
  ]);
});

test("a trace covers mail refused after its last byte, with the reply", async () => {
  const booted = await boot({}, strictDns);
  const mail = letter({ from: "Eve <eve@strict.example>", messageId: "<forged@strict.example>" });
  await expect(hand(booted, "eve@strict.example", mail)).rejects.toThrow("5.7.1");
  // Waits for the commit of the step, for which the reply does not wait.
  await booted.core.store.enqueue(() => undefined);
  const { steps, emailIds } = trace(booted, "<forged@strict.example>");
  expect(emailIds).toEqual([]);
  expect(only(steps, "refused")).toMatchObject({
    outcome: expect.stringMatching(/^550 5\.7\.1 /),
    auth: { spf: "none", dkim: "none", dmarc: "fail" },
    trace: expect.any(String),
  });
});

test("a trace of sent mail has attempts with their replies, a local recipient, a bounce, and a Bcc as in the queue", async () => {
  const booted = await boot();
  const url = await listen(booted, () => new Response("ok"));
  const { body } = await booted.api.post<{ messageId: string; emailId: string }>("/send", {
    from: "alice@example.test",
    to: ["alice@example.test", "dan@remote.example"],
    bcc: "bea@remote.example",
    subject: "Hello",
    text: "Lunch?",
  });
  await booted.advance(0);
  const { steps, emailIds } = trace(booted, body.messageId);
  const { emailId } = body;
  expect(emailIds).toContain(emailId);
  expect(only(steps, "accepted")).toMatchObject({
    emailId,
    mailbox: "alice@example.test",
    notice: false,
    recipients: [
      { recipient: "alice@example.test", field: "to" },
      { recipient: "dan@remote.example", field: "to" },
      { recipient: "bea@remote.example", field: "bcc" },
    ],
  });
  expect(steps.find((step) => step.step === "filed" && step.emailId === emailId)).toMatchObject({
    folder: "sent",
    sentBy: "alice@example.test",
  });
  const results = steps.filter(({ step }) => step === "attempted").flatMap((step) => step.results as object[]);
  expect(results).toContainEqual({
    outcome: "accepted",
    reply: expect.any(String),
    recipients: ["alice@example.test"],
  });
  expect(results).toContainEqual({
    outcome: "refused",
    reply: expect.stringContaining("remote.example"),
    recipients: ["dan@remote.example", "bea@remote.example"],
  });
  const standing = ["delivered", "bounced"].map((state) =>
    steps.filter(({ step }) => step === state).map(({ recipient, field, attempts }) => [recipient, field, attempts]),
  );
  expect(standing).toEqual([
    [["alice@example.test", "to", 1]],
    [
      ["dan@remote.example", "to", 1],
      ["bea@remote.example", "bcc", 1],
    ],
  ]);
  const told = (step: string) => steps.filter((one) => one.step === step).map(({ event }) => event);
  expect(told("event").toSorted()).toEqual([
    "message.bounced",
    "message.delivered",
    "message.inbound",
    "message.outbound",
  ]);
  expect(told("webhook").toSorted()).toEqual(told("event").toSorted());
  expect(
    steps.filter(({ step }) => step === "webhook").every((step) => step.url === url && step.state === "delivered"),
  ).toBe(true);
  expect(steps.map(({ at }) => at)).toEqual(steps.map(({ at }) => at).toSorted((a, b) => a - b));
});

test("steps outlive the mail, and are kept for retention.traceDays", async () => {
  const booted = await boot();
  await hand(booted, "carol@remote.example", letter({ messageId: "<gone@remote.example>" }));
  const [emailId = ""] = trace(booted, "<gone@remote.example>").emailIds;
  booted.core.store.db.$client.run("DELETE FROM messages");
  expect(named(trace(booted, "<gone@remote.example>").steps)).toEqual(["received", "event"]);
  expect(() => trace(booted, emailId)).toThrow("known by its Message-ID");
  const { store, options } = booted.core;
  store.transact((tx) => options.set(tx, "retention.traceDays", "2"));
  store.transact((tx) => options.set(tx, "retention.deliveryLogDays", "2"));
  const kept = () => store.db.select().from(traceSteps).all().length;
  await booted.advance(2 * DAY_MS - 60 * 60_000);
  expect(kept()).toBe(1);
  await booted.advance(3 * 60 * 60_000);
  expect(kept()).toBe(0);
  expect(() => trace(booted, "<gone@remote.example>")).toThrow("nothing is known");
});

test("the command prints a line a step, or one document; it exits 1 for an unknown message", async () => {
  const { add, ask, say, within } = await openBackupRig();
  await add("content");
  const messageId = await within(
    ({ db }) =>
      (db.$client.query("SELECT message_id FROM outbound_messages").get() as { message_id: string }).message_id,
  );
  const document = await ask<{ id: string; messageId: string; steps: { at: string; step: string }[] }>(
    "trace",
    messageId,
  );
  expect([document.id, document.messageId]).toEqual([messageId, messageId]);
  expect(document.steps).toMatchObject([
    { at: "2026-01-05T09:00:00.000Z", step: "accepted" },
    { at: "2026-01-05T09:00:00.000Z", step: "waiting" },
  ]);
  const { stdout } = await say("trace", messageId.slice(1, -1));
  expect(stdout).toMatch(/^<.*@acme\.test> {2}msg_\w+\n\n2026-01-05T09:00:00\.000Z {2}accepted {3}emailId=msg_/);
  expect(stdout).toMatch(/\n2026-01-05T09:00:00\.000Z {2}waiting {4}.*recipient=dan@remote\.example {2}field=to/);
  for (const unknown of ["<nobody@remote.example>", "msg_nothing"]) {
    expect(await say("trace", unknown)).toMatchObject({ exitCode: 1, stdout: "" });
  }
});
