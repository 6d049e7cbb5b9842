/** Signing in, and how guessing is slowed down (rules: Sign-in failures). */
import { describe, expect, test } from "bun:test";
import { createApiKey } from "../../src/access/credentials.ts";
import { createSignIn } from "../../src/access/sign-in.ts";
import type { Slowdown } from "../../src/access/slowdown.ts";
import { AppError } from "../../src/base/errors.ts";
import { secondFactors, users } from "../../src/store/schema.ts";
import { quickHash } from "../harness/quick-hash.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";
import { until } from "../harness/until.ts";

const hash = quickHash("secret");

/** Alice with the password `secret`, and failures that are reported when the test says so. */
async function setUp() {
  const { core, store, runtime, alice } = createAlice();
  store.db
    .update(users)
    .set({ passwordHash: await hash })
    .run();
  const failures: { names: string[]; tell(): void }[] = [];
  let noticed = Promise.withResolvers<void>();
  const slowdown: Slowdown = {
    failed: (...names) =>
      new Promise((tell) => {
        failures.push({ names, tell });
        noticed.resolve();
      }),
  };
  const touches: string[] = [];
  const touch = (id: string) => void touches.push(id);
  const secondFactors = { useCode: () => false };
  const signIn = createSignIn(core, { slowdown, secondFactors, touchKey: touch, touchAppPassword: touch });
  const { key } = store.transact((tx) =>
    createApiKey(tx, runtime, { userId: alice.userId, name: "app", scopes: ["send", "read"] }),
  );
  return {
    alice,
    key,
    store,
    runtime,
    signIn,
    touches,
    failures,
    attempt: (secret: string, source = "192.0.2.1", username = "alice@example.test") =>
      signIn.inApp({ username, secret, scopes: ["send"], source, over: "submission" }),
    /** Resolves once that many failures wait to be reported. */
    async failuresAre(count: number) {
      while (failures.length < count) {
        noticed = Promise.withResolvers();
        if (failures.length < count) await noticed.promise;
      }
    },
  };
}

test("a password gives the requested scope, a key all of its own", async () => {
  const { attempt, key, alice, failures } = await setUp();
  const { scopes: _, ...person } = alice;
  expect((await attempt("secret"))?.caller).toEqual({ ...person, scopes: new Set(["send"]) });
  expect((await attempt(key))?.caller).toEqual({
    ...person,
    keyId: expect.stringMatching(/^key_/),
    scopes: new Set(["send", "read"]),
  });
  expect((await attempt("secret", "192.0.2.1", " Alice@EXAMPLE.test "))?.caller.userId).toBe(alice.userId);
  expect(failures).toEqual([]);
});

describe("an imported hash", () => {
  const imported = "{BLF-CRYPT}$2y$05$btvKi3CrD6cb83lctokMc.TY4NexUFMd5q6XNFjLmxHTo1AG6G5ue";
  const password = "correct horse battery";

  async function setUpImported() {
    const world = await setUp();
    const stored = () => world.store.db.select().from(users).get()?.passwordHash;
    world.store.db.update(users).set({ passwordHash: imported }).run();
    return { ...world, stored };
  }

  test("is replaced once by two first sign-ins at the same time, and both go on", async () => {
    const { attempt, stored } = await setUpImported();
    const both = await Promise.all([attempt(password), attempt(password, "192.0.2.2")]);
    expect(stored()).toStartWith("$argon2id$");
    for (const signedIn of both) expect(signedIn?.present()?.email).toBe("alice@example.test");
  });

  test("stays while the store takes no change, and signs in", async () => {
    const { attempt, stored, store } = await setUpImported();
    const transact = store.transact;
    store.transact = () => {
      throw new AppError("server_error", "the disk is full", { status: 503 });
    };
    const signedIn = await attempt(password);
    store.transact = transact;
    expect(stored()).toBe(imported);
    expect(signedIn?.present()?.email).toBe("alice@example.test");
  });
});

test("a failure counts for the source and the account, and for the source alone without one", async () => {
  const { attempt, failures, failuresAre } = await setUp();
  const attempts = [attempt("wrong", "192.0.2.1", "ALICE@example.test")];
  await failuresAre(1);
  attempts.push(attempt("wrong", "192.0.2.2", "no address"));
  await failuresAre(2);
  expect(failures.map(({ names }) => names)).toEqual([["192.0.2.1", "alice@example.test"], ["192.0.2.2"]]);
  for (const { tell } of failures) tell();
  expect(await Promise.all(attempts)).toEqual([undefined, undefined]);
});

test("while four failures of a source are unreported, further attempts wait", async () => {
  const { attempt, failures, failuresAre, alice } = await setUp();
  const guesses = Array.from({ length: 6 }, (_, i) => attempt(`guess ${i}`));
  const right = attempt("secret");
  await failuresAre(4);
  // From another source there is no wait, and the four slots of this one stay occupied.
  expect((await attempt("secret", "198.51.100.1"))?.caller.userId).toBe(alice.userId);
  expect(failures).toHaveLength(4);
  for (let told = 0; told < 6; told++) {
    await failuresAre(told + 1);
    failures[told]?.tell();
  }
  expect(await Promise.all(guesses)).toEqual(Array(6).fill(undefined));
  expect((await right)?.caller.userId).toBe(alice.userId);
});

