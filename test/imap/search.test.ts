/** SEARCH beside a naive evaluation over the same messages. */
import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { runs } from "../harness/runs.ts";
import { type ImapWorld, imapWorld } from "../harness/servers/imap-world.ts";

interface Known {
  uid: number;
  sequence: number;
  subject: string;
  from: string;
  to: string;
  cc: string;
  bcc: string;
  text: string;
  messageId: string;
  list: string | undefined;
  /** Epoch ms, and the zone of the sender's clock. */
  sent: number;
  zone: number;
  arrived: number;
  size: number;
  flags: string[];
  modseq: number;
  emailId: string;
  threadId: string;
}

const DAY = 86_400_000;
const HOUR = 3_600_000;
const WORDS = ["Zanzibar", "grüße", "ΑΘΗΝΑ", "東京", "plan", "a.b-c", "100%", "Straße", "x", "café", "ﬁsh"];
const FLAGS = ["\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "$Forwarded", "$MDNSent", "Work", "Gr&APwA3w-e"];
const ME = "alice@example.test";
/** Characters of a text of which the index does not know all. */
const LONG = 70_000;

let world: ImapWorld;
let client: ImapAccount;
const known: Known[] = [];
/** UIDs that `$` means. */
const saved = [3, 4, 5, 11, 12, 30];

const zoned = (at: number, zone: number): string => {
  const sign = zone < 0 ? "-" : "+";
  const hours = String(Math.abs(zone) / HOUR).padStart(2, "0");
  return new Date(at + zone).toUTCString().replace("GMT", `${sign}${hours}00`);
};

beforeAll(async () => {
  world = await imapWorld();
  const pick = <T>(of: readonly T[], i: number): T => of[i % of.length] as T;
  // Mail has numbers once a mailbox is opened.
  await (await world.client()).say("SELECT INBOX");
  for (let i = 0; i < 44; i++) {
    const isMine = i % 11 === 7;
    const one = {
      subject: `${pick(WORDS, i)} ${pick(WORDS, i * 3 + 1)} ${i}`,
      from: isMine ? `Alice <${ME}>` : `Person ${pick(["Ann", "Ben"], i)} <p${i % 7}@remote.example>`,
      to: pick([`Team <team@example.net>, ${ME}`, ME], i),
      cc: `copy${i % 3}@other.example`,
      text: `${pick(WORDS, i * 5 + 2)} and ${pick(WORDS, i * 7)}${pick(WORDS, i)}\n${"more ".repeat((i % 40) * 20)}`,
      messageId: `<m${i}.${pick(["odd", "even"], i)}@remote.example>`,
    };
    if (i === 20) one.text = `${"lorem ipsum ".repeat(LONG / 12)}\n${one.text} unZanzibar at the end`;
    const list = i % 4 === 0 ? `<list-${i % 8}.example>` : undefined;
    const bcc = isMine ? `Secret <s${i}@hidden.example>` : "";
    const [sent, zone] = [Date.UTC(2025, 11, 20 + (i % 15), (i * 5) % 24), pick([0, -11, 12], i) * HOUR];
    const headers = list ? [`List-Id: ${list}`] : [];
    const date = zoned(sent, zone);
    const encoded = `=?utf-8?B?${Buffer.from(one.subject).toString("base64")}?=`;
    const sentAs = { ...one, subject: i % 5 === 2 ? encoded : one.subject, date };
    if (isMine) {
      const octets = letter({ ...sentAs, headers: [...headers, `Bcc: ${bcc}`] }).replaceAll("\n", "\r\n");
      const app = await world.client();
      const { text } = await app.say(`APPEND Sent ${literal(octets)}`);
      const [, uid] = /APPENDUID \d+ (\d+)/.exec(text) ?? [];
      await app.say("SELECT Sent");
      await app.say(`UID MOVE ${uid} INBOX`);
    } else await world.arrive({ ...sentAs, headers });
    const arrived = world.app.runtime.now();
    const unknown = { sequence: 0, size: 0, modseq: 0, emailId: "", threadId: "" };
    known.push({ ...one, ...unknown, bcc, list, sent, zone, arrived, uid: i + 1, flags: [] });
    if (i % 3 === 0) await world.app.advance(DAY / 2);
  }
  client = await world.client();
  await client.say("SELECT INBOX");
  for (const one of known) {
    one.flags = FLAGS.filter((_, i) => (one.uid * 7 + i * 3) % 4 === 0);
    if (one.flags.length > 0) await client.say(`UID STORE ${one.uid} +FLAGS.SILENT (${one.flags.join(" ")})`);
  }
  // Some leave, so that numbers and UIDs differ.
  for (const gone of known.filter(({ uid }) => uid % 9 === 0)) known.splice(known.indexOf(gone), 1);
  for (const uid of [9, 18, 27, 36]) await client.say(`UID MOVE ${uid} Archive`);
  await client.say("SELECT INBOX");
  const { untagged } = await client.say("FETCH 1:* (UID RFC822.SIZE FLAGS MODSEQ EMAILID THREADID)");
  for (const line of untagged) {
    const [, sequence, uid, size, flags = "", modseq, emailId, threadId] =
      /^\* (\d+) FETCH \(UID (\d+) RFC822.SIZE (\d+) FLAGS \((.*?)\) MODSEQ \((\d+)\) EMAILID \((.*?)\) THREADID \((.*?)\)/.exec(
        line,
      ) ?? [];
    const one = known.find((message) => message.uid === Number(uid));
    if (!one) continue;
    const told = flags === "" ? [] : flags.split(" ");
    Object.assign(one, { sequence: Number(sequence), size: Number(size), modseq: Number(modseq), emailId, threadId });
    one.flags = told;
  }
  await client.say(`UID SEARCH RETURN (SAVE) UID ${saved.join(",")}`);
});

/** A search as it is sent, and the same in plain words. */
interface Search {
  key: string;
  matches(message: Known): boolean;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const dayOf = (ms: number): number => Math.floor(ms / DAY) * DAY;
const written = (day: number): string => {
  const date = new Date(day);
  return `${date.getUTCDate()}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()}`;
};
const has = (where: string, what: string): boolean =>
  where.normalize("NFKC").toLowerCase().includes(what.normalize("NFKC").toLowerCase());
const literal = (text: string): string => {
  const octets = Buffer.from(text).toString("latin1");
  return `{${octets.length}+}\r\n${octets}`;
};

/** Text as the index has it: without case and accents; Chinese as single characters. */
const indexed = (text: string): string =>
  text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll("ß", "ss")
    .replaceAll("ς", "σ")
    .replaceAll(/\p{sc=Han}/gu, " $& ");
const wordsIn = (text: string): string[] => indexed(text).split(/[^\p{L}\p{N}]+/u);

/**
 * A word is what words of texts begin with. Only if no text has it, is it looked for within words, as everything else is
 * always, and as in texts that the index does not know whole.
 */
function inBody({ text: where }: Known, what: string): boolean {
  if (/^[\p{L}\p{N}]+$/u.test(what) && !/\p{sc=Han}/u.test(what) && indexed(what).length >= 3) {
    const begins = (text: string): boolean => wordsIn(text).some((word) => word.startsWith(indexed(what)));
    if (known.some(({ text }) => begins(text))) return begins(where) || (where.length > LONG && has(where, what));
  }
  return has(where, what);
}

const written822 = (people: string): string =>
  people
    .split(", ")
    .map((one) => (one.includes("<") || one === "" ? one : ` <${one}>`))
    .join(", ");
const headerOf = ({ from, to, cc, subject, messageId, list, sent, zone }: Known): string[] => [
  `From: ${from}`,
  `To: ${to}`,
  `Cc: ${cc}`,
  `Subject: ${subject}`,
  `Message-ID: ${messageId}`,
  `Date: ${zoned(sent, zone)}`,
  ...(list ? [`List-Id: ${list}`] : []),
];
const inHeader = (message: Known, what: string): boolean =>
  [message.subject, ...[message.from, message.to, message.cc, message.bcc].map(written822), ...headerOf(message)].some(
    (where) => has(where, what),
  );

/** Parts of words, and whole ones. */
const needle = fc
  .tuple(
    fc.constantFrom(
      ...[
        ...WORDS,
        ...WORDS.map((word) => ` ${word}`),
        "and grüße",
        "and Zanz",
        "Person Ann",
        "remote.exam",
        "and",
        "more more",
      ],
      ...["NOWHERE", "team <team@example.net>", "<m1", "List-Id: <", "hidden", "grusse", "cafe", "unZanzibar", "lorem"],
    ),
    fc.nat(3),
    fc.nat(9),
  )
  .map(([word, from, length]) => [...word].slice(from, from + 2 + length * 3).join("") || word);
const day = fc.integer({ min: 0, max: 30 }).map((days) => Date.UTC(2025, 11, 15) + days * DAY);
const number = fc.integer({ min: 1, max: 48 });

const leaf: fc.Arbitrary<Search> = fc.oneof(
  fc.constantFrom<Search>(
    { key: "ALL", matches: () => true },
    { key: "OLD", matches: () => true },
    { key: "NEW", matches: () => false },
    { key: "RECENT", matches: () => false },
    { key: "$", matches: ({ uid }) => saved.includes(uid) },
    { key: "*", matches: ({ uid }) => uid === known.at(-1)?.uid },
    { key: "UID 90:*", matches: ({ uid }) => uid === known.at(-1)?.uid },
  ),
  fc.constantFrom("SEEN", "FLAGGED", "ANSWERED", "DELETED", "DRAFT").chain((name) =>
    fc.boolean().map((set) => ({
      key: set ? name : `UN${name}`,
      matches: ({ flags }: Known) => flags.some((flag) => flag.toUpperCase() === `\\${name}`) === set,
    })),
  ),
  fc.constantFrom("Work", "work", "Gr&APwA3w-e", "$Forwarded", "$mdnsent", "$Junk", "Nothing").chain((name) =>
    fc.boolean().map((set) => ({
      key: `${set ? "KEYWORD" : "UNKEYWORD"} ${name}`,
      matches: ({ flags }: Known) => flags.some((flag) => flag.toLowerCase() === name.toLowerCase()) === set,
    })),
  ),
  needle.chain((text) =>
    fc.constantFrom<Search>(
      { key: `SUBJECT ${literal(text)}`, matches: ({ subject }) => has(subject, text) },
      { key: `FROM ${literal(text)}`, matches: ({ from }) => has(from, text) },
      { key: `TO ${literal(text)}`, matches: ({ to }) => has(written822(to), text) },
      { key: `CC ${literal(text)}`, matches: ({ cc }) => has(written822(cc), text) },
      { key: `BCC ${literal(text)}`, matches: ({ bcc }) => has(bcc, text) },
      { key: `BODY ${literal(text)}`, matches: (message) => inBody(message, text) },
      { key: `TEXT ${literal(text)}`, matches: (message) => inBody(message, text) || inHeader(message, text) },
      { key: `HEADER list-id ${literal(text)}`, matches: ({ list }) => list !== undefined && has(list, text) },
      { key: `HEADER Subject ${literal(text)}`, matches: ({ subject }) => has(subject, text) },
      { key: `HEADER BCC ${literal(text)}`, matches: ({ bcc }) => bcc !== "" && has(bcc, text) },
    ),
  ),
  fc.nat(43).map((i) => ({
    key: `HEADER Message-ID ${literal(`<M${i}.`)}`,
    matches: ({ messageId }: Known) => has(messageId, `<m${i}.`),
  })),
  fc.constantFrom<Search>(
    { key: 'HEADER List-Id ""', matches: ({ list }) => list !== undefined },
    { key: 'HEADER Content-Type "charset=utf-8"', matches: () => true },
    { key: "HEADER Content-Type multipart", matches: () => false },
    { key: `HEADER Received "FOR <${ME}>"`, matches: ({ bcc }) => bcc === "" },
    { key: 'HEADER Bcc ""', matches: ({ bcc }) => bcc !== "" },
    { key: 'BODY ""', matches: () => true },
    { key: 'TEXT ""', matches: () => true },
  ),
  day.chain((at) =>
    fc.constantFrom<Search>(
      { key: `BEFORE ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) < at },
      { key: `ON ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) === at },
      { key: `SINCE ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) >= at },
      { key: `SENTBEFORE ${written(at)}`, matches: ({ sent, zone }) => dayOf(sent + zone) < at },
      { key: `SENTON ${written(at)}`, matches: ({ sent, zone }) => dayOf(sent + zone) === at },
      { key: `SENTSINCE ${written(at)}`, matches: ({ sent, zone }) => dayOf(sent + zone) >= at },
    ),
  ),
  // Mail arrives every half day.
  fc.integer({ min: 1, max: 24 }).chain((halves) => {
    const seconds = (halves * DAY) / 2 / 1_000;
    const laterBy = ({ arrived }: Known): number => arrived - world.app.runtime.now() + seconds * 1_000;
    return fc.constantFrom<Search>(
      { key: `YOUNGER ${seconds}`, matches: (one) => laterBy(one) >= 0 },
      { key: `OLDER ${seconds}`, matches: (one) => laterBy(one) <= 0 },
    );
  }),
  fc
    .integer({ min: 300, max: 4_500 })
    .chain((bytes) =>
      fc.constantFrom<Search>(
        { key: `LARGER ${bytes}`, matches: ({ size }) => size > bytes },
        { key: `SMALLER ${bytes}`, matches: ({ size }) => size < bytes },
      ),
    ),
  fc.tuple(number, number).chain(([a, b]) => {
    const isIn = (n: number): boolean => Math.min(a, b) <= n && n <= Math.max(a, b);
    // What is known is made after this.
    const of = (): Known | undefined => known[a % known.length];
    return fc.constantFrom<Search>(
      { key: `UID ${a}:${b}`, matches: ({ uid }) => isIn(uid) },
      { key: `${a}:${b}`, matches: ({ sequence }) => isIn(sequence) },
      {
        get key() {
          return `EMAILID ${of()?.emailId}`;
        },
        matches: ({ emailId }) => emailId === of()?.emailId,
      },
      {
        get key() {
          return `THREADID ${of()?.threadId}`;
        },
        matches: ({ threadId }) => threadId === of()?.threadId,
      },
      {
        get key() {
          return `MODSEQ ${of()?.modseq}`;
        },
        matches: ({ modseq }) => modseq >= (of()?.modseq ?? 0),
      },
    );
  }),
);

const { search } = fc.letrec<{ search: Search }>((tie) => ({
  search: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    leaf,
    tie("search").map(({ key, matches }) => ({ key: `NOT ${key}`, matches: (one: Known) => !matches(one) })),
    fc.tuple(tie("search"), tie("search")).map(([a, b]) => ({
      key: `OR ${a.key} ${b.key}`,
      matches: (one: Known) => a.matches(one) || b.matches(one),
    })),
    fc.tuple(tie("search"), tie("search")).map(([a, b]) => ({
      key: `(${a.key} ${b.key})`,
      matches: (one: Known) => a.matches(one) && b.matches(one),
    })),
  ),
}));

const numbersOf = (lines: readonly string[]): number[] => {
  const line = lines.find((one) => one.startsWith("* SEARCH")) ?? "";
  return line
    .replace(/ \(MODSEQ \d+\)$/, "")
    .split(" ")
    .slice(2)
    .map(Number);
};

test("any search finds what a look at each message finds", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(search, { minLength: 1, maxLength: 3 }), fc.boolean(), async (keys, byUid) => {
      const text = keys.map(({ key }) => key).join(" ");
      const { status, untagged } = await client.say(`${byUid ? "UID " : ""}SEARCH CHARSET UTF-8 ${text}`);
      const expected = known.filter((one) => keys.every(({ matches }) => matches(one)));
      expect([text, status, numbersOf(untagged)]).toEqual([
        text,
        "OK",
        expected.map((one) => (byUid ? one.uid : one.sequence)),
      ]);
    }),
    { numRuns: runs(300) },
  );
}, 60_000);

test("parts of words are found while the index lacks mail", async () => {
  const within = (what: string): number[] => known.filter(({ text }) => has(text, what)).map(({ uid }) => uid);
  const words = (what: string): number[] => known.filter((one) => inBody(one, what)).map(({ uid }) => uid);
  const what = WORDS.find((word) => within(word).length > words(word).length) as string;
  const found = async () => numbersOf((await client.say(`UID SEARCH BODY ${literal(what)}`)).untagged);
  expect(await found()).toEqual(words(what));
  const sqlite = world.app.core.store.db.$client;
  sqlite.run("INSERT INTO search_waiting (message_seq) SELECT max(seq) FROM messages");
  expect(await found()).toEqual(within(what));
  sqlite.run("DELETE FROM search_waiting");
});

test("of a text that is longer in UTF-8 the end is found, too", async () => {
  const { core } = world.app.opened;
  const { store } = core;
  // Thai: "น" more often than the index knows, and "มลรวน".
  const text = Buffer.concat([Buffer.alloc(40_000, 0xb9), Buffer.from(" \xc1\xc5\xc3\xc7\xb9", "latin1")]);
  const octets = [
    ...[
      "From: thai@remote.example",
      "Content-Type: text/plain; charset=windows-874",
      "Content-Transfer-Encoding: base64",
    ],
    ...["", text.toString("base64").replaceAll(/.{76}/g, "$&\r\n"), ""],
  ].join("\r\n");
  const message = await prepareMessage(Buffer.from(octets), store.blobs);
  const thai = world.member("Thai");
  const filing = { mailboxId: thai.mailboxId, receivedOn: thai.email, message, now: world.app.runtime.now() };
  await store.enqueue((tx) => fileMessage(core, tx, filing));
  const app = await world.client(thai);
  await app.say("SELECT INBOX");
  expect(numbersOf((await app.say(`SEARCH CHARSET UTF-8 BODY ${literal("มลรวน")}`)).untagged)).toEqual([1]);
});

test("drafts are found by their flag", async () => {
  const app = await world.client();
  await app.say(`APPEND Drafts (\\Draft) ${literal(letter({ from: ME, subject: "Plan" }).replaceAll("\n", "\r\n"))}`);
  await app.say("SELECT Drafts");
  expect(numbersOf((await app.say("SEARCH DRAFT")).untagged)).toEqual([1]);
  expect(numbersOf((await app.say("SEARCH UNDRAFT")).untagged)).toEqual([]);
});

describe("RFC 7162 and others", () => {
  test("MODSEQ finds what changed since, and tells the highest", async () => {
    const modseqs = async (): Promise<Map<number, number>> => {
      const { untagged } = await client.say("FETCH 1:* (UID MODSEQ)");
      const fetched = untagged.filter((line) => line.includes(" FETCH "));
      const told = fetched.map((line) => /UID (\d+) MODSEQ \((\d+)\)/.exec(line)?.slice(1).map(Number) ?? []);
      return new Map(told as [number, number][]);
    };
    const all = await modseqs();
    const sorted = [...all.values()].sort((a, b) => a - b);
    const since = sorted[20] as number;
    const expected = [...all].filter(([, modseq]) => modseq >= since);
    const most = Math.max(...all.values());
    const { untagged } = await client.say(`UID SEARCH MODSEQ ${since}`);
    expect(untagged).toEqual([`* SEARCH ${expected.map(([uid]) => uid).join(" ")} (MODSEQ ${most})`]);
    const [first] = expected;
    const { untagged: least } = await client.say(`UID SEARCH RETURN (MIN) MODSEQ ${since}`);
    expect(least[0]).toMatch(new RegExp(`UID MIN ${first?.[0]} MODSEQ ${first?.[1]}$`));
    const { untagged: counted } = await client.say(`UID SEARCH RETURN (COUNT) MODSEQ ${since}`);
    expect(counted[0]).toMatch(new RegExp(`UID COUNT ${expected.length} MODSEQ ${most}$`));
    expect((await client.say(`UID SEARCH MODSEQ ${most + 1}`)).untagged).toEqual(["* SEARCH"]);
  });

  test("other character sets are refused with those that are known", async () => {
    expect(await client.say("SEARCH CHARSET KOI8-R ALL")).toMatchObject({
      status: "NO",
      text: expect.stringContaining("[BADCHARSET (UTF-8)]"),
    });
  });
});

test("what another app moved away meanwhile is not found, and what it changed is found as it is", async () => {
  const [one, other] = [await world.client(), await world.client()];
  await world.arrive({ subject: "Goes away" });
  await world.arrive({ subject: "Stays" });
  await one.say("SELECT INBOX");
  await other.say("SELECT INBOX");
  const [away, stays] = numbersOf((await one.say("UID SEARCH OR SUBJECT goes SUBJECT stays")).untagged) as [
    number,
    number,
  ];
  for (const app of [one, other]) {
    expect(numbersOf((await app.say(`UID SEARCH UID ${away}:${stays} UNSEEN UNFLAGGED`)).untagged)).toEqual([
      away,
      stays,
    ]);
  }
  await other.say(`UID MOVE ${away} Archive`);
  await other.say(`UID STORE ${stays} +FLAGS (\\Seen Later)`);
  expect(numbersOf((await one.say(`UID SEARCH UID ${away}:${stays} SEEN KEYWORD Later`)).untagged)).toEqual([stays]);
  expect(numbersOf((await one.say(`UID SEARCH UID ${away}:${stays}`)).untagged)).toEqual([stays]);
  for (const flag of ["\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "Later"]) {
    for (const has of [true, false]) {
      await other.say(`UID STORE ${stays} ${has ? "+" : "-"}FLAGS.SILENT (${flag})`);
      const key = flag.startsWith("\\") ? flag.slice(1) : `KEYWORD ${flag}`;
      for (const app of [one, other]) {
        const { untagged } = await app.say(`UID SEARCH UID ${stays} ${key}`);
        expect([flag, has, numbersOf(untagged)]).toEqual([flag, has, has ? [stays] : []]);
      }
    }
  }
});
