/** When something was last used: to the minute, with few writes. */
import { expect, test } from "bun:test";
import { createKey, listKeys, noteKeyUse } from "../../src/access/credentials.ts";
import { createLastUse } from "../../src/access/last-use.ts";
import { createLog } from "../../src/base/log.ts";
import { createAlice } from "../harness/mailbox-world.ts";

function setUp() {
  const { store, runtime, alice, workspaceId } = createAlice();
  const { id } = store.transact((tx) =>
    createKey(tx, runtime, { userId: alice.userId, name: "script", scopes: ["read"] }),
  );
  const lines: string[] = [];
  return {
    store,
    id,
    lines,
    log: createLog("warn", runtime.now, (line) => lines.push(line)),
    lastUse: () => listKeys(store.db, workspaceId)[0]?.lastUsedAt,
  };
}

test("is written at most once a minute", async () => {
  const { store, id, log, lastUse } = setUp();
  const touch = createLastUse(store, log, "a key", noteKeyUse);
  const seen: unknown[] = [];
  for (const now of [1_000, 60_999, 61_000]) {
    touch(id, now);
    await store.enqueue(() => undefined);
    seen.push(lastUse());
  }
  expect(seen).toEqual([1_000, 1_000, 61_000]);
});

test("that cannot be written is only logged", async () => {
  const { store, id, log, lines } = setUp();
  const failing = { enqueue: () => Promise.reject(new Error("disk full")) };
  createLastUse(failing, log, "a key", noteKeyUse)(id, 1_000);
  await store.enqueue(() => undefined);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("disk full");
});
