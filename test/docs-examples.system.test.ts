/** The shell examples of README, CHANGELOG and docs/ run against a demo (docs/testing.md says how). */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "./harness/clients/api.ts";
import { settle } from "./harness/data/settle.ts";
import { EXAMPLES } from "./harness/doc-pages.ts";
import { temporaryFolder } from "./harness/folder.ts";
import { startReceiver } from "./harness/peers/receiver.ts";
import { PROGRAM, runJson, serve } from "./harness/servers/process.ts";

const ROOT = join(import.meta.dir, "..");
const missing = ["bash", "curl", "npm", "npx"].filter((program) => !Bun.which(program));
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

    // Whom bad-days.md is about.
    await runJson(place, "user", "add", "carol@example.test", "--name", "Carol", "--role", "member");

    const hook = startReceiver().url;
    const events = "message.inbound,message.bounced";
    const endpoint = await runJson<{ id: string }>(place, "webhook", "add", "--url", hook, "--events", events);
    await runJson(place, "webhook", "test", endpoint.id);
    const [delivery] = await runJson<{ id: string }[]>(place, "webhook", "deliveries", endpoint.id);

    const [known] = await runJson<{ id: string }[]>(place, "key", "list");

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
      npm_config_cache: join(folder, "npm"),
      npm_config_offline: "true",
      MAILROOM_DATA: place.data,
      KEY: key,
      KEY_ID: known?.id ?? "",
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
      // README's reader is in a checkout, and takes the key from the page.
      const { KEY: _, ...withoutKey } = env;
      const child = Bun.spawn(["bash", "-euxo", "pipefail", "-c", script], {
        ...(page === "README.md" ? { cwd: ROOT, env: withoutKey } : { cwd: folder, env }),
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
    240_000,
  );

  test("npm start serves the demo, and npm run mailroom is the command line", async () => {
    expect(EXAMPLES.find(({ page, mark }) => page === "README.md" && mark === "no-run=project")?.code).toMatch(
      /^npm start /,
    );
    const listeners = ["HTTP", "MX", "SUBMISSION", "SUBMISSIONS"].map((name) => [`MAILROOM_${name}`, "127.0.0.1:0"]);
    const place = { ...env, ...Object.fromEntries(listeners), MAILROOM_DATA: temporaryFolder() };
    // A group of its own gets the signal, as from a terminal.
    const demo = Bun.spawn(["npm", "start"], {
      cwd: ROOT,
      env: place,
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      let said = "";
      for await (const chunk of demo.stdout.pipeThrough(new TextDecoderStream())) {
        said += chunk;
        if (/^\{"ready":true.*\n/m.test(said)) break;
      }
      const { http } = JSON.parse(/^\{"ready":true.*$/m.exec(said)?.[0] ?? "{}") as { http: string };
      expect((await apiClient(`http://${http}`, env.KEY).get("/threads")).status).toBe(200);
      const listed = Bun.spawn(["npm", "run", "--silent", "mailroom", "--", "key", "list", "--json"], {
        cwd: ROOT,
        env: place,
        stdio: ["ignore", "pipe", "inherit"],
      });
      const keys = (await new Response(listed.stdout).json()) as { name: string; user: string }[];
      expect(keys.map(({ name, user }) => [name, user])).toContainEqual(["Demo", "ada@example.test"]);
    } finally {
      process.kill(-demo.pid, "SIGINT");
      await demo.exited;
    }
  }, 120_000);
});
