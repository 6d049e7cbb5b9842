/** New databases for tests. The migrations run once in a process, since a copy takes a tenth of their time. */
import { Database } from "bun:sqlite";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { migrate } from "../../../src/store/migrate.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { temporaryFolder } from "../folder.ts";
import { fakeRuntime } from "../runtime.ts";

let migrated: Uint8Array | undefined;

/** The bytes of an empty database. */
export function newDatabase(): Uint8Array {
  if (migrated === undefined) {
    const sqlite = new Database(":memory:");
    migrate(sqlite, { claim: () => () => {} });
    migrated = sqlite.serialize();
    sqlite.close();
  }
  return migrated;
}

/** Opens a new store in memory, with a folder of its own for blobs. */
export function storeInMemory(runtime = fakeRuntime()): Store {
  return openStore({ folder: temporaryFolder(), file: newDatabase(), runtime });
}

/** Opens a new store in a folder that has none. */
export function storeInFolder(folder: string, runtime = fakeRuntime()): Store {
  writeFileSync(join(folder, "mailroom.db"), newDatabase(), { flag: "wx", mode: 0o600 });
  return openStore({ folder, runtime });
}
