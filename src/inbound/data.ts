/**
 * DATA at the MX listener: receives, authenticates and files a message before the 250 (rules: Arrival).
 *
 *   receive (spool.ts) ─► refuse what is too large or loops ─► prepare, authenticate (parsers)
 *     ─► disposition: refuse what fails DMARC ─► reports: feedback.ts ─► file, all mailboxes at once
 *
 * Only mail of other servers is authenticated. Mail that people submit after signing in has no verdicts, also when it is
 * delivered here without leaving (outbound/attempt.ts).
 *
 * Invariant: a message is either filed in every mailbox that it reaches, durably, or refused as a whole, and the reply says
 * which. All copies are filed in one transaction, unless they are so large that it would keep the server from other work; if a
 * later portion of those fails, the next attempt finds the first ones filed (rules: Arrival). One log line gives the outcome,
 * without bodies or recipients.
 */
import type { Authentication, Policy } from "../authentication/dmarc.ts";
import type { SmtpContext } from "../authentication/evidence.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Filed, type Filing, fileCopies, isMessageAlreadyReceived } from "../mailbox/filing/filing.ts";
import { measureFilingPortion, type PreparedMessage, prepareUnreadableMessage } from "../mailbox/filing/prepare.ts";
import { isJunkFilterTrained } from "../mailbox/junk/junk-filter.ts";
import {
  isRouteStillValid,
  type Route,
  routeIncomingMail,
  routeMailFromWorkspace,
} from "../mailbox/state/addresses.ts";
import { hasStorageForMessage } from "../mailbox/state/mailboxes.ts";
import { withoutBcc, withoutNul } from "../message/headers.ts";
import type { OutboundMessage } from "../outbound/queue.ts";
import { countRefusalToTrace, traceArrival } from "../outbound/trace-log.ts";
import { Refusal, toSmtpRefusal } from "../smtp/refusal.ts";
import type { Envelope } from "../smtp/role.ts";
import { MOST_HOPS, type Received } from "../smtp/spool.ts";
import type { Core, Reader } from "../store/core.ts";
import type { Tx } from "../store/store.ts";
import { type PreparedInbound, UnparseableError } from "../workers/jobs.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import type { Admitted } from "./connect.ts";
import { considerReport, type Finding } from "./feedback.ts";
import { isKnownNetwork, noteNetworkDelivery } from "./known.ts";
import { unverifiedDomainRefusal } from "./rcpt.ts";

/** Most time from the last byte of a report to its reply. To file it takes much less. */
const REPORT_MS = 1_000;

/** Outcome of a message at the MX listener. */
export interface AcceptResult {
  /** Empty for a report that our own notice replaces, or that may name a Bcc recipient. */
  emailIds: string[];
  /**
   * The message is a report on mail that we sent. Neither the reply nor its time says whether it was filed, since that would give
   * away a Bcc recipient.
   */
  isReport: boolean;
  /** When a report is answered, epoch ms. */
  replyAt?: number;
}

