/**
 * Attempts to deliver a claim, here or over a connection to another server, and records the outcome.
 *
 * Invariants: only one commit lies between a server's reply and its record, and it is tried until it succeeds. A fault of ours
 * during an attempt defers its recipients. When a fault keeps us from concluding the attempt, the bare results are recorded, so
 * that an accepted message is not sent again.
 */
import { formatLocalTraceFields } from "../authentication/trace-fields.ts";
import type { Room } from "../base/memory.ts";
import { type Filing, fileCopies, isMessageAlreadyReceived } from "../mailbox/filing/filing.ts";
import { measureFilingPortion, type PreparedMessage } from "../mailbox/filing/prepare.ts";
import {
  isDomainVerifiedByWorkspace,
  isDomainVerifiedElsewhere,
  localDomain,
  routeMailFromWorkspace,
} from "../mailbox/state/addresses.ts";
import { hasStorageForMessage } from "../mailbox/state/mailboxes.ts";
import type { EmailAddress } from "../message/address.ts";
import type { Carriage } from "../message/recode.ts";
import { DeliveryFailure, type DeliveryResult, toDeliveryResult } from "../smtp/delivery-result.ts";
import { decodeXtext, type TransactionDsn } from "../smtp/dsn.ts";
import { Refusal, type RefusalName } from "../smtp/refusal.ts";
import type { Core } from "../store/core.ts";
import { createPatientCommit, type Db, type Tx } from "../store/store.ts";
import { UnparseableError } from "../workers/jobs.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { signingKeys } from "./accept.ts";
import { bccDetector } from "./bcc.ts";
import type { Claim } from "./claims.ts";
import { concludeAttempt } from "./outcome.ts";
import {
  listQueueEntries,
  readOutboundContent,
  reversePathTo,
  setEntriesDelivered,
  setEntriesHeld,
  setEntryDeferred,
} from "./queue.ts";
import type { SendCore } from "./send-core.ts";
import { traceAttempt } from "./trace-log.ts";
import type { Connection } from "./transport.ts";

export interface AttemptOptions {
  /** Hold mail for other servers instead of sending it. */
  hold: boolean;
  /** Rooms for contents in memory: of deliveries here, and of those to other servers, which may take their time. */
  rooms: { here: Room; away: Room };
}

/** Copies of a message to file here, in order, each portion in a transaction of its own. */
export interface Copies {
  portions: readonly ((tx: Tx) => void)[];
  /** Roughly what a portion writes. */
  bytes: number;
}

/** The outcome of an attempt, before it is recorded. */
export type Attempted =
  | { kind: "held" }
  /** One result for each entry, in order, and the copies that were accepted here. */
  | ({ kind: "attempted"; results: readonly DeliveryResult[] } & Partial<Copies>)
  /** No connection: all entries share the result. */
  | { kind: "unreachable"; result: DeliveryResult };

/** The work of a commit, which makes the next claim and returns it. */
type NextClaim = (tx: Tx) => Claim | undefined;

const FAULT: DeliveryResult = {
  kind: "deferred",
  reply: "451 4.3.0 Local error, will try again later",
  hard: false,
  code: 451,
  status: "4.3.0",
};
/** Another workspace has verified the sender's domain since: the message must not look like one of theirs. */
const DOMAIN_LOST: DeliveryResult = {
  kind: "refused",
  reply: "550 5.7.1 The domain that this is from was verified by another workspace",
  hard: false,
  code: 550,
  status: "5.7.1",
};
/** Waiting mail of a workspace that came from another server (moving/), which an admin releases. */
const NOT_VERIFIED: DeliveryResult = {
  kind: "deferred",
  reply: "451 4.7.1 The domain that this is from is not verified here",
  hard: false,
  code: 451,
  status: "4.7.1",
};
/** Wait for the next attempt after a fault, outside the schedule. */
const AFTER_FAULT_MS = 15 * 60_000;

