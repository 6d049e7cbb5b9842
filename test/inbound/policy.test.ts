/** The disposition of mail from other servers by authentication (rules: DMARC, Spam), from the socket to the API. */
import { describe, expect, test } from "bun:test";
import { chooseDisposition } from "../../src/inbound/data.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { fileTransferred } from "../../src/mailbox/filing/transfer.ts";
import { events, queueEntries } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { newSigner, signed } from "../harness/mail/dkim-signer.ts";
import { type Letter, letter } from "../harness/mail/mail.ts";
import { type Records, type Zone, zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot, type Person } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";

const dmarc = (policy: string): Records => ({ txt: [`v=DMARC1; ${policy}`] });
const signer = newSigner("strict.example");
const ZONE: Zone = {
  "_dmarc.strict.example": dmarc("p=reject"),
  "s._domainkey.strict.example": { txt: [signer.record] },
  "_dmarc.careful.example": dmarc("p=quarantine"),
  "_dmarc.lax.example": dmarc("p=none; sp=reject"),
  "_dmarc.never.example": dmarc("p=reject; pct=0"),
  "_dmarc.rarely.example": dmarc("p=quarantine; pct=0"),
  "good.example": { txt: ["v=spf1 ip4:127.0.0.1 -all"] },
  "_dmarc.good.example": dmarc("p=reject"),
  "_dmarc.example.test": dmarc("p=reject"),
  "plain.example": {},
};

interface Message {
  id: string;
  threadId: string;
  from: { email: string };
  auth?: { spf: string; dkim: string; dmarc: string };
}

const HOSTNAME = { MAILROOM_HOSTNAME: "mx.example.test" };

let shared: Promise<Booted> | undefined;
let people = 0;

/** A mailbox of its own in an appliance that tests share. `more`: records of names that no other test asks about. */
async function world(more: Zone = {}) {
  Object.assign(ZONE, more);
  shared ??= boot(HOSTNAME, zone(ZONE));
  const app = await shared;
  return inMailbox(app, app.join(`person${++people}@example.test`));
}

/** The mailbox of the owner of a new appliance. */
async function ownWorld(description: Zone = ZONE) {
  const app = await boot(HOSTNAME, zone(description));
  const { mailboxId, apiKey } = app.owner;
  return inMailbox(app, { email: "alice@example.test", mailboxId, key: apiKey });
}

function inMailbox(app: Booted, { email, mailboxId, key }: Pick<Person, "email" | "mailboxId" | "key">) {
  const api = app.apiWith(key);

  /** The reply to DATA, without its text. */
  async function deliver(
    given: Omit<Letter, "to"> & { to?: string | string[]; from: string; reversePath?: string },
    make: (message: string) => string = (message) => message,
  ): Promise<string> {
    const { reversePath = "list@unknown.example", to = email, ...fields } = given;
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.unknown.example");
    const message = make(letter(fields).replaceAll("\n", "\r\n"));
    const { code, lines } = await client.deliver({ from: reversePath, to }, message.replace(/\r\n$/, ""));
    client.destroy();
    return `${code} ${lines[0]?.split(" ")[0]}`;
  }

  /** The newest message of a folder, as the API has it. */
  async function newest(folder: string): Promise<Message | undefined> {
    const { body } = await api.get<{ messages: { id: string }[] }>(
      `/messages${folder === "all" ? "" : `?folder=${folder}`}`,
    );
    const [first] = body.messages;
    return first && (await api.get<{ message: Message }>(`/messages/${first.id}`)).body.message;
  }

  const raw = async (folder: string): Promise<string> =>
    Buffer.from((await api.bytes(`/messages/${(await newest(folder))?.id}/raw`)).body).toString();

  return { ...app, email, mailboxId, api, deliver, newest, raw, isSpam: () => isSpamOf(app, email) };
}

/** The isSpam of every message.inbound of a mailbox so far. */
const isSpamOf = ({ core }: Booted, email: string): unknown[] =>
  core.store.db
    .select()
    .from(events)
    .all()
    .flatMap(({ event, data }) => {
      const { mailbox, isSpam } = data as { mailbox: string; isSpam: boolean };
      return event === "message.inbound" && mailbox === email ? [isSpam] : [];
    });

