/**
 * The server as other people's programs see it: the protocol's conformance suite, and its Inspector on the command line.
 *
 * Of the suite's server scenarios those apply that need nothing of a server but tools. The others do not: they call
 * tools, prompts and resources of the suite's own example server (`tools-call-*`, `json-schema-2020-12`, `prompts-*`,
 * `resources-*`, `input-required-*`, `tasks-*`, `elicitation-*`, `completion-complete`, `http-custom-header-*`), or what
 * a stateless server has not: sessions, logging and streams (`logging-set-level`, `server-session-lifecycle`,
 * `server-sse-polling`, `server-sse-multiple-streams` in the era of 2025).
 */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { boot } from "../harness/appliance.ts";
import { temporaryFolder } from "../harness/folder.ts";

const SUITE = join(import.meta.dir, "../../node_modules/@modelcontextprotocol/conformance/dist/index.js");

/** Checks that ask for something the server does not offer: the suite's own test tools, prompts, resources. */
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

/** The suite sends no key: it goes through a proxy that adds one. */
async function withKey(): Promise<string> {
  const { http, owner } = await boot();
  const proxy = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const headers = new Headers(request.headers);
      headers.set("authorization", `Bearer ${owner.apiKey}`);
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

describe("conformance", () => {
  const scenarios: [revision: string, scenario: string][] = [
    ["2025-06-18", "server-initialize"],
    ["2025-11-25", "server-initialize"],
    ["2025-11-25", "ping"],
    ["2025-11-25", "tools-list"],
    ["2025-11-25", "dns-rebinding-protection"],
    ["2026-07-28", "server-stateless"],
    ["2026-07-28", "tools-list"],
    ["2026-07-28", "caching"],
    ["2026-07-28", "http-header-validation"],
    ["2026-07-28", "server-sse-multiple-streams"],
    ["2026-07-28", "dns-rebinding-protection"],
  ];
  // Side by side: most of a run is the suite's own start.
  const outputs = scenarios.map(async ([revision, scenario]) => {
    const options = ["--url", await endpoint, "--scenario", scenario, "--spec-version", revision];
    return run([process.execPath, SUITE, "server", ...options], temporaryFolder());
  });

  test.each(scenarios.map((scenario, i) => [...scenario, i] as const))(
    "%s %s",
    async (_revision, scenario, i) => {
      const output = (await outputs[i]) ?? "";
      const checks = [...output.matchAll(/\[([\w-]+)\s*\]\s*(SUCCESS|FAILURE)\b/g)];
      const idsOf = (verdict: string) => checks.filter((check) => check[2] === verdict).map((check) => check[1]);
      expect(idsOf("SUCCESS").length, output).toBeGreaterThan(0);
      expect(idsOf("FAILURE"), output).toEqual(NOT_OURS[scenario] ?? []);
    },
    60_000,
  );
});

const inspector = Bun.which("mcp-inspector");

/** `npm install -g @modelcontextprotocol/inspector@2.12.0`; not of the project's own, for its 110 MB. */
describe.skipIf(!inspector)("inspector", () => {
  const inspect = async (...args: string[]): Promise<Record<string, unknown>> => {
    const target = [await endpoint, "--transport", "http"];
    const output = await run([inspector ?? "", "--cli", ...target, ...args], temporaryFolder());
    return JSON.parse(output.slice(output.indexOf("{"), output.lastIndexOf("}") + 1));
  };

  test("lists the tools", async () => {
    expect((await inspect("--method", "tools/list")).tools).toHaveLength(12);
  }, 60_000);

  test("calls one", async () => {
    const called = await inspect("--method", "tools/call", "--tool-name", "list_mailboxes");
    expect(called).toMatchObject({ structuredContent: { mailboxes: [{ address: "alice@example.test" }] } });
  }, 60_000);
});
