/**
 * One operation of the service, said once: REST routes, OpenAPI documents, MCP tools, commands, the app's routes and
 * the types of the app's calls are projections of it.
 *
 * Invariant: perform.ts calls `run` only with input that the operation's schemas allow, for a caller of its audience
 * who has its scope. `run` knows no HTTP: it returns a value or throws an AppError.
 */
import type { Caller, Restriction } from "../access/caller.ts";
import type { Identity } from "../access/identity.ts";
import type { BrowserSession } from "../access/sessions.ts";
import type { FirstRun } from "../admin/setup.ts";
import { type ObjectSchema, type Schema, type Static, t } from "../base/json-schema.ts";
import type { OutgoingFile } from "../compose/attached-files.ts";
import type { Unsubscribing } from "../compose/unsubscribe.ts";
import type { Doctor } from "../doctor/doctor.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import type { TypeParameters } from "../message/content-type.ts";
import type { OAuth } from "../oauth/oauth.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { StandbyState } from "../replica/follow-replica.ts";
import type { MailAppPorts } from "../store/core.ts";
import type { Policy, Scope } from "../store/schema.ts";
import type { Db, NotAPromise, Tx } from "../store/store.ts";
import type { OperationCommand, RowOf } from "./command-line.ts";
import type { RecordAnswer } from "./idempotency.ts";
import type { ToolDescription } from "./tool.ts";

/**
 * Callers that an operation is for. `key`: everybody with an API key. `admin`: owners and admins of a workspace. `operator`:
 * owners and admins of the first workspace, who administer the server. `person`: a person who is signed in to the app.
 * `visitor`: a browser in which nobody is signed in.
 */
export type Audience = "key" | "admin" | "operator" | "person" | "visitor";

/**
 * Resolves with what `look` finds, at once or after a commit within `seconds`; undefined if nothing came. `look` is
 * given the caller as they are by then. @throws AppError rate_limited when too many requests wait; unauthorized once
 * the key has ended
 */
export type Wait = <T>(seconds: number, look: (caller: Caller) => T | undefined) => Promise<T | undefined>;

/** Context in which a mail operation runs. */
export interface MailContext {
  core: SendCore;
  caller: Caller;
  wait: Wait;
  /** Records the answer. An idempotent operation calls it in the transaction that does its work. */
  record: RecordAnswer;
}

/**
 * The caller of administration: a person of the workspace, or at the command line the operator, who has no `userId`.
 */
export interface Administrator {
  workspaceId: string;
  userId?: string;
  keyId?: string;
  policy?: Policy;
}

/** Context in which an administrative operation runs. */
export interface AdminContext {
  core: MailCore;
  /** The caller as they were when the request arrived. */
  caller: Administrator;
  /**
   * Returns the caller as they are by now. Not for commands, whose caller is no person. @throws AppError as `act` does
   */
  person(db: Db): Caller;
  /**
   * Does `work` in one transaction and returns its result, which is the operation's answer: it is recorded there under
   * the request's idempotency key. `work` is given the caller as they are by then. It may run twice, the first time
   * rolled back.
   * @throws AppError unauthorized or forbidden when the caller's key, session or role ended since, and whatever `work`
   * throws
   */
  act<T>(work: (tx: Tx, caller: Administrator) => NotAPromise<T>): T;
  /**
   * Checks the caller as they are by now, for an operation that needs more transactions than `act`'s.
   * @throws AppError unauthorized or forbidden, as `act` does
   */
  requireAdministers(db: Db): void;
  /**
   * Asks a person in the app to prove again that it is them; a key needs no proof. To be called in `work`.
   * @throws AppError forbidden
   */
  requireConfirmed(db: Db): void;
}

/** Context in which an operation for the operator runs: that of administration, and the running server. */
export interface OperatorContext extends AdminContext {
  doctor: Pick<Doctor, "examine" | "known">;
  /** The engine that serves searches. `reason`: why it is not the one that the settings ask for. */
  searching(): { engine: "fts5" | "meilisearch"; reason?: string | undefined };
}

/** The browser that sent a request, for an operation of the app, which may also have the browser keep a session. */
export interface BrowserRequest {
  /** Source of the request, for limits on sign-ins. */
  source: string;
  userAgent: string;
  /** The token of the session that the browser has, or had. */
  token: string | undefined;
  /** Gives the browser the token of a session, in the response. `kept`: it outlives the browser's closing. */
  giveToken(token: string, persistent: boolean): unknown;
  dropToken(): unknown;
}

