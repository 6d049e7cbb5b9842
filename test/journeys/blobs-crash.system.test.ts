/**
 * Attachments in S3, and a kill -9: of the server around an upload, and of a move beside a server that takes mail. The replies
 * to senders are compared with the API's mail.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { filesIn, keyOf } from "../harness/peers/remote-blobs.ts";
import { noS3, type S3, startS3 } from "../harness/peers/s3.ts";
import { begin, type Place, run, runJson, type Served, serve } from "../harness/servers/process.ts";
import { attachmentOf, isLong, messageOf } from "./numbered-mail.ts";

const CONNECTIONS = 4;

const nameOf = (n: string): string => createHash("sha256").update(attachmentOf(n)).digest("hex");

interface Rig {
  s3: S3;
  /** With S3, and without. */
  place: Place;
  bare: Place;
  apiKey: string;
}

async function open(): Promise<Rig> {
  const s3 = await startS3();
  const bare = { data: temporaryFolder() };
  const { apiKey } = await runJson<{ apiKey: string }>(
    bare,
    ...["setup", "--domain", "example.test", "--email", "owner@example.test", "--name", "Owner"],
  );
  await runJson(bare, "domain", "verify", "example.test", "--skip-dns");
  settle(bare, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  return { s3, bare, place: { ...bare, env: { MAILROOM_BLOBS: s3.url, ...s3.credentials } }, apiKey };
}

/** Sends messages on several connections until `isOver`, or until the server is gone. */
async function pour({ mx }: Served, prefix: string, acknowledged: Set<string>, isOver: () => boolean): Promise<void> {
  const sender = mailer(mx, { connections: CONNECTIONS, starttls: false });
  const lane = async (number: number): Promise<void> => {
    for (let i = 0; !isOver(); i++) {
      const n = `${prefix}-${number}-${i}`;
      await sender.send({ from: "carol@remote.example", to: "owner@example.test" }, messageOf(n));
      acknowledged.add(n);
    }
  };
  await Promise.allSettled(Array.from({ length: CONNECTIONS }, (_, number) => lane(number)));
  sender.close();
}

/** Reads all messages with their attachments, and fails for one that is half there. Returns what they are called. */
async function readAll({ http }: Served, apiKey: string): Promise<Set<string>> {
  const api = apiClient(http, apiKey);
  const found = new Set<string>();
  interface Page {
    threads: { id: string; subject: string }[];
    nextCursor: string | null;
  }
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Page = (await api.get<Page>(`/threads?limit=100${cursor === "" ? "" : `&cursor=${cursor}`}`)).body;
    for (const { id, subject } of page.threads) {
      const n = subject.replace("crash ", "");
      const { body } = await api.get<{ messages: { id: string; attachments: { url: string }[] }[] }>(`/threads/${id}`);
      const file = await api.bytes(body.messages[0]?.attachments[0]?.url ?? "");
      expect([n, file.status, Buffer.from(file.body).equals(attachmentOf(n))]).toEqual([n, 200, true]);
      const original = await api.bytes(`/api/ext/v1/messages/${body.messages[0]?.id}/original`);
      const isWhole = Buffer.from(original.body).toString().endsWith(messageOf(n).replaceAll("\n", "\r\n"));
      expect([n, original.status, isWhole]).toEqual([n, 200, true]);
      found.add(n);
    }
    cursor = page.nextCursor;
  }
  return found;
}

const missingFrom = (found: ReadonlySet<string>, acknowledged: ReadonlySet<string>): string[] =>
  [...acknowledged].filter((n) => !found.has(n));

describe.skipIf(noS3 !== undefined)(`attachments in S3${noS3 ? `: ${noS3}` : ""}`, () => {
  test("kill -9 before, in and after an upload loses nothing that was acknowledged", async () => {
    const { s3, place, apiKey } = await open();
    const acknowledged = new Set<string>();
    for (const when of ["before", "in", "after"] as const) {
      const server = await serve(place);
      let uploads = 0;
      let killed: Promise<unknown> | undefined;
      s3.interfere(async (request, forward) => {
        if (request.method !== "PUT" || uploads++ < 12 || killed) return forward();
        if (when === "before") killed = server.kill("SIGKILL");
        const response = await forward();
        if (when === "in") killed = server.kill("SIGKILL");
        if (when === "after") setTimeout(() => (killed ??= server.kill("SIGKILL")), 2);
        return response;
      });
      await pour(server, when, acknowledged, () => killed !== undefined);
      await killed;
      s3.interfere(undefined);
    }
    expect(acknowledged.size).toBeGreaterThan(15);

    const server = await serve(place);
    const found = await readAll(server, apiKey);
    expect(missingFrom(found, acknowledged)).toEqual([]);
    for (const n of found) expect(await s3.direct.exists(keyOf(nameOf(n)))).toBe(true);
    expect(filesIn(join(place.data, "blobs"))).toEqual([]);
    expect(await server.kill("SIGTERM")).toBe(0);
    const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
    expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  }, 120_000);

  test("a move that is killed goes on, while the server takes mail, both ways", async () => {
    const { s3, place, bare, apiKey } = await open();
    const acknowledged = new Set<string>();
    const first = await serve(bare);
    await pour(first, "files", acknowledged, () => acknowledged.size >= 60);
    await first.kill("SIGTERM");
    expect(filesIn(join(bare.data, "blobs")).length).toBe(acknowledged.size + [...acknowledged].filter(isLong).length);

    const server = await serve(place);
    for (const to of ["s3", "files"] as const) {
      let isOver = false;
      const pouring = pour(server, to, acknowledged, () => isOver);
      const method = to === "s3" ? "PUT" : "GET";
      let requests = 0;
      const reached = Promise.withResolvers<void>();
      s3.interfere((request, forward) => {
        if (request.method === method && requests++ === 25) reached.resolve();
        return forward();
      });
      const killed = begin(place, ["blobs", "move", "--to", to]);
      await reached.promise;
      await killed.kill();
      s3.interfere(undefined);
      expect(await run(place, ["blobs", "move", "--to", to])).toMatchObject({ exitCode: 0 });
      isOver = true;
      await pouring;
      expect(missingFrom(await readAll(server, apiKey), acknowledged)).toEqual([]);
      const names = [...acknowledged].map(nameOf);
      const files = new Set(filesIn(join(place.data, "blobs")));
      if (to === "files") expect(names.filter((name) => !files.has(name))).toEqual([]);
      else expect([...files].filter((name) => !name.startsWith("."))).toEqual([]);
    }
    await server.kill("SIGTERM");
    const last = await serve(bare);
    expect(missingFrom(await readAll(last, apiKey), acknowledged)).toEqual([]);
    await last.kill("SIGTERM");
  }, 120_000);
});
