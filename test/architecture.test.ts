/**
 * The import table of docs/architecture.md, held: which module may import which, type-only imports too, that no files import
 * each other in a circle, and which file alone may import a third-party package.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

const root = join(import.meta.dir, "..");
const src = join(root, "src");

/** The table of docs/architecture.md: module, and what it may import; "*" is everything but cli. */
function readTable(): Map<string, string[]> {
  const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
  const [, table = ""] = page.split("| module | may import |\n|---|---|\n");
  const rows = (table.split("\n\n")[0] ?? "").split("\n");
  return new Map(
    rows.map((row) => {
      const [, module = "", cell = ""] = row.split("|").map((part) => part.trim());
      return [module, cell.split(", ").flatMap((name) => SHORT[name] ?? [name])];
    }),
  );
}
const SHORT: Record<string, string[]> = { nothing: [], below: ["base", "net", "message"], "everything but cli": ["*"] };
const mayImport = readTable();

/** Packages that any file may import; every other one lives behind a single file. */
const EVERYWHERE = new Set(["elysia", "drizzle-orm", "bun", "nodemailer"]);

/** Packages that any file of the code that makes pages may import, and no other file. */
const OF_PAGES = new Set([
  "react",
  "react-dom",
  "@tanstack/react-router",
  "@tanstack/react-query",
  "radix-ui",
  "lucide-react",
]);
const makesPages = (file: string): boolean => /^(app|api\/reference)\//.test(file);

/** The files of the server that the web app runs. */
const RUN_BY_APP = ["base/frames.ts", "search/operators.ts", "events/kinds.ts"];

interface Import {
  file: string;
  specifier: string;
  /** Whether it is for types alone, and gone when the code runs. */
  isOfTypes: boolean;
  /** Whether the bundler runs it, and puts what it returns into the code. */
  isMacro: boolean;
}

