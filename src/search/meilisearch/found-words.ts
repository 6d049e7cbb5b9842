/** Which words of a message the server took for those that were asked for: it does not say. */
import { fold, type IndexDocument } from "../fold.ts";
import { slipsBetween } from "../near.ts";
import type { MessageCondition, TextField } from "../query.ts";
import { mayHaveTypos } from "./documents.ts";

/** As the server's own: how many typos a word may have by its length. */
const typosOf = (word: string): number => (word.length >= 9 ? 2 : word.length >= 5 ? 1 : 0);
/** Words looked at, of each message. */
const MOST_WORDS = 5_000;

const FIELDS: Readonly<Record<TextField, readonly (keyof IndexDocument)[]>> = {
  any: ["subject", "sender", "recipients", "files", "body"],
  subject: ["subject"],
  sender: ["sender"],
  recipients: ["recipients"],
};

/** Of the words asked for that the messages lack: the nearest that they have, folded, each once. */
export function nearestWords(conditions: readonly MessageCondition[], documents: readonly IndexDocument[]): string[] {
  const found = new Set<string>();
  for (const condition of conditions) {
    if (condition.kind !== "text") continue;
    for (const document of documents) {
      const words = FIELDS[condition.field].flatMap((field) => document[field].split(" ").slice(0, MOST_WORDS));
      for (const asked of fold(condition.text).split(" ").filter(mayHaveTypos)) {
        const nearest = nearestOf(asked, words);
        if (nearest !== undefined) found.add(nearest);
      }
    }
  }
  return [...found];
}

/** Undefined for a word that is among them, or near none. */
function nearestOf(asked: string, words: readonly string[]): string | undefined {
  const limit = typosOf(asked);
  let nearest: string | undefined;
  let least = limit + 1;
  for (const word of words) {
    if (word === asked) return undefined;
    const apart = slipsBetween(asked, word, limit);
    if (apart < least) [nearest, least] = [word, apart];
  }
  return nearest;
}
