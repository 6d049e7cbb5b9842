/**
 * The search language: the text `q` (rules: Search operation) as data.
 *
 *   q        = *( term / white-space )                      all must hold
 *   term     = [ "-" ] ( operator ":" value / value )       "-" excludes
 *   operator = "from" / "to" / "subject" / "label" / "has" / "is" / "before" / "after"      in any case
 *   value    = word / quoted
 *   word     = 1*( anything but white space and quotes )
 *   quoted   = quote *( anything but quotes ) ( quote / end of q )     matches in order
 *   quote    = U+0022, or the curly double quotes that phones insert instead
 *
 * has: takes `attachment`, is: takes `unread` and `starred`, before: and after: a date YYYY-MM-DD; before: is exclusive,
 * after: inclusive, both UTC (rules: Query language). Any text is a query but for one with a bad date:
 *  - An operator without a value, an unknown one, and has: or is: with another value are plain text.
 *  - A term in which nothing can be searched for (punctuation only) is no condition, as if it were not there; a q of
 *    nothing else, or an empty one, therefore matches everything.
 *
 * Conditions on words, addresses, attachments and dates must hold of one and the same message; labels, unread and
 * starred are said of its conversation.
 */
import { AppError } from "../base/errors.ts";
import { fold } from "./fold.ts";

/** The fields in which words are searched; `any` is every field. */
export type TextField = "any" | "sender" | "recipients" | "subject";

/** A condition on one message. A text, as typed, is a word or phrase that folds to at least one token. */
export type MessageCondition =
  | {
      readonly kind: "text";
      readonly field: TextField;
      readonly text: string;
      readonly negated: boolean;
      /** It was quoted, so it is meant literally. */
      readonly exact?: true;
    }
  | { readonly kind: "attachment"; readonly negated: boolean }
  /** Message date, epoch ms. */
  | { readonly kind: "since"; readonly at: number }
  | { readonly kind: "before"; readonly at: number };

/** A condition on the conversation. Labels compare as elsewhere. */
export type ThreadCondition =
  | { readonly kind: "label"; readonly label: string; readonly negated: boolean }
  | { readonly kind: "unread"; readonly negated: boolean }
  | { readonly kind: "starred"; readonly negated: boolean };

/** All conditions must hold. */
export interface Query {
  readonly message: readonly MessageCondition[];
  readonly thread: readonly ThreadCondition[];
}

/** Whether one match can be better than another. */
export const wantsWords = ({ message }: Query): boolean =>
  message.some((condition) => condition.kind === "text" && !condition.negated);

export const OPERATORS = ["from", "to", "subject", "label", "has", "is", "before", "after"] as const;

/** The values of has: and is:. */
export const VALUES: Readonly<Record<string, readonly string[]>> = {
  has: ["attachment"],
  is: ["unread", "starred"],
};

const TERM = new RegExp(
  `(?<minus>-?)(?:(?<operator>${OPERATORS.join("|")}):)?(?:["“”„](?<quoted>[^"“”„]*)["“”„]?|(?<word>[^\\s"“”„]+))`,
  "dgi",
);

/** A term of q. */
export interface Term {
  /** Position of the value without quotes, in UTF-16 units of q. */
  start: number;
  value: string;
  /** In lower case. */
  operator: string | undefined;
  negated: boolean;
  quoted: boolean;
}

export function termsOf(q: string): Term[] {
  return [...q.matchAll(TERM)].map(({ groups, indices }) => {
    const { minus, operator, quoted, word } = groups ?? {};
    const [start = 0] = indices?.groups?.[quoted === undefined ? "word" : "quoted"] ?? [];
    return {
      start,
      value: quoted ?? word ?? "",
      operator: operator?.toLowerCase(),
      negated: minus === "-",
      quoted: quoted !== undefined,
    };
  });
}

export const FIELD_OF_OPERATOR: Readonly<Record<string, TextField>> = {
  from: "sender",
  to: "recipients",
  subject: "subject",
};

/** Start of the day, epoch ms. @throws AppError bad_request */
function parseDate(operator: string, value: string): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(value) ? Date.parse(`${value}T00:00:00.000Z`) : Number.NaN;
  // A day that its month lacks would roll over into the next.
  if (Number.isNaN(at) || !new Date(at).toISOString().startsWith(value)) {
    throw new AppError("bad_request", `q: "${operator}:${value}" needs a date that exists, as YYYY-MM-DD`);
  }
  return at;
}

/** @throws AppError bad_request only for a bad date in `before:` or `after:` */
export function parseQuery(q: string): Query {
  const message: MessageCondition[] = [];
  const thread: ThreadCondition[] = [];

  function addText(field: TextField, text: string, negated: boolean, exact: boolean): boolean {
    const searchable = fold(text) !== "";
    if (searchable) message.push({ kind: "text", field, text, negated, ...(exact && { exact }) });
    return searchable;
  }

  /** False if the value is invalid for the operator, which makes both plain text. */
  function addOperator(operator: string, value: string, negated: boolean, exact: boolean): boolean {
    switch (operator) {
      case "from":
      case "to":
      case "subject":
        return addText(FIELD_OF_OPERATOR[operator] ?? "any", value, negated, exact);
      case "label":
        thread.push({ kind: "label", label: value, negated });
        return true;
      case "has":
        if (!VALUES.has?.includes(value.toLowerCase())) return false;
        message.push({ kind: "attachment", negated });
        return true;
      case "is": {
        const kind = value.toLowerCase();
        if (kind !== "unread" && kind !== "starred") return false;
        thread.push({ kind, negated });
        return true;
      }
      default: {
        const at = parseDate(operator, value);
        message.push({ kind: (operator === "before") !== negated ? "before" : "since", at });
        return true;
      }
    }
  }

  for (const { operator, value: given, negated, quoted } of termsOf(q)) {
    const value = given.trim();
    const exact = quoted && value !== "";
    if (operator === undefined) addText("any", value, negated, exact);
    else if (value === "" || !addOperator(operator, value, negated, exact)) {
      addText("any", `${operator}:${value}`, negated, exact);
    }
  }
  return { message, thread };
}
