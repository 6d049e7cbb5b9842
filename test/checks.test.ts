/** The static checks, as tests: so that `bun test` is every check there is. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const root = join(import.meta.dir, "..");

async function run(...command: string[]): Promise<{ exitCode: number; output: string }> {
  const child = Bun.spawn([process.execPath, "run", "--bun", ...command], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { exitCode, output: stdout + stderr };
}

const PASSED = { exitCode: 0, output: "" };

// Three projects: the server, what tests and makes releases of it, and the web app. It takes as long as all others, which
// run beside it. One thread, because each of several works out anew what it needs of the others' files.
const compiled = run("tsc", "-b", ".", "src/app", "--singleThreaded");

test("Biome", async () => {
  const { exitCode, output } = await run("biome", "ci", "--colors=off", "--error-on-warnings");
  expect({ exitCode, output: exitCode === 0 ? "" : output }).toEqual(PASSED);
}, 300_000);

test("knip: nothing unused", async () => {
  expect(await run("knip")).toEqual(PASSED);
}, 300_000);

test("the benchmark loads, and says which parts it has", async () => {
  const child = Bun.spawn([process.execPath, join(root, "test/bench/run.ts"), "nothing"], {
    env: { PATH: process.env.PATH ?? "" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  expect(await new Response(child.stderr).text()).toBe(
    "no part is called nothing: ingest, pages, authentication, sending, uploads, blobs, documents, webhooks, read, changes, tails, readers, start, mcp, import, replica, search, imap, peers, scale\n",
  );
});

test("tsc, strict", async () => {
  expect(await compiled).toEqual(PASSED);
}, 300_000);