describe("a message that fails", () => {
  test("p=reject is refused at DATA, and nothing is filed or announced", async () => {
    const { deliver, newest, isSpam } = await world();
    expect(await deliver({ from: "ceo@strict.example" })).toBe("550 5.7.1");
    expect(await deliver({ from: "ceo@sub.lax.example" })).toBe("550 5.7.1");
    expect([await newest("all"), await newest("spam"), isSpam()]).toEqual([undefined, undefined, []]);
  });

  test.each([
    ["refused though a key appended the message before", true, "550 5.7.1"],
    ["accepted again where the mailbox has the message", false, "250 2.6.0"],
  ])("p=reject is %s", async (_, byKey, reply) => {
    const { opened, email, mailboxId, deliver } = await world();
    const given = { from: "ceo@strict.example", messageId: "<twice@strict.example>" };
    const octets = Buffer.from(letter(given).replaceAll("\n", "\r\n").replace(/\r\n$/, ""));
    const { core } = opened;
    const { store } = core;
    const message = await prepareMessage(octets, store.blobs);
    const place = { folder: "inbox", read: false, starred: false, labels: [], receivedAt: 0 } as const;
    const kept = {
      ...place,
      mailboxId,
      message,
      kind: "received",
      receivedOn: email,
    } as const;
    await store.enqueue((tx) => fileTransferred(core, tx, { ...kept, byKey }));
    expect(await deliver(given)).toBe(reply);
  });

  test("p=reject is filed to spam where spam.rejectDmarc is false", async () => {
    const it = await ownWorld();
    it.core.store.transact((tx) => it.core.options.set(tx, "spam.rejectDmarc", "false"));
    expect(await it.deliver({ from: "ceo@strict.example" })).toBe("250 2.6.0");
    expect((await it.newest("spam"))?.auth).toEqual({ spf: "none", dkim: "none", dmarc: "fail" });
    expect(it.isSpam()).toEqual([true]);
  });

  test.each([
    ["p=quarantine", "a@careful.example", "spam", "fail"],
    ["p=none", "a@lax.example", "inbox", "fail"],
    ["p=reject, of none of them", "a@never.example", "spam", "fail"],
    ["p=quarantine, of none of them", "a@rarely.example", "inbox", "fail"],
    ["nothing that is published", "a@unknown.example", "inbox", "none"],
  ])("%s", async (_, from, folder, verdict) => {
    const { deliver, newest, isSpam } = await world();
    expect(await deliver({ from })).toBe("250 2.6.0");
    expect(await newest(folder)).toMatchObject({ auth: { dmarc: verdict } });
    expect(isSpam()).toEqual([folder === "spam"]);
  });

  test("p=quarantine joins only conversations in spam", async () => {
    const { deliver, newest, isSpam } = await world();
    await deliver({ from: "a@lax.example", messageId: "<first@lax.example>" });
    await deliver({ from: "a@careful.example", headers: ["In-Reply-To: <first@lax.example>"], subject: "Re: Hello" });
    expect(isSpam()).toEqual([false, true]);
    expect((await newest("inbox"))?.id).not.toBe((await newest("spam"))?.id);
  });

  test("p=reject applies to our own domain, from outside", async () => {
    const { deliver } = await world();
    const from = "alice@example.test";
    expect(await deliver({ from, reversePath: from })).toBe("550 5.7.1");
  });

  test("p=reject is accepted for postmaster and abuse, and then for all recipients, into spam", async () => {
    const { deliver, newest, isSpam } = await ownWorld();
    for (const to of [
      "postmaster@example.test",
      "Abuse@example.test",
      ["alice@example.test", "postmaster@example.test"],
    ]) {
      expect(await deliver({ from: "ceo@strict.example", to })).toBe("250 2.6.0");
    }
    expect((await newest("spam"))?.auth?.dmarc).toBe("fail");
    expect(isSpam()).toEqual([true, true, true]);
  });
});

