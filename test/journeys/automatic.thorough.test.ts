/** Mail that the server writes by itself: what rules forward, and replies of those who are absent (rules: Forwarding, Out of office). */
import { describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as removals from "../../src/admin/removals.ts";
import { putAbsence } from "../../src/mailbox/filing/absences.ts";
import { type GivenRule, normalizeGivenRules, putRules } from "../../src/mailbox/filing/rules.ts";
import {
  absenceReplies,
  automaticMail,
  events,
  messages,
  outboundMessages,
  suppressions,
} from "../../src/store/schema.ts";
import type { SettingName } from "../../src/store/settings.ts";
import { type Letter, letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { deliverTo, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { boot } from "../harness/servers/boot.ts";

const DAY = 86_400_000;
const ALICE = "alice@example.test";
const BOB = "bob@remote.example";
const forwarding = (to: string): GivenRule => ({ match: "subject:oak", actions: [{ type: "forward", to }] });

/** An appliance for which remote.example is at a scripted server, and authorises this machine to send. */
async function world(script: RemoteScript = {}) {
  const remote = await startRemoteMx(script);
  const dns = zone({
    "remote.example": { mx: [[10, "mx.remote.example"]], txt: ["v=spf1 ip4:127.0.0.1 -all"] },
    "mx.remote.example": { a: [remote.host] },
    "strict.example": { txt: ["v=spf1 ip4:127.0.0.1 -all"] },
    "_dmarc.strict.example": { txt: ["v=DMARC1; p=none"] },
    "other.example": { txt: ["v=spf1 -all"] },
  });
  const booted = await boot({}, dns);
  const { core, server, owner, mx, runtime } = booted;
  const { store, options } = core;
  deliverTo(remote, core);
  const set = (name: SettingName, value: string) => store.transact((tx) => options.set(tx, name, value));
  return {
    ...booted,
    remote,
    set,
    rule: (mailboxId: string, ...rules: GivenRule[]) =>
      store.transact((tx) => putRules(tx, mailboxId, normalizeGivenRules(rules, runtime.now()))),
    absent: (more: { subject?: string; text?: string; days?: number } = {}) => {
      const { subject = null, text = "Back soon.", days = 14 } = more;
      const absence = { startsAt: runtime.now(), endsAt: runtime.now() + days * DAY, subject, text };
      store.transact((tx) => putAbsence(tx, owner.mailboxId, absence, runtime.now()));
    },
    box: (address: string): string =>
      store.transact((tx) => ({
        id: mailboxAdmin.addMailbox(core, tx, { workspaceId: owner.workspaceId, address, name: address }),
      })).id,
    /** Delivers a message from remote.example, and does all work that follows. */
    async arrive(mail: Partial<Letter>, { from = BOB, to = ALICE } = {}) {
      const sender = mailer(mx, { starttls: false });
      const { reply } = await sender.send({ from, to }, letter({ from: `Bob <${BOB}>`, to: ALICE, ...mail }));
      sender.close();
      expect(reply).toStartWith("250");
      await server.settled();
    },
    stored: (mailboxId: string) =>
      store.db
        .select()
        .from(messages)
        .all()
        .filter((one) => one.mailboxId === mailboxId),
    waiting: () => store.db.select().from(automaticMail).all(),
    sent: () => store.db.select().from(outboundMessages).all(),
    told: () =>
      store.db
        .select()
        .from(events)
        .all()
        .map(({ event }) => event),
    traced: () =>
      store.db.query.traceSteps
        .findMany()
        .sync()
        .filter(({ detail }) => detail.automatic !== undefined)
        .map(({ key, detail }) => ({ key, ...detail })),
  };
}

describe("a message that a rule forwards", () => {
  test("goes out as one of the mailbox, with the author in Reply-To", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    // A Reply-To that names only the mailbox is as if absent.
    const headers = ["Delivered-To: list@remote.example", "References: <a@x>", "Reply-To: alice+oak@example.test"];
    await it.arrive({ subject: "Oak", text: "Boards", messageId: "<1@remote.example>", headers });
    expect(it.remote.messages).toHaveLength(1);
    const [{ from, to, content } = { from: "", to: [], content: "" }] = it.remote.messages;
    expect([from, to]).toEqual([expect.stringMatching(/^bounce\+.*@example\.test$/), ["carol@remote.example"]]);
    expect(content.match(/^DKIM-Signature:/gm)).toHaveLength(2);
    for (const line of [
      'From: "?Alice"? <alice@example.test>',
      "To: carol@remote.example",
      'Reply-To: "?Bob"? <bob@remote.example>',
      "Subject: Fwd: Oak",
      "References: <a@x> <1@remote.example>",
      "Delivered-To: alice@example.test",
      "Auto-Submitted: auto-generated",
    ]) {
      expect(content).toMatch(new RegExp(`^${line}\r$`, "m"));
    }
    expect(content).not.toContain("In-Reply-To");
    // Others may have written it, and the next server would take it for a circle.
    expect(content).not.toContain("Delivered-To: list@remote.example");
    expect(content).toContain("Boards");
    // The arrival is what it would be without: no Sent copy, no further event.
    expect(it.stored(it.owner.mailboxId)).toHaveLength(1);
    expect(it.told()).toEqual(["message.inbound"]);
    expect(it.waiting()).toEqual([]);
    expect(it.sent()).toMatchObject([{ automatic: "forward", recipients: 1, outsideRecipients: 1 }]);
    expect(it.traced()).toMatchObject([
      {
        key: "<1@remote.example>",
        automatic: "forward",
        results: [{ outcome: "accepted", recipients: ["carol@remote.example"] }],
      },
    ]);
  });

  test("has its attachments, and arrives in mailboxes here, whose rules see it", async () => {
    const it = await world();
    const team = it.box("team@example.test");
    it.rule(it.owner.mailboxId, forwarding("team@example.test"));
    it.rule(team, { match: "from:alice filename:plan.txt", actions: [{ type: "label", label: "Passed on" }] });
    const text = [
      "--b",
      "Content-Type: text/plain",
      "",
      "See there",
      "--b",
      "Content-Type: text/plain",
      'Content-Disposition: attachment; filename="plan.txt"',
      "",
      "The plan",
      "--b--",
    ].join("\n");
    await it.arrive({
      subject: "Oak",
      text,
      headers: ["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=b"],
    });
    expect(it.stored(team)).toMatchObject([
      { subject: "Fwd: Oak", hasAttachments: true, receivedOn: "team@example.test" },
    ]);
    expect(it.core.store.db.query.threadLabels.findMany().sync()).toMatchObject([{ label: "Passed on" }]);
  });

  test("goes round no circle", async () => {
    const it = await world();
    const [team, ops] = [it.box("team@example.test"), it.box("ops@example.test")];
    it.rule(it.owner.mailboxId, forwarding("team@example.test"));
    it.rule(team, forwarding("ops@example.test"), { ...forwarding(ALICE), match: "larger:1" });
    it.rule(ops, { ...forwarding(ALICE), match: "larger:1" });
    await it.arrive({ subject: "Oak" });
    const counts = [it.owner.mailboxId, team, ops].map((id) => it.stored(id).length);
    expect(counts).toEqual([1, 1, 1]);
  });

  test("is not kept back by what its sender writes into Delivered-To", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    const many = Array.from({ length: 12 }, (_, n) => `Delivered-To: box${n}@remote.example`);
    const hostile = [[`Delivered-To: ${ALICE}`], ["Delivered-To: carol@remote.example"], many];
    for (const [n, headers] of hostile.entries()) await it.arrive({ subject: `Oak ${n}`, headers });
    expect(it.remote.messages.map(({ to }) => to)).toEqual(hostile.map(() => ["carol@remote.example"]));
  });

  test("is not forwarded once more when it comes back from elsewhere; an answer to it is", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    await it.arrive({ subject: "Oak", messageId: "<1@remote.example>" });
    const id = /^Message-ID: (<.*>)\r$/m.exec(it.remote.messages[0]?.content ?? "")?.[1] ?? "";
    // As it is; and forwarded by a server that makes a new message of it.
    await it.arrive({ subject: "Fwd: Oak", messageId: id });
    const again = [`References: <1@remote.example> ${id}`, "Auto-Submitted: auto-generated"];
    await it.arrive({ subject: "Fwd: Fwd: Oak", messageId: "<2@remote.example>", headers: again });
    expect(it.remote.messages).toHaveLength(1);
    await it.arrive({ subject: "Re: Fwd: Oak", messageId: "<3@remote.example>", headers: [`References: ${id}`] });
    expect(it.remote.messages).toHaveLength(2);
  });

  test("counts for the caps, waits for room, and is given up after a day", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.set("sending.mailboxPerHour", "1");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    await it.arrive({ subject: "Oak 1" });
    await it.arrive({ subject: "Oak 2" });
    expect([it.remote.messages.length, it.waiting().length]).toEqual([1, 1]);
    expect((await it.api.post("/send", { from: ALICE, to: BOB, text: "Hi" })).status).toBe(429);
    await it.advance(61 * 60_000);
    expect([it.remote.messages.length, it.waiting().length]).toEqual([2, 0]);
    it.set("sending.mailboxPerHour", "0");
    await it.arrive({ subject: "Oak 3" });
    expect(it.waiting()).toHaveLength(1);
    for (let i = 0; i < 25; i++) await it.advance(3_600_000);
    expect(it.waiting()).toEqual([]);
    expect(it.traced().at(-1)).toMatchObject({
      results: [{ outcome: "refused", reply: expect.stringContaining("rate_limited") }],
    });
    expect(it.remote.messages).toHaveLength(2);
  });

  test("is not sent once the setting is off, or sending is paused; the mail stays", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    it.set("rules.forwardOutside", "false");
    await it.arrive({ subject: "Oak" });
    it.set("rules.forwardOutside", "true");
    it.core.store.transact((tx) => mailboxAdmin.pauseMailbox(tx, it.owner.mailboxId, "Abuse"));
    await it.arrive({ subject: "Oak again" });
    expect(it.remote.messages).toEqual([]);
    expect(it.stored(it.owner.mailboxId)).toHaveLength(2);
    expect(it.traced()).toMatchObject([
      { results: [{ outcome: "refused", reply: expect.stringContaining("locked") }] },
    ]);
  });

  test("waits while its workspace moves to another server", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.set("sending.mailboxPerHour", "0");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    await it.arrive({ subject: "Oak" });
    it.set("sending.mailboxPerHour", "100");
    const moving = (value: string | null) =>
      it.core.store.db.$client.query("UPDATE workspaces SET moving = ?").run(value);
    moving("left");
    await it.advance(3_600_000);
    expect([it.waiting().length, it.remote.messages.length]).toEqual([1, 0]);
    moving(null);
    it.core.store.transact(() => {});
    await it.advance(1_000);
    expect([it.waiting().length, it.remote.messages.length]).toEqual([0, 1]);
  });

  test("is not sent once its mailbox is being removed", async () => {
    const it = await world();
    it.set("rules.forwardOutside", "true");
    it.set("sending.mailboxPerHour", "0");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    await it.arrive({ subject: "Oak" });
    expect(it.waiting()).toHaveLength(1);
    it.core.store.transact((tx) => removals.beginMailboxRemoval(tx, it.owner.mailboxId));
    expect(it.waiting()).toEqual([]);
  });

  test("that fails is told in its conversation, and the address suppressed", async () => {
    const it = await world({ rcpt: "550 5.1.1 no such person" });
    it.set("rules.forwardOutside", "true");
    it.rule(it.owner.mailboxId, forwarding("carol@remote.example"));
    await it.arrive({ subject: "Oak" });
    const stored = it.stored(it.owner.mailboxId);
    expect(stored.map(({ subject, threadSeq }) => [subject, threadSeq])).toEqual([
      ["Oak", stored[0]?.threadSeq ?? 0],
      ["Not delivered: Fwd: Oak", stored[0]?.threadSeq ?? 0],
    ]);
    expect(it.told()).toEqual(["message.inbound"]);
    expect(it.core.store.db.select().from(suppressions).all()).toMatchObject([{ address: "carol@remote.example" }]);
  });
});

