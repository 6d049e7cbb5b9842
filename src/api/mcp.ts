/**
 * Serves the operations to AI agents: an MCP server behind the same gate as REST (rules: MCP). In mcp/ are the protocol
 * (protocol.ts), the operations as tools (tools.ts), a call (call.ts), and the results that a model sees (render.ts).
 *
 * Invariant: one HTTP request is one message. Only revision 2025-03-26 has batches; they are refused, because a hundred
 * calls would pass the gate as one.
 */
import { isIP } from "node:net";
import { version } from "../../package.json" with { type: "json" };
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Operation } from "../operations/operation.ts";
import type { OperationServices } from "../operations/perform.ts";
import type { Core } from "../store/core.ts";
import * as cors from "./cors.ts";
import type { Admitted, Gate } from "./key-gate.ts";
import { createToolCalls } from "./mcp/call.ts";
import { FENCE_EXPLAINED } from "./mcp/fence.ts";
import { createMcpProtocol, findMcpClientName, isToolCall } from "./mcp/protocol.ts";
import { createTools } from "./mcp/tools.ts";
import { methodNotAllowedResponse } from "./methods.ts";
import type { Pools } from "./pools.ts";
import { readJson } from "./request.ts";
import type { Waiting } from "./waiting.ts";

/** Instructions that the server gives a model at the start. The model keeps them in its context, so they are short. */
export const INSTRUCTIONS = `Mail of a workspace's mailboxes.
${FENCE_EXPLAINED}
Results are cut to maxChars and say so, with the argument that gives the rest (offset, before, cursor). Lists hold snippets: get_message and get_thread hold text. Reading marks nothing read.
Before sending, be sure that your user wants it: mail cannot be called back. Give each message its own idempotencyKey, and repeat it when you retry. draft_reply leaves sending to a person.
Errors carry a stable code and what to do next.`;

/** Bytes for the envelope around the arguments, beyond the largest body of an operation. */
const ENVELOPE_BYTES = 64 * 1024;

const SERVER = { name: "mailroom", title: "Mailroom", version };

export type Mcp = ReturnType<typeof createMcp>;

export function createMcp(
  parts: OperationServices & {
    pools: Pick<Pools, "bodies">;
    operations: readonly Operation[];
    gate: Pick<Gate, "readmit">;
    waiting: Pick<Waiting, "of">;
  },
) {
  const { core, operations, gate } = parts;
  const checkOrigin = createOriginCheck(core);
  const tools = createTools(operations);
  const call = createToolCalls(parts);
  const clients = createClientNames();
  const largestBody = ENVELOPE_BYTES + Math.max(...operations.map(({ largestBody: bytes = 0 }) => bytes));

  const protocol = createMcpProtocol<Admitted>({
    server: SERVER,
    instructions: INSTRUCTIONS,
    listTools: ({ caller }) => tools.listFor(caller.scopes),
    callTool(name, args, { caller, refusal }, request) {
      const tool = tools.find(name);
      return (
        tool &&
        call(tool, args, {
          request,
          caller,
          refusal,
          readmit: () => gate.readmit(request.headers.get("authorization"), caller),
        })
      );
    },
  });

  function respondToMessage(request: Request, admitted: Admitted): Promise<Response> {
    const { caller, refusal } = admitted;
    return parts.pools.bodies.within(caller, async (count) => {
      let message: unknown;
      try {
        message = await readJson(request, largestBody, count);
      } catch (error) {
        // JSON-RPC reports a body that is not JSON (§5.1); HTTP reports one that is too large.
        if (!(error instanceof AppError) || error.code !== "bad_request") throw error;
        return protocol.respondFault("unreadable", error.message);
      }
      // The body may have taken long, and the key may be revoked by now.
      gate.readmit(request.headers.get("authorization"), caller);
      if (Array.isArray(message)) {
        return protocol.respondFault("batch", "Batches are not served: send one message a request");
      }
      if (refusal && !isToolCall(message)) return protocol.respondRefusal(message, refusal);
      const client = clients.findClientName(caller, message);
      const named =
        client === undefined ? caller : { ...caller, origin: { face: "mcp", ...caller.origin, client } as const };
      return protocol.respond(request, message, { ...admitted, caller: named });
    });
  }

  /** Responses that are still to begin. */
  const underWay = new Set<Promise<Response>>();

  return {
    /**
     * Responds to a request of a caller whom the gate admitted. When the caller is over a rate, the server does
     * nothing, and the response is an MCP message with the seconds to wait: a refusal by HTTP would end the client's
     * session.
     * @throws AppError for a request that is not an MCP message
     */
    async respond(request: Request, admitted: Admitted): Promise<Response> {
      checkOrigin(request.headers);
      if (request.method !== "POST") {
        // The server has no sessions to end, and no stream of its own (revision 2025-06-18, Streamable HTTP).
        return methodNotAllowedResponse(["POST"]);
      }
      const response = respondToMessage(request, admitted);
      underWay.add(response);
      try {
        return await response;
      } finally {
        underWay.delete(response);
      }
    },
    /** Ends subscriptions, once the calls under way have their results: the SDK would break them off. */
    async stop(): Promise<void> {
      await Promise.allSettled(underWay);
      await protocol.stop();
    },
  };
}

