/** docs/routes.md: it is as the operations and the other routes make it, has every path in the code, and the server answers as it says. */
import { beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROUTE_SECTIONS, routesPage } from "../../packaging/routes.ts";
import { createMethodFinder } from "../../src/api/methods.ts";
import { APP_PREFIX, pathInApp } from "../../src/operations/app-routes.ts";
import { ADMIN_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { textOf } from "../harness/doc-pages.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const root = join(import.meta.dir, "../..");
const rows = ROUTE_SECTIONS.flatMap((section) => section.rows);
const paths = [...new Set(rows.map(({ path }) => path))];

let booted: Booted;
beforeAll(async () => {
  booted = await boot();
}, 120_000);

test("the page of routes is as the operations make it: bun packaging/routes.ts", () => {
  expect(textOf("docs/routes.md")).toBe(routesPage());
});

test("no route is listed twice, and each in a file that exists", () => {
  const named = rows.map(({ method, path }) => `${method} ${path}`);
  expect(named.filter((name, i) => named.indexOf(name) !== i)).toEqual([]);
  expect(rows.filter(({ file }) => !existsSync(join(root, file)))).toEqual([]);
});

test("every path that the listeners' code compares with is listed", () => {
  const files = [...new Bun.Glob("src/{http,oauth}/*.ts").scanSync(root), "src/base/frames.ts"];
  files.push(...new Bun.Glob("src/api/{*,mcp/*}.ts").scanSync(root));
  const literals = files.flatMap((file) => {
    const text = readFileSync(join(root, file), "utf8");
    return [...text.matchAll(/"(\/[a-z.][^"\s$]*)"/g)].map(([, path = ""]) => path);
  });
  expect(literals.length).toBeGreaterThan(20);
  const isListed = (literal: string) =>
    paths.some((path) =>
      path.endsWith("*")
        ? literal.startsWith(path.slice(0, -1)) || path.startsWith(literal)
        : path === APP_PREFIX + literal || path.startsWith(literal),
    );
  expect([...new Set(literals)].filter((literal) => !isListed(literal))).toEqual([]);
});

test("every page that the server knows is listed", () => {
  const [, pages = ""] = /^const PAGES = \/\^\\\/\(\?:(.*)\)\/;$/m.exec(textOf("src/http/pages.ts")) ?? [];
  const known = pages
    .replaceAll("(?:\\/|$)", "$")
    .split("|")
    .map((page) => `/${page.replace("$", "").replaceAll("\\/", "/")}`);
  expect(known.length).toBeGreaterThan(5);
  expect(known.filter((path) => !paths.includes(path))).toEqual([]);
});

/** The challenge has a token below it, of which an unknown one is 404 whatever the method. */
const CHALLENGE = "/.well-known/acme-challenge/*";

// Pages are bundled for seconds when the first one is asked for, and methods.test.ts asks for some.
test("a path takes the methods that are listed, and no other", async () => {
  const inApp = [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS].map((operation) => ({
    method: operation.method,
    path: APP_PREFIX + pathInApp(operation),
  }));
  const filled = (path: string) => path.replaceAll(/:\w+/g, "x").replace("*", "x");
  const methodsOf = createMethodFinder([
    ...inApp,
    ...rows.map(({ method, path }) => ({ method, path: path.replace("*", ":name") })),
  ]);
  const pages = new Set(ROUTE_SECTIONS.at(-1)?.rows.map(({ path }) => path));
  for (const path of paths.filter((path) => path !== CHALLENGE && !pages.has(path))) {
    const methods = methodsOf(filled(path));
    const other = ["PUT", "DELETE", "PATCH", "POST", "GET"].find((method) => !methods.includes(method)) as string;
    const host: Record<string, string> = path.endsWith("mta-sts.txt") ? { host: "mta-sts.example.test" } : {};
    const { status, headers } = await fetch(booted.http + filled(path), {
      method: other,
      headers: { authorization: `Bearer ${booted.owner.apiKey}`, ...host },
    });
    const allow = headers.get("allow")?.split(", ").sort() ?? [];
    expect({ path, status, allow }).toEqual({ path, status: 405, allow: methods });
  }
}, 60_000);
