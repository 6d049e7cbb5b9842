/**
 * Performs an operation for an admitted caller, for REST, MCP and the app alike. It checks the scope, the shape, and
 * for administration the role; then it answers a repeated request as the first one, or runs the operation (rules: Order
 * of refusals, Administration API).
 *
 * Invariant: a request that repeats an earlier one is answered without a look at the state of anything (rules: Replay
 * before state).
 */
import {
  type Caller,
  isKeyDeniedSignInCodes,
  requireAdmin,
  requireScope,
  requireUnrestrictedKey,
} from "../access/caller.ts";
import { findKeyRestrictions, reloadCaller, requireLiveKey } from "../access/credentials.ts";
import { PolicyRefusal } from "../access/policy.ts";
import type { BrowserSession } from "../access/sessions.ts";
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { AppError } from "../base/errors.ts";
import {
  type OutgoingFile,
  readAttachments,
  requireReadScopeForContent,
  type UploadedFile,
  uploadName,
} from "../compose/attached-files.ts";
import type { AttachmentRequest } from "../compose/requests.ts";
import { addJournalEntry } from "../journal/entries.ts";
import type { ReadJournal } from "../journal/reads.ts";
import { maskCodesInAnswer } from "../mailbox/reading/masked-codes.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Core } from "../store/core.ts";
import type { Db } from "../store/store.ts";
import { hashRequest, type Idempotency, type RecordAnswer, readIdempotencyKey } from "./idempotency.ts";
import type {
  AdminContext,
  AnswerOf,
  AppOperation,
  AppServices,
  BrowserRequest,
  Operation,
  OperatorContext,
  PersonContext,
  Wait,
} from "./operation.ts";
import { compileAnswerCheck, compileInputCheck, type Unchecked } from "./shape.ts";

/** Services with which the operations of the APIs are performed. */
export interface OperationServices {
  core: SendCore;
  idempotency: Idempotency;
  reads: Pick<ReadJournal, "note">;
}

/** A request as REST, MCP or the app has read it. */
export interface OperationRequest extends Unchecked {
  /** The files that came with it. The operation may add some; all are disposed of with the request. */
  uploads?: UploadedFile[] | undefined;
  /** Given beside the body, as in the header. */
  idempotencyKey?: string | undefined;
}

export interface Performed {
  /** HTTP status. */
  status: number;
  answer: unknown;
  /** True for the answer of an earlier request; nothing was done for this one. */
  replayed: boolean;
}

/** A person who is signed in to the app. */
export interface SignedIn {
  session: BrowserSession;
  /** @throws AppError unauthorized if the session ended, or got another token, since the request arrived */
  requireSession(db: Db): void;
  requireConfirmed: PersonContext["requireConfirmed"];
}

/** How a request came. */
interface Way {
  /** The caller in the app, who has no key. */
  signedIn?: SignedIn;
  /** How the request waits; by default, not at all. */
  wait?: Wait;
}

/** `read` is called once the caller is known to have the scope. Rejects with the refusal. */
export type Perform = (
  caller: Caller,
  read: () => OperationRequest | Promise<OperationRequest>,
  way?: Way,
) => Promise<Performed>;

export function createPerformer(operation: Operation, services: OperationServices): Perform {
  const perform = createUntimedPerformer(operation, services);
  return (caller, read, way) => timed(operation, services.core, () => perform(caller, read, way));
}

/**
 * Performs an operation, and measures its status and duration. Its changes are confirmed (store.replicated), also when an
 * earlier request made them; a visitor only signs in.
 */
async function timed(
  { name, method, audience }: Pick<Operation | AppOperation, "name" | "method" | "audience">,
  { meters, store }: Core,
  work: () => Promise<Performed>,
): Promise<Performed> {
  const end = meters.timeOperation(name);
  try {
    const performed = await work();
    if (method !== "GET" && audience !== "visitor") await store.replicated();
    end(performed.status);
    return performed;
  } catch (error) {
    end(error instanceof AppError ? error.status : 500);
    throw error;
  }
}

/** The answer as it may be stored: without its secrets, which are shown once. */
const withoutSecrets = (answer: unknown, { secrets }: Operation): unknown =>
  secrets ? Object.fromEntries(Object.entries(answer as object).filter(([name]) => !secrets.includes(name))) : answer;

/** The id that a request names, and that of what it made. */
const idsIn = (...given: unknown[]): string[] => [
  ...new Set(given.flatMap((one) => (one as { id?: string } | undefined)?.id ?? [])),
];

