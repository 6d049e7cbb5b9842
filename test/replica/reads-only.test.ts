/** A standby serves what reads, refuses whatever would write, and writes nothing, whichever way it is asked. */
import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openSecretSeal } from "../../src/access/seal.ts";
import { createSecondFactors, generateTotpSecret } from "../../src/access/second-factor.ts";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as people from "../../src/admin/people.ts";
import { toSnakeCase } from "../../src/api/mcp/tools.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { createLog } from "../../src/base/log.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, EXT_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { PASSWORD, type Page, page, setPassword } from "../harness/clients/browser-session.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { bootExamples } from "../harness/servers/examples.ts";
import { type BootedStandby, followStopped } from "../harness/servers/standby.ts";
import { until } from "../harness/until.ts";

let standby: BootedStandby;
let key: string;
/** Sign-in name of Ben, who has a second factor. */
const BEN = "ben2@example.test";
let secret: string;
let recoveryCode: string;
/** Paths of all operations of the APIs, with what the server had made for their parameters. */
const requests: { name: string; method: string; path: string }[] = [];
const params = new Map<string, Record<string, string>>();

const SURFACES = [MAIL_API, EXT_API, ADMIN_API];
const templateOf = (path: string): string => path.replaceAll(/:(\w+)/g, "{$1}");
const fill = (path: string, given: Record<string, string>): string =>
  path.replaceAll(/[:{](\w+)\}?/g, (_, name: string) => encodeURIComponent(given[name] ?? "x"));

const data = temporaryFolder();
/** Everything in the data folder but the spool, which is empty after each request, and locks. */
function contents(): string {
  const hash = createHash("sha256");
  for (const path of readdirSync(data, { recursive: true, encoding: "utf8" }).sort()) {
    if (/^spool|\.lock/.test(path)) continue;
    hash.update(path);
    try {
      hash.update(readFileSync(join(data, path)));
    } catch {
      // A folder.
    }
  }
  return hash.digest("hex");
}

beforeAll(async () => {
  const server = await bootExamples({ MAILROOM_DATA: data }, { file: join(data, "mailroom.db") });
  key = server.key;
  for (const surface of SURFACES) {
    for (const { name, method, path, example } of surface.operations) {
      const given = await server.paramsFor(surface, templateOf(path));
      params.set(name, given);
      const query = new URLSearchParams(example?.query as Record<string, string> | undefined);
      requests.push({ name, method, path: `${surface.prefix}${fill(path, given)}?${query}` });
    }
  }
  await setPassword(server, server.owner.userId);
  const { core } = server.opened;
  const { store } = core;
  const { userId } = store.transact((tx) =>
    people.addUser(core, tx, {
      workspaceId: server.owner.workspaceId,
      email: BEN,
      name: "Ben",
      role: "member",
      ownMailbox: true,
    }),
  );
  await setPassword(server, userId);
  const factors = createSecondFactors(
    openSecretSeal(
      join(data, "keys", "second-factor.key"),
      server.runtime,
      createLog("silent", server.runtime.now, () => {}),
    ),
    server.runtime,
  );
  secret = generateTotpSecret(server.runtime);
  const first = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(server.runtime.now()));
  [recoveryCode = ""] = store.transact((tx) => factors.enrol(tx, userId, { secret, code: first }));
  standby = await followStopped(server, () => ({
    ...{ lagSeconds: 1.5, epoch: 1 },
    server: { url: "https://mail.example.test", epoch: 1, released: false, heardSecondsAgo: 3 },
  }));
}, 60_000);

const isFine = (status: number): boolean => status < 400 || status === 400 || status === 404;

describe("a standby", () => {
  test("answers every read of the APIs, refuses every write with where the server is, and writes nothing", async () => {
    const before = contents();
    const api = standby.apiWith(key);
    for (const { name, method, path } of requests) {
      const answer = await fetch(standby.http + path, {
        method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": name },
        ...(method === "GET" || method === "DELETE" ? {} : { body: "{}" }),
      });
      const text = await answer.text();
      if (method === "GET") {
        expect([name, answer.status < 400 || [answer.status, text]]).toEqual([name, true]);
        continue;
      }
      expect([name, answer.status, answer.headers.get("retry-after")]).toEqual([name, 503, "30"]);
      expect(JSON.parse(text)).toEqual({
        error: "This is a standby: the server is https://mail.example.test",
        code: "server_error",
      });
    }
    expect(requests.length).toBe(MAIL_OPERATIONS.length + EXT_OPERATIONS.length + ADMIN_OPERATIONS.length);
    expect((await api.get("/threads")).status).toBe(200);
    expect(contents()).toBe(before);
  }, 60_000);

  test("does the same for the app, in which one signs in", async () => {
    const before = contents();
    const signedIn: Page = await signInOn(standby);
    const refused: string[] = [];
    const allowed: string[] = [];
    for (const { name, audience, method, path } of [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS, ...APP_OPERATIONS]) {
      if (["signIn", "signOut", "endSession", "endOtherSessions"].includes(name)) continue;
      const administers = audience === "admin" || audience === "operator";
      const filled = `${administers ? "/settings" : ""}${fill(path, params.get(name) ?? {})}`;
      const { status } = await signedIn.fetch(filled, {
        method,
        headers: { "content-type": "application/json" },
        ...(method === "GET" || method === "DELETE" ? {} : { body: "{}" }),
      });
      if (method === "GET") expect([name, isFine(status) || status]).toEqual([name, true]);
      else (status === 503 ? refused : allowed).push(name);
    }
    expect(allowed.sort()).toEqual(["confirmIdentity", "examineServer"]);
    expect(refused.length).toBeGreaterThan(60);
    expect(contents()).toBe(before);
  }, 60_000);

  test("does the same for agents", async () => {
    const before = contents();
    const client = await connectMcp(standby.http, key);
    const outcomes: string[] = [];
    for (const { name, method, example, tool } of [...MAIL_OPERATIONS, ...EXT_OPERATIONS]) {
      if (!tool) continue;
      const args = { ...params.get(name), ...example?.query, ...(method === "GET" ? {} : (example?.body as object)) };
      const { isError, text } = await client.call(toSnakeCase(name), args);
      if (method === "GET") expect([name, isError, text.includes("Something failed")]).toEqual([name, false, false]);
      else expect([name, isError, text]).toEqual([name, true, expect.stringContaining("https://mail.example.test")]);
      outcomes.push(method === "GET" ? "read" : "refused");
    }
    expect(new Set(outcomes)).toEqual(new Set(["read", "refused"]));
    await client.close();
    expect(contents()).toBe(before);
  }, 60_000);
});

