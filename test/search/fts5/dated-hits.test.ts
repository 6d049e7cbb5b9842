/** Hits in a time range: every way of finding them agrees with checking every date. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { documentNumberOf } from "../../../src/search/document-number.ts";
import { createKeepDated } from "../../../src/search/fts5/fts5.ts";
import { messages } from "../../../src/store/schema.ts";
import { type SeedMessage, seedIndex } from "../../harness/search-seed.ts";

const MAILBOXES = ["mbx_a1", "mbx_a2", "mbx_b1"];
/** Long and short conversations, some in mailboxes outside the scope; several dates are equal. */
const MAIL: SeedMessage[] = Array.from({ length: 120 }, (_, n) => ({
  thread: n % 3 === 0 ? "long" : `t${n % 50}`,
  mailbox: (n % 3 !== 0 && MAILBOXES[(n % 50) % 3]) || "mbx_a1",
  text: "word",
  date: ((n * 37) % 60) * 10,
}));

test("looked up, read from inside and read from outside the range", () => {
  const { store } = seedIndex(MAIL);
  const rows = store.db.select().from(messages).all();
  const ways = [
    createKeepDated(store.db.$client),
    createKeepDated(store.db.$client, { few: 0, readForEach: 1 }),
    createKeepDated(store.db.$client, { few: 0, readForEach: 1_000 }),
  ];
  const time = fc.oneof(
    fc.integer({ min: -20, max: 620 }),
    fc.constantFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
  );
  fc.assert(
    fc.property(fc.subarray(MAILBOXES), time, time, fc.infiniteStream(fc.boolean()), (scope, since, before, chosen) => {
      const hits = rows.filter(({ mailboxId }) => scope.includes(mailboxId) && chosen.next().value);
      const documents = hits.map(({ seq }) => documentNumberOf(seq)).sort((a, b) => a - b);
      const dated = new Set(
        hits.filter(({ date }) => date >= since && date < before).map(({ seq }) => documentNumberOf(seq)),
      );
      const expected = documents.filter((document) => dated.has(document));
      for (const keep of ways) expect(keep(documents, { since, before }, JSON.stringify(scope))).toEqual(expected);
    }),
    { numRuns: 300 },
  );
});
