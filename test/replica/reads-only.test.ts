/** A standby serves what reads, refuses whatever would write, and writes nothing, whichever way it is asked. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { toSnakeCase } from "../../src/api/mcp/tools.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { ADMIN_OPERATIONS, APP_OPERATIONS, EXT_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { PASSWORD, type Page, page, setPassword } from "../harness/browser-session.ts";
import { bootExamples } from "../harness/examples.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { connectMcp } from "../harness/mcp-client.ts";
import { type BootedStandby, followStopped } from "../harness/standby.ts";

let standby: BootedStandby;
let key: string;
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
  standby = await followStopped(server, () => ({ lagSeconds: 1.5, epoch: 1 }));
});

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
  });

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
  });

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
  });
});

async function signInOn({ http }: BootedStandby): Promise<Page> {
  const answer = await page({ http }).send("POST", "/sign-in", { email: "alice@example.test", password: PASSWORD });
  expect(answer.status).toBe(204);
  return page({ http }, answer.headers.get("set-cookie")?.split(";")[0]);
}
