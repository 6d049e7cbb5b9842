/** The MCP endpoint: the gate, the revisions it speaks, and bodies that are not messages. */
import { describe, expect, test } from "bun:test";
import { connectMcp, ERAS } from "../harness/clients/mcp-client.ts";
import { startApi, type TestApi } from "../harness/servers/api-setup.ts";
import { until } from "../harness/until.ts";

const MODERN = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const ACCEPT = { accept: "application/json, text/event-stream" };

const message = (method: string, params: object = {}) => ({ jsonrpc: "2.0", id: 1, method, params });

/** Sends a request of the era of 2025, unless `headers` say otherwise. */
const post = (api: TestApi, body: unknown, headers: Record<string, string> = {}) =>
  api.ask("/api/mcp", {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...ACCEPT, ...headers },
  });

const postModern = (api: TestApi, method: string, params: Record<string, unknown> = {}) =>
  post(api, message(method, { ...params, _meta: META }), {
    "mcp-protocol-version": MODERN,
    "mcp-method": method,
    ...(typeof params.name === "string" && { "mcp-name": params.name }),
  });

const LIST = message("tools/list");

describe("the gate", () => {
  test("a request without a valid key is 401, and led to the metadata (rules: OAuth metadata)", async () => {
    const api = await startApi();
    for (const authorization of ["", "Bearer nonsense", "Basic eDp5"]) {
      const { status, headers, body } = await post(api, LIST, { authorization });
      expect([status, body.code]).toEqual([401, "unauthorized"]);
      expect(headers.get("www-authenticate")).toStartWith('Bearer resource_metadata="');
    }
    expect((await api.ask("/api/mcp", { headers: { authorization: "" } })).status).toBe(401);
    const withoutKey = connectMcp(api.origin, "mr_wrong", "2025");
    expect(withoutKey).rejects.toThrow();
    await withoutKey.catch(() => undefined);
  });

  test("MCP shares the request rates of REST", async () => {
    const api = await startApi({ settings: { "api.ipRequestsPerMinute": "1000", "api.keyRequestsPerMinute": "3" } });
    const first = await post(api, LIST);
    expect(first.headers.get("x-ratelimit-limit")).toBe("3");
    expect(first.headers.get("x-ratelimit-remaining")).toBe("2");
    await api.ask("/mailboxes");
    expect((await postModern(api, "tools/list")).headers.get("x-ratelimit-remaining")).toBe("0");
    const over = await post(api, LIST);
    expect([over.status, over.headers.get("retry-after")]).toEqual([200, "60"]);
    expect(over.headers.get("x-ratelimit-remaining")).toBe("0");
    expect(over.body).toMatchObject({ id: 1, error: { data: { code: "rate_limited", retryAfter: 60 } } });
    expect((await api.ask("/mailboxes")).status).toBe(429);
  });

  test("a source over its rate and without a valid key gets 429, and wrong keys stay slow", async () => {
    const api = await startApi({ settings: { "api.ipRequestsPerMinute": "1", "api.keyRequestsPerMinute": "2" } });
    expect((await post(api, LIST, { authorization: "" })).status).toBe(401);
    for (const authorization of ["", "Bearer mr_wrong"]) {
      const { status, body, headers } = await post(api, LIST, { authorization });
      expect([status, body.code, headers.get("retry-after")]).toEqual([429, "rate_limited", "60"]);
    }
    const over = await post(api, LIST);
    expect([over.status, over.body.id]).toEqual([200, 1]);
    expect((over.body.error as { message: string }).message).toContain("1 requests a minute from this address");

    // The slowdown begins after twenty wrong keys.
    for (let i = 0; i < 19; i++) await post(api, LIST, { authorization: "Bearer mr_wrong" });
    const before = api.runtime.timers().length;
    const slow = post(api, LIST, { authorization: "Bearer mr_wrong" });
    await until(() => api.runtime.timers().length > before);
    api.runtime.advanceTo(api.runtime.now() + 100);
    expect((await slow).status).toBe(429);
  });

  test("a caller over both rates is told the longer wait, and notifications are accepted", async () => {
    const api = await startApi({ settings: { "api.ipRequestsPerMinute": "1", "api.keyRequestsPerMinute": "1" } });
    await post(api, LIST);
    expect((await post(api, LIST)).headers.get("retry-after")).toBe("60");
    api.runtime.advanceTo(api.runtime.now() + 50_000);
    const notified = await post(api, { jsonrpc: "2.0", method: "notifications/initialized" });
    expect([notified.status, notified.text, notified.headers.get("retry-after")]).toEqual([202, "", "10"]);
    for (const [given, status] of [
      [{ jsonrpc: "2.0", id: 1, result: {} }, 202],
      [{ jsonrpc: "2.0", method: "tools/call", params: { name: "send_email" } }, 202],
      ["{", 400],
      [[LIST], 400],
    ] as const) {
      expect([given, (await post(api, given)).status]).toEqual([given, status]);
    }
    for (const method of ["GET", "DELETE"]) {
      expect([method, (await api.ask("/api/mcp", { method })).status]).toEqual([method, 405]);
    }
    for (const method of ["initialize", "ping", "tools/list", "server/discover"]) {
      const { status, body } = await post(api, message(method));
      expect([method, status, body.error]).toEqual([
        method,
        200,
        expect.objectContaining({ code: -32_005, data: { code: "rate_limited", retryAfter: 10 } }),
      ]);
    }
  });

  test.each(ERAS)("a client of %s over a rate gets a result that says so, and keeps its session", async (era) => {
    for (const [setting, what] of [
      ["api.keyRequestsPerMinute", "with this API key"],
      ["api.ipRequestsPerMinute", "from this address"],
    ] as const) {
      let listed = 0;
      const listMailboxes = () => {
        listed++;
        return { mailboxes: [] };
      };
      const api = await startApi({ runs: { listMailboxes } });
      const mcp = await connectMcp(api.origin, api.keyOf("olga", ["read"]), era);
      const failures: unknown[] = [];
      mcp.client.onerror = (error) => failures.push(error);
      api.set(setting, "1");
      api.runtime.advanceTo(api.runtime.now() + 60_000);
      expect((await mcp.call("list_mailboxes")).isError).toBe(false);
      const over = await mcp.call("list_mailboxes");
      expect([over.isError, over.structured.code, over.structured.retryAfter]).toEqual([true, "rate_limited", 60]);
      expect(over.text).toContain(`More than 1 requests a minute ${what}`);
      expect(over.text).toContain("Wait 60 seconds");
      expect(listed).toBe(1);
      const refused = await mcp.client.listTools(undefined, { cacheMode: "bypass" } as never).catch((error) => error);
      expect(refused).toMatchObject({ code: -32_005, data: { code: "rate_limited", retryAfter: 60 } });
      const unknown = await mcp.call("no_such_tool").catch((error) => error);
      expect(unknown.code).toBe(-32_602);

      api.runtime.advanceTo(api.runtime.now() + 60_000);
      expect((await mcp.call("list_mailboxes")).isError).toBe(false);
      expect(failures).toEqual([]);
      await mcp.close();
    }
  });

  test("a key without the scope does not see a tool, and its call is refused with the scope", async () => {
    const api = await startApi();
    for (const era of ERAS) {
      const reader = await connectMcp(api.origin, api.keyOf("olga", ["read"]), era);
      const { tools } = await reader.client.listTools();
      expect(tools.map(({ name }) => name)).not.toContain("send_email");
      const refused = await reader.call("send_email", { nonsense: true });
      expect(refused).toMatchObject({ isError: true, structured: { code: "missing_scope" } });
      expect(refused.text).toContain("missing_scope");
      await reader.close();
    }
  });
});

