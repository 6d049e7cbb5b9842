/**
 * One attempt to deliver what was claimed: here, or by a connection to another server; and what came of it, recorded.
 *
 * Invariants: between a server's word and its record lies nothing but one commit, which is tried until it succeeds. An
 * attempt that breaks for a fault of ours defers its recipients; one whose outcome cannot be worked out is still recorded,
 * so that what was accepted is not sent again.
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
  /** From the results, one an entry in order, to what records and tells them in one transaction. It may run twice. */
  outcomes: { resolve(claim: Claim, results: readonly DeliveryResult[]): Promise<(tx: Tx) => void> };
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Nothing leaves the server: what would is held instead. */
  hold: boolean;
  meters?: Pick<Meters, "countDelivered"> | undefined;
}

/** What an attempt came to, before anything is recorded. */
export type Attempted =
  | { kind: "held" }
  /** One result an entry, in order. `file` puts into mailboxes what was accepted here. */
  | { kind: "attempted"; results: readonly DeliveryResult[]; file?: (tx: Tx) => void }
  /** No connection: all entries share the result. */
  | { kind: "unreachable"; result: DeliveryResult };

/** The work of a commit, and what is claimed in it. */
type NextClaim = (tx: Tx) => Claim | undefined;

export interface Attempts {
  /** Attempts to deliver. `open` gives the connection when one is needed. Never rejects. */
  attempt(claim: Claim, open: () => Promise<Connection>): Promise<Attempted>;
  /** Records what came of it, and in the same commit takes the next. Rejects when not even the bare facts can be recorded. */
  record(claim: Claim, attempted: Attempted, next: NextClaim): Promise<Claim | undefined>;
  /** Commits, however long the store takes to become available. */
  commit(work: NextClaim): Promise<Claim | undefined>;
}

const FAULT: DeliveryResult = {
  kind: "deferred",
  reply: "451 4.3.0 Local error, will try again later",
  hard: false,
  code: 451,
  status: "4.3.0",
};
/** Its sender's domain was verified by another workspace since it was accepted: nobody is to take it for theirs. */
const OTHERS: DeliveryResult = {
  kind: "refused",
  reply: "550 5.7.1 The domain that this is from was verified by another workspace",
  hard: false,
  code: 550,
  status: "5.7.1",
};
/** For what could not even be scheduled. */
const AFTER_FAULT_MS = 15 * 60_000;

export function createAttempts(parts: AttemptParts): Attempts {
  const { store, local, mailbox, outcomes, runtime, log, hold, meters } = parts;
  const isVerifiedElsewhere = ({ workspaceId, domain }: Claim["message"]) =>
    mailbox.isVerifiedElsewhere(workspaceId, domain);
  const commit = createPatientCommit({ store, runtime, log, warning: "the store cannot record a delivery attempt" });
  /** The bytes in use, by message: read once for all the destinations that it is sent to at the same time. */
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
      // What was to be filed here has not been.
      if (file) return record(claim, { kind: "attempted", results: entries.map(() => FAULT) }, next);
      return commit((tx) => recordFacts(tx, claim, results, runtime.now()));
    }
  }

  return { attempt, record, commit };
}

/** Without notice and event, which a fault of ours prevents: better than the same mail twice. */
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
