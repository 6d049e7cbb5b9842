/** Second factors in the store: which codes are valid, once each, and what a copy of the database reveals. */
import { describe, expect, test } from "bun:test";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { openSecretSeal } from "../../src/access/seal.ts";
import {
  createSecondFactors,
  findSecondFactor,
  generateTotpSecret,
  removeSecondFactor,
  renewRecoveryCodes,
} from "../../src/access/second-factor.ts";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import { createLog } from "../../src/base/log.ts";
import { recoveryCodes, secondFactors } from "../../src/store/schema.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

const STEP = 30_000;

function setUp() {
  const world = createWorld();
  const { store, runtime } = world;
  const workspaceId = world.workspace("W", "example.test");
  const [{ userId }, other] = [
    world.user(workspaceId, "ada@example.test", "owner"),
    world.user(workspaceId, "ben@example.test", "member"),
  ];
  const lines: string[] = [];
  const log = createLog("warn", runtime.now, (line) => lines.push(line));
  const file = join(temporaryFolder(), "keys", "second-factor.key");
  const reopened = () => createSecondFactors(openSecretSeal(file, runtime, log), runtime);
  const factors = reopened();
  const secret = generateTotpSecret(runtime);
  const codeNow = (aside = 0) =>
    computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(runtime.now()) + aside);
  return {
    store,
    runtime,
    userId,
    otherId: other.userId,
    file,
    lines,
    secret,
    codeNow,
    reopened,
    enrol: () => store.transact((tx) => factors.enrol(tx, userId, { secret, code: codeNow() })),
    use: (code: string, by = userId, using = factors) => store.transact((tx) => using.useCode(tx, by, code)),
    wait: (ms = STEP) => runtime.advanceTo(runtime.now() + ms),
  };
}