describe("Origin and Host", () => {
  // startApi's base URL is http://mail.example.test.
  const cases: [headers: Record<string, string>, status: number][] = [
    [{}, 200],
    [{ origin: "http://mail.example.test" }, 200],
    [{ origin: "http://localhost:6274" }, 200],
    [{ origin: "http://127.0.0.1:3000" }, 200],
    [{ origin: "http://[::1]:3000" }, 200],
    [{ origin: "https://mail.example.test" }, 403],
    [{ origin: "http://mail.example.test.evil.example" }, 403],
    [{ origin: "http://evil.example" }, 403],
    [{ origin: "null" }, 403],
    [{ origin: "" }, 403],
    [{ host: "mail.example.test" }, 200],
    [{ host: "mail.example.test:443" }, 200],
    [{ host: "localhost:8025" }, 200],
    [{ host: "192.168.1.5:8025" }, 200],
    [{ host: "[2001:db8::5]:8025" }, 200],
    [{ host: "evil.example" }, 403],
    [{ host: "localhost.evil.example" }, 403],
    [{ host: "mail.example.test", origin: "http://evil.example" }, 403],
  ];

  test("a Host or Origin of another server is 403", async () => {
    const api = await startApi();
    for (const [headers, status] of cases) {
      const answer = await post(api, LIST, headers);
      expect([headers, answer.status, answer.body.code]).toEqual([
        headers,
        status,
        status === 403 ? "forbidden" : undefined,
      ]);
    }
  });

  test("without a key the request is 401, whatever the Host and Origin", async () => {
    const api = await startApi();
    expect((await post(api, LIST, { authorization: "", origin: "http://evil.example" })).status).toBe(401);
  });
});

