/**
 * A workspace with something of everything, on a server that has another workspace, too; and servers to which it moves. Each
 * server is a data folder: an appliance runs on it in the process, or commands do.
 */
import { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { findCaller } from "../../../src/access/credentials.ts";
import { secondFactorKeyPath } from "../../../src/access/identity.ts";
import { openSecretSeal } from "../../../src/access/seal.ts";
import * as developers from "../../../src/admin/developers.ts";
import * as domains from "../../../src/admin/domains.ts";
import { makeDkimKeys } from "../../../src/admin/domains.ts";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import { createLog } from "../../../src/base/log.ts";
import type { Runtime } from "../../../src/base/runtime.ts";
import { deleteThreads } from "../../../src/mailbox/changing/threads.ts";
import { MOVED } from "../../../src/moving/tables.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { letter, mailer } from "../mail/mail.ts";
import { zone } from "../peers/dns-server.ts";
import { fakeRuntime } from "../runtime.ts";
import { type Booted, bootEmpty } from "./boot.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "./ext-world.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

/** Mail to it waits, since its name cannot be looked up. */
const REMOTE = "remote.example";
const dns = () => zone({ [REMOTE]: "SERVFAIL" });
const DAY_MS = 86_400_000;
const SOURCE_NOW = fakeRuntime().now();

export interface Place extends Terminal {
  /** Starts a server on the folder, on a clock that stands, or on another one; ended by the caller. */
  serve(world?: Partial<Runtime>): ReturnType<typeof bootEmpty>;
}

/** A server of its own. */
export function openPlace(data = temporaryFolder(), now = () => SOURCE_NOW + DAY_MS, names = dns()): Place {
  return {
    ...openTerminal({ data, runtime: { now, dns: names }, interrupted: new Promise(() => {}) }),
    serve: (world = { now }) =>
      bootEmpty({ MAILROOM_DATA: data }, { dns: dns(), file: join(data, "mailroom.db"), ...world }),
  };
}

/** Words of the other workspace, which are nowhere in an export. */
export const OF_OTHERS = ["othersecretword", "eve@other.test", "Others Ltd", "otherattachment"];

export interface Source extends Place {
  /** The API key of the owner, and one whose messages are held. */
  key: string;
  agentKey: string;
  /** API key of the other workspace's owner. */
  othersKey: string;
  workspaceId: string;
  /** Idempotency key of a message that was sent, and its body. */
  sent: { key: string; body: object };
}

let made: Promise<Source> | undefined;
atEndOfFile(() => {
  made = undefined;
});

/** Makes the workspace Example; the same for all tests of a file, so tests work on copies of its folder. */
export function makeSource(): Promise<Source> {
  made ??= build();
  return made;
}

async function build(): Promise<Source> {
  const data = temporaryFolder();
  const world = await bootExt({ MAILROOM_DATA: data }, dns(), { file: join(data, "mailroom.db") });
  const { opened, server, owner, api } = world;
  const { core } = opened;
  const { store, options } = core;
  const keys = await makeDkimKeys();
  const othersKey = await makeOthers(world, keys);
  const agent = store.transact((tx) =>
    developers.createKey(core, tx, {
      userId: owner.userId,
      name: "Agent",
      scopes: ["read", "send", "write"],
      policy: { send: "hold", mailboxes: [owner.mailboxId] },
    }),
  );
  store.transact((tx) => {
    mailboxAdmin.addAlias(core, tx, owner.mailboxId, "sales@example.test");
    mailboxAdmin.addAlias(core, tx, owner.mailboxId, "*@example.test");
    domains.addDomain(core, tx, owner.workspaceId, "second.test", keys);
    options.set(tx, "webhooks.timeoutSeconds", "7");
  });
  const body = { from: ALICE, to: `dan@${REMOTE}`, subject: "Offer", text: "The price is 5.", bcc: `ed@${REMOTE}` };
  const ok = <T extends { status: number }>(answer: T): T => {
    if (answer.status >= 300) throw new Error(JSON.stringify(answer));
    return answer;
  };
  ok(await api.post("/api/admin/v1/webhooks", { url: "https://hook.example/a", events: ["message.inbound"] }));
  ok(await api.post("/api/admin/v1/suppressions", { address: "never@remote.example", reason: "asked" }));
  ok(await api.post("/send", body, { "Idempotency-Key": "once" }));
  const first = await world.receive(ALICE, "Question", {
    headers: ["Content-Type: text/x-note", 'Content-Disposition: attachment; filename="note.txt"'],
    text: "attachedwords of a note",
  });
  ok(await api.patch(`/threads/${first.threadId}`, { labels: ["Müll", "Later"], starred: true }));
  // Octets that are a file.
  await world.receive(ALICE, "Long", { text: randomBytes(60_000).toString("hex") });
  const spam = await world.receive(ALICE, "Buy", { from: "spam@remote.example", text: "cheap pills" });
  ok(await api.patch(`/threads/${spam.threadId}`, { folder: "spam" }));
  const snoozed = await world.receive("sales@example.test", "Sleepy", {
    headers: ["In-Reply-To: <not-here@remote.example>"],
  });
  ok(await api.patch(`/api/ext/v1/threads/${snoozed.threadId}/snooze`, { until: iso(world, 30 * DAY_MS) }));
  const trashed = await world.receive(MAX, "Trashed");
  ok(await api.patch(`/threads/${trashed.threadId}`, { folder: "trash" }));
  ok(await api.post(`/threads/${first.threadId}/reply`, { text: "Here it is." }));
  ok(await api.post("/api/ext/v1/drafts", { from: ALICE, to: MAX, subject: "Unsent", text: "to be" }));
  ok(await api.post("/send", { ...body, subject: "Scheduled", sendAt: iso(world, 10 * DAY_MS) }));
  const asAgent = world.apiWith(agent.key);
  ok(await asAgent.post("/send", { ...body, subject: "Held" }));
  ok(await asAgent.patch(`/threads/${first.threadId}`, { labels: ["By agent"], folder: "archive" }));
  await asAgent.get("/threads");
  const mailbox = `/api/admin/v1/mailboxes/${owner.mailboxId}`;
  ok(await api.put(`${mailbox}/signature`, { text: "Alice" }));
  ok(await api.put(`${mailbox}/rules`, { rules: [{ match: "from:news", actions: [{ type: "archive" }] }] }));
  ok(await api.put(`${mailbox}/absence`, { from: iso(world, 0), until: iso(world, DAY_MS), text: "At sea" }));
  await world.advance(2_000);
  await server.stop(0);
  const db = new Database(join(data, "mailroom.db"));
  addAccess(db, data, owner.userId);
  db.close();
  return {
    ...openPlace(data),
    key: owner.apiKey,
    agentKey: agent.key,
    othersKey,
    workspaceId: owner.workspaceId,
    sent: { key: "once", body },
  };
}

/** A copy of the source, which a test may change. */
export async function copySource(): Promise<Source> {
  const source = await makeSource();
  const data = temporaryFolder();
  cpSync(source.data, data, { recursive: true, filter: (path) => !path.endsWith("-shm") });
  return { ...source, ...openPlace(data) };
}

export const SECOND_FACTOR = new TextEncoder().encode("a secret of 20 bytes");

/** Adds whatever lets people prove who they are. */
function addAccess(db: Database, data: string, userId: string): void {
  const runtime = fakeRuntime();
  const seal = openSecretSeal(
    secondFactorKeyPath(data),
    runtime,
    createLog("silent", runtime.now, () => {}),
  );
  const put = (table: string, row: Record<string, string | number | Uint8Array>) =>
    db
      .query(`INSERT INTO ${table} (${Object.keys(row)}) VALUES (${Object.keys(row).map(() => "?")})`)
      .run(...Object.values(row));
  const [now, later] = [runtime.now(), runtime.now() + 365 * DAY_MS];
  put("second_factors", { user_id: userId, secret: seal.close(SECOND_FACTOR, userId), last_step: 1, created_at: now });
  db.exec(
    "INSERT INTO known_recipients SELECT id, 'dan@remote.example' FROM mailboxes WHERE address LIKE '%@example.test'",
  );
  db.exec(
    `UPDATE messages SET folder = 'trash', apart = 1 WHERE seq = (SELECT min(messages.seq) FROM messages
       JOIN mailboxes ON mailboxes.id = mailbox_id AND address LIKE '%@example.test' WHERE kind = 'received');
     UPDATE discarded_messages SET since = 1`,
  );
  db.exec("INSERT INTO left_lists SELECT id, 'weekly.x.example', 1 FROM mailboxes WHERE address LIKE '%@example.test'");
  db.exec(
    "INSERT INTO invitation_answers SELECT id, 'uid', '', 'accepted', 0, 1 FROM mailboxes WHERE address LIKE '%@example.test'",
  );
  put("image_senders", { user_id: userId, sender: "news@x.example", created_at: now });
  db.exec(
    "INSERT INTO absence_replies SELECT id, 'dan@remote.example', 1 FROM mailboxes WHERE address LIKE '%@example.test'",
  );
  for (const [table, columns] of [
    ["label_colours", "'müll', 'red'"],
    ["left_lists", "'news.remote.example', 1"],
    ["invitation_answers", "'meeting@remote.example', '', 'accepted', 1, 1"],
  ]) {
    db.exec(`INSERT INTO ${table} SELECT id, ${columns} FROM mailboxes WHERE address LIKE '%@example.test'`);
  }
  put("image_senders", { user_id: userId, sender: "news@remote.example", created_at: now });
  db.exec(
    `INSERT INTO automatic_mail (mailbox_id, message_seq, kind, recipient, passed, asked_at, due_at)
     SELECT mailbox_id, min(seq), 'forward', 'dan@remote.example', '[]', 1, ${Number.MAX_SAFE_INTEGER} FROM messages
     WHERE kind = 'received' AND mailbox_id IN (SELECT id FROM mailboxes WHERE address LIKE '%@example.test') GROUP BY mailbox_id`,
  );
  db.query("UPDATE users SET label_folders = 1 WHERE id = ?").run(userId);
  put("recovery_codes", { user_id: userId, hash: "recovery" });
  put("app_passwords", { id: "apw_1", user_id: userId, name: "Phone", hash: "app", access: "read", created_at: now });
  put("access_notices", { user_id: userId, deed: "key", done_by: "admin", app_passwords: 0, keys: 1, created_at: now });
  put("sessions", {
    ...{ id: "ses_1", user_id: userId, hash: "session", user_agent: "Firefox", created_at: now, last_used_at: now },
    ...{ expires_at: later, source: "127.0.0.1", kept: 1 },
  });
  put("oauth_clients", { id: "cli_1", name: "App", redirect_uris: "[]", created_at: now });
  put("oauth_clients", { id: "cli_other", name: "Another", redirect_uris: "[]", created_at: now });
  put("api_keys", {
    ...{ id: "key_grant", user_id: userId, name: "App", hash: "grant", hint: "", scopes: '["read"]', created_at: now },
    policy: "{}",
  });
  put("oauth_grants", {
    ...{ key_id: "key_grant", client_id: "cli_1", client_name: "App", client_host: "app.example", resource: "r" },
    ...{ access_ms: 3_600_000, code_hash: "code", challenge: "c", code_expires_at: now, code_used_at: now },
  });
  for (const kind of ["refresh", "access"])
    put("oauth_tokens", { hash: kind, key_id: "key_grant", kind, expires_at: later });
}

const iso = ({ runtime }: Pick<Booted, "runtime">, ms: number): string => new Date(runtime.now() + ms).toISOString();

/** Another workspace, with people, mail, files and what its key did. */
async function makeOthers(
  { core, write, join, apiWith, mx }: ExtWorld,
  keys: Awaited<ReturnType<typeof makeDkimKeys>>,
): Promise<string> {
  const workspaceId = write((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Others Ltd");
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, "other.test", keys).id);
    return id;
  });
  const { key } = join("eve@other.test", "owner", { name: "Eve", workspaceId });
  const sender = mailer(mx);
  for (let i = 0; i < 5; i++) {
    await sender.send(
      { from: "carol@remote.example", to: "eve@other.test" },
      letter({
        to: "eve@other.test",
        subject: `othersecretword ${i}`,
        text: "otherattachment",
        headers: ["Content-Type: text/x-note", 'Content-Disposition: attachment; filename="o.txt"'],
      }),
    );
  }
  sender.close();
  const api = apiWith(key);
  await api.post("/send", { from: "eve@other.test", to: "dan@remote.example", subject: "othersecretword", text: "x" });
  await api.post("/api/admin/v1/webhooks", {
    url: "https://hook.example/othersecretword",
    events: ["message.inbound"],
  });
  return key;
}

