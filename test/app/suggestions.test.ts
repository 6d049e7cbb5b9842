/** Completions of a search while it is typed. */
import { expect, test } from "bun:test";
import { findPersonToComplete, suggestionsFor } from "../../src/app/lib/search-completions.ts";
import { parseQuery } from "../../src/search/query.ts";

const KNOWN = {
  people: [{ email: "bea@remote.example", name: "Bea Brand" }, { email: "kim@remote.example" }],
  labels: ["Billing", "To do"],
  recent: ["invoice from:kim", "Is it there"],
};
const texts = (typed: string, people = KNOWN.people) =>
  suggestionsFor(typed, { ...KNOWN, people: findPersonToComplete(typed) === undefined ? [] : people }).map(
    ({ text }) => text,
  );

test.each<[typed: string, completed: string[]]>([
  ["has:", ["has:attachment "]],
  ["oak is:", ["oak is:unread ", "oak is:read ", "oak is:starred "]],
  ["oak is:s", ["oak is:starred "]],
  ["-ha", ["-has:attachment ", "-from:bea@remote.example ", "-from:kim@remote.example "]],
  ["su", ["subject:", "from:bea@remote.example ", "from:kim@remote.example "]],
  ["from:b", ["from:bea@remote.example ", "from:kim@remote.example "]],
  ["cc:k", ["cc:bea@remote.example ", "cc:kim@remote.example "]],
  ["oak in:s", ["oak in:sent ", "oak in:spam ", "oak in:starred ", "oak in:snoozed "]],
  ["-newer_than:", ["-newer_than:7d ", "-newer_than:2w ", "-newer_than:6m ", "-newer_than:1y "]],
  ["older_than:2", ["older_than:2w "]],
  ["larger:", ["larger:100k ", "larger:1M ", "larger:10M "]],
  ["smaller:1M", []],
  ["fi", ["filename:", "from:bea@remote.example ", "from:kim@remote.example "]],
  ["FROM:b", ["from:bea@remote.example ", "from:kim@remote.example "]],
  ["label:", ["label:Billing ", 'label:"To do" ']],
  ["label:do", ['label:"To do" ']],
  ['label:"to d', ['label:"To do" ']],
  [
    '"two words" bill',
    ['"two words" from:bea@remote.example ', '"two words" from:kim@remote.example ', '"two words" label:Billing '],
  ],
  ["inv", ["invoice from:kim", "from:bea@remote.example ", "from:kim@remote.example "]],
  ["nothing:here", []],
])("%j is completed by the last word", (typed, completed) => {
  const people = /nothing/.test(typed) ? [] : KNOWN.people;
  expect(texts(typed, people)).toEqual(completed);
});

test("with nothing typed, former searches are suggested, then every operator", () => {
  const found = suggestionsFor("", { ...KNOWN, people: [] });
  expect(found.slice(0, 2).map(({ kind, text }) => [kind, text])).toEqual([
    ["recent", "invoice from:kim"],
    ["recent", "Is it there"],
  ]);
  expect(found.slice(2).map(({ shown }) => shown)).toEqual([
    ..."from: to: cc: subject: filename: label: in: has:attachment is:unread is:read is:starred before: after:".split(
      " ",
    ),
    ..."newer_than: older_than: larger: smaller: -".split(" "),
    '"',
  ]);
});

test.each<[typed: string, shown: string[]]>([
  ["after:2019", ["1 January", "1 February", "1 March"]],
  ["after:2019-1", ["1 October", "1 November", "1 December"]],
  ["-before:2019-03", ["Leave out: 1 March"]],
  ["before:yest", ["Yesterday"]],
  ["before:WEEK", ["A week ago"]],
  ["before:2019-13", []],
  ["before:soon", []],
])("%s is completed to days that the search takes", (typed, shown) => {
  const days = suggestionsFor(typed, { ...KNOWN, people: [] });
  expect(days.slice(0, 3).map(({ hint }) => hint)).toEqual(shown);
  for (const { text } of days) expect(() => parseQuery(text, 0)).not.toThrow();
});

test("the suggestion of an exclusion says that it leaves out", () => {
  const [first] = suggestionsFor("oak -is:u", { ...KNOWN, people: [] });
  expect(first).toMatchObject({ text: "oak -is:unread ", shown: "-is:unread", hint: "Leave out: Not read yet" });
  expect(texts("oak -").slice(0, 2)).toEqual(["oak -from:", "oak -to:"]);
  expect(suggestionsFor("oak ", { ...KNOWN, people: [] }).find(({ shown }) => shown === "-")).toMatchObject({
    text: "oak -",
    whole: false,
  });
});

test("before: without a day suggests days that the search takes", () => {
  const days = texts("before:");
  expect(days).toHaveLength(5);
  for (const text of days) expect(() => parseQuery(text, 0)).not.toThrow();
  expect(texts(days[0]?.trim() ?? "")).toEqual([]);
});
