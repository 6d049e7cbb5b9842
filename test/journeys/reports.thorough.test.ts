/**
 * Reports about mail that was sent, from the socket to the suppression list: who is believed (rules: Reports), and
 * that nobody learns from any of it who was a Bcc recipient (rules: Bcc).
 */
import { describe, expect, test } from "bun:test";
import { events, queueEntries } from "../../src/store/schema.ts";
import { setPassword, signIn } from "../harness/clients/browser-session.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { newSigner, type Signer, signed } from "../harness/mail/dkim-signer.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { deliverTo, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { heldReply } from "../harness/runtime.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const CAROL = "carol@remote.example";
const GRACE = "grace@hidden.example";

const recipientsDomain = newSigner("remote.example", { bits: 2_048 });
const provider = newSigner("provider.example", { bits: 2_048 });
const below = newSigner("feedback.provider.example");
const smarthost = newSigner("smart.example");
const attacker = newSigner("attacker.example");
const signers = [recipientsDomain, provider, below, smarthost, attacker];
const HERE = { txt: ["v=spf1 ip4:127.0.0.1 -all"] };

interface Sent {
  messageId: string;
  threadId: string;
}

interface Handed {
  from?: string;
  to?: string;
  helo?: string;
  signer?: Signer;
}

/** Every domain is at one scripted server, mx.provider.example, unless all goes to a smarthost. */
async function world({ script = {}, relay = false }: { script?: RemoteScript; relay?: boolean } = {}) {
  const remote = await startRemoteMx(script);
  const app = await boot(
    {},
    zone({
      "remote.example": { mx: [[10, "MX.Provider.example"]] },
      "hidden.example": { mx: [[10, "mx.provider.example"]] },
      "mx.provider.example": { a: [remote.host], ...HERE },
      "relay.smart.example": { a: [remote.host] },
      "attacker.example": HERE,
      "_dmarc.provider.example": { txt: ["v=DMARC1; p=none"] },
      ...Object.fromEntries(signers.map(({ domain, record }) => [`s._domainkey.${domain}`, { txt: [record] }])),
    }),
  );
  const { store, options } = app.core;
  deliverTo(remote, app.core);
  if (relay) store.transact((tx) => options.set(tx, "smtp.relay", `smtp://relay.smart.example:${remote.port}`));

  async function send(fields: { to?: string; bcc?: string } = { to: CAROL }): Promise<Sent> {
    const { status, body } = await app.api.post<Sent>("/send", {
      from: ALICE,
      subject: "Plans",
      text: "Lunch?",
      ...fields,
    });
    expect(status).toBe(202);
    await app.server.settled();
    return body;
  }

  /** A mail from outside; the last reply. */
  async function hand(mail: string, { from = "", to = ALICE, helo = "mail.attacker.example", signer }: Handed = {}) {
    const client = await connectSmtp(app.mx, { ehlo: false });
    await client.command(`EHLO ${helo}`);
    const text = mail.replaceAll("\n", "\r\n");
    const reply = await heldReply(
      app.runtime,
      client.deliver({ from, to }, (signer ? signed(text, signer) : text).replace(/\r\n$/, "")),
    );
    client.destroy();
    return reply;
  }

  return {
    ...app,
    remote,
    send,
    hand,
    /** Lists the bounces and complaints that were announced, each with its recipient. */
    told: () =>
      store.db
        .select()
        .from(events)
        .orderBy(events.seq)
        .all()
        .flatMap(({ event, data }) =>
          event === "message.bounced" || event === "message.complaint"
            ? [`${event} ${(data as { recipient: string }).recipient}`]
            : [],
        ),
    writesTo: async (to: string) => (await app.api.post("/send", { from: ALICE, to, text: "Again" })).status,
    inbox: async () =>
      (await app.api.get<{ messages: { subject: string }[] }>("/messages?folder=inbox")).body.messages.map(
        ({ subject }) => subject,
      ),
  };
}

let count = 0;
const reportOf = (
  kind: string,
  type: string,
  fields: string[],
  { messageId }: Pick<Sent, "messageId">,
  text = "Sorry.",
) =>
  [
    "From: MAILER-DAEMON@elsewhere.example",
    `To: ${ALICE}`,
    "Subject: A report",
    "Date: Mon, 05 Jan 2026 08:00:00 +0000",
    `Message-ID: <report-${++count}@elsewhere.example>`,
    "MIME-Version: 1.0",
    `Content-Type: multipart/report; report-type=${kind}; boundary="part"`,
    "",
    "--part",
    "Content-Type: text/plain",
    "",
    text,
    "",
    "--part",
    `Content-Type: message/${type}`,
    "",
    ...fields,
    "",
    "--part",
    "Content-Type: text/rfc822-headers",
    "",
    `Message-ID: ${messageId}`,
    "",
    "--part--",
    "",
  ].join("\n");

const bounceOf = (sent: Sent, recipient = CAROL, text?: string) =>
  reportOf(
    "delivery-status",
    "delivery-status",
    ["Reporting-MTA: dns; x", "", `Final-Recipient: rfc822; ${recipient}`, "Action: failed", "Status: 5.1.1"],
    sent,
    text,
  );
const complaintOf = (sent: Sent, recipient = CAROL) =>
  reportOf(
    "feedback-report",
    "feedback-report",
    ["Feedback-Type: abuse", "Version: 1", `Original-Rcpt-To: <${recipient}>`],
    sent,
  );

describe.each([
  ["a bounce", bounceOf, `message.bounced ${CAROL}`],
  ["a complaint", complaintOf, `message.complaint ${CAROL}`],
] as const)("%s that names the Message-ID", (_, report, event) => {
  test.each<[name: string, handed: Handed]>([
    ["nobody", {}],
    ["another domain, signed", { signer: attacker }],
    ["another domain, by its reverse-path", { from: "fbl@attacker.example" }],
    ["another domain, by its name", { helo: "attacker.example" }],
    ["the recipient's domain, wrongly signed", { signer: { ...attacker, domain: "remote.example" } }],
    ["the recipient's domain, from elsewhere", { from: "postmaster@remote.example" }],
  ])("from %s: nothing comes of it, and it is filed", async (_name, handed) => {
    const it = await world();
    const sent = await it.send();
    await it.hand(report(sent), handed);
    expect([it.told(), await it.writesTo(CAROL), await it.inbox()]).toEqual([[], 202, ["A report"]]);
  });

  test.each<[name: string, handed: Handed]>([
    ["the recipient's domain, signed", { signer: recipientsDomain }],
    ["the domain of the host that accepted it, signed", { signer: provider }],
    ["another of that domain's, signed", { signer: below }],
    ["the host that accepted it, by its name", { helo: "mx.provider.example" }],
    ["the host that accepted it, by the reverse-path", { from: "fbl@mx.provider.example" }],
  ])("from %s: it counts once, however often it comes", async (_name, handed) => {
    const it = await world();
    const sent = await it.send();
    for (let time = 0; time < 2; time++) await it.hand(report(sent), handed);
    expect([it.told(), await it.writesTo(CAROL)]).toEqual([[event], 422]);
  });

  test("to the message's own return path: it counts, whoever it is from", async () => {
    const it = await world();
    const sent = await it.send();
    await it.hand(report(sent), { to: it.remote.messages[0]?.from ?? "" });
    expect([it.told(), await it.writesTo(CAROL)]).toEqual([[event], 422]);
  });

  test("to the return path of another message: nothing comes of it", async () => {
    const it = await world();
    const sent = await it.send();
    await it.send({ to: "dave@remote.example" });
    await it.hand(report(sent), { to: it.remote.messages[1]?.from ?? "" });
    expect([it.told(), await it.writesTo(CAROL)]).toEqual([[], 202]);
  });

  test("through a smarthost: it is the host that accepted it, and the recipient's MX is not", async () => {
    const it = await world({ relay: true });
    const sent = await it.send();
    expect(it.core.store.db.select().from(queueEntries).all()).toMatchObject([{ acceptedBy: "relay.smart.example" }]);
    await it.hand(report(sent), { signer: provider });
    expect(it.told()).toEqual([]);
    await it.hand(report(sent), { signer: smarthost });
    expect([it.told(), await it.writesTo(CAROL)]).toEqual([[event], 422]);
  });

  test("of mail that was delivered here: nothing comes of it", async () => {
    const it = await world();
    const sent = await it.send({ to: ALICE });
    await it.hand(report(sent, ALICE), { signer: recipientsDomain });
    expect([it.told(), await it.writesTo(ALICE)]).toEqual([[], 202]);
  });
});

describe("a Bcc recipient", () => {
  const REFUSED: RemoteScript = {
    rcpt: ({ address }) =>
      address.includes("grace") ? "550 5.1.1 <grace@hidden.example>: gone, wrote alice" : undefined,
  };

  /** Everything that Ann, who is an admin, is shown. */
  async function seenByAdmin(it: Booted): Promise<string> {
    const { store } = it.core;
    const { userId, key } = it.join("ann@example.test", "admin", { name: "Ann" });
    await setPassword(it, userId);
    const page = await signIn(it, "ann@example.test");
    const shown = await Promise.all(["/settings/suppressions", "/settings/queue"].map((path) => page.get(path)));
    const { body } = await it.apiWith(key).get<{ threads: { id: string }[] }>("/threads?folder=all");
    const threads = await Promise.all(body.threads.map(({ id }) => it.apiWith(key).get(`/threads/${id}`)));
    const refused = await it.apiWith(key).post("/send", { from: "ann@example.test", to: GRACE, text: "Hello" });
    expect(refused.status).toBe(422);
    return JSON.stringify([shown, threads, refused.body, store.db.select({ data: events.data }).from(events).all()]);
  }

  test.each<[name: string, fail: (it: Awaited<ReturnType<typeof world>>) => Promise<unknown>]>([
    ["who is refused", async (it) => it.send({ to: CAROL, bcc: GRACE })],
    [
      "of whom a bounce comes later",
      async (it) => {
        it.remote.script({ rcpt: undefined });
        await it.send({ to: CAROL, bcc: GRACE });
        const bounce = bounceOf({ messageId: "", threadId: "" }, GRACE, "<grace@hidden.example>: gone, wrote alice");
        await it.hand(bounce, { to: it.remote.messages[0]?.from ?? "" });
      },
    ],
    [
      "who complains",
      async (it) => {
        it.remote.script({ rcpt: undefined });
        const sent = await it.send({ to: CAROL, bcc: GRACE });
        const complaint = complaintOf(sent, GRACE).replace("abuse", "abuse-of-alice");
        await it.hand(complaint, { to: it.remote.messages[0]?.from ?? "" });
      },
    ],
  ])("%s is suppressed for all, as any other address: without a word about why", async (_name, fail) => {
    const it = await world({ script: REFUSED });
    await fail(it);
    const seen = await seenByAdmin(it);
    const suppression = /"address\\*":\\*"grace@hidden\.example\\*",\\*"reason\\*":\\*"(?:hard bounce|complaint)\\*"/;
    expect(seen).toMatch(suppression);
    expect(seen).not.toMatch(/wrote alice|gone|5\.1\.1|of-alice/);
  });

  test("is told to nobody who sends reports: what is filed and what is not is answered alike", async () => {
    const it = await world();
    const sent = await it.send({ to: CAROL, bcc: GRACE });
    const { from: returnPath = "" } = it.remote.messages[0] ?? {};
    const mails: [mail: string, handed: Handed][] = [
      [bounceOf(sent), { signer: attacker }],
      [bounceOf(sent, CAROL, `Also for ${GRACE}.`), { signer: attacker }],
      [bounceOf(sent, GRACE), { signer: attacker }],
      [bounceOf(sent, "nobody@nowhere.example"), { signer: attacker }],
      ["Subject: Away\n\nUntil Monday.\n", { to: returnPath }],
      [`Subject: Away\n\nSo is ${GRACE}.\n`, { to: returnPath }],
    ];
    const replies = new Set<string>();
    for (const [mail, handed] of mails) {
      const before = it.runtime.now();
      const { code, lines } = await it.hand(mail, handed);
      replies.add(`${code} ${lines} after ${it.runtime.now() - before} ms`);
    }
    expect([...replies]).toEqual([expect.stringMatching(/^250 .*report taken.* after 1000 ms$/)]);
    expect(await it.inbox()).toEqual(["Away", "A report"]);
  });
});
