/** Drafts as the app sees them, and as its requests describe them. */
import { type Draft, transmittedSize } from "../mailbox/drafts.ts";
import { attachmentView } from "../mailbox/messages.ts";
import type { AttachmentView } from "../mailbox/views.ts";
import type { EmailAddress } from "../message/address.ts";
import type { DraftAgent, Unfinished } from "../store/schema.ts";

export interface SavedDraft {
  /** Of its conversation; another than before when it moved to another mailbox, to be sent from there. */
  draftId: string;
  /** To be named by the next change. */
  revision: number;
  /** ISO 8601. */
  savedAt: string;
  attachments: AttachmentView[];
  /** Bytes that can still be attached. */
  room: number;
}

/** A draft as it is opened. */
export interface DraftContent extends SavedDraft {
  from: string;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  /** Text in these fields that is no address yet. */
  unfinished: Unfinished;
  subject: string;
  text: string;
  /** Whether it has an HTML part, to be edited as such. */
  html: boolean;
  /** Id of the conversation that it answers. */
  answers: string | null;
  /** The API key that it was made with, if it was. */
  agent: DraftAgent | null;
  /** When it is sent, ISO 8601; null for one that nobody has sent. */
  dueAt: string | null;
  /** Why it was not sent when it was due. */
  refusal: string | null;
}

/** A draft before it is opened: without its recipients, whom only the person who opens it to send it sees (rules: Bcc). */
export type DraftSummary = Pick<DraftContent, "draftId" | "subject" | "text" | "agent" | "dueAt" | "refusal">;

/** The new content of a draft. */
export interface DraftRequest {
  from: string;
  to: string;
  cc?: string | undefined;
  bcc?: string | undefined;
  subject?: string | undefined;
  /** Instead of text and HTML that are there; the HTML stays while the text does. */
  text?: string | undefined;
  /** Instead of both; the text is derived. */
  html?: string | undefined;
}

/** Characters of the text in a summary. */
const LONGEST_BEGINNING = 300;

/** `most`: the setting smtp.maxMessageBytes. */
export const savedView = (draft: Draft, most: number): SavedDraft => ({
  draftId: draft.id,
  revision: draft.revision,
  savedAt: new Date(draft.savedAt).toISOString(),
  attachments: draft.attachments.map(attachmentView),
  room: roomFor(most - draft.size),
});

export const contentView = (draft: Draft, most: number): DraftContent => ({
  ...savedView(draft, most),
  from: draft.from.email,
  to: draft.to,
  cc: draft.cc,
  bcc: draft.bcc,
  unfinished: draft.unfinished,
  subject: draft.subject,
  text: draft.text,
  html: draft.html !== undefined,
  answers: draft.answers ?? null,
  ...stateOf(draft),
});

export const summaryView = (draft: Draft): DraftSummary => ({
  draftId: draft.id,
  subject: draft.subject,
  text: draft.text.slice(0, LONGEST_BEGINNING).toWellFormed(),
  ...stateOf(draft),
});

const stateOf = ({ agent, due, refusal }: Draft): Pick<DraftContent, "agent" | "dueAt" | "refusal"> => ({
  agent: agent ?? null,
  dueAt: due === undefined ? null : new Date(due.at).toISOString(),
  refusal: refusal ?? null,
});

/** The size of a file that still fits when a message may grow by so many bytes. */
export const roomFor = (left: number): number => Math.max(0, Math.floor((left - transmittedSize(0)) / 78) * 57);
