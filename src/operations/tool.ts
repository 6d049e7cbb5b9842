/**
 * How an operation shows itself to a model as an MCP tool, beside what api/mcp makes of it by itself.
 *
 * Invariant: every word here is paid for by every agent on every turn. The whole list stays under 3,000 tokens, which
 * test/api/mcp-tools.test.ts counts: what a model can guess from a name has no description, and what a result holds is
 * told by its top-level fields alone.
 */
import { type ObjectSchema, t } from "./json-schema.ts";

export interface ToolDescription {
  description: string;
  annotations: Record<string, boolean>;
  /** Descriptions of arguments, where the name does not say it. */
  about?: Record<string, string>;
  /** Arguments that shape the result rather than choose what it is about. */
  shaping?: ObjectSchema;
  /** The operation's own arguments that the tool has no use for. */
  without?: readonly string[];
  /** Top-level fields of what is rendered, with their JSON types. */
  result: Record<string, string>;
}

/** Characters that a result may be asked to have, as text and again as structured content. */
export const LEAST_CHARS = 4_000;
export const MOST_CHARS = 100_000;

/** How long a call may wait for mail: proxies commonly give up on a response after 60 s. */
export const LONGEST_WAIT_SECONDS = 50;

/** What mail says comes from anybody, so reading it opens to the world; the instructions say so. */
export const READS_MAIL = { readOnlyHint: true, openWorldHint: true };

export const maxChars = t.Optional(t.Integer({ minimum: LEAST_CHARS, maximum: MOST_CHARS }));
export const offset = t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
export const newTextOnly = t.Optional(t.Boolean());

export const TOTAL = "Result budget, default 24000";
export const GO_ON = "nextOffset of the cut result";
export const NEXT = "nextCursor of the page before, same filters";
