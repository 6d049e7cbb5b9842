/**
 * README, CHANGELOG and docs/: every link leads somewhere, and the shell examples run against a demo (docs/testing.md says
 * how).
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { apiClient } from "./harness/api.ts";
import { temporaryFolder } from "./harness/folder.ts";
import { PROGRAM, runJson, serve, settle } from "./harness/process.ts";
import { startReceiver } from "./harness/receiver.ts";

const root = join(import.meta.dir, "..");
const DOCS = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);
const PAGES = ["README.md", "CHANGELOG.md", ...DOCS];

const textOf = (page: string): string => readFileSync(join(root, page), "utf8");
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

test("README has at most 150 lines", () => {
  expect(textOf("README.md").split("\n").length).toBeLessThanOrEqual(151);
});

interface Example {
  page: string;
  /** Of its first command, from 1. */
  line: number;
  /** What follows `sh` in the fence. */
  mark: string;
  code: string;
}

const EXAMPLES: Example[] = PAGES.flatMap((page) => {
  const text = textOf(page);
  return [...text.matchAll(/^```sh(.*)\n([\s\S]*?)^```$/gm)].map(({ index, 1: mark = "", 2: code = "" }) => ({
    page,
    line: text.slice(0, index).split("\n").length + 1,
    mark: mark.trim(),
    code,
  }));
});

/** Why an example cannot run here, with the commands that may have the reason. */
const REASONS: Record<string, RegExp> = {
  project:
    /^(npm (start|test|run (build|bench))|bun test|BENCH_MESSAGES=\d+ npm run bench|export MAILROOM_DATA|dist\/mailroom)\b/,
  machine:
    /^(sha256sum|\.\/install\.sh|systemctl|journalctl|mv \/var\/lib\/mailroom|mailroom (doctor|restore|queue release|settings set search\.engine))\b/,
  dns: /^mailroom domain (dns|verify)\b/,
  outside: /^mailroom import .*--imap\b/,
  client: /^claude mcp add\b/,
  values: /^(export KEY=|alias mailroom=)/,
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

const missing = ["bash", "curl"].filter((program) => !Bun.which(program));
const note = missing.length === 0 ? "" : ` (skipped: no ${missing.join(", ")})`;

interface Shown {
  messages: { id: string; messageId: string; attachments: { id: string }[] }[];
}

describe.skipIf(missing.length > 0)(`examples${note}`, () => {
  let folder: string;
  let env: Record<string, string>;
  /** Addresses as the pages write them, and those of the demo. */
  let addresses: Record<string, string>;

  beforeAll(async () => {
    folder = temporaryFolder();
    const place = { data: join(folder, "data") };
    mkdirSync(place.data);
    settle(place, {
      "api.ipRequestsPerMinute": "100000",
      "api.keyRequestsPerMinute": "100000",
      "webhooks.allowNetworks": "127.0.0.0/8",
    });
    const { http, mx, stderr } = await serve(place, "--demo");
    addresses = { "http://localhost:8025": http, "127.0.0.1:2525": `${mx.host}:${mx.port}` };

    const key = /\bmr_\w+/.exec(stderr())?.[0] ?? "";
    const api = apiClient(http, key);
    const { threads } = (await api.get<{ threads: { id: string }[] }>("/search?q=has:attachment")).body;
    const thread = threads[0]?.id ?? "";
    const { messages } = (await api.get<Shown>(`/threads/${thread}`)).body;
    const message = messages.find(({ attachments }) => attachments.length > 0);

    const hook = startReceiver().url;
    const events = "message.inbound,message.bounced";
    const endpoint = await runJson<{ id: string }>(place, "webhook", "add", "--url", hook, "--events", events);
    await runJson(place, "webhook", "test", endpoint.id);
    const [delivery] = await runJson<{ id: string }[]>(place, "webhook", "deliveries", endpoint.id);

    const bin = join(folder, "bin");
    mkdirSync(bin);
    const program = PROGRAM.map((part) => `'${part}'`).join(" ");
    writeFileSync(join(bin, "mailroom"), `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 });
    // An HTTP status of 400 or more is a failure.
    writeFileSync(join(folder, ".curlrc"), "silent\nshow-error\nfail-with-body\nmax-time = 60\n");
    writeFileSync(join(folder, "relay.txt"), "smtp://smarthost.example.com\n");
    env = {
      PATH: `${bin}:${process.env.PATH}`,
      CURL_HOME: folder,
      MAILROOM_DATA: place.data,
      KEY: key,
      THREAD: thread,
      MESSAGE: message?.id ?? "",
      MESSAGE_ID: message?.messageId ?? "",
      ATTACHMENT: message?.attachments[0]?.id ?? "",
      HOOK: hook,
      ENDPOINT: endpoint.id,
      DELIVERY: delivery?.id ?? "",
    };
  }, 120_000);

  const runnable = EXAMPLES.filter(({ mark }) => mark === "");

  test.each([...new Set(runnable.map(({ page }) => page))])(
    "of %s run",
    async (page) => {
      const ofPage = runnable.filter((example) => example.page === page);
      let script = ofPage.map(({ line, code }) => `: ${page}:${line}\n${code}`).join("");
      for (const [written, actual] of Object.entries(addresses)) script = script.replaceAll(written, actual);
      const child = Bun.spawn(["bash", "-euxo", "pipefail", "-c", script], {
        cwd: folder,
        env,
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
      ]);
      const exitCode = await child.exited;
      // The end of what was run and said tells which command failed.
      expect({ exitCode, end: exitCode === 0 ? "" : `${stderr.slice(-2000)}\n${stdout.slice(-500)}` }).toEqual({
        exitCode: 0,
        end: "",
      });
    },
    120_000,
  );
});
