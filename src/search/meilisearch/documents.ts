/**
 * A message as Meilisearch keeps it, and the words of a query as they stand there: both are made of the same folded tokens
 * (search/fold.ts), in such letters that the server's own tokenizer changes, parts and joins none of them.
 *
 * Invariant: two tokens have the same word exactly when they are the same. Bcc is not in it.
 */
import { hash } from "node:crypto";
import { threadOf } from "../document-number.ts";
import type { DocumentScope } from "../engine.ts";
import type { IndexDocument } from "../fold.ts";
import type { TextField } from "../query.ts";
import type { IndexSettings } from "./client.ts";

/** The server reads the first 65,535 words of an attribute; a body has up to 200,000. */
const BODY_PARTS: readonly string[] = ["body", "body2", "body3", "body4"];
const WORDS_OF_PART = 60_000;

/** Where words of a query without operator may stand, from where they count for most to where they do for least. */
export const PLAIN_FIELDS: readonly string[] = ["subject", "sender", "recipients", ...BODY_PARTS, "files"];

/** Stands for the state of the database that the index was last told of; no message has this number. */
export const MARK_ID = 0;

export interface MarkDocument extends Record<string, unknown> {
  id: typeof MARK_ID;
  mark: string;
}

/** It has every field, empty: the server will only look in those that some document has. */
export const markDocument = (mark: string): MarkDocument => ({
  id: MARK_ID,
  mark,
  ...Object.fromEntries([...PLAIN_FIELDS, "marked"].map((field) => [field, ""])),
});

export interface MessageDocument extends Record<string, unknown> {
  /** messages.seq */
  id: number;
  /** threads.seq */
  thread: number;
  workspace: string;
  mailbox: string;
  attachment: boolean;
  /** Epoch ms. */
  date: number;
  subject: string;
  sender: string;
  recipients: string;
  files: string;
  /** The words of subject, sender and recipients once more, each with its field's mark. */
  marked: string;
}

/** What marks a word as a field's, or as standing for a token of other letters; no other word begins so. */
const MARKS: Readonly<Record<Exclude<TextField, "any">, string>> = { subject: "q1", sender: "q2", recipients: "q3" };
const HASHED = "q0";
const ONE_UNIT = "q4";
const LIKE_A_MARK = /^q[0-9]/;

/**
 * What the server's tokenizer leaves as it is: tokens in the letters of one of these scripts. It takes digits for the
 * script before them, so that a word which begins with some would be parted behind a word of another script. Tests ask it.
 */
const LATIN = /^(?:[a-z][a-z0-9]*|[0-9]+)$/;
const OF_OTHERS = /^(?:[α-ω]+|[а-я]+|[א-ת]+|[ა-ჰ]+|[ա-ֆ]+)$/;
/** Tokens of fold.ts that stand between names, or for a whole address. */
const PRIVATE = /[\ue000-\uf8ff]/;
const HASH_LENGTH = 32;

const isPlainLatin = (token: string): boolean => LATIN.test(token) && !LIKE_A_MARK.test(token);
const isPlain = (token: string): boolean => isPlainLatin(token) || OF_OTHERS.test(token);

/** In letters and digits of ASCII. Most are a character of a script without spaces, which is short and quickly made. */
function encode(token: string): string {
  if (token.length === 1) return ONE_UNIT + token.charCodeAt(0).toString(16);
  return HASHED + hash("sha256", token, "hex").slice(0, HASH_LENGTH);
}

/** The word of a token; without a field of its own, wherever it stands. A mark goes before letters of its own script only. */
export function wordOf(token: string, field: TextField): string {
  if (field === "any") return isPlain(token) ? token : encode(token);
  return MARKS[field] + (isPlainLatin(token) ? token : encode(token));
}

/** Whether its word may be looked for with typos: of the others the letters mean nothing. */
export const mayHaveTypos = isPlain;

const tokensOf = (folded: string): string[] => (folded === "" ? [] : folded.split(" "));

const wordsOf = (folded: string): string =>
  tokensOf(folded)
    .filter((token) => !PRIVATE.test(token))
    .map((token) => wordOf(token, "any"))
    .join(" ");

function markedWords(document: IndexDocument): string {
  const words = new Set<string>();
  for (const field of ["subject", "sender", "recipients"] as const) {
    for (const token of tokensOf(document[field])) words.add(wordOf(token, field));
  }
  return [...words].join(" ");
}

function bodyParts(body: string): Record<string, string> {
  const tokens = tokensOf(body);
  return Object.fromEntries(
    BODY_PARTS.flatMap((part, i) => {
      const own = tokens.slice(i * WORDS_OF_PART, (i + 1) * WORDS_OF_PART);
      return own.length === 0 ? [] : [[part, own.map((token) => wordOf(token, "any")).join(" ")]];
    }),
  );
}

export interface IndexedMessage extends DocumentScope {
  /** messages.seq */
  seq: number;
  date: number;
  hasAttachments: boolean;
  document: IndexDocument;
}

export function documentOf({
  seq,
  workspaceId,
  mailboxId,
  date,
  hasAttachments,
  document,
}: IndexedMessage): MessageDocument {
  return {
    id: seq,
    thread: threadOf(seq),
    workspace: workspaceId,
    mailbox: mailboxId,
    attachment: hasAttachments,
    date,
    subject: wordsOf(document.subject),
    ...bodyParts(document.body),
    sender: wordsOf(document.sender),
    recipients: wordsOf(document.recipients),
    files: wordsOf(document.files),
    marked: markedWords(document),
  };
}

/*
 * How the index is set up. Any change here, of documents.ts or of fold.ts that matters to what is found raises the version,
 * and the index is made anew.
 *
 * Words come folded and cut (documents.ts), so the server's own language rules are switched off: one language for all, no
 * stop words, no prefixes. What remains of them is typos, and words written together or apart.
 */

export const SETTINGS_VERSION = 2;

/** Far above any number of messages: an answer is never cut. */
const ALL = 1_000_000_000;

const filterable = (attributePatterns: string[], comparison: boolean) => ({
  attributePatterns,
  features: { facetSearch: false, filter: { equality: !comparison, comparison } },
});

export const INDEX_SETTINGS: IndexSettings = {
  searchableAttributes: [...PLAIN_FIELDS, "marked"],
  filterableAttributes: [
    filterable(["id", "thread", "workspace", "mailbox", "attachment"], false),
    filterable(["date"], true),
  ],
  // Nothing of the mail itself is ever given out.
  displayedAttributes: ["id", "mark"],
  sortableAttributes: [],
  // Of relevance alone; what is asked for newest first is a set, which the mailbox puts in order. A word in the subject is
  // worth more than any number of them in the text; of what is equal, the newest is among those that are told.
  rankingRules: ["words", "typo", "attribute", "exactness", "date:desc"],
  typoTolerance: { enabled: true, disableOnNumbers: true, disableOnAttributes: ["marked"] },
  localizedAttributes: [{ attributePatterns: ["*"], locales: ["eng"] }],
  stopWords: [],
  prefixSearch: "disabled",
  facetSearch: false,
  // Phrases are settled elsewhere (engine.ts); distances of words would be most of the index.
  proximityPrecision: "byAttribute",
  pagination: { maxTotalHits: ALL },
  faceting: { maxValuesPerFacet: ALL },
};
