/**
 * The Model Context Protocol over stateless Streamable HTTP. The only file that knows the SDK.
 *
 * One endpoint serves two eras. In revision 2026-07-28 every request names its version; in the revisions of 2025 a
 * client begins with `initialize`. The server keeps nothing between requests in either. The SDK makes a server for each
 * request and checks every message and result against a schema several times, which costs more than most calls. So this
 * file itself responds to `tools/list` and `tools/call` when the request is plain: when nothing in it could need a
 * refusal. The SDK responds to all others.
 *
 * Invariant: a plain request gets the response that the SDK would give, and the SDK would refuse no plain request.
 */
import {
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  SERVER_INFO_META_KEY,
  Server,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

const REVISION_2026 = "2026-07-28";
const REVISIONS_2025 = new Set<string | null>([null, "2025-03-26", "2025-06-18", "2025-11-25"]);

/** A client may keep the list of tools: it depends on the key's scopes and the version of the server alone. */
const KEEP = { ttlMs: 3_600_000, cacheScope: "private" } as const;

/** Streams of `subscriptions/listen`; the listener gives each a place among all streams, which are fewer (pools.ts). */
const MOST_SUBSCRIPTIONS = 1_000;

/** A code from the range that JSON-RPC leaves to servers (§5.1), without a meaning in MCP or its SDKs. */
const RATE_LIMITED = -32_005;

/** True for a request that calls a tool. */
export const isCall = (message: unknown): boolean =>
  isObject(message) && message.method === "tools/call" && message.id !== undefined;

/** The name that a client gives itself in a request: in its `_meta`, or when it begins. */
export function clientNameIn(message: unknown): string | undefined {
  const params = isObject(message) && isObject(message.params) ? message.params : {};
  const meta = isObject(params._meta) ? params._meta : {};
  const info = meta[CLIENT_INFO_META_KEY] ?? params.clientInfo;
  return isObject(info) && typeof info.name === "string" ? info.name : undefined;
}

const faultOf = (code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status: 400 });

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const hasOnly = (value: object, names: readonly string[]): boolean =>
  Object.keys(value).every((name) => names.includes(name));

/** A plain request: `tools/list` or `tools/call`, with nothing in it that could need a refusal. */
interface Plain {
  id: string | number;
  era: 2025 | 2026;
  /** Undefined for tools/list. */
  call: { name: string; args: Record<string, unknown> } | undefined;
  method: string;
}

/** Reads a plain request from a message, without a look at its `_meta`. */
function readPlain(message: unknown): (Omit<Plain, "era"> & { meta: unknown }) | undefined {
  if (!isObject(message) || !hasOnly(message, ["jsonrpc", "id", "method", "params"])) return undefined;
  const { jsonrpc, id, method, params = {} } = message;
  if (jsonrpc !== "2.0" || !(typeof id === "string" || Number.isSafeInteger(id)) || !isObject(params)) return undefined;
  const basis = { id: id as string | number, meta: params._meta };
  if (method === "tools/list") return hasOnly(params, ["_meta"]) ? { ...basis, method, call: undefined } : undefined;
  if (method !== "tools/call" || !hasOnly(params, ["name", "arguments", "_meta"])) return undefined;
  const { name, arguments: args = {} } = params;
  return typeof name === "string" && isObject(args) ? { ...basis, method, call: { name, args } } : undefined;
}

/** In the revisions of 2025, `_meta` may have a token for reports of progress. This server sends no such reports. */
const isPlainMeta = (meta: unknown): boolean =>
  meta === undefined ||
  (isObject(meta) &&
    hasOnly(meta, ["progressToken"]) &&
    (typeof meta.progressToken === "string" || Number.isSafeInteger(meta.progressToken)));

/** Envelopes that the SDK accepted, as JSON. A client sends the same with each request. */
const rightEnvelopes = new Set<string>();
const MOST_ENVELOPES = 64;
const LONGEST_ENVELOPE = 4_000;

