/** A request may hold an empty text where its schema says so, and nowhere else: `minLength` (rules: OpenAPI document). */
import { beforeAll, expect, test } from "bun:test";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import type { Schema } from "../../src/base/json-schema.ts";
import { bootExamples, type ExampleWorld } from "../harness/servers/examples.ts";

/** Whether a schema allows an empty text; undefined if it is for no text, or for a word or a format. */
function allowsEmpty({ type, anyOf, enum: words, format, minLength = 0 }: Schema): boolean | undefined {
  const text = anyOf?.find((one: Schema) => one.type === "string");
  if (text) return allowsEmpty(text);
  return type === "string" && !words && format === undefined ? minLength === 0 : undefined;
}

type Path = (string | number)[];

/** Yields the places of texts in a body, with an item for each list, and whether they may be empty. */
function* textsIn(schema: Schema, at: Path = []): Generator<{ at: Path; may: boolean }> {
  const may = allowsEmpty(schema);
  if (may !== undefined) yield { at, may };
  for (const part of schema.anyOf ?? []) if (part.type !== "string") yield* textsIn(part, at);
  for (const [name, part] of Object.entries<Schema>(schema.properties ?? {})) yield* textsIn(part, [...at, name]);
  if (schema.items) yield* textsIn(schema.items, [...at, 0]);
}

/** Returns a copy of a value with an empty text at a place. A list gets one more, `item` if given; of other objects its first changes. */
function withEmpty(value: unknown, [name, ...rest]: Path, item?: object): unknown {
  if (name === undefined) return "";
  if (typeof name === "number") {
    const list = Array.isArray(value) ? value : [];
    return item || rest.length === 0 ? [...list, withEmpty(item, rest)] : [withEmpty(list[0], rest), ...list.slice(1)];
  }
  return {
    ...(value as object),
    [name]: withEmpty((value as Record<string, unknown> | undefined)?.[name], rest, item),
  };
}

/** An attachment for whose field an empty text is tried. It has no other content than that field. */
const attachmentFor = (field: unknown) => ({ filename: "a.txt", ...(field !== "content" && { text: "Hello" }) });

let world: ExampleWorld;
beforeAll(async () => {
  world = await bootExamples();
}, 120_000);

const operations = [MAIL_API, EXT_API, ADMIN_API].flatMap((surface) =>
  surface.operations.map((operation) => ({ name: operation.name, surface, operation })),
);

test.each(operations)(
  "$name takes an empty text where its schema does, and nowhere else",
  async ({ surface, operation }) => {
    const { method, query, body, example } = operation;
    const path = operation.path.replaceAll(/:(\w+)/g, "{$1}");
    const wrong: unknown[] = [];
    async function ask(what: string, may: boolean, asked: Record<string, unknown>, given: unknown) {
      const params = await world.paramsFor(surface, path);
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
      const url = new URL(world.http + surface.prefix + filled);
      for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, String(value));
      const response = await fetch(url, {
        method,
        headers: { authorization: `Bearer ${world.key}`, ...(body && { "content-type": "application/json" }) },
        ...(body && { body: JSON.stringify(given ?? {}) }),
      });
      const text = await response.text();
      if (may === [400, 404, 422].includes(response.status)) wrong.push([what, may ? "refused" : "taken", text]);
    }
    for (const [name, schema] of Object.entries(query.properties)) {
      const may = allowsEmpty(schema);
      if (may !== undefined) await ask(`?${name}=`, may, { ...example?.query, [name]: "" }, example?.body);
    }
    // Either of text and html may be empty.
    const complete = { ...(example?.body as object), ...(body?.properties?.html && { html: "<p>Hello</p>" }) };
    for (const { at, may } of body ? textsIn(body) : []) {
      const item = at[0] === "attachments" ? attachmentFor(at.at(-1)) : undefined;
      await ask(at.join("."), may, {}, withEmpty(complete, at, item));
    }
    expect(wrong).toEqual([]);
  },
);
