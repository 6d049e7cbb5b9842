/**
 * Invitations in received mail, and answers to them by mail (iTIP and iMIP: RFC 5546, RFC 6047; rules: Invitations).
 *
 * Invariant: an answer leaves only after a person's press, for a guest whose address the mailbox has, and never for spam.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import type { AnswerOrder, Invitation, InvitationAnswer, ReadInvitation } from "../documents/invitation.ts";
import { getAttachment, getMessage } from "../mailbox/reading/messages.ts";
import {
  findInvitationAnswer,
  noteInvitationAnswer,
  type ReceivedMessage,
  receivedMessage,
} from "../mailbox/state/received.ts";
import { normalizeAddress } from "../message/address.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Reader } from "../store/core.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { createTextFile, type OutgoingFile } from "./attached-files.ts";
import { readReplyContext, replyHeaders } from "./reply.ts";
import { sendMessageOnBehalf } from "./send.ts";

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

/** Programs of calendars look for an answer beside the text (RFC 6047 §2.4). */
const REPLY_FILE = {
  ...{ filename: "reply.ics", unnamed: true, inline: false, contentId: null, alternative: true },
  contentType: "text/calendar",
  parameters: [["method", "REPLY"]],
} satisfies Partial<OutgoingFile>;

/** The first calendar file of a message, read in the parser. */
async function read(
  core: ParsingCore,
  caller: Caller,
  id: string,
  answer?: AnswerOrder,
): Promise<ReadInvitation | undefined> {
  const { attachments } = getMessage(core, caller, id, { html: false });
  const file = attachments.find(({ contentType, size }) => isCalendar(contentType) && size <= LARGEST_INVITATION);
  if (!file) return undefined;
  const { content } = await getAttachment(core, caller, file.id);
  return core.parser.readInvitation(caller.userId, await content.bytes(), file.size, answer);
}

/** The guest of an invitation that the mailbox of a message is. */
function guestAt({ db }: Reader, caller: Caller, { threadId, receivedOn }: ReceivedMessage, { guests }: Invitation) {
  const { own, arrivedOn } = readReplyContext(db, caller, threadId);
  const isOwn = (email: string) => own.has(email) || arrivedOn.has(email);
  const emails = guests.map(({ email }) => email).filter(isOwn);
  return emails.find((email) => email === receivedOn) ?? emails[0];
}

/** Shows an invitation to a person. */
function view(reader: Reader, caller: Caller, message: ReceivedMessage, invitation: Invitation): InvitationView {
  const { uid, occurrence, sequence, method, organizer } = invitation;
  const { reach, from } = message;
  const mayAnswer = method === "request" && organizer !== undefined && reach.access.send;
  const guest = mayAnswer ? guestAt(reader, caller, message, invitation) : undefined;
  const stored = findInvitationAnswer(reader.db, { mailboxId: reach.mailbox.id, uid, occurrence });
  return {
    ...invitation,
    ...(guest !== undefined && { guest }),
    ...(stored && {
      answered: {
        answer: stored.answer,
        at: toIsoTime(stored.answeredAt),
        isOld: stored.sequence < sequence,
      },
    }),
    isForeign: organizer !== undefined && organizer.email !== normalizeAddress(from.email),
  };
}

const receivedOutsideSpam = ({ db }: Reader, caller: Caller, id: string): ReceivedMessage | undefined => {
  const message = receivedMessage(db, caller, id);
  return message?.folder === "spam" ? undefined : message;
};

/** The invitation in a received message; undefined if it has none, and in spam. @throws AppError not_found */
export async function findInvitation(
  core: ParsingCore,
  caller: Caller,
  id: string,
): Promise<InvitationView | undefined> {
  const message = receivedOutsideSpam(core, caller, id);
  const found = message && (await read(core, caller, id));
  return found && view(core, caller, message, found.invitation);
}

/**
 * Sends an answer to the organizer. @throws AppError not_found, forbidden, conflict; as sendMessage
 */
export async function answerInvitation(
  core: SendCore,
  caller: Caller,
  id: string,
  answer: InvitationAnswer,
): Promise<InvitationView> {
  const message = receivedOutsideSpam(core, caller, id);
  if (message) requireAccess(message.reach, "send");
  const first = message && (await read(core, caller, id));
  const shown = first && view(core, caller, message, first.invitation);
  if (!message || !shown?.guest || !shown.organizer) {
    throw new AppError("conflict", "This message has no invitation that this mailbox can answer");
  }
  const now = core.now();
  const { guest, organizer, summary, uid, occurrence, sequence } = shown;
  const { reply } = (await read(core, caller, id, { guest, answer, now })) ?? {};
  if (reply === undefined) throw new AppError("conflict", "This invitation cannot be answered");
  const [word, sentence] = WORDS[answer];
  const name = message.reach.mailbox.name || guest;
  await sendMessageOnBehalf(
    core,
    caller,
    {
      about: message,
      from: guest,
      to: organizer.email,
      subject: `${word}: ${summary || "(no title)"}`,
      text: `${name} ${sentence}: ${summary || "(no title)"}\n`,
      headers: replyHeaders(message),
      files: [createTextFile(core, reply, REPLY_FILE)],
      joins: true,
    },
    (tx) =>
      noteInvitationAnswer(
        tx,
        { mailboxId: message.reach.mailbox.id, uid, occurrence },
        { answer, sequence, answeredAt: now },
      ),
  );
  return view(core, caller, message, shown);
}

const isCalendar = (contentType: string): boolean => /^(?:text\/calendar|application\/ics)\b/i.test(contentType);
