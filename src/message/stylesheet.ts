/**
 * Style sheets of a mail, as far as they hide text (visible.ts): rules whose selectors are made of types, classes, ids
 * and attributes, as descendants. Others are passed over. Bounded: a sheet that costs more than mail has a right to is
 * an attempt to get past us, and matching it throws.
 */
import { type Declarations, readDeclarations, unescapeCss } from "./hiding.ts";

/** An element as selectors see it. */
export interface Styled {
  name: string;
  attributes: Readonly<Record<string, string>>;
  classes: readonly string[];
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
  declarations: string;
}

const MAX_RULES = 2_000;
const MAX_SHEET = 500_000;
const MAX_CHECKS = 3_000_000;

const MATTERS =
  /display|visibility|opacity|font|color|background|position|transform|indent|clip|height|width|overflow|mso-hide|margin|filter/i;
/** Media that are not the window in which mail is read. */
const ELSEWHERE = /print|max-(?:device-)?width|max-(?:device-)?height|prefers-color-scheme|speech/i;

/** Gives an element with its ancestors, outermost first, its declarations from sheets. */
export type Sheet = (path: readonly Styled[], into: Map<string, string>, important: Set<string>) => void;

/** @returns undefined when no sheet has a rule that could hide something */
export function readSheets(html: string): Sheet | undefined {
  const rules = sheetsOf(html).flatMap(rulesOf).slice(0, MAX_RULES);
  if (rules.length === 0) return undefined;
  const byKey = new Map<string, number[]>();
  for (const [index, { compounds }] of rules.entries()) {
    const key = keyOf(compounds.at(-1) as Compound);
    const indexes = byKey.get(key) ?? [];
    byKey.set(key, indexes);
    indexes.push(index);
  }
  let checks = 0;
  return (path, into, important) => {
    const element = path.at(-1) as Styled;
    const keys = ["*", element.name, `#${element.attributes.id ?? ""}`, ...element.classes.map((name) => `.${name}`)];
    const candidates = [...new Set(keys)].flatMap((key) => byKey.get(key) ?? []).sort((one, other) => one - other);
    for (const index of candidates) {
      const rule = rules[index] as Rule;
      checks += rule.compounds.length === 1 ? 1 : path.length;
      if (checks > MAX_CHECKS) throw new Error("a style sheet too costly to follow");
      if (matches(rule.compounds, path)) readDeclarations(rule.declarations, into, important);
    }
  };
}

const keyOf = ({ id, classes, name }: Compound): string =>
  id !== undefined ? `#${id}` : classes[0] !== undefined ? `.${classes[0]}` : (name ?? "*");

/** Contents of the style elements, without those in comments, which are for one program only. */
function sheetsOf(html: string): string[] {
  const sheets: string[] = [];
  const start = /<!--|<style(?=[\s>/])/gi;
  for (let match = start.exec(html); match !== null; match = start.exec(html)) {
    const isComment = match[0] === "<!--";
    const open = isComment ? match.index : html.indexOf(">", match.index);
    const end = /-->|<\/style/gi;
    end.lastIndex = open < 0 ? html.length : open;
    let close = end.exec(html);
    while (close !== null && (close[0] === "-->") !== isComment) close = end.exec(html);
    if (!isComment && open >= 0)
      sheets.push(html.slice(open + 1, Math.min(close?.index ?? html.length, open + MAX_SHEET)));
    if (close === null) break;
    start.lastIndex = close.index + 1;
  }
  return sheets;
}

