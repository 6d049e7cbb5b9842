/** Ids of requests, in responses and in the log (rules: Request ids). */
import { expect, test } from "bun:test";
import { type Answer, startApi } from "../harness/servers/api-setup.ts";
import { boot } from "../harness/servers/boot.ts";

const idOf = ({ headers }: Pick<Answer, "headers">): string => headers.get("x-request-id") ?? "";

test("every response has one, which the request's line in the log has as well", async () => {
  const { ask, lines } = await startApi();
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  const accept = { accept: "application/json, text/event-stream" };
  const table: [path: string, status: number, init?: Parameters<typeof ask>[1]][] = [
    ["/api/v1/mailboxes", 200],
    ["/api/v1/mailboxes", 401, { headers: { authorization: "" } }],
    ["/api/v1/threads", 405, { headers: {}, method: "POST" }],
    ["/api/v1/nowhere", 404],
    ["/api/admin/v1/people", 403],
    ["/api/admin/v1/openapi.json", 200, { headers: { authorization: "" } }],
    ["/api/mcp", 200, { method: "POST", body: list, headers: accept }],
    ["/api/mcp", 405],
    ["/api/", 404],
  ];
  const ids = new Set<string>();
  for (const [path, status, init] of table) {
    lines.length = 0;
    const answer = await ask(path, init);
    expect([path, answer.status]).toEqual([path, status]);
    expect(idOf(answer)).toMatch(/^[0-9a-f]{16}$/);
    ids.add(idOf(answer));
    expect(lines.filter(({ message }) => message === "request")).toEqual([
      expect.objectContaining({ trace: idOf(answer), path, status: answer.status }),
    ]);
  }
  expect(ids.size).toBe(table.length);
});

test("that of the client is not believed", async () => {
  const { ask, lines } = await startApi();
  const given = { "x-request-id": "0123456789abcdef", "x-trace-id": "0123456789abcdef", traceparent: "x" };
  const answer = await ask("/mailboxes", { headers: given });
  expect(idOf(answer)).not.toBe("0123456789abcdef");
  expect(JSON.stringify(lines)).not.toContain("0123456789abcdef");
});

test("a failure is logged under it, over REST and MCP, and the client is told it", async () => {
  const { ask, lines } = await startApi({
    runs: {
      listMailboxes() {
        throw new TypeError("a fault");
      },
    },
  });
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_mailboxes", arguments: {} } };
  const accept = { accept: "application/json, text/event-stream" };
  for (const answer of [
    await ask("/mailboxes"),
    await ask("/api/mcp", { method: "POST", body: call, headers: accept }),
  ]) {
    expect(answer.text).toContain(`Trace: ${idOf(answer)}`);
    expect(lines).toContainEqual(expect.objectContaining({ level: "error", trace: idOf(answer) }));
  }
});

test("the reference, the app's own API and its failures have one", async () => {
  const { http } = await boot();
  for (const path of ["/api/docs", "/api/docs/nothing", "/app/me", "/app/nowhere", "/api/v1/mailboxes"]) {
    expect(idOf(await fetch(http + path))).toMatch(/^[0-9a-f]{16}$/);
  }
});
