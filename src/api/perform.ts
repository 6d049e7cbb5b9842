/**
 * Performing an operation for a caller whom the gate admitted, whichever face they came to (rules: Order
 * of refusals): scope, shape, idempotency, then the operation itself.
 *
 * Invariant: a request that repeats an earlier one is answered without a look at the state of anything.
 */
import { type Caller, requireScope } from "../access/caller.ts";
import { requireLiveKey } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import type { Meters } from "../base/metrics.ts";
import type { ApiSending } from "../compose/send.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Budget } from "./budget.ts";
import { fingerprintOf, type Idempotency, type RecordAnswer, readKey } from "./idempotency.ts";
import { isMediaType, type Operation } from "./operation.ts";
import { shapeOf } from "./shape.ts";

/** What operations work with. */
export interface Performing {
  mailbox: Mailbox;
  sending: ApiSending;
  idempotency: Idempotency;
  /** Of the bytes of request bodies. */
  bodies: Budget;
  meters?: Pick<Meters, "timeOperation" | "countApiRefusal">;
}

/** A request as its face has read it; not checked yet. */
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

/** `read` is called once the caller is known to have the scope. Rejects with the refusal. */
export type Perform = (caller: Caller, read: () => Asked | Promise<Asked>) => Promise<Performed>;

export function performerOf(operation: Operation, performing: Omit<Performing, "bodies">): Perform {
  const perform = untimedPerformerOf(operation, performing);
  return async (caller, read) => {
    const end = performing.meters?.timeOperation(operation.name);
    try {
      const performed = await perform(caller, read);
      end?.(performed.status);
      return performed;
    } catch (error) {
      end?.(error instanceof AppError ? error.status : 500);
      throw error;
    }
  };
}

function untimedPerformerOf(
  operation: Operation,
  { mailbox, sending, idempotency }: Omit<Performing, "bodies">,
): Perform {
  const shape = shapeOf(operation);
  const fields = Object.keys(operation.body?.properties ?? {}).filter((name) => name !== "idempotencyKey");

  function check({ params, query, body }: Asked): void {
    shape.checkInput("params", params);
    shape.checkInput("query", query);
    shape.checkInput("body", body);
    operation.checkBody?.(body);
  }

  async function run(caller: Caller, input: Asked, record: RecordAnswer): Promise<unknown> {
    const answer = await operation.run({ caller, mailbox, sending, record }, input);
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

  return async (caller, read) => {
    requireScope(caller, operation.scope);
    const input = await read();
    check(input);
    const { success: status, idempotent } = operation;
    const key = idempotent && readKey(input.idempotencyKey, (input.body as { idempotencyKey?: string }).idempotencyKey);
    // Asked in the accepting transaction: a message may take seconds to compose.
    const requireKey: RecordAnswer = (tx) => requireLiveKey(tx, caller);
    // A session of the web app has no API key to scope one to.
    if (key === undefined || caller.keyId === undefined) {
      return { status, answer: await run(caller, input, requireKey), replayed: false };
    }
    const request = { apiKeyId: caller.keyId, key, fingerprint: fingerprint(input), status };
    return idempotency.once(request, (record) =>
      run(caller, input, (tx, answer) => {
        requireKey(tx, answer);
        record(tx, answer);
      }),
    );
  };
}
