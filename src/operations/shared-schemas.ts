/** Schemas and helpers that several operations have in common. */
import { AppError } from "../base/errors.ts";
import { type Fields, filledStringSchema, type ObjectSchema, t } from "../base/json-schema.ts";
import { readTimeField } from "../base/time.ts";
import { LONGEST_KEY } from "./idempotency.ts";

/** The schema of a body whose unknown fields are refused, since nothing would come of them (rules: Parameters). */
export const strictBody = <F extends Fields>(fields: F, options: { minProperties?: number } = {}) =>
  t.Object(fields, { additionalProperties: false, ...options });

/** Schema and value of the answer of an operation that has nothing to tell. */
export const Done = t.Object({ ok: t.Boolean({ description: "Always true" }) });
export const DONE = { ok: true };

/** Path parameters of a resource. */
export const BY_ID = t.Object({ id: filledStringSchema() });

const YEAR_MS = 366 * 86_400_000;

/** Reads a time in the year to come, as epoch ms. @throws AppError bad_request */
export function readTimeInComingYear(field: string, text: string, now: number): number {
  const until = readTimeField(field, text);
  if (until > now && until < now + YEAR_MS) return until;
  throw new AppError("bad_request", `${field} must be a time within the year to come`);
}

export const Failure = t.Object(
  {
    error: t.String({ description: "For people; may change" }),
    code: t.String({ description: "Stable: branch on it" }),
  },
  { $id: "Error" },
);

/** An idempotency key, in the header or in the body (rules: Idempotency). */
export const IdempotencyKey = t.String({
  minLength: 1,
  maxLength: LONGEST_KEY,
  description:
    "Printable ASCII, of your choosing, one for each message: a request that is repeated with the same key is answered as the first time, and nothing is sent again. Kept for 24 hours after success; a refused request leaves the key unused",
});

const idempotencyKey = t.Optional(
  t.String({ minLength: 1, maxLength: LONGEST_KEY, description: "Alternative to the header Idempotency-Key" }),
);

/** The schema of a request that may have its idempotency key in the body (rules: Idempotency). */
export const withIdempotencyKey = <F extends Fields>({ properties, $id }: ObjectSchema<F>) =>
  t.Object({ ...properties, idempotencyKey }, { ...($id !== undefined && { $id }) });

export const DEFAULT_LIMIT = 25;

/** Parameters of several operations, in the path or the query. */
export const parameter = {
  id: filledStringSchema(),
  html: t.Optional(t.Boolean({ default: true, description: "false leaves HTML bodies out" })),
  cursor: t.Optional(
    filledStringSchema({ description: "nextCursor of the previous page, with the filters that made it" }),
  ),
  limit: t.Optional(
    t.Integer({ minimum: 1, maximum: 100, default: DEFAULT_LIMIT, description: "Most items on a page" }),
  ),
} as const;
