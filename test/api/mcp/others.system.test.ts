/**
 * Programs of others against the server: MCP's conformance suite, and its Inspector on the command line.
 *
 * Only the suite's scenarios for a server with tools apply. The others need the tools, prompts and resources of the suite's
 * own example server (`tools-call-*`, `json-schema-2020-12`, `prompts-*`, `resources-*`, `input-required-*`, `tasks-*`,
 * `elicitation-*`, `completion-complete`, `http-custom-header-*`), or sessions, logging and streams, which a stateless server
 * does not have (`logging-set-level`, `server-session-lifecycle`, `server-sse-polling`, `server-sse-multiple-streams` in the
 * era of 2025).
 */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { temporaryFolder } from "../../harness/folder.ts";
import { boot } from "../../harness/servers/boot.ts";

const SUITE = join(import.meta.dir, "../../../node_modules/@modelcontextprotocol/conformance/dist/index.js");

/** Checks that need test tools, prompts and resources of the suite's own server. */
const NOT_OURS: Record<string, string[]> = {
  "server-stateless": [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
  ],
  caching: [
    "sep-2549-prompts-list-caching-hints",
    "sep-2549-resources-list-caching-hints",
    "sep-2549-resources-templates-list-caching-hints",
  ],
};

const running: { stop(now: boolean): unknown }[] = [];
afterAll(() => {
  for (const server of running) server.stop(true);
});

/** Starts a proxy that adds a key, because the suite sends none. */
async function withKey(): Promise<string> {
  const { http, owner } = await boot();
  const proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const headers = new Headers(request.headers);
      headers.set("authorization", `Bearer ${owner.apiKey}`);
      // fetch decompresses the body, and leaves the header that says how it was compressed.
      headers.set("accept-encoding", "identity");
      const body = request.body && (await request.bytes());
      return fetch(`${http}/api/mcp`, { method: request.method, headers, body });
    },
  });
  running.push(proxy);
  return `http://127.0.0.1:${proxy.port}/mcp`;
}

async function run(command: string[], cwd: string, env: Record<string, string> = {}): Promise<string> {
  const child = Bun.spawn(command, {
    cwd,
    env: { PATH: process.env.PATH ?? "", HOME: cwd, NO_COLOR: "1", ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  return Bun.stripANSI(`${out}\n${err}`);
}

const endpoint = withKey();

describe("the conformance suite passes", () => {
  const scenarios: Record<string, string[]> = {
    "2025-06-18": ["server-initialize", "ping", "tools-list"],
    "2025-11-25": ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"],
    "2026-07-28": [
      "server-stateless",
      "tools-list",
      "caching",
      "http-header-validation",
      "server-sse-multiple-streams",
      "sep-2164-resource-not-found",
      "dns-rebinding-protection",
    ],
  };
  /** One run for each revision, with all its scenarios, because the start of the suite takes most of a run. */
  const runs = Object.keys(scenarios).map(async (revision) => {
    const folder = temporaryFolder();
    const options = ["--url", await endpoint, "--suite", "all", "--spec-version", revision, "--output-dir", folder];
    const output = await run([process.execPath, SUITE, "server", ...options], folder);
    return { revision, folder, output };
  });

  test.each(runs.map((run, i) => [Object.keys(scenarios)[i] ?? "", run] as const))(
    "%s",
    async (_revision, run) => {
      const { revision, folder, output } = await run;
      for (const scenario of scenarios[revision] ?? []) {
        const [file] = [...new Bun.Glob(`server-${scenario}-2*/checks.json`).scanSync(folder)];
        expect(file, `${scenario}\n${output}`).toBeDefined();
        const checks: { id: string; status: string }[] = await Bun.file(join(folder, file ?? "")).json();
        const idsOf = (status: string) => checks.filter((check) => check.status === status).map(({ id }) => id);
        expect(idsOf("SUCCESS").length, scenario).toBeGreaterThan(0);
        expect([scenario, idsOf("FAILURE")]).toEqual([scenario, NOT_OURS[scenario] ?? []]);
      }
    },
    300_000,
  );
});

const inspector = Bun.which("mcp-inspector");

/** Not a dependency of the project, because it has 110 MB. */
describe.skipIf(!inspector)("inspector (npm install -g @modelcontextprotocol/inspector@2.12.0)", () => {
  const inspect = async (...args: string[]): Promise<Record<string, unknown>> => {
    const target = [await endpoint, "--transport", "http"];
    const output = await run([inspector ?? "", "--cli", ...target, ...args], temporaryFolder());
    return JSON.parse(output.slice(output.indexOf("{"), output.lastIndexOf("}") + 1));
  };

  test("lists the tools", async () => {
    expect((await inspect("--method", "tools/list")).tools).toHaveLength(12);
  }, 300_000);

  test("calls a tool", async () => {
    const called = await inspect("--method", "tools/call", "--tool-name", "list_mailboxes");
    expect(called).toMatchObject({ structuredContent: { mailboxes: [{ address: "alice@example.test" }] } });
  }, 300_000);
});
