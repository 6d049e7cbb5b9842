/** `mailroom import` beside a running server, killed in the middle and repeated. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { letter } from "../harness/mail/mail.ts";
import { begin, runJson, serve } from "../harness/servers/process.ts";
import { SETUP } from "../harness/servers/terminal.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";
import { until } from "../harness/until.ts";

const INTO = ["--mailbox", "ada@acme.test"] as const;

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
    n: COUNT,
    subjects: COUNT,
  });
  expect(sqlite.query("SELECT count(*) AS n FROM events").get()).toEqual({ n: 0 });
}, 120_000);
