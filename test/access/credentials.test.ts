/** API keys, passwords, and when keys were last used (rules: API keys, Acting person, Key and secret formats). */
import { beforeEach, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import type { Caller } from "../../src/access/caller.ts";
import {
  createApiKey,
  createLastUseRecorder,
  findCaller,
  hashPassword,
  listApiKeys,
  noteKeyUse,
  revokeApiKey,
  verifyPassword,
} from "../../src/access/credentials.ts";
import { createLog } from "../../src/base/log.ts";
import { apiKeys, type Scope, users } from "../../src/store/schema.ts";
import { holdPasswords, withRealHashes } from "../harness/quick-hash.ts";
import { createWorld, type World } from "../harness/servers/mailbox-world.ts";

let world: World;
let workspaceId: string;
let person: Caller;

beforeEach(() => {
  world = createWorld();
  workspaceId = world.workspace("W", "example.test");
  person = world.user(workspaceId, "person@example.test", "admin");
});

const make = (scopes: Scope[] = ["read"], name = "script") =>
  world.store.transact((tx) => createApiKey(tx, world.runtime, { userId: person.userId, name, scopes }));

describe("keys", () => {
  test("are mr_ and 43 characters [A-Za-z0-9], and distinct", () => {
    const keys = [make(), make(), make()];
    for (const { id, key } of keys) {
      expect(key).toMatch(/^mr_[A-Za-z0-9]{43}$/);
      expect(id).toMatch(/^key_/);
    }
    expect(new Set(keys.map(({ key }) => key)).size).toBe(3);
  });

  test("act for their creator, with the scopes given, once each", () => {
    const { id, key } = make(["write", "read", "read"]);
    expect(findCaller(world.store.db, key)).toEqual({
      keyId: id,
      userId: person.userId,
      workspaceId,
      role: "admin",
      email: "person@example.test",
      scopes: new Set(["write", "read"]),
    });
  });

  test("are stored as a hash: the row does not contain the key", () => {
    const { id, key } = make();
    const row = world.store.db.select().from(apiKeys).where(eq(apiKeys.id, id)).get();
    expect(row?.hash).toBe(new Bun.CryptoHasher("sha256").update(key).digest("hex"));
    expect(row?.hint).toBe(key.slice(0, 7));
    expect(JSON.stringify(row)).not.toContain(key.slice(0, 12));
  });

  test("follow the creator's current role", () => {
    const { key } = make();
    world.store.db.update(users).set({ role: "member" }).where(eq(users.id, person.userId)).run();
    expect(findCaller(world.store.db, key)?.role).toBe("member");
  });

  test("end with their creator", () => {
    const { key } = make();
    world.store.db.delete(users).where(eq(users.id, person.userId)).run();
    expect(findCaller(world.store.db, key)).toBeUndefined();
  });

  test("end when revoked, once", () => {
    const { id, key } = make();
    const other = make();
    expect(world.store.transact((tx) => revokeApiKey(tx, id, 5))).toBe(true);
    expect(findCaller(world.store.db, key)).toBeUndefined();
    expect(findCaller(world.store.db, other.key)).toBeDefined();
    expect(world.store.transact((tx) => revokeApiKey(tx, id, 6))).toBe(false);
    expect(world.store.transact((tx) => revokeApiKey(tx, "key_none", 6))).toBe(false);
    expect(listApiKeys(world.store.db, workspaceId).find((key) => key.id === id)?.revokedAt).toBe(5);
  });

  test("no other text is one", () => {
    const { key } = make();
    const wrong = ["", "mr_", key.slice(0, -1), `${key}a`, ` ${key}`, key.toLowerCase(), key.slice(3), "' OR 1=1 --"];
    for (const guess of wrong) expect(findCaller(world.store.db, guess)).toBeUndefined();
  });

  test("are listed by workspace, newest first, without the key", () => {
    const first = make(["read"], "first");
    world.runtime.advanceTo(world.runtime.now() + 1);
    const second = make(["send"], "second");
    const elsewhere = world.workspace("E", "else.test");
    expect(listApiKeys(world.store.db, elsewhere)).toEqual([]);
    const listed = listApiKeys(world.store.db, workspaceId);
    expect(listed.map(({ id }) => id)).toEqual([second.id, first.id]);
    expect(listed[0]).toEqual({
      id: second.id,
      name: "second",
      userId: person.userId,
      userEmail: "person@example.test",
      userRole: "admin",
      hint: second.key.slice(0, 7),
      scopes: ["send"],
      createdAt: world.runtime.now(),
      lastUsedAt: null,
      revokedAt: null,
      policy: {},
      pausedAt: null,
      client: null,
    });
  });
});

describe("passwords", () => {
  test("are argon2id, and only the right one matches", () =>
    withRealHashes(async () => {
      const hash = await hashPassword("correct horse");
      expect(hash).toStartWith("$argon2id$v=19$m=32768,t=3,p=1$");
      expect(await verifyPassword("correct horse", hash)).toBe(true);
      expect(await verifyPassword("Correct horse", hash)).toBe(false);
    }));

  test("four are checked at once, sixty wait, and beyond that there is a brief refusal", async () => {
    const hash = await hashPassword("correct horse");
    const hold = holdPasswords();
    const checks = Array.from({ length: 64 }, (_, i) => verifyPassword("correct horse", i % 2 === 0 ? hash : null));
    const refusal = { code: "server_error", status: 503, retryAfter: 5 };
    await expect(verifyPassword("correct horse", hash)).rejects.toMatchObject(refusal);
    await expect(hashPassword("another horse")).rejects.toMatchObject(refusal);
    expect(hold.running).toBeLessThanOrEqual(4);
    hold.release();
    expect((await Promise.all(checks)).filter(Boolean)).toHaveLength(32);
    expect(await verifyPassword("correct horse", hash)).toBe(true);
  });

  test("a person without one cannot sign in", async () => {
    for (const guess of ["", "nobody's", "null"]) expect(await verifyPassword(guess, null)).toBe(false);
  });
});

describe("the last use of a key", () => {
  test("is written at most once a minute", async () => {
    const { core, store } = world;
    const { id } = make();
    const touch = createLastUseRecorder(core, "a key", noteKeyUse);
    const seen: unknown[] = [];
    for (const now of [1_000, 60_999, 61_000]) {
      touch(id, now);
      await store.enqueue(() => undefined);
      seen.push(listApiKeys(store.db, workspaceId)[0]?.lastUsedAt);
    }
    expect(seen).toEqual([1_000, 1_000, 61_000]);
  });

  test("is only logged when it cannot be written", async () => {
    const { core, store, runtime } = world;
    const lines: string[] = [];
    const log = createLog("warn", runtime.now, (line) => lines.push(line));
    const failing = { ...store, note: () => Promise.reject(new Error("disk full")) };
    createLastUseRecorder({ ...core, store: failing, log }, "a key", noteKeyUse)(make().id, 1_000);
    await store.enqueue(() => undefined);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("disk full");
  });
});
