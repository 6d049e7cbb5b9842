/**
 * The Model Context Protocol over stateless Streamable HTTP, by its own SDK; the only file that knows it.
 *
 * One endpoint serves two eras. In revision 2026-07-28 every request names its version; in those of 2025 a client begins
 * with `initialize`. Nothing is kept between requests in either. The SDK makes a server for each request and reads every
 * message and result against a schema several times, which costs more than most calls do. So the two methods that agents
 * live by are answered here, when nothing about them could need a refusal; everything else takes the SDK's way.
 *
 * Invariant: such a request is answered as by the SDK, and none that the SDK would refuse is.
 */
import {
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

/** What is served under the protocol. `request` and `caller`: as they were given to `answer`. */
export interface Served<Caller> {
  server: { name: string; title: string; version: string };
  instructions: string;
  listTools(caller: Caller): Tool[];
  /** The fields of the result, as JSON; or undefined when there is no such tool. */
  callTool(name: string, args: Record<string, unknown>, caller: Caller, request: Request): Promise<string> | undefined;
}

export interface Protocol<Caller> {
  /** Answers a message, parsed. */
  answer(request: Request, message: unknown, caller: Caller): Promise<Response>;
  /** Answers a body that is no message, for the reason given. */
  answerFault(kind: "unreadable" | "batch", reason: string): Response;
  /**
   * Refuses for a time a message that is no call, without looking at it closely: a request with an error of JSON-RPC, which
   * leaves a client its session; a notification asks for nothing.
   */
  answerRefusal(
    message: unknown,
    refusal: { code: string; message: string; retryAfter?: number | undefined },
  ): Response;
  /** Ends subscriptions. */
  stop(): Promise<void>;
}

const REVISION_2026 = "2026-07-28";
const REVISIONS_2025 = new Set<string | null>([null, "2025-03-26", "2025-06-18", "2025-11-25"]);

/** The list depends on the key's scopes and this version alone; a client may keep it so long, in ms. */
const KEEP_MS = 3_600_000;
const KEEP = { ttlMs: KEEP_MS, cacheScope: "private" } as const;

/** Streams of `subscriptions/listen`: there is nothing to subscribe to, so few are needed. */
const MOST_SUBSCRIPTIONS = 32;

/** Of those that JSON-RPC leaves to servers (§5.1), none that MCP or its SDKs have a meaning for. */
const RATE_LIMITED = -32_005;

/** Whether a tool is to be called. */
export const isCall = (message: unknown): boolean =>
  isObject(message) && message.method === "tools/call" && message.id !== undefined;

const faultOf = (code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status: 400 });

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const hasOnly = (value: object, names: readonly string[]): boolean =>
  Object.keys(value).every((name) => names.includes(name));

/** A request for one of the two common methods, with nothing in it that could need a refusal. */
interface Plain {
  id: string | number;
  era: 2025 | 2026;
  /** Undefined for tools/list. */
  call: { name: string; args: Record<string, unknown> } | undefined;
  method: string;
}

/** The message as one, whatever its `_meta` says. */
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

/** In the revisions of 2025 `_meta` may name a token for reports of progress; here there are none. */
const isPlainMeta = (meta: unknown): boolean =>
  meta === undefined ||
  (isObject(meta) &&
    hasOnly(meta, ["progressToken"]) &&
    (typeof meta.progressToken === "string" || Number.isSafeInteger(meta.progressToken)));

/** Envelopes that the SDK found right, as JSON: a client sends the same with each request. */
const rightEnvelopes = new Set<string>();
const MOST_ENVELOPES = 64;
const LONGEST_ENVELOPE = 4_000;

/** Whether the SDK takes the request for one of the revision of 2026. */
function isRight2026(method: string, meta: unknown, body: unknown): boolean {
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

/** The request if it is a plain one: its headers say what its revision wants said, all of it right. */
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
  return isRight2026(method, meta, body) ? { id, method, call, era: 2026 } : undefined;
}

export function createProtocol<Caller>(served: Served<Caller>): Protocol<Caller> {
  const { server: info, instructions } = served;
  /** What results of 2026 have beside those of 2025. */
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

  /** The answer to a plain request; undefined when there is no such tool. */
  async function answerPlain(plain: Plain, request: Request, caller: Caller): Promise<Response | undefined> {
    const { id, era, call } = plain;
    const result = call
      ? await served.callTool(call.name, call.args, caller, request)
      : JSON.stringify({ tools: served.listTools(caller), ...(era === 2026 && KEEP) }).slice(1, -1);
    if (result === undefined) return undefined;
    const body = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${result}${era === 2026 ? of2026 : ""}}}`;
    return new Response(body, { headers: { "content-type": "application/json" } });
  }

  /** Of requests on the SDK's way, which hands on nothing else. */
  const callers = new WeakMap<Request, Caller>();

  function makeModern({ requestInfo }: { requestInfo?: Request }): Server {
    const caller = requestInfo && callers.get(requestInfo);
    if (!requestInfo || !caller) throw new Error("a message came without its request");
    return makeServer(requestInfo, caller);
  }

  const modern = createMcpHandler(makeModern, { legacy: "reject", maxSubscriptions: MOST_SUBSCRIPTIONS });

  /** As the SDK's own stateless fallback, but answered in JSON: a stream for one message costs more than the message. */
  async function answer2025(request: Request, parsedBody: unknown, caller: Caller): Promise<Response> {
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
    async answer(request, message, caller) {
      const plain = plainRequest(request, message);
      const answer = plain && (await answerPlain(plain, request, caller));
      if (answer) return answer;
      if (await isLegacyRequest(request, message)) return answer2025(request, message, caller);
      callers.set(request, caller);
      return modern.fetch(request, { parsedBody: message });
    },
    answerFault: (kind, reason) =>
      faultOf(kind === "batch" ? ProtocolErrorCode.InvalidRequest : ProtocolErrorCode.ParseError, reason),
    answerRefusal(message, { code, message: text, retryAfter }) {
      const { id, method } = isObject(message) ? message : {};
      if (method === undefined || (typeof id !== "string" && typeof id !== "number")) {
        return new Response(null, { status: 202 });
      }
      const error = { code: RATE_LIMITED, message: text, data: { code, retryAfter } };
      return Response.json({ jsonrpc: "2.0", error, id });
    },
    stop: () => modern.close(),
  };
}
