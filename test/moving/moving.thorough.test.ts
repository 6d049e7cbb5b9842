/** A workspace moves from server to server with all that it has. */
import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { beginMailboxRemoval, finishMailboxRemoval } from "../../src/admin/removals.ts";
import { apiClient, type Client } from "../harness/clients/api.ts";
import { peek, rowsOf } from "../harness/data/table-rows.ts";
import {
  contentOf,
  copySource,
  deleteForGood,
  exportTo,
  importFrom,
  makeSource,
  move,
  newExport,
  OF_OTHERS,
  openPlace,
  type Place,
} from "../harness/servers/moving-world.ts";

// Several servers start in each.
setDefaultTimeout(30_000);
beforeAll(async () => void (await makeSource()));

/** Answers that people and programs get over all APIs. */
async function answersOf(place: Place, key: string): Promise<Record<string, unknown>> {
  const served = await place.serve();
  try {
    await served.server.settled();
    const api = apiClient(served.http, key);
    const answers: Record<string, unknown> = {};
    const get = async <T extends object>(path: string): Promise<T> => {
      const { status, body } = await api.get<T>(path);
      expect([path, status]).toEqual([path, 200]);
      answers[path] = body;
      return body;
    };
    await get("/mailboxes");
    const { threads } = await get<{ threads: { id: string }[] }>("/threads?folder=all&limit=100");
    for (const folder of ["inbox", "sent", "drafts", "archive", "spam", "trash", "snoozed"]) {
      await get(`/threads?folder=${folder}&limit=100`);
    }
    for (const { id } of threads) await get(`/threads/${id}`);
    const { messages } = await get<{ messages: { id: string }[] }>("/messages?limit=100");
    for (const { id } of messages) {
      const { message } = await get<{ message: { attachments: { id: string }[] } }>(`/messages/${id}`);
      answers[`raw ${id}`] = Buffer.from((await api.bytes(`/messages/${id}/raw`)).body).toString();
      for (const attachment of message.attachments) {
        answers[attachment.id] = Buffer.from((await api.bytes(`/attachments/${attachment.id}`)).body).toString();
      }
    }
    for (const path of ["labels", "drafts"]) if (path === "labels") await get(`/api/ext/v1/${path}`);
    for (const q of ["pills", "Question", "attachedwords", "has:attachment", "label:later"]) {
      await get(`/search?q=${encodeURIComponent(q)}`);
    }
    const admin = "/api/admin/v1";
    for (const path of ["mailboxes", "people", "suppressions", "queue", "holds"]) await get(`${admin}/${path}`);
    const { domains } = await get<{ domains: { verifiedAt: string | null }[] }>(`${admin}/domains`);
    expect(domains).toHaveLength(2);
    // Each server verifies for itself.
    for (const domain of domains) domain.verifiedAt &&= "once";
    const { webhooks } = await get<{ webhooks: { id: string }[] }>(`${admin}/webhooks`);
    for (const { id } of webhooks) await get(`${admin}/webhooks/${id}/deliveries`);
    const { keys } = await get<{ keys: { id: string; lastUsedAt: unknown }[] }>(`${admin}/keys`);
    for (const one of keys) {
      one.lastUsedAt = null;
      answers[`journal ${one.id}`] = await withoutReads(api, `${admin}/keys/${one.id}/journal`);
    }
    answers.mcp = (
      await api.post("/api/mcp", {
        ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
        params: { name: "list_messages", arguments: {} },
      })
    ).body;
    return answers;
  } finally {
    await served.server.stop(0);
  }
}

async function originalsOf(place: Place, key: string): Promise<Record<string, unknown>> {
  const served = await place.serve();
  try {
    const api = apiClient(served.http, key);
    const { messages } = (await api.get<{ messages: { id: string }[] }>("/messages?limit=100")).body;
    const answers: Record<string, unknown> = {};
    for (const { id } of messages) {
      const { status, body } = await api.bytes(`/api/ext/v1/messages/${id}/original`);
      expect(status).toBe(200);
      answers[id] = Buffer.from(body).toString("latin1");
    }
    return answers;
  } finally {
    await served.server.stop(0);
  }
}

