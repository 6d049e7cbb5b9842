/**
 * Turns an error into the AppError that a client of REST, MCP or the app is told (rules: Errors). One with a status
 * below 500 stays as it is. Any other error is logged whole under a trace id; if it is no AppError, the client gets
 * `server_error` with that id.
 */
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { asUnavailable } from "../store/store.ts";

const TRACE_BYTES = 8;

/** The `request` that the reader is given is logged with the error, so it never has mail or a key. */
export function createFailureReader({ runtime, log }: { runtime: Pick<Runtime, "randomBytes">; log: Log }) {
  return (error: unknown, request: Record<string, unknown>): AppError => {
    const known = asUnavailable(error);
    if (known instanceof AppError && known.status < 500) return known;
    const trace = Buffer.from(runtime.randomBytes(TRACE_BYTES)).toString("hex");
    if (known instanceof AppError) {
      log.warn("a request to the API could not be served", { trace, ...request, error });
      return known;
    }
    log.error("a request to the API failed", { trace, ...request, error });
    return new AppError("server_error", `Something failed on our side. It is safe to try again. Trace: ${trace}`);
  };
}
