/** The lists of operations: what has to differ between any two of them. */
import { expect, test } from "bun:test";
import { ADMIN_OPERATIONS, APP_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";

const all = [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS, ...APP_OPERATIONS];
const repeated = (texts: string[]): string[] => texts.filter((text, index) => texts.indexOf(text) !== index);

test("no two operations have one name", () => {
  expect(repeated(all.map(({ name }) => name))).toEqual([]);
});

test("no two operations of the app answer one request", () => {
  const isSetting = ({ audience }: (typeof all)[number]) => audience === "admin" || audience === "operator";
  const requestOf = (operation: (typeof all)[number]): string =>
    `${operation.method} ${isSetting(operation) ? "/settings" : ""}${operation.path.replaceAll(/:\w+/g, ":")}`;
  expect(repeated(all.map(requestOf))).toEqual([]);
});

test("each parameter in a path is one of its operation", () => {
  for (const { name, path, params } of all) {
    const named = [...path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter ?? "");
    expect([name, Object.keys(params.properties).sort()]).toEqual([name, named.sort()]);
  }
});
