/** Content of the composer: how a message starts, and the request that saves it. */
import { formatHeaderAddress } from "./format.ts";
import type { AttachmentView, DraftContent, MailboxView, ReplyDefaults, SavedDraft } from "./mail-views.ts";

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
  /** True: it gets the signature of the mailbox that it is sent from. */
  signs?: true;
}

export const blankComposerStart = (from: string, to?: string): Start => ({
  fields: { from, to: to === undefined ? "" : `${to}, `, cc: "", bcc: "", subject: "" },
  text: "",
  html: false,
  attachments: [],
  signs: true,
});

export const startOfReply = ({ from, to, cc, subject, quote }: ReplyDefaults, threadId: string): Start => ({
  fields: { from, to: joined(to, ""), cc: joined(cc, ""), bcc: "", subject },
  text: "",
  html: false,
  quote,
  answers: threadId,
  attachments: [],
  signs: true,
});

/** Addresses that the person may send from. */
export const listSenderAddresses = (mailboxes: readonly MailboxView[]): string[] =>
  mailboxes.filter(({ access }) => access.send).flatMap(({ address, aliases }) => [address, ...aliases]);

const joined = (addresses: DraftContent["to"], rest: string): string =>
  joinRecipients(addresses.map(formatHeaderAddress), rest);

export function buildComposerStart(draft: DraftContent, fresh: boolean): Start {
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
export function textToHtml(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return escaped
    .split("\n")
    .map((line) => `<div dir="auto">${line === "" ? "<br>" : line}</div>`)
    .join("");
}

/** The parts of a list between commas and semicolons outside quotation marks. */
function splitRecipientList(list: string): string[] {
  const parts = [""];
  let isQuoted = false;
  for (const [token] of list.matchAll(/\\?./gs)) {
    if (token === '"') isQuoted = !isQuoted;
    if (!isQuoted && (token === "," || token === ";")) parts.push("");
    else parts.push(`${parts.pop()}${token}`);
  }
  return parts;
}

const keepFilledParts = (parts: readonly string[]): string[] =>
  parts.map((part) => part.trim()).filter((part) => part !== "");

/** A list of recipients as its entries, each with a comma or semicolon behind it, and the text behind them. */
export function splitRecipients(list: string): { entries: string[]; typed: string } {
  const parts = splitRecipientList(list);
  const typed = parts.pop() ?? "";
  return { entries: keepFilledParts(parts), typed: typed.trimStart() };
}

export const parseRecipientList = (list: string): string[] => keepFilledParts(splitRecipientList(list));

/** Joins what splitRecipients gives. An address that is there already is left out. */
export function joinRecipients(entries: readonly string[], typed: string): string {
  const addresses = entries.map((entry) => entryAddress(entry).toLowerCase());
  const once = entries.filter((_, i) => addresses.indexOf(addresses[i] ?? "") === i);
  return once.map((entry) => `${entry}, `).join("") + typed;
}

const entryAddress = (entry: string): string => (/<([^<>]*)>$/.exec(entry)?.[1] ?? entry).trim();

/** Finds unfinished addresses; the server decides which ones are valid. */
export const isAddress = (entry: string): boolean =>
  /^(?:"(?:\\.|[^"\\])+"|[^\s@<>"]+)@[^\s@<>"]+$/.test(entryAddress(entry));

/** The name in an entry, or else its address. */
export const shownName = (entry: string): string => {
  const name = /<[^<>]*>$/.test(entry) ? entry.slice(0, entry.lastIndexOf("<")).trimEnd() : "";
  return name.replace(/^"(.*)"$/, "$1").replace(/\\(.)/g, "$1") || entryAddress(entry);
};

/** The signature as it ends a text. The server writes it equally (mailbox/state/texts.ts). */
const signatureBlock = (signature: string): string => (signature === "" ? "" : `\n\n-- \n${signature}`);

/** The text with another signature in the place of the one at its end; one that was edited stays. */
export function replaceSignature(text: string, before: string, after: string): string {
  if (!text.endsWith(signatureBlock(before))) return text;
  return text.slice(0, text.length - signatureBlock(before).length) + signatureBlock(after);
}

/** End of the person's own words: a signature, a quotation or a forwarded message. */
const END_OF_OWN = /^(?:-- $|>|-{5,} ?Forwarded message)/m;
const MENTIONS_FILE =
  /\b(?:attach(?:ed|ments?|ing)|enclosed|anbei|angehängt|im anhang|beigefügt|ci-joint|pièces? jointes?|adjunt[oa]s?|allegat[oi]|bijlagen?|bijgevoegd|em anexo)\b/iu;

/** Questions about what a person probably forgot before they pressed Send. `subject`: undefined where none is asked for. */
export function listSendingDoubts({
  subject,
  text,
  files,
}: {
  subject: string | undefined;
  text: string;
  files: number;
}): string[] {
  const [own = ""] = text.split(END_OF_OWN);
  return [
    ...(subject?.trim() === "" ? ["The subject is empty."] : []),
    ...(files === 0 && MENTIONS_FILE.test(`${subject ?? ""}\n${own}`)
      ? ["You mention an attachment, but no file is attached."]
      : []),
  ];
}
