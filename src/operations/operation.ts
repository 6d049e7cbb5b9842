/**
 * One operation of the service, said once: REST routes, OpenAPI documents, MCP tools and the app's routes are projected
 * from it.
 *
 * Invariant: `run` is only called with input that the operation's schemas allow, for a caller who has its scope
 * (perform.ts), and, where the operation administers, the role. It knows no HTTP: it returns a value or throws an AppError.
 */
import type { Caller } from "../access/caller.ts";
import type { Developers } from "../admin/developers.ts";
import type { Domains } from "../admin/domains.ts";
import type { Outbound } from "../admin/outbound.ts";
import type { People } from "../admin/people.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { ApiSending } from "../compose/send.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Scope } from "../store/schema.ts";
import type { Db, NotAPromise, Store, Tx } from "../store/store.ts";
import type { RecordAnswer } from "./idempotency.ts";
import { type ObjectSchema, type Schema, type Static, t } from "./json-schema.ts";
import type { ToolDescription } from "./tool.ts";

/** Who an operation is for: everybody with a key, or those who administer a workspace. */
export type Audience = "key" | "admin";

/** What `run` of a mail operation works with. */
export interface MailContext {
  caller: Caller;
  mailbox: Mailbox;
  sending: ApiSending;
  /** To be called by an idempotent operation, in the transaction that does what it asks. */
  record: RecordAnswer;
}

/** What administers: the functions of admin/, and the store that they work in. */
export interface Administration {
  store: Pick<Store, "db" | "transact">;
  people: People;
  domains: Domains;
  developers: Developers;
  outbound: Outbound;
  runtime: Pick<Runtime, "now">;
  log: Pick<Log, "warn">;
}

/** What `run` of an administrative operation works with. */
export interface AdminContext extends Administration {
  /** The admin who asks, as they were when the request arrived. */
  caller: Caller;
  /**
   * Does `work` in one transaction and returns its result, which is the operation's answer: it is recorded there under the
   * request's idempotency key. `work` is given the caller as they are by then. It may run twice, the first time rolled back.
   * @throws AppError unauthorized or forbidden when the caller's key, session or role ended since, and whatever `work` throws
   */
  act<T>(work: (tx: Tx, caller: Caller) => NotAPromise<T>): T;
  /**
   * Returns the caller as they are by now, for an operation that needs more transactions than `act`'s.
   * @throws AppError unauthorized or forbidden, as `act` does
   */
  requireAdministers(tx: Tx): Caller;
  /**
   * Asks a person in the app to prove again that it is them; a key needs no proof. To be called in `work`.
   * @throws AppError forbidden
   */
  requireConfirmed(db: Db): void;
}

interface Contexts {
  key: MailContext;
  admin: AdminContext;
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

interface Definition<
  A extends Audience,
  P extends ObjectSchema,
  Q extends ObjectSchema,
  B extends Schema,
  R extends Schema | MediaType,
> {
  /** Unique among all operations; also the operationId. */
  name: string;
  /** Under which heading documents list it. */
  group: string;
  audience: A;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below the prefix of its API, parameters as `:name`. */
  path: string;
  scope: Scope;
  summary: string;
  description?: string;
  params?: P;
  query?: Q;
  body?: B;
  /** A request without a body is one with `{}`. */
  bodyOptional?: true;
  /** Bytes of the body as JSON; a larger one is not read. */
  largestBody?: number;
  /** A request as people make it, for the OpenAPI document and the reference made of it. */
  example?: { query?: Partial<Static<Q>>; body?: Static<B> };
  /** What a schema cannot say of a body that it allows. @throws AppError bad_request */
  checkBody?(body: Static<B>): void;
  /** Takes an idempotency key, in the header or in the body's `idempotencyKey`. */
  idempotent?: true;
  /** Fields of the answer that are shown once: they are not stored, and a replay omits them. */
  secrets?: readonly string[];
  /** It is offered to agents as an MCP tool, too. */
  tool?: ToolDescription;
  success: 200 | 201 | 202;
  response: R;
  /** Statuses it may refuse with, apart from a failure of ours. */
  errors: readonly (400 | 401 | 403 | 404 | 409 | 413 | 422 | 423 | 429 | 502 | 507)[];
  run(
    context: Contexts[A],
    input: { params: Static<P>; query: Static<Q>; body: Static<B> },
  ): R extends Schema ? Static<R> | Promise<Static<R>> : Download | Promise<Download>;
}

type Run = (context: MailContext | AdminContext, input: { params: unknown; query: unknown; body: unknown }) => unknown;

/** An operation among others; `run` answers what `response` says. */
export interface Operation
  extends Omit<
    Definition<Audience, ObjectSchema, ObjectSchema, Schema, Schema | MediaType>,
    "body" | "checkBody" | "run"
  > {
  params: ObjectSchema;
  query: ObjectSchema;
  body: Schema | undefined;
  checkBody: ((body: unknown) => void) | undefined;
  run: Run;
}

const NOTHING = t.Object({});

/** Defines an operation. Types of input and answer come from its schemas. */
export function operation<
  A extends Audience,
  P extends ObjectSchema = typeof NOTHING,
  Q extends ObjectSchema = typeof NOTHING,
  B extends Schema = Schema,
  R extends Schema | MediaType = Schema,
>(definition: Definition<A, P, Q, B, R>): Operation {
  const { params = NOTHING, query = NOTHING, body } = definition;
  // The one place where types are forgotten: the input has been checked when these are called.
  const checkBody = definition.checkBody as Operation["checkBody"];
  return { ...definition, params, query, body, checkBody, run: definition.run as Run } as Operation;
}

export const isMediaType = (response: Schema | MediaType): response is MediaType => "mediaType" in response;