test("a standby says what it is on its pages for machines", async () => {
  const health = (await (await fetch(`${standby.http}/healthz`)).json()) as Record<string, unknown>;
  expect(health).toMatchObject({
    status: "ok",
    checks: { replica: "ok", store: "ok" },
    standby: { epoch: 1, lagSeconds: 1.5, serverHeardSecondsAgo: 3 },
  });
  const metrics = await (await fetch(`${standby.http}/metrics`)).text();
  expect(metrics).toContain("mailroom_standby_lag_seconds 1.5");
  expect(metrics).toContain("mailroom_standby_readable 1");
  expect((await page({ http: standby.http }).get("/standby")).body).toEqual({
    standby: { behindSeconds: 1.5, heardSeconds: 3, url: "https://mail.example.test" },
  });
});

describe("a session on a standby", () => {
  test("ends when the password changes on the server", async () => {
    const signedIn = await signInOn(standby);
    expect((await signedIn.get("/me")).status).toBe(200);
    changeOnServer("UPDATE users SET password_hash = 'other' WHERE email = 'ada@example.com'");
    standby.store.look();
    expect((await signedIn.get("/me")).status).toBe(200);
    changeOnServer("UPDATE users SET password_hash = password_hash || ' ' WHERE email = 'alice@example.test'");
    standby.store.look();
    expect((await signedIn.get("/me")).status).toBe(401);
    changeOnServer("UPDATE users SET password_hash = trim(password_hash) WHERE email = 'alice@example.test'");
  });

  test("ends when its person is locked on the server, and no other begins until they are unlocked", async () => {
    const signedIn = await signInOn(standby);
    changeOnServer("UPDATE users SET locked_at = 1 WHERE email = 'alice@example.test'");
    standby.store.look();
    expect((await signedIn.get("/me")).status).toBe(401);
    const { http } = standby;
    const ask = page({ http }).send("POST", "/sign-in", { email: "alice@example.test", password: PASSWORD });
    expect(await statusSlowed(ask.then(({ status }) => status))).toBe(401);
    changeOnServer("UPDATE users SET locked_at = NULL WHERE email = 'alice@example.test'");
    standby.store.look();
    expect((await (await signInOn(standby)).get("/me")).status).toBe(200);
  });

  test("begins with a code of the second factor, which counts once, here or on the server", async () => {
    const http = standby.http;
    const ask = async (code: string) =>
      (await page({ http }).send("POST", "/sign-in", { email: BEN, password: PASSWORD, code })).status;
    const { runtime } = standby;
    const step = () => totpStepAt(runtime.now());
    const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, step());
    runtime.setBy(300_000);
    expect(await ask(code())).toBe(204);
    expect(await statusSlowed(ask(code()))).toBe(401);
    runtime.setBy(60_000);
    changeOnServer(`UPDATE second_factors SET last_step = ${step()}`);
    expect(await statusSlowed(ask(code()))).toBe(401);
    // A recovery code would be used up, which a standby cannot keep.
    expect(await ask(recoveryCode)).toBe(503);
  });
});

/** A failed sign-in is answered late, by the runtime's clock. */
async function statusSlowed(asked: Promise<number>): Promise<number> {
  let status: number | undefined;
  void asked.then((answered) => {
    status = answered;
  });
  await until(() => {
    if (status === undefined) standby.runtime.advanceTo(standby.runtime.now() + 1_000);
    return status !== undefined;
  });
  return status as unknown as number;
}

/** Changes the database as Litestream does when the server has committed. */
function changeOnServer(sql: string): void {
  const writer = new Database(standby.file);
  writer.run(sql);
  writer.close();
}

async function signInOn({ http }: BootedStandby): Promise<Page> {
  const answer = await page({ http }).send("POST", "/sign-in", { email: "alice@example.test", password: PASSWORD });
  expect(answer.status).toBe(204);
  return page({ http }, answer.headers.get("set-cookie")?.split(";")[0]);
}