/** Services with which the app's own operations run. */
export interface AppServices {
  core: SendCore;
  unsubscribing: Unsubscribing;
  identity: Identity;
  firstRun: FirstRun;
  mailApps: MailApps;
  /** Tells whether the server's certificate signs profiles. */
  signsProfiles(): boolean;
  oauth: OAuth;
  /** State of a standby; undefined on a server. */
  standby(): StandbyState | undefined;
}

/** Host and ports at which mail apps find the server. */
export interface MailApps extends MailAppPorts {
  host: string;
}

/** A profile sets up an account that reads and sends. */
export const hasMailProfile = ({ imap, imaps, submission, submissions }: MailAppPorts): boolean =>
  (imaps ?? imap) !== null && (submissions ?? submission) !== null;

export interface VisitorContext extends AppServices, BrowserRequest {}

export interface PersonContext extends AppServices, BrowserRequest {
  caller: Caller;
  session: BrowserSession;
  /**
   * Requires for a change that outlasts the session that the person proved again, in the last minutes, that it is them.
   * To be called in the transaction of the change. @throws Unconfirmed, AppError unauthorized
   */
  requireConfirmed(db: Db): void;
}

interface Contexts {
  key: MailContext;
  admin: AdminContext;
  operator: OperatorContext;
  person: PersonContext;
  visitor: VisitorContext;
}

/** Bytes under a name. */
export interface Download {
  filename: string;
  /** Without parameters. */
  contentType: string;
  parameters?: TypeParameters;
  content: Uint8Array | Bun.BunFile;
}

/** A download with an ETag, for requests that are conditional or ask for a range. */
export interface TaggedDownload extends Omit<Download, "content"> {
  /** Number of bytes, and their SHA-256. */
  size: number;
  digest: Uint8Array;
  /** Called for an answer that has some of the bytes. */
  read(): Promise<Uint8Array>;
}

export type AnyDownload = Download | TaggedDownload;

/** `response` of an operation that answers a download. `mediaType`: as in OpenAPI, which allows ranges. */
export interface MediaType {
  mediaType: string;
  description: string;
}

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Values of a request, in the types of the operation's schemas. */
export interface Input<P extends ObjectSchema, Q extends ObjectSchema, B extends Schema> {
  params: Static<P>;
  query: Static<Q>;
  body: Static<B>;
  /** The attachments of an operation that takes files. */
  files?: readonly OutgoingFile[] | undefined;
}

/** Properties in the definition of any operation. */
interface AnyDefinition<A extends Audience, M extends Method, Path extends string, P, Q, B extends Schema> {
  /** Unique among all operations; also the operationId. */
  name: string;
  audience: A;
  method: M;
  /** Below the prefix of its API, parameters as `:name`. */
  path: Path;
  params?: P;
  query?: Q;
  body?: B;
  /** A request without a body is one with `{}`. */
  bodyOptional?: true;
  /** Bytes of the body as JSON; a larger one is not read. */
  largestBody?: number;
  /** Checks what the schema of the body cannot. @throws AppError bad_request */
  checkBody?(body: Static<B>): void;
}

interface Definition<
  A extends Audience,
  M extends Method,
  Path extends string,
  P extends ObjectSchema,
  Q extends ObjectSchema,
  B extends Schema,
  R extends Schema | MediaType,
> extends AnyDefinition<A, M, Path, P, Q, B> {
  /** Heading under which documents list the operation. */
  group: string;
  /** Scope that a key needs; one of them if there are several. */
  scope: Scope | readonly Scope[];
  summary: string;
  description?: string;
  /** A request as people make it, for the OpenAPI document and the reference made of it. */
  example?: { query?: Partial<Static<Q>>; body?: Static<B> };
  /** The body has `attachments`, and may come as multipart/form-data with files. */
  takesFiles?: true;
  /** Takes an idempotency key, in the header or in the body's `idempotencyKey`. */
  idempotent?: true;
  /**
   * Set if the operation concerns the whole workspace, so that a key could get past its policy by it. It is refused to keys
   * that the policy restricts in one of these ways; `true`: in any way.
   */
  whole?: true | readonly Restriction[];
  /** Fields of the answer that are shown once: they are not stored, and a replay omits them. */
  secrets?: readonly string[];
  /** The MCP tool that offers the operation to agents, too. */
  tool?: ToolDescription;
  /** The commands that offer the operation at the command line, too. */
  commands?: readonly OperationCommand<NoInfer<Input<P, Q, B>>, NoInfer<R extends Schema ? RowOf<Static<R>> : never>>[];
  /** For an operation that shows mail: returns the ids of the mail that it showed, for the journal of the key that asks. */
  shows?(
    input: NoInfer<Input<P, Q, B>>,
    answer: NoInfer<R extends Schema ? Static<R> : AnyDownload>,
  ): readonly string[];
  success: 200 | 201 | 202;
  response: R;
  /** Statuses it may refuse with, apart from a failure of ours. */
  errors: readonly (400 | 401 | 403 | 404 | 409 | 413 | 422 | 423 | 429 | 502 | 507)[];
  run(
    context: Contexts[A],
    input: Input<P, Q, B>,
  ): R extends Schema ? Static<R> | Promise<Static<R>> : AnyDownload | Promise<AnyDownload>;
}

