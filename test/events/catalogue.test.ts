/** The events: pages have their fields and words, each sample fits its schema, and no other file lists them. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compileSchemaCheck } from "../../src/base/json-schema.ts";
import { EVENT_DATA, makeSampleEventData } from "../../src/events/catalogue.ts";
import { EVENT_NAMES, EVENTS } from "../../src/events/kinds.ts";

const root = join(import.meta.dir, "../..");

/** The text below a heading of a page, up to the next heading. */
function section(page: string, heading: string): string {
  const [, after = ""] = readFileSync(join(root, page), "utf8").split(`\n${heading}\n`);
  return after.split("\n#")[0] as string;
}

describe("the pages", () => {
  const rowsOf = (text: string) => text.split("\n").filter((line) => line.startsWith("| `"));

  test("have the fields of each event", () => {
    const rows = EVENT_NAMES.map((event) => {
      const fields = Object.keys(EVENT_DATA[event].properties).map((field) => `\`${field}\``);
      return `| \`${event}\` | ${fields.join(", ")} |`;
    });
    expect(rowsOf(section("docs/rules.md", "### Event data"))).toEqual(rows);
  });

  test("say when each event happens", () => {
    const rows = Object.entries(EVENTS).map(([event, when]) => `| \`${event}\` | ${when} |`);
    expect(rowsOf(section("docs/webhooks.md", "## Events"))).toEqual(rows);
    const named = section("docs/rules.md", "### Events").match(/(?<=`)message\.\w+(?=`)/g);
    expect<string[] | null>(named).toEqual(EVENT_NAMES);
  });
});

test.each(EVENT_NAMES)("the sample of %s has the fields of its schema", (event) => {
  const sample = makeSampleEventData(event, 0);
  expect(compileSchemaCheck(EVENT_DATA[event], "answer")(sample)).toBeUndefined();
  expect(Object.keys(sample).sort()).toEqual(Object.keys(EVENT_DATA[event].properties).sort());
});

test("no other file lists events", () => {
  const lists = [...new Bun.Glob("**/*.{ts,tsx}").scanSync(join(root, "src"))].filter((file) => {
    const text = readFileSync(join(root, "src", file), "utf8");
    return EVENT_NAMES.filter((event) => text.includes(event)).length > 3;
  });
  expect(lists.sort()).toEqual(["events/catalogue.ts", "events/kinds.ts"]);
});
