/**
 * One operation of the service, said once: what REST routes, the OpenAPI document and MCP tools are projected from.
 *
 * Invariant: `run` is only called with input that the operation's schemas allow, for a caller who has its scope
 * (perform.ts). It knows no HTTP: it answers a value or throws an AppError.
 */
import type { Caller } from "../access/caller.ts";
import type { ApiSending } from "../compose/send.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Scope } from "../store/schema.ts";
import type { RecordAnswer } from "./idempotency.ts";
import { type ObjectSchema, type Schema, type Static, t } from "./json-schema.ts";

/** What `run` works with. */
interface Context {
  caller: Caller;
  mailbox: Mailbox;
  sending: ApiSending;
  /** To be called by an idempotent operation, in the transaction that does what it asks. */
  record: RecordAnswer;
}

/** Bytes under a name, the answer of an operation whose `response` is a MediaType. */
export interface Download {
  filename: string;
  contentType: string;
  content: Uint8Array | Bun.BunFile;
}

/** Says that an operation answers a Download: `mediaType` as in OpenAPI, which allows ranges. */
export interface MediaType {
  mediaType: string;
  description: string;
}

interface Definition<P extends ObjectSchema, Q extends ObjectSchema, B extends Schema, R extends Schema | MediaType> {
  /** As in rules: Operations; also the operationId. */
  name: string;
  /** rules: Operations. */
  group: "Mailboxes" | "Threads" | "Messages" | "Attachments" | "Sending";
  method: "GET" | "POST" | "PATCH";
  /** Below /api/v1, parameters as `:name`. */
  path: string;
  scope: Scope;
  summary: string;
  description?: string;
  params?: P;
  query?: Q;
  body?: B;
  /** Bytes of the body as JSON; a larger one is not read. */
  largestBody?: number;
  /** A request as people make it, for the OpenAPI document and the reference made of it. */
  example?: { query?: Partial<Static<Q>>; body?: Static<B> };
  /** What a schema cannot say of a body that it allows. @throws AppError bad_request */
  checkBody?(body: Static<B>): void;
  /** Takes an idempotency key, in the header or in the body's `idempotencyKey` (rules: Idempotency). */
  idempotent?: true;
  success: 200 | 201 | 202;
  response: R;
  /** Statuses it may refuse with, apart from a failure of ours. */
  errors: readonly (400 | 401 | 403 | 404 | 409 | 413 | 422 | 423 | 429 | 502 | 507)[];
  run(
    context: Context,
    input: { params: Static<P>; query: Static<Q>; body: Static<B> },
  ): R extends Schema ? Static<R> | Promise<Static<R>> : Download | Promise<Download>;
}

type Run = (context: Context, input: { params: unknown; query: unknown; body: unknown }) => unknown;

/** An operation among others; `run` answers what `response` says. */
export interface Operation
  extends Omit<Definition<ObjectSchema, ObjectSchema, Schema, Schema | MediaType>, "body" | "checkBody" | "run"> {
  params: ObjectSchema;
  query: ObjectSchema;
  body: Schema | undefined;
  checkBody: ((body: unknown) => void) | undefined;
  run: Run;
}

const NOTHING = t.Object({});

/** Defines an operation. Types of input and answer come from its schemas. */
export function operation<
  P extends ObjectSchema = typeof NOTHING,
  Q extends ObjectSchema = typeof NOTHING,
  B extends Schema = Schema,
  R extends Schema | MediaType = Schema,
>(definition: Definition<P, Q, B, R>): Operation {
  const { params = NOTHING, query = NOTHING, body } = definition;
  // The one place where types are forgotten: the input has been checked when these are called.
  const checkBody = definition.checkBody as Operation["checkBody"];
  return { ...definition, params, query, body, checkBody, run: definition.run as Run };
}

export const isMediaType = (response: Schema | MediaType): response is MediaType => "mediaType" in response;
