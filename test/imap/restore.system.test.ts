/** A mail app whose server is lost after a backup, and restored from it elsewhere (docs/mail.md says what the app sees). */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { createAppPassword } from "../../src/access/app-passwords.ts";
import { users } from "../../src/store/schema.ts";
import { openStore } from "../../src/store/store.ts";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, imapAccount, subjectsOf } from "../harness/clients/imap-client.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { imapsOf, run, runJson, type Served, serve } from "../harness/servers/process.ts";

const OWNER = "owner@example.test";
const FOLDERS = ["INBOX", "Archive", "Sent"];

async function receive({ mx }: Pick<Served, "mx">, ...subjects: string[]): Promise<void> {
  const sender = mailer(mx, { starttls: false });
  for (const subject of subjects) {
    const message = letter({ to: OWNER, subject, headers: ['Content-Disposition: attachment; filename="f.txt"'] });
    await sender.send({ from: "carol@remote.example", to: OWNER }, message);
  }
  sender.close();
}

/** An app password of the owner. */
function appPasswordIn(data: string): string {
  const store = openStore({ folder: data, runtime: fakeRuntime() });
  const userId = store.db.select().from(users).get()?.id ?? "";
  const made = store.transact((tx) => createAppPassword(tx, fakeRuntime(), { userId, name: "Phone", access: "all" }));
  store.close();
  return made.password;
}

const lookWith = async (server: Served, password: string) => {
  const phone = await imapAccount(imapsOf(server), OWNER, password);
  const found = [];
  for (const name of FOLDERS) found.push(await fetchAll(phone, name));
  return { phone, found };
};

test("a restored server lets apps in with their passwords, and tells them that their numbers are void", async () => {
  const env = { MAILROOM_IMAPS: "127.0.0.1:0" };
  const place = { data: temporaryFolder(), env };
  const names = ["--domain", "example.test", "--email", OWNER, "--name", "Owner"];
  const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...names);
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, WITHOUT_LIMITS);
  const password = appPasswordIn(place.data);
  const server = await serve(place);
  await receive(server, "a", "b", "c");
  const request = { from: OWNER, to: OWNER, bcc: "owner+bcc@example.test", subject: "sent", text: "x" };
  expect((await apiClient(server.http, apiKey).post("/send", request)).status).toBe(202);
  const { phone } = await lookWith(server, password);
  await phone.say("SELECT INBOX");
  expect((await phone.say("STORE 1 +FLAGS (\\Answered \\Flagged \\Seen work)")).status).toBe("OK");
  expect((await phone.say("MOVE 2 Archive")).status).toBe("OK");
  phone.end();
  const { phone: before, found: kept } = await lookWith(server, password);
  expect(kept.map(({ mail }) => mail.length)).toEqual([3, 1, 1]);

  const folder = join(temporaryFolder(), "backup");
  await runJson(place, "backup", folder);
  // The backup lacks this, and the app has it.
  await receive(server, "after");
  const { mail: known } = await fetchAll(before, "INBOX");
  expect(subjectsOf(known).at(-1)).toBe("after");
  expect((await before.say("STORE 1 -FLAGS (\\Flagged)")).status).toBe("OK");
  await server.kill("SIGKILL");
  expect(await before.line()).toBeUndefined();

  expect(await runJson(place, "backup", "verify", folder)).toMatchObject({ ok: true, problems: [] });
  const elsewhere = { data: temporaryFolder(), env };
  await runJson(elsewhere, "restore", folder);
  const restored = await serve(elsewhere);
  await receive(restored, "later");
  const { phone: again, found } = await lookWith(restored, password);
  for (const [n, { validity, mail }] of found.entries()) {
    const had = kept[n];
    expect(validity).toBeGreaterThan(had?.validity as number);
    // With numbers, octets, flags and labels of the backup.
    expect(mail.slice(0, had?.mail.length)).toEqual(had?.mail as typeof mail);
  }
  const [{ mail: inbox } = { mail: [] }] = found;
  expect([inbox.at(-1)?.uid, subjectsOf(inbox).at(-1)]).toEqual([known.at(-1)?.uid, "later"]);
  await again.say("ENABLE QRESYNC");
  const { untagged } = await again.say(`SELECT INBOX (QRESYNC (${kept[0]?.validity} 1 1:9))`);
  expect(untagged.filter((line) => /VANISHED|FETCH/.test(line))).toEqual([]);
  again.end();
  const checks = JSON.parse((await run(elsewhere, ["doctor", "--json"])).stdout) as { id: string; state: string }[];
  expect(checks.find(({ id }) => id === "mail-apps")?.state).toBe("ok");
  expect(await restored.kill("SIGTERM")).toBe(0);
}, 120_000);
