/**
 * Mail that was answered 250 survives a kill -9 the moment after (rules: Arrival), and none is half filed: the process is
 * killed at random points while mail pours in, and the replies to senders are compared with the API's mail.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { runJson, serve } from "../harness/servers/process.ts";
import { attachmentOf, messageOf } from "./numbered-mail.ts";

interface Page {
  threads: { id: string; subject: string }[];
  nextCursor: string | null;
}

const ROUNDS = 3;
const CONNECTIONS = 8;

test("kill -9 under load loses nothing that was acknowledged and leaves nothing half done", async () => {
  const place = { data: temporaryFolder() };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    "owner@example.test",
    "--name",
    "Owner",
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });

  const acknowledged = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const server = await serve(place);
    const sender = mailer(server.mx, { connections: CONNECTIONS, starttls: false });
    const killAfter = 20 + Math.floor(Math.random() * 60);
    const before = acknowledged.size;
    let killed: Promise<unknown> | undefined;
    const pour = async (lane: number): Promise<void> => {
      for (let i = 0; killed === undefined; i++) {
        const n = `${round}-${lane}-${i}`;
        await sender.send({ from: "carol@remote.example", to: "owner@example.test" }, messageOf(n));
        acknowledged.add(n);
        if (acknowledged.size - before >= killAfter) killed ??= server.kill("SIGKILL");
      }
    };
    await Promise.allSettled(Array.from({ length: CONNECTIONS }, (_, lane) => pour(lane)));
    await killed;
    sender.close();
  }
  expect(acknowledged.size).toBeGreaterThan(ROUNDS * 10);

  const server = await serve(place);
  const api = apiClient(server.http, apiKey);
  const found = new Map<string, string>();
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Page = (await api.get<Page>(`/threads?limit=100${cursor === "" ? "" : `&cursor=${cursor}`}`)).body;
    for (const thread of page.threads) found.set(thread.subject.replace("crash ", ""), thread.id);
    cursor = page.nextCursor;
  }
  expect([...acknowledged].filter((n) => !found.has(n))).toEqual([]);

  // Whatever is there, acknowledged or not, is whole: body, attachment, octets and index.
  const inspect = async ([n, id]: [string, string]): Promise<void> => {
    const { body } = await api.get<{ messages: { id: string; text: string; attachments: { url: string }[] }[] }>(
      `/threads/${id}`,
    );
    expect(body.messages.map((message) => message.text.trim())).toEqual([`body of ${n}`]);
    const attachment = await api.bytes(body.messages[0]?.attachments[0]?.url as string);
    expect(Buffer.from(attachment.body).equals(attachmentOf(n))).toBe(true);
    const original = await api.bytes(`/api/ext/v1/messages/${body.messages[0]?.id}/original`);
    const isWhole = Buffer.from(original.body).toString().endsWith(messageOf(n).replaceAll("\n", "\r\n"));
    expect([n, original.status, isWhole]).toEqual([n, 200, true]);
  };
  await Promise.all([...found].map(inspect));
  const searched = await api.get<{ threads: unknown[] }>(
    `/search?q=${encodeURIComponent(`subject:"crash ${[...found.keys()][0]}"`)}`,
  );
  expect(searched.body.threads).toHaveLength(1);

  expect(await server.kill("SIGTERM")).toBe(0);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  const events = sqlite.query("SELECT count(*) AS n FROM events WHERE event = 'message.inbound'").get();
  expect(events).toEqual({ n: found.size });
}, 300_000);