export const newExport = (): string => join(temporaryFolder(), "export");

export interface Exported {
  final: boolean;
  rows: Record<string, number>;
  copied: number;
  lacking: string[];
}
export interface Imported {
  served: boolean;
  repeated: boolean;
  written: number;
  withoutFactor: string[];
  domains: string[];
  unverified: string[];
  settings: Record<string, string>;
}

/** The owner deletes a draft, or what is in trash, at a server that runs. */
export async function deleteForGood(
  { core, opened }: Pick<Booted, "core" | "opened">,
  { key }: Pick<Source, "key">,
  threadId: string,
): Promise<void> {
  const owner = findCaller(core.store.db, key);
  if (!owner) throw new Error("the owner's key is gone");
  const { deleted } = await deleteThreads(opened.core, owner, [threadId]);
  if (deleted.length === 0) throw new Error(`${threadId} cannot be deleted`);
}

export const exportTo = (place: Place, to: string, ...more: string[]): Promise<Exported> =>
  place.ask<Exported>("workspace", "export", "Example", "--to", to, ...more);
export const importFrom = (place: Place, from: string, ...more: string[]): Promise<Imported> =>
  place.ask<Imported>("workspace", "import", from, ...more);

/** Moves the workspace to a new server, whose operator says that its domain is its own. Returns it, with the folder of the export. */
export async function move(from: Place): Promise<{ place: Place; folder: string }> {
  const folder = newExport();
  await exportTo(from, folder, "--final");
  const place = openPlace();
  await importFrom(place, folder);
  await place.ask("domain", "verify", "example.test", "--skip-dns");
  return { place, folder };
}

