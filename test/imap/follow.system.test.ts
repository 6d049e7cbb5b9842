/** An app in IDLE hears within a second of the work of a command beside the running server. */

import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";

test("a command of another process", async () => {
  const place = { data: temporaryFolder(), env: { MAILROOM_IMAPS: "127.0.0.1:0" } };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    ...["setup", "--domain", "example.test", "--email", "alice@example.test", "--name", "Alice"],
  );
  const server = await serve(place);
  const app = await imapAccount(Number(String(server.ready.imaps).split(":")[1]), "alice@example.test", apiKey);
  await app.say("SELECT INBOX");
  app.write("i IDLE\r\n");
  expect(await app.line()).toBe("+ idling");
  const told = app.line().then((line) => ({ line, at: Date.now() }));
  const file = join(temporaryFolder(), "one.eml");
  writeFileSync(file, letter({ subject: "Imported" }));
  await run(place, ["import", "--mailbox", "alice@example.test", file]);
  const ended = Date.now();
  const { line, at } = await told;
  expect(line).toMatch(/^\* 1 EXISTS$/);
  expect(at - ended).toBeLessThan(1_000);
  app.end();
}, 60_000);