/** Makes the context of administration for a person. `record` is called in the transaction of `act`. */
function createAdminContext(
  core: MailCore,
  { audience }: Pick<Operation, "audience">,
  caller: Caller,
  signedIn?: SignedIn,
  record: RecordAnswer = () => {},
): AdminContext {
  const person = (db: Db): Caller => {
    signedIn?.requireSession(db);
    const present = reloadCaller(db, caller);
    requireAdmin(present);
    if (audience === "operator") workspaceAdmin.requireOperatorWorkspace(core, present.workspaceId);
    return present;
  };
  const act: AdminContext["act"] = (work) =>
    core.store.transact((tx) => {
      const answer = work(tx, person(tx));
      record(tx, answer);
      return answer;
    });
  const requireConfirmed: AdminContext["requireConfirmed"] = (db) => signedIn?.requireConfirmed(db);
  return { core, caller, person, act, requireAdministers: person, requireConfirmed };
}

function createUntimedPerformer(operation: Operation, services: OperationServices): Perform {
  const { core, idempotency, reads } = services;
  const check = compileInputCheck(operation);
  const findAnswerFault = compileAnswerCheck(operation);
  const fields = Object.keys(operation.body?.properties ?? {}).filter((name) => name !== "idempotencyKey");
  /** The fields of a body that the operation knows. */
  const pickKnownFields = (body: unknown): Record<string, unknown> =>
    Object.fromEntries(
      fields.filter((name) => Object.hasOwn(body as object, name)).map((name) => [name, (body as never)[name]]),
    );

  async function run(
    caller: Caller,
    input: OperationRequest,
    record: RecordAnswer,
    files: readonly OutgoingFile[] | undefined,
    { signedIn, wait = async (_, look) => look(caller) }: Way,
  ): Promise<unknown> {
    const recordShown: RecordAnswer = (tx, answer) => {
      addJournalEntry(tx, caller, { ids: idsIn(input.params, answer) }, core.now());
      record(tx, withoutSecrets(answer, operation));
    };
    // Mail is accepted only if the key is live in that transaction, since a message may take seconds to compose. `act`
    // checks the key itself, before its work: the work may revoke that very key.
    const recordMail: RecordAnswer = (tx, answer) => {
      requireLiveKey(tx, caller);
      record(tx, answer);
    };
    const context =
      operation.audience === "admin"
        ? createAdminContext(core, operation, caller, signedIn, recordShown)
        : { core, caller, wait, record: recordMail };
    const body = operation.body && pickKnownFields(input.body);
    const answer = await operation.run(context as never, { ...input, body, files });
    const fault = findAnswerFault(answer);
    if (fault !== undefined) throw new Error(`${operation.name} answered what its schema does not allow: ${fault}`);
    if (operation.shows) reads.note(caller, operation.shows(input, answer));
    return answer;
  }

  /**
   * Hash of the known fields of a request, with `attachments` in place of those in its body. Unknown fields make no difference.
   */
  const fingerprint = ({ params, body }: OperationRequest, attachments: unknown): string =>
    hashRequest(operation.name, {
      params,
      body: { ...pickKnownFields(body), ...(attachments !== undefined && { attachments }) },
    });

  /** Attachments as they were given, with the hash of each file that came along. */
  const asGiven = ({ body, uploads = [] }: OperationRequest): unknown =>
    attachmentsIn(body)?.map(({ content, ...attachment }) => ({
      ...attachment,
      ...(content !== undefined && { content: uploads.find((_, n) => uploadName(n) === content)?.sha256 }),
    }));

  async function performRead(caller: Caller, input: OperationRequest, uploads: UploadedFile[], way: Way) {
    check(input);
    const { success: status, idempotent, takesFiles } = operation;
    const { whole } = operation;
    if (whole) requireUnrestrictedKey(caller, whole === true ? undefined : whole);
    if (takesFiles) requireReadScopeForContent(caller, input.body as object);
    const key =
      idempotent &&
      readIdempotencyKey(input.idempotencyKey, (input.body as { idempotencyKey?: string }).idempotencyKey);
    // Nothing else is checked for a replay.
    if (operation.audience === "admin") requireAdmin(reloadCaller(core.db, caller));
    const attachments = (takesFiles && attachmentsIn(input.body)) || [];
    const readFiles = () => readAttachments(core, caller, attachments, uploads);
    // Idempotency keys belong to an API key, which a session of the web app does not have.
    if (key === undefined || caller.keyId === undefined) {
      const files = attachments.length > 0 ? await readFiles() : [];
      return { status, answer: await run(caller, input, () => {}, files, way), replayed: false };
    }
    const request = { apiKeyId: caller.keyId, key, fingerprints: [fingerprint(input, asGiven(input))], status };
    if (attachments.length === 0) return idempotency.once(request, (record) => run(caller, input, record, [], way));
    // As it was given, it is known without a look at what it names, which may be gone by now.
    const earlier = idempotency.earlier(request);
    if (earlier) return earlier;
    const files = await readFiles();
    const contents = files.map(({ filename, sha256, inline, contentId, alternative }) => ({
      ...{ filename, sha256, inline, contentId },
      ...(alternative && { alternative }),
    }));
    request.fingerprints.push(fingerprint(input, contents));
    return idempotency.once(request, (record) => run(caller, input, record, files, way));
  }

  const noteRefusal = (caller: Caller, { params }: OperationRequest, { code: outcome }: AppError): Promise<void> =>
    core.store.note((tx) => addJournalEntry(tx, caller, { ids: idsIn(params, {}), outcome }, core.now()));

  return async (asking, read, way = {}) => {
    const { origin } = asking;
    const caller = origin ? { ...asking, origin: { ...origin, operation: operation.name } } : asking;
    requireScope(caller, operation.scope);
    if (operation.method !== "GET") core.store.requireWritable();
    const input = await read();
    const uploads = input.uploads ?? [];
    try {
      // The body may have taken long to come: the key, its policy and the person's role are those of now.
      const present = operation.body ? reloadCaller(core.db, caller) : caller;
      const performed = await performRead(present, input, uploads, way);
      // It may have waited: its policy is that of now, if its key is still there.
      const reader = { ...present, ...(present.keyId !== undefined && findKeyRestrictions(core.db, present.keyId)) };
      if (!isKeyDeniedSignInCodes(reader)) return performed;
      return { ...performed, answer: await maskCodesInAnswer(core, reader, performed.answer) };
    } catch (error) {
      if (error instanceof PolicyRefusal) await noteRefusal(caller, input, error);
      throw error;
    } finally {
      await Promise.all(uploads.map((file) => file.dispose()));
    }
  };
}

