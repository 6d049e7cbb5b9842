/** Calls of the API from pages of other origins, in a real browser (rules: Cross-origin requests). */
import { afterAll, expect, test } from "bun:test";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { startApi } from "../harness/servers/api-setup.ts";

const pages = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => new Response("<!doctype html><title>Page</title>", { headers: { "content-type": "text/html" } }),
});
afterAll(() => pages.stop(true));

test.skipIf(!chromiumPresent)(
  `only a page of a listed origin reads the API and MCP${chromiumNote}`,
  async () => {
    const api = await startApi();
    const { newContext } = await openBrowser();
    const page = await (await newContext()).newPage();
    await page.goto(`http://127.0.0.1:${pages.port}/`);

    /** Calls as a page does. Gives what it may read, or that it may read nothing. */
    const call = (path: string, init: { method?: string; headers?: Record<string, string>; body?: string } = {}) =>
      page.evaluate(
        async ({ url, init }) => {
          try {
            const answer = await fetch(url, init);
            const names = ["x-request-id", "x-ratelimit-limit", "ratelimit", "etag", "retry-after"];
            const readable = names.filter((name) => answer.headers.has(name));
            return { status: answer.status, readable, body: await answer.text() };
          } catch {
            return "unreadable";
          }
        },
        { url: api.origin + path, init: { ...init, headers: { authorization: `Bearer ${api.key}`, ...init.headers } } },
      );
    const list = {
      method: "POST",
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
      },
    };
    const change = {
      method: "PATCH",
      body: "{}",
      headers: { "content-type": "application/json", "idempotency-key": "x" },
    };

    expect(await call("/api/v1/mailboxes")).toBe("unreadable");
    api.set("api.allowOrigins", `http://127.0.0.1:${pages.port}`);
    expect(await call("/api/v1/mailboxes")).toMatchObject({
      status: 200,
      readable: ["x-request-id", "x-ratelimit-limit", "ratelimit"],
      body: expect.stringContaining("olga@example.test"),
    });
    expect(await call("/api/v1/openapi.json")).toMatchObject({
      status: 200,
      readable: expect.arrayContaining(["etag"]),
    });
    expect(await call("/api/v1/threads/thr_x", change)).toMatchObject({ status: 400 });
    expect(await call("/api/v1/mailboxes", { headers: { authorization: "Bearer mr_wrong" } })).toMatchObject({
      status: 401,
    });
    expect(await call("/api/mcp", list)).toMatchObject({
      status: 200,
      body: expect.stringContaining("list_mailboxes"),
    });
    expect(await call("/healthz")).toBe("unreadable");
    api.set("api.ipRequestsPerMinute", "1");
    expect(await call("/api/v1/threads")).toBe("unreadable");
  },
  120_000,
);
