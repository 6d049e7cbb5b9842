/** Files that a forge reads, in .github/, and those that editors read: the commands, pages and options that they name exist. */
import { describe, expect, test } from "bun:test";
import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import biome from "../.biome.json" with { type: "json" };
import { scripts } from "../package.json" with { type: "json" };
import { openTerminal } from "./harness/servers/terminal.ts";

const root = join(import.meta.dir, "..");
const textOf = (path: string): string => readFileSync(join(root, path), "utf8");
const filesIn = (folder: string): string[] => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);

interface Workflow {
  on: Record<string, unknown>;
  permissions: unknown;
  concurrency: { group: string };
  jobs: Record<
    string,
    { "timeout-minutes": number; permissions?: unknown; steps: { uses?: string; run?: string; with?: object }[] }
  >;
}

interface Form {
  name: string;
  description: string;
  body: { type: string; id?: string; attributes: Record<string, unknown>; validations?: { required: boolean } }[];
}

const parse = <T>(path: string): T => Bun.YAML.parse(textOf(path)) as T;

describe.each(filesIn(".github/workflows"))("%s", (path) => {
  const { on, permissions, concurrency, jobs } = parse<Workflow>(path);
  const steps = Object.values(jobs).flatMap((job) => job.steps);

  test("may read the code and no more, ends, and gives way to the next run", () => {
    expect(permissions).toEqual({ contents: "read" });
    expect(concurrency.group).toContain("github.ref");
    expect(Object.keys(on)).not.toContain("pull_request_target");
    for (const job of Object.values(jobs)) {
      expect(job["timeout-minutes"]).toBeGreaterThan(0);
      expect(job.permissions).toBeUndefined();
    }
  });

  test("uses actions of a fixed major version, and keeps no token after the checkout", () => {
    const used = steps.flatMap(({ uses }) => uses ?? []);
    expect(used.filter((action) => !/^actions\/[a-z-]+@(v\d+|[0-9a-f]{40})$/.test(action))).toEqual([]);
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    expect(checkouts.length).toBe(Object.keys(jobs).length);
    for (const { with: options } of checkouts) expect(options).toEqual({ "persist-credentials": false });
  });

  test("runs commands that exist", () => {
    const commands = steps.flatMap(({ run }) => run?.split(/\n|&&/).map((command) => command.trim()) ?? []);
    expect(commands.length).toBeGreaterThan(0);
    for (const command of commands) {
      const [program = "", argument = "", script = ""] = command.split(" ");
      if (program === "apt-get" || command === "npm ci") continue;
      if (program === "npm") {
        expect(Object.keys(scripts)).toContain(argument === "run" ? script : argument);
      } else {
        expect(() => accessSync(join(root, program), constants.X_OK)).not.toThrow();
      }
    }
  });
});

test("the workflows run all that continuous integration has, and the first tier", () => {
  const runs = filesIn(".github/workflows").flatMap((path) =>
    Object.values(parse<Workflow>(path).jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? [])),
  );
  expect(runs).toContain(".ci/run");
  expect(runs).toContain("npm test");
});

describe("the forms of issues", () => {
  const forms = filesIn(".github/ISSUE_TEMPLATE").filter((path) => !path.endsWith("/config.yml"));

  test.each(forms)("%s has what a forge asks of a form", (path) => {
    const { name, description, body } = parse<Form>(path);
    expect([name.length > 0, description.length > 0]).toEqual([true, true]);
    const ids = body.filter(({ type }) => type !== "markdown").map(({ id }) => id);
    expect(ids).not.toContain(undefined);
    expect(new Set(ids).size).toBe(ids.length);
    expect(body.filter(({ type }) => !["markdown", "input", "textarea", "checkboxes"].includes(type))).toEqual([]);
    const unnamed = body.filter(({ type, attributes }) => type !== "markdown" && typeof attributes.label !== "string");
    expect(unnamed).toEqual([]);
  });

  test("that of a bug asks for version, steps and the doctor, by commands that exist", async () => {
    const text = textOf(".github/ISSUE_TEMPLATE/bug.yml");
    const { body } = parse<Form>(".github/ISSUE_TEMPLATE/bug.yml");
    const required = body.filter(({ validations }) => validations?.required).map(({ id }) => id);
    expect(required).toEqual(expect.arrayContaining(["version", "steps", "doctor"]));
    const { stdout } = await openTerminal().say("--help");
    const commands = [...text.matchAll(/`mailroom (\w+)`/g)].map(([, name]) => name);
    expect(commands).toEqual(["version", "doctor"]);
    for (const name of commands) expect(stdout).toContain(`mailroom ${name} `);
  });

  test("leave no way around them, and send vulnerabilities elsewhere", () => {
    expect(parse<{ blank_issues_enabled: boolean }>(".github/ISSUE_TEMPLATE/config.yml").blank_issues_enabled).toBe(
      false,
    );
    expect(textOf(".github/ISSUE_TEMPLATE/bug.yml")).toContain("SECURITY.md");
  });
});

test("files that .github/ names exist", () => {
  const paths = [...new Bun.Glob(".github/**/*").scanSync({ cwd: root, dot: true })];
  const named = paths.flatMap((path) => textOf(path).match(/(?<![\w/.@])(?:docs\/)?[\w-]+\.(?:md|sh)\b/g) ?? []);
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((name) => !existsSync(join(root, name)))).toEqual([]);
});

test("editors are told what Biome holds", () => {
  const { formatter, files } = biome;
  const sections = new Map(
    textOf(".editorconfig")
      .split(/^\[(?=.*\]$)/m)
      .map((section) => {
        const [head = "", ...lines] = section.split("\n");
        const options = lines.flatMap((line) => /^(\w+) = (.*)$/.exec(line)?.slice(1) ?? []);
        const pairs = options.flatMap((name, i) => (i % 2 === 0 ? [[name, options[i + 1]] as const] : []));
        return [head.replace(/\]$/, ""), Object.fromEntries(pairs)] as const;
      }),
  );
  expect(sections.get("*")).toMatchObject({
    indent_style: formatter.indentStyle,
    indent_size: String(formatter.indentWidth),
  });
  expect(sections.get("*.{ts,tsx,css,json}")).toEqual({ max_line_length: String(formatter.lineWidth) });
  expect(files.includes).toContain("src/**");
  const folders = [...sections.keys()].filter((name) => name.includes("/")).map((name) => dirname(name));
  expect(folders.filter((folder) => !existsSync(join(root, folder)))).toEqual([]);
});
