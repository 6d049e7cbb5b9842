/**
 * Attempts to deliver a claim, here or over a connection to another server, and records the outcome.
 *
 * Invariants: only one commit lies between a server's reply and its record, and it is tried until it succeeds. A fault of ours
 * during an attempt defers its recipients. When the outcome cannot be worked out, the bare results are recorded, so that a
 * message that was accepted is not sent again.
 */
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { DeliveryFailure, type DeliveryResult } from "../smtp/delivery-result.ts";
import { createPatientCommit } from "../store/patience.ts";
import type { Store, Tx } from "../store/store.ts";
import type { Claim } from "./claims.ts";
import type { LocalDelivery } from "./local.ts";
import { readContent } from "./outbound.ts";
import { setDeferred, setDelivered, setHeld } from "./queue.ts";
import { traceAttempt } from "./trace-log.ts";
import type { Connection } from "./transport.ts";

export interface AttemptParts {
  store: Pick<Store, "db" | "blobs" | "enqueue">;
  local: LocalDelivery;
  mailbox: Pick<Mailbox, "isVerifiedElsewhere">;
  /** Resolves with a function that records the results (one an entry, in order) in one transaction. It may run twice. */
  outcomes: { resolve(claim: Claim, results: readonly DeliveryResult[]): Promise<(tx: Tx) => void> };
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Mail for other servers is held instead of sent. */
  hold: boolean;
  meters?: Pick<Meters, "countDelivered"> | undefined;
}

/** The outcome of an attempt, before it is recorded. */
export type Attempted =
  | { kind: "held" }
  /** One result an entry, in order. `file` files the copies that were accepted here. */
  | { kind: "attempted"; results: readonly DeliveryResult[]; file?: (tx: Tx) => void }
  /** No connection: all entries share the result. */
  | { kind: "unreachable"; result: DeliveryResult };

/** The work of a commit. It returns the next claim, made in the same commit. */
type NextClaim = (tx: Tx) => Claim | undefined;

export interface Attempts {
  /** Attempts to deliver. `open` gives the connection when one is needed. Never rejects. */
  attempt(claim: Claim, open: () => Promise<Connection>): Promise<Attempted>;
  /** Records the outcome, and makes the next claim in the same commit. Rejects when not even the bare results can be recorded. */
  record(claim: Claim, attempted: Attempted, next: NextClaim): Promise<Claim | undefined>;
  /** Commits; waits while the store is unavailable. */
  commit(work: NextClaim): Promise<Claim | undefined>;
}

const FAULT: DeliveryResult = {
  kind: "deferred",
  reply: "451 4.3.0 Local error, will try again later",
  hard: false,
  code: 451,
  status: "4.3.0",
};
/** Another workspace has verified the sender's domain since: the message must not pass for one of theirs. */
const OTHERS: DeliveryResult = {
  kind: "refused",
  reply: "550 5.7.1 The domain that this is from was verified by another workspace",
  hard: false,
  code: 550,
  status: "5.7.1",
};
/** When the next attempt cannot be scheduled normally. */
const AFTER_FAULT_MS = 15 * 60_000;

export function createAttempts(parts: AttemptParts): Attempts {
  const { store, local, mailbox, outcomes, runtime, log, hold, meters } = parts;
  const isVerifiedElsewhere = ({ workspaceId, domain }: Claim["message"]) =>
    mailbox.isVerifiedElsewhere(workspaceId, domain);
  const commit = createPatientCommit({ store, runtime, log, warning: "the store cannot record a delivery attempt" });
  /** The bytes of messages in use: read once for all destinations that a message is sent to at the same time. */
  const contents = new Map<number, { bytes: Promise<Uint8Array>; users: number }>();

  async function withContent<T>(messageSeq: number, use: (bytes: Uint8Array) => Promise<T>): Promise<T> {
    const shared = contents.get(messageSeq) ?? { bytes: readContent(store, messageSeq), users: 0 };
    contents.set(messageSeq, shared);
    shared.users++;
    try {
      return await use(await shared.bytes);
    } finally {
      if (--shared.users === 0) contents.delete(messageSeq);
    }
  }

  async function attempt(claim: Claim, open: () => Promise<Connection>): Promise<Attempted> {
    const { message, entries, domain } = claim;
    const startedAt = runtime.now();
    let attempted: Attempted;
    let remote: string | undefined;
    try {
      if (!message.notice && isVerifiedElsewhere(message)) {
        attempted = { kind: "attempted", results: entries.map(() => OTHERS) };
      } else if (local.isLocal(message.workspaceId, domain)) {
        remote = "here";
        const delivery = await withContent(message.seq, (content) => local.deliver(claim, content));
        attempted = { kind: "attempted", ...delivery };
      } else if (hold) {
        attempted = { kind: "held" };
      } else {
        const connection = await open();
        remote = connection.remote;
        const recipients = entries.map(({ recipient }) => recipient);
        const results = await withContent(message.seq, (content) =>
          connection.send({ reversePath: message.returnPath, recipients, content }),
        );
        attempted = { kind: "attempted", results };
      }
    } catch (error) {
      if (error instanceof DeliveryFailure) {
        attempted = { kind: "unreachable", result: error.result };
      } else {
        log.error("delivery attempt failed for a fault of ours", { emailId: message.id, domain, error });
        attempted = { kind: "attempted", results: entries.map(() => FAULT) };
      }
    }
    log.info("delivery attempt", {
      emailId: message.id,
      domain,
      remote,
      recipients: entries.length,
      outcome: summaryOf(attempted),
      ms: runtime.now() - startedAt,
    });
    return attempted;
  }

  async function record(claim: Claim, attempted: Attempted, next: NextClaim): Promise<Claim | undefined> {
    const { entries, message } = claim;
    if (attempted.kind === "held") {
      return commit((tx) => {
        setHeld(tx, entries);
        return next(tx);
      });
    }
    const { results, file } =
      attempted.kind === "attempted"
        ? { file: undefined, ...attempted }
        : { results: entries.map(() => attempted.result), file: undefined };
    for (const { kind } of results) meters?.countDelivered(kind);
    try {
      const conclude = await outcomes.resolve(claim, results);
      return await commit((tx) => {
        file?.(tx);
        conclude(tx);
        traceAttempt(tx, claim, results, runtime.now());
        return next(tx);
      });
    } catch (error) {
      log.error("the outcome of a delivery attempt cannot be worked out", { emailId: message.id, error });
      // The copies for mailboxes here have not been filed.
      if (file) return record(claim, { kind: "attempted", results: entries.map(() => FAULT) }, next);
      return commit((tx) => recordFacts(tx, claim, results, runtime.now()));
    }
  }

  return { attempt, record, commit };
}

/** Records results without notice and event, which a fault of ours prevents. The recipient must not get the mail twice. */
function recordFacts(tx: Tx, claim: Claim, results: readonly DeliveryResult[], now: number): undefined {
  for (const [i, entry] of claim.entries.entries()) {
    const { kind, reply, remote } = results[i] ?? FAULT;
    if (kind === "accepted") setDelivered(tx, [entry], now, reply, remote);
    else setDeferred(tx, entry, now + AFTER_FAULT_MS, reply);
  }
  traceAttempt(tx, claim, results, now);
}

/** How many of each, such as `accepted 2, refused 1`. */
function summaryOf(attempted: Attempted): string {
  if (attempted.kind !== "attempted") return attempted.kind;
  const counts = new Map<string, number>();
  for (const { kind } of attempted.results) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${kind} ${count}`).join(", ");
}
