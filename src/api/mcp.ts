/**
 * The operations for AI agents: an MCP server over stateless Streamable HTTP, behind the gate of REST (contract: MCP).
 * The only file that knows the protocol's SDK.
 *
 * One endpoint serves two eras. In revision 2026-07-28 every request names its version; in those of 2025 a client begins
 * with `initialize`. Nothing is kept between requests in either, so a server object lives as long as one request.
 *
 * Invariant: one HTTP request is one message. A batch (revision 2025-03-26 alone had them) is refused, or a hundred calls
 * would pass the gate as one.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  type McpHttpHandler,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { version } from "../../package.json" with { type: "json" };
import type { Caller } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import { latestEvent } from "../events/arrivals.ts";
import type { Log } from "../log.ts";
import type { Runtime } from "../runtime.ts";
import type { Store } from "../store/store.ts";
import { readJson } from "./body.ts";
import type { Gate } from "./gate.ts";
import { createCalls } from "./mcp/call.ts";
import { INSTRUCTIONS } from "./mcp/instructions.ts";
import { createOriginCheck } from "./mcp/origin.ts";
import { createTools } from "./mcp/tools.ts";
import { createWaiting } from "./mcp/waiting.ts";
import type { Operation } from "./operation.ts";
import type { Performing } from "./perform.ts";

export interface Mcp {
  /** Answers a request to the endpoint of a caller whom the gate admitted. @throws AppError for what is no MCP. */
  answer(request: Request, caller: Caller): Promise<Response>;
  /** Answers the calls that wait, and ends subscriptions. */
  stop(): Promise<void>;
}

export interface McpParts extends Performing {
  operations: readonly Operation[];
  gate: Pick<Gate, "readmit">;
  store: Pick<Store, "db" | "onCommit">;
  runtime: Pick<Runtime, "randomBytes" | "setTimer">;
  /** Public origin. */
  baseUrl: string;
  log: Log;
}

/** Beyond the largest body of an operation: the envelope around the arguments. */
const ENVELOPE_BYTES = 64 * 1024;

/** The list depends on the key's scopes and this version alone; a client may keep it so long, in ms. */
const KEEP_MS = 3_600_000;

/** Streams of `subscriptions/listen`: there is nothing to subscribe to, so few are needed. */
const MOST_SUBSCRIPTIONS = 32;

const SERVER = { name: "mailroom", title: "Mailroom", version };
const OPTIONS = {
  capabilities: { tools: {} },
  instructions: INSTRUCTIONS,
  cacheHints: {
    "tools/list": { ttlMs: KEEP_MS, cacheScope: "private" },
    "server/discover": { ttlMs: KEEP_MS, cacheScope: "private" },
  },
} as const;

const faultOf = (code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status: 400 });

/** The message, or the answer to what is none. */
async function readMessage(request: Request, mostBytes: number): Promise<{ message: unknown } | { fault: Response }> {
  let message: unknown;
  try {
    message = await readJson(request, mostBytes);
  } catch (error) {
    // A body that is no JSON is told in JSON-RPC (§5.1); its size and type are matters of HTTP.
    if (!(error instanceof AppError) || error.code !== "bad_request") throw error;
    return { fault: faultOf(ProtocolErrorCode.ParseError, error.message) };
  }
  return Array.isArray(message)
    ? { fault: faultOf(ProtocolErrorCode.InvalidRequest, "Batches are not served: send one message a request") }
    : { message };
}

export function createMcp(parts: McpParts): Mcp {
  const { operations, gate, store, runtime, baseUrl } = parts;
  const checkOrigin = createOriginCheck(baseUrl);
  const tools = createTools(operations);
  const waiting = createWaiting({ store, runtime, latest: () => latestEvent(store.db) });
  const call = createCalls({ ...parts, waiting });
  const largestBody = ENVELOPE_BYTES + Math.max(...operations.map(({ largestBody: bytes = 0 }) => bytes));
  const callers = new WeakMap<Request, Caller>();

  function serverFor(request: Request | undefined): Server {
    const caller = request && callers.get(request);
    if (!request || !caller) throw new Error("a request came past the gate");
    const server = new Server(SERVER, OPTIONS);
    server.setRequestHandler("tools/list", () => ({ tools: tools.listFor(caller.scopes) }));
    server.setRequestHandler("tools/call", ({ params }) => {
      const tool = tools.find(params.name);
      if (!tool) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name.slice(0, 80)}`);
      return call(tool, params.arguments ?? {}, {
        caller,
        readmit: () => gate.readmit(request.headers.get("authorization")),
        signal: request.signal,
      });
    });
    return server;
  }

  const modern: McpHttpHandler = createMcpHandler(({ requestInfo }) => serverFor(requestInfo), {
    legacy: "reject",
    maxSubscriptions: MOST_SUBSCRIPTIONS,
  });

  /** As the SDK's own stateless fallback, but answered in JSON: a stream for one message costs more than the message. */
  async function answerOf2025(request: Request, parsedBody: unknown): Promise<Response> {
    const server = serverFor(request);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: undefined,
      enableJsonResponse: true,
    });
    await server.connect(transport);
    try {
      return await transport.handleRequest(request, { parsedBody });
    } finally {
      await server.close();
    }
  }

  return {
    async answer(request, caller) {
      checkOrigin(request.headers);
      if (request.method !== "POST") {
        // No session to end, and no stream of the server's own (revision 2025-06-18, Streamable HTTP).
        return Response.json(
          { error: "Send MCP messages here with POST", code: "bad_request" },
          { status: 405, headers: { allow: "POST" } },
        );
      }
      const read = await readMessage(request, largestBody);
      if ("fault" in read) return read.fault;
      callers.set(request, caller);
      const { message } = read;
      return (await isLegacyRequest(request, message))
        ? answerOf2025(request, message)
        : modern.fetch(request, { parsedBody: message });
    },
    async stop() {
      waiting.stop();
      await modern.close();
    },
  };
}
