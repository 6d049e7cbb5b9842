/** A second factor over HTTP: adding, asking for codes, slowing guesses, removal, and the limits of the password alone. */
import { beforeEach, describe, expect, test } from "bun:test";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../../src/access/totp.ts";
import * as people from "../../../src/admin/people.ts";
import { PASSWORD, type Page, page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const STEP = 30_000;
let booted: Booted;
let alice: Page;

beforeEach(async () => {
  booted = await boot();
  await setPassword(booted, booted.owner.userId);
  alice = await signIn(booted, ALICE);
});

type Refused = { error: string; code: string };
const codeNow = (secret: string): string =>
  computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(booted.runtime.now()));
const newSecret = async () => (await alice.send<{ secret: string }>("POST", "/me/second-factor/new")).body.secret;
const enrol = (secret: string, code: string, password = PASSWORD) =>
  alice.send<{ recoveryCodes: string[] } & Refused>("POST", "/me/second-factor", { secret, code, password });
const enrolNow = async () => {
  const secret = await newSecret();
  return enrol(secret, codeNow(secret));
};
const tryIn = (given: object) =>
  page(booted).send<({ next?: string } & Partial<Refused>) | undefined>("POST", "/sign-in", {
    email: ALICE,
    password: PASSWORD,
    ...given,
  });
const isOn = async () => (await alice.get<{ since: string | null }>("/me/second-factor")).body.since !== null;

/** Turns the second factor on, which uses up the code of that moment. */
async function turnOn() {
  const secret = await newSecret();
  const { body } = await enrol(secret, codeNow(secret));
  await booted.advance(STEP);
  return { secret, recoveryCodes: body.recoveryCodes };
}

describe("adding a second factor", () => {
  test("needs a code of the new secret and the password, and gives ten recovery codes once", async () => {
    expect((await alice.get("/me/second-factor")).body).toEqual({ since: null, recoveryCodes: 0 });
    const { status, body } = await enrolNow();
    expect(status).toBe(200);
    expect(body.recoveryCodes).toHaveLength(10);
    expect((await alice.get("/me/second-factor")).body).toEqual({
      since: new Date(booted.runtime.now()).toISOString(),
      recoveryCodes: 10,
    });
  });

  test("fails without the password, and with another code", async () => {
    const secret = await newSecret();
    const wrong = String((Number(codeNow(secret)) + 1) % 1_000_000).padStart(6, "0");
    expect((await enrol(secret, codeNow(secret), "guess")).status).toBe(403);
    expect((await enrol(secret, wrong)).status).toBe(422);
    expect((await enrol("not a secret", "000000")).status).toBe(400);
    expect(await isOn()).toBe(false);
  });

  test("signs out everywhere else", async () => {
    const other = await signIn(booted, ALICE);
    await enrolNow();
    expect([(await other.get("/me")).status, (await alice.get("/me")).status]).toEqual([401, 200]);
  });

  test("changes nothing while the secret is proposed and not confirmed", async () => {
    await newSecret();
    expect((await tryIn({})).status).toBe(204);
  });
});

describe("signing in with a second factor", () => {
  test("asks for a code, which counts once", async () => {
    const { secret } = await turnOn();
    const asked = await tryIn({});
    expect([asked.status, asked.body, asked.headers.get("set-cookie")]).toEqual([200, { next: "code" }, null]);
    const code = codeNow(secret);
    expect((await tryIn({ code })).status).toBe(204);
    expect((await tryIn({ code })).status).toBe(401);
    await booted.advance(STEP);
    expect((await tryIn({ code: codeNow(secret) })).status).toBe(204);
  });

  test("two sign-ins at once with the same code: one succeeds", async () => {
    const { secret } = await turnOn();
    const code = codeNow(secret);
    const statuses = await Promise.all([tryIn({ code }), tryIn({ code })]);
    expect(statuses.map(({ status }) => status).sort()).toEqual([204, 401]);
  });

  test("the code that confirmed it does not sign in", async () => {
    const secret = await newSecret();
    const code = codeNow(secret);
    await enrol(secret, code);
    expect((await tryIn({ code })).status).toBe(401);
  });

  test("a recovery code signs in once", async () => {
    const { recoveryCodes } = await turnOn();
    const [code] = recoveryCodes;
    expect([(await tryIn({ code })).status, (await tryIn({ code })).status]).toEqual([204, 401]);
    expect((await alice.get("/me/second-factor")).body).toMatchObject({ recoveryCodes: 9 });
  });

  test("does not tell which part was wrong, and a wrong password uses up no code", async () => {
    const { secret, recoveryCodes } = await turnOn();
    const code = codeNow(secret);
    const refusals = await Promise.all(
      [
        { code: "000000" },
        { code, password: "wrong" },
        { code: recoveryCodes[0], password: "wrong" },
        { code, email: "nobody@example.test" },
        { code: "" },
      ].map(async (given) => {
        const { status, body, headers } = await tryIn(given);
        return JSON.stringify([status, body, headers.get("set-cookie")]);
      }),
    );
    expect(new Set(refusals).size).toBe(1);
    expect(JSON.parse(refusals[0] ?? "")).toMatchObject([401, { code: "unauthorized" }, null]);
    expect((await tryIn({ code })).status).toBe(204);
    expect((await tryIn({ code: recoveryCodes[0] })).status).toBe(204);
  });

  test("a code without a second factor is ignored", async () => {
    expect((await tryIn({ code: "000000" })).status).toBe(204);
  });
});

