/** A disk that is really full, under a mail app: it is told so, nothing is lost, and all goes on when there is room. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { letter } from "../harness/mail/mail.ts";
import { imapsOf, run, runJson, serve } from "../harness/servers/process.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";
import { diskNote, MB, mountDisk } from "../harness/small-disk.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";
const MANY = 600;
/** Bytes of a text that is composed with a file. */
const LARGE = 300_000;

const message = (n: number, text = `Text ${n}`): string =>
  letter({ to: OWNER, subject: `Message ${n}`, messageId: `<m${n}@remote.example>`, text });
const textOf = (bytes: number): string => randomBytes(bytes).toString("base64").replace(/.{76}/g, "$&\n");

/** Appends a message and returns the server's reply. */
async function append(client: ImapAccount, text: string): Promise<string> {
  const octets = text.replaceAll("\n", "\r\n");
  client.write(`a APPEND Archive {${octets.length}}\r\n`);
  expect(await client.line()).toStartWith("+ ");
  client.write(`${octets}\r\n`);
  for (;;) {
    const line = await client.line();
    if (line === undefined || line.startsWith("a ")) return line?.slice(2) ?? "BYE";
  }
}

describe.skipIf(diskNote !== "")(`a full disk${diskNote}`, () => {
  test("a mail app is told so, reads what it can, and goes on with room again", async () => {
    const disk = mountDisk(24 * MB);
    const place = { data: join(disk.path, "data"), cwd: disk.path, env: { MAILROOM_IMAPS: "127.0.0.1:0" } };
    const names = ["--domain", "example.test", "--email", OWNER, "--name", "Owner"];
    const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...names);
    await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
    settle(place, WITHOUT_LIMITS);
    const folder = files({
      "inbox.mbox": Array.from({ length: MANY }, (_, n) => mboxEntry(message(n))).join(""),
      "archive.mbox": [mboxEntry(message(MANY, textOf(LARGE))), mboxEntry(message(MANY + 1))].join(""),
    });
    await runJson(place, "import", "--mailbox", OWNER, "--folder", "archive", join(folder, "archive.mbox"));
    const server = await serve(place);
    const app = await imapAccount(imapsOf(server), OWNER, apiKey);
    const archive = await fetchAll(app, "Archive");
    expect(archive.mail).toHaveLength(2);
    await runJson(place, "import", "--mailbox", OWNER, join(folder, "inbox.mbox"));

    disk.fill();
    const unavailable = { status: "NO", text: expect.stringMatching(/^\[UNAVAILABLE\] The mail store is briefly/) };
    // The write-ahead log has a little room of its own.
    await until(async () => (await append(app, message(MANY + 2, textOf(LARGE)))).startsWith("NO "));
    expect(await append(app, message(MANY + 3, textOf(LARGE)))).toStartWith(
      "NO [UNAVAILABLE] The mail store is briefly",
    );
    await app.say("SELECT Archive");
    for (const command of ["STORE 1 +FLAGS (\\Flagged)", "MOVE 1 Trash"]) {
      expect({ command, ...(await app.say(command)) }).toMatchObject({ command, ...unavailable });
    }
    // Small mail needs no room; large mail is composed into a file.
    await app.say("SELECT Archive");
    expect(await app.say("UID FETCH 2 (BODY.PEEK[])")).toMatchObject({ status: "OK" });
    expect((await fetch(`${server.http}/healthz`)).status).toBe(503);
    const other = await imapAccount(imapsOf(server), OWNER, apiKey);
    expect((await other.say("NOOP")).status).toBe("OK");

    disk.empty();
    await until(async () => (await fetch(`${server.http}/healthz`)).status === 200);
    const inbox = await fetchAll(app, "INBOX");
    expect(inbox.mail).toHaveLength(MANY);
    for (const { size, octets } of inbox.mail) expect(octets.length).toBe(size);
    expect(await append(app, message(MANY + 3, textOf(LARGE)))).toStartWith("OK ");
    const after = await fetchAll(other, "Archive");
    expect(after.validity).toBe(archive.validity);
    expect(after.mail.slice(0, 2)).toEqual(archive.mail);
    const { body } = await apiClient(server.http, apiKey).get<{ threads: unknown[] }>("/threads?folder=archive");
    expect(body.threads).toHaveLength(after.mail.length);
    for (const one of [app, other]) one.end();
    const checks = JSON.parse((await run(place, ["doctor", "--json"])).stdout) as { id: string; state: string }[];
    expect(checks.find(({ id }) => id === "mail-apps")?.state).toBe("ok");
    expect(readdirSync(join(place.data, "spool"))).toEqual([]);
    expect(await server.kill("SIGTERM")).toBe(0);
  }, 120_000);
});
