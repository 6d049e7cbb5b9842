/** README, CHANGELOG and docs/: the commands, settings, variables and files that they name exist, and README's claims hold. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { engines, license, scripts } from "../package.json" with { type: "json" };
import { SETTINGS } from "../src/store/settings.ts";
import { EXAMPLES, PAGES, textOf } from "./harness/doc-pages.ts";
import { openTerminal } from "./harness/servers/terminal.ts";

const root = join(import.meta.dir, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Code of a page: what stands between backticks in a line, and the lines of its shell examples. */
function codeOf(page: string): string[] {
  const inline = [...textOf(page).matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
  const lines = EXAMPLES.filter((example) => example.page === page).flatMap(({ code }) => code.split("\n"));
  return [...inline, ...lines];
}

/** All that a pattern's first group matches in the code of all pages, each with its page. */
const namedAs = (pattern: RegExp): { page: string; name: string }[] =>
  PAGES.flatMap((page) =>
    codeOf(page).flatMap((code) => [...code.matchAll(pattern)].map(([, name = ""]) => ({ page, name }))),
  );

describe("a page names", () => {
  test("commands that exist", async () => {
    const { stdout } = await openTerminal().say("--help");
    const commands = new Set(
      [...stdout.matchAll(/^ {2}mailroom ([a-z-]+(?: [a-z-]+)?) {2}/gm)].map(([, name]) => name),
    );
    const named = namedAs(/^(?:npx )?mailroom ([a-z][a-z-]*(?: [a-z][a-z-]*)?)/g);
    const exists = (name: string): boolean =>
      [name, name.split(" ")[0]].some((words) => words === "help" || commands.has(words));
    expect(commands.size).toBeGreaterThan(50);
    expect(named.length).toBeGreaterThan(150);
    expect(named.filter(({ name }) => !exists(name))).toEqual([]);
  });

  test("settings that exist", () => {
    const groups = new Set(Object.keys(SETTINGS).map((name) => name.split(".")[0]));
    const named = namedAs(/^(?:mailroom settings \w+ )?([a-z]+\.[a-z]\w+)(?=$| )/gi).filter(
      ({ name }) => groups.has(name.split(".")[0]) && !name.endsWith(".ts"),
    );
    expect(named.length).toBeGreaterThan(100);
    expect(named.filter(({ name }) => !Object.hasOwn(SETTINGS, name))).toEqual([]);
  });

  test("environment variables that are read", () => {
    const code = [...new Bun.Glob("{src,test,packaging}/**/*.{ts,sh}").scanSync(root), "install.sh"]
      .map(read)
      .join("\n");
    const named = PAGES.flatMap((page) =>
      [...textOf(page).matchAll(/\b(?:MAILROOM|BENCH)_[A-Z0-9_]*[A-Z0-9]\b/g)].map(([name]) => ({ page, name })),
    );
    expect(named.length).toBeGreaterThan(100);
    expect(named.filter(({ name }) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
  });

  test("scripts of npm that exist", () => {
    const named = namedAs(/\bnpm (?:run (?:--silent )?)?(start|test(?::\w+)?|(?<=run (?:--silent )?)[\w:]+)/g);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(({ name }) => !Object.hasOwn(scripts, name))).toEqual([]);
  });

  test("files and folders that exist", () => {
    const named = namedAs(/^((?:src|test|packaging|docs)\/[\w./-]*)/g);
    // A test may be named without its ending, and on the page of security without its folder.
    const tests = [...new Bun.Glob("test/**/*.test.ts").scanSync(root)];
    const isTest = (name: string): boolean =>
      tests.some((path) => path.startsWith(`${name}.`) || path.startsWith(`test/${name}.`));
    const exists = (name: string): boolean => existsSync(join(root, name)) || isTest(name);
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ name }) => !exists(name))).toEqual([]);
  });

  test("options that install.sh takes", () => {
    const taken = new Set(read("install.sh").match(/(?<=^ +| \| )--[a-z0-9-]+/gm));
    const named = namedAs(/(?<=install\.sh .*)(--[a-z0-9-]+)/g);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(({ name }) => !taken.has(name))).toEqual([]);
  });
});

describe("README", () => {
  const readme = textOf("README.md");

  test("shows each folder of src/ and each file in it", () => {
    const [, tree = ""] = /^```\nsrc\/\n([\s\S]*?)^packaging\//m.exec(readme) ?? [];
    const entries = readdirSync(join(root, "src"), { withFileTypes: true });
    const expected = entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
    const shown = [...tree.matchAll(/(?<=^| {2})(?:[a-z]+\/|[a-z]+\.ts)(?= |$)/gm)].map(([name]) => name);
    expect(shown.sort()).toEqual(expected.filter((name) => name !== "tsconfig.json").sort());
  });

  test("asks for the Node that package.json asks for", () => {
    const [, major, minor] = /^Node (\d+)\.(\d+) or newer/m.exec(readme) ?? [];
    expect(engines.node).toBe(`>=${major}.${minor}.0`);
  });

  test("has the key of the demo", () => {
    expect(read("src/demo/demo.ts")).toContain(`key: "${/^KEY=(\w+)$/m.exec(readme)?.[1]}"`);
  });

  test("names the licence", () => {
    expect(readme).toContain(`## Licence\n\n${license}.`);
    expect(read("LICENSE")).toStartWith(`${license} License`);
  });
});

test("the page of performance lists the parts of the benchmark", () => {
  const [, listed = ""] = /^Parts: ([\s\S]*?)\./m.exec(textOf("docs/performance.md")) ?? [];
  const [, inCode = ""] = /^const parts = \{([\s\S]*?)^\};/m.exec(read("test/bench/run.ts")) ?? [];
  const parts = [...inCode.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name);
  expect(listed.split(/,\s+/)).toEqual(parts as string[]);
});