/** The journal without the reads of these questions themselves. */
async function withoutReads(api: Client, path: string): Promise<unknown[]> {
  const { body } = await api.get<{ entries: { kind: string }[] }>(path);
  return body.entries.filter(({ kind }) => kind !== "read");
}

/** Takes away what the server has yet to do by itself, so that it answers the same each time. */
const withoutNotices = (place: Place): void => peek(place.data, (db) => void db.exec("DELETE FROM access_notices"));

describe("moved twice", () => {
  test("every row arrives, and an export of the moved workspace is the same", async () => {
    const source = await copySource();
    const { place: second, folder: first } = await move(source);
    const { folder: again, place: third } = await move(second);
    expect(contentOf(again)).toEqual(contentOf(first));
    const once = newExport();
    await exportTo(third, once, "--final");
    expect(contentOf(once)).toEqual(contentOf(first));
    // Nothing would be learned from empty tables.
    const empty = Object.entries(contentOf(first)).flatMap(([table, rows]) => (rows.length === 0 ? [table] : []));
    expect(empty).toEqual([]);
  });

  test("the APIs and MCP answer as before", async () => {
    const source = await copySource();
    withoutNotices(source);
    const before = await answersOf(source, source.key);
    expect(Object.keys(before).length).toBeGreaterThan(40);
    const { place: second } = await move(source);
    expect(await answersOf(second, source.key)).toEqual(before);
    const { place: third } = await move(second);
    expect(await answersOf(third, source.key)).toEqual(before);
  });

  test("originals are the same octets, also those in files and with a Bcc", async () => {
    const source = await copySource();
    const before = await originalsOf(source, source.key);
    expect(Object.keys(before)).toHaveLength(10);
    const { place } = await move(source);
    expect(await originalsOf(place, source.key)).toMatchObject(before);
  });

  test("what mail apps are told of octets is made where they arrive", async () => {
    const told = (place: Place) =>
      peek(place.data, (db) =>
        db
          .query<{ id: string }, []>(
            `SELECT messages.id, envelope, structure FROM message_octets JOIN messages ON seq = message_seq
             WHERE kind <> 'draft' AND hidden IS NULL ORDER BY messages.id`,
          )
          .all(),
      );
    const source = await copySource();
    const before = told(source);
    const { place } = await move(source);
    const served = await place.serve();
    await served.server.settled();
    await served.server.stop(0);
    const after = told(place);
    // The source has another workspace, too, and the server has written since.
    const moved = before.filter(({ id }) => after.some((one) => one.id === id));
    expect(moved.length).toBeGreaterThan(3);
    expect(after).toEqual(expect.arrayContaining(moved));
  });
});

test("an export has nothing of another workspace", async () => {
  const source = await copySource();
  const folder = newExport();
  await exportTo(source, folder);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(5);
  for (const { parentPath, name } of files) {
    // As secret as a backup.
    expect([name, statSync(join(parentPath, name)).mode & 0o077]).toEqual([name, 0]);
    const bytes = readFileSync(join(parentPath, name));
    for (const word of OF_OTHERS) expect([name, word, bytes.includes(word)]).toEqual([name, word, false]);
  }
  const own = readFileSync(
    join(folder, "generations", readdirSync(join(folder, "generations"))[0] ?? "", "mailroom.db"),
  );
  expect(own.includes("alice@example.test")).toBe(true);
});