/** Receives a message, to the last byte of `content`, authenticates and files it. Resolves when it is durable. @throws Refusal */
export async function acceptMessage(
  core: ParsingCore,
  envelope: Envelope,
  recipients: readonly Admitted[],
  content: AsyncIterable<Uint8Array>,
): Promise<AcceptResult> {
  const { store, spool, options, now, log, meters } = core;
  const startedAt = now();
  const { trace, ip, helo, tls, reversePath } = envelope;
  let size: number | undefined;
  let arrived: PreparedInbound | undefined;
  let outcome = "";
  let count: ArrivalOutcome = "refused";
  const verdicts = () => arrived?.authentication.verdicts;
  const detail = () => ({ ip, helo, tls, reversePath, recipients: recipients.length, size, auth: verdicts() });
  try {
    const received = await spool.receive(content, options.get("smtp.maxMessageBytes"));
    size = received.size;
    const replyAt = now() + REPORT_MS;
    try {
      if (received.tooLarge) throw new Refusal("tooLarge");
      if (received.hops > MOST_HOPS) throw new Refusal("loop");
      const { message, authentication, spam, finding } = await store.preparing(async () => {
        const prepared = await prepare(core, received, envelope, recipients);
        arrived = prepared;
        const decided = await decide(core, prepared, envelope, recipients);
        // What is refused leaves no blob.
        if (!store.remote) await prepared.staged.adopt(store.blobs);
        return { ...prepared, ...decided };
      });
      // Other messages do not wait for the network to share a commit with this one.
      if (store.remote) await arrived?.staged.adopt(store.blobs);
      const { verdicts: auth, listSigner } = authentication;
      const authenticated = { message, spam, auth, listSigner, reversePath };
      const filed = await fileAll(core, recipients, authenticated, finding, (tx, all) => {
        const emailIds = all.map(({ messageId }) => messageId);
        noteNetworkDelivery(core, tx, ip, emailIds);
        const key = message.messageId ?? emailIds[0];
        if (key !== undefined) {
          const step = { ...detail(), outcome: arrivalOutcome(all), emailIds };
          traceArrival(tx, "received", { key, at: now(), trace }, step);
        }
      });
      count = arrivalOutcome(filed);
      outcome = count;
      const emailIds = filed.map(({ messageId }) => messageId);
      return finding?.isAboutSent ? { emailIds, isReport: true, replyAt } : { emailIds, isReport: false };
    } finally {
      await arrived?.staged.drop();
      await received.dispose();
    }
  } catch (error) {
    const refusal = toSmtpRefusal(error);
    outcome = `${refusal.responseCode} ${refusal.message}`;
    if (refusal.reason === "failed" || refusal.reason === "storeUnavailable") {
      log.error("message not filed", { trace, error: refusal.cause });
    }
    const key = arrived?.message.messageId;
    // Not awaited: the reply to the sender does not depend on it.
    if (key !== undefined && countRefusalToTrace(core)) {
      const at = now();
      const step = { ...detail(), outcome };
      void store.enqueue((tx) => traceArrival(tx, "refused", { key, at, trace }, step)).catch(() => {});
    }
    throw refusal;
  } finally {
    const ms = now() - startedAt;
    meters.countArrival(count, size ?? 0, ms);
    log.info("message", { trace, ...detail(), problem: arrived?.message.problem, outcome, ms });
  }
}

/** @throws Refusal dmarc, tooEarly, and as listFilingDestinations */
async function decide(
  core: ParsingCore,
  { message, authentication, staged }: PreparedInbound,
  { reversePath }: Envelope,
  recipients: readonly Admitted[],
): Promise<{ spam: boolean; finding: Finding | undefined }> {
  const spam = isSpamByPolicy(core, message, authentication, recipients);
  const { organizations = [] } = authentication;
  const returned = recipients.flatMap(({ sent }) => sent ?? []);
  const finding = await considerReport(core, message, { reversePath, returned, organizations });
  // Before they become blobs; the transaction that files the message looks anyway.
  if (staged.count > 0) listFilingDestinations(core, recipients, message, finding);
  return { spam, finding };
}

/**
 * Parses and authenticates a message. A message that no parser can read is filed with its original attached, so that nothing
 * accepted is lost; it is authenticated too, so that unreadable mail gets no way around DMARC.
 */
async function prepare(
  core: ParsingCore,
  received: Received,
  envelope: Envelope,
  admitted: readonly Admitted[],
): Promise<PreparedInbound> {
  const { parser, spool, options, now, log, site } = core;
  const { ip, helo, tls, trace, reversePath, recipients } = envelope;
  const recipient = recipients.length === 1 ? recipients[0] : undefined;
  const forwarders = options.get("spam.trustedForwarders");
  const trustedForwarders = forwarders === "none" ? [] : forwarders;
  const { hostname } = site;
  const session = { ip, helo, tls, trace, reversePath, recipient };
  const smtpContext = { ...session, hostname, trustedForwarders, now: now() };
  try {
    const isStranger = !isKnownNetwork(core, ip);
    return await parser.prepareInbound(received.source, received.size, smtpContext, {
      isStranger,
      isJudged: isJunkJudged(core, admitted),
      released: received.disposed,
    });
  } catch (error) {
    if (!(error instanceof UnparseableError)) throw error;
    log.error("message cannot be parsed", { trace: envelope.trace, size: received.size, error });
    const authentication = await authenticate(core, received, smtpContext);
    const bytes = withoutBcc(withoutNul(await received.read()));
    const spooledFile = await spool.keep([bytes], () => {});
    const message = prepareUnreadableMessage(bytes, reversePath, spooledFile.sha256, error.message);
    return {
      message: { ...message, headers: [["Authentication-Results", authentication.results]] },
      authentication,
      staged: {
        count: 1,
        adopt: async (blobs) => void (await blobs.adopt(spooledFile.path, spooledFile.sha256)),
        drop: spooledFile.dispose,
      },
    };
  }
}

