/** Parts that administrative operations share. */
import type { UserEntry } from "../../admin/people.ts";
import * as people from "../../admin/people.ts";
import type { Core } from "../../store/core.ts";

/** Statuses that any administrative operation may refuse with, and those of one that writes. */
export const READ_ERRORS = [400, 401, 403, 404, 429] as const;
export const WRITE_ERRORS = [400, 401, 403, 404, 409, 413, 422, 429] as const;

/** Finds a person of a workspace by id or address. @throws AppError not_found */
export const getPersonByIdOrAddress = (core: Core, workspaceId: string, named: string): UserEntry =>
  named.includes("@")
    ? people.getUserByAddress(core, named, workspaceId)
    : people.getUserById(core, workspaceId, named);
