/**
 * A disk that fails (EIO), under everything that writes and reads: refused as on a full disk, nothing lost of what was
 * acknowledged, and it goes on once the disk works again.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { imapsOf, type Place, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";
import { CALLS, failCalls, failingNote } from "./failing-disk.ts";

const ADDRESS = "owner@example.test";

/** A message with a file that is kept apart from the database. */
function withFile(subject: string): string {
  const file = randomBytes(100_000).toString("base64").replace(/.{76}/g, "$&\n");
  const headers = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"'];
  const text = `--b\nContent-Type: text/plain\n\nHello\n--b\nContent-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\n${file}\n--b--`;
  return letter({ to: ADDRESS, subject, headers, text });
}

async function open() {
  const any = "127.0.0.1:0";
  const place: Place = { data: temporaryFolder(), env: { MAILROOM_IMAP: any, MAILROOM_IMAPS: any } };
  const { apiKey } = await runJson<{ apiKey: string }>(
    ...[place, "setup", "--domain", "example.test", "--email", ADDRESS, "--name", "Owner"],
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  settle(place, WITHOUT_LIMITS);
  let server = await serve(place);
  let sender = mailer(server.mx, { starttls: false });
  const api = () => apiClient(server.http, apiKey);
  return {
    api,
    place,
    server: () => server,
    app: () => imapAccount(imapsOf(server), ADDRESS, apiKey),
    /** The reply to a message, also a refusal. */
    receive: (message: string): Promise<string> =>
      sender.send({ from: "ben@elsewhere.test", to: ADDRESS }, message).then(
        ({ reply }) => reply,
        ({ response }: { response: string }) => response,
      ),
    subjects: async () =>
      (await api().get<{ messages: { subject: string }[] }>("/messages?limit=100")).body.messages
        .map(({ subject }) => subject)
        .sort(),
    works: (status: 200 | 503) => until(async () => (await fetch(`${server.http}/healthz`)).status === status),
    async again() {
      sender.close();
      await server.kill("SIGKILL");
      server = await serve(place);
      sender = mailer(server.mx, { starttls: false });
    },
    async close() {
      sender.close();
      expect(await server.kill("SIGTERM")).toBe(0);
    },
  };
}

describe.skipIf(failingNote !== "")(`a disk that fails${failingNote}`, () => {
  test.each(["sync", "write"] as const)(
    "at %s: all is refused for now, and nothing acknowledged is lost",
    async (kind) => {
      const office = await open();
      const { api, app, receive, subjects, works } = office;
      const taken = ["first", "with a file"];
      expect(await receive(letter({ to: ADDRESS, subject: "first" }))).toStartWith("250 ");
      expect(await receive(withFile("with a file"))).toStartWith("250 ");
      const mail = await app();
      await mail.say("SELECT INBOX");

      for (const round of [1, 2]) {
        const mend = await failCalls(office.server().pid, CALLS[kind]);
        await works(503);
        for (const message of [letter({ to: ADDRESS, subject: "lost" }), withFile("lost")]) {
          expect(await receive(message)).toStartWith("452 4.3.1 ");
        }
        const outgoing = { from: ADDRESS, to: [ADDRESS], subject: "lost", text: "x" };
        const content = randomBytes(60_000).toString("base64");
        for (const attachments of [[], [{ filename: "a.bin", contentType: "application/octet-stream", content }]]) {
          const { status, headers } = await api().post("/send", { ...outgoing, attachments });
          expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
        }
        for (const command of [`APPEND INBOX {5+}\r\na: b\n`, "STORE 1 +FLAGS (\\Flagged)", "COPY 1 Archive"]) {
          expect(await mail.say(command)).toMatchObject({
            status: "NO",
            text: expect.stringContaining("[UNAVAILABLE]"),
          });
        }
        expect(await subjects()).toEqual(taken.toSorted());
        await mend();
        await works(200);
        expect(await receive(withFile(`after ${round}`))).toStartWith("250 ");
        taken.push(`after ${round}`);
        expect(await subjects()).toEqual(taken.toSorted());
      }
      mail.end();
      await office.again();
      expect(await subjects()).toEqual(taken.toSorted());
      await office.close();
      const sqlite = new Database(join(office.place.data, "mailroom.db"), { readonly: true });
      expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
      sqlite.close();
    },
    120_000,
  );

  test("at reading: a file that cannot be read is 503, and read again later", async () => {
    const office = await open();
    const { api, receive } = office;
    expect(await receive(withFile("with a file"))).toStartWith("250 ");
    const [message] = (await api().get<{ messages: { id: string }[] }>("/messages")).body.messages;
    const path = `/messages/${message?.id}`;
    const { body } = await api().get<{ message: { attachments: { url: string }[] } }>(path);
    const url = body.message.attachments[0]?.url.replace("/api/v1", "") ?? "";
    const folder = join(office.place.data, "blobs");
    const blobs = (readdirSync(folder, { recursive: true, encoding: "utf8" }) as string[]).filter((name) =>
      /^..\/[0-9a-f]{62}$/.test(name),
    );
    const mend = await failCalls(
      office.server().pid,
      CALLS.read,
      blobs.map((name) => join(folder, name)),
    );
    const all = [url, `${path}/raw`, `/api/ext/v1${path}/original`];
    for (const asked of all) {
      const { status, headers } = await api().get(asked);
      expect([asked, status, headers.get("retry-after")]).toEqual([asked, 503, "5"]);
    }
    await mend();
    for (const asked of all) expect([asked, (await api().bytes(asked)).status]).toEqual([asked, 200]);
    await office.close();
  }, 60_000);
});
