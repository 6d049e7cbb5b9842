/** Refusals of the gate and of the shape of a request: status, code, headers and message. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { outOfReachError } from "../../src/access/caller.ts";
import { readJson } from "../../src/api/request.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { AppError, type ErrorCode, unavailable } from "../../src/base/errors.ts";
import { grants, users } from "../../src/store/schema.ts";
import { type Answer, startApi, type TestApi } from "../harness/servers/api-setup.ts";

/** Checks the headers that every response of the API has. */
function expectHeaders({ headers }: Answer): void {
  expect(headers.get("x-ratelimit-limit")).toMatch(/^\d+$/);
  expect(headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
  expect(headers.get("cache-control")).toBe("private, no-store");
  expect(headers.get("x-content-type-options")).toBe("nosniff");
}

function expectRefusal(answer: Answer, status: number, code: ErrorCode, says?: RegExp): void {
  expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(`"code":"${code}"`)]);
  expect(Object.keys(answer.body).sort()).toEqual(["code", "error"]);
  expect(answer.headers.get("content-type")).toStartWith("application/json");
  expect(answer.body.error).not.toMatch(/\/src\/|node_modules|\.ts\b|\n/);
  if (says) expect(answer.body.error).toMatch(says);
  expectHeaders(answer);
}

