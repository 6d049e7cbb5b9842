/**
 * Performs an operation for an admitted caller, for REST, MCP and the app alike (rules: Order of refusals):
 * scope, shape, the role where the operation administers, idempotency, then the operation itself.
 *
 * Invariant: a request that repeats an earlier one is answered without a look at the state of anything.
 */
import { type Caller, requireAdmin, requireScope } from "../access/caller.ts";
import { presentCaller, requireLiveKey } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import type { Meters } from "../base/metrics.ts";
import type { ApiSending } from "../compose/send.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { fingerprintOf, type Idempotency, type RecordAnswer, readKey } from "./idempotency.ts";
import { type AdminContext, type Administration, isMediaType, type Operation } from "./operation.ts";
import { shapeOf } from "./shape.ts";

/** What operations work with. */
export interface Performing {
  mailbox: Mailbox;
  sending: ApiSending;
  administration: Administration;
  idempotency: Idempotency;
  meters?: Pick<Meters, "timeOperation" | "countApiRefusal">;
}

/** A request as REST, MCP or the app has read it; not checked yet. */
export interface Asked {
  params: unknown;
  query: unknown;
  body: unknown;
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

/**
 * `read` is called once the caller is known to have the scope. `requireConfirmed`: as in AdminContext, of a person in the
 * app. Rejects with the refusal.
 */
export type Perform = (
  caller: Caller,
  read: () => Asked | Promise<Asked>,
  requireConfirmed?: AdminContext["requireConfirmed"],
) => Promise<Performed>;

export function performerOf(operation: Operation, performing: Performing): Perform {
  const perform = untimedPerformerOf(operation, performing);
  return async (caller, read, requireConfirmed) => {
    const end = performing.meters?.timeOperation(operation.name);
    try {
      const performed = await perform(caller, read, requireConfirmed);
      end?.(performed.status);
      return performed;
    } catch (error) {
      end?.(error instanceof AppError ? error.status : 500);
      throw error;
    }
  };
}

/** The answer as it may be stored: without what is shown once. */
const withoutSecrets = (answer: unknown, { secrets }: Operation): unknown =>
  secrets ? Object.fromEntries(Object.entries(answer as object).filter(([name]) => !secrets.includes(name))) : answer;

function untimedPerformerOf(
  operation: Operation,
  { mailbox, sending, administration, idempotency }: Performing,
): Perform {
  const shape = shapeOf(operation);
  const fields = Object.keys(operation.body?.properties ?? {}).filter((name) => name !== "idempotencyKey");

  function check({ params, query, body }: Asked): void {
    shape.checkInput("params", params);
    shape.checkInput("query", query);
    shape.checkInput("body", body);
    operation.checkBody?.(body);
  }

  async function run(
    caller: Caller,
    input: Asked,
    record: RecordAnswer,
    requireConfirmed: AdminContext["requireConfirmed"] = () => {},
  ): Promise<unknown> {
    const requireAdministers: AdminContext["requireAdministers"] = (tx) => {
      const present = presentCaller(tx, caller);
      requireAdmin(present);
      return present;
    };
    const act: AdminContext["act"] = (work) =>
      administration.store.transact((tx) => {
        const answer = work(tx, requireAdministers(tx));
        record(tx, withoutSecrets(answer, operation));
        return answer;
      });
    // Asked in the accepting transaction: a message may take seconds to compose. `act` has asked before its work, which may
    // end the very key that asks.
    const recordMail: RecordAnswer = (tx, answer) => {
      requireLiveKey(tx, caller);
      record(tx, answer);
    };
    const context =
      operation.audience === "admin"
        ? { ...administration, caller, act, requireAdministers, requireConfirmed }
        : { caller, mailbox, sending, record: recordMail };
    const answer = await operation.run(context, input);
    const fault = isMediaType(operation.response) ? undefined : shape.faultOfAnswer(answer);
    if (fault !== undefined) throw new Error(`${operation.name} answered what its schema does not allow: ${fault}`);
    return answer;
  }

  /** Two requests are the same if these are: what the operation does not know makes no difference. */
  const fingerprint = ({ params, body }: Asked): string =>
    fingerprintOf(operation.name, {
      params,
      body: Object.fromEntries(
        fields.filter((name) => Object.hasOwn(body as object, name)).map((name) => [name, (body as never)[name]]),
      ),
    });

  return async (caller, read, requireConfirmed) => {
    requireScope(caller, operation.scope);
    const input = await read();
    check(input);
    const { success: status, idempotent } = operation;
    const key = idempotent && readKey(input.idempotencyKey, (input.body as { idempotencyKey?: string }).idempotencyKey);
    // As they are by now: the body may have taken long to come, and a replay asks nothing else.
    if (operation.audience === "admin") requireAdmin(presentCaller(administration.store.db, caller));
    // A session of the web app has no API key to scope one to.
    if (key === undefined || caller.keyId === undefined) {
      return { status, answer: await run(caller, input, () => {}, requireConfirmed), replayed: false };
    }
    const request = { apiKeyId: caller.keyId, key, fingerprint: fingerprint(input), status };
    return idempotency.once(request, (record) => run(caller, input, record));
  };
}