test("while eight failures of an account are unreported, attempts from new sources wait, and from known ones do not", async () => {
  const { attempt, failures, failuresAre, alice } = await setUp();
  await attempt("secret", "203.0.113.1");
  const guesses = Array.from({ length: 10 }, (_, i) => attempt(`guess ${i}`, `192.0.2.${i}`));
  await failuresAre(8);
  expect((await attempt("secret", "203.0.113.1"))?.caller.userId).toBe(alice.userId);
  const elsewhere = attempt("secret", "198.51.100.1");
  // Another account has slots of its own.
  const other = attempt("guess", "192.0.2.100", "bob@example.test");
  await failuresAre(9);
  expect(failures.map(({ names }) => names[1])).toEqual([...Array(8).fill(alice.email), "bob@example.test"]);
  for (let told = 0; told < 11; told++) {
    await failuresAre(told + 1);
    failures[told]?.tell();
  }
  for (const guess of [...guesses, other]) expect(await guess).toBeUndefined();
  expect((await elsewhere)?.caller.userId).toBe(alice.userId);
});

test("a source with too many waiting attempts is refused until they are done", async () => {
  const { attempt, failures, failuresAre, key } = await setUp();
  const guesses = Array.from({ length: 4 }, () => attempt("guess"));
  await failuresAre(4);
  const waiting = Array.from({ length: 100 }, () => attempt(key));
  const refused = await attempt(key).catch((error) => error);
  expect(refused).toBeInstanceOf(AppError);
  expect(refused.code).toBe("rate_limited");
  for (const { tell } of failures) tell();
  await Promise.all(guesses);
  expect((await Promise.all(waiting)).every((found) => found !== undefined)).toBe(true);
  expect(await attempt(key)).toBeDefined();
});

test("records the use of a key, and nothing for a password", async () => {
  const { attempt, key, touches } = await setUp();
  (await attempt("secret"))?.touch(1);
  expect(touches).toEqual([]);
  const byKey = await attempt(key);
  byKey?.touch(1);
  expect(touches).toEqual([byKey?.caller.keyId as string]);
});

describe("codes of a second factor", () => {
  async function guessing() {
    const it = await setUp();
    const { store, alice, signIn, failures } = it;
    const row = { userId: alice.userId, secret: Buffer.alloc(0), lastStep: 0, createdAt: 0 };
    store.db.insert(secondFactors).values(row).run();
    let told = 0;
    const guess = async (source: string) => {
      const given = { username: alice.email, secret: "secret", code: "000000", source, over: "app" } as const;
      const found = await signIn.inBrowser(given);
      expect(found).toBeUndefined();
      told++;
    };
    /** A guess that the pace of sources and accounts does not delay. */
    const told5 = async () => {
      for (let i = 0; i < 5; i++) {
        const guessed = guess(`192.0.2.${i}`);
        await it.failuresAre(i + 1);
        failures[i]?.tell();
        await guessed;
      }
    };
    return { ...it, guess, told: () => told, told5 };
  }

  test("have a pace per account for all sources: one at a time, each later than the one before", async () => {
    const { runtime, failures, guess, told, told5 } = await guessing();
    await told5();
    expect(runtime.nextTimer()).toBeUndefined();
    const guesses = [1, 2, 3].map((i) => guess(`198.51.100.${i}`));
    for (const [done, ms] of [1_000, 2_000, 4_000].entries()) {
      await until(() => runtime.nextTimer() !== undefined);
      expect(runtime.timers()).toEqual([runtime.now() + ms]);
      failures[5 + done]?.tell();
      runtime.advanceTo(runtime.now() + ms - 1);
      await new Promise(setImmediate);
      expect(told()).toBe(5 + done);
      runtime.advanceTo(runtime.now() + 1);
      await until(() => told() === 6 + done);
    }
    await Promise.all(guesses);
  });

  test("count for the source and the account, too, and occupy no slot of their source while they wait", async () => {
    const { alice, key, attempt, runtime, failures, failuresAre, guess, told5 } = await guessing();
    await told5();
    expect(failures[0]?.names).toEqual(["192.0.2.0", alice.email]);
    const guesses = Array.from({ length: 5 }, () => guess("198.51.100.1"));
    await failuresAre(6);
    expect((await attempt(key, "198.51.100.1"))?.caller.userId).toBe(alice.userId);
    expect(failures).toHaveLength(6);
    for (let i = 5; i < 10; i++) {
      await failuresAre(i + 1);
      await until(() => runtime.nextTimer() !== undefined);
      failures[i]?.tell();
      runtime.advanceTo(runtime.nextTimer() ?? 0);
    }
    await Promise.all(guesses);
  });
});
