/** What administrative operations share. */
import type { People, UserEntry } from "../../admin/people.ts";
import { t } from "../json-schema.ts";

/** Statuses that any administrative operation may refuse with, and those of one that writes. */
export const READ_ERRORS = [400, 401, 403, 404, 429] as const;
export const WRITE_ERRORS = [400, 401, 403, 404, 409, 413, 422, 429] as const;

/** A body with no other fields than these: others are refused, since nothing would come of them. */
export const bodyOf = <P extends Parameters<typeof t.Object>[0]>(fields: P, options: { minProperties?: number } = {}) =>
  t.Object(fields, { additionalProperties: false, ...options });

/** The answer to a request after which there is nothing to tell. */
export const Done = t.Object({ ok: t.Boolean({ description: "Always true" }) });
export const DONE = { ok: true };

/** `/{id}` of a resource. */
export const BY_ID = t.Object({ id: t.String() });

/** An epoch time (ms) as answers have it; null stays null. */
export const isoOf = (ms: number): string => new Date(ms).toISOString();
export const maybeIsoOf = (ms: number | null): string | null => (ms === null ? null : isoOf(ms));

/** Finds a person of a workspace by id or address. @throws AppError not_found */
export const personNamed = (
  people: Pick<People, "userAt" | "userIn">,
  workspaceId: string,
  named: string,
): UserEntry => (named.includes("@") ? people.userAt(named, workspaceId) : people.userIn(workspaceId, named));
