/**
 * The operations for AI agents: an MCP server behind the gate of REST (rules: MCP). What is under mcp/: the protocol
 * (protocol.ts), the operations as tools (tools.ts), a call (call.ts), and how answers look to a model (render.ts).
 *
 * Invariant: one HTTP request is one message. A batch (revision 2025-03-26 alone had them) is refused, or a hundred calls
 * would pass the gate as one.
 */
import { version } from "../../package.json" with { type: "json" };
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { latestEvent } from "../events/arrivals.ts";
import type { Operation } from "../operations/operation.ts";
import type { Performing } from "../operations/perform.ts";
import type { Store } from "../store/store.ts";
import { readJson } from "./body.ts";
import type { Budget } from "./budget.ts";
import type { Admitted, Gate } from "./gate.ts";
import { createCalls } from "./mcp/call.ts";
import { INSTRUCTIONS } from "./mcp/instructions.ts";
import { createOriginCheck } from "./mcp/origin.ts";
import { createProtocol, isCall } from "./mcp/protocol.ts";
import { createTools } from "./mcp/tools.ts";
import { createWaiting } from "./mcp/waiting.ts";

export interface Mcp {
  /**
   * Answers a request to the endpoint of a caller whom the gate admitted. Over a rate nothing is done, and a client is told
   * in MCP's own words, with the seconds to wait: a refusal by HTTP would end its session. @throws AppError for what is no MCP
   */
  answer(request: Request, admitted: Admitted): Promise<Response>;
  /** Answers the calls that wait, and ends subscriptions. */
  stop(): Promise<void>;
}

export interface McpParts extends Performing {
  bodies: Budget;
  operations: readonly Operation[];
  gate: Pick<Gate, "readmit">;
  store: Pick<Store, "db" | "onCommit">;
  runtime: Pick<Runtime, "randomBytes" | "setTimer">;
  /** Public origin. */
  baseUrl: string;
  log: Log;
  /** HTTP connections that there may be. */
  mostConnections: number;
}

/** Beyond the largest body of an operation: the envelope around the arguments. */
const ENVELOPE_BYTES = 64 * 1024;

const SERVER = { name: "mailroom", title: "Mailroom", version };

export function createMcp(parts: McpParts): Mcp {
  const { operations, gate, store, baseUrl } = parts;
  const checkOrigin = createOriginCheck(baseUrl);
  const tools = createTools(operations);
  const waiting = createWaiting({ ...parts, latest: () => latestEvent(store.db) });
  const call = createCalls({ ...parts, waiting });
  const largestBody = ENVELOPE_BYTES + Math.max(...operations.map(({ largestBody: bytes = 0 }) => bytes));

  const protocol = createProtocol<Admitted>({
    server: SERVER,
    instructions: INSTRUCTIONS,
    listTools: ({ caller }) => tools.listFor(caller.scopes),
    callTool(name, args, { caller, refusal }, request) {
      const tool = tools.find(name);
      return (
        tool &&
        call(tool, args, {
          caller,
          refusal,
          readmit: () => gate.readmit(request.headers.get("authorization")),
          signal: () => request.signal,
        })
      );
    },
  });

  return {
    async answer(request, admitted) {
      checkOrigin(request.headers);
      if (request.method !== "POST") {
        // No session to end, and no stream of the server's own (revision 2025-06-18, Streamable HTTP).
        return Response.json(
          { error: "Send MCP messages here with POST", code: "bad_request" },
          { status: 405, headers: { allow: "POST" } },
        );
      }
      const { caller, refusal } = admitted;
      return parts.bodies.within(caller.userId, async (count) => {
        let message: unknown;
        try {
          message = await readJson(request, largestBody, count);
        } catch (error) {
          // A body that is no JSON is told in JSON-RPC (§5.1); one that is too large is a matter of HTTP.
          if (!(error instanceof AppError) || error.code !== "bad_request") throw error;
          return protocol.answerFault("unreadable", error.message);
        }
        // It may have been long on its way: the key may be revoked by now.
        gate.readmit(request.headers.get("authorization"));
        if (Array.isArray(message)) {
          return protocol.answerFault("batch", "Batches are not served: send one message a request");
        }
        if (refusal && !isCall(message)) return protocol.answerRefusal(message, refusal);
        return protocol.answer(request, message, admitted);
      });
    },
    async stop() {
      waiting.stop();
      await protocol.stop();
    },
  };
}
