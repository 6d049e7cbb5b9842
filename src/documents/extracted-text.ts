/** The text of a document while it is extracted, and the limits that end the extraction. */

/** Characters of the longest text of a document: some forty results of a tool. */
export const MOST_CHARS = 1_000_000;
/** After this time the text so far is the result, ms. */
export const LONGEST_MS = 5_000;
/** Pieces of text between two looks at the clock. */
const PIECES_A_LOOK = 256;

/** A limit ends the extraction; the text so far is the result. `what`: continues "Left out: ". */
export class Enough extends Error {
  override readonly name = "Enough";
}

/** The document has no text that can be extracted. `message` continues "Its text could not be extracted: ". */
export class Unreadable extends Error {
  override readonly name = "Unreadable";
}

export type Text = ReturnType<typeof createExtractedText>;

/** `now`: epoch ms. */
export function createExtractedText(now: () => number) {
  const ends = now() + LONGEST_MS;
  const leftOut = new Map<string, number>();
  let whole = "";
  /** A look at the end of `whole` would make one string of all its pieces, at each line. */
  let endsLine = true;
  let pieces = 0;

  /** Counts work that gives no text, too. @throws Enough */
  function look(): void {
    if (++pieces % PIECES_A_LOOK === 0 && now() > ends) {
      throw new Enough(`what follows, because reading took more than ${LONGEST_MS / 1_000} seconds`);
    }
  }

  return {
    look,
    /** @throws Enough */
    add(text: string): void {
      look();
      const room = MOST_CHARS - whole.length;
      whole += text.length <= room ? text : text.slice(0, room).replace(/[\ud800-\udbff]$/, "");
      if (text !== "") endsLine = text.endsWith("\n");
      if (text.length > room) throw new Enough(`what follows the first ${MOST_CHARS} characters`);
    },
    /** Ends the line, if one has begun. */
    endLine(): void {
      if (!endsLine) this.add("\n");
    },
    /** Starts a part of the document with a line of its own, such as `# Sheet: Sums`. */
    title(title: string): void {
      this.endLine();
      this.add(whole === "" ? `${title}\n` : `\n${title}\n`);
    },
    /** Notes what is not in the text, such as "hidden rows". Never words of the document. */
    leaveOut(what: string, count = 1): void {
      if (count > 0) leftOut.set(what, (leftOut.get(what) ?? 0) + count);
    },
    /** Sentences that say what was left out; `limit`: the limit that ended the extraction. */
    notes(limit?: Enough): string[] {
      const counted = [...leftOut].map(([what, count]) => `${what} (${count})`);
      return [...(limit ? [limit.message] : []), ...(counted.length > 0 ? [counted.join(", ")] : [])].map(
        (what) => `Left out: ${what}.`,
      );
    },
    get whole(): string {
      return whole;
    },
  };
}
