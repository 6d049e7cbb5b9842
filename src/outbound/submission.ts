/**
 * The role of the submission listeners (RFC 6409): mail from people's mail apps, which sign in and send as themselves.
 *
 *   AUTH: access/sign-in.ts ─► MAIL, RCPT ─► DATA: receive (spool.ts) ─► read and complete (submitted.ts) ─► accept.ts
 *
 * Invariant: the person may send as the reverse-path, From and Sender at that moment. A session ends with the password or the
 * access that it was opened with. One log line gives the outcome of a message, without body or recipients.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { PolicyRefusal } from "../access/policy.ts";
import type { SignedIn, SignIn } from "../access/sign-in.ts";
import { isKnownSignInSource } from "../access/sign-in-sources.ts";
import { AppError, isUnavailable } from "../base/errors.ts";
import { newTimedToken } from "../base/runtime.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { heldCopies } from "../mailbox/changing/holds.ts";
import { findAnsweredThread } from "../mailbox/filing/threading.ts";
import {
  type EmailAddress,
  envelopeAddress,
  isAddressLiteral,
  normalizeAddress,
  splitAddress,
} from "../message/address.ts";
import { fingerprintMessage } from "../message/message-id.ts";
import { canonicalIpAddress, ipAddressSource } from "../net/ip.ts";
import { MAIL_PARAMETERS, type MessageDsn, RCPT_PARAMETERS } from "../smtp/dsn.ts";
import { Refusal, refusalOfSending } from "../smtp/refusal.ts";
import type { Envelope, SmtpRole } from "../smtp/role.ts";
import { MOST_HOPS } from "../smtp/spool.ts";
import type { Reader } from "../store/core.ts";
import { messages, outboundMessages, queueEntries } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import { type Sent, submitMessage } from "./accept.ts";
import { mergeRecipients, requireMaySend, resolveSender, type Sender } from "./guardrails.ts";
import type { Recipient } from "./queue.ts";
import type { SendCore } from "./send-core.ts";
import { completeSubmitted, readSubmitted, type SubmittedMessage } from "./submitted.ts";
import { suppressedAmong } from "./suppression.ts";

/** 131 bits, as for messages that the API composes. */
const MESSAGE_ID_LENGTH = 22;

