/** The table of operators: the parser takes each, the pages have each, and no other file lists them. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { listOperatorValues, OPERATOR_NAMES, OPERATORS, TERMS } from "../../src/search/operators.ts";
import { parseQuery } from "../../src/search/query.ts";

const root = join(import.meta.dir, "../..");

const terms = OPERATOR_NAMES.flatMap((name) => {
  const { offered = ["2025-01-01"] } = OPERATORS[name];
  return (listOperatorValues(name) ?? offered).map((value) => `${name}:${value}`);
});

test.each(terms)("%s is no plain text", (term) => {
  const { message, thread, notes } = parseQuery(term, 0);
  expect(notes).toEqual([]);
  expect([...message, ...thread]).toHaveLength(1);
  expect(message).not.toContainEqual(expect.objectContaining({ field: "any" }));
});

test.each([
  ["docs/search.md", "\n## The query language\n", ["fro"]],
  ["docs/rules.md", "\n### Query language\n", ["word"]],
])("%s has every operator, and no other", (page, heading, unknown) => {
  const [, after = ""] = readFileSync(join(root, page), "utf8").split(heading);
  const [section = ""] = after.split("\n#");
  const named = [...section.matchAll(/`-?(\w+):/g)].map(([, name = ""]) => name);
  expect([...new Set(named)].sort()).toEqual([...OPERATOR_NAMES, ...unknown].sort());
  expect(TERMS.filter(({ term }) => !section.includes(`\`${term}`))).toEqual([]);
});

test("no other file lists operators", () => {
  const lists = [...new Bun.Glob("**/*.{ts,tsx}").scanSync(join(root, "src"))].filter((file) => {
    const found = readFileSync(join(root, "src", file), "utf8").matchAll(
      /\b(?:has:attachment|is:(?:unread|read|starred)|(?:newer|older)_than)\b/g,
    );
    return new Set([...found].map(([term]) => term)).size > 1;
  });
  expect(lists.sort()).toEqual(["search/operators.ts", "search/query.ts"]);
});