const LONGEST_NAME = 100;
const MOST_CLIENTS = 1_000;

/**
 * Remembers what clients call themselves. In revision 2026-07-28 each request says it; a client of 2025 says it once, in
 * `initialize`, so the latest name from the same key and source counts.
 */
function createClientNames() {
  const names = new Map<string, string>();
  return {
    /** The name of the client that sent a message, cut to LONGEST_NAME characters; undefined if it did not say. */
    findClientName({ keyId, origin }: Caller, message: unknown): string | undefined {
      const key = `${keyId} ${origin?.source}`;
      const said = findMcpClientName(message);
      if (said === undefined) return names.get(key);
      const name = [...said.replace(/\p{Cc}/gu, " ")].slice(0, LONGEST_NAME).join("");
      if (!names.has(key) && names.size >= MOST_CLIENTS) names.delete(names.keys().next().value as string);
      names.set(key, name);
      return name;
    },
  };
}

/** Names of this machine as URL spells them. */
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

const parseUrl = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined);

const isAddress = (hostname: string): boolean => isIP(hostname.replace(/^\[(.*)\]$/, "$1")) !== 0;

/**
 * Makes the check that a request was meant for this server (MCP: Streamable HTTP, Security Warning). A web page can
 * make a browser send requests here under a name that the page's owner lets point at this machine (DNS rebinding). Such
 * a request has that name as its Host, or the page's own Origin.
 *
 * Invariant: for programs, which send no Origin, the check looks at the Host alone. An IP address as Host passes, since
 * only a name can be rebound.
 *
 * Pages of allowed origins (cors.ts) may send requests, too. The check throws AppError forbidden.
 */
function createOriginCheck(core: Core): (headers: Headers) => void {
  const base = new URL(core.site.baseUrl);

  function isOurHost(host: string): boolean {
    const hostname = parseUrl(`http://${host}`)?.hostname;
    if (hostname === undefined) return false;
    return hostname === base.hostname || LOOPBACK.has(hostname) || isAddress(hostname);
  }

  function isOurOrigin(origin: string): boolean {
    const url = parseUrl(origin);
    return url !== undefined && (url.origin === base.origin || LOOPBACK.has(url.hostname));
  }

  /** The last host that passed: nearly every request has the same. */
  let known: string | null = null;

  return (headers) => {
    const host = headers.get("host");
    // No browser leaves out the Host.
    if (host !== known && host !== null && !isOurHost(host)) {
      throw new AppError("forbidden", `This server is not ${host}: use ${base.origin}, or set MAILROOM_BASE_URL`);
    }
    known = host;
    const origin = headers.get("origin");
    if (origin !== null && !isOurOrigin(origin) && !cors.allows(core, origin)) {
      throw new AppError(
        "forbidden",
        "Requests from pages of this Origin are refused: api.allowOrigins does not list it",
      );
    }
  };
}
