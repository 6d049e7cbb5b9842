/**
 * The description of an operation as an MCP tool. api/mcp derives the rest from the operation.
 *
 * Invariant: every agent pays for every word here on every turn, so the list of all tools stays under 3,000 tokens,
 * which test/api/mcp/tools.test.ts counts. An argument whose name says enough has no description, and a result is
 * described by its top-level fields alone.
 */
import { type ObjectSchema, type Schema, t } from "../base/json-schema.ts";

export interface ToolDescription {
  description: string;
  annotations: Record<string, boolean>;
  /** Descriptions of arguments whose names do not say enough. */
  about?: Record<string, string>;
  /** Arguments that shape the result rather than choose what it is about. */
  shaping?: ObjectSchema;
  /** Arguments of the operation that the tool does not have. */
  without?: readonly string[];
  /**
   * Body that the tool takes instead of the operation's: the same fields and more, for which a document of REST has no place.
   */
  instead?: { body: Schema; checkBody(body: never): void };
  /** Filters that take `true` alone. Models write `false` for a filter that they do not want. */
  trueOnly?: readonly string[];
  /** Top-level fields of the structured content, with their JSON types. */
  result: Record<string, string>;
}

/** The range of `maxChars`: characters of a result, as text and again as structured content. */
export const LEAST_CHARS = 4_000;
export const MOST_CHARS = 100_000;

/** The longest time that a call waits for mail. Many proxies give up on a response after 60 s. */
export const LONGEST_WAIT_SECONDS = 50;

/** openWorldHint: anybody may have written what the tool reads, as the instructions say. */
export const READS_MAIL = { readOnlyHint: true, openWorldHint: true };

export const maxChars = t.Optional(t.Integer({ minimum: LEAST_CHARS, maximum: MOST_CHARS }));
export const offset = t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
export const newTextOnly = t.Optional(t.Boolean());

export const TOTAL = "Result budget, default 24000";
export const GO_ON = "nextOffset of the cut result";
export const NEXT = "nextCursor of the page before, same filters";