/** Why a message is not sent under its domain; undefined if it is. Notices may be from the server's own name. */
function findDomainRefusal(db: Db, { notice, workspaceId, domain }: Claim["message"]): DeliveryResult | undefined {
  if (notice || isDomainVerifiedByWorkspace(db, workspaceId, domain)) return undefined;
  return isDomainVerifiedElsewhere(db, workspaceId, domain) ? DOMAIN_LOST : NOT_VERIFIED;
}

export function createAttempts(core: SendCore, { hold, rooms }: AttemptOptions) {
  const { db, store, runtime, log, meters } = core;

  /** Commits; waits while the store is unavailable. */
  const commit = createPatientCommit({ store, runtime, log, warning: "the store cannot record a delivery attempt" });
  /** The bytes of messages in use, read once for all destinations that a message is sent to at the same time. */
  const contents = new Map<number, { bytes: Promise<Uint8Array>; users: number; leaveRoom(): void }>();

  function share(room: Room, messageSeq: number) {
    const enter = async (size: number): Promise<void> => {
      const leave = await room.enter(size);
      shared.leaveRoom = leave;
    };
    const shared = { bytes: readOutboundContent(store, messageSeq, enter), users: 0, leaveRoom: () => {} };
    contents.set(messageSeq, shared);
    return shared;
  }

  async function withContent<T>(room: Room, messageSeq: number, use: (bytes: Uint8Array) => Promise<T>): Promise<T> {
    const shared = contents.get(messageSeq) ?? share(room, messageSeq);
    shared.users++;
    try {
      return await use(await shared.bytes);
    } finally {
      if (--shared.users === 0) {
        contents.delete(messageSeq);
        shared.leaveRoom();
      }
    }
  }

  /** Attempts to deliver. `open` gives the connection when one is needed. Never rejects. */
  async function attempt(claim: Claim, open: () => Promise<Connection>): Promise<Attempted> {
    const { message, entries, domain } = claim;
    const startedAt = runtime.now();
    let attempted: Attempted;
    let remote: string | undefined;
    try {
      const refusal = findDomainRefusal(db, message);
      if (refusal) {
        attempted = { kind: "attempted", results: entries.map(() => refusal) };
      } else if (localDomain(db, message.workspaceId, domain) !== undefined) {
        remote = "here";
        const delivery = await withContent(rooms.here, message.seq, (content) => deliverHere(core, claim, content));
        attempted = { kind: "attempted", ...delivery };
      } else if (hold) {
        attempted = { kind: "held" };
      } else {
        const connection = await open();
        remote = connection.remote;
        const recipients = entries.map(({ recipient }) => recipient);
        const destinations = entries.map((entry) => entry.domain);
        const results = await withContent(rooms.away, message.seq, (content) =>
          connection.send({
            reversePath: reversePathTo(message, destinations),
            recipients,
            content,
            recode: (takes) => recodeContent(core, claim, content, takes),
            ...dsnFor(db, claim),
          }),
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
      outcome: formatResultCounts(attempted),
      ms: runtime.now() - startedAt,
    });
    return attempted;
  }

  /** Records the outcome, and makes the next claim in the same commit. Rejects when not even the bare results can be recorded. */
  async function recordAttempt(claim: Claim, attempted: Attempted, next: NextClaim): Promise<Claim | undefined> {
    const { entries, message } = claim;
    if (attempted.kind === "held") {
      return commit((tx) => {
        setEntriesHeld(tx, entries);
        return next(tx);
      });
    }
    const results = attempted.kind === "attempted" ? attempted.results : entries.map(() => attempted.result);
    const { portions = [], bytes } = attempted.kind === "attempted" ? attempted : {};
    for (const { kind } of results) meters.countDelivered(kind);
    try {
      const recordOutcome = await concludeAttempt(core, claim, results);
      for (const file of portions.slice(0, -1)) await commit(file, bytes);
      return await commit((tx) => {
        portions.at(-1)?.(tx);
        recordOutcome(tx);
        traceAttempt(tx, claim, results, runtime.now());
        return next(tx);
      }, bytes);
    } catch (error) {
      log.error("the outcome of a delivery attempt cannot be worked out", { emailId: message.id, error });
      // Not all copies for mailboxes here are filed yet.
      if (portions.length > 0)
        return recordAttempt(claim, { kind: "attempted", results: entries.map(() => FAULT) }, next);
      return commit((tx) => recordFacts(tx, claim, results, runtime.now()));
    }
  }

  return { attempt, recordAttempt, commit };
}

/** Records results without notice and event, which a fault of ours prevents. The recipient must not get the mail twice. */
function recordFacts(tx: Tx, claim: Claim, results: readonly DeliveryResult[], now: number): undefined {
  for (const [i, entry] of claim.entries.entries()) {
    const { kind, reply, remote } = results[i] ?? FAULT;
    if (kind === "accepted") setEntriesDelivered(tx, [entry], now, reply, remote);
    else setEntryDeferred(tx, entry, now + AFTER_FAULT_MS, reply);
  }
  traceAttempt(tx, claim, results, now);
}

/**
 * Returns what the remote is told to tell, if the mail app asked for anything. Texts of the app that might name a Bcc recipient
 * are left out, except for that recipient's own address to its own server (rules: Bcc).
 */
function dsnFor(db: Db, { message, entries }: Claim): { dsn?: TransactionDsn } {
  const { ret, envid } = message;
  if (ret === null && envid === null && entries.every(({ notify, orcpt }) => notify === null && orcpt === null))
    return {};
  const all = listQueueEntries(db, message.seq);
  const namesOther = (text: string, own?: number) =>
    bccDetector(
      all.filter(({ seq }) => seq !== own),
      message.domain,
    )(decodeXtext(text));
  return {
    dsn: {
      ...(ret !== null && { ret }),
      ...(envid !== null && !namesOther(envid) && { envid }),
      recipients: new Map(
        entries.map(({ seq, recipient, notify, orcpt }) => [
          recipient,
          {
            ...(notify !== null && { notify }),
            ...(orcpt !== null && !namesOther(orcpt, seq) && { orcpt }),
          },
        ]),
      ),
    },
  };
}

/** Counts the results, such as `accepted 2, refused 1`. */
function formatResultCounts(attempted: Attempted): string {
  if (attempted.kind !== "attempted") return attempted.kind;
  const counts = new Map<string, number>();
  for (const { kind } of attempted.results) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${kind} ${count}`).join(", ");
}

/**
 * Makes the content of a message fit a server, signed with the keys that its domain has now. Content that no parser can take
 * apart stays as it is. @throws AppError server_error 503
 */
async function recodeContent(
  { db, parser, now }: SendCore,
  { message }: Claim,
  content: Uint8Array,
  takes: Carriage,
): Promise<Uint8Array> {
  const signing = { keys: signingKeys(db).all({ domain: message.domain }), signedAt: now() };
  try {
    return (await parser.recodeOutbound(message.mailboxId, content, takes, signing)) ?? content;
  } catch (error) {
    if (error instanceof UnparseableError) return content;
    throw error;
  }
}

/** The destination of a recipient at this server: a mailbox, or a refusal. */
type Destination = { mailboxId: string; receivedOn: string } | { refusal: RefusalName };

/**
 * Delivers to mailboxes of this server (rules: Local delivery): decides for every entry of the claim, in order. `portions` then
 * file the accepted copies, the last one in the transaction that records the results. The first throws when the decisions no
 * longer hold.
 *
 * Invariant: a mailbox gets one copy of a message, whichever recipients reach it. The copy names those of them who were in
 * Bcc, and no other Bcc recipient (rules: Arrival, Bcc).
 * @throws AppError server_error 503 when the message cannot be prepared for now
 */
export async function deliverHere(
  core: ParsingCore,
  { message, entries }: Claim,
  content: Uint8Array,
): Promise<{ results: DeliveryResult[] } & Copies> {
  const fields = {
    ...{ reversePath: message.mailbox, hostname: core.site.hostname, id: message.id, now: core.now() },
    // Others must not learn of each other.
    recipient: entries.length === 1 ? entries[0]?.recipient : undefined,
  };
  const top = { lines: formatLocalTraceFields(fields), hostname: core.site.hostname };
  const prepared = await core.parser.prepare({ kind: "interactive", source: message.mailboxId }, content, { top });
  const decide = () =>
    entries.map(({ recipient }) => chooseLocalDestination(core, message.workspaceId, recipient, prepared));
  const decided = decide();

  const { atOnce, bytes } = measureFilingPortion(prepared);
  const copies = new Map<string, Pick<Filing, "mailboxId" | "receivedOn">>();
  for (const destination of decided) {
    if ("refusal" in destination || copies.has(destination.mailboxId)) continue;
    copies.set(destination.mailboxId, destination);
  }

  function file(tx: Tx, first: number): void {
    if (first === 0 && JSON.stringify(decide()) !== JSON.stringify(decided)) {
      throw new Error("recipients changed while mail was prepared");
    }
    const bcc = bccByMailbox(tx, message, core.now());
    const now = core.now();
    const filings = [...copies.values()].slice(first, first + atOnce).map((copy) => ({
      ...copy,
      message: prepared,
      reversePath: message.mailbox,
      bcc: bcc.get(copy.mailboxId) ?? [],
      now,
    }));
    fileCopies(core, tx, filings, { indexLater: first > 0 });
  }

  // One portion even without a copy, to check the decisions.
  const portions = Array.from({ length: Math.max(1, Math.ceil(copies.size / atOnce)) }, (_, i) => (tx: Tx) => {
    file(tx, i * atOnce);
  });
  return { results: decided.map(resultOn), portions, bytes: Math.min(copies.size, atOnce) * bytes };
}

function chooseLocalDestination(
  core: Core,
  workspaceId: string,
  recipient: string,
  prepared: PreparedMessage,
): Destination {
  const route = routeMailFromWorkspace(core.db, workspaceId, recipient, core.now());
  if (route.kind === "moving") return { refusal: "moving" };
  if (route.kind !== "mailbox") return { refusal: "unknownRecipient" };
  // An earlier attempt may have filed some of the copies.
  if (
    !hasStorageForMessage(core, route, prepared.size) &&
    !isMessageAlreadyReceived(core.db, route.mailboxId, prepared)
  ) {
    return { refusal: "mailboxFull" };
  }
  return { mailboxId: route.mailboxId, receivedOn: route.receivedOn };
}

/** Lists the Bcc recipients of a message by mailbox. Reads all entries, since another claim may have filed the copy. */
function bccByMailbox(db: Db, { seq, workspaceId }: Claim["message"], now: number): Map<string, EmailAddress[]> {
  const found = new Map<string, EmailAddress[]>();
  for (const { field, recipient, name } of listQueueEntries(db, seq)) {
    if (field !== "bcc") continue;
    const route = routeMailFromWorkspace(db, workspaceId, recipient, now);
    if (route.kind !== "mailbox") continue;
    const address = { email: recipient, ...(name === null ? {} : { name }) };
    found.set(route.mailboxId, [...(found.get(route.mailboxId) ?? []), address]);
  }
  return found;
}

function resultOn(destination: Destination): DeliveryResult {
  if ("mailboxId" in destination) {
    return toDeliveryResult({ command: "data", code: 250, text: "250 2.1.5 Delivered here" });
  }
  const { responseCode, message } = new Refusal(destination.refusal);
  return toDeliveryResult({ command: "rcpt", code: responseCode, text: `${responseCode} ${message}` });
}
