/**
 * Tells browsers by Web Push of new mail, of messages that wait for approval, and of mail that could not be delivered (rules:
 * Push). Follows the events, which are written in the transactions of their causes.
 *
 *   commit ─► look: events since the last one ─► what each browser is told, by mailbox ─► one request a browser
 *
 * Invariants: a browser is told only of mailboxes that its person reaches, and only of mail that is in the inbox, unread, by
 * then. Notifications name no Bcc recipient. No commit waits for this; news that was not sent when the server stops is lost.
 */
import { and, asc, eq, gt, inArray, max } from "drizzle-orm";
import { findReach } from "../access/caller.ts";
import { MOST_REQUESTS } from "../base/descriptors.ts";
import { createShares } from "../base/shares.ts";
import { type HttpClientParts, openHttpClient } from "../net/http-client.ts";
import type { Core } from "../store/core.ts";
import { events, messages, threads } from "../store/schema.ts";
import { pushRequest } from "./encryption.ts";
import {
  countPushSubscriptions,
  findStoredPushKeys,
  getPushKeys,
  listPushSubscriptions,
  notePushOutcome,
  type Subscription,
  unsubscribeFromPush,
} from "./subscriptions.ts";

/** Events within this time are told together. */
const GATHER_MS = 2_000;
/** Shortest time between two requests to one browser; what happens meanwhile is told together. */
const BETWEEN_MS = 10_000;
const TIMEOUT_MS = 10_000;
const MOST_EVENTS = 500;
/** Pieces of news for one browser that are named; more are counted. */
const MOST_NEWS = 200;
/** How long a request waits for its turn, ms. */
const WAIT_MS = 10 * 60_000;
/** Bytes of one message. Push services take 4,096 at least (RFC 8030 §7.2), of which encryption takes 103. */
const MOST_BYTES = 3_900;
const FIRST_REST_MS = 30_000;
const LONGEST_REST_MS = 6 * 60 * 60_000;
/** With the rests between them, some two days. */
const MOST_FAILURES = 20;
/** RFC 8030 §7.3: the push service does not know it any more. */
const GONE: ReadonlySet<number> = new Set([404, 410]);
const LONGEST_TEXT = 200;

const KINDS = { "message.inbound": "mail", "message.held": "held", "message.bounced": "bounced" } as const;
type Kind = (typeof KINDS)[keyof typeof KINDS];

interface News {
  kind: Kind;
  mailboxId: string;
  emailId: string;
}

/** Notification that the service worker shows (app/worker/worker.ts). */
export interface Notification {
  title: string;
  body: string;
  /** A path of the app. */
  url: string;
  /** Replaces the one before with the same tag. */
  tag: string;
}

