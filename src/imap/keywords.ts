/**
 * The flags of messages, among them the labels of their conversations as keywords. Clients compare keywords in any case, and the
 * case of modified UTF-7 matters: of labels whose keywords differ by it alone, the first by name has the keyword, and the others
 * have it with a number.
 */
import { FLAG_BITS, type FlagState } from "../mailbox/imap/uids.ts";
import { labelKey } from "../mailbox/state/labels.ts";
import { keywordToLabel, labelToKeyword } from "./grammar.ts";

/** Clients that change the case of a keyword name the label nonetheless. */
export class Keywords {
  readonly #labels: () => readonly { label: string }[];
  readonly #ofLabels = new Map<string, string>();
  /** Flags but for labels, by what a message's state has of them. */
  readonly #ofBits = new Map<number, string>();
  #known: { keywords: Map<string, string>; labels: Map<string, string> } | undefined;

  /** `labels`: of the mailbox, by name; read if one of them is not in ASCII. */
  constructor(labels: () => readonly { label: string }[]) {
    this.#labels = labels;
  }

  /** The keyword of a label. */
  of(label: string): string {
    const had = this.#ofLabels.get(label);
    if (had !== undefined) return had;
    const plain = labelToKeyword(label);
    const keyword = plain.includes("&") ? (this.#read().keywords.get(labelKey(label)) ?? plain) : plain;
    this.#ofLabels.set(label, keyword);
    return keyword;
  }

  /** The flags of a message, each once, as a list in parentheses. */
  formatFlags({ read, flagged, draft, flags, labels }: FlagState): string {
    const bits = read + 2 * flagged + 4 * draft + 8 * flags;
    let names = this.#ofBits.get(bits);
    if (names === undefined) {
      names = [
        ...(read ? ["\\Seen"] : []),
        ...(flagged ? ["\\Flagged"] : []),
        ...(draft ? ["\\Draft"] : []),
        ...FLAG_BITS.flatMap(([name, bit]) => (flags & bit ? [name] : [])),
      ].join(" ");
      this.#ofBits.set(bits, names);
    }
    if (labels.length === 0) return `(${names})`;
    return `(${[...(names === "" ? [] : [names]), ...labels.map((label) => this.of(label))].join(" ")})`;
  }

  /** The label of a keyword, which may be a new one. */
  label(keyword: string): string {
    const known = keyword.includes("&") ? this.#read().labels.get(keyword.toLowerCase()) : undefined;
    return known ?? keywordToLabel(keyword);
  }

  #read() {
    if (this.#known) return this.#known;
    this.#known = { keywords: new Map(), labels: new Map() };
    const counts = new Map<string, number>();
    for (const { label } of this.#labels()) {
      const plain = labelToKeyword(label);
      if (!plain.includes("&")) continue;
      const count = (counts.get(plain.toLowerCase()) ?? 0) + 1;
      counts.set(plain.toLowerCase(), count);
      // No label has such a keyword for itself: an & of its own is `&-`.
      const keyword = count === 1 ? plain : `${plain}&${count}`;
      this.#known.keywords.set(labelKey(label), keyword);
      this.#known.labels.set(keyword.toLowerCase(), label);
    }
    return this.#known;
  }
}