const databaseOf = (folder: string): Database => {
  const [generation = ""] = readdirSync(join(folder, "generations"));
  return new Database(join(folder, "generations", generation, "mailroom.db"), { readonly: true });
};

type Row = Record<string, unknown>;

/** The rows of an export, with the numbers of rows replaced by what they stand for. */
export function contentOf(folder: string): Record<string, string[]> {
  const db = databaseOf(folder);
  const known = new Map<string, Map<number, unknown>>();
  const numbersOf = (table: string): Map<number, unknown> => {
    const found = known.get(table);
    if (found) return found;
    const key = table === "access_notices" ? "id" : "seq";
    const rows = db.query<Row, []>(`SELECT * FROM ${table} ORDER BY ${key}`).all();
    const made = new Map(rows.map((row, i) => [row[key] as number, row.id ?? i]));
    known.set(table, made);
    return made;
  };
  /** The last row up to the number: some columns name a position, after which others come. */
  function standsFor(table: string, seq: unknown): unknown {
    if (seq === null) return null;
    const numbers = numbersOf(table);
    const last = numbers.has(seq as number) ? seq : [...numbers.keys()].findLast((known) => known <= (seq as number));
    return numbers.get(last as number) ?? "none";
  }
  return Object.fromEntries(
    MOVED.map(({ name, numbers = {} }) => {
      const named: Record<string, string> = { ...numbers, ...(name === "drafts" && { answers: "threads" }) };
      const rows = db.query<Row, []>(`SELECT * FROM ${name}`).all();
      const plain = rows.map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([column, value]) => {
            const of = named[column];
            // Each server verifies for itself.
            if (column === "verified_at") return [column, undefined];
            // It moves on to the last event that was announced.
            if (column === "after_event") return [column, undefined];
            // Each server reads them anew.
            if (column === "envelope" || column === "structure") return [column, undefined];
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
