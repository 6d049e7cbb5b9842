/**
 * Style sheets of a mail, as far as they hide text (visible.ts): rules whose selectors are made of types, classes, ids
 * and attributes, as descendants. Others are passed over. Each comparison is paid for from the message's budget: a sheet
 * that costs more than mail has a right to is an attempt to get past us.
 */
import type { Budget } from "./budget.ts";
import { type Declaration, declare, readDeclarations, unescapeCss } from "./hiding.ts";

/** An element as selectors see it. */
export interface Styled {
  name: string;
  attributes: Readonly<Record<string, string>>;
  classes: ReadonlySet<string>;
}

interface Compound {
  name: string | undefined;
  id: string | undefined;
  classes: string[];
  attributes: { name: string; operator: string; value: string }[];
}

interface Rule {
  /** Outermost first; the last is the element itself. */
  compounds: Compound[];
  block: Block;
}

/** The declarations of one or several rules, read when one of them matches first. */
interface Block {
  css: string;
  declarations?: readonly Declaration[];
}

const MATTERS =
  /display|visibility|opacity|font|color|background|position|transform|indent|clip|height|width|overflow|mso-hide|margin|filter/i;
/** A property with an escape in its name, which may be any. */
const mayMatter = (css: string): boolean => MATTERS.test(css) || css.includes("\\");

/** A medium that is not the window in which mail is read; what any window is smaller than says nothing. */
const ELSEWHERE = /print|max-(?:device-)?(?:width|height)(?!\s*:\s*(?:[2-9]\d{3}|\d{5}))|prefers-color-scheme|speech/i;
/** Of all media that an at-rule lists. */
const isElsewhere = (prelude: string): boolean =>
  prelude.split(",").every((medium) => ELSEWHERE.test(medium) && !/\bnot\b/i.test(medium));

/** Gives an element with its ancestors, outermost first, its declarations from sheets. @throws OverBudget */
export type Sheet = (path: readonly Styled[], into: Map<string, string>, important: Set<string>) => void;

/** @returns undefined when no sheet has a rule that could hide something. @throws OverBudget */
export function readSheets(html: string, budget: Budget): Sheet | undefined {
  const rules: Rule[] = [];
  for (const sheet of sheetsOf(html)) readRules(sheet, rules, budget);
  if (rules.length === 0) return undefined;
  const byKey = new Map<string, number[]>();
  for (const [index, { compounds }] of rules.entries()) {
    const key = keyOf(compounds.at(-1) as Compound);
    const indexes = byKey.get(key) ?? [];
    byKey.set(key, indexes);
    indexes.push(index);
  }
  return (path, into, important) => {
    const element = path.at(-1) as Styled;
    const lists: (readonly number[] | undefined)[] = [byKey.get("*"), byKey.get(element.name)];
    lists.push(byKey.get(`#${element.attributes.id ?? ""}`));
    for (const name of element.classes) lists.push(byKey.get(`.${name}`));
    const found = lists.filter((list) => list !== undefined);
    budget.spend(10 * lists.length);
    // In the order of the sheets.
    for (const index of found.length > 1 ? sorted(found, budget) : (found[0] ?? [])) {
      const { compounds, block } = rules[index] as Rule;
      if (!matches(compounds, path, budget)) continue;
      block.declarations ??= readDeclarations(block.css, budget);
      declare(block.declarations, into, important, budget);
    }
  };
}

function sorted(lists: readonly (readonly number[])[], budget: Budget): number[] {
  const all = lists.flat();
  budget.spend(50 * all.length);
  return all.sort((one, other) => one - other);
}

const keyOf = ({ id, classes, name }: Compound): string =>
  id !== undefined ? `#${id}` : classes[0] !== undefined ? `.${classes[0]}` : (name ?? "*");

/** Contents of the style elements, without those in comments, which are for one program only. Linear time. */
function sheetsOf(html: string): string[] {
  const sheets: string[] = [];
  const start = /<!--|<style(?=[\s>/])/gi;
  for (let match = start.exec(html); match !== null; match = start.exec(html)) {
    const isComment = match[0] === "<!--";
    const open = isComment ? match.index : html.indexOf(">", match.index);
    const end = isComment ? /-->/g : /<\/style/gi;
    end.lastIndex = open < 0 ? html.length : open;
    const close = end.exec(html);
    if (!isComment && open >= 0) sheets.push(html.slice(open + 1, close?.index ?? html.length));
    if (close === null) break;
    start.lastIndex = close.index + 1;
  }
  return sheets;
}

