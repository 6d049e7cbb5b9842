/**
 * The operators of the search language (rules: Query language). The parser, the documents of the APIs, and the app's
 * completions are made of this table, and a test holds the pages of docs/ to it. The web app runs this file.
 */

/** Folders that a list or a query may name (rules: List filters). */
export const LIST_FOLDERS = [
  "inbox",
  "sent",
  "drafts",
  "archive",
  "spam",
  "trash",
  "starred",
  "snoozed",
  "all",
] as const;
export type ListFolder = (typeof LIST_FOLDERS)[number];

interface OperatorRow {
  /** Its meaning for people; where its values are few, that of each of them. */
  words: string | Readonly<Record<string, string>>;
  /** The values that it takes, where `words` does not name them and not every text is one. */
  values?: readonly string[];
  /** Says to people what its values look like; "words" where every text is one. */
  takes?: string;
  /** A value, for documents. */
  example?: string;
  /** Values that the app offers, where it takes many others. */
  offered?: readonly string[];
}

const AGES = { takes: "a number of d, w, m or y, as 3d", offered: ["7d", "2w", "6m", "1y"] };
const SIZES = { takes: "a number of bytes, k, M or G, as 10k", offered: ["100k", "1M", "10M"] };

const TABLE = {
  from: { words: "Sent by" },
  to: { words: "Sent to" },
  cc: { words: "With a copy to" },
  subject: { words: "Words of the subject" },
  filename: { words: "With an attached file of that name" },
  label: { words: "With a label" },
  in: { words: "In a folder", values: LIST_FOLDERS, example: "FOLDER" },
  has: { words: { attachment: "With something attached" } },
  is: { words: { unread: "Not read yet", read: "Read", starred: "With a star" } },
  before: { words: "Before a day, YYYY-MM-DD", example: "YYYY-MM-DD" },
  after: { words: "From a day on, YYYY-MM-DD", example: "YYYY-MM-DD" },
  newer_than: { words: "Of the last days, weeks, months or years", example: "3d", ...AGES },
  older_than: { words: "From before the last days, weeks, months or years", example: "1y", ...AGES },
  larger: { words: "Larger than so many bytes, k, M or G", example: "2M", ...SIZES },
  smaller: { words: "Smaller than so many bytes, k, M or G", example: "10k", ...SIZES },
} satisfies Record<string, OperatorRow>;

export type Operator = keyof typeof TABLE;
export const OPERATORS: Readonly<Record<Operator, OperatorRow>> = TABLE;
export const OPERATOR_NAMES = Object.keys(OPERATORS) as Operator[];

/** Lists the values of an operator that has a fixed set of them. */
export function listOperatorValues(operator: Operator): readonly string[] | undefined {
  const { words, values } = OPERATORS[operator];
  return typeof words === "string" ? values : Object.keys(words);
}

/** How terms with operators begin, such as `from:`, or are, such as `is:read`; with their meaning for people. */
export const TERMS = OPERATOR_NAMES.flatMap((name) => {
  const { words, example = "" } = OPERATORS[name];
  if (typeof words === "string") return { term: `${name}:`, example, words };
  return Object.entries(words).map(([value, words]) => ({ term: `${name}:${value}`, example: "", words }));
});
