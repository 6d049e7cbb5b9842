/**
 * The contract of every engine, as tables of queries and as properties; run with each of them (*.test.ts here and in
 * meilisearch/).
 */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import fc from "fast-check";
import * as schema from "../../src/store/schema.ts";
import { type Seeded, type SeedMessage, WHOLE_A } from "../harness/data/search-seed.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

/** A store with this mail, and its engine. */
export type OpenSeeded = (mail?: readonly SeedMessage[]) => Seeded;

const day = (text: string): number => Date.parse(`${text}T00:00:00Z`);
const ann = { email: "ann@example.com", name: "Ann Lee" };
const bob = { email: "bob@example.com", name: "Bob Stone" };

const MAIL: SeedMessage[] = [
  {
    thread: "invoice",
    subject: "Invoice #1234 for March",
    text: "Please pay the open amount of 99.50 EUR.",
    from: ann,
    to: [bob],
    files: ["Rechnung_März-2025.pdf"],
    date: day("2025-03-01"),
    size: 20_000,
  },
  {
    thread: "lunch",
    subject: "Lunch?",
    text: "Pay me a visit. See https://example.com/menu?day=5 for the menu.",
    from: bob,
    to: [ann],
    cc: [{ email: "carol@example.org" }],
    bcc: [{ email: "secret@example.net", name: "Hidden Person" }],
    date: day("2025-03-02"),
    size: 2_000_000,
  },
  {
    thread: "mary",
    subject: "From Mary",
    from: { email: "mary.ann@example.com.au" },
    to: [{ email: "ann+news@example.com" }],
    date: day("2024-12-31"),
  },
  {
    thread: "chinese",
    subject: "会议记录",
    text: "明天下午三点在北京开会，请准时参加。",
    from: { email: "wang@例子.example", name: "王小明" },
    date: day("2025-01-01"),
  },
  {
    thread: "japanese",
    subject: "請求書のお知らせ",
    text: "東京タワーでカタカナとひらがなを確認してください。がんばって",
    files: ["請求書.pdf"],
  },
  { thread: "korean", text: "회사에서 회의를 시작합니다" },
  { thread: "thai", text: "ที่นี่มีน้ำสะอาด กรุงเทพมหานคร" },
  { thread: "german", subject: "Grüße aus der Straße", text: "Größe, Maß und Übermut in Łódź" },
  { thread: "turkish", text: "İstanbul'da ılık bir gün" },
  { thread: "marks", text: "cafe\u0301 nai\u0308ve re\u0301sume\u0301" },
  { thread: "emoji", subject: "Party 🎉🎂", text: "👩‍💻 at work" },
  { thread: "hebrew", text: "שָׁלוֹם לכולם" },
  { thread: "arabic", text: "مرحباً بالعالم" },
  { thread: "russian", text: "Ёлка и подарки" },
  { thread: "greek", text: "Ο δρόμος του Οδυσσέα: ΟΔΟΣ" },
  { thread: "hindi", text: "नमस्ते दुनिया" },
  { thread: "wide", text: "ＦＵＬＬ ｗｉｄｔｈ ﾊﾝｶｸ" },
  { thread: "two", subject: "Alpha", text: "first of two", from: ann, date: day("2025-05-01") },
  { thread: "two", subject: "Beta", text: "second of two", from: bob, date: day("2025-06-01") },
];

/** Opened on first use: nothing starts while a file loads. */
function openOnce(open: OpenSeeded, mail: readonly SeedMessage[]): Pick<Seeded, "search" | "ranked"> {
  let opened: Seeded | undefined;
  const seeded = (): Seeded => {
    opened ??= open(mail);
    return opened;
  };
  return {
    search: (...asked) => seeded().search(...asked),
    ranked: (...asked) => seeded().ranked(...asked),
  };
}