function readRules(sheet: string, rules: Rule[], budget: Budget): void {
  budget.spend(sheet.length);
  const css = sheet.replace(/<!--|-->/g, " ").replace(/\/\*.*?(?:\*\/|$)/gs, " ");
  /** Of each at-rule that is open, whether it is for another place; and how many are. */
  const open: boolean[] = [];
  let elsewhere = 0;
  let position = 0;
  const next = /[{};]/g;
  for (let mark = next.exec(css); mark !== null; mark = next.exec(css)) {
    const prelude = css.slice(position, mark.index).trim();
    position = mark.index + 1;
    if (mark[0] === "}" && open.pop()) elsewhere--;
    if (mark[0] !== "{") continue;
    if (prelude.startsWith("@")) {
      const isOther = !/^@(?:media|supports|layer|container)/i.test(prelude) || isElsewhere(prelude);
      open.push(isOther);
      if (isOther) elsewhere++;
      continue;
    }
    const close = css.indexOf("}", position);
    const block: Block = { css: css.slice(position, close < 0 ? css.length : close) };
    position = close < 0 ? css.length : close + 1;
    next.lastIndex = position;
    if (elsewhere > 0 || !mayMatter(block.css)) continue;
    const list = prelude.replace(IS_ONE, "$1").replace(TAKEN_AS_MET, MET);
    for (const selector of list.split(",")) {
      budget.spend(300 + 4 * selector.length);
      const compounds = parseSelector(selector.trim());
      if (compounds !== undefined) rules.push({ compounds, block });
    }
  }
}

const COMBINATOR = /\s*>\s*|\s+/y;
const SIMPLE =
  /([.#]?)((?:[\w\u0080-\uffff-]|\\.)+)|(\*)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]+))\s*(?:i\s*)?)?\]/y;

/** Conditions on where an element stands or what it is not: taken as met, or they would be a way past. */
const TAKEN_AS_MET =
  /:(?:root|link|any-link|(?:first|last|only)-(?:child|of-type)|(?:nth-(?:last-)?(?:child|of-type)|not|is|where|has|lang)\([^()]*\))/gi;
/** Stands for one of these: they may hold commas, so they go before a list of selectors is parted. */
const MET = "\u0001";
const IS_ONE = /:(?:is|where)\(\s*([.#][\w-]+)\s*\)/gi;

/** Linear time: each expression begins where the one before ended. */
function parseSelector(given: string): Compound[] | undefined {
  const selector = given.replaceAll(MET, "").trim() || (given === "" ? "" : "*");
  if (selector === "") return undefined;
  const compounds: Compound[] = [];
  let position = 0;
  while (position < selector.length) {
    const compound: Compound = { name: undefined, id: undefined, classes: [], attributes: [] };
    const start = position;
    for (SIMPLE.lastIndex = position; position < selector.length; position = SIMPLE.lastIndex) {
      const match = SIMPLE.exec(selector);
      if (match === null) break;
      const [, kind, word = "", , attribute, operator = "", ...values] = match;
      if (attribute !== undefined) {
        const value = unescapeCss(values.find((one) => one !== undefined) ?? "");
        compound.attributes.push({ name: attribute.toLowerCase(), operator, value });
      } else if (kind === ".") compound.classes.push(unescapeCss(word));
      else if (kind === "#") compound.id = unescapeCss(word);
      else if (word !== "") compound.name = unescapeCss(word).toLowerCase();
    }
    if (position === start) return undefined;
    compounds.push(compound);
    if (position === selector.length) break;
    COMBINATOR.lastIndex = position;
    if (!COMBINATOR.test(selector) || COMBINATOR.lastIndex === selector.length) return undefined;
    position = COMBINATOR.lastIndex;
  }
  return compounds;
}

/** The last compound fits the element, and the others some of its ancestors, in their order. */
function matches(compounds: readonly Compound[], path: readonly Styled[], budget: Budget): boolean {
  let at = path.length - 1;
  if (!fits(compounds.at(-1) as Compound, path[at] as Styled, budget)) return false;
  for (let index = compounds.length - 2; index >= 0; index--) {
    do at--;
    while (at >= 0 && !fits(compounds[index] as Compound, path[at] as Styled, budget));
    if (at < 0) return false;
  }
  return true;
}

function fits(compound: Compound, { name, attributes, classes }: Styled, budget: Budget): boolean {
  budget.spend(10);
  if (compound.name !== undefined && compound.name !== name) return false;
  if (compound.id !== undefined && compound.id !== attributes.id) return false;
  for (const one of compound.classes) {
    budget.spend(5);
    if (!classes.has(one)) return false;
  }
  for (const one of compound.attributes) if (!hasAttribute(attributes, one, budget)) return false;
  return true;
}

function hasAttribute(
  attributes: Readonly<Record<string, string>>,
  { name, operator, value }: Compound["attributes"][number],
  budget: Budget,
): boolean {
  budget.spend(10);
  if (!Object.hasOwn(attributes, name)) return false;
  const actual = attributes[name] ?? "";
  if (operator === "") return true;
  budget.spend(operator === "~=" ? 4 * actual.length : (actual.length + value.length) / 4);
  switch (operator) {
    case "~=":
      return actual.split(/\s+/).includes(value);
    case "^=":
      return actual.startsWith(value);
    case "$=":
      return actual.endsWith(value);
    case "*=":
      return actual.includes(value);
    case "|=":
      return actual === value || actual.startsWith(`${value}-`);
    default:
      return actual === value;
  }
}
