/** New stores and data folders for tests. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyDatabase } from "../../../src/store/migrate.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { temporaryFolder } from "../folder.ts";
import { fakeRuntime } from "../runtime.ts";

/** Makes a data folder as the first start leaves it, at a tenth of the cost. */
export function newDataFolder(): string {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "mailroom.db"), emptyDatabase(), { mode: 0o600 });
  return folder;
}

/** Opens a new store in memory, with a folder of its own for blobs. */
export function storeInMemory(runtime = fakeRuntime()): Store {
  return openStore({ folder: temporaryFolder(), file: emptyDatabase(), runtime });
}

/** Opens a new store in a folder that has none. */
export function storeInFolder(folder: string, runtime = fakeRuntime()): Store {
  writeFileSync(join(folder, "mailroom.db"), emptyDatabase(), { flag: "wx", mode: 0o600 });
  return openStore({ folder, runtime });
}
