/** Idempotency keys over HTTP (rules: Idempotency): the answers, the stored keys, and no message sent twice. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Caller } from "../../src/access/caller.ts";
import { AppError, unavailable } from "../../src/base/errors.ts";
import { createIdempotency, hashRequest, readIdempotencyKey } from "../../src/operations/idempotency.ts";
import { createPerformer } from "../../src/operations/perform.ts";
import { idempotencyKeys } from "../../src/store/schema.ts";
import { startApi } from "../harness/servers/api-setup.ts";
import { fakeSending } from "../harness/servers/fake-sending.ts";

const SEND = { from: "olga@example.test", to: "zoe@remote.example", subject: "Hello", text: "Lunch?" };
const HOUR = 3_600_000;

async function start() {
  const sending = fakeSending();
  const api = await startApi({ operations: sending.operations });
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    api.ask(path, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
  return {
    ...api,
    sending,
    post,
    send: (key: string | undefined, body: object = SEND, headers: Record<string, string> = {}) =>
      post("/send", body, { ...(key !== undefined && { "idempotency-key": key }), ...headers }),
    rows: () => api.store.db.select().from(idempotencyKeys).all(),
    advance: (ms: number) => api.runtime.advanceTo(api.runtime.now() + ms),
  };
}

test("a repeated request gets the first answer and sends nothing", async () => {
  const { send, post, sending, rows } = await start();
  const first = await send("k");
  expect([first.status, first.headers.get("idempotency-replayed")]).toEqual([202, null]);
  expect(first.body).toMatchObject({ ok: true, emailId: expect.stringMatching(/^msg_/) });

  const same: [body: object, header?: string][] = [
    [SEND, "k"],
    [Object.fromEntries(Object.entries(SEND).reverse()), "k"],
    [{ ...SEND, idempotencyKey: "k" }],
    [{ ...SEND, idempotencyKey: "k" }, "k"],
    [{ ...SEND, nobodyKnows: { this: 1 } }, "k"],
  ];
  for (const [body, header] of same) {
    const again = await send(header, body);
    expect([again.status, again.text]).toEqual([202, first.text]);
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(again.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
  }
  expect(sending.accepted()).toBe(1);
  expect(sending.asked).toHaveLength(1);
  expect(rows()).toMatchObject([{ key: "k", status: 202, response: first.body }]);

  const reply = await post("/threads/thr_1/reply", { text: "Yes", idempotencyKey: "r" });
  const replayed = await post("/threads/thr_1/reply", { text: "Yes" }, { "idempotency-key": "r" });
  expect([replayed.status, replayed.text]).toEqual([202, reply.text]);
  expect(replayed.headers.get("idempotency-replayed")).toBe("true");
  expect(sending.accepted()).toBe(2);
});

test("without a key, each request sends", async () => {
  const { send, sending, rows } = await start();
  const [first, second] = [await send(undefined), await send(undefined)];
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(first.text).not.toBe(second.text);
  expect(sending.accepted()).toBe(2);
  expect(rows()).toEqual([]);
});

test("a different request with the same key is refused, and the first one still replays", async () => {
  const { send, post, sending } = await start();
  const first = await send("k");
  const others: [path: string, body: object][] = [
    ["/send", { ...SEND, text: "Lunch!" }],
    ["/send", { ...SEND, to: ["zoe@remote.example"] }],
    ["/send", { ...SEND, html: "<p>Lunch?" }],
    ["/send", { from: SEND.from, to: SEND.to, text: SEND.text }],
    ["/threads/thr_1/reply", { text: "Lunch?" }],
    ["/threads/thr_1/reply", SEND],
  ];
  for (const [path, body] of others) {
    const refused = await post(path, body, { "idempotency-key": "k" });
    expect([path, refused.status, refused.body.code]).toEqual([path, 422, "idempotency_key_reused"]);
    expect(refused.headers.get("idempotency-replayed")).toBeNull();
  }
  expect(sending.asked).toHaveLength(1);
  expect((await send("k")).text).toBe(first.text);

  await post("/threads/thr_1/reply", { text: "Yes" }, { "idempotency-key": "r" });
  const elsewhere = await post("/threads/thr_2/reply", { text: "Yes" }, { "idempotency-key": "r" });
  expect([elsewhere.status, elsewhere.body.code]).toEqual([422, "idempotency_key_reused"]);
  expect(sending.accepted()).toBe(2);
});

describe("while the first request runs", () => {
  test("the key is in progress, whatever the body, and other keys are free", async () => {
    const { send, sending, keyOf, rows } = await start();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    sending.beforeAccepting = () => {
      sending.beforeAccepting = () => {};
      begin();
      return released;
    };
    const first = send("k");
    await begun;
    for (const body of [SEND, { ...SEND, text: "Another" }]) {
      const second = await send("k", body);
      expect([second.status, second.body.code]).toEqual([409, "idempotency_in_progress"]);
      expect(second.headers.get("retry-after")).toBe("1");
    }
    expect(rows()).toEqual([]);
    expect((await send("other")).status).toBe(202);
    expect((await send("k", SEND, { authorization: `Bearer ${keyOf("olga")}` })).status).toBe(202);
    release();
    const { text, status } = await first;
    expect([status, (await send("k")).text]).toEqual([202, text]);
    expect(sending.accepted()).toBe(3);
  });

  test("many concurrent requests send one message", async () => {
    const { send, sending } = await start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => send("k")));
    const accepted = answers.filter(({ status }) => status === 202);
    expect(new Set(accepted.map(({ text }) => text)).size).toBe(1);
    expect(accepted.filter(({ headers }) => !headers.has("idempotency-replayed"))).toHaveLength(1);
    for (const { status, body } of answers) {
      expect([202, 409]).toContain(status);
      if (status === 409) expect(body.code).toBe("idempotency_in_progress");
    }
    expect(sending.accepted()).toBe(1);
  });
});

describe("a refused request frees the key", () => {
  const refusals = [
    new AppError("forbidden", "You may not"),
    new AppError("not_found", "There is none"),
    new AppError("payload_too_large", "Too large"),
    new AppError("unprocessable", "Suppressed"),
    new AppError("locked", "Paused"),
    new AppError("rate_limited", "Too many", { retryAfter: 60 }),
    new AppError("upstream_failed", "Full"),
    new AppError("insufficient_storage", "Full"),
    unavailable("Busy"),
    new TypeError("a fault of ours"),
  ];
  test.each(refusals.map((refusal) => [refusal.message, refusal] as const))("%s", async (_, refusal) => {
    const { send, sending, rows } = await start();
    sending.beforeAccepting = () => {
      throw refusal;
    };
    const refused = await send("k");
    expect(refused.status).toBe(refusal instanceof AppError ? refusal.status : 500);
    expect(rows()).toEqual([]);
    sending.beforeAccepting = () => {};
    const corrected = await send("k", { ...SEND, text: "Corrected" });
    expect([corrected.status, corrected.headers.get("idempotency-replayed")]).toEqual([202, null]);
    expect(sending.accepted()).toBe(1);
  });
});

test("the answer is stored in the accepting transaction, or not at all", async () => {
  const { send, sending, rows } = await start();
  sending.atCommit = () => {
    throw new Error("the commit fails");
  };
  expect((await send("k")).status).toBe(500);
  expect([rows(), sending.accepted()]).toEqual([[], 0]);
  sending.atCommit = () => {};
  expect((await send("k")).headers.get("idempotency-replayed")).toBeNull();
  expect([rows().length, sending.accepted()]).toEqual([1, 1]);
});

test("a transaction that runs twice stores one answer", async () => {
  const { send, sending, rows, store } = await start();
  let runs = 0;
  sending.atCommit = () => {
    runs++;
  };
  sending.beforeAccepting = () => {
    // This work shares the commit and fails, so the other is rolled back and runs again alone.
    const poison = store.enqueue(() => {
      store.beforeCommit(() => {
        throw new Error("poison");
      });
    });
    poison.catch(() => {});
  };
  const first = await send("k");
  expect([runs, sending.accepted(), rows().length]).toEqual([2, 1, 1]);
  expect((await send("k")).text).toBe(first.text);
});

test("a replay is answered before the state is checked: paused, over a limit, or deleted since", async () => {
  const { send, sending } = await start();
  const first = await send("k");
  for (const code of ["locked", "rate_limited", "not_found", "forbidden", "payload_too_large"] as const) {
    sending.beforeAccepting = () => {
      throw new AppError(code, "since then");
    };
    expect((await send("new")).body.code).toBe(code);
    expect([code, (await send("k")).text]).toEqual([code, first.text]);
  }
});

test("a replay is answered after key, scope and shape are checked", async () => {
  const { send, keyOf, sending } = await start();
  await send("k");
  expect((await send("k", SEND, { authorization: "Bearer mr_wrong" })).status).toBe(401);
  const reader = { authorization: `Bearer ${keyOf("olga", ["read", "write"])}` };
  expect((await send("k", SEND, reader)).body.code).toBe("missing_scope");
  expect((await send("k", { ...SEND, text: 1 })).body.code).toBe("bad_request");
  expect((await send("k", { ...SEND, text: "" })).body.code).toBe("bad_request");
  expect(sending.asked).toHaveLength(1);
});

test.each([
  ["revoked", "UPDATE api_keys SET revoked_at = 1"],
  ["its creator's no more", "DELETE FROM users WHERE id = 'olga'"],
])("an API key that is %s while its request runs sends nothing", async (_, meanwhile) => {
  for (const key of ["k", undefined]) {
    const { send, sending, store, rows } = await start();
    sending.beforeAccepting = () => void store.db.$client.exec(meanwhile);
    expect(await send(key)).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    expect([sending.accepted(), rows()]).toEqual([0, []]);
  }
});

test("each API key has idempotency keys of its own", async () => {
  const { send, keyOf, sending, rows } = await start();
  const second = { authorization: `Bearer ${keyOf("olga")}` };
  const answers = [await send("k"), await send("k", SEND, second), await send("k", { ...SEND, text: "x" }, second)];
  expect(answers.map(({ status }) => status)).toEqual([202, 202, 422]);
  expect(answers[0]?.text).not.toBe(answers[1]?.text);
  expect([sending.accepted(), rows().length]).toEqual([2, 2]);
});

test("a key is kept for 24 hours, or as set, and is then unused", async () => {
  const { send, advance, set, rows, sending } = await start();
  const first = await send("k");
  advance(24 * HOUR);
  expect((await send("k")).text).toBe(first.text);
  advance(1);
  const other = { ...SEND, text: "A day later" };
  const second = await send("k", other);
  expect([second.status, second.headers.get("idempotency-replayed")]).toEqual([202, null]);
  expect(rows()).toMatchObject([{ key: "k", response: second.body }]);
  expect((await send("k", other)).text).toBe(second.text);

  set("retention.idempotencyHours", "0.5");
  advance(HOUR / 2);
  expect((await send("k", other)).text).toBe(second.text);
  advance(1);
  expect((await send("k", other)).text).not.toBe(second.text);
  expect(sending.accepted()).toBe(3);
});

describe("a key may be", () => {
  const LONGEST = "x".repeat(255);

  test("1 to 255 printable ASCII characters", async () => {
    const { send, sending } = await start();
    for (const key of ["k", "0", LONGEST, `a "quoted" {key}, with \\ and ~ and !`, "a  b"]) {
      expect([key, (await send(key)).status]).toEqual([key, 202]);
      const replayed = await send(undefined, { ...SEND, idempotencyKey: key });
      expect([key, replayed.headers.get("idempotency-replayed")]).toEqual([key, "true"]);
    }
    expect((await send(undefined, { ...SEND, idempotencyKey: " " })).status).toBe(202);
    expect(sending.accepted()).toBe(6);
  });

  test("nothing else, in the header and in the body", async () => {
    const { send, post, sending } = await start();
    const SAYS = /1 to 255/;
    for (const key of ["", `${LONGEST}x`, "ключ", "k\u00e9", "a\tb"]) {
      const field = await send(undefined, { ...SEND, idempotencyKey: key });
      expect([key, field.status, field.body.code]).toEqual([key, 400, "bad_request"]);
      expect(field.body.error).toMatch(SAYS);
      if (/[\u0100-\uffff]/.test(key)) continue;
      const header = await send(key);
      expect([key, header.status, header.body.code]).toEqual([key, 400, "bad_request"]);
      expect(header.body.error).toMatch(SAYS);
    }
    for (const key of [1, null, ["k"], {}, true]) {
      const refused = await send(undefined, { ...SEND, idempotencyKey: key });
      expect([key, refused.status, refused.body.code]).toEqual([key, 400, "bad_request"]);
      expect(refused.body.error).toMatch(/^idempotencyKey must be text/);
    }
    const both = await send("one", { ...SEND, idempotencyKey: "two" });
    expect([both.status, both.body.error]).toEqual([400, expect.stringMatching(/differ/)]);
    expect((await post("/threads/x/reply", { text: "x", idempotencyKey: "" })).status).toBe(400);
    expect(sending.asked).toEqual([]);
  });

  test("made of any characters from space to tilde, and no others", () => {
    for (let code = 0; code < 0x180; code++) {
      const key = String.fromCharCode(code);
      if (code >= 0x20 && code <= 0x7e) expect(readIdempotencyKey(undefined, key)).toBe(key);
      else expect(() => readIdempotencyKey(key, undefined)).toThrow(/printable ASCII/);
    }
    expect(readIdempotencyKey(undefined, undefined)).toBeUndefined();
  });

  test("several headers, which HTTP joins into one, without the space around it", async () => {
    const { raw, key, sending, rows } = await start();
    const body = JSON.stringify(SEND);
    const ask = (...headers: string[]) =>
      raw(
        [
          "POST /api/v1/send HTTP/1.1",
          "Host: a",
          `Authorization: Bearer ${key}`,
          "Content-Type: application/json",
          `Content-Length: ${body.length}`,
          "Connection: close",
          ...headers,
          "",
          body,
        ].join("\r\n"),
      );
    expect(await ask("Idempotency-Key:   k  ")).toStartWith("HTTP/1.1 202");
    expect(await ask("idempotency-key:k")).toMatch(/idempotency-replayed: true/i);
    expect(await ask("Idempotency-Key: a", "Idempotency-Key: b")).toStartWith("HTTP/1.1 202");
    expect(rows().map(({ key: stored }) => stored)).toEqual(["a, b", "k"]);
    expect(await ask("Idempotency-Key:")).toStartWith("HTTP/1.1 400");
    expect(sending.accepted()).toBe(2);
  });
});

test("operations that are not idempotent ignore a key", async () => {
  const { ask, post, sending, rows } = await start();
  for (const idempotencyKey of ["k", "", 7]) {
    const body = { text: "Later", idempotencyKey };
    const drafted = await post("/threads/thr_1/draft", body, { "idempotency-key": `h${idempotencyKey}` });
    expect([drafted.status, drafted.headers.get("idempotency-replayed")]).toEqual([201, null]);
  }
  expect(sending.asked).toHaveLength(3);
  expect((await ask("/mailboxes", { headers: { "idempotency-key": "x".repeat(300) } })).status).toBe(200);
  expect(rows()).toEqual([]);
});

test("a stored key outlives the process, and a key in progress does not", async () => {
  const { send, core, rows } = await start();
  const first = await send("k");
  const [row] = rows();
  if (!row) throw new Error("nothing is stored");
  const { apiKeyId, fingerprint } = row;
  const restarted = () => createIdempotency(core);
  const ask = (key: string) =>
    restarted().once({ apiKeyId, key, fingerprints: [fingerprint], status: 202 }, async () => "new");
  expect(await ask("k")).toEqual({ status: 202, answer: first.body, replayed: true });
  void restarted().once(
    { apiKeyId, key: "running", fingerprints: [fingerprint], status: 202 },
    () => new Promise(() => {}),
  );
  expect(await ask("running")).toEqual({ status: 202, answer: "new", replayed: false });
});

test("a session without an API key ignores idempotency keys", async () => {
  const { core, sending, idempotency, rows } = await start();
  const perform = createPerformer(sending.send, {
    core,
    idempotency,
    reads: { note() {} },
  });
  const caller: Caller = {
    userId: "olga",
    workspaceId: "wsp_1",
    role: "owner",
    email: "olga@example.test",
    scopes: new Set(["send"]),
  };
  const ask = () => ({ params: {}, query: {}, body: { ...SEND, idempotencyKey: "k" } });
  expect(await perform(caller, ask)).toMatchObject({ status: 202, replayed: false });
  expect(await perform(caller, ask)).toMatchObject({ status: 202, replayed: false });
  expect([sending.accepted(), rows()]).toEqual([2, []]);
});

test("expired keys are deleted each hour, in portions", async () => {
  const { core, store, runtime, keyOf, rows } = await start();
  const { job } = createIdempotency(core);
  keyOf("olga");
  const [{ id: apiKeyId } = { id: "" }] = store.db.query.apiKeys.findMany().sync();
  const begun = runtime.now();
  const put = (key: string, createdAt: number) =>
    store.db
      .insert(idempotencyKeys)
      .values({ apiKeyId, key, fingerprint: "f", status: 202, response: {}, createdAt })
      .run();
  for (let i = 0; i < 700; i++) put(`old-${i}`, begun - 24 * HOUR - 1 - i);
  put("kept", begun - 24 * HOUR + 60_000);
  const soon = await job.runDue(begun);
  expect(rows()).toHaveLength(201);
  // An early run does nothing.
  expect(await job.runDue(begun)).toBe(soon);
  expect(rows()).toHaveLength(201);
  expect(soon).toBeLessThan(begun + 1_000);
  expect(await job.runDue(soon ?? 0)).toBe((soon ?? 0) + HOUR);
  expect(rows().map(({ key }) => key)).toEqual(["kept"]);
  expect(await job.runDue((soon ?? 0) + HOUR)).toBe((soon ?? 0) + 2 * HOUR);
  // After the clock was set back, it runs early.
  expect(await job.runDue(begun, true)).toBe(begun + HOUR);
  expect(rows()).toEqual([]);
});

test("keys are deleted with their API key", async () => {
  const { send, store, rows } = await start();
  await send("k");
  store.db.$client.exec("DELETE FROM users WHERE id = 'olga'");
  expect(rows()).toEqual([]);
});

describe("fingerprints", () => {
  test("do not depend on the order of names", () => {
    const shuffle = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffle);
      if (typeof value !== "object" || value === null) return value;
      const copy: Record<string, unknown> = Object.create(null);
      for (const [name, part] of Object.entries(value).reverse()) copy[name] = shuffle(part);
      return copy;
    };
    fc.assert(
      fc.property(fc.jsonValue(), (asked) => {
        expect(hashRequest("send", shuffle(asked))).toBe(hashRequest("send", asked));
      }),
    );
  });

  test("differ with every value of the request", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const same = Bun.deepEquals(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)), true);
        expect(hashRequest("send", one) === hashRequest("send", other)).toBe(same);
        expect(hashRequest("reply", one)).not.toBe(hashRequest("send", one));
      }),
    );
  });
});
