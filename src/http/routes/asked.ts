/** Helpers of the app's routes: bodies, parameters, responses. */
import { readJson } from "../../api/body.ts";
import type { Count } from "../../api/budget.ts";
import type { ObjectSchema, Static } from "../../operations/json-schema.ts";
import { checkOf } from "../../operations/shape.ts";
import type { Asked } from "../route.ts";

const MOST_BODY_BYTES = 65_536;

/**
 * Gives a reader of bodies with that schema. It checks the session again after the body has arrived, and counts large
 * bodies in a budget. It throws as readJson does.
 */
export function bodyOf<S extends ObjectSchema>(
  schema: S,
  mostBytes = MOST_BODY_BYTES,
): (asked: Pick<Asked, "request"> & Partial<Pick<Asked, "requireSession">>, count?: Count) => Promise<Static<S>> {
  const check = checkOf(schema);
  return async ({ request, requireSession }, count) => {
    const given = await readJson(request, mostBytes, count);
    // The client decides how long the body takes, so the session may have ended.
    requireSession?.();
    check(given);
    return given as Static<S>;
  };
}

export const workspaceOf = ({ session }: Asked): string => session.caller.workspaceId;
export const done = (): Response => new Response(null, { status: 204 });
