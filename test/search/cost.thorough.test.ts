/** Searches made to be slow: time grows with the words of the query, and with the length of the mail. */
import { expect, test } from "bun:test";
import { MOST_OCCURRENCES } from "../../src/search/fold.ts";
import { createRanking } from "../../src/search/fts5/hits.ts";
import { createQueryMatcher } from "../../src/search/matching.ts";
import { parseQuery } from "../../src/search/query.ts";
import { seedIndex } from "../harness/data/search-seed.ts";
import { cpuTime, expectLinear } from "../harness/growth.ts";

test("ranking takes time in proportion to the words of a query, however often a message has them", async () => {
  const everywhere = { mailboxIds: ["mbx_a1", "mbx_a2", "mbx_b1"] };
  const make = (size: number) => {
    const words = Array.from({ length: size }, (_, n) => `w${n}`);
    const { store } = seedIndex([{ thread: "1", text: `${words.join(" ")} `.repeat(MOST_OCCURRENCES) }]);
    return { rank: createRanking(store), query: parseQuery(words.join(" "), 0) };
  };
  await expectLinear({
    make,
    sizes: [20, 80],
    work: ({ rank, query }) => cpuTime(() => expect(rank(query, everywhere, [1])).toHaveLength(1)),
  });
}, 60_000);

test("matching takes time in proportion to the length of the message", async () => {
  // Each phrase is compared at every second place.
  const q = Array.from({ length: 30 }, (_, n) => `"${`a b `.repeat(6)}c${n}" "${`b a `.repeat(4)}"`).join(" ");
  const matches = createQueryMatcher([parseQuery(`${q} -a`, 0).message]);
  await expectLinear({
    make: (size) => ({ subject: "", body: "a b ".repeat(size).trim(), sender: "", recipients: "", files: "" }),
    work: (document) => cpuTime(() => matches({ document, date: 0, size: 0, hasAttachments: false })),
    sizes: [10_000, 40_000],
    atMost: 2.6,
  });
}, 60_000);