const attachmentsIn = (body: unknown): AttachmentRequest[] | undefined =>
  (body as { attachments?: AttachmentRequest[] }).attachments;

/** Services with which the app's own operations are performed. */
export interface AppOperationServices {
  services: AppServices & Pick<OperatorContext, "doctor" | "searching">;
}

/** `signedIn` is undefined for visitors, who may perform only operations for visitors. Rejects with the refusal. */
export type PerformInApp = (
  browsing: BrowserRequest,
  signedIn: SignedIn | undefined,
  read: () => Promise<OperationRequest>,
) => Promise<Performed>;

export function createAppPerformer(operation: AppOperation, { services }: AppOperationServices): PerformInApp {
  const { core } = services;
  const check = compileInputCheck(operation);

  function createAppContext(browsing: BrowserRequest, signedIn: SignedIn) {
    const { session, requireConfirmed } = signedIn;
    const { caller } = session;
    if (operation.audience === "person") return { ...services, ...browsing, caller, session, requireConfirmed };
    const context = createAdminContext(core, operation, caller, signedIn);
    context.requireAdministers(core.db);
    return operation.audience === "operator" ? { ...services, ...context } : context;
  }

  return (browsing, signedIn, read) =>
    timed(operation, core, async () => {
      if (operation.audience !== "visitor" && !signedIn) throw new Error("a request came past the gate");
      if (operation.method !== "GET" && !operation.onStandby) core.store.requireWritable();
      const input = await read();
      check(input);
      const context = signedIn ? createAppContext(browsing, signedIn) : { ...services, ...browsing };
      return {
        status: operation.success ?? 200,
        answer: await operation.run(context as never, input),
        replayed: false,
      };
    });
}

/**
 * Performs an operation that administers, for the operator at the command line: in a workspace, of which they need not
 * be a member. `most`: rows of a list, in place of a page. Rejects with AppError bad_request for input that the schemas
 * refuse, and with what the operation throws.
 */
export async function performAsOperator<O extends Operation | AppOperation>(
  operation: O,
  core: MailCore,
  workspaceId: string,
  input: Partial<Unchecked>,
  most?: number,
): Promise<AnswerOf<O>> {
  const given = { params: {}, query: {}, body: operation.body && {}, ...input };
  compileInputCheck(operation)(given);
  if (most !== undefined) given.query = { ...(given.query as object), limit: most };
  const caller = { workspaceId };
  const context: AdminContext = {
    core,
    caller,
    act: (work) => core.store.transact((tx) => work(tx, caller)),
    person() {
      throw new Error(`${operation.name} asks for a person: it is no command`);
    },
    requireAdministers() {},
    requireConfirmed() {},
  };
  return (await operation.run(context as never, given)) as AnswerOf<O>;
}
