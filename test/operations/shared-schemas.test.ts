/** Resources and requests are said once: their schemas are their types, and no other type lists their fields. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describeApi } from "../../src/api/openapi.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";

const src = join(import.meta.dir, "../../src");

/** The fields of each component of the OpenAPI documents. */
const COMPONENTS = new Map(
  [MAIL_API, EXT_API, ADMIN_API].flatMap((surface) => {
    const { components } = describeApi(surface, "https://mail.example.test") as {
      components: { schemas: Record<string, { properties?: object }> };
    };
    return Object.entries(components.schemas).map(
      ([name, { properties = {} }]) => [name, Object.keys(properties)] as const,
    );
  }),
);

/** Types that have only fields of a component, and most of those. */
function twins(file: string, text: string): string[] {
  const types = text.matchAll(/\b(?:interface (\w+)[^{;]*|type (\w+) = )\{\n([\s\S]*?)\n\}/g);
  return [...types].flatMap(([, named, alias, body = ""]) => {
    const fields = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, field = ""]) => field);
    if (fields.length < 3) return [];
    return [...COMPONENTS]
      .filter(([, of]) => fields.length > of.length / 2 && fields.every((field) => of.includes(field)))
      .map(([component]) => `${file}: ${named ?? alias} has the fields of ${component}`);
  });
}

/**
 * Exceptions: types that are stored as JSON, and records whose times are numbers.
 */
const OTHERS = [
  "journal/journal-list.ts: JournalEntry has the fields of JournalEntry",
  "outbound/accept.ts: Sent has the fields of SendResponse",
  "store/schema.ts: Policy has the fields of KeyPolicy",
  "store/schema.ts: Rule has the fields of MailRule",
  "store/schema.ts: Template has the fields of Template",
];

test("no type lists the fields of a resource or request beside its schema", () => {
  const files = [...new Bun.Glob("**/*.{ts,tsx}").scanSync(src)].sort();
  const found = files.flatMap((file) => twins(file, readFileSync(join(src, file), "utf8")));
  expect(found).toEqual(OTHERS);
});

test("a second place is found", () => {
  const text = "export interface Seen {\n  /** Id. */\n  threadId: string;\n  mailboxId: string;\n  at?: string;\n}\n";
  expect(twins("a.ts", text)).toEqual(["a.ts: Seen has the fields of Change"]);
});