describe("an absence", () => {
  test("is told once a week to each sender, in a reply to their return path", async () => {
    const it = await world();
    it.absent();
    const author = "Bob <b.smith@remote.example>";
    await it.arrive({ from: author, subject: "Oak", messageId: "<1@remote.example>" });
    expect(it.remote.messages).toHaveLength(1);
    const [{ to, content } = { to: [], content: "" }] = it.remote.messages;
    expect(to).toEqual([BOB]);
    for (const line of [
      'From: "?Alice"? <alice@example.test>',
      "To: bob@remote.example",
      "Subject: Auto: Oak",
      "In-Reply-To: <1@remote.example>",
      "References: <1@remote.example>",
      "Auto-Submitted: auto-replied",
    ]) {
      expect(content).toMatch(new RegExp(`^${line}\r$`, "m"));
    }
    expect(content).toContain("Back soon.");
    expect(it.stored(it.owner.mailboxId)).toHaveLength(1);
    expect(it.told()).toEqual(["message.inbound"]);
    expect(it.sent()).toMatchObject([{ automatic: "absence", recipients: 1 }]);

    await it.advance(DAY);
    await it.arrive({ from: author, subject: "Oak 2" }, { from: "bounce+2@remote.example" });
    expect(it.remote.messages).toHaveLength(1);
    await it.arrive({ from: "carol@remote.example", subject: "Elm" });
    expect(it.remote.messages).toHaveLength(2);
    await it.advance(6 * DAY);
    await it.arrive({ from: author, subject: "Oak 3" });
    expect(it.remote.messages).toHaveLength(3);
  });

  test("is told with its own subject, from the alias that was written to, and anew when it changes", async () => {
    const it = await world();
    it.core.store.transact((tx) => mailboxAdmin.addAlias(it.opened.core, tx, it.owner.mailboxId, "sales@example.test"));
    it.absent({ subject: "On the sea" });
    const to = "sales@example.test";
    await it.arrive({ to: "Sales <Sales+x@example.test>", subject: "Oak" }, { to: "sales+x@example.test" });
    expect(it.remote.messages[0]?.content).toMatch(/^Subject: On the sea\r$/m);
    expect(it.remote.messages[0]?.content).toMatch(/^From: .*<sales@example\.test>\r$/m);
    it.absent({ subject: "On the sea" });
    await it.arrive({ to }, { to });
    expect(it.remote.messages).toHaveLength(1);
    it.absent({ text: "Back in May." });
    await it.arrive({ to }, { to });
    expect(it.remote.messages).toHaveLength(2);
  });

  test("is told between its dates alone", async () => {
    const it = await world();
    const at = it.runtime.now();
    const absence = { startsAt: at + DAY, endsAt: at + 2 * DAY, subject: null, text: "Away" };
    it.core.store.transact((tx) => putAbsence(tx, it.owner.mailboxId, absence, at));
    await it.arrive({ from: "a@remote.example" });
    await it.advance(DAY);
    await it.arrive({ from: "b@remote.example" });
    await it.advance(DAY);
    await it.arrive({ from: "c@remote.example" });
    expect(it.remote.messages).toHaveLength(1);
  });

  const silent: [why: string, mail: Partial<Letter>, envelope: { from?: string; to?: string }][] = [
    ["a bounce", {}, { from: "" }],
    ["a program", { headers: ["Auto-Submitted: auto-generated"] }, {}],
    ["a mailing list", { headers: ["List-Id: <l.remote.example>"] }, {}],
    ["bulk mail", { headers: ["Precedence: bulk"] }, {}],
    ["a reply of a program", { headers: ["X-Autoreply: yes"] }, {}],
    ["another reply of a program", { headers: ["X-Autorespond:"] }, {}],
    ["an automatic reply by its precedence", { headers: ["Precedence: auto_reply"] }, {}],
    ["mail that wants no answer", { headers: ["X-Auto-Response-Suppress: DR, OOF"] }, {}],
    ["an address of nobody", { from: "no-reply@remote.example" }, {}],
    ["a return path of nobody", {}, { from: "list-request@remote.example" }],
    ["somebody who did not name the mailbox", { to: "team@remote.example" }, {}],
    ["the mailbox itself", { from: ALICE }, {}],
    ["a return path that SPF does not confirm", {}, { from: "victim@other.example" }],
    ["an author whom DMARC does not confirm", { from: "ann@strict.example" }, {}],
  ];
  test.each(silent)("is not told to %s", async (_, mail, envelope) => {
    const it = await world();
    it.absent();
    await it.arrive(mail, envelope);
    expect(it.sent()).toEqual([]);
    expect(it.core.store.db.select().from(absenceReplies).all()).toEqual([]);
    await it.arrive({ from: "new@remote.example", headers: ["Auto-Submitted: no"] });
    expect(it.sent()).toHaveLength(1);
  });

  test("is told to people here, and two who are absent do not go on", async () => {
    const it = await world();
    const team = it.box("team@example.test");
    it.absent();
    const absence = { startsAt: 0, endsAt: it.runtime.now() + DAY, subject: null, text: "Away, too" };
    it.core.store.transact((tx) => putAbsence(tx, team, absence, it.runtime.now()));
    await it.api.post("/send", { from: ALICE, to: "team@example.test", subject: "Oak", text: "Hi" });
    await it.server.settled();
    expect(it.stored(it.owner.mailboxId).map(({ kind, subject }) => [kind, subject])).toEqual([
      ["sent", "Oak"],
      ["received", "Auto: Oak"],
    ]);
    expect(it.stored(team)).toHaveLength(1);
  });

  test("is not told about spam, nor about what a rule throws away", async () => {
    const it = await world();
    it.absent();
    it.rule(it.owner.mailboxId, { match: "subject:oak", actions: [{ type: "trash" }] });
    await it.arrive({ subject: "Oak" });
    expect(it.sent()).toEqual([]);
  });

  test("that cannot be delivered is no notice", async () => {
    const it = await world({ rcpt: "550 5.7.1 no" });
    it.absent();
    await it.arrive({});
    expect(it.sent()).toHaveLength(1);
    expect(it.stored(it.owner.mailboxId)).toHaveLength(1);
    expect(it.told()).toEqual(["message.inbound"]);
  });

  test("whom it was told to is forgotten after a week", async () => {
    const it = await world();
    it.absent();
    await it.arrive({});
    expect(it.core.store.db.select().from(absenceReplies).all()).toHaveLength(1);
    await it.advance(8 * DAY);
    expect(it.core.store.db.select().from(absenceReplies).all()).toEqual([]);
  });
});
