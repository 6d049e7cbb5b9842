/**
 * Reads the HTML of mail as tags and text, within a budget of work, and the XML of documents. The only user of
 * htmlparser2.
 *
 * Each message gets one budget, and every reader of its HTML (here, visible.ts, stylesheet.ts, sanitize.ts, text.ts)
 * pays for a step before taking it. Rules, classes, attributes and depth, alone or multiplied, therefore cost only a
 * bounded amount. Steps are counted, not timed: the same message gives the same result on every machine. People are
 * shown HTML beyond its budget as text, and HTML that could not be followed counts as hidden from models.
 */
import { Parser } from "htmlparser2";

/** A step takes five to ten nanoseconds. A newsletter of 60 kB takes two million. */
const MOST_STEPS = 100_000_000;

/** The HTML of this message costs more than its budget. */
export class OverBudget extends Error {
  override readonly name = "OverBudget";
}

export interface Budget {
  /** Steps taken so far. */
  readonly spent: number;
  /** HTML that was read to its end, and the steps that this took. */
  readonly read: Map<string, number>;
  /** Results by HTML, so that two readers of a message share the work. */
  readonly visible: Map<string, { html: string; text: string; hidden: number } | undefined>;
  /** @throws OverBudget if the budget is exceeded, and on every call after that */
  spend(steps: number): void;
}

export function createHtmlBudget(most = MOST_STEPS): Budget {
  let spent = 0;
  return {
    get spent() {
      return spent;
    },
    read: new Map(),
    visible: new Map(),
    spend(steps) {
      spent += steps;
      if (spent > most) throw new OverBudget(`the HTML takes more than ${most} steps to read`);
    },
  };
}

/** Limits in characters and tags; larger HTML is not parsed. */
const MAX_LENGTH = 4 * 1024 * 1024;
const MAX_TAGS = 100_000;
/** Limit on nested elements: the parser searches its list of open elements at each end tag. */
const MAX_DEPTH = 2_000;

/** Receives the markup in order. Positions are in characters; `to` is exclusive. */
export interface Reader {
  open(name: string, attributes: Record<string, string>, from: number, to: number): void;
  /** `isImplied`: something other than its own end tag closed it. */
  close(name: string, isImplied: boolean, from: number, to: number): void;
  text(text: string, from: number, to: number): void;
  /** A comment or declaration: it contains no tags. */
  pass(from: number, to: number): void;
}

/** An upper bound on the tags: each begins with `<`. */
function countTags(html: string): number {
  let count = 0;
  for (let at = html.indexOf("<"); at >= 0; at = html.indexOf("<", at + 1)) count++;
  return count;
}

/** True if HTML is so large that only its text is used. */
export const isHtmlTooLarge = (html: string): boolean => html.length > MAX_LENGTH || countTags(html) > MAX_TAGS;

/** Characters that the parser reads between two payments. */
const CHUNK = 32 * 1024;
/** Steps that a tag, an attribute, and a run of text or an entity cost. */
const TAG = 60;
const ATTRIBUTE = 100;
const TEXT = 40;

/** Reports the markup of HTML that is not too large to `reader`. @throws OverBudget, also if elements nest too deep */
export function readMarkup(html: string, budget: Budget, reader: Reader): void {
  /** Cost of the parser alone. */
  let steps = 0;
  let depth = 0;
  /** Since the last payment. */
  let deepest = 0;
  let events = 0;
  const parser = new Parser({
    onopentagname() {
      if (++depth > deepest) deepest = depth;
      if (depth > MAX_DEPTH) throw new OverBudget("elements too deep inside each other");
    },
    onopentag: (name, attributes) => reader.open(name, attributes, parser.startIndex, parser.endIndex + 1),
    onattribute() {
      events += ATTRIBUTE;
    },
    ontext(text) {
      events += TEXT;
      reader.text(text, parser.startIndex, parser.endIndex + 1);
    },
    oncomment: () => reader.pass(parser.startIndex, parser.endIndex + 1),
    onprocessinginstruction: () => reader.pass(parser.startIndex, parser.endIndex + 1),
    onclosetag(name, isImplied) {
      depth--;
      reader.close(name, isImplied, parser.startIndex, parser.endIndex + 1);
    },
  });
  for (let at = 0; at < html.length; at += CHUNK) {
    const chunk = html.slice(at, at + CHUNK);
    parser.write(chunk);
    const taken = chunk.length + countTags(chunk) * (TAG + deepest) + events;
    budget.spend(taken);
    steps += taken;
    events = 0;
    deepest = depth;
  }
  parser.end();
  budget.read.set(html, steps);
}

const IGNORE: Reader = { open() {}, close() {}, text() {}, pass() {} };

/** Pays for another parser's reading of the HTML. @throws OverBudget, also if it cannot be read in bounded time */
export function payForHtmlParsing(html: string, budget: Budget): void {
  if (isHtmlTooLarge(html)) throw new OverBudget("HTML too large");
  const steps = budget.read.get(html);
  if (steps === undefined) readMarkup(html, budget, IGNORE);
  budget.spend(2 * (steps ?? budget.read.get(html) ?? 0));
}

/**
 * Receives XML. Element names are without prefix. An attribute with a prefix is `:name`, whatever the prefix is, so
 * that `id` and `r:id` of an element differ.
 */
export interface XmlReader {
  open?(name: string, attributes: Record<string, string>): void;
  close?(name: string): void;
  text?(text: string): void;
}

const withoutPrefix = (name: string): string => name.slice(name.indexOf(":") + 1);

function plainAttributes(attributes: Record<string, string>): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const name in attributes) plain[name.slice(Math.max(0, name.indexOf(":")))] = attributes[name] as string;
  return plain;
}

/**
 * Reads XML that comes in pieces; at most `mostDepth` elements may be inside each other. Knows no DTD: entities other
 * than XML's own and numbers stay as they are written. `write` throws OverBudget, and what the reader throws.
 */
export function createXmlParser(reader: XmlReader, mostDepth: number): Pick<Parser, "write" | "end"> {
  let depth = 0;
  return new Parser(
    {
      onopentag(name, attributes) {
        if (++depth > mostDepth) throw new OverBudget("elements too deep inside each other");
        reader.open?.(withoutPrefix(name), plainAttributes(attributes));
      },
      ontext: (text) => reader.text?.(text),
      onclosetag(name) {
        depth--;
        reader.close?.(withoutPrefix(name));
      },
    },
    { xmlMode: true },
  );
}