describe("bodies and methods that are not a message", () => {
  test("an invalid body is an error of JSON-RPC", async () => {
    const api = await startApi();
    const cases: [body: string, status: number, code: number | undefined][] = [
      ["", 400, -32700],
      ["{", 400, -32700],
      ["\ufffd", 400, -32700],
      ["[]", 400, -32600],
      [JSON.stringify([LIST, LIST]), 400, -32600],
      ["5", 400, undefined],
      ["null", 400, undefined],
      ['{"jsonrpc":"1.0","id":1,"method":"tools/list"}', 400, undefined],
    ];
    for (const [body, status, code] of cases) {
      const answer = await post(api, body);
      const { error, jsonrpc } = answer.body as { error: { code: number; message: string }; jsonrpc: string };
      expect([body, answer.status, jsonrpc]).toEqual([body, status, "2.0"]);
      expect(error.code).toBe(code ?? error.code);
      expect(error.code).toBeLessThan(-32000);
    }
  });

  test("a body larger than the largest of REST is not read", async () => {
    const api = await startApi();
    const big = await post(
      api,
      message("tools/call", { name: "send_email", arguments: { text: "x".repeat(9 << 20) } }),
    );
    expect([big.status, big.body.code]).toEqual([413, "payload_too_large"]);
  });

  test("methods other than POST are 405, since the server has no sessions and no stream", async () => {
    const api = await startApi();
    for (const method of ["GET", "DELETE", "PUT"]) {
      const answer = await api.ask("/api/mcp", { method, headers: { accept: "text/event-stream" } });
      expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
    }
  });

  test("a notification is acknowledged with 202 and no body", async () => {
    const api = await startApi();
    const answer = await post(api, { jsonrpc: "2.0", method: "notifications/initialized" });
    expect([answer.status, answer.text]).toEqual([202, ""]);
  });
});

