/**
 * The Model Context Protocol over stateless Streamable HTTP, by its own SDK; the only file that knows it.
 *
 * One endpoint serves two eras. In revision 2026-07-28 every request names its version; in those of 2025 a client begins
 * with `initialize`. Nothing is kept between requests in either. The SDK makes a server for each request, which costs
 * several times what the request itself does. So the two methods that agents live by go to one long-lived server an era,
 * in which they leave no trace, when nothing about them needs to be refused; everything else, and every refusal, takes
 * the SDK's way.
 *
 * Invariant: no message of a client but those requests, under ids of ours, ever reaches a long-lived server: a
 * cancellation or an `initialize` would concern other clients.
 */
import {
  classifyInboundRequest,
  createMcpHandler,
  isJSONRPCRequest,
  isLegacyRequest,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type MessageClassification,
  PerRequestHTTPServerTransport,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type Tool,
  type Transport,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

/** What is served under the protocol. `request`: as it was given to `answer`. */
export interface Served {
  server: { name: string; title: string; version: string };
  instructions: string;
  listTools(request: Request): Tool[];
  /** The result, or undefined when there is no such tool. */
  callTool(name: string, args: Record<string, unknown>, request: Request): Promise<Record<string, unknown>> | undefined;
}

export interface Protocol {
  /** Answers a message, parsed: as an HTTP response, or as the JSON of one with status 200. */
  answer(request: Request, message: unknown): Promise<Response | object>;
  /** Answers a body that is no message, for the reason given. */
  answerFault(kind: "unreadable" | "batch", reason: string): Response;
  /** Ends subscriptions. */
  stop(): Promise<void>;
}

const REVISION_2026 = "2026-07-28";
const REVISIONS_2025 = new Set<string | null>([null, "2025-03-26", "2025-06-18", "2025-11-25"]);
const COMMON_METHODS = new Set(["tools/call", "tools/list"]);

/** The list depends on the key's scopes and this version alone; a client may keep it so long, in ms. */
const KEEP_MS = 3_600_000;
const KEEP = { ttlMs: KEEP_MS, cacheScope: "private" } as const;

/** Streams of `subscriptions/listen`: there is nothing to subscribe to, so few are needed. */
const MOST_SUBSCRIPTIONS = 32;

/** Requests on their way through a long-lived server, by the ids that they have there. */
class Exchange {
  #last = 0;
  readonly #open = new Map<unknown, (message: JSONRPCMessage) => void>();

  /** Hands a request on under an id of its own; resolves with the answer to it, under the client's. */
  async pass(request: JSONRPCRequest, hand: (request: JSONRPCRequest) => void): Promise<object> {
    const id = ++this.#last;
    const answer = await new Promise<JSONRPCMessage>((resolve) => {
      this.#open.set(id, resolve);
      hand({ ...request, id });
    });
    return { ...answer, id: request.id };
  }

  settle(message: JSONRPCMessage): void {
    if (!("id" in message) || "method" in message) return;
    this.#open.get(message.id)?.(message);
    this.#open.delete(message.id);
  }
}

/** A way into a server of the 2025 era that stays open. */
class Way2025 implements Transport {
  readonly #exchange = new Exchange();
  onmessage?: NonNullable<Transport["onmessage"]>;
  async start(): Promise<void> {}
  async close(): Promise<void> {}
  async send(message: JSONRPCMessage): Promise<void> {
    this.#exchange.settle(message);
  }
  pass = (message: JSONRPCRequest, request: Request): Promise<object> =>
    this.#exchange.pass(message, (own) => this.onmessage?.(own, { request }));
}

/** The same in the era of 2026, to which the SDK binds a server by the class of its transport. */
class Way2026 extends PerRequestHTTPServerTransport {
  readonly #exchange = new Exchange();
  override async send(message: JSONRPCMessage): Promise<void> {
    this.#exchange.settle(message);
  }
  pass = (message: JSONRPCRequest, request: Request, classification: MessageClassification): Promise<object> =>
    this.#exchange.pass(message, (own) => this.onmessage?.(own, { request, classification }));
}

const faultOf = (code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status: 400 });