/** An operation that only the app has: it stands in no document, so its answer has the type that `run` gives it. */
interface AppDefinition<
  A extends Audience,
  M extends Method,
  Path extends string,
  P extends ObjectSchema,
  Q extends ObjectSchema,
  B extends Schema,
  T,
> extends AnyDefinition<A, M, Path, P, Q, B> {
  /** 200 unless given. An answer without a value is 204. */
  success?: 201 | 202;
  /** Set if a standby performs the operation although it is no GET: it changes sessions at most. */
  onStandby?: true;
  run(context: Contexts[A], input: Input<P, Q, B>): T | Promise<T>;
}

/** The fields that an operation has in lists of operations, in place of those with types of its own. */
interface Erased {
  params: ObjectSchema;
  query: ObjectSchema;
  body?: Schema;
  checkBody?(body: unknown): void;
  shows?(input: { params: unknown; query: unknown; body: unknown }, answer: unknown): readonly string[];
  run(
    context: Contexts[Audience],
    input: { params: unknown; query: unknown; body: unknown; files?: readonly OutgoingFile[] | undefined },
  ): unknown;
}

/** An operation, as lists hold it. `run` answers what `response` says. */
export interface Operation
  extends Omit<
      Definition<Audience, Method, string, ObjectSchema, ObjectSchema, Schema, Schema | MediaType>,
      keyof Erased | "commands"
    >,
    Erased {
  commands?: readonly OperationCommand[];
}

/** An operation of the app, as lists hold it. */
export interface AppOperation
  extends Omit<AppDefinition<Audience, Method, string, ObjectSchema, ObjectSchema, Schema, unknown>, keyof Erased>,
    Erased {}

/** The types that the client of the app (app/lib/api-client.ts) and performAsOperator read of an operation. */
export interface Typed<A extends Audience, M extends Method, Path extends string, I, T> {
  audience: A;
  method: M;
  path: Path;
  /** Never set: it carries types. */
  types?: { input: I; answer: T };
}

/** Answer of an operation. */
export type AnswerOf<O> = O extends { types?: { answer: infer T } } ? T : unknown;

const NOTHING = t.Object({});

/** Fills in what a definition leaves out, and forgets its types: perform.ts checks the input before it calls `run`. */
const erase = (definition: object) => ({ params: NOTHING, query: NOTHING, ...definition }) as never;

/** Defines an operation. Types of input and answer come from its schemas. */
export function defineOperation<
  A extends Audience,
  M extends Method,
  Path extends string,
  P extends ObjectSchema = typeof NOTHING,
  Q extends ObjectSchema = typeof NOTHING,
  B extends Schema = typeof NOTHING,
  R extends Schema | MediaType = Schema,
>(
  definition: Definition<A, M, Path, P, Q, B, R>,
): Operation & Typed<A, M, Path, Input<P, Q, B>, R extends Schema ? Static<R> : AnyDownload> {
  return erase(definition);
}

/** Defines an operation that only the app has. */
export function defineAppOperation<
  A extends Audience,
  M extends Method,
  Path extends string,
  T,
  P extends ObjectSchema = typeof NOTHING,
  Q extends ObjectSchema = typeof NOTHING,
  B extends Schema = typeof NOTHING,
>(definition: AppDefinition<A, M, Path, P, Q, B, T>): AppOperation & Typed<A, M, Path, Input<P, Q, B>, T> {
  return erase(definition);
}

export const isMediaType = (response: Schema | MediaType): response is MediaType => "mediaType" in response;
