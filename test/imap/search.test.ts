/** SEARCH beside a naive evaluation over the same messages. */
import { beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ImapAccount } from "../harness/imap-client.ts";
import { type ImapWorld, imapWorld } from "../harness/imap-world.ts";

interface Known {
  uid: number;
  sequence: number;
  subject: string;
  from: string;
  cc: string;
  text: string;
  list: string | undefined;
  /** Epoch ms. */
  sent: number;
  arrived: number;
  size: number;
  flags: string[];
}

const DAY = 86_400_000;
const WORDS = ["Zanzibar", "grüße", "ΑΘΗΝΑ", "東京", "plan", "a.b-c", "100%", "Straße", "x"];
const FLAGS = ["\\Seen", "\\Flagged", "\\Answered", "\\Deleted", "$Forwarded", "Work", "Later"];

let world: ImapWorld;
let client: ImapAccount;
const known: Known[] = [];

beforeAll(async () => {
  world = await imapWorld();
  const pick = <T>(of: readonly T[], i: number): T => of[i % of.length] as T;
  for (let i = 0; i < 40; i++) {
    const one = {
      subject: `${pick(WORDS, i)} ${pick(WORDS, i * 3 + 1)} ${i}`,
      from: `Person ${pick(["Ann", "Ben"], i)} <p${i % 7}@remote.example>`,
      cc: `copy${i % 3}@other.example`,
      text: `${pick(WORDS, i * 5 + 2)} and ${pick(WORDS, i * 7)}${pick(WORDS, i)}\n${"more ".repeat(i * 20)}`,
      list: i % 4 === 0 ? `<list-${i % 8}.example>` : undefined,
    };
    const sent = Date.UTC(2025, 11, 20 + (i % 15), 9);
    await world.arrive({
      ...one,
      date: new Date(sent).toUTCString().replace("GMT", "+0000"),
      headers: one.list ? [`List-Id: ${one.list}`] : [],
    });
    known.push({ ...one, sent, arrived: world.app.runtime.now(), uid: i + 1, sequence: 0, size: 0, flags: [] });
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
  const { untagged } = await client.say("FETCH 1:* (UID RFC822.SIZE)");
  for (const line of untagged) {
    const [, sequence, uid, size] = /^\* (\d+) FETCH \(UID (\d+) RFC822.SIZE (\d+)/.exec(line) ?? [];
    const one = known.find((message) => message.uid === Number(uid));
    if (one) Object.assign(one, { sequence: Number(sequence), size: Number(size) });
  }
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

/** Parts of words, and whole ones. */
const needle = fc
  .tuple(fc.constantFrom(...WORDS, "Person Ann", "remote.exam", "and", "more more", "NOWHERE"), fc.nat(3), fc.nat(4))
  .map(([word, from, length]) => [...word].slice(from, from + 2 + length * 3).join("") || word);
const day = fc.integer({ min: 0, max: 30 }).map((days) => Date.UTC(2025, 11, 15) + days * DAY);
const number = fc.integer({ min: 1, max: 45 });

const leaf: fc.Arbitrary<Search> = fc.oneof(
  fc.constant({ key: "ALL", matches: () => true }),
  fc.constantFrom("SEEN", "FLAGGED", "ANSWERED", "DELETED").chain((name) =>
    fc.boolean().map((set) => ({
      key: set ? name : `UN${name}`,
      matches: ({ flags }: Known) => flags.some((flag) => flag.toUpperCase() === `\\${name}`) === set,
    })),
  ),
  fc.constantFrom("Work", "Later", "$Forwarded").chain((name) =>
    fc.boolean().map((set) => ({
      key: `${set ? "KEYWORD" : "UNKEYWORD"} ${name}`,
      matches: ({ flags }: Known) => flags.includes(name) === set,
    })),
  ),
  needle.chain((text) =>
    fc.constantFrom<Search>(
      { key: `SUBJECT ${literal(text)}`, matches: ({ subject }) => has(subject, text) },
      { key: `FROM ${literal(text)}`, matches: ({ from }) => has(from, text) },
      { key: `CC ${literal(text)}`, matches: ({ cc }) => has(cc, text) },
      { key: `BODY ${literal(text)}`, matches: (message) => has(message.text, text) },
      { key: `HEADER list-id ${literal(text)}`, matches: ({ list }) => list !== undefined && has(list, text) },
    ),
  ),
  fc.constant<Search>({ key: 'HEADER List-Id ""', matches: ({ list }) => list !== undefined }),
  day.chain((at) =>
    fc.constantFrom<Search>(
      { key: `BEFORE ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) < at },
      { key: `ON ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) === at },
      { key: `SINCE ${written(at)}`, matches: ({ arrived }) => dayOf(arrived) >= at },
      { key: `SENTBEFORE ${written(at)}`, matches: ({ sent }) => dayOf(sent) < at },
      { key: `SENTON ${written(at)}`, matches: ({ sent }) => dayOf(sent) === at },
      { key: `SENTSINCE ${written(at)}`, matches: ({ sent }) => dayOf(sent) >= at },
    ),
  ),
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
    return fc.constantFrom<Search>(
      { key: `UID ${a}:${b}`, matches: ({ uid }) => isIn(uid) },
      { key: `${a}:${b}`, matches: ({ sequence }) => isIn(sequence) },
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
  return line.split(" ").slice(2).map(Number);
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
    { numRuns: 300 },
  );
}, 60_000);

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

  test("a search leaves the server to others, however long the mail is", async () => {
    for (let i = 0; i < 12; i++) await world.arrive({ subject: `Long ${i}`, text: "lorem ipsum ".repeat(80_000) });
    await client.say("NOOP");
    let ended = false;
    let turns = 0;
    const search = client.say("SEARCH BODY nowhere").then(() => {
      ended = true;
    });
    while (!ended) {
      await new Promise((resolve) => setImmediate(resolve));
      turns++;
    }
    await search;
    expect(turns).toBeGreaterThan(12);
  });
});