describe("the revisions of 2025", () => {
  test.each(["2025-03-26", "2025-06-18", "2025-11-25"])("initialize agrees on %s", async (protocolVersion) => {
    const api = await startApi();
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const { status, headers, body } = await post(api, message("initialize", params));
    expect(status).toBe(200);
    expect(headers.get("mcp-session-id")).toBeNull();
    expect(body.result).toMatchObject({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "mailroom", version: expect.any(String) },
      instructions: expect.stringContaining("<<<mail"),
    });
  });

  test("initialize with an unknown version gets a version that the server speaks", async () => {
    const api = await startApi();
    const params = { protocolVersion: "1999-01-01", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    expect((await post(api, message("initialize", params))).body.result).toMatchObject({
      protocolVersion: "2025-11-25",
    });
    expect((await post(api, LIST, { "mcp-protocol-version": "1999-01-01" })).status).toBe(400);
  });

  test("a call needs no initialize, since the server keeps nothing between requests", async () => {
    const api = await startApi();
    const { body } = await post(api, message("tools/call", { name: "list_mailboxes", arguments: {} }));
    expect(body.result).toMatchObject({ structuredContent: { mailboxes: expect.any(Array) } });
    expect(body.result).not.toHaveProperty("resultType");
  });
});

describe("the revision of 2026", () => {
  test("server/discover names the versions, the capabilities and the instructions", async () => {
    const api = await startApi();
    const { status, body } = await postModern(api, "server/discover");
    expect(status).toBe(200);
    expect(body.result).toMatchObject({
      resultType: "complete",
      supportedVersions: [MODERN],
      capabilities: { tools: {} },
      instructions: expect.stringContaining("<<<mail"),
      ttlMs: 3_600_000,
      cacheScope: "private",
    });
  });

  test("a client may cache the list of tools, and not the result of a call", async () => {
    const api = await startApi();
    const { body } = await postModern(api, "tools/list");
    expect(body.result).toMatchObject({ resultType: "complete", ttlMs: 3_600_000, cacheScope: "private" });
    const called = await postModern(api, "tools/call", { name: "list_mailboxes", arguments: {} });
    expect(called.body.result).toMatchObject({ resultType: "complete", structuredContent: {} });
    expect(called.body.result).not.toHaveProperty("ttlMs");
  });

  test("an unknown version is refused, with the versions that the server speaks", async () => {
    const api = await startApi();
    const version = "2099-01-01";
    const _meta = { ...META, "io.modelcontextprotocol/protocolVersion": version };
    const headers = { "mcp-protocol-version": version, "mcp-method": "tools/list" };
    const { status, body } = await post(api, message("tools/list", { _meta }), headers);
    expect([status, body.error]).toMatchObject([400, { code: -32022, data: { supported: [MODERN] } }]);
  });

  test("headers that contradict the message are refused", async () => {
    const api = await startApi();
    const params = { name: "list_mailboxes", arguments: {}, _meta: META };
    const headers = { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "send_email" };
    const { status, body } = await post(api, message("tools/call", params), headers);
    expect([status, body.error]).toMatchObject([400, { code: -32020 }]);
  });
});

