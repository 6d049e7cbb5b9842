/**
 * The import table of the README, held: which module may import which, type-only imports too, and which file alone may
 * import a third-party package.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const root = join(import.meta.dir, "..");
const src = join(root, "src");

const BASE = ["runtime", "pause", "errors", "log", "metrics", "network", "destination"];
const MAY_IMPORT: Record<string, readonly string[]> = {
  "secure-dns": [],
  runtime: ["secure-dns"],
  pause: ["runtime"],
  network: [],
  errors: [],
  config: ["errors"],
  descriptors: ["mta"],
  message: ["errors"],
  log: ["runtime", "errors"],
  metrics: [],
  destination: ["runtime", "errors", "network"],
  places: ["runtime", "destination"],
  "http-client": ["runtime", "destination", "places"],
  scheduler: BASE,
  tls: [...BASE, "config", "http-client", "scheduler"],
  store: [...BASE, "message"],
  access: [...BASE, "store", "message"],
  search: [...BASE, "scheduler", "store", "message"],
  events: [...BASE, "places", "scheduler", "store", "message"],
  mailbox: [...BASE, "scheduler", "store", "message", "access", "search", "events"],
  mta: [...BASE, "http-client", "scheduler", "tls", "store", "message", "access", "events", "mailbox"],
  settings: [...BASE, "store", "message", "access", "search", "events", "mailbox", "mta"],
  transfer: [...BASE, "store", "message", "mailbox", "mta"],
  api: [...BASE, "scheduler", "store", "message", "access", "events", "mailbox", "mta"],
  web: [
    ...BASE,
    "http-client",
    "tls",
    "store",
    "message",
    "access",
    "events",
    "settings",
    "mailbox",
    "mta",
    "api",
    "doctor",
  ],
  backup: [...BASE, "scheduler", "store", "mailbox", "mta"],
  monitoring: [...BASE, "descriptors", "store", "mta", "backup"],
  doctor: [...BASE, "config", "descriptors", "scheduler", "tls", "store", "search", "mta", "settings", "backup"],
  demo: [...BASE, "store", "message", "access", "mailbox", "mta", "settings"],
  appliance: ["*"],
  cli: [...BASE, "config", "settings", "backup", "transfer", "monitoring", "doctor", "demo", "appliance"],
  main: ["cli"],
};

/** Packages that any file may import; every other one lives behind a single file. */
const EVERYWHERE = new Set(["elysia", "drizzle-orm", "bun", "nodemailer"]);

/** The same of the code that makes pages, and nowhere else. */
const OF_PAGES = new Set([
  "react",
  "react-dom",
  "@tanstack/react-router",
  "@tanstack/react-query",
  "radix-ui",
  "lucide-react",
]);
const isPageCode = (file: string): boolean => /^web\/(app|reference)\//.test(file);

interface Import {
  file: string;
  specifier: string;
}

function importsOf(file: string): Import[] {
  const found: Import[] = [];
  const text = readFileSync(join(src, file), "utf8");
  const statement =
    /(?:^|\n)\s*(?:import|export)\s(?:[^;'"]*?\sfrom\s*)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']|new URL\(\s*["'](\.[^"']+\.ts)["']/g;
  for (const match of text.matchAll(statement)) {
    found.push({ file, specifier: (match[1] ?? match[2] ?? match[3]) as string });
  }
  return found;
}

const moduleOf = (path: string): string =>
  path.includes("/") ? path.slice(0, path.indexOf("/")) : path.replace(/\.ts$/, "");

const files = [...new Bun.Glob("**/*.{ts,tsx}").scanSync({ cwd: src })]
  .filter((file) => !file.endsWith(".d.ts"))
  .sort();
const imports = files.flatMap(importsOf);
const isLocal = ({ specifier }: Import): boolean => specifier.startsWith(".");
const packageOf = (specifier: string): string => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");

test("the reader of imports reads them", () => {
  expect(files.length).toBeGreaterThan(30);
  expect(imports.filter(isLocal).length).toBeGreaterThan(100);
  expect(imports).toContainEqual({ file: "store/schema.ts", specifier: "../message/address.ts" });
  expect(imports).toContainEqual({ file: "store/drizzle.ts", specifier: "drizzle-orm/bun-sqlite" });
});

test("every module of the tree stands in the table, and no other", () => {
  expect(Object.keys(MAY_IMPORT).sort()).toEqual([...new Set(files.map(moduleOf))].sort());
});

test("modules import only what the table allows", () => {
  const forbidden = imports.filter(isLocal).flatMap(({ file, specifier }) => {
    const target = relative(src, join(src, dirname(file), specifier));
    if (target.startsWith("..")) return target === "../package.json" ? [] : [`${file} imports ${target}`];
    const [from, to] = [moduleOf(file), moduleOf(target)];
    const allowed = MAY_IMPORT[from] ?? [];
    return from === to || allowed.includes(to) || (allowed.includes("*") && to !== "cli")
      ? []
      : [`${file} imports ${target}`];
  });
  expect(forbidden).toEqual([]);
});

test("a third-party package lives behind one file", () => {
  const users = new Map<string, Set<string>>();
  for (const { file, specifier } of imports.filter((one) => !isLocal(one))) {
    const name = packageOf(specifier);
    if (/^(node|bun):/.test(specifier) || EVERYWHERE.has(name)) continue;
    if (isPageCode(file) && OF_PAGES.has(name)) continue;
    users.set(name, (users.get(name) ?? new Set()).add(file));
  }
  expect([...users].filter(([, by]) => by.size > 1).map(([name, by]) => `${name}: ${[...by].join(", ")}`)).toEqual([]);
});

test("only runtime.ts asks the clock or for randomness, only config.ts reads the environment", () => {
  const asks = (pattern: RegExp, allowed: string[]): string[] =>
    files.filter((file) => !allowed.includes(file) && pattern.test(readFileSync(join(src, file), "utf8")));
  expect(
    asks(/\bDate\.now\(|new Date\(\)|performance\.now\(|Math\.random\(|(?<![.\w])randomBytes\(|\brandomUUID\(/, [
      "runtime.ts",
      // The browser's clock.
      "web/app/lib/time.ts",
    ]),
  ).toEqual([]);
  expect(asks(/\bprocess\.env\b|\bBun\.env\b/, ["config.ts", "web/bundle-app.ts"])).toEqual([]);
});
