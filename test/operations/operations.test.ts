/** The lists of operations: what has to differ between any two of them. */
import { expect, test } from "bun:test";
import type { Schema } from "../../src/base/json-schema.ts";
import { APP_ROUTES } from "../../src/operations/app-routes.ts";
import { appRequests } from "../../src/operations/manifest.macro.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";

const all = [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS, ...APP_OPERATIONS];
const repeated = (texts: string[]): string[] => texts.filter((text, index) => texts.indexOf(text) !== index);

test("no two operations have one name", () => {
  expect(repeated([...all.map(({ name }) => name), ...Object.keys(APP_ROUTES)])).toEqual([]);
});

test("no two operations of the app answer one request", () => {
  const requests = Object.values(appRequests()).map(([method, path]) => `${method} ${path.replaceAll(/:\w+/g, ":")}`);
  expect(repeated(requests)).toEqual([]);
});

test("each parameter in a path is one of its operation", () => {
  for (const { name, path, params } of all) {
    const named = [...path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter ?? "");
    expect([name, Object.keys(params.properties).sort()]).toEqual([name, named.sort()]);
  }
});

test("an input of the app can be one object: the method and the path tell where each field belongs", () => {
  const fieldsOf = (schema: Schema | undefined): string[] =>
    [schema, ...(schema?.anyOf ?? [])].flatMap((part) => Object.keys(part?.properties ?? {}));
  for (const { name, method, params, query, body } of all) {
    const isInUrl = method === "GET" || method === "DELETE";
    expect([name, fieldsOf(isInUrl ? body : query)]).toEqual([name, []]);
    expect([name, repeated([params, query, body].flatMap(fieldsOf))]).toEqual([name, []]);
  }
});
