/**
 * Mail from other servers, from RCPT to filed: which recipients are taken, and what a message goes through before the
 * 250 (rules: Arrival).
 *
 *   receive (spool.ts) ─► refuse what is too large or loops ─► prepare, authenticate (parser-pool.ts)
 *     ─► disposition.ts: refuse what fails DMARC ─► reports: feedback.ts ─► file, all mailboxes at once
 *
 * Only what other servers hand in is authenticated: what comes by submission or is delivered here (local.ts) is from people
 * who have signed in, and has no verdicts.
 *
 * Invariant: a message is either filed in every mailbox it reaches, in one transaction that has committed, or refused
 * whole; the sender is told which. One log line says what became of it; never a body, never the recipients.
 */

import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Route } from "../mailbox/addresses.ts";
import type { Filed, Filing } from "../mailbox/filing.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { originalOnly } from "../mailbox/original-only.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { splitAddress } from "../message/address.ts";
import { withoutBcc } from "../message/original.ts";
import type { OutboundMessage } from "../outbound/queue.ts";
import { traceArrival } from "../outbound/trace-log.ts";
import { Refusal, refusalOf } from "../smtp/refusal.ts";
import type { Envelope } from "../smtp/role.ts";
import { MOST_HOPS, type Received, readSource, type Spool } from "../smtp/spool.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { type PreparedInbound, UnparseableError } from "../workers/jobs.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import { dispositionOf } from "./disposition.ts";
import type { Feedback, Finding } from "./feedback.ts";

export interface Inbound {
  /**
   * Says whether a recipient is taken; `declaredSize` is that of MAIL, 0 when none was given. It takes a while at a domain
   * that nobody has verified yet: its records are looked up.
   * @throws Refusal unknownRecipient, notOurs, notVerified, mailboxFull
   */
  admit(recipient: string, declaredSize: number): void | Promise<void>;
  /**
   * Takes a message in, to the last byte of `content`, and files it. Resolves when it is durable.
   * @throws Refusal
   */
  accept(envelope: Envelope, content: AsyncIterable<Uint8Array>): Promise<Accepted>;
}

export interface Accepted {
  /** None for a report that is told otherwise, or may name a Bcc recipient. */
  emailIds: string[];
  /** It is about mail that we sent. The client is not told whether it was filed: that would tell who is a Bcc recipient. */
  isReport: boolean;
}

export interface InboundParts {
  store: Pick<Store, "enqueue" | "preparing" | "blobs">;
  mailbox: Pick<Mailbox, "route" | "routeFor" | "usage" | "file" | "hasReceived">;
  /** Has a domain (A-labels) verified whose records are published; asks DNS only so often, and takes only so long. */
  verifyOnArrival(domain: string): Promise<void>;
  parser: Pick<ParserPool, "prepareInbound" | "authenticate">;
  spool: Spool;
  feedback: Feedback;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  /** Ours, as in Authentication-Results. */
  hostname: string;
  log: Log;
  meters?: Pick<Meters, "countArrival"> | undefined;
}

