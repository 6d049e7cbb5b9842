/**
 * Converts messages to Meilisearch documents, and tokens of queries to the same words. Both come from the folded tokens
 * (search/fold.ts), spelt so that the server's own tokenizer does not change, split or join them.
 *
 * Invariant: two tokens have the same word exactly if they are equal. Bcc is excluded.
 */
import { hash } from "node:crypto";
import { toThreadSeq } from "../document-number.ts";
import type { DocumentScope } from "../engine.ts";
import { type IndexDocument, isOfCc } from "../fold.ts";
import type { TextField } from "../query.ts";

/** The server reads the first 65,535 words of an attribute; a body has up to 200,000. */
const BODY_PARTS: readonly string[] = ["body", "body2", "body3", "body4"];
const WORDS_OF_PART = 60_000;

/** Fields for words without operator, from the highest weight to the lowest. */
export const PLAIN_FIELDS: readonly string[] = ["subject", "sender", "recipients", ...BODY_PARTS, "files"];

/** Fields for words with an operator; several, because the server reads so many words of each. */
const MARKED_FIELDS: readonly string[] = ["marked", "markedCc", "markedFiles"];

/**
 * Id of the document with the mark, which identifies the last fed state of the database. No message has this number.
 */
export const MARK_ID = 0;

export interface MarkDocument extends Record<string, unknown> {
  id: typeof MARK_ID;
  mark: string;
}