describe("requests of tools", () => {
  const CALL = { name: "list_mailboxes", arguments: {} };
  const HEADERS = { "mcp-protocol-version": MODERN };

  test("that are malformed are refused", async () => {
    const api = await startApi();
    const call = (params: object) => message("tools/call", { ...CALL, ...params });
    const refused: [body: object, status: number, code: number][] = [
      [{ ...LIST, extra: 1 }, 400, -32600],
      [{ ...LIST, id: null }, 400, -32600],
      [{ ...LIST, id: 1.5 }, 400, -32600],
      [{ ...LIST, id: 2 ** 53 }, 400, -32600],
      [{ ...LIST, id: {} }, 400, -32600],
      [{ ...LIST, params: [] }, 400, -32600],
      [call({ name: 1 }), 200, -32602],
      [call({ arguments: [] }), 200, -32602],
      [call({ arguments: "{}" }), 200, -32602],
      [call({ arguments: null }), 200, -32602],
      [call({ _meta: [] }), 400, -32600],
      [call({ _meta: { progressToken: {} } }), 400, -32600],
    ];
    for (const [body, status, code] of refused) {
      const answer = await post(api, body);
      expect([body, answer.status, answer.body]).toMatchObject([body, status, { error: { code } }]);
    }
    for (const accept of ["application/json", "text/event-stream", "*/*"]) {
      expect((await post(api, LIST, { accept })).status).toBe(406);
    }
    const good = { ...HEADERS, "mcp-method": "tools/call", "mcp-name": CALL.name };
    const modern: [params: object, headers: Record<string, string>, code: number][] = [
      [{}, { "mcp-method": "tools/list" }, -32020],
      [{}, { "mcp-name": "send_email" }, -32020],
      [{ _meta: { ...META, "io.modelcontextprotocol/clientCapabilities": 5 } }, {}, -32602],
      [{ _meta: { ...META, "io.modelcontextprotocol/clientInfo": {} } }, {}, -32602],
      [{ _meta: { ...META, "io.modelcontextprotocol/protocolVersion": "2025-11-25" } }, {}, -32020],
      [{ _meta: undefined }, {}, -32602],
      [{ arguments: [] }, {}, -32602],
    ];
    for (const [params, headers, code] of modern) {
      const answer = await post(api, call({ _meta: META, ...params }), { ...good, ...headers });
      expect([params, answer.body]).toMatchObject([params, { error: { code } }]);
    }
  });

  test("get their own id back, of its type", async () => {
    const api = await startApi();
    const ids = [1, "1", 0, "a b", 1];
    const answers = await Promise.all(
      ids.flatMap((id) => [
        post(api, { ...LIST, id }),
        post(api, { ...message("tools/call", CALL), id }),
        post(
          api,
          { ...message("tools/list", { _meta: META }), id },
          {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/list",
          },
        ),
      ]),
    );
    expect(answers.map(({ body }) => body.id)).toEqual(ids.flatMap((id) => [id, id, id]));
    expect(answers.every(({ body }) => body.result !== undefined)).toBe(true);
  });

  test("are not cancelled by the notification of another client", async () => {
    const api = await startApi();
    const mcp = await connectMcp(api.origin, api.key, "2025");
    const waits = mcp.call("list_messages", { waitSeconds: 50 });
    await until(() => api.runtime.timers().length > 0);
    const stranger = { authorization: `Bearer ${api.keyOf("max")}` };
    for (let requestId = 0; requestId < 20; requestId++) {
      const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } };
      expect((await post(api, cancelled, stranger)).status).toBe(202);
    }
    api.runtime.advanceTo(api.runtime.now() + 50_000);
    expect((await waits).structured.messages).toEqual([]);
    await mcp.close();
  });
});

test.each(ERAS)("a call of an unknown tool is an error of the protocol (%s)", async (era) => {
  const api = await startApi();
  const mcp = await connectMcp(api.origin, api.key, era);
  const call = mcp.call("delete_everything");
  await expect(call).rejects.toMatchObject({ code: -32602 });
  await mcp.close();
});

test("responses are not cached, and the log has no arguments of calls", async () => {
  const api = await startApi();
  const { headers } = await postModern(api, "tools/call", { name: "search_mail", arguments: { q: "secretword" } });
  expect(headers.get("cache-control")).toBe("private, no-store");
  expect(JSON.stringify(api.lines)).not.toContain("secretword");
  expect(JSON.stringify(api.lines)).toContain("/api/mcp");
});

test("an internal error is logged under the trace that the result shows", async () => {
  const api = await startApi({
    runs: {
      listMailboxes() {
        throw new Error("broken inside");
      },
    },
  });
  const mcp = await connectMcp(api.origin, api.key);
  const { isError, structured, text } = await mcp.call("list_mailboxes");
  expect([isError, structured.code]).toEqual([true, "server_error"]);
  expect(text).not.toContain("broken inside");
  const trace = /Trace: ([0-9a-f]{16})/.exec(text)?.[1];
  expect(api.lines).toContainEqual(expect.objectContaining({ level: "error", trace, tool: "list_mailboxes" }));
  await mcp.close();
});
