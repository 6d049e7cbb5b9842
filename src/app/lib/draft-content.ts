/** Content of the composer: how a message starts, and the request that saves it. */
import type { AttachmentView, DraftContent, MailboxView, ReplyDefaults, SavedDraft } from "./api.ts";
import { fullNameOf } from "./format.ts";

/** The fields of a message, as they are typed. */
export interface Fields {
  from: string;
  to: string;
  cc: string;
  bcc: string;
  subject: string;
}

/** Initial state of a composer. */
export interface Start {
  fields: Fields;
  text: string;
  /** True: it is edited as HTML, which the server has. */
  html: boolean;
  /** Quotation below the text, folded at first. */
  quote?: string;
  /** Id of the conversation that it replies to. */
  answers?: string;
  /** The draft, if it was saved before. */
  saved?: SavedDraft;
  attachments: readonly AttachmentView[];
  /** True: the last save failed. `unsavedHtml`: the HTML at that time, if it was edited as HTML. */
  unsaved?: true;
  unsavedHtml?: string;
  /** True: nobody has seen it yet, so it is discarded if it is closed without a change. */
  fresh?: boolean;
}

export const blank = (from: string): Start => ({
  fields: { from, to: "", cc: "", bcc: "", subject: "" },
  text: "",
  html: false,
  attachments: [],
});

export const startOfReply = ({ from, to, cc, subject, quote }: ReplyDefaults, threadId: string): Start => ({
  fields: { from, to: to.map(fullNameOf).join(", "), cc: cc.map(fullNameOf).join(", "), bcc: "", subject },
  text: "",
  html: false,
  quote,
  answers: threadId,
  attachments: [],
});

/** Addresses that the person may send from. */
export const sendersOf = (mailboxes: readonly MailboxView[]): string[] =>
  mailboxes.filter(({ access }) => access.send).flatMap(({ address, aliases }) => [address, ...aliases]);

const joined = (addresses: DraftContent["to"], rest: string): string =>
  [...addresses.map(fullNameOf), ...(rest === "" ? [] : [rest])].join(", ");

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

/** The text with the quotation below it. */
export const withQuote = (text: string, quote: string | undefined): string =>
  quote === undefined ? text : `${text.trimEnd()}\n\n${quote}`;

/** Converts plain text to HTML. */
export function htmlOf(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return escaped
    .split("\n")
    .map((line) => `<div>${line === "" ? "<br>" : line}</div>`)
    .join("");
}

/** Names the first recipient that is not an address; undefined when all are. */
export function problemIn(recipients: string): string | undefined {
  const wrong = entriesOf(recipients).find((entry) => !isAddress(entry));
  return wrong === undefined ? undefined : `“${wrong}” is not an email address`;
}

/** Splits a list at commas and semicolons outside quotation marks. */
const entriesOf = (list: string): string[] =>
  (list.match(/(?:"(?:\\.|[^"\\])*"?|[^,;"])+/g) ?? []).map((entry) => entry.trim()).filter((entry) => entry !== "");

/** Finds unfinished addresses; the server decides which ones are valid. */
const isAddress = (entry: string): boolean => {
  const bare = /<([^<>]*)>$/.exec(entry)?.[1] ?? entry;
  return /^(?:"(?:\\.|[^"\\])+"|[^\s@<>"]+)@[^\s@<>"]+$/.test(bare.trim());
};
