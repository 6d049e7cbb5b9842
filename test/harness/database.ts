/**
 * New databases for tests. Bringing one to the schema takes ten times as long as copying one that is there: it is done
 * once a process, by the migrations themselves.
 */
import { Database } from "bun:sqlite";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { migrate } from "../../src/store/migrate.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { temporaryFolder } from "./folder.ts";
import { fakeRuntime } from "./runtime.ts";

let migrated: Uint8Array | undefined;

/** The bytes of one that holds nothing yet. */
export function newDatabase(): Uint8Array {
  if (migrated === undefined) {
    const sqlite = new Database(":memory:");
    migrate(sqlite, { claim: () => () => {} });
    migrated = sqlite.serialize();
    sqlite.close();
  }
  return migrated;
}

/** A new store in memory, with a folder of its own for blobs. */
export function storeInMemory(runtime = fakeRuntime()): Store {
  return openStore({ folder: temporaryFolder(), file: newDatabase(), runtime });
}

/** A new store in the folder, which has none. */
export function storeInFolder(folder: string, runtime = fakeRuntime()): Store {
  writeFileSync(join(folder, "mailroom.db"), newDatabase(), { flag: "wx", mode: 0o600 });
  return openStore({ folder, runtime });
}
