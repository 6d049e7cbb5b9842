/** Webhook endpoints and their deliveries over the administration API. Deliveries themselves are test/events'. */
import { describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import { AppError } from "../../src/base/errors.ts";
import { idempotencyKeys, webhookEndpoints } from "../../src/store/schema.ts";
import { startAdmin } from "../harness/servers/admin-world.ts";

const HOOK = { url: "https://hooks.remote.example/mail", events: ["message.inbound", "message.bounced"] };

test("an endpoint is added, read, changed and removed", async () => {
  const { call } = await startAdmin();
  const added = await call("POST", "/webhooks", { ...HOOK, description: "Invoices" });
  expect(added.status).toBe(201);
  const { secret, ...shown } = added.body as { secret: string; id: string };
  expect(secret).toMatch(/^whsec_/);
  expect(shown).toEqual({
    ...{ id: expect.stringMatching(/^whk_/), ...HOOK, description: "Invoices", enabled: true, disabledAt: null },
    ...{ exhausted: 0, createdAt: expect.stringMatching(/Z$/) },
  });
  expect((await call("GET", `/webhooks/${shown.id}`)).body).toEqual(shown);
  expect((await call("GET", "/webhooks")).body).toEqual({ webhooks: [shown], nextCursor: null });

  const off = await call("PATCH", `/webhooks/${shown.id}`, { enabled: false, events: ["message.bounced"] });
  expect([off.status, off.body]).toEqual([
    200,
    { ...shown, events: ["message.bounced"], enabled: false, disabledAt: expect.stringMatching(/Z$/) },
  ]);
  const on = await call("PATCH", `/webhooks/${shown.id}`, { enabled: true, url: "https://other.remote.example/" });
  expect(on.body).toMatchObject({ enabled: true, disabledAt: null, url: "https://other.remote.example/" });

  expect((await call("DELETE", `/webhooks/${shown.id}`)).body).toEqual({ ok: true });
  expect((await call("GET", `/webhooks/${shown.id}`)).body.code).toBe("not_found");
  expect((await call("GET", "/webhooks")).body.webhooks).toEqual([]);
});

test.each([
  ["a private address", { ...HOOK, url: "http://127.0.0.1:9/" }, 422, "unprocessable"],
  ["no URL", { ...HOOK, url: "nonsense" }, 422, "unprocessable"],
  ["no events", { ...HOOK, events: [] }, 400, "bad_request"],
  ["an event that there is not", { ...HOOK, events: ["message.read"] }, 400, "bad_request"],
  ["a field that there is not", { ...HOOK, policy: {} }, 400, "bad_request"],
  ["a description of two lines", { ...HOOK, description: "a\nb" }, 400, "bad_request"],
])("%s is refused", async (_, body, status, code) => {
  const { call } = await startAdmin();
  const answer = await call("POST", "/webhooks", body);
  expect([answer.status, answer.body.code]).toEqual([status, code]);
});

test("a refusal of a private address names it, and the setting that may except it", async () => {
  const { call } = await startAdmin();
  const refusal = async (url: string) => (await call("POST", "/webhooks", { ...HOOK, url })).body.error;
  for (const host of ["127.0.0.1", "10.0.0.1", "localhost"]) {
    expect(await refusal(`http://${host}:9000/`)).toMatch(
      new RegExp(`^${host} is .*\\(webhooks\\.allowNetworks lists exceptions\\)$`),
    );
  }
  // Nothing excepts these.
  for (const url of ["http://169.254.169.254/", "ftp://127.0.0.1/"]) {
    expect(await refusal(url)).not.toContain("allowNetworks");
  }
});

test("PATCH takes the documented fields, at least one of them", async () => {
  const { call } = await startAdmin();
  const { id } = (await call("POST", "/webhooks", HOOK)).body;
  for (const body of [{}, { description: "x" }, { disabled: true }, { enabled: "no" }, { events: [] }]) {
    expect([body, (await call("PATCH", `/webhooks/${id}`, body)).body.code]).toEqual([body, "bad_request"]);
  }
  expect((await call("PATCH", `/webhooks/${id}`, { url: "http://10.0.0.1/" })).body.code).toBe("unprocessable");
});

describe("the secret", () => {
  test("is shown when it is made, and not in a replay, a list or a row", async () => {
    const { call, store, lines } = await startAdmin();
    const once = { "idempotency-key": "w" };
    const added = await call("POST", "/webhooks", HOOK, once);
    const { secret, ...rest } = added.body as { secret: string; id: string };
    expect((await call("POST", "/webhooks", HOOK, once)).body).toEqual(rest);
    const rotated = await call("POST", `/webhooks/${rest.id}/secret`, {}, { "idempotency-key": "s" });
    expect(rotated.status).toBe(200);
    expect(rotated.body).toEqual({
      ...{ id: rest.id, secret: expect.stringMatching(/^whsec_/), previousUntil: expect.stringMatching(/Z$/) },
    });
    const again = await call("POST", `/webhooks/${rest.id}/secret`, {}, { "idempotency-key": "s" });
    expect([again.headers.get("idempotency-replayed"), Object.keys(again.body)]).toEqual([
      "true",
      ["id", "previousUntil"],
    ]);
    const kept = JSON.stringify([store.db.select().from(idempotencyKeys).all(), lines]);
    const read = (await call("GET", "/webhooks")).text + (await call("GET", `/webhooks/${rest.id}`)).text;
    for (const one of [secret, String(rotated.body.secret)]) {
      expect(kept).not.toContain(one);
      expect(read).not.toContain(one);
    }
  });

  test("is rotated at once without an overlap, and not a second time during an overlap", async () => {
    const { call, store } = await startAdmin();
    const { id, secret } = (await call("POST", "/webhooks", HOOK)).body;
    const rotate = (body?: object) => call("POST", `/webhooks/${id}/secret`, body);
    expect((await rotate({ overlapHours: 1 })).status).toBe(200);
    expect((await rotate()).body.code).toBe("conflict");
    const now = await rotate({ overlapHours: 0 });
    expect(now.body.previousUntil).toBeNull();
    const [row] = store.db.select().from(webhookEndpoints).all();
    expect([row?.secret, row?.previousSecret]).toEqual([now.body.secret as string, null]);
    expect(row?.secret).not.toBe(secret as string);
    for (const overlapHours of [-1, 721, "1"]) {
      expect((await rotate({ overlapHours })).body.code).toBe("bad_request");
    }
  });
});

test("a test sends a sample, which the log lists", async () => {
  const { call } = await startAdmin();
  const { id } = (await call("POST", "/webhooks", HOOK)).body;
  const sent = await call("POST", `/webhooks/${id}/test`);
  expect([sent.status, sent.body]).toEqual([
    202,
    { id: expect.any(String), event: "message.inbound", eventId: expect.stringMatching(/^evt_/), state: "pending" },
  ]);
  expect((await call("POST", `/webhooks/${id}/test`, { event: "message.complaint" })).body.event).toBe(
    "message.complaint",
  );
  expect((await call("POST", `/webhooks/${id}/test`, { event: "none" })).body.code).toBe("bad_request");
  const { deliveries } = (await call("GET", `/webhooks/${id}/deliveries`)).body as { deliveries: { id: string }[] };
  expect(deliveries[1]).toMatchObject({
    ...{ id: sent.body.id, event: "message.inbound", eventId: sent.body.eventId, test: true, state: "pending" },
    ...{ attempts: 0, attempting: false, status: null, response: null, error: null, finishedAt: null },
  });
});

/** An endpoint of Olga's with tests that failed, one a second. */
async function withFailures(count: number) {
  const api = await startAdmin();
  const { call, runtime, store } = api;
  const { id } = (await call("POST", "/webhooks", HOOK)).body as { id: string };
  const made: string[] = [];
  for (let index = 0; index < count; index += 1) {
    runtime.advanceTo(runtime.now() + 1_000);
    made.push((await call("POST", `/webhooks/${id}/test`)).body.id as string);
    store.db.$client.exec(
      `UPDATE webhook_deliveries SET state = 'failed', attempts = 7, due_at = NULL, finished_at = ${runtime.now()} WHERE state = 'pending'`,
    );
  }
  return { ...api, id, made, ids: (items: { id: string }[]) => items.map((item) => item.id) };
}

test("the log comes in pages, newest first, by state", async () => {
  const { call, id, made, ids, pagesOf } = await withFailures(5);
  expect(ids(await pagesOf(`/webhooks/${id}/deliveries`, "deliveries"))).toEqual(made.toReversed());
  const { body } = await call("GET", `/webhooks/${id}/deliveries?state=failed&limit=2`);
  expect(ids(body.deliveries as { id: string }[])).toEqual(made.toReversed().slice(0, 2));
  expect((await call("GET", `/webhooks/${id}/deliveries?state=delivered`)).body).toEqual({
    deliveries: [],
    nextCursor: null,
  });
  for (const query of [`cursor=${body.nextCursor}`, "state=lost", "limit=0"]) {
    const answer = await call("GET", `/webhooks/${id}/deliveries?${query}`);
    expect([query, answer.status]).toEqual([query, 400]);
  }
  expect((await call("GET", `/webhooks/${id}/deliveries?state=failed&cursor=${body.nextCursor}`)).status).toBe(200);
});

test("a delivery is sent again only under its own endpoint", async () => {
  const { call, id, made, runtime } = await withFailures(1);
  const again = await call("POST", `/webhooks/${id}/deliveries/${made[0]}/resend`, {}, { "idempotency-key": "r" });
  expect([again.status, again.body]).toMatchObject([202, { id: made[0], state: "failed" }]);
  expect(again.body.nextAttemptAt).toBe(new Date(runtime.now()).toISOString());
  const other = (await call("POST", "/webhooks", HOOK)).body.id;
  for (const path of [`/webhooks/${other}/deliveries/${made[0]}`, `/webhooks/${id}/deliveries/none`]) {
    expect((await call("POST", `${path}/resend`)).body.code).toBe("not_found");
  }
});

test("recovering sends each delivery that failed since a time again, once", async () => {
  const { call, id, made, runtime, store } = await withFailures(4);
  const since = new Date(runtime.now() - 1_500).toISOString();
  const recover = (body: object, key: string) =>
    call("POST", `/webhooks/${id}/recover`, body, { "idempotency-key": key });
  const first = await recover({ since }, "a");
  expect([first.status, first.body]).toEqual([202, { resent: 2 }]);
  const due = store.db.$client.query("SELECT count(*) AS due FROM webhook_deliveries WHERE due_at IS NOT NULL").get();
  expect(due).toEqual({ due: 2 });
  expect((await recover({ since }, "a")).headers.get("idempotency-replayed")).toBe("true");
  expect((await recover({ since }, "b")).body).toEqual({ resent: 0 });
  expect(made).toHaveLength(4);
  for (const body of [
    {},
    { since: "yesterday" },
    { since: 1 },
    { since: "2026-13-01T00:00:00Z" },
    { since, all: true },
  ]) {
    expect([body, (await recover(body, "c")).body.code]).toEqual([body, "bad_request"]);
  }
});

test("recovering ends when its caller is no longer an admin", async () => {
  const { id, core, call } = await withFailures(1);
  const refused = developers.recoverWebhook(core, id, 0, () => {
    throw new AppError("forbidden", "no more");
  });
  expect(await refused.catch(({ code }) => code)).toBe("forbidden");
  const since = "2020-01-01T00:00:00Z";
  expect((await call("POST", `/webhooks/${id}/recover`, { since })).body).toEqual({ resent: 1 });
});

test("recovering skips a delivery that is deleted meanwhile", async () => {
  const { core, id, made, store } = await withFailures(3);
  const recovered = developers.recoverWebhook(core, id, 0);
  store.db.$client.query("DELETE FROM webhook_deliveries WHERE id = ?").run(made[1] ?? "");
  expect(await recovered).toBe(2);
});

test("endpoints of another workspace are not found", async () => {
  const { call, store, core, other } = await startAdmin();
  const endpoint = store.transact((tx) => developers.addWebhook(core, tx, { ...HOOK, workspaceId: other }));
  const path = `/webhooks/${endpoint.id}`;
  for (const [method, at, body] of [
    ["GET", path],
    ["PATCH", path, { enabled: false }],
    ["DELETE", path],
    ["POST", `${path}/test`],
    ["POST", `${path}/secret`],
    ["GET", `${path}/deliveries`],
    ["POST", `${path}/deliveries/whd_x/resend`],
    ["POST", `${path}/recover`, { since: "2026-01-01T00:00:00Z" }],
  ] as const) {
    const answer = await call(method, at, body);
    expect([method, at, answer.status, answer.body.code]).toEqual([method, at, 404, "not_found"]);
  }
  expect((await call("GET", "/webhooks")).body.webhooks).toEqual([]);
});
