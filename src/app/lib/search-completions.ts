/**
 * Completes a search by its last word (src/search/query.ts has the language), and remembers searches in this browser.
 */
import { listOperatorValues, OPERATOR_NAMES, OPERATORS, type Operator, TERMS } from "../../search/operators.ts";
import { dayBefore } from "./time-format.ts";

export interface Suggestion {
  /** The whole search, completed. */
  text: string;
  /** The completed word, for the list. */
  shown: string;
  /** Meaning or origin of the completed word. */
  hint: string;
  kind: "recent" | "operator" | "person" | "label";
  /** False: there is more to type before it is a search. */
  whole: boolean;
}

/** Signs that go before a word. */
const SIGNS = [
  ["-", "Leave out what follows"],
  ['"', "Words in this order, up to the next quote"],
] as const;

const DAYS = [
  [0, "Today"],
  [1, "Yesterday"],
  [7, "A week ago"],
  [30, "A month ago"],
  [365, "A year ago"],
] as const;

const MOST = 9;
/** Most completions while nothing is typed: former searches, and the whole language. */
const MOST_WITHOUT = 24;

const MONTHS = "January February March April May June July August September October November December".split(" ");

/** Days, YYYY-MM-DD, that begin with the typed text or match it by name: `2025`, `2025-03`, `yest`, `week`. */
function daysFor(typed: string): [day: string, name: string][] {
  const known = DAYS.map(([days, name]): [string, string] => [dayBefore(days), name]).filter(
    ([day, name]) => day.startsWith(typed) || name.toLowerCase().includes(typed),
  );
  const [, year, month = ""] = /^(\d{4})(?:-?|-([01]\d?))$/.exec(typed) ?? [];
  if (year === undefined) return known;
  const months = MONTHS.map((name, i): [string, string] => [
    `${year}-${String(i + 1).padStart(2, "0")}-01`,
    `1 ${name}`,
  ]);
  const begun = months.filter(([day]) => day.startsWith(`${year}-${month}`));
  return [...known, ...begun.filter(([day]) => !known.some(([other]) => other === day))];
}

const LAST_WORD = new RegExp(
  `^((?:[^\\s"]|"[^"]*"?|\\s)*?)(-?)(?:(${OPERATOR_NAMES.join("|")}):)?("[^"]*|[^\\s"]*)$`,
  "i",
);

/** The last word of the text, and the text before it. A quotation is one word. */
function lastWord(text: string): { before: string; minus: string; operator: Operator | undefined; value: string } {
  const [, before = "", minus = "", operator, value = ""] = LAST_WORD.exec(text) ?? [];
  return { before, minus, operator: operator?.toLowerCase() as Operator | undefined, value: value.replace(/^"/, "") };
}

const OF_PEOPLE: readonly Operator[] = ["from", "to", "cc"];

const quoteSearchValue = (value: string): string => (/[\s"]/.test(value) ? `"${value.replaceAll('"', "")}"` : value);

export interface Known {
  people: readonly { email: string; name?: string }[];
  labels: readonly string[];
  recent: readonly string[];
}

export function suggestionsFor(text: string, { people, labels, recent }: Known): Suggestion[] {
  const { before, minus, operator, value } = lastWord(text);
  const wanted = value.toLowerCase();
  const begin = before + minus;
  const complete = (kind: Suggestion["kind"], word: string, hint: string): Suggestion => {
    const whole = !word.endsWith(":") && !SIGNS.some(([sign]) => sign === word);
    const said = minus === "" || kind !== "operator" ? hint : `Leave out: ${hint}`;
    return { kind, hint: said, shown: minus + word, whole, text: begin + word + (whole ? " " : "") };
  };
  const ofPerson = (prefix: string) => people.map(({ email, name }) => complete("person", prefix + email, name ?? ""));
  const ofLabel = labels
    .filter((label) => label.toLowerCase().includes(wanted))
    .map((label) => complete("label", `label:${quoteSearchValue(label)}`, "Label"));

  const found: Suggestion[] = [];
  if (operator === undefined) {
    const typed = text.trim().toLowerCase();
    const again = recent.filter((one) => one.toLowerCase().startsWith(typed) && one.toLowerCase() !== typed);
    found.push(
      ...again
        .slice(0, typed === "" ? 5 : 3)
        .map((one): Suggestion => ({ kind: "recent", shown: one, text: one, hint: "Searched before", whole: true })),
    );
    const operators = TERMS.filter(({ term }) => term.startsWith(wanted));
    found.push(...operators.map(({ term, words }) => complete("operator", term, words)));
    if (wanted !== "") found.push(...ofPerson("from:"), ...ofLabel);
    else if (minus === "") found.push(...SIGNS.map(([sign, hint]) => complete("operator", sign, hint)));
  } else if (OF_PEOPLE.includes(operator)) found.push(...ofPerson(`${operator}:`));
  else if (operator === "label") found.push(...ofLabel);
  else if (operator === "before" || operator === "after") {
    found.push(...daysFor(wanted).map(([day, name]) => complete("operator", `${operator}:${day}`, name)));
  } else {
    const { words, offered = listOperatorValues(operator) ?? [] } = OPERATORS[operator];
    const values = offered.filter((value) => value.toLowerCase().startsWith(wanted));
    const findValueHint = (value: string) => (typeof words === "string" ? words : (words[value] ?? ""));
    found.push(...values.map((value) => complete("operator", `${operator}:${value}`, findValueHint(value))));
  }
  return found
    .filter(({ text: completed }) => completed.trim() !== text.trim())
    .slice(0, operator === undefined && wanted === "" ? MOST_WITHOUT : MOST);
}

/** The beginning of a name or address to look up: a plain last word, or one after from:, to: or cc:. */
export function findPersonToComplete(text: string): string | undefined {
  const { operator, value } = lastWord(text);
  return (operator === undefined || OF_PEOPLE.includes(operator)) && value !== "" ? value : undefined;
}

const MOST_RECENT = 20;
const searchesStorageKey = (userId: string): string => `mailroom.searches.${userId}`;

/** A person's former searches in this browser, the latest first. */
export function recentSearches(userId: string): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(searchesStorageKey(userId)) ?? "[]");
    return Array.isArray(stored) ? stored.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function rememberSearch(userId: string, q: string): void {
  const others = recentSearches(userId).filter((one) => one.toLowerCase() !== q.toLowerCase());
  try {
    localStorage.setItem(searchesStorageKey(userId), JSON.stringify([q, ...others].slice(0, MOST_RECENT)));
  } catch {
    // Without storage, no searches are remembered.
  }
}

/** Called at sign-out. */
export function forgetSearches(userId: string): void {
  try {
    localStorage.removeItem(searchesStorageKey(userId));
  } catch {
    // Without storage, there are none.
  }
}
