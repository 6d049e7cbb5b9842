/** A mail app whose server is lost with its last mail, and whose standby takes over (docs/mail.md says what it sees). */
import { describe, expect, test } from "bun:test";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, imapAccount, subjectsOf } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { isListening, takePort } from "../harness/port.ts";
import { imapsOf, type Place, run, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";

async function receive({ mx }: Pick<Served, "mx">, ...subjects: string[]): Promise<void> {
  const sender = mailer(mx);
  for (const subject of subjects) {
    const message = letter({ to: OWNER, subject, messageId: `<${subject}@remote.example>` });
    await sender.send({ from: "carol@remote.example", to: OWNER }, message);
  }
  sender.close();
}

async function join(server: Place, standby: Place): Promise<void> {
  const { code } = await runJson<{ code: string }>(server, "standby", "invite");
  await runJson(standby, "standby", "join", code);
}

/** Over the API; nothing while the standby cannot be read. */
async function subjectsAt({ http }: Served, apiKey: string, folder = "inbox"): Promise<string[]> {
  const { body } = await apiClient(http, apiKey).get<{ threads?: { subject: string }[] }>(`/threads?folder=${folder}`);
  return (body.threads ?? []).map(({ subject }) => subject);
}

async function look(port: number, apiKey: string, name = "INBOX") {
  const app = await imapAccount(port, OWNER, apiKey);
  const found = await fetchAll(app, name);
  app.end();
  return found;
}

describe.skipIf(noReplica !== undefined)(`a standby${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("offers no IMAP; once it took over, apps know that their numbers are void, and fetch the same mail", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3, {}, { env: { MAILROOM_IMAPS: "127.0.0.1:0" } });
    const { apiKey } = one;
    const first = await serve(one);
    const port = await takePort();
    const env = { ...one.env, MAILROOM_BASE_URL: "https://two.example", MAILROOM_IMAPS: `127.0.0.1:${port}` };
    const two = { data: temporaryFolder(), env };
    const second = await start(two, "standby");
    await join(one, two);

    await receive(first, "a", "b", "c");
    const app = await imapAccount(imapsOf(first), OWNER, apiKey);
    await app.say("SELECT INBOX");
    expect((await app.say("MOVE 2 Archive")).status).toBe("OK");
    app.end();
    await until(async () => (await subjectsAt(second, apiKey, "archive")).length === 1);
    expect(second.ready).not.toContainKey("imaps");
    expect(await isListening(port)).toBe(false);

    // The replica lacks what comes now, and the app has it.
    s3.interfere(({ method, url }) =>
      method === "PUT" && url.includes("/epochs/") ? new Response(null, { status: 503 }) : undefined,
    );
    await receive(first, "lost");
    const before = await look(imapsOf(first), apiKey);
    expect(subjectsOf(before.mail)).toEqual(["a", "c", "lost"]);
    const archive = await look(imapsOf(first), apiKey, "Archive");
    const waiting = await imapAccount(imapsOf(first), OWNER, apiKey);
    await waiting.say("SELECT INBOX");
    const idling = waiting.say("IDLE");
    await first.kill("SIGKILL");
    expect((await idling).status).toBe("BYE");
    s3.interfere(undefined);

    let promoted = await run(two, ["promote", "--json"]);
    // It may have been killed before the standby saw that it had just renewed its lease.
    while (promoted.stderr.includes("writes to the replica")) promoted = await run(two, ["promote", "--json"]);
    const { ready: taken } = JSON.parse(promoted.stdout) as { ready: Record<string, string> };
    expect(taken.imaps).toBe(`127.0.0.1:${port}`);
    const [host = "", mx = ""] = taken.mx?.split(":") ?? [];
    await receive({ mx: { host, port: Number(mx) } }, "later");
    const after = await look(port, apiKey);
    expect(subjectsOf(after.mail)).toEqual(["a", "c", "later"]);
    // The new message has the number of the lost one, under another validity.
    expect(after.mail.at(-1)?.uid).toBe(before.mail.at(-1)?.uid as number);
    expect(after.validity).toBeGreaterThan(before.validity);
    const there = await look(port, apiKey, "Archive");
    expect(there.validity).toBeGreaterThan(archive.validity);
    expect(there.mail).toEqual(archive.mail);
    const known = new Map(before.mail.map(({ id, octets }) => [id, octets]));
    for (const { id, octets } of after.mail.slice(0, 2)) expect(octets).toBe(known.get(id) as string);
    // It asks for what changed since, and is told nothing of numbers that are others'.
    const back = await imapAccount(port, OWNER, apiKey);
    await back.say("ENABLE QRESYNC");
    const { untagged } = await back.say(`SELECT INBOX (QRESYNC (${before.validity} 1 1:9))`);
    expect(untagged.filter((line) => /VANISHED|FETCH/.test(line))).toEqual([]);
    back.end();

    // And back to the first machine.
    const again = await start({ ...one, env: { ...one.env, MAILROOM_IMAPS: "127.0.0.1:0" } }, "standby");
    expect(again.ready).not.toContainKey("imaps");
    await join(two, one);
    await until(async () => (await subjectsAt(again, apiKey)).includes("later"));
    await second.kill("SIGTERM");
    const { ready } = await runJson<{ ready: Record<string, string> }>(one, "promote");
    const last = await look(imapsOf({ ready }), apiKey);
    expect(last.validity).toBeGreaterThan(after.validity);
    expect(last.mail).toEqual(after.mail);
    expect(await again.kill("SIGTERM")).toBe(0);
  }, 240_000);
});
