/** Upgrades that the program refuses: of a newer version's database, and while a server runs on the folder. */
import { describe, expect, test } from "bun:test";
import { claimFolder } from "../../src/store/claim.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { folderOf, peek, rowsOf, schemaOf } from "../harness/data/table-rows.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { run } from "../harness/servers/process.ts";

const LATEST = MIGRATIONS.length;
const open = (folder: string): Store => openStore({ folder, runtime: fakeRuntime() });

const fresh = schemaOf(open(temporaryFolder()).db.$client);

describe("refused, with exit code 1 and the data as it was", () => {
  test("a folder of a newer version, for any command", async () => {
    const folder = folderOf(LATEST);
    peek(folder, (sqlite) => sqlite.exec(`PRAGMA user_version = ${LATEST + 1}`));
    const before = peek(folder, rowsOf);
    for (const command of [["serve"], ["user", "list"]]) {
      const { exitCode, stdout, stderr } = await run({ data: folder }, command);
      expect([exitCode, stdout]).toEqual([1, ""]);
      expect(stderr).toContain(
        `written by a newer Mailroom (schema ${LATEST + 1}, this one knows ${LATEST}): start that version, or restore a backup`,
      );
    }
    expect(peek(folder, rowsOf)).toEqual(before);
  });

  test("an upgrade while a server of the previous version runs", async () => {
    const folder = folderOf(LATEST - 1);
    const before = peek(folder, schemaOf);
    const stopped = claimFolder(folder);
    const { exitCode, stderr } = await run({ data: folder }, ["user", "list"]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("another server runs on the data folder")]);
    expect(peek(folder, schemaOf)).toEqual(before);
    stopped();
    expect((await run({ data: folder }, ["user", "list"])).exitCode).toBe(0);
    expect(peek(folder, schemaOf)).toEqual(fresh);
  });
});
