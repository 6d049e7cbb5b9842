/** Which words of a message the server took for those that were asked for: it does not say. */
import { fold, type IndexDocument } from "../fold.ts";
import { slipsBetween } from "../near.ts";
import type { MessageCondition, TextField } from "../query.ts";
import { mayHaveTypos } from "./documents.ts";

/** As the server's own: how many typos a word may have by its length. */
const typosOf = (word: string): number => (word.length >= 9 ? 2 : word.length >= 5 ? 1 : 0);
/** Words looked at, of each field, and compared with those asked for, of a message: some milliseconds of the oddest. */
const MOST_WORDS = 2_000;
const MOST_COMPARED = 5_000;

const FIELDS: Readonly<Record<TextField, readonly (keyof IndexDocument)[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
};

/** Of the words asked for that the message lacks: the nearest that it has, folded, each once. */
export function nearestWords(conditions: readonly MessageCondition[], document: IndexDocument): string[] {
  const found = new Set<string>();
  const wordsOf = new Map<TextField, ReadonlySet<string>>();
  const work = { left: MOST_COMPARED };
  for (const condition of conditions) {
    if (condition.kind !== "text") continue;
    const { field, text } = condition;
    const words = wordsOf.get(field) ?? new Set(FIELDS[field].flatMap((name) => document[name].split(" ", MOST_WORDS)));
    wordsOf.set(field, words);
    for (const asked of fold(text).split(" ").filter(mayHaveTypos)) {
      const nearest = words.has(asked) ? undefined : nearestOf(asked, words, work);
      if (nearest !== undefined) found.add(nearest);
    }
  }
  return [...found];
}

/** Undefined for a word that is near none. */
function nearestOf(asked: string, words: Iterable<string>, work: { left: number }): string | undefined {
  const limit = typosOf(asked);
  if (limit === 0) return undefined;
  let nearest: string | undefined;
  let least = limit + 1;
  for (const word of words) {
    if (Math.abs(word.length - asked.length) > limit) continue;
    if (work.left-- <= 0) break;
    const apart = slipsBetween(asked, word, limit);
    if (apart < least) [nearest, least] = [word, apart];
  }
  return nearest;
}
