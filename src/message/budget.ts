/**
 * Limits the work of reading the HTML of a message. Each message gets one budget, and every reader of its HTML
 * (visible.ts, stylesheet.ts, sanitize.ts, text.ts) pays for a step before taking it. Rules, classes, attributes and
 * depth, alone or multiplied, therefore cost only a bounded amount.
 *
 * Steps are counted, not timed: the same message gives the same result on every machine. People are shown HTML beyond
 * its budget as text, and HTML that could not be followed counts as hidden from models.
 */

/** A step takes five to ten nanoseconds. A newsletter of 60 kB takes two million. */
const MOST_STEPS = 100_000_000;

/** The HTML of this message costs more than its budget. */
export class OverBudget extends Error {
  override readonly name = "OverBudget";
}

export interface Budget {
  /** Steps taken so far. */
  readonly spent: number;
  /** HTML that markup.ts has read to its end, and the steps that this took. */
  readonly read: Map<string, number>;
  /** Results by HTML, so that two readers of a message share the work. */
  readonly visible: Map<string, { html: string; hidden: number } | undefined>;
  readonly texts: Map<string, string>;
  /** True if that many steps are left. */
  affords(steps: number): boolean;
  /** @throws OverBudget if the budget is exceeded, and on every call after that */
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
