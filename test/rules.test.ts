/** docs/rules.md: each citation names a rule that exists, and the tables of defaults are those of the code. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { type Config, readConfig } from "../src/config.ts";
import { SETTINGS } from "../src/store/settings.ts";

const root = join(import.meta.dir, "..");
const rules = readFileSync(join(root, "docs/rules.md"), "utf8");

/** Headings of rules, in order. */
const headings = rules.split("\n").flatMap((line) => /^### (.*)$/.exec(line)?.[1] ?? []);

/** Texts that may cite, by path; but for the rules and this file, which are about citing. */
const texts = new Map(
  [...new Bun.Glob("{src,test,docs,packaging}/**/*").scanSync(root), "install.sh", "README.md", "CHANGELOG.md"]
    .filter((path) => /\.(?:ts|tsx|md|sh|css|html|service)$|^packaging\/[^.]*$/.test(path))
    .filter((path) => path !== "docs/rules.md" && path !== relative(root, import.meta.path))
    .map((path) => [path, readFileSync(join(root, path), "utf8")] as const),
);

/** The text with each comment, and each paragraph of Markdown, on one line. */
const unbroken = (path: string, text: string): string =>
  path.endsWith(".md")
    ? text.replace(/\n[ \t]*(?=[^\s#|])/g, " ")
    : text.replace(/\n[ \t]*(?:\*(?!\/)|\/\/|#)[ \t]*(?=\S)/g, " ");

/** Finds the texts that follow `word` and a colon in comments, strings and Markdown, up to where a citation ends. */
function following(word: string, path: string, text: string): string[] {
  const found = unbroken(path, text).matchAll(
    new RegExp(`(?<=^(.*))(?<![\`\\w])${word}: (?![[{])((?:(?!\\*/)[^\\n).;:"\`])*)`, "gm"),
  );
  return [...found].flatMap(([, before = "", cited = ""]) =>
    path.endsWith(".md") || /\/\/|\/\*|^\s*[*#]|["'`]/.test(before) ? [cited.trim()] : [],
  );
}

const citedIn = (path: string, text: string): string[] =>
  following("rules", path, text).flatMap((list) => list.split(", "));

describe("a citation", () => {
  test.each([
    ["in a comment", "a.ts", "/** Hidden (rules: Bcc): always. */", ["Bcc"]],
    ["as a whole comment", "a.ts", "  /** rules: Thread fields */", ["Thread fields"]],
    ["with words after it", "a.ts", "// rules: Rate headers; and more", ["Rate headers"]],
    ["of several", "a.ts", "// Sent (RFC 5322 §3; rules: Bcc, Reply).", ["Bcc", "Reply"]],
    ["over two lines", "a.ts", "/**\n * Sent (rules: Bcc, Order\n * of refusals).\n */", ["Bcc", "Order of refusals"]],
    ["over two lines of //", "a.ts", "  // rules: Order\n  // of refusals.", ["Order of refusals"]],
    ["in the name of a test", "a.ts", 'test("in order (rules: Reply)", f);', ["Reply"]],
    ["in a script", "a.sh", "# rules: Ready\n# line.", ["Ready line"]],
    ["in Markdown", "a.md", "Nobody sees it (rules: Bcc,\nReply). See `rules: Heading`.", ["Bcc", "Reply"]],
    ["is no code", "a.ts", "const rules: Rule[] = [];", []],
    ["is no value", "a.md", "{ rules: [{ match }] }", []],
  ])("%s", (_, path, text, cited) => {
    expect(citedIn(path, text)).toEqual(cited);
  });
});

test("headings are distinct, and can be cited", () => {
  expect(headings.length).toBeGreaterThan(100);
  expect(headings.filter((heading, i) => headings.indexOf(heading) !== i)).toEqual([]);
  expect(headings.filter((heading) => !/^[A-Z][A-Za-z0-9]*(?:[ -][A-Za-z0-9]+)*$/.test(heading))).toEqual([]);
});

test("every citation names a heading", () => {
  const citations = [...texts].flatMap(([path, text]) => citedIn(path, text).map((cited) => ({ path, cited })));
  expect(citations.length).toBeGreaterThan(150);
  expect(citations.filter(({ cited }) => !headings.includes(cited))).toEqual([]);
});

test("nothing else is cited for a rule", () => {
  const others = [...texts].flatMap(([path, text]) =>
    ["contract", "spec"].flatMap((word) => following(word, path, text).map((cited) => `${path}: ${word}: ${cited}`)),
  );
  expect(others).toEqual([]);
});

/** The first two cells of each row of the table below a heading; the name without its backticks. */
function tableBelow(heading: string): { name: string; preset: string }[] {
  const [, section = ""] = rules.split(`\n### ${heading}\n`);
  const [text = ""] = section.split("\n#");
  return [...text.matchAll(/^\| `([^`]+)` \| (.+?) \|/gm)].map(([, name = "", preset = ""]) => ({ name, preset }));
}

test("the table of settings is that of the code", () => {
  const rows = tableBelow("Settings").map(({ name, preset }) => [name, preset.replaceAll("`", "")]);
  const inCode = Object.entries(SETTINGS).map(([name, setting]) => [
    name,
    (setting.format as (value: unknown) => string)(setting.default),
  ]);
  expect(rows).toEqual(inCode);
});

describe("the table of the environment", () => {
  const acme = { MAILROOM_TLS: "acme", MAILROOM_HOSTNAME: "mail.example.com" };
  const rows = tableBelow("Environment");

  test("names each variable that is read", () => {
    const read = new Set<string>();
    const env: Record<string, string> = acme;
    const recording = new Proxy(env, {
      get(_, name: string) {
        read.add(name);
        return env[name];
      },
    });
    readConfig(recording);
    expect(rows.map(({ name }) => name).sort()).toEqual([...read].sort());
  });

  const literal = rows.flatMap(({ name, preset }) => {
    const [, value] = /^`([^`]+)`$/.exec(preset) ?? [];
    return value === undefined ? [] : [[name, value] as const];
  });

  test("has defaults to compare", () => expect(literal.length).toBeGreaterThan(8));

  test.each(literal)("%s has the default %s", (name, value) => {
    const base = name.startsWith("MAILROOM_ACME") ? acme : {};
    const unset: Config = readConfig(base);
    expect(readConfig({ ...base, [name]: value })).toEqual(unset);
  });
});