/** True if the junk filter of some recipient has an opinion on mail. */
const isJunkJudged = ({ db, options }: Core, recipients: readonly Admitted[]): boolean =>
  options.get("spam.junkThreshold") !== "off" &&
  recipients.some(({ route, sent }) => {
    const mailboxId = route?.mailboxId ?? sent?.message.mailboxId;
    return mailboxId !== undefined && isJunkFilterTrained(db, mailboxId);
  });

/**
 * Authenticates a message that no parser can read, by its reverse-path, which the app shows as its author. If that fails, too, the
 * message is judged by what its envelope and its header prove.
 */
async function authenticate(
  { parser }: ParsingCore,
  { source, size }: Received,
  smtpContext: SmtpContext,
): Promise<Authentication> {
  for (const headerOnly of [undefined, true] as const) {
    try {
      return await parser.authenticate(source, size, smtpContext, smtpContext.reversePath, headerOnly);
    } catch (error) {
      if (!(error instanceof UnparseableError)) throw error;
    }
  }
  return unreadable(smtpContext.hostname);
}

/**
 * Tells whether the message is spam by the policy of the author's domain. DATA has one reply for all recipients: the message is
 * accepted for all of them when one of them gets all mail, such as postmaster (rules: Postmaster and abuse) or a return path,
 * since bounces are seldom signed. A retry of a message that is filed already is accepted too: its verdicts may differ from
 * those of the first. @throws Refusal dmarc when the domain asks for refusal and we comply
 */
function isSpamByPolicy(
  { db, options, runtime }: Core,
  message: PreparedMessage,
  authentication: Authentication,
  recipients: readonly Admitted[],
): boolean {
  const disposition = chooseDisposition(authentication, runtime);
  const getsAllMail = ({ route, sent }: Admitted) => sent !== undefined || route?.exempt === true;
  const hasIt = ({ route }: Admitted) => route !== undefined && isMessageAlreadyReceived(db, route.mailboxId, message);
  if (disposition === "reject" && options.get("spam.rejectDmarc") && !recipients.some(getsAllMail)) {
    if (!recipients.every(hasIt)) throw new Refusal("dmarc");
  }
  return disposition !== "none";
}

/**
 * Files one copy in each mailbox, in as many transactions as their size takes. The last one also records what the message
 * reports, and runs `conclude`. @throws Refusal as listFilingDestinations
 */
async function fileAll(
  core: ParsingCore,
  recipients: readonly Admitted[],
  arrived: Pick<Filing, "message" | "spam" | "auth" | "listSigner" | "reversePath">,
  finding: Finding | undefined,
  conclude: (tx: Tx, filed: readonly Filed[]) => void,
): Promise<Filed[]> {
  const { atOnce, bytes } = measureFilingPortion(arrived.message);
  const filed = new Map<string, Filed>();
  for (let isLast = false; !isLast; ) {
    const portion = await core.store.enqueue((tx) => {
      const destinations = listFilingDestinations(core, recipients, arrived.message, finding, filed);
      const isLast = destinations.length <= atOnce;
      if (isLast) finding?.recordReport(tx);
      const now = core.now();
      const copies = destinations.slice(0, atOnce);
      const filings = copies.map(([mailboxId, receivedOn]) => ({ ...arrived, mailboxId, receivedOn, now }));
      const more = fileCopies(core, tx, filings, { indexLater: filed.size > 0 });
      if (isLast) conclude(tx, [...filed.values(), ...more]);
      return { isLast, filed: more.map((one, i) => [filings[i]?.mailboxId ?? "", one] as const) };
    }, Math.min(recipients.length, atOnce) * bytes);
    for (const [mailboxId, one] of portion.filed) filed.set(mailboxId, one);
    ({ isLast } = portion);
  }
  return [...filed.values()];
}

