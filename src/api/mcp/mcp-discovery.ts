/**
 * The documents by which registries and programs that know only the domain find the MCP server: its card and the catalogs
 * that name the card (SEP-2127, an extension of MCP that is still a draft), and what the MCP registry is published with.
 */
import { version } from "../../../package.json" with { type: "json" };

const CARD_PATH = "/.well-known/mcp/server-card.json";
const CARD_TYPE = "application/mcp-server-card+json";
const REVISIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];

/** The documents by path. `baseUrl`: public origin; `url`: of MCP. */
export function describeMcp(baseUrl: string, url: string): [path: string, document: Record<string, unknown>][] {
  const { hostname } = new URL(baseUrl);
  const described = {
    // The name of a server begins with a domain that its publisher proves to have, from the top down.
    name: `${hostname.split(".").reverse().join(".")}/mailroom`,
    title: "Mailroom",
    description: "Read, search, organise, draft and send the mail of a workspace, within what its people allow.",
    version,
  };
  const card = {
    $schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
    ...described,
    remotes: [{ type: "streamable-http", url, supportedProtocolVersions: REVISIONS }],
  };
  const registered = {
    $schema: "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    ...described,
    remotes: [{ type: "streamable-http", url }],
  };
  const entry = {
    identifier: `urn:air:${hostname}:mailroom`,
    displayName: described.title,
    type: CARD_TYPE,
    url: baseUrl + CARD_PATH,
  };
  return [
    [CARD_PATH, card],
    ["/.well-known/mcp/catalog.json", { specVersion: "draft", entries: [entry] }],
    ["/.well-known/ai-catalog.json", { specVersion: "1.0", entries: [entry] }],
    ["/.well-known/mcp/server.json", registered],
  ];
}