describe("a code", () => {
  test("is valid once, and earlier codes are not valid after it", () => {
    const { enrol, use, wait, codeNow } = setUp();
    enrol();
    expect(use(codeNow())).toBe(false);
    wait(2 * STEP);
    expect([use(codeNow()), use(codeNow()), use(codeNow(-1)), use(codeNow(1)), use(codeNow())]).toEqual([
      true,
      false,
      false,
      true,
      false,
    ]);
    wait();
    expect(use(codeNow())).toBe(false);
    wait();
    expect(use(codeNow().replace(/.{3}/, "$& "))).toBe(true);
  });

  test("is valid once although a clock that was ahead accepted a later one", () => {
    const { enrol, use, wait, runtime, codeNow } = setUp();
    enrol();
    runtime.setBy(86_400_000);
    expect(use(codeNow())).toBe(true);
    runtime.setBy(-86_400_000);
    wait();
    expect([use(codeNow()), use(codeNow()), use(codeNow(-1)), use(codeNow(1)), use(codeNow(1))]).toEqual([
      true,
      false,
      false,
      true,
      false,
    ]);
  });

  test("is valid only for its person, and only with a second factor", () => {
    const { enrol, use, wait, codeNow, otherId } = setUp();
    expect(use(codeNow())).toBe(false);
    const [code = ""] = enrol();
    wait();
    expect([use(codeNow(), otherId), use(code, otherId)]).toEqual([false, false]);
    expect([use(codeNow()), use(code)]).toEqual([true, true]);
  });

  test("of a rolled-back transaction stays valid", () => {
    const { enrol, use, wait, codeNow, store, userId, reopened } = setUp();
    enrol();
    wait();
    expect(() =>
      store.transact((tx) => {
        reopened().useCode(tx, userId, codeNow());
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(use(codeNow())).toBe(true);
  });
});

describe("recovery codes", () => {
  test("are ten, each valid once, in any spelling", () => {
    const { enrol, use, store, userId } = setUp();
    const codes = enrol();
    expect(codes).toHaveLength(10);
    for (const code of codes) expect(code).toMatch(/^[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}$/);
    expect(findSecondFactor(store.db, userId)?.recoveryCodes).toBe(10);
    const typed = codes.map(
      (code, i) =>
        [code, code.toUpperCase(), code.replaceAll("-", ""), ` ${code.replaceAll("-", " ")} `][i % 4] as string,
    );
    expect(typed.map((code) => use(code))).toEqual(Array(10).fill(true));
    expect(codes.map((code) => use(code))).toEqual(Array(10).fill(false));
    expect(findSecondFactor(store.db, userId)?.recoveryCodes).toBe(0);
  });

  test("accept similar letters: o is 0, i and l are 1", () => {
    const { enrol, use, store, runtime, userId } = setUp();
    enrol();
    let code: string | undefined;
    while (code === undefined) {
      const codes = store.transact((tx) => renewRecoveryCodes(tx, runtime, userId));
      code = codes.find((one) => /0/.test(one) && /1/.test(one));
    }
    expect(use(code.replaceAll("0", "O").replaceAll("1", "l"))).toBe(true);
  });

  test("replace the previous ones", () => {
    const { enrol, use, store, runtime, userId } = setUp();
    const [old = ""] = enrol();
    const [fresh = ""] = store.transact((tx) => renewRecoveryCodes(tx, runtime, userId));
    expect([use(old), use(fresh)]).toEqual([false, true]);
    expect(findSecondFactor(store.db, userId)?.recoveryCodes).toBe(9);
  });
});

describe("enrolling", () => {
  test.each([
    ["a wrong code", { code: "000000" }, "unprocessable"],
    ["a secret of another length", { secret: "ABCDEFGH" }, "bad_request"],
  ])("with %s adds nothing", (_, wrong, code) => {
    const { store, userId, secret, codeNow, reopened } = setUp();
    const given = { secret, code: codeNow(), ...wrong };
    expect(() => store.transact((tx) => reopened().enrol(tx, userId, given))).toThrow(
      expect.objectContaining({ code }),
    );
    expect(findSecondFactor(store.db, userId)).toBeUndefined();
  });

  test("twice is refused, but not after removal, which also removes the codes", () => {
    const { enrol, use, wait, store, userId } = setUp();
    const [old = ""] = enrol();
    wait();
    expect(enrol).toThrow(expect.objectContaining({ code: "conflict" }));
    expect(store.transact((tx) => removeSecondFactor(tx, userId))).toBe(true);
    expect(store.transact((tx) => removeSecondFactor(tx, userId))).toBe(false);
    enrol();
    expect(use(old)).toBe(false);
  });
});

describe("at rest", () => {
  test("the database holds neither the secret nor a recovery code", () => {
    const { enrol, store, secret } = setUp();
    const codes = enrol();
    const rows = [store.db.select().from(secondFactors).all(), store.db.select().from(recoveryCodes).all()];
    const kept = JSON.stringify(rows);
    for (const code of codes) for (const form of [code, code.replaceAll("-", "")]) expect(kept).not.toContain(form);
    const [row] = store.db.select().from(secondFactors).all();
    expect(row?.secret.includes(Buffer.from(readTotpSecret(secret) as Uint8Array))).toBe(false);
    expect(row?.secret.includes(secret)).toBe(false);
  });

  test("the key is a file of its own, readable only by its owner, and shared by processes", () => {
    const { enrol, use, wait, codeNow, file, userId, reopened } = setUp();
    enrol();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(file, ".."))).toEqual(["second-factor.key"]);
    wait();
    expect(use(codeNow(), userId, reopened())).toBe(true);
  });

  test("without its key only recovery codes are valid, and the loss is logged", () => {
    const { enrol, use, wait, codeNow, file, userId, reopened, lines } = setUp();
    const [code = ""] = enrol();
    rmSync(file);
    wait();
    expect([use(codeNow(), userId, reopened()), use(code, userId, reopened())]).toEqual([false, true]);
    expect(lines.join()).toMatch(/put the .*second-factor\.key back/);
  });

  test("a secret moved to another person's row does not open", () => {
    const { enrol, use, wait, codeNow, store, otherId } = setUp();
    enrol();
    const [row] = store.db.select().from(secondFactors).all();
    if (!row) throw new Error("no row");
    store.db
      .insert(secondFactors)
      .values({ ...row, userId: otherId })
      .run();
    wait();
    expect(use(codeNow(), otherId)).toBe(false);
  });
});
