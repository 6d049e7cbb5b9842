/** A server that is started on the data of a version with another index: what was found before is found again. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { takeBackToSchema14 } from "../harness/data/schema14.ts";
import { letter } from "../harness/mail/mail.ts";
import { serve } from "../harness/servers/process.ts";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";
import { until } from "../harness/until.ts";

test("the server takes in what is stored, as it starts and when a command leaves it to it", async () => {
  const { data, ask } = openTerminal({ interrupted: new Promise(() => {}) });
  const { apiKey } = (await ask(...SETUP)) as { apiKey: string };
  for (const limit of ["api.ipRequestsPerMinute", "api.keyRequestsPerMinute"])
    await ask("settings", "set", limit, "1000000");
  const letters = ["one", "two", "three"].map((subject) => letter({ subject, text: "pineapple" }));
  letters.push(
    letter({
      headers: ["MIME-Version: 1.0", "Content-Type: multipart/alternative; boundary=x"],
      text: "--x\n\npineapple\n--x\nContent-Type: text/html\n\n<p>pineapple and papaya</p><p hidden>guava</p>\n--x--",
    }),
  );
  const folder = files({ "m.mbox": letters.map(mboxEntry).join("") });
  await ask("import", "--mailbox", "ada@acme.test", join(folder, "m.mbox"));
  const file = join(data, "mailroom.db");
  takeBackToSchema14(file);

  const server = await serve({ data });
  const api = apiClient(server.http, apiKey);
  const found = async (word = "pineapple"): Promise<number> =>
    (await api.get<{ threads: unknown[] }>(`/search?q=${word}`)).body.threads.length;
  await until(async () => (await found()) === 4);
  // Words of the HTML alone, which no older version indexed.
  await until(async () => (await found("papaya")) === 1);
  expect(await found("guava")).toBe(0);
  {
    using sqlite = new Database(file);
    sqlite.exec(`PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE;
      INSERT INTO message_index (message_index) VALUES ('delete-all');
      INSERT INTO search_backlog SELECT 1, max(seq) + 1, count(*) FROM messages;
      COMMIT`);
  }
  await until(async () => (await found()) === 4 && (await found("papaya")) === 1);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 120_000);
