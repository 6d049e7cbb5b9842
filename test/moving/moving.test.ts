/** A workspace moves from server to server with all that it has. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MOVED } from "../../src/moving/tables.ts";
import { apiClient, type Client } from "../harness/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { copySource, OF_OTHERS, openPlace, type Place } from "../harness/moving-world.ts";
import { peek, rowsOf } from "../harness/table-rows.ts";

const newExport = (): string => join(temporaryFolder(), "export");

interface Exported {
  final: boolean;
  rows: Record<string, number>;
  copied: number;
  lacking: string[];
}
interface Imported {
  served: boolean;
  repeated: boolean;
  written: number;
  withoutFactor: string[];
  settings: Record<string, string>;
}

const exportTo = (place: Place, to: string, ...more: string[]): Promise<Exported> =>
  place.ask<Exported>("workspace", "export", "Example", "--to", to, ...more);
const importFrom = (place: Place, from: string, ...more: string[]): Promise<Imported> =>
  place.ask<Imported>("workspace", "import", from, ...more);

/** Moves the workspace to a new server. Returns it, with the folder of the export. */
async function move(from: Place): Promise<{ place: Place; folder: string }> {
  const folder = newExport();
  await exportTo(from, folder, "--final");
  const place = openPlace();
  expect(await importFrom(place, folder)).toMatchObject({ served: true, repeated: false });
  return { place, folder };
}

const databaseOf = (folder: string): Database => {
  const [generation = ""] = readdirSync(join(folder, "generations"));
  return new Database(join(folder, "generations", generation, "mailroom.db"), { readonly: true });
};

type Row = Record<string, unknown>;

/** The rows of an export, with the numbers of rows replaced by what they stand for. */
function contentOf(folder: string): Record<string, string[]> {
  const db = databaseOf(folder);
  const known = new Map<string, { seq: number; as: unknown }[]>();
  const numbersOf = (table: string) => {
    const key = table === "access_notices" ? "id" : "seq";
    const rows = db.query<Row, []>(`SELECT * FROM ${table} ORDER BY ${key}`).all();
    const found = known.get(table) ?? rows.map((row, i) => ({ seq: row[key] as number, as: row.id ?? i }));
    known.set(table, found);
    return found;
  };
  /** The last row up to the number: some columns name a position, after which others come. */
  const standsFor = (table: string, seq: unknown) =>
    seq === null ? null : (numbersOf(table).findLast((row) => row.seq <= (seq as number))?.as ?? "none");
  return Object.fromEntries(
    MOVED.map(({ name, numbers = {} }) => {
      const named: Record<string, string> = { ...numbers, ...(name === "drafts" && { answers: "threads" }) };
      const rows = db.query<Row, []>(`SELECT * FROM ${name}`).all();
      const plain = rows.map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([column, value]) => {
            const of = named[column];
            // It moves on to the last event that was announced.
            if (column === "after_event") return [column, undefined];
            if (of === undefined)
              return [column, value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value];
            // The conversation may be gone.
            if (name === "key_changes" && of === "threads") return [column, row.thread_id];
            return [column, standsFor(of, value)];
          }),
        ),
      );
      return [name, plain.map((row) => JSON.stringify(row)).sort()];
    }),
  );
}

/** What people and programs are told over all APIs. */
async function answersOf(place: Place, key: string): Promise<Record<string, unknown>> {
  const served = await place.serve();
  try {
    await served.appliance.settled();
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
    const { domains } = await get<{ domains: object[] }>(`${admin}/domains`);
    expect(domains).toHaveLength(2);
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
    await served.appliance.stop(0);
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
});

test("an export has nothing of another workspace", async () => {
  const source = await copySource();
  const folder = newExport();
  await exportTo(source, folder);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(5);
  for (const { parentPath, name } of files) {
    const bytes = readFileSync(join(parentPath, name));
    for (const word of OF_OTHERS) expect([name, word, bytes.includes(word)]).toEqual([name, word, false]);
  }
  const own = readFileSync(
    join(folder, "generations", readdirSync(join(folder, "generations"))[0] ?? "", "mailroom.db"),
  );
  expect(own.includes("alice@example.test")).toBe(true);
});

test("the same export again changes nothing", async () => {
  const source = await copySource();
  const { place, folder } = await move(source);
  const before = peek(place.data, rowsOf);
  expect(await importFrom(place, folder)).toMatchObject({ served: true, repeated: true, written: 0 });
  expect(peek(place.data, rowsOf)).toEqual(before);
});
