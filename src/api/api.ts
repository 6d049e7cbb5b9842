/** The API for callers with an API key: REST and MCP, joined behind one gate. */

import { getStoppedKeysVersion } from "../access/credentials.ts";
import type { Slowdown } from "../access/slowdown.ts";
import { latestEvent } from "../events/outbox.ts";
import { latestChange } from "../mailbox/changing/change-feed.ts";
import type { Operation } from "../operations/operation.ts";
import { createKeyGate } from "./key-gate.ts";
import { createMcp } from "./mcp.ts";
import { createRest, type Serving } from "./rest.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "./surfaces.ts";
import { createLongPolling } from "./waiting.ts";

interface ApiParts extends Serving {
  slowdown: Slowdown;
  /** Notes the use of a key, at a time in epoch ms. */
  touchKey(keyId: string, now: number): void;
  /** The reader that request.ts creates. */
  readClientAddress(peer: string | undefined, forwardedFor: string | null): string | undefined;
  /** The operations of mail; replaced in tests. */
  operations?: readonly Operation[];
}

export function createApi({ operations = MAIL_API.operations, ...parts }: ApiParts) {
  const gate = createKeyGate(parts.core, parts);
  const { db } = parts.core;
  const waiting = createLongPolling(parts.core, {
    places: parts.pools.waits,
    latest: () => [latestEvent(db), latestChange(db), getStoppedKeysVersion(db)].join(),
  });
  const mcp = createMcp({ ...parts, operations, gate, waiting });
  const surfaces = [{ ...MAIL_API, operations }, EXT_API, ADMIN_API];
  const rest = createRest({ ...parts, surfaces, gate, mcp, waiting });
  return {
    rest,
    /** Ends the requests that wait. */
    async stop(): Promise<void> {
      waiting.stop();
      await mcp.stop();
    },
  };
}