export function createPush(
  { db, store, runtime, log, metrics }: Core,
  {
    contact,
    allow = () => [],
  }: {
    /** URL of whoever runs the server, for push services. */
    contact: string;
    /** Excepted networks, as readDestination takes them. */
    allow?: HttpClientParts["allow"];
  },
) {
  // A browser needs the public one to subscribe.
  const keys = findStoredPushKeys(db) ?? store.transact(getPushKeys);
  const client = openHttpClient({ runtime, allow, mostIdle: MOST_REQUESTS.push });
  const underWay = createShares({ most: MOST_REQUESTS.push, runtime });
  const outcomes = metrics.counter<{ outcome: "sent" | "failed" | "gone" }>(
    "mailroom_push_total",
    "Notifications handed to push services, by outcome",
  );
  metrics.gauge("mailroom_push_subscriptions", "Browsers that asked for notifications", () => [
    [{}, countPushSubscriptions(db)],
  ]);

  /** News that each session is still to be told, and when it was told last. */
  const news = new Map<string, News[]>();
  const notifiedAt = new Map<string, number>();
  /** Sessions whose request waits for its turn or is under way. */
  const asking = new Set<string>();
  const stopping = new AbortController();
  const latest = () =>
    db
      .select({ seq: max(events.seq) })
      .from(events)
      .get()?.seq ?? 0;
  let seen = latest();
  let cancelTimer: (() => void) | undefined;

  function schedule(ms: number): void {
    if (cancelTimer || stopping.signal.aborted) return;
    cancelTimer = runtime.setTimer(() => {
      cancelTimer = undefined;
      try {
        look();
      } catch (error) {
        log.warn("browsers could not be told the news", { error });
      }
    }, ms);
  }

  function look(): void {
    const now = runtime.now();
    const subscriptions = listPushSubscriptions(db, now);
    const sessionsOf = new Set(subscriptions.map(({ sessionId }) => sessionId));
    for (const map of [news, notifiedAt]) for (const id of map.keys()) if (!sessionsOf.has(id)) map.delete(id);
    if (subscriptions.length === 0) {
      seen = latest();
      return;
    }
    const rows = db
      .select({ seq: events.seq, event: events.event, emailId: events.emailId, mailboxId: messages.mailboxId })
      .from(events)
      .leftJoin(messages, eq(messages.id, events.emailId))
      .where(gt(events.seq, seen))
      .orderBy(asc(events.seq))
      .limit(MOST_EVENTS)
      .all();
    for (const { event, emailId, mailboxId } of rows) {
      const kind = KINDS[event as keyof typeof KINDS];
      if (kind === undefined || emailId === null || mailboxId === null) continue;
      for (const { sessionId, mailboxes } of subscriptions) {
        const its = news.get(sessionId) ?? [];
        if (!mailboxes.includes(mailboxId) || its.length >= MOST_NEWS) continue;
        // A message bounces for each recipient.
        if (its.some((one) => one.emailId === emailId && one.kind === kind)) continue;
        news.set(sessionId, [...its, { kind, mailboxId, emailId }]);
      }
    }
    seen = rows.at(-1)?.seq ?? seen;
    if (rows.length === MOST_EVENTS) schedule(0);
    for (const subscription of subscriptions) tell(subscription, now);
  }

  /** Sends a browser its news, unless it was told just before or rests. News that one message has no room for waits. */
  function tell(subscription: Subscription, now: number): void {
    const { sessionId, restsUntil } = subscription;
    const its = news.get(sessionId);
    if (!its || asking.has(sessionId)) return;
    if (restsUntil > now) {
      // What was news then is none when the push service is back.
      news.delete(sessionId);
      return;
    }
    const last = notifiedAt.get(sessionId);
    if (last !== undefined && now - last < BETWEEN_MS) {
      schedule(last + BETWEEN_MS - now);
      return;
    }
    asking.add(sessionId);
    void tellInTurn(subscription)
      .catch((error) => log.warn("a browser could not be told the news", { error }))
      .finally(() => {
        asking.delete(sessionId);
        if (news.has(sessionId)) schedule(GATHER_MS);
      });
  }

  async function tellInTurn({ caller, sessionId }: Subscription): Promise<void> {
    const turn = await underWay.wait(caller, 1, WAIT_MS, stopping.signal);
    try {
      const its = news.get(sessionId) ?? [];
      news.delete(sessionId);
      // The session may have ended while it waited.
      const [subscription] = turn ? listPushSubscriptions(db, runtime.now(), sessionId) : [];
      if (!subscription) return;
      const { notifications, later } = buildNotifications(subscription, its);
      if (notifications.length === 0) return;
      if (later.length > 0) news.set(sessionId, later);
      notifiedAt.set(sessionId, runtime.now());
      await send(subscription, notifications);
    } finally {
      turn?.release();
    }
  }

  async function send(subscription: Subscription, notifications: Notification[]): Promise<void> {
    const payload = new TextEncoder().encode(JSON.stringify({ notifications }));
    const request = pushRequest(payload, subscription, { keys, contact, now: runtime.now() });
    const status = await client
      .within(TIMEOUT_MS, async (signal) => {
        const response = await client.send(request, signal);
        await response.body?.cancel();
        return response.status;
      })
      .catch(() => undefined);
    const isSent = status !== undefined && status >= 200 && status < 300;
    const failures = isSent ? 0 : subscription.failures + 1;
    const isGone = (status !== undefined && GONE.has(status)) || failures >= MOST_FAILURES;
    outcomes.add({ outcome: isSent ? "sent" : isGone ? "gone" : "failed" });
    if (isSent && subscription.failures === 0) return;
    const rest = Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** (failures - 1));
    await store.enqueue((tx) =>
      isGone
        ? unsubscribeFromPush(tx, subscription.sessionId)
        : notePushOutcome(tx, subscription, { failures, restsUntil: isSent ? 0 : runtime.now() + rest }),
    );
  }

  /** Notifications for one message, and the news that it has no room for. */
  function buildNotifications(subscription: Subscription, its: readonly News[]) {
    const notifications: Notification[] = [];
    const later: News[] = [];
    let bytes = Buffer.byteLength(JSON.stringify({ notifications }));
    for (const group of Map.groupBy(its, ({ kind, mailboxId }) => `${kind} ${mailboxId}`).values()) {
      const notification = buildGroupNotification(subscription, group);
      if (!notification) continue;
      bytes += Buffer.byteLength(`${JSON.stringify(notification)},`);
      if (bytes > MOST_BYTES) later.push(...group);
      else notifications.push(notification);
    }
    return { notifications, later };
  }

  /** The notification for news of one mailbox and kind; undefined if none is so any more, or its person does not reach it. */
  function buildGroupNotification({ caller, details }: Subscription, group: readonly News[]): Notification | undefined {
    const [{ kind, mailboxId }] = group as [News];
    const tag = `${kind} ${mailboxId}`;
    const reach = findReach(db, caller, mailboxId);
    if (!reach || (kind !== "mail" && !reach.access.send)) return undefined;
    const all = group.flatMap((one) => presentMessage(one) ?? []);
    const [only, more] = all;
    if (!only) return undefined;
    const { address } = reach.mailbox;
    const inMailbox = `?mailbox=${mailboxId}`;
    if (kind === "held") {
      const title = all.length === 1 ? "A message waits for approval" : `${all.length} messages wait for approval`;
      return { title, body: details && !more ? only.subject : address, url: "/approve", tag };
    }
    if (more) {
      const what = kind === "mail" ? "new messages" : "messages could not be delivered";
      const folder = kind === "mail" ? "inbox" : "sent";
      return { title: `${all.length} ${what}`, body: address, url: `/mail/${folder}${inMailbox}`, tag };
    }
    if (kind === "bounced") {
      const url = `/mail/sent/${only.threadId}${inMailbox}`;
      return { title: "A message could not be delivered", body: details ? only.subject : address, url, tag };
    }
    const url = `/mail/inbox/${only.threadId}${inMailbox}`;
    const { name, email } = only.from;
    return details
      ? { title: cut(name || email), body: cut(only.subject || "(no subject)"), url, tag }
      : { title: "New mail", body: address, url, tag };
  }

  /** The message of a piece of news; undefined if it is read, or no longer where it was. */
  function presentMessage({ kind, emailId }: News) {
    const found = db
      .select({
        from: messages.from,
        subject: messages.subject,
        folder: messages.folder,
        read: messages.read,
        kind: messages.kind,
        threadId: threads.id,
      })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .where(
        and(
          eq(messages.id, emailId),
          inArray(messages.kind, kind === "mail" ? ["received"] : kind === "held" ? ["draft"] : ["sent"]),
        ),
      )
      .get();
    if (!found || (kind === "mail" && (found.read || found.folder !== "inbox"))) return undefined;
    return { from: found.from, subject: cut(found.subject), threadId: found.threadId };
  }

  const forget = store.onCommit(() => schedule(GATHER_MS));

  return {
    /** Ends requests under way. */
    stop(): void {
      stopping.abort();
      forget();
      cancelTimer?.();
      client.close();
    },
  };
}

const cut = (text: string): string =>
  text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT).toWellFormed()}…` : text;
