/** What the app's routes read from a request, and how they answer. */
import { readJson } from "../../api/body.ts";
import type { ObjectSchema, Static } from "../../api/json-schema.ts";
import { checkOf } from "../../api/shape.ts";
import type { Asked } from "../route.ts";

const MOST_BODY_BYTES = 65_536;

/** Reads a body as the schema has it. It throws AppError bad_request, payload_too_large. */
export function bodyOf<S extends ObjectSchema>(
  schema: S,
  mostBytes = MOST_BODY_BYTES,
): (asked: Pick<Asked, "request">) => Promise<Static<S>> {
  const check = checkOf(schema);
  return async ({ request }) => {
    const given = await readJson(request, mostBytes);
    check(given);
    return given as Static<S>;
  };
}

export const isoOf = (ms: number): string => new Date(ms).toISOString();
export const workspaceOf = ({ session }: Asked): string => session.caller.workspaceId;
export const done = (): Response => new Response(null, { status: 204 });
