/** Citations of docs/rules.md: each names a rule that exists, and no other document is cited in their place. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";

const root = join(import.meta.dir, "..");

/** Headings of rules, in order. */
const headings = readFileSync(join(root, "docs/rules.md"), "utf8")
  .split("\n")
  .flatMap((line) => /^### (.*)$/.exec(line)?.[1] ?? []);

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

/** What follows `word` and a colon in comments, strings and Markdown, up to where a citation ends. */
function following(word: string, path: string, text: string): string[] {
  const found = unbroken(path, text).matchAll(
    new RegExp(`(?<=^(.*))(?<![\`\\w])${word}: ((?:(?!\\*/)[^\\n).;:"\`])*)`, "gm"),
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