export function createInbound(parts: InboundParts): Inbound {
  const { store, mailbox, verifyOnArrival, parser, spool, feedback, options, runtime, hostname, log, meters } = parts;

  function admit(recipient: string, declaredSize: number): void | Promise<void> {
    // What comes of mail we sent is heard, whatever became of the mailbox.
    if (feedback.sentWith(recipient) !== undefined) return;
    const route = routeOf(recipient);
    if (route.kind !== "unverified") return admitTo(route, declaredSize);
    return verifyOnArrival(route.domain).then(() => admitTo(routeOf(recipient), declaredSize));
  }

  function admitTo(route: Route, declaredSize: number): void {
    if (route.kind === "not-local") throw new Refusal("notOurs");
    if (route.kind === "unverified") throw notVerified(route);
    if (route.kind === "unknown") throw new Refusal("unknownRecipient");
    if (!route.exempt && !fits(route.mailboxId, Math.max(declaredSize, 1))) throw new Refusal("mailboxFull");
  }

  /**
   * Also of a local part that none can have, such as `name.`: whether it is at a domain of ours tells its postmaster, which
   * every domain has (RFC 5321 §4.5.1).
   */
  function routeOf(recipient: string): Route {
    const route = mailbox.route(recipient);
    if (route.kind !== "not-local") return route;
    const postmaster = mailbox.route(`postmaster@${splitAddress(recipient).domain}`);
    return postmaster.kind === "mailbox" ? { kind: "unknown" } : postmaster;
  }

  const notVerified = ({ domain }: Extract<Route, { kind: "unverified" }>): Refusal =>
    new Refusal("notVerified", undefined, `${domain} is not verified here yet, try again later`);

  function fits(mailboxId: string, size: number): boolean {
    const { bytes, quotaBytes } = mailbox.usage(mailboxId);
    return bytes + size <= quotaBytes;
  }

  async function accept(envelope: Envelope, content: AsyncIterable<Uint8Array>): Promise<Accepted> {
    const startedAt = runtime.now();
    const { trace, ip, helo, tls, reversePath } = envelope;
    const recipients = envelope.recipients.length;
    let size: number | undefined;
    let arrived: PreparedInbound | undefined;
    let outcome = "";
    let count: ArrivalOutcome = "refused";
    const detail = () => ({ ip, helo, tls, reversePath, recipients, size, auth: arrived?.authentication.verdicts });
    try {
      const received = await spool.receive(content, options.get("smtp.maxMessageBytes"));
      size = received.size;
      try {
        if (received.tooLarge) throw new Refusal("tooLarge");
        if (received.hops > MOST_HOPS) throw new Refusal("loop");
        arrived = await store.preparing(() => prepare(received, envelope));
        const { message, authentication } = arrived;
        const spam = failsDmarc(message, authentication, envelope.recipients);
        const { organizations = [] } = authentication;
        const finding = await feedback.consider(message, { ...envelope, organizations });
        const filed = await store.enqueue((tx) => {
          finding?.record(tx);
          const filings = fileAll(tx, envelope.recipients, { message, spam, auth: authentication.verdicts }, finding);
          const emailIds = filings.map(({ messageId }) => messageId);
          const key = message.messageId ?? emailIds[0];
          if (key !== undefined) {
            const step = { ...detail(), outcome: outcomeOf(filings), emailIds };
            traceArrival(tx, "received", { key, at: runtime.now(), trace }, step);
          }
          return filings;
        });
        count = outcomeOf(filed);
        outcome = count;
        return { emailIds: filed.map(({ messageId }) => messageId), isReport: finding?.isAboutSent === true };
      } finally {
        await received.dispose();
      }
    } catch (error) {
      const refusal = refusalOf(error);
      outcome = `${refusal.responseCode} ${refusal.message}`;
      if (refusal.reason === "failed" || refusal.reason === "storeUnavailable") {
        log.error("message not filed", { trace, error: refusal.cause });
      }
      const key = arrived?.message.messageId;
      // The sender need not wait for it, and is told the same without it.
      if (key !== undefined) {
        const at = runtime.now();
        const step = { ...detail(), outcome };
        void store.enqueue((tx) => traceArrival(tx, "refused", { key, at, trace }, step)).catch(() => {});
      }
      throw refusal;
    } finally {
      const ms = runtime.now() - startedAt;
      meters?.countArrival(count, size ?? 0, ms);
      log.info("message", { trace, ...detail(), problem: arrived?.message.problem, outcome, ms });
    }
  }

  /**
   * Parsed, or, when no parser can, with nothing but its original attached: nothing accepted is lost. Who sent that one is
   * found out all the same, lest mail be made unreadable to get in.
   */
  async function prepare(received: Received, envelope: Envelope): Promise<PreparedInbound> {
    const { ip, helo, reversePath } = envelope;
    const forwarders = options.get("spam.trustedForwarders");
    const trustedForwarders = forwarders === "none" ? [] : forwarders;
    const arrival = { ip, helo, reversePath, hostname, trustedForwarders, now: runtime.now() };
    try {
      return await parser.prepareInbound(received.source, received.size, arrival);
    } catch (error) {
      if (!(error instanceof UnparseableError)) throw error;
      log.error("message cannot be parsed", { trace: envelope.trace, size: received.size, error });
      const authentication = await authenticate(received, arrival);
      const bytes = withoutBcc(await readSource(received.source));
      const message = originalOnly(bytes, reversePath, await store.blobs.write(bytes), error.message);
      return { message: { ...message, headers: [["Authentication-Results", authentication.results]] }, authentication };
    }
  }

  /** Of a message that no parser can read. Shown as from its reverse-path, it is judged by that as well. */
  async function authenticate({ source, size }: Received, arrival: Arrival): Promise<Authentication> {
    try {
      return await parser.authenticate(source, size, arrival, arrival.reversePath);
    } catch (error) {
      if (!(error instanceof UnparseableError)) throw error;
      return unreadable(hostname);
    }
  }

  /**
   * Whether what the author's domain asks for makes the message spam. DATA has one answer for all: one recipient that must
   * hear everything, postmaster (rules: Postmaster and abuse) or the return path of what we sent, since bounces are
   * seldom signed, has it accepted for all of them. So has a retry of what is filed already, which may meet other
   * verdicts than the first did. @throws Refusal dmarc when it asks for refusal and we comply
   */
  function failsDmarc(
    message: PreparedMessage,
    authentication: Authentication,
    recipients: readonly string[],
  ): boolean {
    const disposition = dispositionOf(authentication, runtime);
    if (disposition === "reject" && options.get("spam.rejectDmarc") && !recipients.some(hearsEverything)) {
      if (!recipients.every((recipient) => hasReceived(recipient, message))) throw new Refusal("dmarc");
    }
    return disposition !== "none";
  }

  function hasReceived(recipient: string, message: PreparedMessage): boolean {
    const route = mailbox.route(recipient);
    return route.kind === "mailbox" && mailbox.hasReceived(route.mailboxId, message);
  }

  function hearsEverything(recipient: string): boolean {
    const route = mailbox.route(recipient);
    return (route.kind === "mailbox" && route.exempt) || feedback.sentWith(recipient) !== undefined;
  }

  /** One message a mailbox, on the first recipient that reached it. Asks again who is there: MAIL may be minutes ago. */
  function fileAll(
    tx: Tx,
    recipients: readonly string[],
    arrived: Pick<Filing, "message" | "spam" | "auth">,
    finding: Finding | undefined,
  ) {
    const reached = new Map<string, { address: string; exempt: boolean }>();
    let isTold = false;
    let unverified: Refusal | undefined;
    for (const recipient of recipients) {
      const sent = feedback.sentWith(recipient);
      const route = sent ? returnRoute(sent) : mailbox.route(recipient);
      if (route.kind === "unverified") unverified = notVerified(route);
      const mailboxId = route.kind === "mailbox" ? route.mailboxId : sent?.mailboxId;
      if (mailboxId !== undefined && finding?.isFiled(mailboxId, sent !== undefined) === false) {
        isTold = true;
      } else if (route.kind === "mailbox") {
        const known = reached.get(route.mailboxId);
        reached.set(route.mailboxId, {
          address: known?.address ?? route.receivedOn,
          exempt: route.exempt || known?.exempt === true,
        });
      }
    }
    const mailboxes = [...reached];
    if (mailboxes.length === 0) {
      if (isTold) return [];
      throw unverified ?? new Refusal("unknownRecipient");
    }
    // DATA has one answer for all: who has room must not lose the message to who has not, who then keeps it as well.
    if (!mailboxes.some(([id, { exempt }]) => exempt || fits(id, arrived.message.size)))
      throw new Refusal("mailboxFull");
    const now = runtime.now();
    return mailboxes.map(([mailboxId, { address }]) =>
      mailbox.file(tx, { ...arrived, mailboxId, receivedOn: address, now }),
    );
  }

  /** Where what comes to a return path goes: never to another workspace, though the domain be its own by now. */
  function returnRoute({ workspaceId, mailbox: address }: OutboundMessage): Route {
    const route = mailbox.routeFor(workspaceId, address);
    return route.kind === "mailbox" && route.workspaceId !== workspaceId ? { kind: "unknown" } : route;
  }

  return { admit, accept };
}

type ArrivalOutcome = Parameters<Meters["countArrival"]>[0];

function outcomeOf(filed: readonly Filed[]): Exclude<ArrivalOutcome, "refused"> {
  if (filed.length === 0) return "report";
  return filed.every(({ duplicate }) => duplicate) ? "duplicate" : "filed";
}

/** Of a message that nothing can be found out about: spam, and nobody's word is taken for who sent it. */
function unreadable(hostname: string): Authentication {
  const verdict = "permerror";
  return {
    verdicts: { spf: verdict, dkim: verdict, dmarc: verdict },
    policy: "quarantine",
    percent: 100,
    results: `${hostname}; dmarc=${verdict} (message cannot be read)`,
  };
}