test("a later export brings an earlier one up to date, and the final one begins to serve", async () => {
  const source = await copySource();
  const folder = newExport();
  expect(await exportTo(source, folder)).toMatchObject({ final: false, copied: 2 });
  const place = openPlace();
  const first = await importFrom(place, folder);
  expect(first).toMatchObject({ served: false, written: 9 });
  expect(await place.ask("workspace", "list")).toMatchObject([{ name: "Example", state: "arriving" }]);
  const served = await place.serve();
  expect((await apiClient(served.http, source.key).get("/threads")).status).toBe(401);
  await served.server.stop(0);

  // Meanwhile at the first server: one more, one moved, one gone, and a mailbox gone with all of its mail.
  const old = await source.serve();
  const api = apiClient(old.http, source.key);
  const { threads } = (await api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=all&limit=100"))
    .body;
  const idOf = (subject: string) => threads.find((thread) => thread.subject === subject)?.id;
  expect((await api.patch(`/threads/${idOf("Question")}`, { labels: ["New"] })).status).toBe(200);
  await deleteForGood(old, source, idOf("Unsent") ?? "");
  const sent = await api.post("/send", { ...source.sent.body, subject: "Second offer" });
  expect(sent.status).toBe(202);
  const max = (await api.get<{ mailboxes: { id: string; address: string }[] }>("/mailboxes")).body.mailboxes.find(
    ({ address }) => address === "max@example.test",
  );
  old.core.store.transact((tx) => beginMailboxRemoval(tx, max?.id ?? ""));
  void finishMailboxRemoval(old.core, max?.id ?? "");
  await old.server.settled();
  await old.server.stop(0);

  expect(await exportTo(source, folder, "--final")).toMatchObject({ final: true, copied: 0 });
  const second = await importFrom(place, folder);
  expect(second).toMatchObject({ served: true, repeated: false });
  expect(second.written).toBeLessThan(first.written);
  const again = newExport();
  await exportTo(place, again, "--final");
  expect(contentOf(again)).toEqual(contentOf(folder));
});

test("files that the last export has lost stay where an earlier one brought them", async () => {
  const source = await copySource();
  const before = await originalsOf(source, source.key);
  const [first, last, place] = [newExport(), newExport(), openPlace()];
  await exportTo(source, first);
  await importFrom(place, first);
  rmSync(join(source.data, "blobs"), { recursive: true });
  await exportTo(source, last, "--final");
  expect(await importFrom(place, last)).toMatchObject({
    served: true,
    lacking: [expect.any(String), expect.any(String)],
  });
  expect(await originalsOf(place, source.key)).toMatchObject(before);
});

test("limits of the workspace come along, unless the other server has set its own, and its bytes are counted there", async () => {
  const source = await copySource();
  await source.ask("workspace", "limit", "Example", "--mailboxes", "50", "--bytes", "5000000");
  const folder = newExport();
  await exportTo(source, folder);
  const place = openPlace();
  await importFrom(place, folder);
  await place.ask("workspace", "limit", "Example", "--mailboxes", "7");
  await exportTo(source, folder, "--final");
  await importFrom(place, folder);
  const [before, after] = [
    await source.ask("workspace", "limit", "Example"),
    await place.ask("workspace", "limit", "Example"),
  ];
  expect(after).toMatchObject({ mostMailboxes: 7, mostBytes: 5_000_000, usedBytes: before.usedBytes });
  expect(after.usedBytes).toBeGreaterThan(0);
  expect(peek(place.data, (db) => db.query("SELECT sum(bytes) AS n FROM mailbox_usage").get())).toEqual({
    n: after.usedBytes,
  });
});

test("the same export again changes nothing", async () => {
  const source = await copySource();
  const { place, folder } = await move(source);
  const before = peek(place.data, rowsOf);
  expect(await importFrom(place, folder)).toMatchObject({ served: true, repeated: true, written: 0 });
  expect(peek(place.data, rowsOf)).toEqual(before);
});

test("mail that a key had filed makes nobody a participant at the other server, either", async () => {
  const source = await copySource();
  const marked = (place: Place) =>
    peek(place.data, (db) => db.query("SELECT id FROM messages WHERE by_key = 1 ORDER BY id").all());
  peek(source.data, (db) =>
    db.run(
      "UPDATE messages SET by_key = 1 WHERE mailbox_id IN (SELECT id FROM mailboxes WHERE address = 'max@example.test')",
    ),
  );
  const before = marked(source);
  expect(before).not.toEqual([]);
  const { place } = await move(source);
  expect(marked(place)).toEqual(before);
});

test("a key that a session made ends with the session, which stays behind", async () => {
  const source = await copySource();
  const db = new Database(join(source.data, "mailroom.db"));
  db.run("UPDATE api_keys SET made_by = 'ses_1' WHERE name = 'Agent'");
  db.close();
  const { place } = await move(source);
  const served = await place.serve();
  const statuses = [source.key, source.agentKey].map((key) => apiClient(served.http, key).get("/threads"));
  expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([200, 401]);
  await served.server.stop(0);
});
