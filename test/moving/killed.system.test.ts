/** An export and an import that are killed go on where they stopped, beside a running server, and end as if nothing was. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { peek } from "../harness/data/table-rows.ts";
import { contentOf, copySource, exportTo, newExport, openPlace } from "../harness/servers/moving-world.ts";
import { PROGRAM, serve } from "../harness/servers/process.ts";

const CONVERSATIONS = 3_000;
const FILES = 400;
/** Every question fails at once. */
const NO_DNS = { MAILROOM_DNS: "127.0.0.1:9" };
const FAR = 10_000_000;

/** Copies a conversation many times, some with files of their own. */
function enlarge(data: string): void {
  peek(data, (db) => {
    const copy = (table: string, changes: Record<string, string>, where: string) => {
      const columns = (db.query("SELECT name FROM pragma_table_info(?)").all(table) as { name: string }[]).map(
        ({ name }) => `"${name}"`,
      );
      const values = columns.map((column) => changes[column.slice(1, -1)] ?? column);
      return `INSERT INTO ${table} (${columns}) SELECT ${values} FROM ${table}, numbers WHERE ${where}`;
    };
    db.exec("CREATE TEMP TABLE numbers (n INTEGER PRIMARY KEY)");
    const number = db.prepare("INSERT INTO numbers VALUES (?)");
    const thread = db
      .query(
        `SELECT m.thread_seq AS seq FROM attachments JOIN messages m ON m.seq = message_seq
         JOIN mailboxes b ON b.id = m.mailbox_id WHERE b.address = 'alice@example.test' LIMIT 1`,
      )
      .get() as { seq: number };
    const first = thread.seq * 65_536;
    const message = `n * 65536 + ${first} % 65536`;
    db.transaction(() => {
      for (let n = 1; n <= CONVERSATIONS; n++) number.run(FAR + n);
      db.exec(copy("threads", { seq: "n", id: "'thr_copy' || n" }, `seq = ${thread.seq}`));
      db.exec(
        copy(
          "messages",
          { seq: message, thread_seq: "n", id: "'msg_copy' || n", message_id: "'<' || n || '@x>'" },
          `seq = ${first}`,
        ),
      );
      db.exec(copy("message_bodies", { message_seq: message }, `message_seq = ${first}`));
      for (let n = FAR + 1; n <= FAR + FILES; n++) {
        const bytes = `file ${n}`.repeat(2_000);
        const blob = createHash("sha256").update(bytes).digest("hex");
        const path = join(data, "blobs", blob.slice(0, 2), blob.slice(2));
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, bytes);
        db.query(
          "INSERT INTO attachments (id, message_seq, position, filename, content_type, size, inline, blob) VALUES (?, ?, 0, 'f', 'text/plain', ?, 0, ?)",
        ).run(`att_copy${n}`, n * 65_536, bytes.length, blob);
      }
    })();
  });
}

const spawn = (data: string, ...argv: string[]) =>
  Bun.spawn([...PROGRAM, "workspace", ...argv, "--json"], {
    env: { PATH: process.env.PATH ?? "", MAILROOM_DATA: data },
    stdio: ["ignore", "pipe", "pipe"],
  });

/** Answer of the command, as JSON. @throws Error with its complaint if it fails */
async function answerOf(child: ReturnType<typeof spawn>): Promise<unknown> {
  const [answer, complaint] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(complaint);
  return JSON.parse(answer);
}

/** Runs the command, and kills it as soon as `isTime`. Returns whether it was killed. */
async function killedWhen(child: ReturnType<typeof spawn>, isTime: () => boolean): Promise<boolean> {
  let ended = false;
  void child.exited.then(() => {
    ended = true;
  });
  while (!ended && !isTime()) await Bun.sleep(1);
  child.kill("SIGKILL");
  await child.exited;
  return child.signalCode === "SIGKILL";
}

test("killed again and again", async () => {
  const source = await copySource();
  enlarge(source.data);
  const old = await serve({ data: source.data, env: NO_DNS });
  const folder = newExport();
  const entries = (path: string): number => (existsSync(path) ? readdirSync(path, { recursive: true }).length : 0);
  const unfinished = () => entries(join(folder, "generations")) > 0;
  const exporting = [unfinished, () => entries(join(folder, "blobs")) > 50, () => entries(join(folder, "blobs")) > 400];
  for (const isTime of exporting) {
    expect(await killedWhen(spawn(source.data, "export", "Example", "--to", folder), isTime)).toBe(true);
  }
  await exportTo(source, folder);
  expect(
    await killedWhen(spawn(source.data, "export", "Example", "--to", folder, "--final"), () =>
      readdirSync(join(folder, "generations")).some((name) => name.startsWith(".")),
    ),
  ).toBe(true);
  // The earlier one is still there, whole.
  const place = openPlace();
  await place.ask("workspace", "add", "Here already");
  const served = await serve({ data: place.data, env: NO_DNS });
  const api = apiClient(served.http, source.key);

  const live = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = (table: string): number => (live.query(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n;
  const importing: (() => boolean)[] = [
    () => count("workspaces") === 2,
    () => count("threads") > 0,
    () => count("threads") > CONVERSATIONS / 2,
    () => count("junk_tokens") > 0,
    () => count("events") > 0,
    () => count("queue_entries") > 0,
  ];
  for (const isTime of importing) {
    expect(await killedWhen(spawn(place.data, "import", folder), isTime)).toBe(true);
    expect((await api.get("/threads")).status).toBe(401);
  }
  expect(await answerOf(spawn(place.data, "import", folder))).toMatchObject({
    served: false,
    written: 0,
  });

  expect(await exportTo(source, folder, "--final")).toMatchObject({ final: true });
  await old.kill("SIGTERM");
  const before = count("events");
  expect(await killedWhen(spawn(place.data, "import", folder), () => count("events") !== before)).toBe(true);
  expect(await answerOf(spawn(place.data, "import", folder))).toMatchObject({ served: true });
  expect((await api.get("/threads")).status).toBe(200);
  const found = await api.get<{ results: object[] }>("/search?q=attachedwords&limit=100");
  expect(found.status).toBe(200);
  live.close();
  await served.kill("SIGTERM");
  const again = newExport();
  await exportTo(place, again, "--final");
  const [expected, moved] = [contentOf(folder), contentOf(again)];
  for (const table of ["threads", "messages", "message_bodies", "attachments", "users", "outbound_messages"]) {
    expect([table, moved[table]?.length, moved[table]]).toEqual([table, expected[table]?.length, expected[table]]);
  }
}, 300_000);
