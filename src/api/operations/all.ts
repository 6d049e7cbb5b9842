/** The operations of the service, in their documented order (rules: Operations). The only list of them. */
import type { Operation } from "../operation.ts";
import { getAttachment } from "./attachments.ts";
import { listMailboxes } from "./mailboxes.ts";
import { getMessage, getRawMessage, listMessages } from "./messages.ts";
import { searchMail } from "./search.ts";
import { draftReply, replyToThread, sendEmail } from "./sending.ts";
import { getThread, listThreads, updateThread } from "./threads.ts";

export const OPERATIONS: readonly Operation[] = [
  listMailboxes,
  listThreads,
  getThread,
  updateThread,
  replyToThread,
  draftReply,
  listMessages,
  getMessage,
  getRawMessage,
  getAttachment,
  searchMail,
  sendEmail,
];