describe("unauthorized:", () => {
  const path = "/mailboxes";

  test("a source that keeps guessing keys waits for the response, and a valid key does not wait", async () => {
    const { ask, runtime } = await startApi();
    const guess = (n: number) => ask(path, { headers: { authorization: `Bearer mr_${"x".repeat(40)}${n}` } });
    for (let n = 0; n < 20; n++) expectRefusal(await guess(n), 401, "unauthorized");
    let answered = false;
    const late = guess(20).finally(() => {
      answered = true;
    });
    while (runtime.nextTimer() === undefined) expect((await ask(path)).status).toBe(200);
    expect(answered).toBe(false);
    runtime.advanceTo(runtime.now() + 100);
    expectRefusal(await late, 401, "unauthorized");
  });

  test("a request without a valid key is refused, whatever its path", async () => {
    const { ask, key } = await startApi();
    const wrong = [
      "",
      "Bearer",
      "Bearer ",
      `Basic ${key}`,
      key,
      `Bearer ${key}x`,
      `Bearer ${key} x`,
      "Bearer mr_nobody",
      `Bearer "${key}"`,
    ];
    for (const authorization of [
      ...wrong,
      `Token ${key}`,
      `Bearer${key}`,
      "Bearer a,b",
      `Bearer ${key.toUpperCase()}`,
    ]) {
      const answer = await ask(path, { headers: { authorization } });
      expectRefusal(answer, 401, "unauthorized");
      expect(answer.headers.get("www-authenticate")).toStartWith("Bearer");
      expect(answer.headers.get("x-ratelimit-limit")).toBe("1000000");
    }
    for (const path of ["/nowhere", "/threads/x/y/z", "/api/", "/api/v2/mailboxes"]) {
      expectRefusal(await ask(path, { headers: { authorization: "" } }), 401, "unauthorized");
    }
    for (const method of ["POST", "DELETE", "OPTIONS", "PUT"]) {
      expectRefusal(await ask(path, { method, headers: { authorization: "" } }), 401, "unauthorized");
    }
  });

  test("the scheme may be in any case, with space around it", async () => {
    const { ask, key } = await startApi();
    for (const authorization of [`bearer ${key}`, `BEARER   ${key}`, `Bearer\t${key}  `]) {
      expect((await ask(path, { headers: { authorization } })).status).toBe(200);
    }
  });

  test("a request with several Authorization headers is refused", async () => {
    const { raw, key } = await startApi();
    const answer = await raw(
      `GET /api/v1/mailboxes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toStartWith("HTTP/1.1 401");
  });

  test("the key of a person who left is refused at once", async () => {
    const { ask, keyOf, store } = await startApi();
    const authorization = `Bearer ${keyOf("max")}`;
    expect((await ask(path, { headers: { authorization } })).status).toBe(200);
    store.db.delete(users).where(eq(users.id, "max")).run();
    expectRefusal(await ask(path, { headers: { authorization } }), 401, "unauthorized");
  });
});

test("missing_scope names the scope, and is checked before the shape and the existence", async () => {
  const { ask, keyOf } = await startApi();
  const reader = { authorization: `Bearer ${keyOf("olga", ["read"])}` };
  const writer = { authorization: `Bearer ${keyOf("olga", ["write", "send"])}` };
  const notWriter = { authorization: `Bearer ${keyOf("olga", ["read", "send"])}` };
  const notSender = { authorization: `Bearer ${keyOf("olga", ["read", "write"])}` };
  expectRefusal(
    await ask("/threads/x", { method: "PATCH", headers: reader, body: "not json" }),
    403,
    "missing_scope",
    /"write"/,
  );
  for (const [path, headers, says] of [
    ["/send", notSender, /"send"/],
    ["/threads/x/reply", notSender, /"send"/],
    ["/threads/x/draft", notWriter, /"write"/],
  ] as const) {
    expectRefusal(await ask(path, { method: "POST", headers, body: "not json" }), 403, "missing_scope", says);
  }
  for (const path of [
    "/mailboxes",
    "/threads?limit=0",
    "/threads/x",
    "/messages",
    "/messages/x",
    "/messages/x/raw",
    "/attachments/x",
    "/search",
  ]) {
    expectRefusal(await ask(path, { headers: writer }), 403, "missing_scope", /"read"/);
  }
  expectRefusal(await ask("/threads/x", { method: "PATCH", headers: writer, body: { read: true } }), 404, "not_found");
});

test("with a key, an unknown path is not_found, whatever the method", async () => {
  const { ask } = await startApi();
  for (const path of [
    "/",
    "/nowhere",
    "/Mailboxes",
    "/mailboxes/",
    "/threads/x/",
    "/api/",
    "/api/v2/mailboxes",
    "/api/v1",
  ]) {
    expectRefusal(await ask(path), 404, "not_found");
    expectRefusal(await ask(path, { method: "DELETE" }), 404, "not_found");
  }
});

test("a known path with another method is 405, and Allow names those it has", async () => {
  const { ask } = await startApi();
  for (const [method, path, allow] of [
    ["POST", "/mailboxes", "GET, HEAD"],
    ["DELETE", "/threads/x", "GET, HEAD, PATCH"],
    ["PUT", "/threads/x", "GET, HEAD, PATCH"],
    ["PATCH", "/messages/x", "GET, HEAD"],
    ["GET", "/send", "POST"],
    ["PUT", "/send", "POST"],
    ["GET", "/threads/x/draft", "POST"],
    ["GET", "/threads/x/reply", "POST"],
    ["POST", "/threads/x", "GET, HEAD, PATCH"],
    ["POST", "/threads/%ZZ", "GET, HEAD, PATCH"],
    ["OPTIONS", "/threads", "GET, HEAD"],
    ["POST", "/openapi.json", "GET, HEAD"],
    ["PROPFIND", "/threads", "GET, HEAD"],
  ] as const) {
    const refusal = await ask(path, { method });
    expectRefusal(refusal, 405, "bad_request");
    expect([path, refusal.headers.get("allow")]).toEqual([path, allow]);
    expectRefusal(await ask(path, { method, headers: { authorization: "" } }), 401, "unauthorized");
  }
});

test("every path of every API names its methods", async () => {
  const { ask } = await startApi();
  for (const { prefix, operations } of [MAIL_API, EXT_API, ADMIN_API]) {
    for (const [path, those] of Map.groupBy(operations, (operation) => operation.path.replace(/:\w+/g, "x"))) {
      const methods = new Set(those.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method])));
      const refusal = await ask(prefix + path, { method: "PURGE" });
      expect([path, refusal.status, refusal.headers.get("allow")?.split(", ").sort()]).toEqual([
        path,
        405,
        expect.arrayContaining([...methods].sort()),
      ]);
    }
  }
});

test("invalid ids are not_found", async () => {
  const { ask } = await startApi();
  const ids = [
    "x",
    "%ZZ",
    "%",
    "%00",
    "%ff",
    "a%2Fb",
    "..%2f..%2fetc%2fpasswd",
    "%F0%9F%92%8C",
    "'%20OR%201=1",
    "x".repeat(4000),
  ];
  for (const id of ids) {
    for (const path of [`/threads/${id}`, `/messages/${id}`, `/messages/${id}/raw`, `/attachments/${id}`]) {
      expectRefusal(await ask(path), 404, "not_found");
    }
    expectRefusal(await ask(`/threads/${id}`, { method: "PATCH", body: { read: true } }), 404, "not_found");
  }
});

describe("bad_request for parameters:", () => {
  const LIMIT = /^limit must be a whole number from 1 to 100$/;
  const table: [path: string, says: RegExp][] = [
    ...["/threads?", "/messages?", "/search?q=x&"].flatMap((path): [string, RegExp][] => [
      ...[
        "0",
        "101",
        "-1",
        "1.5",
        "1e1",
        "0x10",
        "",
        "%2010",
        "10%20",
        "ten",
        "null",
        "NaN",
        "99999999999999999999",
        "١",
      ].map((value): [string, RegExp] => [`${path}limit=${value}`, LIMIT]),
      [`${path}limit=1&limit=2`, /^limit is given 2 times: give it once$/],
      [`${path}folder=Inbox`, /^folder must be one of inbox, sent, drafts, archive, spam, trash/],
      [`${path}folder=`, /^folder must be one of/],
    ]),
    ...["/threads?", "/threads?q=x&", "/search?q=x&"].flatMap((path) =>
      ["", "Relevance", "best", "date"].map((value): [string, RegExp] => [
        `${path}sort=${value}`,
        /^sort must be one of newest, relevance$/,
      ]),
    ),
    ["/messages?folder=all", /^folder must be one of inbox, sent, drafts, archive, spam, trash$/],
    ["/messages?direction=in", /^direction must be one of inbound, outbound$/],
    ["/threads?unread=1", /^unread must be true or false$/],
    ["/threads?unread=TRUE", /^unread must be true or false$/],
    ["/threads?unread=", /^unread must be true or false$/],
    ["/threads?hasAttachments=yes", /^hasAttachments must be true or false$/],
    [`/threads?q=${"x".repeat(501)}`, /^q must be text of at most 500 characters$/],
    [`/search?q=${"x".repeat(501)}`, /^q must be text of at most 500 characters$/],
    [`/search?q=${"%F0%9F%92%8C".repeat(501)}`, /^q must be text of at most 500 characters$/],
    ["/search", /^q is required$/],
    ["/search?Q=x", /^q is required$/],
    ["/search?q=a&q=b", /^q is given 2 times/],
    ["/threads/x?html=no", /^html must be true or false$/],
    ["/messages/x?html=0", /^html must be true or false$/],
    ["/threads?cursor=nonsense", /cursor/],
    ["/search?q=x&cursor=nonsense", /cursor/],
  ];
  test("the message names the parameter and the values that it takes", async () => {
    const { ask } = await startApi();
    for (const [path, says] of table) expectRefusal(await ask(path), 400, "bad_request", says);
  });

  test("values at their limits and unknown parameters are accepted", async () => {
    const { ask } = await startApi();
    for (const path of [
      "/threads?limit=1",
      "/threads?limit=100",
      "/threads?limit=007",
      "/messages?limit=100&direction=outbound&folder=sent",
      `/threads?q=${"x".repeat(500)}`,
      `/search?q=${"%F0%9F%92%8C".repeat(500)}`,
      "/search?q=",
      "/search?q=%ZZ%00%ff",
      "/threads?unread=false&hasAttachments=true&label=&folder=snoozed",
      "/threads?nonsense=1&nonsense=2&Limit=0&__proto__=x",
      "/threads?&&=&",
      "/mailboxes?limit=0",
    ]) {
      const answer = await ask(path);
      expect([path.slice(0, 60), answer.status, answer.body.code]).toEqual([path.slice(0, 60), 200, undefined]);
      expectHeaders(answer);
    }
  });
});

describe("bad_request for bodies:", () => {
  const json = "application/json";
  const patch = (api: TestApi, body: unknown, headers: Record<string, string> = { "content-type": json }) =>
    api.ask("/threads/x", { method: "PATCH", body, headers });

  test("a body that cannot be read is refused", async () => {
    const api = await startApi();
    const table: [body: string | Uint8Array | undefined, headers: Record<string, string>, says: RegExp][] = [
      ["", { "content-type": json }, /empty/],
      [" \r\n", { "content-type": json }, /empty/],
      [undefined, { "content-type": json }, /empty/],
      [undefined, {}, /Content-Type/],
      ["{", { "content-type": json }, /not valid JSON/],
      ["{'read':true}", { "content-type": json }, /not valid JSON/],
      ['{"read":true}}', { "content-type": json }, /not valid JSON/],
      ['{"read":NaN}', { "content-type": json }, /not valid JSON/],
      ["[".repeat(500_000), { "content-type": json }, /more than 50000 fields, objects and lists/],
      [new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]), { "content-type": json }, /UTF-8/],
      ['{"read":true}', { "content-type": "text/plain" }, /Content-Type: application\/json/],
      ["read=true", { "content-type": "application/x-www-form-urlencoded" }, /Content-Type: application\/json/],
      ['{"read":true}', { "content-type": "application/jsonx" }, /Content-Type: application\/json/],
      ['{"read":true}', { "content-type": `${json}; charset=utf-16` }, /UTF-8/],
      ['{"read":true}', { "content-type": `${json};charset="ISO-8859-1"` }, /UTF-8/],
      ['{"read":true}', { "content-type": json, "content-encoding": "gzip" }, /Content-Encoding/],
    ];
    for (const [body, headers, says] of table) expectRefusal(await patch(api, body, headers), 400, "bad_request", says);
  });

  test("a body that breaks off is refused", async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"re'));
        controller.error(new DOMException("The connection was closed.", "AbortError"));
      },
    });
    const headers = { "content-type": json };
    const request = new Request("http://mail.example.test/", { method: "PATCH", headers, body });
    const error = await readJson(request, 1_000).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "bad_request", message: expect.stringContaining("broke off") });
  });

  test("the message names the field of PATCH and the values that it takes", async () => {
    const api = await startApi();
    const FIELDS = "unread, read, starred, folder, labels, addLabels, removeLabels";
    const labels = (count: number) => Array.from({ length: count }, (_, i) => `l${i}`);
    const table: [body: unknown, says: string | RegExp][] = [
      [null, "The body must be a JSON object"],
      [[], "The body must be a JSON object"],
      ['"read"', "The body must be a JSON object"],
      ["1", "The body must be a JSON object"],
      [{}, `The body needs at least one of ${FIELDS}`],
      [{ colour: "red" }, `colour is not a field of this request: it takes ${FIELDS}`],
      [{ read: true, subject: "x" }, `subject is not a field of this request: it takes ${FIELDS}`],
      ['{"__proto__":1}', `__proto__ is not a field of this request: it takes ${FIELDS}`],
      [{ ["x".repeat(5000)]: 1 }, /^x{80}… is not a field/],
      [{ "a/b~c": 1 }, /^a\/b~c is not a field/],
      [{ unread: "true" }, "unread must be true or false"],
      [{ unread: null }, "unread must be true or false"],
      [{ read: 1 }, "read must be true or false"],
      [{ starred: "yes" }, "starred must be true or false"],
      [{ folder: "sent" }, "folder must be one of inbox, archive, trash, spam"],
      [{ folder: "INBOX" }, "folder must be one of inbox, archive, trash, spam"],
      [{ folder: ["inbox"] }, "folder must be one of inbox, archive, trash, spam"],
      [{ labels: "a" }, "labels must be a list of at most 20 items"],
      [{ labels: labels(21) }, "labels must be a list of at most 20 items"],
      [{ labels: ["x".repeat(61)] }, "labels[0] must be text of at most 60 characters"],
      [{ labels: ["a", 1] }, "labels[1] must be text of at most 60 characters"],
      [{ addLabels: {} }, "addLabels must be a list"],
      [{ addLabels: ["a", "💌".repeat(61)] }, "addLabels[1] must be text of at most 60 characters"],
      [{ removeLabels: [null] }, "removeLabels[0] must be text"],
      [{ read: true, unread: true }, /read.*unread.*one of them/],
      [{ read: false, unread: false }, /read.*unread.*one of them/],
    ];
    for (const [body, says] of table) {
      const answer = await patch(api, body === null ? "null" : body);
      expectRefusal(answer, 400, "bad_request");
      if (typeof says === "string") expect(answer.body.error).toBe(says);
      else expect(answer.body.error).toMatch(says);
    }
  });

  test("a valid body passes, and the missing conversation is refused", async () => {
    const api = await startApi();
    const bodies: [unknown, string][] = [
      [{ read: true, unread: false }, json],
      [{ labels: Array.from({ length: 20 }, (_, i) => `l${i}`) }, `${json}; charset=UTF-8`],
      [{ labels: ["💌".repeat(60)] }, 'Application/JSON ; charset="utf-8"'],
      [{ removeLabels: ["x".repeat(61)] }, "application/merge-patch+json"],
      ['\uFEFF{"starred":true}', json],
    ];
    for (const [body, type] of bodies) {
      expectRefusal(
        await patch(api, typeof body === "string" ? body : JSON.stringify(body), { "content-type": type }),
        404,
        "not_found",
      );
    }
  });
});

describe("payload_too_large:", () => {
  test("the size is known from Content-Length, or counted", async () => {
    const { ask, origin, key } = await startApi();
    const large = JSON.stringify({ labels: ["x".repeat(1_100_000)] });
    const headers = { "content-type": "application/json" };
    expectRefusal(
      await ask("/threads/x", { method: "PATCH", headers, body: large }),
      413,
      "payload_too_large",
      /1048576 bytes/,
    );
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 20; i++) controller.enqueue(new TextEncoder().encode("x".repeat(100_000)));
        controller.close();
      },
    });
    const response = await fetch(`${origin}/api/v1/threads/x`, {
      method: "PATCH",
      headers: { ...headers, authorization: `Bearer ${key}` },
      body: chunks,
    });
    expect([response.status, await response.json()]).toMatchObject([413, { code: "payload_too_large" }]);
  });

  test("the key is checked before the size", async () => {
    const { ask } = await startApi();
    const body = "x".repeat(2_000_000);
    expectRefusal(
      await ask("/threads/x", { method: "PATCH", headers: { authorization: "" }, body }),
      401,
      "unauthorized",
    );
  });
});

describe("rights of the person behind the key", () => {
  const MAIL = "From: zoe@remote.example\nTo: olga@example.test\nMessage-ID: <reach@remote.example>\n\nhello\n";

  test("changing mail that is shared for viewing is forbidden", async () => {
    const { ask, file, keyOf } = await startApi();
    const { threadId } = await file(MAIL);
    const headers = { authorization: `Bearer ${keyOf("max")}` };
    for (const body of [{ starred: true }, { folder: "trash" }, { addLabels: ["a"] }, { read: true, labels: [] }]) {
      expectRefusal(await ask(`/threads/${threadId}`, { method: "PATCH", headers, body }), 403, "forbidden");
    }
    const read = await ask(`/threads/${threadId}`, { method: "PATCH", headers, body: { read: true } });
    expect([read.status, read.body.thread]).toMatchObject([200, { unread: false, starred: false }]);
  });

  test("mail out of reach gets the same refusal as mail that does not exist", async () => {
    const { ask, file, keyOf, store } = await startApi();
    const { threadId, messageId } = await file(MAIL);
    store.db.delete(grants).run();
    const headers = { authorization: `Bearer ${keyOf("max")}` };
    const pairs: [path: string, nowhere: string][] = [
      [`/threads/${threadId}`, "/threads/thr_none"],
      [`/messages/${messageId}`, "/messages/msg_none"],
      [`/messages/${messageId}/raw`, "/messages/msg_none/raw"],
      ["/threads?mailbox=olga@example.test", "/threads?mailbox=nobody@example.test"],
      ["/messages?mailbox=olga@example.test", "/messages?mailbox=nobody@example.test"],
      ["/search?q=hello&mailbox=mbx_olga", "/search?q=hello&mailbox=mbx_none"],
    ];
    for (const [path, nowhere] of pairs) {
      const answer = await ask(path, { headers });
      expectRefusal(answer, 404, "not_found");
      expect([path, answer.text]).toEqual([path, (await ask(nowhere, { headers })).text]);
    }
    expect((await ask("/threads", { headers })).body.threads).toEqual([]);
  });
});

describe("errors of the mailbox", () => {
  const refuse = (error: unknown) =>
    startApi({
      runs: {
        listMailboxes() {
          throw error;
        },
      },
    });
  const thrown: [error: AppError, status: number, retryAfter: string | null][] = [
    [new AppError("forbidden", "You may not"), 403, null],
    [new AppError("conflict", "It is so"), 409, null],
    [new AppError("unprocessable", "It cannot be"), 422, null],
    [new AppError("locked", "Paused"), 423, null],
    [new AppError("rate_limited", "Too many today", { retryAfter: 90.2 }), 429, "91"],
    [new AppError("insufficient_storage", "Full"), 507, null],
    [unavailable("Busy"), 503, "5"],
    [outOfReachError("thread"), 404, null],
  ];
  for (const [error, status, retryAfter] of thrown) {
    test(`${error.code} is ${status}`, async () => {
      const { ask } = await refuse(error);
      const answer = await ask("/mailboxes");
      expectRefusal(answer, status, error.code);
      expect(answer.body.error).toBe(error.message);
      expect(answer.headers.get("retry-after")).toBe(retryAfter);
    });
  }

  test("a full disk is 503", async () => {
    const { ask, lines } = await refuse(Object.assign(new Error("no space left"), { code: "ENOSPC" }));
    const answer = await ask("/mailboxes");
    expectRefusal(answer, 503, "server_error");
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  });

  test("any other error is logged whole, and shown as server_error with its trace id", async () => {
    const { ask, lines, key } = await refuse(new TypeError("undefined is not a mailbox in /secret/path.ts"));
    const answer = await ask("/mailboxes?q=private+words");
    expectRefusal(answer, 500, "server_error");
    expect(answer.text).not.toContain("secret");
    const [line] = lines.filter(({ level }) => level === "error");
    expect(line).toMatchObject({
      path: "/api/v1/mailboxes",
      method: "GET",
      error: { name: "TypeError", stack: expect.any(String) },
    });
    expect(answer.body.error).toContain(String(line?.trace));
    expect(JSON.stringify(lines)).not.toContain(key);
    expect(JSON.stringify(lines)).not.toContain("private");
  });

  test("an answer that its schema does not allow is server_error, and its mail is not logged", async () => {
    const { ask, lines } = await startApi({
      runs: { listMailboxes: () => ({ mailboxes: [{ id: "x", address: "private@example.test" }] }) },
    });
    expectRefusal(await ask("/mailboxes"), 500, "server_error");
    const [line] = lines.filter(({ level }) => level === "error");
    expect(JSON.stringify(line)).toContain("/mailboxes/0/displayName");
    expect(JSON.stringify(line)).not.toContain("private");
  });
});