/** `runs`: iterations of properties; 50 is usual. */
export function testContract(open: OpenSeeded, { runs }: { runs: number }): void {
  describe("matches", () => {
    const { search } = openOnce(open, MAIL);
    const all = [...new Set(MAIL.map(({ thread }) => thread))];
    const allBut = (...names: string[]) => all.filter((name) => !names.includes(name));

    const cases: [q: string, found: string[]][] = [
      // words
      ["", all],
      ["***", all],
      ["pay", ["invoice", "lunch"]],
      ["PAY amount", ["invoice"]],
      ["pa", []],
      ["1234", ["invoice"]],
      ["#1234", ["invoice"]],
      ["99.50", ["invoice"]],
      ["99,50", ["invoice"]],
      ["pay nothing", []],
      ["pay *** amount", ["invoice"]],
      // phrases
      ['"open amount"', ["invoice"]],
      ['"amount open"', []],
      ['"second of two', ["two"]],
      ["https://example.com/menu?day=5", ["lunch"]],
      ["example.com/menu", ["lunch"]],
      ['subject:"for march"', ["invoice"]],
      // not across fields, entries or messages
      ['"march please"', []],
      ['"march invoice"', []],
      ["alpha beta", []],
      ["alpha two", ["two"]],
      ["from:ann after:2025-06-01", []],
      // negation
      ["pay -amount", ["lunch"]],
      ['pay -"open amount"', ["lunch"]],
      ["-pay", allBut("invoice", "lunch")],
      ["-pay -party -from:ann@example.com", allBut("invoice", "lunch", "emoji")],
      ["-first", all],
      ["pay -pay", []],
      // addresses
      ["from:ann", ["invoice", "mary", "two"]],
      ["from:ann@example.com", ["invoice", "two"]],
      ["from:ANN@EXAMPLE.COM", ["invoice", "two"]],
      ["from:<ann@example.com>", ["invoice", "two"]],
      ['from:"Ann Lee"', ["invoice", "two"]],
      ['from:"Ann Lee <ann@example.com>"', ["invoice", "two"]],
      ["from:@example.com.au", ["mary"]],
      ["from:mary.ann@example", ["mary"]],
      ["-from:example.com pay", []],
      ["to:bob", ["invoice"]],
      ["to:ann@example.com", ["lunch"]],
      ["to:ann+news@example.com", ["mary"]],
      ["to:carol@example.org", ["lunch"]],
      ["to:carol", ["lunch"]],
      ["carol@example.org", ["lunch"]],
      ["bob@example.com", ["invoice", "lunch", "two"]],
      ["from:wang@例子.example", ["chinese"]],
      ["from:wang@xn--fsqu00a.example", ["chinese"]],
      ["from:例子", ["chinese"]],
      ["from:王小明", ["chinese"]],
      ["cc:carol", ["lunch"]],
      ["cc:Carol@example.org", ["lunch"]],
      ['cc:"carol example.org"', ["lunch"]],
      ["cc:example", ["lunch"]],
      ["cc:carol from:bob to:ann@example.com", ["lunch"]],
      ["pay -cc:carol", ["invoice"]],
      ["cc:ann", []],
      ["cc:bob@example.com", []],
      ['cc:"ann carol"', []],
      // Bcc is not searchable
      ["to:secret@example.net", []],
      ["cc:secret@example.net", []],
      ["cc:hidden", []],
      ["secret@example.net", []],
      ["hidden", []],
      // attachments
      ["has:attachment", ["invoice", "japanese"]],
      ["pay -has:attachment", ["lunch"]],
      ["rechnung_märz-2025.pdf", ["invoice"]],
      ["pdf", ["invoice", "japanese"]],
      ["hasattachment", []],
      ["filename:pdf", ["invoice", "japanese"]],
      ["filename:Rechnung", ["invoice"]],
      ['filename:"märz 2025.pdf"', ["invoice"]],
      ["filename:*.pdf pay", ["invoice"]],
      ["filename:請求", ["japanese"]],
      ["filename:march", []],
      ["pay -filename:pdf", ["lunch"]],
      // sizes
      ["larger:19999", ["invoice", "lunch"]],
      ["larger:20k", ["lunch"]],
      ["-larger:20K smaller:2M larger:0", ["invoice"]],
      ["-smaller:2M", ["lunch"]],
      ["larger:2M", []],
      ["pay smaller:2mb", ["invoice"]],
      ["pay larger:10k -filename:pdf", ["lunch"]],
      ["larger:20k after:2025-03-03", []],
      ["larger:10k before:2025-03-02", ["invoice"]],
      ["larger:999999999999G", []],
      // dates
      ["after:2025-03-02", ["lunch", "two"]],
      ["before:2025-03-02 after:2025-03-01", ["invoice"]],
      ["-after:2025-03-02 pay", ["invoice"]],
      ["-before:2025-03-02 pay", ["lunch"]],
      ["after:2025-03-01 before:2025-03-01", []],
      ["after:2025-06-01 -first", ["two"]],
      // On 3 January 2025.
      ["newer_than:2d", ["invoice", "lunch", "chinese", "two"]],
      ["newer_than:3d older_than:2d", ["mary"]],
      ["-newer_than:2d from:mary", ["mary"]],
      ["-older_than:2d 会", ["chinese"]],
      ["older_than:1y from:ann", []],
      ["older_than:1m from:nobody subject:grusse", ["german"]],
      ["before:1970-01-01", []],
      ["after:2025-01-01 before:2025-01-02 会", ["chinese"]],
      // languages
      ["北京", ["chinese"]],
      ["京北", []],
      ["三点在北", ["chinese"]],
      ["会议", ["chinese"]],
      ["会", ["chinese"]],
      ["請求書", ["japanese"]],
      ["タワー", ["japanese"]],
      ["ﾀﾜｰ", ["japanese"]],
      ["ひらがな", ["japanese"]],
      ["がんばって", ["japanese"]],
      ["かんばって", []],
      ["회의", ["korean"]],
      ["회사", ["korean"]],
      ["사회", []],
      ["กรุงเทพ", ["thai"]],
      ["น้ำ", ["thai"]],
      ["ที่นี่", ["thai"]],
      ["grusse strasse", ["german"]],
      ["STRASSE MASS", ["german"]],
      ["STRAẞE", ["german"]],
      ["lodz", ["german"]],
      ["ubermut", ["german"]],
      ["ISTANBUL", ["turkish"]],
      ["ilik", ["turkish"]],
      ["ILIK GÜN", ["turkish"]],
      ["café", ["marks"]],
      ["cafe naïve resume", ["marks"]],
      ["🎉", ["emoji"]],
      ["party🎂", []],
      ['"party 🎉 🎂"', ["emoji"]],
      ["👩", ["emoji"]],
      ["🎁", []],
      ["שלום", ["hebrew"]],
      ["مرحبا", ["arabic"]],
      ["ёлка", ["russian"]],
      ["елка ПОДАРКИ", ["russian"]],
      ["δρομος οδοσ", ["greek"]],
      ["नमस्ते", ["hindi"]],
      ["full width ハンカク", ["wide"]],
    ];
    for (const [q, found] of cases) test(q || "(empty)", async () => expect(await search(q)).toEqual(found));
  });

  describe("relevance", () => {
    const long = "and so on, one line after the other, to nobody's great surprise";
    const maple = { email: "maple@example.com" };
    const { ranked } = openOnce(open, [
      { thread: "file", files: ["maple.pdf"] },
      { thread: "text", text: `maple ${long}` },
      { thread: "recipient", to: [maple] },
      { thread: "sender", from: maple },
      { thread: "subject", subject: "maple" },
      { thread: "elsewhere", subject: "maple maple", mailbox: "mbx_b1" },
      { thread: "both", subject: "oak", text: "birch" },
      { thread: "apart", text: "oak birch" },
      { thread: "answered", subject: "elm", text: long, date: day("2025-01-01") },
      { thread: "answered", text: `${long} elm ${long}`, date: day("2025-02-01") },
      { thread: "asked", text: `elm ${long}`, date: day("2025-02-01") },
      { thread: "inside", text: `silver lime ${long}` },
      { thread: "titled", subject: "Silver lime", text: long },
      { thread: "reversed", subject: "Lime, silver" },
      { thread: "excluded", subject: "fir", text: "cone" },
      { thread: "excluded", text: `fir ${long} ${long}` },
      { thread: "kept", text: "fir" },
    ]);
    const cases: [q: string, order: string[]][] = [
      // Subject outranks sender, recipient, text and file name.
      ["maple", ["subject", "sender", "recipient", "text", "file"]],
      ["maple -pdf", ["subject", "sender", "recipient", "text"]],
      ["oak birch", ["both", "apart"]],
      ['"silver lime"', ["titled", "inside"]],
      // A conversation ranks by its best message that satisfies the query.
      ["elm", ["answered", "asked"]],
      ["elm -cone after:2025-01-15", ["asked", "answered"]],
      ["fir -cone", ["kept", "excluded"]],
      ["fir", ["excluded", "kept"]],
      ["nowhere", []],
    ];
    test.each(cases)("%s: %j", async (q, order) => expect(await ranked(q)).toEqual(order));

    test("covers only found conversations within the scope", async () => {
      expect(await ranked("maple", { mailboxIds: ["mbx_b1"] })).toEqual(["elsewhere"]);
      expect(await ranked("maple", { mailboxIds: ["mbx_a2"] })).toEqual([]);
      expect(await ranked("maple label:none", { mailboxIds: [] })).toEqual([]);
    });
  });

  describe("access", () => {
    const { search } = openOnce(open, [
      { thread: "a1", mailbox: "mbx_a1", text: "shared word", files: ["f"], date: 5 },
      { thread: "a2", mailbox: "mbx_a2", text: "shared word mbx_a1 mbxa1 \ue100mbxa1 \ue100wspb", date: 5 },
      { thread: "b1", mailbox: "mbx_b1", subject: "\ue100mbxa1 \ue100wspa", text: "shared word wspa wsp_a", date: 5 },
    ]);
    const queries = [
      "shared",
      "",
      "-nothing",
      "shared -nothing",
      '"shared word"',
      "after:1970-01-01",
      "before:1980-01-01 shared",
      "has:attachment shared",
    ];

    for (const q of queries) {
      const narrowed = (threads: string[]) =>
        q.startsWith("has:") ? threads.filter((thread) => thread === "a1") : threads;
      test(`only mail in scope: ${q || "(empty)"}`, async () => {
        expect(await search(q, WHOLE_A)).toEqual(narrowed(["a1", "a2"]));
        expect(await search(q, { mailboxIds: ["mbx_a1"] })).toEqual(narrowed(["a1"]));
        expect(await search(q, { mailboxIds: ["mbx_a1", "mbx_b1"] })).toEqual(narrowed(["a1", "b1"]));
        expect(await search(q, { mailboxIds: ["mbx_b1"], workspaceId: "wsp_b" })).toEqual(narrowed(["b1"]));
        expect(await search(q, { mailboxIds: ["mbx_a1", "mbx_a2", "mbx_b1"] })).toEqual(narrowed(["a1", "a2", "b1"]));
        expect(await search(q, { mailboxIds: ["mbx_a"] })).toEqual([]);
        expect(await search(q, { mailboxIds: [] })).toEqual([]);
      });
    }

    test("ids are not words", async () => {
      expect(await search("mbxa1", WHOLE_A)).toEqual(["a2"]);
      expect(await search("\ue100mbxa1", WHOLE_A)).toEqual(["a2"]);
      expect(await search("wspa", WHOLE_A)).toEqual([]);
    });

    test("a great many mailboxes", async () => {
      const mailboxIds = [...Array.from({ length: 5_000 }, (_, i) => `mbx_${i}`), "mbx_a2"];
      expect(await search("shared", { mailboxIds })).toEqual(["a2"]);
      expect(await search("after:1970-01-01", { mailboxIds })).toEqual(["a2"]);
    });
  });

  describe("no text is syntax", () => {
    const { search } = openOnce(open, MAIL);
    const texts = [
      'pay" OR "1',
      "pay' OR 1=1 --",
      "'); DROP TABLE messages; --",
      "pay) OR (pay",
      "NEAR(pay amount, 5)",
      "pay*",
      "^pay",
      "{subject}:pay",
      "scope:mbx",
      "subject : pay + amount",
      "pay NOT amount",
      "AND",
      "OR OR OR",
      "NOT",
      "-",
      "-()",
      '"""""',
      "\\",
      "%_?",
      "\0pay\0",
      "body:",
      "rowid:1",
      "message_index",
      '-"',
      ":::",
      "from::",
      'pay\u0000" OR "x',
      "\ue100wspb",
      "\ud800",
      "{",
      "}",
      "+",
      "--x",
    ];
    for (const text of texts) {
      for (const q of [text, `-${text}`, `from:${text}`, `"${text}`, `subject:"${text}`]) {
        test(JSON.stringify(q), async () => expect(await search(q)).toBeArray());
      }
    }

    test("the longest queries", async () => {
      expect(await search("pay ".repeat(125))).toEqual(["invoice", "lunch"]);
      expect(await search("-nothing ".repeat(55))).toHaveLength(new Set(MAIL.map(({ thread }) => thread)).size);
      expect(await search("會".repeat(500))).toEqual([]);
      const each = (term: string): string => Array.from({ length: 60 }, (_, n) => `${term}${n}`).join(" ");
      expect(await search(each("cc:a"))).toEqual([]);
      expect(await search(`pay ${each("-filename:a")}`)).toEqual(["invoice", "lunch"]);
      expect(await search(`${each("-cc:a")} ${each("larger:1")} ${each("newer_than:1")}`)).toEqual([]);
      expect(await search("a b ".repeat(5_000))).toEqual([]);
    });

    test("any text at all", async () => {
      const piece = fc.oneof(
        fc.string({ unit: anyCharacter }),
        fc.string(),
        fc.constantFrom(
          "-",
          '"',
          " ",
          "from:",
          "to:",
          "cc:",
          "filename:",
          "in:",
          "is:",
          "larger:",
          "smaller:10k",
          "older_than:1y",
          "newer_than:",
          "9",
          "m",
          "has:attachment",
          "NOT ",
          "OR ",
          "NEAR(",
          ")",
          "*",
          "^",
          "\0",
          "\ud800",
          "\ue100",
          "会",
          "pay",
        ),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(piece), async (pieces) => {
          expect(await search(pieces.join("").replaceAll(/before|after/gi, ""))).toBeArray();
        }),
        { numRuns: 10 * runs },
      );
    }, 300_000);
  });

  describe("long phrases, and words that occur very often", () => {
    const words = Array.from({ length: 40 }, (_, n) => `word${n}`);
    const swapped = words.with(30, "word31").with(31, "word30");
    const often = "again ".repeat(3_000);
    const { search, ranked } = openOnce(open, [
      { thread: "in order", text: `At first ${words.join(" ")} at last` },
      { thread: "elsewhere", subject: words.slice(0, 20).join(" "), text: words.slice(20).join(" ") },
      { thread: "swapped", text: swapped.join(" ") },
      { thread: "chinese", text: "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往" },
      { thread: "often", text: `before ${often} after ${often} finally again` },
    ]);
    const cases: [q: string, found: string[]][] = [
      [`"${words.join(" ")}"`, ["in order"]],
      [`"${swapped.join(" ")}"`, ["swapped"]],
      [`"${words.join(" ")}" -last`, []],
      [`word5 -"${swapped.join(" ")}"`, ["in order", "elsewhere"]],
      [`subject:"${words.slice(0, 20).join(" ")}"`, ["elsewhere"]],
      [`subject:"${words.join(" ")}"`, []],
      ["天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往", ["chinese"]],
      ["天地玄黄宇宙洪荒日月盈昃辰宿列张寒来往暑", []],
      [words.toReversed().join(" "), ["in order", "elsewhere", "swapped"]],
      ["again", ["often"]],
      ["again before finally", ["often"]],
      ['"before again again"', ["often"]],
      ['"before after"', []],
      ['"after finally"', []],
      ['"again after"', []],
    ];
    for (const [q, found] of cases) test(q, async () => expect(await search(q)).toEqual(found));

    test("are ranked", async () => {
      expect(await ranked(`"${words.join(" ")}"`)).toEqual(["in order"]);
      expect((await ranked(words.toReversed().join(" "))).sort()).toEqual(["elsewhere", "in order", "swapped"]);
    });
  });

  describe("a conversation of many messages", () => {
    const LENGTH = 36;
    const at = (n: number): number => day("2025-01-01") + n * 86_400_000;
    const mail = Array.from({ length: LENGTH }, (_, n): SeedMessage[] => [
      { thread: "long", text: `word number${n}`, date: at(n) },
      { thread: `other ${n}`, text: "word", date: at(n) },
    ]).flat();
    const others = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `other ${from + n}`);

    test("is found by any of them", async () => {
      const { search } = open(mail);
      expect(await search("word")).toEqual(["long", ...others(0, LENGTH)]);
      expect(await search("word after:2025-02-05")).toEqual(["long", "other 35"]);
      expect(await search("word before:2025-01-03")).toEqual(["long", ...others(0, 2)]);
      for (let n = 0; n < LENGTH; n++) {
        expect(await search(`number${n}`)).toEqual(["long"]);
        expect(await search(`"word number${n}" after:2025-02-05`)).toEqual(n === 35 ? ["long"] : []);
      }
    });

    test("loses the words of one that is deleted, and of no other", async () => {
      const { store, search, seqOf } = open(mail);
      const first = seqOf("long") * schema.MESSAGES_PER_THREAD;
      for (let gone = 0; gone < LENGTH; gone += 6) {
        store.transact((tx) => {
          tx.delete(schema.messages)
            .where(eq(schema.messages.seq, first + gone))
            .run();
        });
        for (let n = 0; n < LENGTH; n++) {
          expect([n, await search(`number${n}`)]).toEqual([n, n % 6 === 0 && n <= gone ? [] : ["long"]]);
        }
      }
    });
  });

  describe("words leave with their mail", () => {
    const documents = (store: Seeded["store"]): unknown =>
      store.db.$client.query("SELECT count(*) AS n FROM message_index_docsize").get();
    const mail: SeedMessage[] = [
      { thread: "kept", text: "word" },
      { thread: "gone", text: "word" },
      { thread: "gone", text: "another" },
      { thread: "elsewhere", text: "word", mailbox: "mbx_a2" },
    ];

    test("a message", async () => {
      const { store, search, seqOf } = open(mail);
      store.transact((tx) => {
        tx.delete(schema.messages)
          .where(eq(schema.messages.seq, seqOf("gone") * schema.MESSAGES_PER_THREAD))
          .run();
      });
      expect(await search("word")).toEqual(["kept", "elsewhere"]);
      expect(await search("another")).toEqual(["gone"]);
      expect(documents(store)).toEqual({ n: 3 });
    });

    test("a conversation", async () => {
      const { store, search, seqOf } = open(mail);
      store.transact((tx) => {
        tx.delete(schema.threads)
          .where(eq(schema.threads.seq, seqOf("gone")))
          .run();
      });
      expect(await search("word")).toEqual(["kept", "elsewhere"]);
      expect(await search("another")).toEqual([]);
      expect(await search("-nothing")).toEqual(["kept", "elsewhere"]);
      expect(documents(store)).toEqual({ n: 2 });
    });

    test("a mailbox, a workspace", async () => {
      const { store, search } = open(mail);
      store.transact((tx) => {
        tx.delete(schema.mailboxes).where(eq(schema.mailboxes.id, "mbx_a1")).run();
      });
      expect(await search("word")).toEqual(["elsewhere"]);
      store.transact((tx) => {
        tx.delete(schema.workspaces).run();
      });
      expect(await search("")).toEqual([]);
      expect(documents(store)).toEqual({ n: 0 });
    });

    test("a rolled-back transaction leaves no trace", async () => {
      const { store, engine, add, search } = open(mail);
      add({ thread: "late", text: "late" });
      expect(() =>
        store.transact((tx) => {
          tx.delete(schema.threads).run();
          throw new Error("no");
        }),
      ).toThrow("no");
      expect(await search("word")).toEqual(["kept", "gone", "elsewhere"]);
      expect(() =>
        store.transact((tx) =>
          engine.add(
            tx,
            99,
            { workspaceId: "wsp_a", mailboxId: "mbx_a1" },
            { subject: "", body: "", sender: "", recipients: "", files: "" },
          ),
        ),
      ).toThrow("not stored");
    });
  });

  /** Compares the engine with a scan of every message by the same rules. */
  describe("agrees with looking through every message", () => {
    const WORDS = ["alpha", "Beta", "GAMMA", "délta", "会", "议", "x1", "ann", "example"];
    const plain = (text: string): string[] => {
      const bare = text.toLowerCase().replaceAll("é", "e").replaceAll("会", " 会 ").replaceAll("议", " 议 ");
      return bare.split(/[^a-z0-9会议]/).filter((token) => token !== "");
    };
    const hasRun = (text: string, run: string[]): boolean =>
      ` ${plain(text).join(" ")} `.includes(` ${run.join(" ")} `);

    const words = fc.array(fc.constantFrom(...WORDS), { maxLength: 5 }).map((list) => list.join(" "));
    const address = fc
      .tuple(fc.constantFrom("ann", "bob.ann", "Alpha"), fc.constantFrom("example.com", "beta.example.com"))
      .map(([local, domain]) => ({ email: `${local}@${domain}` }));
    const message = fc.record({
      thread: fc.constantFrom("t1", "t2", "t3", "t4", "t5"),
      subject: words,
      text: words,
      from: address,
      to: fc.array(address, { maxLength: 2 }),
      cc: fc.array(address, { maxLength: 1 }),
      bcc: fc.array(address, { maxLength: 1 }),
      files: fc.array(words, { maxLength: 2 }),
      date: fc.integer({ min: -3, max: 3 }).map((offset) => day("2025-01-01") + offset * 43_200_000),
      size: fc.constantFrom(0, 1, 999, 1_000, 1_001, 2_000_000),
    });

    interface Condition {
      q: string;
      holds(message: SeedMessage): boolean;
    }
    const addressesOf = ({ from = { email: "" }, to = [], cc = [] }: SeedMessage, field: string) =>
      ({ from: [from], to: [...to, ...cc], cc })[field]?.map(({ email }) => email) ?? [];
    const textCondition = fc
      .tuple(
        fc.constantFrom("", "subject:", "from:", "to:", "cc:", "filename:"),
        fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 3 }),
      )
      .map(([operator, list]): Condition => {
        const run = plain(list.join(" "));
        return {
          q: `${operator}"${list.join(" ")}"`,
          holds(candidate) {
            const { subject = "", text = "", files = [] } = candidate;
            const fields = {
              "subject:": [subject],
              "from:": addressesOf(candidate, "from"),
              "to:": addressesOf(candidate, "to"),
              "cc:": addressesOf(candidate, "cc"),
              "filename:": files,
              "": [subject, text, ...files, ...addressesOf(candidate, "from"), ...addressesOf(candidate, "to")],
            }[operator];
            return fields?.some((field) => hasRun(field, run)) === true;
          },
        };
      });
    const addressCondition = fc.tuple(fc.constantFrom("from", "to", "cc"), address).map(
      ([field, { email }]): Condition => ({
        q: `${field}:${email.toUpperCase()}`,
        holds: (candidate) =>
          addressesOf(candidate, field).some((known) => known.toLowerCase() === email.toLowerCase()),
      }),
    );
    const dateCondition = fc.tuple(fc.boolean(), fc.constantFrom("2024-12-31", "2025-01-01", "2025-01-02")).map(
      ([after, date]): Condition => ({
        q: `${after ? "after" : "before"}:${date}`,
        holds: ({ date: at = 0 }) => (after ? at >= day(date) : at < day(date)),
      }),
    );
    const ageCondition = fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 4 })).map(
      ([newer, days]): Condition => ({
        q: `${newer ? "newer_than" : "older_than"}:${days}d`,
        holds: ({ date: at = 0 }) => newer === at >= day("2025-01-03") - days * 86_400_000,
      }),
    );
    const sizeCondition = fc
      .tuple(fc.boolean(), fc.constantFrom<[string, number]>(["0", 0], ["999", 999], ["1k", 1_000], ["1M", 1_000_000]))
      .map(
        ([larger, [written, bytes]]): Condition => ({
          q: `${larger ? "larger" : "smaller"}:${written}`,
          holds: ({ size = 0 }) => (larger ? size > bytes : size < bytes),
        }),
      );
    const attachmentCondition = fc.constant<Condition>({
      q: "has:attachment",
      holds: ({ files = [] }) => files.length > 0,
    });
    const condition = fc
      .tuple(
        fc.oneof(textCondition, addressCondition, dateCondition, ageCondition, sizeCondition, attachmentCondition),
        fc.boolean(),
      )
      .map(
        ([{ q, holds }, negated]): Condition => ({
          q: negated ? `-${q}` : q,
          holds: (candidate) => holds(candidate) !== negated,
        }),
      );

    test("random mail, random queries", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(message, { maxLength: 12 }),
          fc.array(fc.array(condition, { maxLength: 4 }), { minLength: 1, maxLength: 8 }),
          async (messages, queries) => {
            const { store, search } = open(messages);
            for (const conditions of queries) {
              const q = conditions.map((one) => one.q).join(" ");
              const expected = messages.filter((one) => conditions.every(({ holds }) => holds(one)));
              expect({ q, found: (await search(q)).sort() }).toEqual({
                q,
                found: [...new Set(expected.map(({ thread }) => thread))].sort(),
              });
            }
            store.close();
          },
        ),
        { numRuns: 3 * runs },
      );
    }, 300_000);
  });
}