/** A request for one of the common methods that says of itself what the revisions of 2025 want said, all of it right. */
function isPlain2025({ headers }: Request, message: unknown): message is JSONRPCRequest {
  const accept = headers.get("accept") ?? "";
  return (
    REVISIONS_2025.has(headers.get("mcp-protocol-version")) &&
    accept.includes("application/json") &&
    accept.includes("text/event-stream") &&
    isJSONRPCRequest(message) &&
    COMMON_METHODS.has(message.method) &&
    message.params?._meta?.[PROTOCOL_VERSION_META_KEY] === undefined
  );
}

/** The same for the revision of 2026: the request with its classification. */
function plain2026({ headers }: Request, body: unknown) {
  const mcpMethodHeader = headers.get("mcp-method") ?? "";
  const protocolVersionHeader = headers.get("mcp-protocol-version");
  if (protocolVersionHeader !== REVISION_2026 || !COMMON_METHODS.has(mcpMethodHeader)) return undefined;
  const route = classifyInboundRequest({ httpMethod: "POST", protocolVersionHeader, mcpMethodHeader, body });
  if (route.kind !== "modern" || route.messageKind !== "request") return undefined;
  const { message, classification } = route;
  const named = message.method !== "tools/call" || headers.get("mcp-name") === message.params?.name;
  return named && classification.revision === REVISION_2026 ? { message, classification } : undefined;
}

export async function createProtocol(served: Served): Promise<Protocol> {
  const { server: info, instructions } = served;

  /** `requestOf`: the HTTP request that a message came with. */
  function makeServer(requestOf: (context: ServerContext) => Request | undefined, versions?: string[]): Server {
    const server = new Server(info, {
      capabilities: { tools: {} },
      instructions,
      cacheHints: { "tools/list": KEEP, "server/discover": KEEP },
      ...(versions && { supportedProtocolVersions: versions }),
    });
    const given = (context: ServerContext): Request => {
      const request = requestOf(context);
      if (!request) throw new Error("a message came without its request");
      return request;
    };
    server.setRequestHandler("tools/list", (_message, context) => ({ tools: served.listTools(given(context)) }));
    server.setRequestHandler("tools/call", async ({ params }, context) => {
      const result = await served.callTool(params.name, params.arguments ?? {}, given(context));
      if (result) return { content: [], ...result };
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name.slice(0, 80)}`);
    });
    return server;
  }

  const requestOfContext = ({ http }: ServerContext) => http?.req;
  const way2025 = new Way2025();
  await makeServer(requestOfContext).connect(way2025);
  const way2026 = new Way2026({ classification: { era: "modern", revision: REVISION_2026 } });
  await makeServer(requestOfContext, [REVISION_2026]).connect(way2026);

  const modern = createMcpHandler(({ requestInfo }) => makeServer(() => requestInfo), {
    legacy: "reject",
    maxSubscriptions: MOST_SUBSCRIPTIONS,
  });

  /** As the SDK's own stateless fallback, but answered in JSON: a stream for one message costs more than the message. */
  async function answer2025(request: Request, parsedBody: unknown): Promise<Response> {
    const server = makeServer(() => request);
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
    async answer(request, message) {
      const plain = plain2026(request, message);
      if (plain) return way2026.pass(plain.message, request, plain.classification);
      if (isPlain2025(request, message)) return way2025.pass(message, request);
      return (await isLegacyRequest(request, message))
        ? answer2025(request, message)
        : modern.fetch(request, { parsedBody: message });
    },
    answerFault: (kind, reason) =>
      faultOf(kind === "batch" ? ProtocolErrorCode.InvalidRequest : ProtocolErrorCode.ParseError, reason),
    stop: () => modern.close(),
  };
}