describe("with a second factor", () => {
  test("new recovery codes need password and code, and replace the old ones", async () => {
    const { secret, recoveryCodes } = await turnOn();
    const renew = (given: object) =>
      alice.send<{ recoveryCodes: string[] }>("POST", "/me/second-factor/recovery-codes", given);
    expect((await renew({ password: PASSWORD, code: "000000" })).status).toBe(403);
    expect((await renew({ password: "wrong", code: codeNow(secret) })).status).toBe(403);
    const { status, body } = await renew({ password: PASSWORD, code: codeNow(secret) });
    expect([status, body.recoveryCodes.length]).toEqual([200, 10]);
    expect((await tryIn({ code: recoveryCodes[0] })).status).toBe(401);
    expect((await tryIn({ code: body.recoveryCodes[0] })).status).toBe(204);
  });

  test("removing it needs password and code, and then the password alone signs in", async () => {
    const { secret } = await turnOn();
    const remove = (given: object) => alice.send<Refused>("POST", "/me/second-factor/remove", given);
    expect((await remove({ password: PASSWORD, code: "000000" })).status).toBe(403);
    expect((await remove({ password: "wrong", code: codeNow(secret) })).status).toBe(403);
    expect(await isOn()).toBe(true);
    expect((await remove({ password: PASSWORD, code: codeNow(secret) })).status).toBe(204);
    expect(await isOn()).toBe(false);
    expect((await tryIn({})).status).toBe(204);
    expect((await remove({ password: PASSWORD, code: codeNow(secret) })).status).toBe(409);
  });

  test("changing the password needs the password and a code, and the second factor stays", async () => {
    const { secret } = await turnOn();
    const change = (given: object) =>
      alice.send<Refused>("POST", "/me/password", { present: PASSWORD, next: "another one", ...given });
    const refusal = await change({});
    expect(refusal.status).toBe(403);
    for (const given of [{ code: "000000" }, { present: "wrong" }, { present: "wrong", code: codeNow(secret) }]) {
      expect(await change(given)).toMatchObject({ status: 403, body: refusal.body });
    }
    expect((await change({ code: codeNow(secret) })).status).toBe(204);
    await booted.advance(STEP);
    expect((await tryIn({ password: "another one" })).body).toEqual({ next: "code" });
    expect((await tryIn({ password: "another one", code: codeNow(secret) })).status).toBe(204);
  });
});

describe("a reset by an admin", () => {
  async function twoPeople() {
    const { core } = booted.opened;
    const { store } = core;
    const { workspaceId } = booted.owner;
    const add = (email: string, role: "admin" | "member") =>
      store.transact((tx) => people.addUser(core, tx, { workspaceId, email, name: email, role, ownMailbox: false }))
        .userId;
    const [ann, ben] = [add("ann@example.test", "admin"), add("ben@example.test", "member")];
    for (const id of [ann, ben]) await setPassword(booted, id);
    return { ann, ben };
  }
  const reset = (by: Page, id: string) => by.send("DELETE", `/settings/people/${id}/second-factor`);

  test("signs the person out, whose password alone signs in again", async () => {
    const { ben } = await twoPeople();
    const owner = alice;
    alice = await signIn(booted, "ben@example.test");
    await turnOn();
    type People = { people: { id: string; secondFactor: boolean }[] };
    const listed = async () =>
      (await owner.get<People>("/settings/people")).body.people.filter((one) => one.secondFactor);
    expect((await listed()).map(({ id }) => id)).toEqual([ben]);
    expect((await reset(owner, ben)).status).toBe(204);
    expect(await listed()).toEqual([]);
    expect((await alice.get("/me")).status).toBe(401);
    expect((await tryIn({ email: "ben@example.test" })).status).toBe(204);
    expect((await reset(owner, ben)).status).toBe(409);
  });

  test("needs the right to change the person", async () => {
    const { ann } = await twoPeople();
    await turnOn();
    const [admin, member] = [await signIn(booted, "ann@example.test"), await signIn(booted, "ben@example.test")];
    expect((await reset(admin, booted.owner.userId)).status).toBe(403);
    expect((await reset(member, ann)).status).toBe(403);
    expect((await reset(alice, booted.owner.userId)).status).toBe(403);
    expect((await reset(admin, "usr_none")).status).toBe(404);
    expect(await isOn()).toBe(true);
  });
});

test("the QR code has the URI that authenticator apps read", async () => {
  const { default: decode } = await import("qr/decode.js");
  const { body } = await alice.send<{ secret: string; qr: { size: number; path: string } }>(
    "POST",
    "/me/second-factor/new",
  );
  const { size, path } = body.qr;
  const scale = 4;
  const side = size * scale;
  const data = new Uint8Array(side * side * 4).fill(255);
  for (const [, x = "", y = "", length = ""] of path.matchAll(/M(\d+) (\d+)h(\d+)v1h-\d+z/g)) {
    for (let row = 0; row < scale; row++) {
      const from = ((Number(y) * scale + row) * side + Number(x) * scale) * 4;
      for (let pixel = 0; pixel < Number(length) * scale; pixel++) data.fill(0, from + pixel * 4, from + pixel * 4 + 3);
    }
  }
  expect(decode({ width: side, height: side, data })).toBe(
    `otpauth://totp/Mailroom:alice%40example.test?secret=${body.secret}&issuer=Mailroom`,
  );
});
