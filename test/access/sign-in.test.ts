/** Signing in, and how slow it is for who guesses (contract: Sign-in failures). */
import { expect, test } from "bun:test";
import { createKey, hashPassword } from "../../src/access/credentials.ts";
import { createSignIn } from "../../src/access/sign-in.ts";
import type { Slowdown } from "../../src/access/slowdown.ts";
import { AppError } from "../../src/errors.ts";
import { users } from "../../src/store/schema.ts";
import { createAlice } from "../mailbox/world.ts";

const hash = hashPassword("secret");

/** Alice with the password `secret`, and failures that are told when the test says so. */
async function setUp() {
  const { store, runtime, alice } = createAlice();
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
  const trySignIn = createSignIn({ db: store.db, slowdown });
  const { key } = store.transact((tx) =>
    createKey(tx, runtime, { userId: alice.userId, name: "app", scopes: ["send", "read"] }),
  );
  return {
    alice,
    key,
    failures,
    attempt: (secret: string, source = "192.0.2.1", username = "alice@example.test") =>
      trySignIn({ username, secret, scope: "send", source }),
    /** Resolves once that many failures wait to be told. */
    async failuresAre(count: number) {
      while (failures.length < count) {
        noticed = Promise.withResolvers();
        if (failures.length < count) await noticed.promise;
      }
    },
  };
}

test("a password gives the scope asked for, a key all of its own", async () => {
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

test("four attempts of a source are under way, failed and not yet told: the next wait", async () => {
  const { attempt, failures, failuresAre, alice } = await setUp();
  const guesses = Array.from({ length: 6 }, (_, i) => attempt(`guess ${i}`));
  const right = attempt("secret");
  await failuresAre(4);
  // From elsewhere it takes no waiting, and the four places here stay taken.
  expect((await attempt("secret", "198.51.100.1"))?.caller.userId).toBe(alice.userId);
  expect(failures).toHaveLength(4);
  for (let told = 0; told < 6; told++) {
    await failuresAre(told + 1);
    failures[told]?.tell();
  }
  expect(await Promise.all(guesses)).toEqual(Array(6).fill(undefined));
  expect((await right)?.caller.userId).toBe(alice.userId);
});

test("a source with very many attempts waiting is refused, and served again once they are through", async () => {
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
