/** Registries and programs find the MCP server of a domain (rules: MCP discovery). */
import { expect, test } from "bun:test";
import { version } from "../../../package.json" with { type: "json" };
import { boot } from "../../harness/servers/boot.ts";

const booted = boot({ MAILROOM_BASE_URL: "https://mail.example.test" });
const get = async (path: string, init?: RequestInit) => fetch(`${(await booted).http}${path}`, init);

test.each(["/.well-known/mcp/catalog.json", "/.well-known/ai-catalog.json"])(
  "%s leads to the card, and it to MCP",
  async (path) => {
    const { entries } = await (await get(path)).json();
    expect(entries).toHaveLength(1);
    expect(entries[0]).toMatchObject({
      identifier: "urn:air:mail.example.test:mailroom",
      type: "application/mcp-server-card+json",
      url: "https://mail.example.test/.well-known/mcp/server-card.json",
    });
    const card = await (await get(new URL(entries[0].url).pathname)).json();
    expect(card).toMatchObject({
      name: "test.example.mail/mailroom",
      version,
      remotes: [{ type: "streamable-http", url: "https://mail.example.test/api/mcp" }],
    });
    expect(card.remotes[0].supportedProtocolVersions).toContain("2026-07-28");
  },
);

test("server.json is what the registry takes", async () => {
  const registered = await (await get("/.well-known/mcp/server.json")).json();
  expect(registered.$schema).toBe("https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json");
  expect(registered.name).toMatch(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
  expect(registered.description.length).toBeLessThanOrEqual(100);
  expect(registered.remotes).toEqual([{ type: "streamable-http", url: "https://mail.example.test/api/mcp" }]);
});

test("pages of every origin may read it, and nobody writes it", async () => {
  const path = "/.well-known/mcp/server-card.json";
  expect((await get(path)).headers.get("access-control-allow-origin")).toBe("*");
  const preflight = await get(path, { method: "OPTIONS", headers: { origin: "https://other.example" } });
  expect([preflight.status, preflight.headers.get("access-control-allow-headers")]).toEqual([204, "*"]);
  expect((await get(path, { method: "POST" })).status).toBe(405);
});
