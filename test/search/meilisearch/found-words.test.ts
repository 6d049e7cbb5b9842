/** The words of a message reported in place of the query's words. */
import { expect, test } from "bun:test";
import type { IndexDocument } from "../../../src/search/fold.ts";
import { nearestWords } from "../../../src/search/meilisearch/engine.ts";
import { parseQuery } from "../../../src/search/query.ts";

const EMPTY: IndexDocument = { subject: "", body: "", sender: "", recipients: "", files: "" };

const cases: [q: string, document: Partial<IndexDocument>, words: string[]][] = [
  ["recieve paymnet", { body: "please receive the payment" }, ["receive", "payment"]],
  ["recieve recieve", { body: "receive" }, ["receive"]],
  // The nearer one wins, in either order.
  ["quartelyreport", { body: "quarterlyreports quarterlyreport" }, ["quarterlyreport"]],
  // A word that is present needs no replacement, and a short one cannot have a typo.
  ["invoice", { body: "invoices invoice" }, []],
  ["pay", { body: "pax" }, []],
  ["from:anabel", { sender: "annabel", body: "anable" }, ["annabel"]],
  ["subject:anabel", { sender: "annabel" }, []],
  ["drawign has:attachment 会", { files: "drawing pdf" }, ["drawing"]],
];
test.each(cases)("%s", (q, document, words) => {
  expect(nearestWords(parseQuery(q).message, { ...EMPTY, ...document })).toEqual(words);
});

test("comparisons are bounded for the oddest mail and the longest query", () => {
  const letters = [..."abcdefghijklmnopqrstuvwxyz"];
  const words = letters.flatMap((one) => letters.map((other) => `zz${one}${other}z`));
  const asked = words.slice(0, 80).map((word) => `y${word.slice(1, 4)}y`);
  const document = { ...EMPTY, body: `receive ${words.join(" ")}` };
  expect(nearestWords(parseQuery(`recieve ${asked.join(" ")}`).message, document)).toEqual(["receive"]);
  expect(nearestWords(parseQuery(`${asked.join(" ")} recieve`).message, document)).toEqual([]);
});
