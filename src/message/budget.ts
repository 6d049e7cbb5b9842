/**
 * What reading the HTML of a message may cost. One budget is made for each message and handed to everything of ours that
 * reads its HTML (visible.ts, stylesheet.ts, sanitize.ts, text.ts): each says what it is about to do, so that neither
 * rules, classes, attributes nor depth, alone or multiplied by each other, cost more than mail has a right to.
 *
 * Counted, not timed: the same message comes to the same end on every machine. HTML beyond its budget is shown to people
 * as text, and what could not be followed counts as hidden from models.
 */

/** A step takes five to ten nanoseconds. A newsletter of 60 kB takes two million. */
const MOST_STEPS = 100_000_000;

/** The HTML of this message costs more than it may. */
export class OverBudget extends Error {
  override readonly name = "OverBudget";
}

export interface Budget {
  /** Steps so far. */
  readonly spent: number;
  /** HTML that markup.ts has read to its end, and the steps that took it. */
  readonly read: Map<string, number>;
  /** What was made of HTML, by the HTML: what two readers of a message ask for is made once. */
  readonly visible: Map<string, { html: string; hidden: number } | undefined>;
  readonly texts: Map<string, string>;
  /** Whether there are so many left. */
  affords(steps: number): boolean;
  /** @throws OverBudget when there are no more left, and at every call from then on */
  spend(steps: number): void;
}

export function createBudget(most = MOST_STEPS): Budget {
  let spent = 0;
  return {
    get spent() {
      return spent;
    },
    read: new Map(),
    visible: new Map(),
    texts: new Map(),
    affords: (steps) => spent + steps <= most,
    spend(steps) {
      spent += steps;
      if (spent > most) throw new OverBudget(`the HTML takes more than ${most} steps to read`);
    },
  };
}
