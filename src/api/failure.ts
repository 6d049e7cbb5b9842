/**
 * Turns a failure into the error that a REST or MCP client gets (rules: Errors): a refusal unchanged, and anything else as
 * `server_error` with a trace id, under which the log holds the whole failure.
 */
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { asUnavailable } from "../store/store.ts";

/** Of the id that a failure is logged and shown with. */
const TRACE_BYTES = 8;

/** The refusal to answer with. `request`: what the log says of the request; never mail, never a key. */
export type ReadFailure = (error: unknown, request: Record<string, unknown>) => AppError;

export function createFailures({ runtime, log }: { runtime: Pick<Runtime, "randomBytes">; log: Log }): ReadFailure {
  return (error, request) => {
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