/** True when the SDK accepts the request as one of revision 2026-07-28. */
function isValid2026(method: string, meta: unknown, body: unknown): boolean {
  const envelope = JSON.stringify(meta) ?? "";
  if (rightEnvelopes.has(envelope)) return true;
  const headers = { httpMethod: "POST", protocolVersionHeader: REVISION_2026, mcpMethodHeader: method };
  const route = classifyInboundRequest({ ...headers, body });
  if (route.kind !== "modern" || route.classification.revision !== REVISION_2026) return false;
  if (envelope.length <= LONGEST_ENVELOPE) {
    if (rightEnvelopes.size >= MOST_ENVELOPES) rightEnvelopes.clear();
    rightEnvelopes.add(envelope);
  }
  return true;
}

/**
 * Reads a plain request. Undefined for any other, also when a header that its revision requires is missing or wrong.
 */
function plainRequest({ headers }: Request, body: unknown): Plain | undefined {
  const message = readPlain(body);
  if (!message) return undefined;
  const { id, method, call, meta } = message;
  const protocolVersionHeader = headers.get("mcp-protocol-version");
  if (REVISIONS_2025.has(protocolVersionHeader)) {
    const accept = headers.get("accept") ?? "";
    const isPlain = accept.includes("application/json") && accept.includes("text/event-stream") && isPlainMeta(meta);
    return isPlain ? { id, method, call, era: 2025 } : undefined;
  }
  if (protocolVersionHeader !== REVISION_2026 || headers.get("mcp-method") !== method) return undefined;
  if (call && headers.get("mcp-name") !== call.name) return undefined;
  return isValid2026(method, meta, body) ? { id, method, call, era: 2026 } : undefined;
}

/**
 * `listTools` and `callTool` get the request and the caller that `respond` was given. `callTool` returns the fields of
 * the result as JSON, or undefined for an unknown tool.
 */
export function createProtocol<Caller>(served: {
  server: { name: string; title: string; version: string };
  instructions: string;
  listTools(caller: Caller): Tool[];
  callTool(name: string, args: Record<string, unknown>, caller: Caller, request: Request): Promise<string> | undefined;
}) {
  const { server: info, instructions } = served;
  /** The fields that results have in revision 2026-07-28 alone. */
  const of2026 = `,"resultType":"complete","_meta":${JSON.stringify({ [SERVER_INFO_META_KEY]: info })}`;

  function makeServer(request: Request, caller: Caller): Server {
    const server = new Server(info, {
      capabilities: { tools: {} },
      instructions,
      cacheHints: { "tools/list": KEEP, "server/discover": KEEP },
    });
    server.setRequestHandler("tools/list", () => ({ tools: served.listTools(caller) }));
    server.setRequestHandler("tools/call", async ({ params }) => {
      const result = await served.callTool(params.name, params.arguments ?? {}, caller, request);
      if (result) return JSON.parse(`{${result}}`);
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name.slice(0, 80)}`);
    });
    return server;
  }

  /** Responds to a plain request; undefined for an unknown tool. */
  async function respondPlain(plain: Plain, request: Request, caller: Caller): Promise<Response | undefined> {
    const { id, era, call } = plain;
    const result = call
      ? await served.callTool(call.name, call.args, caller, request)
      : JSON.stringify({ tools: served.listTools(caller), ...(era === 2026 && KEEP) }).slice(1, -1);
    if (result === undefined) return undefined;
    const body = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${result}${era === 2026 ? of2026 : ""}}}`;
    return new Response(body, { headers: { "content-type": "application/json" } });
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
      const plain = plainRequest(request, message);
      const response = plain && (await respondPlain(plain, request, caller));
      if (response) return response;
      if (await isLegacyRequest(request, message)) return respond2025(request, message, caller);
      callers.set(request, caller);
      return modern.fetch(request, { parsedBody: message });
    },
    /** Responds to a body that is not one message. */
    respondFault: (kind: "unreadable" | "batch", reason: string): Response =>
      faultOf(kind === "batch" ? ProtocolErrorCode.InvalidRequest : ProtocolErrorCode.ParseError, reason),
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
