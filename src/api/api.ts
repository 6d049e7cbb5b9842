/** The operations, for callers with an API key, as REST and as MCP behind one gate: the parts of this folder, joined. */
import { findCaller } from "../access/credentials.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { createGate, type GateParts } from "./gate.ts";
import { createMcp, type McpParts } from "./mcp.ts";
import { createRest, type Rest, type RestParts } from "./rest.ts";
import { MAIL_API, SURFACES } from "./surfaces.ts";

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
  const { store, runtime } = parts;
  const gate = createGate({ ...parts, findCaller: (key) => findCaller(store.db, key), now: runtime.now });
  const mcp = createMcp({ ...parts, operations: MAIL_API.operations, gate });
  return { rest: createRest({ ...parts, surfaces: SURFACES, gate, mcp }), stop: mcp.stop };
}
