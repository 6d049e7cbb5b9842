import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { isStoreBusy, openStore } from "../../src/store/store.ts";
import { createPacing } from "../../src/transfer/import-mail.ts";
import { newDataFolder } from "../harness/data/database.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";

/** A store in which another process writes, and a pacing whose waits are over at once. */
function setUp(warned: (times: number, other: Database) => void, isInterrupted?: () => boolean) {
  const folder = newDataFolder();
  const runtime = fakeRuntime();
  const store = openStore({ folder, busyTimeoutMs: 20, runtime });
  const other = new Database(join(folder, "mailroom.db"));
  other.exec("BEGIN IMMEDIATE");
  let times = 0;
  const core = coreOver(store, runtime);
  const setTimer: typeof runtime.setTimer = (wake) => {
    setImmediate(wake);
    return () => {};
  };
  const log = { ...core.log, warn: () => warned(++times, other) };
  const pacing = createPacing({ ...core, runtime: { ...runtime, setTimer }, log }, isInterrupted);
  const write = () =>
    pacing.run(1, (begun) =>
      store.transact(() => {
        begun();
        return "written";
      }),
    );
  return { write, warnings: () => times };
}

test("a long command waits for as long as another process writes, says so, and goes on", async () => {
  const { write, warnings } = setUp((times, other) => {
    if (times === 5) other.exec("ROLLBACK");
  });
  expect(await write()).toBe("written");
  expect(warnings()).toBe(5);
});

test("an interrupted one waits no longer", async () => {
  let interrupted = false;
  const { write, warnings } = setUp(
    (times) => {
      interrupted = times === 2;
    },
    () => interrupted,
  );
  const refused = await write().catch((error) => error);
  expect([isStoreBusy(refused), warnings()]).toEqual([true, 2]);
});
