/** The store of a standby: it reads what another process writes into the file, and writes nothing itself. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { StandbyRefusal } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { emptyDatabase } from "../../src/store/migrate.ts";
import { openReadOnlyStore } from "../../src/store/read-only.ts";
import { workspaces } from "../../src/store/schema.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

/** A database as Litestream makes it: not in WAL mode. */
function databaseIn(folder: string, name: string, workspace: string): { file: string; writer: Database } {
  const file = join(folder, name);
  writeFileSync(file, emptyDatabase());
  const writer = new Database(file);
  writer.exec("PRAGMA journal_mode = DELETE");
  addWorkspace(writer, workspace);
  return { file, writer };
}

const addWorkspace = (writer: Database, name: string) =>
  writer.run("INSERT INTO workspaces (id, name, created_at) VALUES (?, ?, 0)", [`wsp_${name}`, name]);

function openStandby() {
  const folder = temporaryFolder();
  const { file, writer } = databaseIn(folder, "a.db", "First");
  const runtime = fakeRuntime();
  const log = createLog("silent", runtime.now, () => {});
  const refusal = () => new StandbyRefusal("the server is elsewhere");
  const store = openReadOnlyStore({ folder, s3: undefined, file, refusal, runtime, log });
  const names = () =>
    store.db
      .select({ name: workspaces.name })
      .from(workspaces)
      .all()
      .map(({ name }) => name);
  return { folder, file, writer, store, names };
}

/** Changes a page as Litestream does: without SQLite's change counter. */
function changeUnnoticed(
  { file, writer }: Pick<ReturnType<typeof openStandby>, "file" | "writer">,
  change: () => void,
) {
  const counter = readFileSync(file).subarray(24, 28);
  change();
  writer.close();
  const fd = openSync(file, "r+");
  writeSync(fd, counter, 0, 4, 24);
  closeSync(fd);
}

describe("a standby's store", () => {
  test("reads what is written to the file, even when SQLite cannot notice the change", () => {
    const standby = openStandby();
    expect(standby.names()).toEqual(["First"]);
    changeUnnoticed(standby, () => standby.writer.run("UPDATE workspaces SET name = 'Other'"));
    expect(standby.names()).toEqual(["Other"]);
  });

  test("refuses writes of every kind with the refusal, and forgets notes", async () => {
    const { store, names } = openStandby();
    const add = () => store.db.insert(workspaces).values({ id: "wsp_x", name: "X", createdAt: 0 }).run();
    expect(() => store.transact(add)).toThrow("the server is elsewhere");
    await expect(store.enqueue(add)).rejects.toThrow("the server is elsewhere");
    await store.note(add);
    expect(() => store.requireWritable()).toThrow(StandbyRefusal);
    await expect(store.blobs.write(new Uint8Array(1))).rejects.toThrow("the server is elsewhere");
    expect(names()).toEqual(["First"]);
  });

  test("says why it lacks a blob that is a file of the server's", async () => {
    const { store } = openStandby();
    const name = "ab".padEnd(64, "0");
    await expect(store.blobs.read(name)).rejects.toThrow("MAILROOM_BLOBS");
    await expect(store.blobs.file(name)).rejects.toMatchObject({ status: 503 });
  });

  test("reads another file between two statements, prepared ones too", () => {
    const { folder, store, names } = openStandby();
    const prepared = store.db.select({ name: workspaces.name }).from(workspaces).prepare();
    expect(prepared.all()).toEqual([{ name: "First" }]);
    store.follow(databaseIn(folder, "b.db", "Second").file);
    expect(names()).toEqual(["Second"]);
    expect(prepared.all()).toEqual([{ name: "Second" }]);
  });

  test("tells of changes once", () => {
    const { store, writer } = openStandby();
    let told = 0;
    store.onCommit(() => told++);
    store.look();
    told = 0;
    store.look();
    expect(told).toBe(0);
    addWorkspace(writer, "More");
    store.look();
    expect(told).toBe(1);
  });
});
