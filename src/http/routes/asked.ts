/** What the app's routes read from a request, and how they answer. */
import { readJson } from "../../api/body.ts";
import type { Count } from "../../api/budget.ts";
import type { ObjectSchema, Static } from "../../operations/json-schema.ts";
import { checkOf } from "../../operations/shape.ts";
import type { Asked } from "../route.ts";

const MOST_BODY_BYTES = 65_536;

/**
 * Reads a body as the schema has it, for as long as the session goes on, counted in a budget if it may be large. It throws
 * as readJson does.
 */
export function bodyOf<S extends ObjectSchema>(
  schema: S,
  mostBytes = MOST_BODY_BYTES,
): (asked: Pick<Asked, "request"> & Partial<Pick<Asked, "requireSession">>, count?: Count) => Promise<Static<S>> {
  const check = checkOf(schema);
  return async ({ request, requireSession }, count) => {
    const given = await readJson(request, mostBytes, count);
    // Who sends it decides how long that takes.
    requireSession?.();
    check(given);
    return given as Static<S>;
  };
}

export const isoOf = (ms: number): string => new Date(ms).toISOString();
export const workspaceOf = ({ session }: Asked): string => session.caller.workspaceId;
export const done = (): Response => new Response(null, { status: 204 });
