/** One message finds its queries as the queries find it in the index. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { toThreadSeq } from "../../src/search/document-number.ts";
import type { SearchScope } from "../../src/search/engine.ts";
import { foldDocument, type IndexDocument } from "../../src/search/fold.ts";
import { createFts5Engine } from "../../src/search/fts5/fts5.ts";
import { createQueryMatcher } from "../../src/search/matching.ts";
import { parseQuery, type Query } from "../../src/search/query.ts";
import { createSeqSet } from "../../src/search/sets.ts";
import { messages } from "../../src/store/schema.ts";
import type { Store } from "../../src/store/store.ts";
import { type SeedMessage, seedIndex } from "../harness/data/search-seed.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { runs } from "../harness/runs.ts";
import { testContract } from "./engine-contract.ts";

/** An engine that evaluates each message on its own. */
function createScan(store: Store) {
  const documents = new Map<number, IndexDocument>();
  const engine = createFts5Engine(store);
  return {
    ...engine,
    add: (...entry: Parameters<typeof engine.add>) => {
      documents.set(entry[1], entry[3]);
      engine.add(...entry);
    },
    match({ message }: Query, { mailboxIds }: SearchScope) {
      const matches = createQueryMatcher([message]);
      const found = store.db
        .select()
        .from(messages)
        .all()
        .filter((row) => {
          const document = documents.get(row.seq);
          return document && mailboxIds.includes(row.mailboxId) && matches({ ...row, document })[0];
        });
      return createSeqSet([...new Set(found.map(({ seq }) => toThreadSeq(seq)))].sort((a, b) => a - b));
    },
  };
}

testContract((mail) => seedIndex(mail, createScan), { runs: 20 });

const word = fc.constantFrom(
  "oak",
  "Elm",
  "elms",
  "Ünder",
  "under",
  "99.5",
  "ann",
  "example.com",
  "会议",
  "会",
  "🎉",
  "東京",
  "กรุงเทพ",
);
const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(" "));
const address = fc.record({
  email: fc.constantFrom("ann@example.com", "oak@example.org", "mary.ann@example.com.au", "wang@例子.example"),
  name: fc.option(text, { nil: undefined }),
});
const person = address.map(({ email, name }) => (name ? { email, name } : { email }));
const DAY_MS = 86_400_000;
const NOW = Date.UTC(2025, 0, 3, 12);
const mail: fc.Arbitrary<Omit<SeedMessage, "thread">> = fc.record({
  subject: text,
  text,
  from: person,
  to: fc.array(person, { maxLength: 3 }),
  cc: fc.array(person, { maxLength: 2 }),
  files: fc.array(text, { maxLength: 2 }),
  date: fc.integer({ min: 0, max: 5 }).map((days) => NOW - days * DAY_MS),
  size: fc.constantFrom(999, 1_000, 1_001, 20_000),
});
const value = fc.oneof(
  word,
  text.map((words) => `"${words}"`),
  fc.constantFrom("ann@example.com", "<oak@example.org>", "wang@xn--fsqu00a.example", "@example.com"),
  fc.string({ unit: anyCharacter, maxLength: 5 }),
);
const term = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom("", "from:", "to:", "cc:", "subject:", "filename:"), value)
      .map((parts) => parts.join("")),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "has:attachment",
      "larger:1k",
      "smaller:1k",
      "older_than:2d",
      "newer_than:2d",
      "before:2025-01-01",
      "after:2025-01-02",
    ),
  },
);
const query = fc
  .array(
    fc.tuple(fc.constantFrom("", "", "-"), term).map((parts) => parts.join("")),
    { maxLength: 4 },
  )
  .map((terms) => terms.join(" "))
  // A character may make another operator of a date's.
  .filter((q) => {
    try {
      return parseQuery(q, NOW) !== undefined;
    } catch {
      return false;
    }
  });

test("any mail and any queries", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(mail, { minLength: 1, maxLength: 5 }),
      fc.array(query, { maxLength: 20 }),
      async (all, queries) => {
        const { search } = seedIndex(all.map((message, i) => ({ thread: `${i}`, ...message })));
        const matches = createQueryMatcher(queries.map((q) => parseQuery(q, NOW).message));
        const evaluated = all.map(
          ({ subject = "", text = "", from, to = [], cc = [], files = [], date = 0, size = 0 }) => {
            const document = foldDocument({ subject, text, from: from ? [from] : [], to, cc, filenames: files });
            return matches({ document, date, size, hasAttachments: files.length > 0 });
          },
        );
        for (const [i, q] of queries.entries()) {
          const found = evaluated.flatMap((results, n) => (results[i] ? `${n}` : []));
          expect([q, found]).toEqual([q, await search(q)]);
        }
      },
    ),
    { numRuns: runs(150) },
  );
}, 60_000);