describe("a From domain that looks like another", () => {
  const UNSEEN = ["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufe0f", "\u034f", "\u202e"];
  const MAPPED: [name: string, domain: string][] = [
    ...UNSEEN.map((character): [string, string] => [
      `with U+${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
      `str${character}ict.example`,
    ]),
    ["in full-width letters", "\uff53trict.example"],
    ["in mathematical letters", "\u{1d42c}trict.example"],
    ["with a long s", "\u017ftrict.example"],
    ["parted by U+3002", "strict\u3002example"],
    ["parted by U+ff0e", "strict\uff0eexample"],
    ["parted by U+ff61", "strict\uff61example"],
    ["ended by U+3002", "strict.example\u3002"],
  ];

  test.each(MAPPED)("%s counts as the other: refused where the other asks for that", async (_, domain) => {
    const { deliver, isSpam } = await world();
    for (const from of [`ceo@${domain}`, `The CEO <ceo@${domain}>`, `ceo@sub.${domain.toUpperCase()}`]) {
      expect(await deliver({ from })).toBe("550 5.7.1");
    }
    expect(isSpam()).toEqual([]);
  });

  test.each(MAPPED)(
    "%s is spam whatever that one publishes, and shown, searched and answered as it is judged",
    async (_, domain) => {
      const it = await world();
      const plain = domain.replace("example", "plain.example");
      expect(await it.deliver({ from: `ceo@${plain}` })).toBe("250 2.6.0");
      expect(await it.newest("spam")).toMatchObject({
        from: { email: "ceo@strict.plain.example" },
        auth: { dmarc: "none" },
      });
      expect(it.isSpam()).toEqual([true]);
    },
  );

  test("is spam even when the other authenticates it", async () => {
    const { deliver, newest } = await world();
    expect(await deliver({ from: "a@go\u00adod.example", reversePath: "a@good.example" })).toBe("250 2.6.0");
    expect(await newest("spam")).toMatchObject({
      from: { email: "a@good.example" },
      auth: { spf: "pass", dmarc: "pass" },
    });
  });

  test.each<[name: string, headers: { from: string; headers?: string[] }]>([
    ["one of several authors", { from: "a@unknown.example, ceo@str\u00adict.example" }],
    ["the member of a group", { from: "Board: ceo@str\u00adict.example;" }],
    ["in another From field", { from: "a@unknown.example", headers: ["From: ceo@str\u00adict.example"] }],
    ["with a comment in it", { from: "ceo@str\u00adict(a comment).example" }],
    ["with a comment in it, in angle brackets", { from: "<ceo@str(a comment)\u00adict.example>" }],
    ["with a space that is none", { from: "<ceo@str\u00a0ict.example>" }],
    ["with a byte order mark", { from: "<ceo@str\ufeffict.example>" }],
    ["behind a source route", { from: "<@relay.example:ceo@str\u00adict.example>" }],
    ["in Sender, where From names nobody", { from: "", headers: ["Sender: ceo@str\u00adict.example"] }],
  ])("%s", async (_, fields) => {
    const { deliver, isSpam } = await world();
    expect(await deliver(fields)).toBe("550 5.7.1");
    expect(isSpam()).toEqual([]);
  });

  test("a Sender beside a From is not shown, and not checked", async () => {
    const { deliver, newest } = await world();
    expect(await deliver({ from: "a@unknown.example", headers: ["Sender: ceo@str\u00adict.example"] })).toBe(
      "250 2.6.0",
    );
    expect(await newest("inbox")).toMatchObject({ from: { email: "a@unknown.example" } });
  });

  test.each<[name: string, from: string, shown: string]>([
    ["an A-label of unseen characters", "ceo@xn--strict-dja.example", "ceo@xn--strict-dja.example"],
    ["an A-label that is none", "ceo@xn--zz.example", "ceo@xn--zz.example"],
    ["a character that no name has", "ceo@str\u2024ict.example", "ceo@str\ufffdict.example"],
    [
      "an encoded word in full-width letters",
      "ceo@=?utf-8?q?str=EF=BC=89?=.example\uff0e",
      "ceo@=?utf-8?q?str=EF=BC=89?=.example",
    ],
  ])("mail from a malformed domain is spam, and the domain is shown as malformed: %s", async (_, from, shown) => {
    const { deliver, newest, isSpam } = await world();
    expect(await deliver({ from })).toBe("250 2.6.0");
    expect(await newest("spam")).toMatchObject({ from: { email: shown } });
    expect(isSpam()).toEqual([true]);
  });

  test.each<[from: string]>([
    ["<ceo@lax.example,@good.example>"],
    ['"x" <ceo@lax.example "<a@good.example>'],
    ["ceo@lax.example(a comment)@good.example"],
    ['"ceo@lax.example"@good.example'],
  ])("mail from what looks like another address is spam, although its own domain passes: %s", async (from) => {
    const { deliver, isSpam } = await world();
    expect(await deliver({ from, reversePath: "a@good.example" })).toBe("250 2.6.0");
    expect(isSpam()).toEqual([true]);
  });

  test("a name that contains another address is not shown, wherever it stands", async () => {
    const { deliver, newest, isSpam } = await world();
    const name = '"ceo@lax.example" ';
    const given = { from: `${name}<a@good.example>`, reversePath: "a@good.example" };
    await deliver({ ...given, headers: [`Reply-To: ${name}<b@good.example>`, `Cc: ${name}<c@good.example>`] });
    expect(isSpam()).toEqual([false]);
    expect(await newest("inbox")).toMatchObject({
      from: { email: "a@good.example" },
      cc: [{ email: "c@good.example" }],
      auth: { dmarc: "pass" },
    });
    expect((await newest("inbox"))?.from).not.toHaveProperty("name");
  });

  test("an encoded word is not decoded, so it names no other domain", async () => {
    const { deliver, newest } = await world();
    expect(await deliver({ from: "ceo@=?utf-8?q?str=C2=ADict?=.example" })).toBe("250 2.6.0");
    expect((await newest("all"))?.from.email).toBe("ceo@=?utf-8?q?str=C2=ADict?=.example");
    expect(await deliver({ from: "=?utf-8?q?ceo=40strict.example?=" })).toBe("250 2.6.0");
    expect((await newest("all"))?.from).toEqual({ email: "unknown@unknown.invalid" });
  });

  test("case, composition, a final dot and an A-label do not count as a disguise", async () => {
    const { deliver, newest, isSpam } = await world({ "_dmarc.xn--bcher-kva.example": dmarc("p=reject") });
    for (const from of [
      "a@UNKNOWN.Example",
      "a@bu\u0308cher.org.example",
      "a@B\u00dcCHER.org.example",
      "a@xn--bcher-kva.org.example",
      "a@STRA\u1e9eE.example",
      "a@\u0392\u039f\u039b\u039f\u03a3.example",
      "a@unknown.example.",
    ]) {
      expect(await deliver({ from })).toBe("250 2.6.0");
    }
    expect(isSpam()).toEqual([false, false, false, false, false, false, false]);
    expect((await newest("inbox"))?.from.email).toBe("a@unknown.example");
    for (const from of ["ceo@STRICT.example.", "ceo@b\u00fccher.example", "ceo@BU\u0308CHER.example."]) {
      expect(await deliver({ from })).toBe("550 5.7.1");
    }
  });

  test("readers search for and answer the author that they see", async () => {
    const it = await ownWorld();
    await it.deliver({ from: "ceo@pl\u00adain.example", headers: ["Reply-To: chief@oth\u200ber\u3002example"] });
    for (const q of ["from:ceo@plain.example", "from:ceo@pl\u00adain.example"]) {
      const path = `/search?folder=spam&q=${encodeURIComponent(q)}`;
      expect((await it.api.get<{ threads: unknown[] }>(path)).body.threads).toHaveLength(1);
    }
    const { threadId } = (await it.newest("spam")) ?? {};
    expect((await it.api.post(`/threads/${threadId}/reply`, { text: "Who are you?" })).status).toBe(202);
    const { db } = it.core.store;
    expect(db.select({ recipient: queueEntries.recipient }).from(queueEntries).all()).toEqual([
      { recipient: "chief@other.example" },
    ]);
  });

  test("hidden characters of a local part are shown, and no reply can go to the address", async () => {
    const it = await ownWorld();
    await it.deliver({ from: "c\u200beo@plain.example" });
    const { threadId, from } = (await it.newest("inbox")) ?? {};
    expect(from).toEqual({ email: "c\ufffdeo@plain.example" });
    expect((await it.api.get<{ threads: unknown[] }>("/search?q=from:ceo@plain.example")).body.threads).toEqual([]);
    const { status, body } = await it.api.post(`/threads/${threadId}/reply`, { text: "Who are you?" });
    expect([status, body.error]).toEqual([422, expect.stringContaining("c\ufffdeo@plain.example")]);
    for (const to of ["c\u200beo@plain.example", "ceo@pl\u200dain.example"]) {
      expect((await it.api.post("/send", { from: "alice@example.test", to, text: "Hello" })).status).toBe(422);
    }
    expect(it.core.store.db.select().from(queueEntries).all()).toEqual([]);
  });
});

test("a message that passes goes to the inbox with its verdicts, which its topmost field explains", async () => {
  const { deliver, newest, raw } = await world();
  expect(await deliver({ from: "ceo@strict.example" }, (text) => signed(text, signer))).toBe("250 2.6.0");
  expect((await newest("inbox"))?.auth).toEqual({ spf: "none", dkim: "pass", dmarc: "pass" });
  expect(await raw("inbox")).toMatch(/^Authentication-Results: mx\.example\.test;.*dkim=pass.*dmarc=pass/s);
  expect(await deliver({ from: "a@good.example", reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect((await newest("inbox"))?.auth).toEqual({ spf: "pass", dkim: "none", dmarc: "pass" });
});

test("forged results are removed, under any name", async () => {
  const { deliver, raw } = await world();
  await deliver({
    from: "a@careful.example",
    headers: [
      "Authentication-Results: mx.example.test; dmarc=pass header.from=careful.example",
      "AUTHENTICATION-RESULTS : MX.example.test;\n dkim=pass",
      "Authentication-Results: elsewhere.example; spf=pass",
      "X-Kept: yes",
    ],
  });
  const header = (await raw("spam")).split("\r\n\r\n")[0] ?? "";
  expect(header).toContain("X-Kept: yes");
  expect(header.match(/^authentication-results/gim)).toHaveLength(1);
  expect(header).not.toMatch(/pass|elsewhere/);
});

test("the same message with other verdicts is the same message", async () => {
  const description: Zone = { ...ZONE };
  const { deliver, advance, isSpam } = await ownWorld(description);
  const again = { from: "a@good.example", messageId: "<1@good.example>" };
  description["_dmarc.good.example"] = dmarc("p=none");
  expect(await deliver(again)).toBe("250 2.6.0");
  await advance(600_000);
  description["good.example"] = {};
  expect(await deliver({ ...again, reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect(isSpam()).toEqual([false]);
});

test("a retry of a filed message is accepted, even if it would be refused now; another message is refused", async () => {
  const { deliver, isSpam } = await world();
  const first = { from: "a@good.example", messageId: "<1@good.example>" };
  expect(await deliver({ ...first, reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect(await deliver(first)).toBe("250 2.6.0");
  expect(await deliver({ ...first, subject: "Another" })).toBe("550 5.7.1");
  expect(isSpam()).toEqual([false]);
});

test("mail of our own people to this server is not authenticated", async () => {
  const { api, email, newest, advance } = await world();
  const sent = await api.post("/send", { from: email, to: [email], subject: "Note", text: "To me" });
  expect(sent.status).toBe(202);
  await advance(1_000);
  const received = await newest("inbox");
  expect(received).toBeDefined();
  expect(received).not.toHaveProperty("auth");
});

describe("records that zones split into strings", () => {
  const long = newSigner("long.example", { bits: 2_048, selector: "k" });
  let domains = 0;
  /** A domain that no other test asks about. */
  const newDomain = (): string => `n${++domains}.split.example`;
  const record = (strings: readonly string[]): Records => ({ txt: [strings] });

  /** The strings of a text that is cut at these places. */
  const cut = (text: string, ...places: number[]): string[] =>
    [0, ...places].map((from, n) => text.slice(from, places[n] ?? text.length));

  test.each<[string, string[]]>([
    ["255 octets and the rest", cut(long.record, 255)],
    ["anywhere", cut(long.record, 5, 6, 40, 290)],
    ["with empty strings between", ["", ...cut(long.record, 200), ""]],
  ])("a key of 2,048 bits lets mail of a p=reject domain pass by DKIM alone: %s", async (_, strings) => {
    const domain = newDomain();
    const { deliver, newest } = await world({
      [`_dmarc.${domain}`]: dmarc("p=reject; aspf=s"),
      [`k._domainkey.${domain}`]: record(strings),
    });
    expect(long.record.length).toBe(410);
    const from = `ceo@${domain}`;
    expect(await deliver({ from }, (text) => signed(text, { ...long, domain }))).toBe("250 2.6.0");
    expect(await newest("inbox")).toMatchObject({ auth: { spf: "none", dkim: "pass", dmarc: "pass" } });
    expect(await deliver({ from })).toBe("550 5.7.1");
  });

  const NETWORKS = Array.from({ length: 20 }, (_, n) => `ip4:198.51.100.${n}`).join(" ");
  const SPF = `v=spf1 ${NETWORKS} ip4:127.0.0.1 -all`;
  test.each<[string, readonly (readonly string[])[], string]>([
    ["one record over 255 octets", [cut(SPF, 255)], "pass"],
    ["one record, cut inside of its version", [cut(SPF, 3, 6, 7, 200)], "pass"],
    ["one that begins with another string", [["x ", "v=spf1 ip4:127.0.0.1 -all"]], "none"],
    ["one that begins with a space", [[" ", "v=spf1 ip4:127.0.0.1 -all"]], "none"],
    ["one of nothing but the version", [["v=spf1"]], "neutral"],
    ["another version", [["v=spf1", "0 ip4:127.0.0.1 -all"]], "none"],
    ["two records", [["v=spf1 ip4:127.0.0.1 -all"], ["v=spf1 ", "-all"]], "permerror"],
    ["a record beside others", [["other=1"], cut(SPF, 100, 300), ["x", "v=spf1 -all"]], "pass"],
  ])("SPF: %s", async (_, txt, verdict) => {
    expect(SPF.length).toBeGreaterThan(255);
    const domain = newDomain();
    const { deliver, newest } = await world({ [domain]: { txt } });
    expect(await deliver({ from: `a@${domain}`, reversePath: `a@${domain}` })).toBe("250 2.6.0");
    const [inbox, spam] = [await newest("inbox"), await newest("spam")];
    expect((inbox ?? spam)?.auth?.spf).toBe(verdict);
  });
});

describe("a resolver that is down", () => {
  test("delays a message by ten seconds at most, and never makes it fail", async () => {
    const dns = zone({}, { hold: () => new Promise(() => {}) });
    const app = await boot({}, dns);
    const untilAsked = (name: string) => until(() => dns.questions.includes(`txt ${name}`));
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.strict.example");
    const message = signed(letter({ from: "ceo@strict.example" }), signer);
    const reply = client.deliver({ from: "ceo@strict.example", to: "alice@example.test" }, message);
    await untilAsked("strict.example");
    await untilAsked("s._domainkey.strict.example");
    await app.advance(5_000);
    await untilAsked("_dmarc.strict.example");
    await app.advance(5_000);
    expect((await reply).code).toBe(250);
    const { body } = await app.api.get<{ messages: { id: string }[] }>("/messages?folder=inbox");
    const { message: filed } = (await app.api.get<{ message: Message }>(`/messages/${body.messages[0]?.id}`)).body;
    expect(filed.auth).toEqual({ spf: "temperror", dkim: "temperror", dmarc: "temperror" });
    client.destroy();
  });

  test("that refuses at once changes nothing but the verdicts", async () => {
    const app = await boot({}, zone({}, { always: "REFUSED" }));
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.strict.example");
    const { code } = await client.deliver(
      { from: "", to: "alice@example.test" },
      letter({ from: "ceo@strict.example" }),
    );
    expect(code).toBe(250);
    expect(isSpamOf(app, "alice@example.test")).toEqual([false]);
    client.destroy();
  });
});

/** The lot as a fraction of 65,536. */
const drawing = (lot: number) => ({ randomBytes: () => Uint8Array.of(lot >> 8, lot & 255) });

test.each([
  ["reject", 100, 65_535, "reject"],
  ["reject", 20, 13_107, "reject"],
  ["reject", 20, 13_108, "quarantine"],
  ["quarantine", 20, 0, "quarantine"],
  ["quarantine", 20, 65_535, "none"],
  ["quarantine", 0, 0, "none"],
  ["reject", 0, 0, "quarantine"],
  ["none", 0, 0, "none"],
] as const)("the policy %s for %d %% makes lot %d: %s", (policy, percent, lot, disposition) => {
  expect(chooseDisposition({ policy, percent }, drawing(lot))).toBe(disposition);
});