/** Has every field, empty, because the server searches only fields that some document has. */
export const createMarkDocument = (mark: string): MarkDocument => ({
  id: MARK_ID,
  mark,
  ...Object.fromEntries([...PLAIN_FIELDS, ...MARKED_FIELDS].map((field) => [field, ""])),
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
  /** Bytes. */
  size: number;
  subject: string;
  sender: string;
  recipients: string;
  files: string;
  /** The words of subject, sender and recipients again, each with its field's mark. */
  marked: string;
  markedCc: string;
  markedFiles: string;
}

/** Prefixes that mark a word as a field's, or as the encoding of other letters; no other word begins so. */
const MARKS: Readonly<Record<Exclude<TextField, "any">, string>> = {
  subject: "q1",
  sender: "q2",
  recipients: "q3",
  cc: "q5",
  files: "q6",
};
const HASHED = "q0";
const ONE_UNIT = "q4";
const LIKE_A_MARK = /^q[0-9]/;

/**
 * Tokens that the server's tokenizer keeps: letters of one of these scripts. It assigns digits to the preceding script,
 * so a word that begins with digits would be split after a word of another script. Tests compare with the tokenizer.
 */
const LATIN = /^(?:[a-z][a-z0-9]*|[0-9]+)$/;
const OF_OTHERS = /^(?:[α-ω]+|[а-я]+|[א-ת]+|[ა-ჰ]+|[ա-ֆ]+)$/;
/** Tokens of fold.ts for barriers between names, for whole addresses and for Cc. */
export const PRIVATE = /[\ue000-\uf8ff]/;
const HASH_LENGTH = 32;

const isPlainLatin = (token: string): boolean => LATIN.test(token) && !LIKE_A_MARK.test(token);
const isPlain = (token: string): boolean => isPlainLatin(token) || OF_OTHERS.test(token);

/**
 * Encodes a token in ASCII letters and digits. Most are characters of a script without spaces, which are short and fast
 * to encode.
 */
function encode(token: string): string {
  if (token.length === 1) return ONE_UNIT + token.charCodeAt(0).toString(16);
  return HASHED + hash("sha256", token, "hex").slice(0, HASH_LENGTH);
}

/**
 * The word for a token in a field; for `any`, the word without a mark. A mark precedes only letters of its own script.
 */
export function toIndexedWord(token: string, field: TextField): string {
  if (field === "any") return isPlain(token) ? token : encode(token);
  return MARKS[field] + (isPlainLatin(token) ? token : encode(token));
}

/** True if a word may be searched with typos: the letters of encoded words are meaningless. */
export const mayHaveTypos = isPlain;

const splitFoldedTokens = (folded: string): string[] => (folded === "" ? [] : folded.split(" "));

const joinIndexedWords = (folded: string): string =>
  splitFoldedTokens(folded)
    .filter((token) => !PRIVATE.test(token))
    .map((token) => toIndexedWord(token, "any"))
    .join(" ");

function markedWords(document: IndexDocument): Pick<MessageDocument, "marked" | "markedCc" | "markedFiles"> {
  const words = (tokens: readonly string[], field: TextField) => tokens.map((token) => toIndexedWord(token, field));
  const distinct = (...lists: string[][]): string => [...new Set(lists.flat())].join(" ");
  const recipients = splitFoldedTokens(document.recipients);
  return {
    marked: distinct(
      words(splitFoldedTokens(document.subject), "subject"),
      words(splitFoldedTokens(document.sender), "sender"),
      words(
        recipients.filter((token) => !isOfCc(token)),
        "recipients",
      ),
    ),
    markedCc: distinct(words(recipients.filter(isOfCc), "cc")),
    markedFiles: distinct(words(splitFoldedTokens(document.files), "files")),
  };
}

function bodyParts(body: string): Record<string, string> {
  const tokens = splitFoldedTokens(body);
  return Object.fromEntries(
    BODY_PARTS.flatMap((part, i) => {
      const own = tokens.slice(i * WORDS_OF_PART, (i + 1) * WORDS_OF_PART);
      return own.length === 0 ? [] : [[part, own.map((token) => toIndexedWord(token, "any")).join(" ")]];
    }),
  );
}

/** `seq` is messages.seq, `date` epoch ms, `size` bytes. */
export function toMessageDocument({
  seq,
  workspaceId,
  mailboxId,
  date,
  size,
  hasAttachments,
  document,
}: DocumentScope & {
  seq: number;
  date: number;
  size: number;
  hasAttachments: boolean;
  document: IndexDocument;
}): MessageDocument {
  return {
    id: seq,
    thread: toThreadSeq(seq),
    workspace: workspaceId,
    mailbox: mailboxId,
    attachment: hasAttachments,
    date,
    size,
    subject: joinIndexedWords(document.subject),
    ...bodyParts(document.body),
    sender: joinIndexedWords(document.sender),
    recipients: joinIndexedWords(document.recipients),
    files: joinIndexedWords(document.files),
    ...markedWords(document),
  };
}

/*
 * Settings of the index. Raise the version with any change in this file or in fold.ts that affects results; the index
 * is then rebuilt.
 *
 * Words arrive folded and cut, so the server's own language rules are off: one language, no stop words, no prefixes.
 * Only typos, and words written together or apart, remain.
 */

export const SETTINGS_VERSION = 4;

/** Above any number of messages, so that no result is cut. */
const ALL = 1_000_000_000;

const filterable = (attributePatterns: string[], comparison: boolean) => ({
  attributePatterns,
  features: { facetSearch: false, filter: { equality: !comparison, comparison } },
});

export const INDEX_SETTINGS = {
  searchableAttributes: [...PLAIN_FIELDS, ...MARKED_FIELDS],
  filterableAttributes: [
    filterable(["id", "thread", "workspace", "mailbox", "attachment"], false),
    filterable(["date", "size"], true),
  ],
  // The server never returns the content of mail.
  displayedAttributes: ["id", "mark"],
  sortableAttributes: [],
  // For relevance only; the mailbox sorts results that are requested newest first. A word in the subject outweighs any
  // number in the text. Among equals, the newest are returned.
  rankingRules: ["words", "typo", "attribute", "exactness", "date:desc"],
  typoTolerance: { enabled: true, disableOnNumbers: true, disableOnAttributes: [...MARKED_FIELDS] },
  localizedAttributes: [{ attributePatterns: ["*"], locales: ["eng" as const] }],
  stopWords: [],
  prefixSearch: "disabled" as const,
  facetSearch: false,
  // meilisearch-engine.ts checks phrases; distances between words would make up most of the index.
  proximityPrecision: "byAttribute" as const,
  pagination: { maxTotalHits: ALL },
  faceting: { maxValuesPerFacet: ALL },
};
