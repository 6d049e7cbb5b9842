/** MCP clients of both eras, made by others, behind one small interface. */
import { Client as Client2026, StreamableHTTPClientTransport as Transport2026 } from "@modelcontextprotocol/client";
import { Client as Client2025 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport2025 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

/** The client of @modelcontextprotocol/sdk 1.x, and that of @modelcontextprotocol/client 2.x with revision 2026-07-28 alone. */
export const ERAS = ["2025", "2026"] as const;
export type Era = (typeof ERAS)[number];

export interface Block {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  resource?: { uri: string; mimeType: string; blob: string };
}

// biome-ignore lint/suspicious/noExplicitAny: results are looked into as JSON.
export type Structured = Record<string, any>;

export interface ToolResult {
  text: string;
  content: Block[];
  structured: Structured;
  isError: boolean;
}

export interface ToolClient {
  client: Client2025 | Client2026;
  /** Calls a tool. Rejects with an error of the protocol. */
  call(name: string, args?: Record<string, unknown>): Promise<ToolResult>;
  close(): Promise<void>;
}

/** Connects a client. It lists the tools first, because it then checks structured content against their schemas. */
export async function connectMcp(origin: string, key: string, era: Era = "2026"): Promise<ToolClient> {
  const url = new URL(`${origin}/api/mcp`);
  const options = { requestInit: { headers: { authorization: `Bearer ${key}` } } };
  const info = { name: "test", version: "1" };
  const client =
    era === "2025"
      ? new Client2025(info)
      : new Client2026(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  if (client instanceof Client2025) await client.connect(new Transport2025(url, options) as never);
  else await client.connect(new Transport2026(url, options));
  await client.listTools();
  return {
    client,
    async call(name, args = {}) {
      const result = await client.callTool({ name, arguments: args });
      const content = result.content as Block[];
      return {
        text: content.map(({ text = "" }) => text).join("\n"),
        content,
        structured: (result.structuredContent ?? {}) as Structured,
        isError: result.isError === true,
      };
    },
    close: () => client.close(),
  };
}