/**
 * Lists the mailboxes that a message reaches by now, each with the address of the first recipient that leads there; none for
 * a report of which our own notice tells. `filed`: those that have their copies, which are left out, and after which the
 * message is not refused. @throws Refusal notVerified, moving, unknownRecipient, mailboxFull
 */
function listFilingDestinations(
  core: Core,
  recipients: readonly Admitted[],
  { size }: Pick<PreparedMessage, "size">,
  finding: Finding | undefined,
  filed: ReadonlyMap<string, Filed> = new Map(),
): [mailboxId: string, receivedOn: string][] {
  const reached = new Map<string, { address: string; exempt: boolean }>();
  let isNotified = false;
  let unverified: Refusal | undefined;
  for (const recipient of recipients) {
    const { sent } = recipient;
    const route = sent ? returnRoute(core, sent.message) : presentRoute(core, recipient);
    if (route.kind === "unverified") unverified = unverifiedDomainRefusal(route);
    if (route.kind === "moving") throw new Refusal("moving");
    const mailboxId = route.kind === "mailbox" ? route.mailboxId : sent?.message.mailboxId;
    if (mailboxId !== undefined && finding?.isFiled(mailboxId, sent !== undefined) === false) {
      isNotified = true;
    } else if (route.kind === "mailbox") {
      const known = reached.get(route.mailboxId);
      reached.set(route.mailboxId, {
        address: known?.address ?? route.receivedOn,
        exempt: route.exempt || known?.exempt === true,
      });
    }
  }
  const mailboxes = [...reached].filter(([mailboxId]) => !filed.has(mailboxId));
  if (filed.size === 0) {
    if (mailboxes.length === 0) {
      if (isNotified) return [];
      throw unverified ?? new Refusal("unknownRecipient");
    }
    // One full mailbox must not cost the others the message, so it gets a copy too.
    if (!mailboxes.some(([mailboxId, { exempt }]) => hasStorageForMessage(core, { mailboxId, exempt }, size))) {
      throw new Refusal("mailboxFull");
    }
  }
  return mailboxes.map(([mailboxId, { address }]) => [mailboxId, address]);
}

/**
 * Returns the route of RCPT, or the present one when the mailbox was removed since, or another workspace verified the domain.
 */
const presentRoute = ({ db, now }: Reader, { address, route }: Admitted): Route =>
  route !== undefined && isRouteStillValid(db, route, now()) ? route : routeIncomingMail(db, address, now());

/** Finds the route of a return path: never into another workspace, even when that has verified the domain since. */
function returnRoute({ db, now }: Reader, { workspaceId, mailbox: address }: OutboundMessage): Route {
  const route = routeMailFromWorkspace(db, workspaceId, address, now());
  return route.kind === "mailbox" && route.workspaceId !== workspaceId ? { kind: "unknown" } : route;
}

/**
 * Decides the disposition of a message (RFC 9989 §5.4, rules: DMARC): the policy that its author's domain publishes for mail
 * that fails DMARC. A domain may ask for it in a percentage of the cases, which are drawn by lot; in the others the next weaker
 * policy applies (RFC 7489 §6.6.4).
 */
export function chooseDisposition(
  { policy, percent }: Pick<Authentication, "policy" | "percent">,
  runtime: Pick<Runtime, "randomBytes">,
): Policy {
  if (policy === "none" || percent >= 100) return policy;
  const [high = 0, low = 0] = runtime.randomBytes(2);
  const isDrawn = ((high << 8) | low) < (percent / 100) * 65_536;
  if (isDrawn) return policy;
  return policy === "reject" ? "quarantine" : "none";
}

type ArrivalOutcome = Parameters<Meters["countArrival"]>[0];

function arrivalOutcome(filed: readonly Filed[]): Exclude<ArrivalOutcome, "refused"> {
  if (filed.length === 0) return "report";
  return filed.every(({ duplicate }) => duplicate) ? "duplicate" : "filed";
}

/** Makes the result for a message that cannot be authenticated: it is spam, and its author is not believed. */
function unreadable(hostname: string): Authentication {
  const verdict = "permerror";
  return {
    verdicts: { spf: verdict, dkim: verdict, dmarc: verdict },
    policy: "quarantine",
    percent: 100,
    results: `${hostname}; dmarc=${verdict} (message cannot be read)`,
  };
}
