/**
 * Invitations in received mail, and answers to them by mail (iTIP and iMIP: RFC 5546, RFC 6047; rules: Invitations).
 *
 * Invariant: an answer leaves only after a person's press, for a guest whose address the mailbox has, and never for spam.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { isoOf } from "../base/time.ts";
import type { AnswerOrder, Invitation, InvitationAnswer, ReadInvitation } from "../documents/invitation.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { answerTo, noteAnswer, type ReceivedMessage, receivedMessage } from "../mailbox/received.ts";
import { normalizeAddress } from "../message/address.ts";
import type { Store } from "../store/store.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import { readReplyContext, replyHeaders } from "./reply.ts";
import type { Sending } from "./send.ts";

export type Invitations = ReturnType<typeof createInvitations>;

export interface InvitationView extends Invitation {
  /** The guest that the mailbox is, if the person may answer for them. */
  guest?: string;
  /** The last answer. `isOld`: to an earlier version. */
  answered?: { answer: InvitationAnswer; at: string; isOld: boolean };
  /** The organizer's address is not the sender's. */
  isForeign: boolean;
}

/** Bytes of the largest file that is read; an invitation has some kilobytes. */
const LARGEST_INVITATION = 512 * 1024;

const WORDS: Record<InvitationAnswer, [subject: string, sentence: string]> = {
  accepted: ["Accepted", "accepts the invitation"],
  tentative: ["Maybe", "may come"],
  declined: ["Declined", "declines the invitation"],
};

export function createInvitations({
  store,
  mailbox,
  sending,
  parser,
  runtime,
}: {
  store: Pick<Store, "db">;
  mailbox: Pick<Mailbox, "getMessage" | "getAttachment">;
  sending: Pick<Sending, "sendFor">;
  parser: Pick<ParserPool, "readInvitation">;
  runtime: Pick<Runtime, "now">;
}) {
  const { db } = store;

  /** The first calendar file of a message, read in the parser. */
  async function read(caller: Caller, id: string, answer?: AnswerOrder): Promise<ReadInvitation | undefined> {
    const { attachments } = mailbox.getMessage(caller, id, { html: false });
    const file = attachments.find(({ contentType, size }) => isCalendar(contentType) && size <= LARGEST_INVITATION);
    if (!file) return undefined;
    const { content } = await mailbox.getAttachment(caller, file.id);
    return parser.readInvitation(caller.userId, await content.bytes(), file.size, answer);
  }

  /** The guest of an invitation that the mailbox of a message is. */
  function guestAt(caller: Caller, { threadId, receivedOn }: ReceivedMessage, { guests }: Invitation) {
    const { own, arrivedOn } = readReplyContext(db, caller, threadId);
    const isOwn = (email: string) => own.has(email) || arrivedOn.has(email);
    const emails = guests.map(({ email }) => email).filter(isOwn);
    return emails.find((email) => email === receivedOn) ?? emails[0];
  }

  /** Shows an invitation to a person. */
  function view(caller: Caller, message: ReceivedMessage, invitation: Invitation): InvitationView {
    const { uid, occurrence, sequence, method, organizer } = invitation;
    const { reach, from } = message;
    const mayAnswer = method === "request" && organizer !== undefined && reach.access.send;
    const guest = mayAnswer ? guestAt(caller, message, invitation) : undefined;
    const stored = answerTo(db, { mailboxId: reach.mailbox.id, uid, occurrence });
    return {
      ...invitation,
      ...(guest !== undefined && { guest }),
      ...(stored && {
        answered: {
          answer: stored.answer,
          at: isoOf(stored.answeredAt),
          isOld: stored.sequence < sequence,
        },
      }),
      isForeign: organizer !== undefined && organizer.email !== normalizeAddress(from.email),
    };
  }

  const receivedOutsideSpam = (caller: Caller, id: string): ReceivedMessage | undefined => {
    const message = receivedMessage(db, caller, id);
    return message?.folder === "spam" ? undefined : message;
  };

  return {
    /** The invitation in a received message; undefined if it has none, and in spam. @throws AppError not_found */
    async of(caller: Caller, id: string): Promise<InvitationView | undefined> {
      const message = receivedOutsideSpam(caller, id);
      const found = message && (await read(caller, id));
      return found && view(caller, message, found.invitation);
    },
    /**
     * Sends an answer to the organizer. @throws AppError not_found, forbidden, conflict; as Sending.send
     */
    async answer(caller: Caller, id: string, answer: InvitationAnswer): Promise<InvitationView> {
      const message = receivedOutsideSpam(caller, id);
      if (message) requireAccess(message.reach, "send");
      const first = message && (await read(caller, id));
      const shown = first && view(caller, message, first.invitation);
      if (!message || !shown?.guest || !shown.organizer) {
        throw new AppError("conflict", "This message has no invitation that this mailbox can answer");
      }
      const now = runtime.now();
      const { guest, organizer, summary, uid, occurrence, sequence } = shown;
      const { reply } = (await read(caller, id, { guest, answer, now })) ?? {};
      if (reply === undefined) throw new AppError("conflict", "This invitation cannot be answered");
      const [word, sentence] = WORDS[answer];
      const name = message.reach.mailbox.name || guest;
      await sending.sendFor(
        caller,
        {
          about: message,
          from: guest,
          to: organizer.email,
          subject: `${word}: ${summary || "(no title)"}`,
          text: `${name} ${sentence}: ${summary || "(no title)"}\n`,
          calendar: { method: "REPLY", content: reply },
          headers: replyHeaders(message),
          joins: true,
        },
        (tx) =>
          noteAnswer(
            tx,
            { mailboxId: message.reach.mailbox.id, uid, occurrence },
            { answer, sequence, answeredAt: now },
          ),
      );
      return view(caller, message, shown);
    },
  };
}

const isCalendar = (contentType: string): boolean => /^(?:text\/calendar|application\/ics)\b/i.test(contentType);
