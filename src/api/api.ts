/** The operations for who has a key, as REST and as MCP behind one gate: the parts of this folder, made once and joined. */
import { findCaller } from "../access/credentials.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { createGate, type GateParts } from "./gate.ts";
import { createMcp, type McpParts } from "./mcp.ts";
import { describeApi } from "./openapi.ts";
import { OPERATIONS } from "./operations/all.ts";
import { API_PREFIX, createRest, type Rest, type RestParts } from "./rest.ts";

export interface ApiParts
  extends Omit<McpParts, "operations" | "gate" | "runtime">,
    Pick<GateParts, "slowdown" | "touchKey">,
    Pick<RestParts, "sourceOf"> {
  store: Store;
  options: Options;
  runtime: McpParts["runtime"] & { now(): number };
}

export interface Api {
  rest: Rest;
  /** Answers the calls that wait. */
  stop(): Promise<void>;
}

export function createApi(parts: ApiParts): Api {
  const { store, runtime, baseUrl } = parts;
  const gate = createGate({ ...parts, findCaller: (key) => findCaller(store.db, key), now: runtime.now });
  const mcp = createMcp({ ...parts, operations: OPERATIONS, gate });
  const describe = () => describeApi(OPERATIONS, baseUrl, API_PREFIX);
  return { rest: createRest({ ...parts, operations: OPERATIONS, describe, gate, mcp }), stop: mcp.stop };
}
