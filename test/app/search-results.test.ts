/** The matches of a search in the rows of the list. */
import { expect, test } from "bun:test";
import { foundMessageId, markedSubject, shortenSnippetStart } from "../../src/app/parts/thread/search-results.tsx";

const inSubject = (snippet: string, ...ranges: [number, number][]) => ({
  emailId: "msg_1",
  field: "subject" as const,
  snippet,
  ranges,
});

test.each<[subject: string, snippet: string, ranges: [number, number][], marked: string[]]>([
  ["Oak boards", "Oak boards", [[0, 3]], ["Oak"]],
  [
    "Oak boards",
    "Re: Oak boards",
    [
      [4, 7],
      [8, 14],
    ],
    ["Oak", "boards"],
  ],
  // A match that the row does not show is not marked.
  ["Oak boards", "Re: Oak boards", [[0, 2]], []],
  ["Oak boards", "Oak boards, sawn", [[12, 16]], []],
  ["Oak  boards", "Oak boards", [[0, 3]], []],
  ["Elm", "Oak", [[0, 3]], []],
  ["", "Oak", [[0, 3]], []],
])("the row with the subject %j marks what matched in %j", (subject, snippet, ranges, marked) => {
  const thread = {
    subject,
    highlights: [{ ...inSubject("other", [0, 5]), field: "text" as const }, inSubject(snippet, ...ranges)],
  };
  expect(markedSubject(thread).map(([start, end]) => subject.slice(start, end))).toEqual(marked);
});

test("a list without a search marks nothing and leads to no message", () => {
  expect(markedSubject({ subject: "Oak" })).toEqual([]);
  expect(foundMessageId({})).toBe("");
  expect(foundMessageId({ highlights: [inSubject("Oak", [0, 3])] })).toBe("msg_1");
});

test.each<[snippet: string, found: string, shown: string]>([
  ["Oak boards", "boards", "Oak boards"],
  ["Here are the boards of the oak we talked of", "talked", "…boards of the oak we talked of"],
  ["Herearetheboardsoftheoakthatwe talked of", "talked", "…talked of"],
  ["Herearetheboardsoftheoakthatwe-talked of", "talked", "Herearetheboardsoftheoakthatwe-talked of"],
])("a row shows %j from shortly before %j on", (snippet, found, shown) => {
  const start = snippet.indexOf(found);
  const near = shortenSnippetStart({ snippet, ranges: [[start, start + found.length]] });
  expect(near.snippet).toBe(shown);
  expect(near.ranges.map(([from, to]) => near.snippet.slice(from, to))).toEqual([found]);
});
