/**
 * Turns an error into the AppError that a client of REST, MCP or the app is told (rules: Errors). One with a status
 * below 500 stays as it is. Any other error is logged whole with the id of its request; if it is no AppError, the client
 * gets `server_error` with that id.
 */
import { AppError, StandbyRefusal } from "../base/errors.ts";
import type { Core } from "../store/core.ts";
import { asUnavailable } from "../store/store.ts";
import { requestTraceId } from "./request.ts";

/** `fields` are logged with the error, so they never have mail or a key. */
export function toClientError(
  { log }: Core,
  error: unknown,
  request: Request,
  fields: Record<string, unknown>,
): AppError {
  const known = asUnavailable(error);
  if (known instanceof StandbyRefusal || (known instanceof AppError && known.status < 500)) return known;
  const trace = requestTraceId(request);
  if (known instanceof AppError) {
    log.warn("a request to the API could not be served", { trace, ...fields, error });
    return known;
  }
  log.error("a request to the API failed", { trace, ...fields, error });
  return new AppError("server_error", `Something failed on our side. It is safe to try again. Trace: ${trace}`);
}
