/** README, CHANGELOG and docs/: links and named tests exist, and an example that does not run says why. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { DOCS, EXAMPLES, PAGES, textOf } from "./harness/doc-pages.ts";

const root = join(import.meta.dir, "..");

const withoutCode = (text: string): string => text.replace(/^```[\s\S]*?^```$/gm, "").replace(/`[^`\n]*`/g, "");

/** The anchors that GitHub gives to the headings of a page. */
function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>();
  const text = textOf(page).replace(/^```[\s\S]*?^```$/gm, "");
  for (const [, heading = ""] of text.matchAll(/^#{1,6} +(.+)$/gm)) {
    const shown = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").trim();
    const slug = shown
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M} _-]/gu, "")
      .replaceAll(" ", "-");
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Relative links, images too: where each leads, as written. */
function linksOf(page: string): string[] {
  const targets = [...withoutCode(textOf(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return targets.filter((target) => !/^[a-z]+:/i.test(target));
}

describe("links", () => {
  test.each(PAGES)("of %s lead to files and headings that exist", (page) => {
    const broken = linksOf(page).filter((target) => {
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? page : relative(root, join(root, dirname(page), path));
      if (file.startsWith("..") || !existsSync(join(root, file))) return true;
      return anchor !== undefined && !anchorsOf(file).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  test("of README reach every page of docs/", () => {
    const linked = linksOf("README.md").map((target) => target.split("#")[0] ?? "");
    expect(DOCS.filter((page) => !linked.includes(page))).toEqual([]);
  });
});

test("the tests that the security page names exist", () => {
  const rows = textOf("docs/security.md").matchAll(/^\|.*\|.*\|(.*)\|$/gm);
  const named = [...rows].flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
  const missing = named.filter((name) => new Bun.Glob(`test/${name}{,.*}.test.ts`).scanSync(root).next().done);
  expect(named.length).toBeGreaterThan(30);
  expect(missing).toEqual([]);
});

test("README has at most 150 lines", () => {
  expect(textOf("README.md").split("\n").length).toBeLessThanOrEqual(151);
});

/** Why an example cannot run here, with the commands that may have the reason. */
const REASONS: Record<string, RegExp> = {
  project:
    /^(npm (start|test|run (build|bench|test:system|test:long))|bun test|BENCH_MESSAGES=\d+ npm run bench|export MAILROOM_DATA|dist\/mailroom)\b/,
  machine:
    /^(sha256sum|curl --connect-to|\.\/install\.sh|systemctl|journalctl|(mv|cp --archive --no-clobber) \/var\/lib\/mailroom|sed -i|find \/var\/lib\/mailroom|MAILROOM_DATA=\/var|mailroom (doctor|certificates renew|import|restore|queue (list|release)|settings set search\.engine))\b/,
  // packaging/container.system.test.ts runs these.
  container: /^docker (build|compose) /,
  replica: /^mailroom standby (invite|join)\b/,
  dns: /^mailroom domain (dns|verify)\b/,
  outside: /^mailroom import .*--imap\b/,
  s3: /^(export (MAILROOM_BLOBS|AWS_ACCESS_KEY_ID)=|mailroom (doctor|serve|blobs move)\b)/,
  other: /^(rsync -a|mailroom workspace (export .*--final|import|remove)|rm -r \.\/move$)/,
  client: /^claude mcp add\b/,
  // snippets.system.test.ts runs these. A body that is JSON ends on a line of its own.
  snippet: /^(curl |}'$)/,
};

test("an example that does not run says why, and is one of those that cannot", () => {
  const unexplained = EXAMPLES.filter(({ mark }) => mark !== "").flatMap(({ page, line, mark, code }) => {
    const reason = REASONS[/^no-run=(\w+)$/.exec(mark)?.[1] ?? ""];
    const commands = code
      .replace(/\\\n\s*/g, "")
      .split("\n")
      .filter((command) => /^[^#\s]/.test(command));
    return commands.filter((command) => !reason?.test(command)).map((command) => `${page}:${line}: ${command}`);
  });
  expect(unexplained).toEqual([]);
});
