/** CONTRIBUTING.md: its checklists name the places in which the code has every operation, field, event, setting and so on. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { EVENT_NAMES } from "../src/events/kinds.ts";
import { MessageView, ThreadPatch, ThreadView } from "../src/mailbox/state/views.ts";
import { TABLES } from "../src/moving/tables.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, EXT_OPERATIONS, MAIL_OPERATIONS } from "../src/operations/operations.ts";
import { CHANGED_FIELDS } from "../src/store/schema.ts";
import { SETTINGS } from "../src/store/settings.ts";

const root = join(import.meta.dir, "..");
const page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");

/** The files that a change may touch, by path. */
const texts = new Map(
  [...new Bun.Glob("{src,test,docs}/**/*.{ts,tsx,sql,md}").scanSync(root)]
    .filter((path) => path !== "test/contributing.test.ts")
    .sort()
    .map((path) => [path, readFileSync(join(root, path), "utf8")]),
);

/** Places that name nothing that is added: news for people, hashes, headings of groups. */
const NAMES_NOTHING = new Set([
  "CHANGELOG.md",
  "test/api/public-documents.test.ts",
  "src/app/pages/settings/settings-workspace.ts",
]);

/** Names of all things of a kind. */
interface Group {
  what: string;
  names: readonly string[];
  /** A recent one. The files of src/ and docs/ that have its name are all on the list. */
  newest?: string | undefined;
}

const names = (operations: readonly { name: string }[]): string[] => operations.map(({ name }) => name);
const group = (what: string, names: readonly string[]): Group => ({ what, names, newest: names.at(-1) });

const commands = [...(texts.get("src/imap/imap-server.ts") ?? "").matchAll(/^ {6}case "([A-Z]+)":/gm)].map(
  ([, name = ""]) => name,
);
const migrations = [...texts.keys()].flatMap((path) => /[^/]+\.sql$/.exec(path)?.[0] ?? []);

const fieldsOfThread = Object.keys(ThreadView.properties).filter(
  (name) => /[A-Z]/.test(name) && !Object.hasOwn(MessageView.properties, name),
);

const KINDS: Record<string, Group[]> = {
  "An operation": [
    group("in /api/v1", names(MAIL_OPERATIONS)),
    group("for programs", names([...MAIL_OPERATIONS, ...EXT_OPERATIONS])),
    group("for admins", names(ADMIN_OPERATIONS)),
    group("for people", names(APP_OPERATIONS)),
  ],
  // Those that no other resource has; one word, such as `starred`, is the name of many things.
  "A field of a resource": [{ what: "of Thread", names: fieldsOfThread }],
  "A field that a PATCH changes": [
    { what: "of ThreadPatch", names: [...Object.keys(ThreadPatch.properties), ...CHANGED_FIELDS] },
  ],
  "A webhook event": [group("of all", EVENT_NAMES)],
  "A setting": [group("of all", Object.keys(SETTINGS))],
  "A migration": [group("by its file", migrations), { what: "by its table", names: Object.keys(TABLES) }],
  "An IMAP command": [{ what: "of all", names: commands, newest: "GETQUOTAROOT" }],
};

/** The places that a checklist names, in its order: files, folders that end in `/`, and patterns. */
function placesOf(heading: string): string[] {
  const [, section = ""] = page.split(`\n### ${heading}\n`);
  const [text = ""] = section.split("\n#");
  const steps = text
    .split(/^\d+\. /m)
    .slice(1)
    .join("\n");
  return [...steps.matchAll(/`((?:src|test|docs)\/[^`\s]*|CHANGELOG\.md)`/g)].map(([, place = ""]) => place);
}

const isIn = (place: string, path: string): boolean =>
  place.endsWith("/") ? path.startsWith(place) : new Bun.Glob(place).match(path);

/** The words of each file, with the dots inside of them. */
const words = new Map([...texts].map(([path, text]) => [path, new Set(text.match(/\w+(?:\.\w+)*/g))]));

const filesWith = (name: string): string[] => [...words].flatMap(([path, found]) => (found.has(name) ? [path] : []));

test("the page has these checklists, in order", () => {
  const [, checklists = ""] = page.split("\n## Checklists\n");
  expect([...checklists.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading)).toEqual(Object.keys(KINDS));
});

describe.each(Object.entries(KINDS))("%s", (heading, groups) => {
  const places = placesOf(heading);
  const filesByName = new Map(groups.flatMap((group) => group.names).map((name) => [name, filesWith(name)]));
  const filesOf = (name: string): string[] => filesByName.get(name) ?? [];

  test("steps are numbered, and each place exists", () => {
    expect(places.length).toBeGreaterThan(4);
    const missing = places.filter((place) =>
      /[*/]$|\*/.test(place) ? ![...texts.keys()].some((path) => isIn(place, path)) : !existsSync(join(root, place)),
    );
    expect(missing).toEqual([]);
  });

  test.each(groups)("a file that names every one $what is on the list", ({ names }) => {
    expect(names.length).toBeGreaterThan(4);
    const [first = "", ...others] = names;
    const common = filesOf(first).filter((path) => others.every((name) => filesOf(name).includes(path)));
    expect(common.length).toBeGreaterThan(0);
    expect(common.filter((path) => !places.includes(path))).toEqual([]);
  });

  test.each(groups.filter(({ newest }) => newest !== undefined))(
    "so are those that name the newest $what",
    ({ newest = "" }) => {
      const named = filesOf(newest).filter((path) => !path.startsWith("test/"));
      expect(named.length).toBeGreaterThan(0);
      expect(named.filter((path) => !places.some((place) => isIn(place, path)))).toEqual([]);
    },
  );

  test("a place on the list names some", () => {
    const named = [...new Set([...filesByName.values()].flat())];
    const useless = places.filter((place) => !NAMES_NOTHING.has(place) && !named.some((path) => isIn(place, path)));
    expect(useless).toEqual([]);
  });
});

test("the commands of the page exist", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: object };
  const run = [...page.matchAll(/\bnpm run ([\w:]+)/g)].map(([, script = ""]) => script);
  expect(run.length).toBeGreaterThan(1);
  expect(run.filter((script) => !Object.hasOwn(scripts, script))).toEqual([]);
  const files = [...page.matchAll(/\bbun (packaging\/[\w.-]+)/g)].map(([, file = ""]) => file);
  expect(files.length).toBeGreaterThan(1);
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});
