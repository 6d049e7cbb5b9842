/**
 * The data from which a reply to a conversation starts: the message that is answered, and the addresses that the reply
 * may come from (rules: Reply, Addresses).
 */
import { and, desc, eq, isNotNull, ne, or, sql } from "drizzle-orm";
import type { Caller, Reach } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
import { referencesOf } from "../message/message-id.ts";
import { addresses, messageBodies, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store } from "../store/store.ts";
import { BEFORE_ANY_EXPIRY, routeFor } from "./addresses.ts";
import { reachedThread } from "./change.ts";
import { servedHtml } from "./messages.ts";

/** The newest received message, or, if none was received, the newest sent one. */
export interface AnsweredMessage {
  kind: "received" | "sent";
  /** With its angle brackets, as are the next two. */
  messageId?: string;
  inReplyTo?: string;
  /** Oldest first. */
  references: string[];
  /** Epoch ms. */
  date: number;
  from: EmailAddress;
  replyTo: EmailAddress[];
  to: EmailAddress[];
  cc: EmailAddress[];
  subject: string;
  text: string;
  /** Sanitised. */
  html?: string;
  /** The address it arrived on, without a tag. */
  receivedOn?: string;
}

export interface ReplyContext {
  reach: Reach;
  /** Absent in a conversation that has only a draft or notices. */
  answered?: AnsweredMessage;
  /** The mailbox's own address and its aliases. */
  own: ReadonlySet<string>;
  /**
   * The addresses at which this conversation's mail arrived, if they still lead to the mailbox: own addresses and
   * catch-alls.
   */
  arrivedOn: ReadonlySet<string>;
}

const statements = prepared((db) => ({
  answered: db
    .select({ message: messages, body: { ...bodyColumns(), headers: messageBodies.headers } })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(
      and(
        eq(messages.threadSeq, sql.placeholder("threadSeq")),
        // A received message without an address is one of our own notices.
        or(eq(messages.kind, "sent"), and(eq(messages.kind, "received"), isNotNull(messages.receivedOn))),
      ),
    )
    .orderBy(sql`${messages.kind} = 'received' desc`, desc(messages.date), desc(messages.seq))
    .limit(1)
    .prepare(),
  arrivedOn: db
    .selectDistinct({ address: messages.receivedOn })
    .from(messages)
    .where(and(eq(messages.threadSeq, sql.placeholder("threadSeq")), isNotNull(messages.receivedOn)))
    .prepare(),
  own: db
    .select({ address: addresses.address })
    .from(addresses)
    .where(and(eq(addresses.mailboxId, sql.placeholder("mailboxId")), ne(addresses.kind, "catch-all")))
    .prepare(),
}));

function bodyColumns() {
  const { messageSeq, text, html, sanitizer } = messageBodies;
  return { messageSeq, text, html, sanitizer };
}

/** @throws AppError not_found, also for a conversation out of reach */
export function readReplyContext(store: Store, caller: Caller, threadId: string): ReplyContext {
  const { db } = store;
  const { thread, reach } = reachedThread(db, caller, threadId);
  const { mailboxId, seq: threadSeq } = thread;
  const leadsHere = (address: string): boolean => {
    const route = routeFor(db, reach.mailbox.workspaceId, address, BEFORE_ANY_EXPIRY);
    return route.kind === "mailbox" && route.mailboxId === mailboxId;
  };
  const arrivedOn = statements(db)
    .arrivedOn.all({ threadSeq })
    .flatMap(({ address }) => address ?? []);
  const answered = readAnswered(store, threadSeq);
  return {
    reach,
    ...(answered && { answered }),
    own: new Set(
      statements(db)
        .own.all({ mailboxId })
        .map(({ address }) => address),
    ),
    arrivedOn: new Set(arrivedOn.filter(leadsHere)),
  };
}

function readAnswered(store: Store, threadSeq: number): AnsweredMessage | undefined {
  const row = statements(store.db).answered.get({ threadSeq });
  if (!row) return undefined;
  const { message, body } = row;
  const html = servedHtml(body);
  return {
    kind: message.kind === "received" ? "received" : "sent",
    ...(message.messageId === null ? {} : { messageId: message.messageId }),
    ...(message.inReplyTo === null ? {} : { inReplyTo: message.inReplyTo }),
    references: referencesOf(
      body.headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : [])).join(" "),
    ),
    date: message.date,
    from: message.from,
    replyTo: message.replyTo,
    to: message.to,
    cc: message.cc,
    subject: message.subject,
    text: body.text,
    ...(html === null ? {} : { html }),
    ...(message.receivedOn === null ? {} : { receivedOn: message.receivedOn }),
  };
}
