/**
 * A machine of 1 GB whose clients ask for a conversation of 16 MB and do not read: the kernel kills nothing, another workspace is
 * served, and who has no room is told so. The executable as users run it, under a limit of the system.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { readExposition } from "../harness/clients/exposition.ts";
import { openRaw, type RawClient } from "../harness/clients/raw-http.ts";
import { settle } from "../harness/data/settle.ts";
import { letterWith } from "../harness/mail/documents.ts";
import { mailer } from "../harness/mail/mail.ts";
import { buildExecutable, builtExecutable } from "../harness/servers/executable.ts";
import { type Place, runJson, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";
import { folderOnDisk, limitMemory, limitNote, type MemoryLimit } from "./memory-limit.ts";

const MB = 1024 * 1024;
const MEMORY = 1024 * MB;
/**
 * In use without the cache of files: the server at rest with its parsers, an eighth of its memory for answers, and what was composed
 * and is not collected yet. 590 MB were seen on a busy machine.
 */
const MOST_USED = 800 * MB;
const ADA = "ada@acme.test";
const BOB = "bob@other.test";
const MINUTE = 60_000;

const unlimited = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };

/** Octets of answers that nobody has read yet. */
async function unreadAt({ http }: Served): Promise<number> {
  const families = readExposition(await (await fetch(`${http}/metrics`)).text());
  const samples = families.get("mailroom_shared")?.samples ?? [];
  return samples.find(({ labels: { pool, kind } }) => pool === "answers" && kind === "held")?.value ?? Number.NaN;
}

const clients: RawClient[] = [];
function closeAll(): void {
  for (const { socket } of clients.splice(0)) socket.destroy();
}
afterEach(closeAll);

describe.skipIf(limitNote !== "")(`a machine of 1 GB${limitNote}`, () => {
  let limit: MemoryLimit;
  let server: Served;
  const keys = { ada: "", bob: "" };
  let threadId = "";

  beforeAll(async () => {
    const folder = await folderOnDisk();
    limit = limitMemory(MEMORY);
    const executable = builtExecutable ?? (await buildExecutable(join(folder, "built")));
    const place: Place = {
      data: join(folder, "data"),
      cwd: folder,
      program: limit.within([executable]),
    };
    const { apiKey } = await runJson<{ apiKey: string }>(
      ...([place, "setup", "--domain", "acme.test", "--email", ADA, "--name", "Ada"] as const),
    );
    keys.ada = apiKey;
    await runJson(place, "workspace", "add", "Other");
    await runJson(place, "domain", "add", "other.test", "--workspace", "Other");
    for (const domain of ["acme.test", "other.test"]) await runJson(place, "domain", "verify", domain, "--skip-dns");
    await runJson(place, "user", "add", BOB, "--name", "Bob", "--role", "owner", "--workspace", "Other");
    keys.bob = (
      await runJson<{ key: string }>(place, "key", "create", "--user", BOB, "--name", "K", "--scopes", "read")
    ).key;
    settle(place, unlimited);
    server = await serve(place);
    const sender = mailer(server.mx);
    for (const to of [ADA, BOB]) {
      for (let n = 0; n < 9; n++) {
        const html = `<p>${"words of a long mail ".repeat(100)}</p>\r\n`.repeat(950);
        await sender.send(
          { from: "carol@remote.example", to },
          [
            "From: Carol <carol@remote.example>",
            `To: <${to}>`,
            "Subject: A long conversation",
            `Message-ID: <${n}.${to}.remote.example@remote.example>`,
            ...(n > 0 ? [`In-Reply-To: <0.${to}.remote.example@remote.example>`] : []),
            "MIME-Version: 1.0",
            "Content-Type: text/html; charset=utf-8",
            "",
            html,
          ].join("\r\n"),
        );
      }
    }
    sender.close();
    const { body } = await apiClient(server.http, keys.ada).get<{ threads: { id: string }[] }>("/threads");
    threadId = body.threads[0]?.id ?? "";
  }, 10 * MINUTE);
  afterAll(async () => {
    expect(await server.kill("SIGTERM")).toBe(0);
  }, MINUTE);

  test(
    "a hundred connections that ask for a large message and its attachment, and do not read, take little memory",
    async () => {
      const sender = mailer(server.mx);
      const from = { from: "carol@remote.example", to: ADA };
      await sender.send(from, letterWith(ADA, [["a.bin", "application/octet-stream", new Uint8Array(15 * MB)]]));
      sender.close();
      const ada = apiClient(server.http, keys.ada);
      const { body } = await ada.get<{ threads: { id: string }[] }>("/search?q=has:attachment");
      const thread = await ada.get<{ messages: { id: string; attachments: { url: string }[] }[] }>(
        `/threads/${body.threads[0]?.id}`,
      );
      const message = thread.body.messages.find(({ attachments }) => attachments.length > 0);
      const raw = `/api/v1/messages/${message?.id}/raw`;
      for (let i = 0; i < 100; i++) {
        const client = await openRaw(Number(new URL(server.http).port));
        clients.push(client);
        client.socket.once("data", () => client.socket.pause());
        const path = i % 10 === 0 ? raw : message?.attachments[0]?.url;
        client.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.ada}\r\n\r\n`);
      }
      await until(() => clients.every((client) => client.text().startsWith("HTTP/1.1 ")));
      expect(new Set(clients.map((client) => client.text().slice(0, 12)))).toEqual(new Set(["HTTP/1.1 200"]));
      expect(limit.used()).toBeLessThan(MOST_USED);
      expect((await ada.bytes(raw)).body.length).toBeGreaterThan(20 * MB);
      expect(limit.kills()).toBe(0);
    },
    10 * MINUTE,
  );

  test.each([55, 300])(
    "%i connections of one key that do not read leave it working",
    async (count) => {
      let most = 0;
      const look = setInterval(() => {
        most = Math.max(most, limit.used());
      }, 50);
      try {
        for (let i = 0; i < count; i++) {
          const client = await openRaw(Number(new URL(server.http).port));
          clients.push(client);
          // The first read nothing. The others read what is refused, and nothing of what is not.
          if (i < 3) client.socket.pause();
          client.socket.on("data", () => {
            if (!/^HTTP\/1\.1 503/.test(client.text())) client.socket.pause();
          });
          client.write(
            `GET /api/v1/threads/${threadId} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.ada}\r\n\r\n`,
          );
        }
        // Another workspace is served meanwhile, the same conversation and a small answer, and so is a small one of that key.
        const bob = apiClient(server.http, keys.bob);
        const { body } = await bob.get<{ threads: { id: string }[] }>("/threads");
        const large = await bob.get<{ messages: unknown[] }>(`/threads/${body.threads[0]?.id}`);
        expect([large.status, large.body.messages.length]).toEqual([200, 9]);
        expect((await apiClient(server.http, keys.ada).get("/mailboxes")).status).toBe(200);
        const refused = () => clients.filter((client) => client.text().startsWith("HTTP/1.1 503"));
        await until(() => refused().length >= count - 4);
        for (const client of refused()) {
          const [response] = await client.read(1);
          expect(response?.headers.get("retry-after")).toBe("10");
          expect(JSON.parse(response?.body ?? "").code).toBe("server_error");
        }
        expect(await unreadAt(server)).toBeWithin(16 * MB, 32 * MB + 1);
      } finally {
        clearInterval(look);
        closeAll();
      }
      expect({ kills: limit.kills(), most: most < MOST_USED ? "within" : most }).toEqual({ kills: 0, most: "within" });
      await until(async () => (await unreadAt(server)) === 0);
    },
    10 * MINUTE,
  );
});