/** The role over `core`, for people whom `signIn` lets in. */
export function createSubmissionRole(
  core: SendCore,
  {
    signIn,
    submit = submitMessage,
  }: {
    signIn: Pick<SignIn, "inApp">;
    /** Replaced in tests. */
    submit?: typeof submitMessage;
  },
): SmtpRole {
  const { db, store, now, spool, options, runtime, log, site } = core;
  const acceptOnce = createAcceptOnce(core);
  const sender = (caller: Caller, address: string): Sender => resolveSender(db, caller, address, { alias: true });

  /** @throws Refusal notYourReversePath */
  function getReversePathSender(caller: Caller, reversePath: string): Sender {
    try {
      return sender(caller, reversePath);
    } catch (error) {
      throw error instanceof AppError ? new Refusal("notYourReversePath", error, error.message) : error;
    }
  }

  /** @throws Refusal, AppError */
  async function send(caller: Caller, envelope: Envelope, message: SubmittedMessage): Promise<SubmissionResult> {
    const { reach, address } = sender(caller, message.from);
    if (message.sender !== undefined) sender(caller, message.sender);
    const { mailbox } = reach;
    const { bytes } = message;
    const { recipients, ...dsn } = wantedIn(envelope, message);
    const threadId = findAnsweredThread(db, mailbox.id, message)?.id;
    const accept = (messageId: string, recipients: readonly Recipient[]): Promise<SubmissionResult> => {
      const completion = { hostname: site.hostname, trace: envelope.trace, messageId, now: now() };
      const compose = async () => completeSubmitted(message, completion);
      return submit(core, { caller, mailbox, from: address, recipients, messageId, threadId, compose, dsn });
    };
    const { messageId } = message;
    if (messageId === undefined) {
      return accept(`<${newTimedToken(runtime, MESSAGE_ID_LENGTH)}@${splitAddress(address).domain}>`, recipients);
    }
    const submitted = { mailboxId: mailbox.id, messageId, bytes, recipients };
    return acceptOnce(submitted, (left) => accept(messageId, left));
  }

  async function receive(
    caller: () => Caller,
    envelope: Envelope,
    content: AsyncIterable<Uint8Array>,
  ): Promise<string> {
    const startedAt = now();
    let size: number | undefined;
    let emailId: string | undefined;
    let outcome = "";
    try {
      const received = await spool.receive(content, options.get("smtp.maxMessageBytes"));
      size = received.size;
      try {
        if (received.tooLarge) throw new Refusal("tooLarge");
        if (received.hops > MOST_HOPS) throw new Refusal("loop");
        const present = caller();
        const accepted = await send(present, envelope, readSubmitted(await received.read())).catch((error) => {
          if (error instanceof PolicyRefusal) {
            store.transact((tx) => addJournalEntry(tx, present, { ids: [], outcome: error.code }, now()));
          }
          throw error;
        });
        emailId = accepted.emailId;
        outcome = accepted.held ? "held" : "accepted";
        return `2.0.0 ${emailId} ${accepted.held ? "waits for a person to approve it" : "accepted for delivery"}`;
      } finally {
        await received.dispose();
      }
    } catch (error) {
      const refusal = refusalOfSending(error);
      // The text is left out: it may name a Bcc recipient.
      outcome = `${refusal.responseCode} ${refusal.reason}`;
      if (refusal.reason === "failed" || refusal.reason === "storeUnavailable") {
        log.error("submission not accepted", { trace: envelope.trace, error: refusal.cause });
      }
      throw refusal;
    } finally {
      const { trace, ip, recipients } = envelope;
      const ms = now() - startedAt;
      log.info("submission", { trace, ip, recipients: recipients.length, size, emailId, outcome, ms });
    }
  }

  return {
    // RFC 4954 §5: a server with AUTH accepts the parameter. Its value has no effect.
    mailParameters: ["SIZE", "BODY", "SMTPUTF8", "AUTH", ...MAIL_PARAMETERS],
    rcptParameters: RCPT_PARAMETERS,
    requiresAuth: true,
    maxRecipients: () => options.get("sending.maxRecipients"),
    isTrusted: () => false,
    isKnown: (ip) => isKnownSignInSource(core, ipAddressSource(canonicalIpAddress(ip))),

    open({ trace, ip }) {
      let who: SignedIn | undefined;
      const address = canonicalIpAddress(ip);
      const source = ipAddressSource(address);

      /** @throws Refusal signInAgain, which ends the session */
      function caller(): Caller {
        const present = who?.present();
        if (!present) throw new Refusal("signInAgain");
        who?.touch(now());
        return { ...present, origin: { face: "smtp", operation: "submit", source } };
      }

      return {
        async authenticate({ username, password }) {
          try {
            const given = { username, secret: password, source, address, over: "submission", trace } as const;
            who = await signIn.inApp({ ...given, scopes: ["send"] });
          } catch (error) {
            if (isUnavailable(error)) throw new Refusal("tooManySignIns", error, error.message);
            const busy = error instanceof AppError && error.code === "rate_limited";
            throw busy ? new Refusal("tooManySignIns", error) : error;
          }
          if (!who) throw new Refusal("badCredentials");
        },

        startMail(reversePath) {
          const present = caller();
          if (reversePath === "") return;
          const { reach, address: from } = getReversePathSender(present, reversePath);
          try {
            // Checked at MAIL, because the message may be large.
            const { id: mailboxId, workspaceId } = reach.mailbox;
            requireMaySend(db, { from, mailboxId, workspaceId }, now());
          } catch (error) {
            throw refusalOfSending(error);
          }
        },

        admitRecipient(recipient) {
          const address = recipientAddress(recipient);
          if (suppressedAmong(db, caller().workspaceId, [address]).length === 0) return;
          throw new Refusal("notAccepted", undefined, `${address} is on the suppression list`);
        },

        acceptMessage: (envelope, content) => receive(caller, envelope, content),
      };
    },
  };
}

/** Returns the recipient's address: the local part as given, the domain in A-labels. @throws Refusal badRecipient */
function recipientAddress(recipient: string): string {
  const address = envelopeAddress(recipient);
  if (address === undefined || isAddressLiteral(address)) throw new Refusal("badRecipient");
  return address;
}

