/**
 * A failure as an answer to a page: `{error, code}`, as the REST API says it (rules: Errors), and `confirm: {code}`
 * where its person is to prove that it is them, with a code or without.
 */
import { NotFoundError } from "elysia";
import { Unconfirmed } from "../access/sessions.ts";
import { createFailures } from "../api/failure.ts";
import { pathOf } from "../api/target.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";

export type AnswerFailure = (error: unknown, request: Request) => Response;

export function createFailureAnswer(parts: { runtime: Pick<Runtime, "randomBytes">; log: Log }): AnswerFailure {
  const readFailure = createFailures(parts);
  return (error, { method, url }) => {
    const { status, message, code, retryAfter } =
      error instanceof NotFoundError
        ? new AppError("not_found", "There is nothing here")
        : readFailure(error, { method, path: pathOf(url) });
    return Response.json(
      { error: message, code, ...(error instanceof Unconfirmed && { confirm: error.confirm }) },
      { status, ...(retryAfter !== undefined && { headers: { "retry-after": String(Math.ceil(retryAfter)) } }) },
    );
  };
}
