/** What somebody writes: how it begins, and what it is when it is saved. */
import type { AnswerView, AttachmentView, DraftContent, DraftRequest, MailboxView, SavedDraft } from "./api.ts";
import { fullNameOf } from "./people.ts";

/** The fields of a message, as they are typed. */
export interface Fields {
  from: string;
  to: string;
  cc: string;
  bcc: string;
  subject: string;
}

/** What a composer begins with. */
export interface Start {
  fields: Fields;
  text: string;
  /** It is edited as HTML, which the server has. */
  html: boolean;
  /** Goes below the text, folded until it is asked for. */
  quote?: string;
  /** Id of the conversation that it answers. */
  answers?: string;
  /** The draft that it is already. */
  saved?: SavedDraft;
  attachments: readonly AttachmentView[];
  /** It was not saved when it was left; with HTML, what that was. */
  unsaved?: true;
  unsavedHtml?: string;
  /** Nobody has seen or changed it: it is gone when it is closed as it is. */
  fresh?: boolean;
}

/** A new message. */
export const blank = (from: string): Start => ({
  fields: { from, to: "", cc: "", bcc: "", subject: "" },
  text: "",
  html: false,
  attachments: [],
});

/** An answer, to a conversation. */
export const startOfAnswer = ({ from, to, cc, subject, quote }: AnswerView, threadId: string): Start => ({
  fields: { from, to: to.map(fullNameOf).join(", "), cc: cc.map(fullNameOf).join(", "), bcc: "", subject },
  text: "",
  html: false,
  quote,
  answers: threadId,
  attachments: [],
});

/** Addresses that somebody may send from. */
export const sendersOf = (mailboxes: readonly MailboxView[]): string[] =>
  mailboxes.filter(({ access }) => access.send).flatMap(({ address, aliases }) => [address, ...aliases]);

const joined = (addresses: DraftContent["to"], rest: string): string =>
  [...addresses.map(fullNameOf), ...(rest === "" ? [] : [rest])].join(", ");

/** A draft that is opened again. */
export function startOf(draft: DraftContent, fresh: boolean): Start {
  const { to, cc, bcc, unfinished, answers } = draft;
  return {
    fields: {
      from: draft.from,
      to: joined(to, unfinished.to),
      cc: joined(cc, unfinished.cc),
      bcc: joined(bcc, unfinished.bcc),
      subject: draft.subject,
    },
    text: draft.text,
    html: draft.html,
    ...(answers !== null && { answers }),
    saved: draft,
    attachments: draft.attachments,
    fresh,
  };
}

/** Text and the quotation below it, which stays folded or stands in the text. */
export const withQuote = (text: string, quote: string | undefined): string =>
  quote === undefined ? text : `${text.trimEnd()}\n\n${quote}`;

/** HTML that says the same as a text, for who goes on with formatting. */
export function htmlOf(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return escaped
    .split("\n")
    .map((line) => `<div>${line === "" ? "<br>" : line}</div>`)
    .join("");
}

/** What keeps a recipient from being one, for who typed it; undefined when all of them are addresses. */
export function problemIn(recipients: string): string | undefined {
  const wrong = entriesOf(recipients).find((entry) => !isAddress(entry));
  return wrong === undefined ? undefined : `“${wrong}” is not an email address`;
}

/** Of a list with commas; a comma in quotation marks parts nothing. */
const entriesOf = (list: string): string[] =>
  (list.match(/(?:"(?:\\.|[^"\\])*"?|[^,;"])+/g) ?? []).map((entry) => entry.trim()).filter((entry) => entry !== "");

/** Whether the server will take it for one is the server's to say; this finds what was not finished. */
const isAddress = (entry: string): boolean => {
  const bare = /<([^<>]*)>$/.exec(entry)?.[1] ?? entry;
  return /^(?:"(?:\\.|[^"\\])+"|[^\s@<>"]+)@[^\s@<>"]+$/.test(bare.trim());
};

/** The request that saves it. */
export const requestOf = (fields: Fields, content: Pick<DraftRequest, "text" | "html">): DraftRequest => ({
  ...fields,
  ...content,
});