/** Finds the header field and the name of each recipient. A recipient in neither To nor Cc is a Bcc recipient. */
function recipientsIn({ recipients }: Envelope, { to, cc, bcc }: SubmittedMessage): Recipient[] {
  const named = (list: readonly EmailAddress[]) =>
    new Map(list.map((entry) => [normalizeAddress(entry.email), entry.name]));
  const fields = { to: named(to), cc: named(cc), bcc: named(bcc) };
  const found: Record<keyof typeof fields, EmailAddress[]> = { to: [], cc: [], bcc: [] };
  for (const recipient of recipients) {
    const email = recipientAddress(recipient);
    const key = normalizeAddress(email);
    const field = fields.to.has(key) ? "to" : fields.cc.has(key) ? "cc" : "bcc";
    const name = fields[field].get(key);
    found[field].push(name === undefined ? { email } : { email, name });
  }
  return mergeRecipients(found);
}

/** Finds the recipients, and what the app wants to be told. A message without a return address asks at most for silence. */
function wantedIn(envelope: Envelope, message: SubmittedMessage): MessageDsn & { recipients: Recipient[] } {
  const { recipients: given, ...dsn } = envelope.dsn;
  const asked = [...given].filter(([, { notify }]) => envelope.reversePath !== "" || notify === "NEVER");
  const byAddress = new Map(asked.map(([recipient, dsn]) => [normalizeAddress(recipientAddress(recipient)), dsn]));
  return {
    ...dsn,
    recipients: recipientsIn(envelope, message).map((recipient) => ({
      ...recipient,
      ...byAddress.get(normalizeAddress(recipient.email)),
    })),
  };
}

type SubmissionResult = Pick<Sent, "emailId" | "held">;

interface Submitted {
  mailboxId: string;
  /** Its own Message-ID, with angle brackets. */
  messageId: string;
  /** The message as it came; trace fields do not count. */
  bytes: Uint8Array;
  recipients: readonly Recipient[];
}

/** Apps try again within minutes. A message that a person sends again gets a Message-ID of its own. */
const REMEMBERED_MS = 3_600_000;

const acceptedEntries = prepared((db) =>
  db
    .select({ emailId: outboundMessages.id, fingerprint: messages.fingerprint, recipient: queueEntries.recipient })
    .from(outboundMessages)
    .innerJoin(messages, eq(messages.id, outboundMessages.id))
    .innerJoin(queueEntries, eq(queueEntries.messageSeq, outboundMessages.seq))
    .where(
      and(
        eq(outboundMessages.messageId, sql.placeholder("messageId")),
        eq(outboundMessages.mailboxId, sql.placeholder("mailboxId")),
        gt(outboundMessages.acceptedAt, sql.placeholder("since")),
      ),
    )
    .prepare(),
);

/**
 * Accepts each message once. A mail app submits the same message again when it did not receive our 250 (RFC 1047), or when it
 * splits a long list of recipients. No recipient gets it twice.
 */
function createAcceptOnce({ db, now }: Reader) {
  const underWay = new Map<string, Promise<SubmissionResult>>();

  async function acceptLeft(
    { mailboxId, messageId, bytes, recipients }: Submitted,
    accept: (recipients: readonly Recipient[]) => Promise<SubmissionResult>,
  ): Promise<SubmissionResult> {
    const since = now() - REMEMBERED_MS;
    const held = heldCopies(db, mailboxId, messageId, since).flatMap(({ recipients: list, ...copy }) =>
      list.map(({ email }) => ({ ...copy, recipient: email, held: true as const })),
    );
    const entries = [...acceptedEntries(db).all({ mailboxId, messageId, since }), ...held];
    const fingerprint = entries.length === 0 ? "" : fingerprintMessage(bytes);
    const same = entries.filter((entry) => entry.fingerprint === fingerprint);
    const accepted = new Set(same.map(({ recipient }) => normalizeAddress(recipient)));
    const left = recipients.filter(({ email }) => !accepted.has(normalizeAddress(email)));
    const [first] = same;
    return first && left.length === 0 ? first : accept(left);
  }

  /**
   * Calls `accept` for the recipients for whom the message was not accepted within the last hour, once work on the same message
   * on another connection has ended. Resolves with what was accepted, now or earlier.
   */
  return async function acceptOnce(
    message: Submitted,
    accept: (recipients: readonly Recipient[]) => Promise<SubmissionResult>,
  ): Promise<SubmissionResult> {
    const key = `${message.mailboxId} ${message.messageId}`;
    const before: Promise<unknown> = underWay.get(key)?.catch(() => {}) ?? Promise.resolve();
    const run = before.then(() => acceptLeft(message, accept));
    underWay.set(key, run);
    try {
      return await run;
    } finally {
      if (underWay.get(key) === run) underWay.delete(key);
    }
  };
}
