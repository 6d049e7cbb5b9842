/**
 * Leaves mailing lists for people who ask for it: by one POST (RFC 8058), or by a message (rules: Unsubscribe). Strangers chose URL and
 * address, so the POST goes only to public addresses over https, follows no redirect, carries nothing of the person and
 * has little time; the message goes through the pipeline of all mail.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { createConcurrencyLimits } from "../access/slowdown.ts";
import { MOST_REQUESTS } from "../base/descriptors.ts";
import { AppError } from "../base/errors.ts";
import { createShares } from "../base/shares.ts";
import { toIsoTime } from "../base/time.ts";
import {
  findMailingListLeaveTime,
  noteMailingListLeft,
  type ReceivedMessage,
  receivedMessage,
} from "../mailbox/state/received.ts";
import { chooseUnsubscribeWay, mailingListId, type WayToLeave } from "../message/mailing-list.ts";
import { type HttpClientParts, openHttpClient } from "../net/http-client.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Reader } from "../store/core.ts";
import type { Tx } from "../store/store.ts";
import { sendMessageOnBehalf } from "./send.ts";

const TIMEOUT_MS = 10_000;
/** Requests at once for one person, and how many more wait. */
const AT_ONCE = 2;
const MOST_WAITING = 20;

export type Unsubscribing = ReturnType<typeof openUnsubscribing>;

/** A way to leave the list of a message, for the person who reads it. */
export interface UnsubscribeView {
  by: WayToLeave["by"];
  /** The host that is asked, the address that is written to, or the URL of the page. */
  at: string;
  /** ISO 8601; present if the mailbox left the list before. */
  leftAt?: string;
}

/** The way to leave the list of a message. There is none in spam: an answer would tell the sender that the address exists. */
const wayFrom = ({ folder, headers, isListSigned }: ReceivedMessage): WayToLeave | undefined =>
  folder === "spam" ? undefined : chooseUnsubscribeWay(headers, isListSigned);

/** The way that a person who may send from the mailbox has; undefined if there is none. */
export function wayToUnsubscribe({ db }: Reader, message: ReceivedMessage): UnsubscribeView | undefined {
  const way = message.reach.access.send ? wayFrom(message) : undefined;
  if (!way) return undefined;
  const left = findMailingListLeaveTime(
    db,
    message.reach.mailbox.id,
    mailingListId(message.headers, message.from.email),
  );
  return { by: way.by, at: unsubscribeTarget(way), ...(left !== undefined && { leftAt: toIsoTime(left) }) };
}

/** `allow`: excepted networks, as readDestination takes them. */
export function openUnsubscribing(core: SendCore, allow: HttpClientParts["allow"] = () => []) {
  const { db, store, runtime } = core;
  const client = openHttpClient({ runtime, allow, mostIdle: 1 });
  const slots = createConcurrencyLimits({ atOnce: AT_ONCE, mostWaiting: MOST_WAITING });
  const underWay = createShares({ most: MOST_REQUESTS.unsubscribing, runtime });

  async function post(caller: Caller, url: string): Promise<void> {
    const { host } = new URL(url);
    const status = await client
      .within(TIMEOUT_MS, async (signal) => {
        const turn = await underWay.wait(caller, 1, TIMEOUT_MS, signal);
        try {
          const headers = { "content-type": "application/x-www-form-urlencoded" };
          const body = "List-Unsubscribe=One-Click";
          const response = await client.send({ method: "POST", url, headers, body }, signal);
          await response.body?.cancel();
          return response.status;
        } finally {
          turn?.release();
        }
      })
      .catch((cause) => {
        throw new AppError("upstream_failed", `${host} could not be reached, so you are still subscribed`, { cause });
      });
    if (status < 200 || status > 299) {
      throw new AppError("upstream_failed", `${host} did not unsubscribe you: it answered ${status}`);
    }
  }

  return {
    /**
     * Leaves the list of a message, unless that takes a page. @throws AppError not_found, forbidden, conflict,
     * upstream_failed; as sendMessage
     */
    async leave(caller: Caller, id: string): Promise<UnsubscribeView> {
      const message = receivedMessage(db, caller, id);
      const way = message && wayFrom(message);
      if (!message || !way || way.by === "link") {
        throw new AppError("conflict", "This message offers no way to unsubscribe except on a web page");
      }
      const { reach, headers, from } = message;
      requireAccess(reach, "send");
      const list = mailingListId(headers, from.email);
      const now = core.now();
      const note = (tx: Tx) => noteMailingListLeft(tx, { mailboxId: reach.mailbox.id, list, leftAt: now });
      if (way.by === "post") {
        await slots.within(caller.userId, () => post(caller, way.url));
        store.transact(note);
      } else {
        const { to, subject, body } = way;
        await sendMessageOnBehalf(core, caller, { about: message, to, subject, text: body }, note);
      }
      return { by: way.by, at: unsubscribeTarget(way), leftAt: toIsoTime(now) };
    },
    /** Ends requests under way. */
    close: client.close,
  };
}

const unsubscribeTarget = (way: WayToLeave): string =>
  way.by === "post" ? new URL(way.url).host : way.by === "mail" ? way.to : way.url;