function importsOf(file: string): Import[] {
  const found: Import[] = [];
  const text = readFileSync(join(src, file), "utf8");
  const statement =
    /(?:^|\n)\s*(?:import|export)\s(type\s)?(?:[^;'"]*?\sfrom\s*)?["']([^"']+)["']( with \{ type: "macro" \})?|\bimport\(\s*["']([^"']+)["']|new URL\(\s*["'](\.[^"']+\.ts)["']/g;
  for (const match of text.matchAll(statement)) {
    const [, type, stated, macro, ...specifiers] = match;
    const specifier = [stated, ...specifiers].find((one) => one !== undefined) as string;
    found.push({ file, specifier, isOfTypes: type !== undefined, isMacro: macro !== undefined });
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
  const plain = { isOfTypes: false, isMacro: false };
  expect(imports).toContainEqual({
    ...plain,
    file: "store/schema.ts",
    specifier: "../message/address.ts",
    isOfTypes: true,
  });
  expect(imports).toContainEqual({ ...plain, file: "store/statement.ts", specifier: "drizzle-orm/bun-sqlite" });
  expect(imports).toContainEqual({ ...plain, file: "base/version.ts", specifier: "./build.macro.ts", isMacro: true });
});

test("every module of the tree is in the table, and nothing else", () => {
  expect([...mayImport.keys()].sort()).toEqual([...new Set(files.map(moduleOf))].sort());
});

test("a file's name says which one it is: no other has it", () => {
  const named = Map.groupBy(files, (file) => basename(file).replace(/\.tsx?$/, ""));
  expect([...named.values()].filter((namesakes) => namesakes.length > 1)).toEqual([]);
});

test("mailbox/ and app/parts/ consist of rooms", () => {
  expect(files.filter((file) => /^(mailbox|app\/parts)\/[^/]+$/.test(file))).toEqual([]);
});

test("modules import only what the table allows", () => {
  const forbidden = imports.filter(isLocal).flatMap(({ file, specifier }) => {
    const target = relative(src, join(src, dirname(file), specifier));
    if (target.startsWith("..")) return target === "../package.json" ? [] : [`${file} imports ${target}`];
    const [from, to] = [moduleOf(file), moduleOf(target)];
    const allowed = mayImport.get(from) ?? [];
    return from === to || allowed.includes(to) || (allowed.includes("*") && to !== "cli")
      ? []
      : [`${file} imports ${target}`];
  });
  expect(forbidden).toEqual([]);
});

test("the web app takes types alone from the server, and runs nothing of it but what is named", () => {
  const ofServer = imports.flatMap(({ file, specifier, isOfTypes, isMacro }) => {
    if (moduleOf(file) !== "app" || isOfTypes || isMacro) return [];
    if (/^(node|bun):|^bun$/.test(specifier)) return [`${file} imports ${specifier}`];
    const target = specifier.startsWith(".") ? join(dirname(file), specifier) : "app/";
    return moduleOf(target) === "app" || RUN_BY_APP.includes(target) ? [] : [`${file} imports ${target}`];
  });
  expect(ofServer).toEqual([]);
  const ran = files.filter((file) => RUN_BY_APP.includes(file)).flatMap(importsOf);
  expect(ran).toEqual([]);
});

test("the web app writes no path of the server's APIs: its requests are the operations'", () => {
  const written = files
    .filter((file) => moduleOf(file) === "app")
    .flatMap((file) => [...readFileSync(join(src, file), "utf8").matchAll(/["'`}]\/(?:api|app)\b[^"'`]*/g)])
    .map(([path]) => path);
  // The page of the API reference.
  expect([...new Set(written)].sort()).toEqual(['"/api/docs', '"/api/docs#signatures']);
});

/** The circles of a graph: strongly connected components of two or more (Tarjan), each sorted. */
function circlesIn(targetsOf: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const low = new Map<string, number>();
  const path: string[] = [];
  let count = 0;
  function visit(file: string): number {
    const index = count++;
    low.set(file, index);
    path.push(file);
    let lowest = index;
    for (const target of targetsOf.get(file) ?? []) {
      if (!low.has(target)) lowest = Math.min(lowest, visit(target));
      else if (path.includes(target)) lowest = Math.min(lowest, low.get(target) as number);
    }
    low.set(file, lowest);
    if (lowest === index) {
      const circle = path.splice(path.indexOf(file));
      if (circle.length > 1) found.push(circle.sort());
    }
    return lowest;
  }
  for (const file of targetsOf.keys()) if (!low.has(file)) visit(file);
  return found;
}

test("no files import each other in a circle, types included", () => {
  const targetsOf = new Map<string, string[]>(files.map((file) => [file, []]));
  for (const { file, specifier } of imports.filter(isLocal)) {
    targetsOf.get(file)?.push(relative(src, join(src, dirname(file), specifier)));
  }
  expect(
    circlesIn(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
  ).toEqual([["b", "c"]]);
  expect(circlesIn(targetsOf)).toEqual([]);
});

test("a module exports one type of a name", () => {
  const exporters = new Map<string, string[]>();
  for (const file of files) {
    const text = readFileSync(join(src, file), "utf8");
    for (const [, name] of text.matchAll(/^export (?:abstract )?(?:type|interface|class) (\w+)/gm)) {
      const key = `${moduleOf(file)}: ${name}`;
      exporters.set(key, [...(exporters.get(key) ?? []), file]);
    }
  }
  expect(exporters.size).toBeGreaterThan(500);
  expect([...exporters].filter(([, from]) => from.length > 1)).toEqual([]);
});

test("a third-party package lives behind one file of the server, and one of the pages", () => {
  const users = new Map<string, Set<string>>();
  for (const { file, specifier } of imports.filter((one) => !isLocal(one))) {
    const name = packageOf(specifier);
    if (/^(node|bun):/.test(specifier) || EVERYWHERE.has(name)) continue;
    if (makesPages(file) && OF_PAGES.has(name)) continue;
    const of = makesPages(file) ? `${name}, of pages` : name;
    users.set(of, (users.get(of) ?? new Set()).add(file));
  }
  expect([...users].filter(([, by]) => by.size > 1).map(([name, by]) => `${name}: ${[...by].join(", ")}`)).toEqual([]);
});

test("only dns-client.ts asks over UDP, and nothing uses Bun's resolver", () => {
  const importers = (name: RegExp) => imports.filter(({ specifier }) => name.test(specifier)).map(({ file }) => file);
  expect([...importers(/^(node:)?dgram$/), ...importers(/^(node:)?dns\b/)]).toEqual([
    "base/dns-client.ts",
    // Sends nothing: the system says which address it would use.
    "doctor/system.ts",
  ]);
});

test("only runtime.ts asks the clock or for randomness, only config.ts reads the environment", () => {
  const asks = (pattern: RegExp, allowed: string[]): string[] =>
    files.filter((file) => !allowed.includes(file) && pattern.test(readFileSync(join(src, file), "utf8")));
  expect(
    asks(/\bDate\.now\(|new Date\(\)|performance\.now\(|Math\.random\(|(?<![.\w])randomBytes\(|\brandomUUID\(/, [
      "base/runtime.ts",
      // The browser's clock.
      "app/lib/time-format.ts",
      // Snippets are texts, which run elsewhere.
      "api/reference/snippets.ts",
    ]),
  ).toEqual([]);
  const readers = ["config.ts", "http/bundle.ts", "api/reference/snippets.ts"];
  expect(asks(/\bprocess\.env\b|\bBun\.env\b/, readers)).toEqual([]);
});

test("SQL is drizzle's or a statement: the connection itself is the store's, and of what copies whole databases", () => {
  const touching = files.filter((file) => readFileSync(join(src, file), "utf8").includes("$client"));
  expect(touching.filter((file) => !/^(store|moving|backup)\//.test(file))).toEqual([]);
  expect(touching).toContain("store/statement.ts");
});

test("no declaration has both SQL of drizzle and a statement", () => {
  const declarations = files.flatMap((file) =>
    readFileSync(join(src, file), "utf8")
      .split(/\n(?=(?:export )?(?:const|(?:async )?function\*?) )/)
      .map((text) => ({ file, text })),
  );
  const has = (pattern: RegExp) => declarations.filter(({ text }) => pattern.test(text));
  const made = has(/\bstatement[<(]/);
  const built = has(/^ +(?:db|tx)?\.(?:select|insert|update|delete)\(|\bdb\n|\.prepare\(\)/m);
  expect(built.length).toBeGreaterThan(50);
  expect(made.length).toBeGreaterThan(50);
  expect(made.filter((one) => built.includes(one)).map(({ file }) => file)).toEqual([]);
});

test("only filing-rows.ts says the columns of a message", () => {
  const listing =
    /insert\((messages|messageBodies)\)|INSERT INTO (messages|message_bodies)\b|seenVersion: message\.seenVersion|snippet: message\.snippet,\s+fingerprint: message\.fingerprint/;
  const saying = files.filter((file) => listing.test(readFileSync(join(src, file), "utf8")));
  expect(saying).toEqual(["mailbox/filing/filing-rows.ts"]);
});

/** Files that make a Date of a number. */
const MAKE_DATES = [
  "access/access-notices.ts",
  "access/password-links.ts",
  "admin/domains.ts",
  "admin/expiry-notices.ts",
  "authentication/evidence.ts",
  "backup/scheduled-backups.ts",
  "demo/demo.ts",
  "documents/invitation.ts",
  "documents/xlsx.ts",
  "events/endpoints.ts",
  "http/carrier.ts",
  "imap/grammar.ts",
  "message/composition.ts",
  "message/date.ts",
  "search/query.ts",
  "store/blobs.ts",
  "store/remote-blobs.ts",
  "tls/issued.ts",
  "tls/pair.ts",
  "tls/sign.ts",
  "tls/source.ts",
  "transfer/export-mbox.ts",
];

/** Files that read times in other formats than RFC 3339. */
const READ_OTHER_TIMES = [
  // Local times, in a zone that the calendar names.
  "documents/calendar-values.ts",
  // Last-Modified and Retry-After (RFC 9110 §5.6.7).
  "store/s3-blobs.ts",
  "tls/certificate-authority.ts",
  // What ImapFlow made of an INTERNALDATE (RFC 3501).
  "transfer/imap-account.ts",
];

test("only base/time.ts reads times as RFC 3339 has them", () => {
  const reads = files.filter(
    (file) =>
      !/^(app|api\/reference)\//.test(file) &&
      /\bDate\.parse\(|\bnew Date\((?!\))/.test(readFileSync(join(src, file), "utf8")),
  );
  expect(reads).toEqual(["base/time.ts", ...MAKE_DATES, ...READ_OTHER_TIMES].sort());
});

/** Paths of source files that a text names; in code, those of its comments. */
function filesNamedIn(path: string, text: string): string[] {
  const lines = text.split("\n").filter((line) => path.endsWith(".md") || /^\s*(\/\*|\*|\/\/)|\s\/\/ /.test(line));
  return lines.flatMap((line) =>
    [...line.matchAll(/(?<![\w./$-])(?:[\w-]+\/)+[\w-]+(?:\.[\w-]+)*\.tsx?\b/g)].map(([name]) => name),
  );
}

test("a file that a comment or a page names exists", () => {
  const pages = [...new Bun.Glob("docs/*.md").scanSync({ cwd: root }), "README.md", "CHANGELOG.md"];
  const others = [...new Bun.Glob("{test,packaging}/**/*.{ts,tsx}").scanSync({ cwd: root })];
  const sources = files.map((file) => `src/${file}`);
  const known = [...others, ...sources].map((path) => `/${path}`);
  const missing = [...pages, ...others, ...sources].flatMap((path) =>
    filesNamedIn(path, readFileSync(join(root, path), "utf8"))
      .filter((name) => !known.some((path) => path.endsWith(`/${name}`)))
      .map((name) => `${path} names ${name}`),
  );
  expect(filesNamedIn("a.ts", "/** As a/b.ts does. */\nimport c from './c/d.ts';")).toEqual(["a/b.ts"]);
  expect(missing).toEqual([]);
});

test("whoever wakes a job by its name names one that exists", () => {
  const texts = files.map((file) => readFileSync(join(src, file), "utf8"));
  const found = (pattern: RegExp): string[] =>
    texts.flatMap((text) => [...text.matchAll(pattern)].map(([, name = ""]) => name));
  const woken = found(/\bwake\("([^"]+)"\)/g);
  const jobs = new Set(found(/\b(?:name: |name = |JOB = )"([a-z-]+)"/g));
  expect(woken.length).toBeGreaterThan(5);
  expect(woken.filter((name) => !jobs.has(name))).toEqual([]);
});
