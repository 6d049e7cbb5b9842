/**
 * The Model Context Protocol over stateless Streamable HTTP. The only file that knows the SDK.
 *
 * One endpoint serves two eras. In revision 2026-07-28 every request names its version; in the revisions of 2025 a
 * client begins with `initialize`. The server keeps nothing between requests in either: the SDK makes a server for each
 * request.
 */
import {
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Result } from "./result.ts";

/** A client may keep the list of tools: it depends on the key's scopes and the version of the server alone. */
const KEEP = { ttlMs: 3_600_000, cacheScope: "private" } as const;

/** Streams of `subscriptions/listen`; the listener gives each a place among all streams, which are fewer (pools.ts). */
const MOST_SUBSCRIPTIONS = 1_000;

/** A code from the range that JSON-RPC leaves to servers (§5.1), without a meaning in MCP or its SDKs. */
const RATE_LIMITED = -32_005;

/** True for a request that calls a tool. */
export const isToolCall = (message: unknown): boolean =>
  isObject(message) && message.method === "tools/call" && message.id !== undefined;

/** The name that a client gives itself in a request: in its `_meta`, or when it begins. */
export function findMcpClientName(message: unknown): string | undefined {
  const params = isObject(message) && isObject(message.params) ? message.params : {};
  const meta = isObject(params._meta) ? params._meta : {};
  const info = meta[CLIENT_INFO_META_KEY] ?? params.clientInfo;
  return isObject(info) && typeof info.name === "string" ? info.name : undefined;
}

const makeFaultResponse = (code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status: 400 });

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * `listTools` and `callTool` get the request and the caller that `respond` was given. `callTool` returns undefined for an unknown
 * tool.
 */
export function createMcpProtocol<Caller>(served: {
  server: { name: string; title: string; version: string };
  instructions: string;
  listTools(caller: Caller): Tool[];
  callTool(name: string, args: Record<string, unknown>, caller: Caller, request: Request): Promise<Result> | undefined;
}) {
  const { server: info, instructions } = served;

  function makeServer(request: Request, caller: Caller): Server {
    const server = new Server(info, {
      capabilities: { tools: {} },
      instructions,
      cacheHints: { "tools/list": KEEP, "server/discover": KEEP },
    });
    server.setRequestHandler("tools/list", () => ({ tools: served.listTools(caller) }));
    server.setRequestHandler("tools/call", async ({ params }) => {
      const result = await served.callTool(params.name, params.arguments ?? {}, caller, request);
      if (result) return result;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name.slice(0, 80)}`);
    });
    return server;
  }

  /** The callers of requests to the SDK, which passes on nothing but the request. */
  const callers = new WeakMap<Request, Caller>();

  function makeModern({ requestInfo }: { requestInfo?: Request }): Server {
    const caller = requestInfo && callers.get(requestInfo);
    if (!requestInfo || !caller) throw new Error("a message came without its request");
    return makeServer(requestInfo, caller);
  }

  const modern = createMcpHandler(makeModern, { legacy: "reject", maxSubscriptions: MOST_SUBSCRIPTIONS });

  /**
   * Does what the SDK's stateless fallback does, but responds in JSON: a stream for one message costs more than the
   * message.
   */
  async function respond2025(request: Request, parsedBody: unknown, caller: Caller): Promise<Response> {
    const server = makeServer(request, caller);
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
    /** Responds to a parsed message. */
    async respond(request: Request, message: unknown, caller: Caller): Promise<Response> {
      if (await isLegacyRequest(request, message)) return respond2025(request, message, caller);
      callers.set(request, caller);
      return modern.fetch(request, { parsedBody: message });
    },
    /** Responds to a body that is not one message. */
    respondFault: (kind: "unreadable" | "batch", reason: string): Response =>
      makeFaultResponse(kind === "batch" ? ProtocolErrorCode.InvalidRequest : ProtocolErrorCode.ParseError, reason),
    /**
     * Refuses a message that is no call, for a time, without reading it closely. A request gets an error of JSON-RPC,
     * which leaves a client its session. A notification expects no response.
     */
    respondRefusal(
      message: unknown,
      { code, message: text, retryAfter }: { code: string; message: string; retryAfter?: number | undefined },
    ): Response {
      const { id, method } = isObject(message) ? message : {};
      if (method === undefined || (typeof id !== "string" && typeof id !== "number")) {
        return new Response(null, { status: 202 });
      }
      const error = { code: RATE_LIMITED, message: text, data: { code, retryAfter } };
      return Response.json({ jsonrpc: "2.0", error, id });
    },
    /** Ends subscriptions. */
    stop: (): Promise<void> => modern.close(),
  };
}
