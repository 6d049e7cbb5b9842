/** The snippets of every operation run, with a key and with ids of things that exist (docs/api-examples.md, /api/docs). */
import { describe, expect, test } from "bun:test";
import { describeApi } from "../../src/api/openapi.ts";
import { type ApiDocument, getSuccessResponse, listApiEndpoints } from "../../src/api/reference/openapi-document.ts";
import { listPathPlaceholders, type Snippet, writeRequestSnippets } from "../../src/api/reference/snippets.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { bootExamples, type ExampleWorld, PDF } from "../harness/servers/examples.ts";

const WEEK_MS = 7 * 86_400_000;

interface Filled {
  operationId: string;
  /** The HTTP status of success. */
  status: string;
  text: string;
}

/** Gives the snippets of all operations in a language, with ids, and with times that make sense. */
async function snippetsIn(name: Snippet["name"], { http, paramsFor, runtime }: ExampleWorld): Promise<Filled[]> {
  const [soon, ago] = [WEEK_MS, -WEEK_MS].map((ms) => new Date(runtime.now() + ms).toISOString());
  const filled: Filled[] = [];
  for (const surface of [MAIL_API, EXT_API, ADMIN_API]) {
    const document = describeApi(surface, http) as unknown as ApiDocument;
    for (const endpoint of listApiEndpoints(document)) {
      const { path, operation } = endpoint;
      const params = await paramsFor(surface, path);
      const snippet = writeRequestSnippets(document, endpoint).find((one) => one.name === name);
      // On the clock of this world: since and from are times past, any other is to come.
      let text =
        snippet?.text.replaceAll(
          /((?:since|from)"?: )?"\d{4}-\d\d-\d\dT[\d:]+Z"/g,
          (_, past = "") => `${past}"${past === "" ? soon : ago}"`,
        ) ?? "";
      for (const [param, placeholder] of Object.entries(listPathPlaceholders(path))) {
        expect(text).toContain(placeholder);
        text = text.replaceAll(placeholder, encodeURIComponent(params[param] ?? ""));
      }
      filled.push({ operationId: operation.operationId, status: getSuccessResponse(operation).status, text });
    }
  }
  return filled;
}

/** Runs a program, by default with nothing on its standard input. Resolves with its output, or rejects with all of it. */
type Run = (command: string[], input?: unknown) => Promise<string>;

const PYTHON = `import json, sys
for snippet in json.load(sys.stdin):
    exec(compile(snippet["text"], snippet["operationId"], "exec"), {})`;
const MODULES = `import { readFileSync } from "node:fs";
for (const { operationId, text } of JSON.parse(readFileSync(0, "utf8"))) {
  await import("data:text/javascript," + encodeURIComponent(text + "\\n// " + operationId));
}`;
const hasRequests = Bun.which("python3") && Bun.spawnSync(["python3", "-c", "import requests"]).exitCode === 0;

const found = Bun.which("node");
const node =
  found && Number.parseInt(Bun.spawnSync([found, "-p", "process.versions.node"]).stdout.toString(), 10) >= 20
    ? found
    : undefined;

const LANGUAGES: [name: Snippet["name"], note: string, runAll: (snippets: Filled[], run: Run) => Promise<void>][] = [
  [
    "curl",
    Bun.which("curl") ? "" : " (skipped: no curl)",
    async (snippets, run) => {
      for (const { operationId, status, text } of snippets) {
        const output = await run(["sh", "-c", `${text} -s -w '\\n%{http_code}'`]);
        expect([operationId, output.split("\n").at(-1), output]).toEqual([operationId, status, output]);
      }
    },
  ],
  [
    "Python",
    hasRequests ? "" : " (skipped: no python3 with requests)",
    // Python takes long to load requests.
    async (snippets, run) => void (await run(["python3", "-c", PYTHON], snippets)),
  ],
  [
    "JavaScript",
    "",
    async (snippets, run) => {
      for (const { text } of snippets) await run([process.execPath, "-e", text]);
    },
  ],
  [
    "JavaScript",
    node ? ", in Node" : ", in Node (skipped: no Node 20 or later)",
    async (snippets, run) => void (await run([node as string, "--input-type=module", "-e", MODULES], snippets)),
  ],
];

describe.each(LANGUAGES)("%s%s", (name, note, runAll) => {
  test.skipIf(note.includes("skipped"))(
    "the snippets of all operations run",
    async () => {
      const world = await bootExamples();
      const cwd = temporaryFolder();
      const env = { ...process.env, MAILROOM_KEY: world.key };
      await runAll(await snippetsIn(name, world), async (command, input) => {
        const stdin = input === undefined ? "ignore" : Buffer.from(JSON.stringify(input));
        const child = Bun.spawn(command, { cwd, env, stdin, stdout: "pipe", stderr: "pipe" });
        const streams = [child.stdout, child.stderr].map((stream) => new Response(stream).text());
        const [stdout = "", stderr = ""] = await Promise.all(streams);
        if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}\n${stdout}${stderr}`);
        return stdout;
      });
      expect(Buffer.from(await Bun.file(`${cwd}/attachment`).bytes())).toEqual(PDF);
      expect(await Bun.file(`${cwd}/message.eml`).text()).toContain("Subject: Contract");
    },
    120_000,
  );
});
