/** The administration API over HTTP: its way in, what holds for all of its operations, and its document. */
import { describe, expect, test } from "bun:test";
import * as outbound from "../../src/admin/outbound.ts";
import { describeApi } from "../../src/api/openapi.ts";
import { ADMIN_API, MAIL_API } from "../../src/api/surfaces.ts";
import { ADMIN_OPERATIONS, MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { apiKeys, idempotencyKeys } from "../../src/store/schema.ts";
import { type JsonObject, nodesOf, resolve } from "../harness/clients/schema-validator.ts";
import { startAdmin as start } from "../harness/servers/admin-world.ts";
import { until } from "../harness/until.ts";

/** Adds a suppression in a body that is whole only after `change`, which is made once the request was admitted. */
function askSlowly(
  { store, admin, origin }: Awaited<ReturnType<typeof start>>,
  given: object,
  change: () => void,
  more: Record<string, string> = {},
): Promise<Response> {
  const usedAt = () =>
    store.db
      .select()
      .from(apiKeys)
      .all()
      .map(({ lastUsedAt }) => lastUsedAt)
      .join();
  const [text, before] = [JSON.stringify(given), usedAt()];
  const body = new ReadableStream({
    async start(controller) {
      controller.enqueue(Buffer.from(text.slice(0, 5)));
      await until(() => usedAt() !== before);
      change();
      controller.enqueue(Buffer.from(text.slice(5)));
      controller.close();
    },
  });
  const headers = { authorization: `Bearer ${admin}`, "content-type": "application/json", ...more };
  return fetch(`${origin}${ADMIN_API.prefix}/suppressions`, { method: "POST", headers, body });
}

describe("access to administration", () => {
  test("takes a key with the scope admin, of an owner or admin", async () => {
    const api = await start();
    const cases: [what: string, key: string, status: number, code?: string][] = [
      ["no key", "", 401, "unauthorized"],
      ["a wrong key", `mr_${"x".repeat(43)}`, 401, "unauthorized"],
      ["an owner's key for mail", api.key, 403, "missing_scope"],
      ["an owner's key", api.admin, 200],
      ["an admin's key", api.keyFor("ada", ["admin"]), 200],
      ["a member's key", api.keyOf("max", ["admin"]), 403, "forbidden"],
    ];
    for (const [what, key, status, code] of cases) {
      const answer = await api.as(key, "GET", "/suppressions");
      expect([what, answer.status, answer.body.code]).toEqual([what, status, code]);
    }
  });

  test("does not let a key without other scopes read mail", async () => {
    const { keyFor, ask } = await start();
    const admin = keyFor("olga", ["admin"]);
    const answer = await ask("/threads", { headers: { authorization: `Bearer ${admin}` } });
    expect([answer.status, answer.body.code]).toEqual([403, "missing_scope"]);
  });

  test("ends while the key's person is a member", async () => {
    const api = await start();
    api.setRole("olga", "member");
    for (const [method, path] of [
      ["GET", "/suppressions"],
      ["DELETE", "/suppressions/sup_none"],
      ["POST", "/queue/none/retry"],
    ] as const) {
      const answer = await api.call(method, path);
      expect([path, answer.status, answer.body.code]).toEqual([path, 403, "forbidden"]);
    }
    api.setRole("olga", "admin");
    expect((await api.call("GET", "/suppressions")).status).toBe(200);
  });

  test("is refused in this order: key, scope, shape, role", async () => {
    const api = await start();
    const wrong = { address: "ben@remote.example", colour: "red" };
    expect((await api.as("", "POST", "/suppressions", wrong)).status).toBe(401);
    expect((await api.as(api.key, "POST", "/suppressions", wrong)).body.code).toBe("missing_scope");
    expect((await api.as(api.keyOf("max", ["admin"]), "POST", "/suppressions", wrong)).body.code).toBe("bad_request");
  });

  test("is checked again when the body has come", async () => {
    const changes: [what: string, change: (api: Awaited<ReturnType<typeof start>>) => void, code: string][] = [
      ["the role is gone", (api) => api.setRole("olga", "member"), "forbidden"],
      ["the key is revoked", ({ store }) => store.db.update(apiKeys).set({ revokedAt: 1 }).run(), "unauthorized"],
    ];
    for (const [what, change, code] of changes) {
      const api = await start();
      const answer = await askSlowly(api, { address: "ben@remote.example" }, () => change(api));
      expect([what, ((await answer.json()) as { code: string }).code]).toEqual([what, code]);
      expect(outbound.listSuppressions(api.core)).toEqual([]);
    }
  });

  test("is checked again before a replay", async () => {
    const api = await start();
    const given = { address: "ben@remote.example" };
    expect((await api.call("POST", "/suppressions", given, { "idempotency-key": "k" })).status).toBe(201);
    api.runtime.advanceTo(api.runtime.now() + 3_600_000);
    const again = await askSlowly(api, given, () => api.setRole("olga", "member"), { "idempotency-key": "k" });
    expect(((await again.json()) as { code: string }).code).toBe("forbidden");
  });

  test("is refused in a few words, however long a wrong field is", async () => {
    const api = await start();
    const long = "x".repeat(100_000);
    for (const [path, body] of [
      ["/mailboxes", { address: long, name: "Team" }],
      ["/domains", { name: long }],
      ["/suppressions", { address: long }],
    ] as const) {
      const answer = await api.call("POST", path, body);
      expect([path, answer.status, (answer.body.error as string).length < 300]).toEqual([path, 400, true]);
    }
  });

  test("counts against the same rates as the mail API", async () => {
    const api = await start({ "api.keyRequestsPerMinute": "2", "api.ipRequestsPerMinute": "1000" });
    const both = api.keyOf("olga", ["read", "admin"]);
    expect((await api.as(both, "GET", "/queue")).headers.get("x-ratelimit-remaining")).toBe("1");
    await api.ask("/mailboxes", { headers: { authorization: `Bearer ${both}` } });
    const refused = await api.as(both, "GET", "/queue");
    expect([refused.status, refused.body.code]).toEqual([429, "rate_limited"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("is 404 on an unknown path, with the path of the document", async () => {
    const { call } = await start();
    for (const path of ["/nothing", "/keys/key_x/nothing"]) {
      const answer = await call("GET", path);
      expect([path, answer.status, answer.body.code]).toEqual([path, 404, "not_found"]);
      expect(answer.body.error).toContain("/api/admin/v1/openapi.json");
    }
  });
});

describe("bodies", () => {
  test("with unknown fields are refused", async () => {
    const { call } = await start();
    const address = "ben@remote.example";
    for (const body of [{ address, policy: {} }, { address, paused: true }, { address, reason: 1 }, {}, [], "text"]) {
      const answer = await call("POST", "/suppressions", body);
      expect([answer.status, answer.body.code]).toEqual([400, "bad_request"]);
    }
    const retried = await call("POST", "/queue/none/retry", { policy: {} });
    expect([retried.status, retried.body.code]).toEqual([400, "bad_request"]);
  });

  test("may be left out where no field is required", async () => {
    const { call } = await start();
    for (const body of [undefined, {}]) {
      const answer = await call("POST", "/queue/none/retry", body);
      expect([answer.status, answer.body.code]).toEqual([404, "not_found"]);
    }
  });
});

describe("idempotency keys", () => {
  const ONCE = { "idempotency-key": "once" };
  const body = { address: "ben@remote.example" };

  test("let a POST be repeated, which then does nothing", async () => {
    const { call } = await start();
    const first = await call("POST", "/suppressions", body, ONCE);
    expect([first.status, first.headers.get("idempotency-replayed")]).toEqual([201, null]);
    await call("DELETE", `/suppressions/${first.body.id}`);
    const again = await call("POST", "/suppressions", body, ONCE);
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([201, "true"]);
    expect(again.body).toEqual(first.body);
    expect((await call("GET", "/suppressions")).body.suppressions).toEqual([]);
  });

  test("belong to one request", async () => {
    const { call } = await start();
    await call("POST", "/suppressions", body, ONCE);
    for (const [path, other] of [
      ["/suppressions", { address: "another@remote.example" }],
      ["/queue/none/retry", {}],
    ] as const) {
      const answer = await call("POST", path, other, ONCE);
      expect([path, answer.status, answer.body.code]).toEqual([path, 422, "idempotency_key_reused"]);
    }
  });

  test("stay unused after a refusal, also after that of a person who became a member", async () => {
    const api = await start();
    expect((await api.call("POST", "/queue/none/retry", {}, ONCE)).status).toBe(404);
    expect((await api.call("POST", "/suppressions", body, ONCE)).status).toBe(201);
    api.setRole("olga", "member");
    expect((await api.call("POST", "/suppressions", body, ONCE)).body.code).toBe("forbidden");
    expect(api.store.db.select().from(idempotencyKeys).all()).toHaveLength(1);
  });
});

describe("the document", () => {
  const document = describeApi(ADMIN_API, "https://mail.example.test") as JsonObject;

  test("is served without a key", async () => {
    const { as } = await start();
    const answer = await as("", "GET", "/openapi.json", undefined, { authorization: "" });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual(describeApi(ADMIN_API, "http://mail.example.test"));
  });

  const HOLDS: Record<string, JsonObject[]> = {
    listHolds: [{ bearer: ["admin"] }, { bearer: ["approve"] }],
    approveHold: [{ bearer: ["approve"] }],
    rejectHold: [{ bearer: ["approve"] }],
  };

  test("has every operation, each with the scope admin or approve, and says that POSTs take an idempotency key", () => {
    const { paths, servers } = document as unknown as {
      paths: Record<string, Record<string, JsonObject>>;
      servers: unknown;
    };
    expect(servers).toEqual([{ url: "https://mail.example.test/api/admin/v1" }]);
    const described = Object.values(paths).flatMap((methods) => Object.entries(methods));
    expect(described.map(([, { operationId }]) => operationId).sort()).toEqual(
      ADMIN_OPERATIONS.map(({ name }) => name).sort(),
    );
    for (const [method, { operationId, parameters = [], security, responses }] of described) {
      expect([operationId, security]).toEqual([operationId, HOLDS[String(operationId)] ?? [{ bearer: ["admin"] }]]);
      const takesKey = (parameters as JsonObject[]).some(({ name }) => name === "Idempotency-Key");
      expect([operationId, takesKey]).toEqual([operationId, method === "post"]);
      expect(Object.keys(responses as JsonObject)).toEqual(expect.arrayContaining(["401", "403", "429", "default"]));
    }
  });

  test("refers only to what it has", () => {
    for (const { $ref } of nodesOf(document))
      if (typeof $ref === "string") expect(resolve(document, $ref)).toBeDefined();
  });

  test("shares no operation's name with that of the mail API, and a schema's name only for the same schema", () => {
    const names = [...MAIL_OPERATIONS, ...ADMIN_OPERATIONS].map(({ name }) => name);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    const mail = describeApi(MAIL_API, "https://mail.example.test") as JsonObject;
    const schemasOf = (one: JsonObject) => (one.components as { schemas: JsonObject }).schemas;
    for (const [name, schema] of Object.entries(schemasOf(document))) {
      const other = schemasOf(mail)[name];
      if (other !== undefined) expect([name, schema]).toEqual([name, other]);
    }
  });
});

describe("suppressions", () => {
  const list = async (call: Awaited<ReturnType<typeof start>>["call"]) =>
    ((await call("GET", "/suppressions")).body.suppressions as { address: string }[]).map(({ address }) => address);

  test("are added, listed and removed", async () => {
    const { call } = await start();
    const added = await call("POST", "/suppressions", { address: "Ben@Remote.Example", reason: "Asked us" });
    expect(added.status).toBe(201);
    expect(added.body).toEqual({
      ...{ id: expect.stringMatching(/^sup_/), address: "ben@remote.example", reason: "Asked us" },
      createdAt: expect.stringMatching(/Z$/),
    });
    expect((await call("GET", "/suppressions")).body).toEqual({ suppressions: [added.body], nextCursor: null });
    expect((await call("POST", "/suppressions", { address: "ben@remote.example" })).body).toEqual(added.body);
    const removed = await call("DELETE", `/suppressions/${added.body.id}`);
    expect([removed.status, removed.body]).toEqual([200, { ok: true }]);
    expect((await call("DELETE", `/suppressions/${added.body.id}`)).body.code).toBe("not_found");
    expect(await list(call)).toEqual([]);
  });

  test.each([{ address: "nobody" }, { address: "ben@remote.example", reason: "two\nlines" }])(
    "%p is refused",
    async (body) => {
      const { call } = await start();
      expect((await call("POST", "/suppressions", body)).body.code).toBe("bad_request");
    },
  );

  test("come in pages, and cursors of other lists are refused", async () => {
    const { call, pagesOf, runtime } = await start();
    const addresses = Array.from({ length: 5 }, (_, index) => `person${index}@remote.example`);
    for (const [index, address] of addresses.entries()) {
      // Two at the same time.
      if (index !== 2) runtime.advanceTo(runtime.now() + 1_000);
      await call("POST", "/suppressions", { address });
    }
    const seen = (await pagesOf<{ address: string }>("/suppressions", "suppressions")).map(({ address }) => address);
    expect(seen).toEqual(addresses);
    const { body } = await call("GET", "/suppressions?limit=1");
    for (const path of [
      `/queue?cursor=${body.nextCursor}`,
      "/suppressions?cursor=none",
      "/suppressions?limit=101",
      "/suppressions?limit=0",
    ]) {
      const answer = await call("GET", path);
      expect([path, answer.status, answer.body.code]).toEqual([path, 400, "bad_request"]);
    }
  });

  test("of another workspace are not found", async () => {
    const { core, store, call, other } = await start();
    const { id } = store.transact((tx) =>
      outbound.suppress(core, tx, { workspaceId: other, address: "ben@remote.example", reason: "x" }),
    );
    expect((await call("DELETE", `/suppressions/${id}`)).body.code).toBe("not_found");
    expect(await list(call)).toEqual([]);
  });
});