function rulesOf(sheet: string): Rule[] {
  const css = sheet.replace(/<!--|-->/g, " ").replace(/\/\*.*?(?:\*\/|$)/gs, " ");
  const rules: Rule[] = [];
  const open: boolean[] = [];
  let position = 0;
  while (position < css.length && rules.length < MAX_RULES) {
    const next = /[{};]/g;
    next.lastIndex = position;
    const mark = next.exec(css);
    if (mark === null) break;
    const prelude = css.slice(position, mark.index).trim();
    position = mark.index + 1;
    if (mark[0] === "}") open.pop();
    if (mark[0] !== "{") continue;
    if (prelude.startsWith("@")) {
      open.push(/^@(?:media|supports|layer|container)/i.test(prelude) && !ELSEWHERE.test(prelude));
      continue;
    }
    const close = css.indexOf("}", position);
    const declarations = css.slice(position, close < 0 ? css.length : close);
    position = close < 0 ? css.length : close + 1;
    if (open.includes(false) || !MATTERS.test(declarations)) continue;
    for (const selector of prelude.slice(0, 5_000).split(",")) {
      const compounds = parseSelector(selector.trim());
      if (compounds !== undefined) rules.push({ compounds, declarations });
    }
  }
  return rules;
}

const SIMPLE =
  /([.#]?)((?:[\w\u0080-\uffff-]|\\.)+)|(\*)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]+))\s*i?\s*)?\]/gy;

/** Conditions on where an element stands or what it is not: taken as met, or they would be a way past. */
const TAKEN_AS_MET =
  /:(?:root|link|any-link|(?:first|last|only)-(?:child|of-type)|nth-(?:last-)?(?:child|of-type)\([^()]*\)|not\([^()]*\))/gi;
const IS_ONE = /:(?:is|where)\(\s*([.#][\w-]+)\s*\)/gi;

function parseSelector(given: string): Compound[] | undefined {
  const selector = given.replace(TAKEN_AS_MET, "").replace(IS_ONE, "$1").trim() || (given === "" ? "" : "*");
  if (selector === "" || selector.length > 500 || /[+~:](?![^[]*\])/.test(selector)) return undefined;
  const compounds: Compound[] = [];
  for (const part of selector.split(/\s*>\s*|\s+(?![^[]*\])/)) {
    const compound: Compound = { name: undefined, id: undefined, classes: [], attributes: [] };
    SIMPLE.lastIndex = 0;
    while (SIMPLE.lastIndex < part.length) {
      const match = SIMPLE.exec(part);
      if (match === null) return undefined;
      const [, kind, word = "", , attribute, operator = "", ...values] = match;
      const name = unescapeCss(word);
      if (attribute !== undefined) {
        const value = values.slice(0, 3).find((one) => one !== undefined) ?? "";
        compound.attributes.push({ name: attribute.toLowerCase(), operator, value });
      } else if (kind === ".") compound.classes.push(name);
      else if (kind === "#") compound.id = name;
      else if (name !== "") compound.name = name.toLowerCase();
    }
    compounds.push(compound);
  }
  return compounds;
}

function matches(compounds: readonly Compound[], path: readonly Styled[]): boolean {
  let at = path.length - 1;
  if (!fits(compounds.at(-1) as Compound, path[at] as Styled)) return false;
  for (let index = compounds.length - 2; index >= 0; index--) {
    do at--;
    while (at >= 0 && !fits(compounds[index] as Compound, path[at] as Styled));
    if (at < 0) return false;
  }
  return true;
}

function fits(compound: Compound, { name, attributes, classes }: Styled): boolean {
  return (
    (compound.name === undefined || compound.name === name) &&
    (compound.id === undefined || compound.id === attributes.id) &&
    compound.classes.every((one) => classes.includes(one)) &&
    compound.attributes.every((one) => hasAttribute(attributes, one))
  );
}

function hasAttribute(attributes: Readonly<Record<string, string>>, wanted: Compound["attributes"][number]): boolean {
  const { name, operator, value } = wanted;
  if (!Object.hasOwn(attributes, name)) return false;
  const actual = attributes[name] ?? "";
  switch (operator) {
    case "":
      return true;
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

/** For visible.ts: the declarations of an element, from sheets and its style attribute. */
export function declarationsOf(sheet: Sheet | undefined, path: readonly Styled[]): Declarations {
  const declarations = new Map<string, string>();
  const important = new Set<string>();
  sheet?.(path, declarations, important);
  const { style } = (path.at(-1) as Styled).attributes;
  if (style !== undefined) readDeclarations(style, declarations, important);
  return declarations;
}
