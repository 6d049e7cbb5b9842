/**
 * The one error class for refusals, and the table from its codes to HTTP status (rules: Errors).
 *
 * Any other error is a fault of the server: it is logged whole and shown as `server_error`.
 */

/** The stable error codes, each with its HTTP status. */
export const STATUS_OF_CODE = {
  bad_request: 400,
  unauthorized: 401,
  missing_scope: 403,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  idempotency_in_progress: 409,
  idempotency_key_reused: 422,
  payload_too_large: 413,
  unprocessable: 422,
  locked: 423,
  rate_limited: 429,
  insufficient_storage: 507,
  server_error: 500,
  upstream_failed: 502,
} as const;

export type ErrorCode = keyof typeof STATUS_OF_CODE;

/** A refusal with a stable code. The message tells people what to change. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** Seconds after which trying again makes sense. */
  readonly retryAfter: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { status?: number; retryAfter?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status ?? STATUS_OF_CODE[code];
    this.retryAfter = options.retryAfter;
  }
}

/** This server may not write any more, because another has taken over or may do so, and ends at once. */
export class Fenced extends Error {
  override readonly name = "Fenced";
  /** Another has taken over: starting again changes nothing. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.isFinal = isFinal;
  }
}

/**
 * Brief unavailability: store busy, disk full, stopping (rules: Unavailable). 503 over HTTP, 452 or 421 over SMTP.
 * The code that throws it has changed nothing.
 */
export function unavailable(message: string, cause?: unknown): AppError {
  return new AppError("server_error", message, { status: 503, retryAfter: 5, cause });
}

export function isUnavailable(error: unknown): error is AppError {
  return error instanceof AppError && error.code === "server_error" && error.status === 503;
}

/** The refusal of a write on a standby, which is as it should be: 503 over HTTP, with where the server is. */
export class StandbyRefusal extends AppError {
  constructor(message: string) {
    // Whoever takes over does so by hand, which takes a while.
    super("server_error", message, { status: 503, retryAfter: 30 });
  }
}

/** A wrong setting or environment variable. The operator sees it, clients never do. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** Thrown by a command for wrong usage: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
