/** `mailroom import`, as it is typed (rules: Commands, Import and export). */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/api.ts";
import { letter } from "../harness/mail.ts";
import { begin, runJson, serve, settle } from "../harness/process.ts";
import { until } from "../harness/until.ts";
import { files, mboxEntry } from "../transfer/rig.ts";
import { openTerminal, SETUP } from "./terminal.ts";

const NEVER = new Promise<void>(() => {});
const INTO = ["--mailbox", "ada@acme.test"] as const;

test("counts imported, skipped and failed messages by source, with reasons", async () => {
  const { ask, say } = openTerminal({ interrupted: NEVER });
  await ask(...SETUP);
  const good = join(files({ "good.mbox": mboxEntry(letter({ subject: "One" })) }), "good.mbox");
  const source = { path: good, format: "mbox", imported: 1, skipped: 0, failed: 0, failures: [] };
  expect(await ask("import", ...INTO, good)).toEqual({
    ...{ mailbox: "ada@acme.test", imported: 1, skipped: 0, failed: 0, sources: [source] },
  });
  const { exitCode, stdout, stderr } = await say("import", ...INTO, good, "/nowhere", "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toEndWith("mailroom: 1 could not be imported\n");
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ imported: 0, skipped: 1, failed: 1 },
    sources: [{ path: good }, { path: "/nowhere", failures: [{ reason: expect.stringContaining("ENOENT") }] }],
  });
  expect((await say("import", ...INTO, good)).stdout).toBe("0 imported, 1 skipped, 0 failed\n");
});

test("wrong usage", async () => {
  const { ask, say } = openTerminal({ interrupted: NEVER });
  await ask(...SETUP);
  for (const argv of [
    ["import", ...INTO],
    ["import", "x.mbox"],
    ["import", ...INTO, "x", "--folder", "spam"],
    ["import", ...INTO, "--imap", "imaps://ada@localhost", "x.mbox"],
    ["import", ...INTO, "--imap", "imaps://ada@localhost"],
    ["import", ...INTO, "--imap", "mail.example", "--password-stdin"],
  ]) {
    expect((await say(...argv)).exitCode).toBe(2);
  }
  expect(await say("import", "--mailbox", "eve@acme.test", "x.mbox")).toMatchObject({
    ...{ exitCode: 1, stderr: "mailroom: there is no mailbox eve@acme.test\n" },
  });
});

test("SIGINT ends it after filing its window, and says how to continue", async () => {
  const { ask, say } = openTerminal({ interrupted: Promise.resolve() });
  await ask(...SETUP);
  const { exitCode, stdout, stderr } = await say("import", ...INTO, files({ "a.eml": letter() }), "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toEndWith("mailroom: interrupted; run it again to go on\n");
  expect(JSON.parse(stdout)).toMatchObject({ imported: 0, stopped: "interrupted" });
});

test("beside a running server, killed in the middle and repeated: each message is there once", async () => {
  const COUNT = 400;
  const folder = files({
    "m.mbox": Array.from({ length: COUNT }, (_, i) =>
      mboxEntry(letter({ subject: `Message ${i}`, messageId: `<${i}@x.example>` })),
    ).join(""),
  });
  const place = { data: join(folder, "data"), cwd: folder };
  const { apiKey } = await runJson<{ apiKey: string }>(place, ...SETUP);
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  const server = await serve(place);
  const api = apiClient(server.http, apiKey);
  const argv = ["import", ...INTO, join(folder, "m.mbox")];
  // However late it is killed, it has not ended: it waits for a pipe that nobody writes to, with the last 320 in hand.
  const pipe = join(folder, "pipe");
  Bun.spawnSync(["mkfifo", pipe]);
  const importing = begin(place, [...argv, pipe]);
  await until(async () => (await api.get("/messages?limit=1")).body.count !== 0);
  await importing.kill();

  const { imported, skipped } = await runJson<{ imported: number; skipped: number }>(place, ...argv);
  expect(skipped).toBeGreaterThan(0);
  expect(imported + skipped).toBe(COUNT);
  expect(await server.kill("SIGTERM")).toBe(0);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  expect(sqlite.query("SELECT count(*) AS n, count(DISTINCT subject) AS subjects FROM messages").get()).toEqual({
    ...{ n: COUNT, subjects: COUNT },
  });
  expect(sqlite.query("SELECT count(*) AS n FROM events").get()).toEqual({ n: 0 });
}, 120_000);
