/**
 * The rules in the style sheets of a mail. They are read once a message, for those who ask what they hide (stylesheet.ts) and for
 * those who serve them (scope.ts).
 */

import { isCssFeatureSupported, LONGEST_CONDITION } from "./condition.ts";
import {
  endOfBlock,
  formatCssTokens,
  type Item,
  parseCssRules,
  type Token,
  tokenizeCss,
  unescapeCss,
  type Written,
} from "./css.ts";
import { type Budget, OverBudget } from "./markup.ts";
import {
  contextInside,
  IN_SCOPE,
  OUTERMOST,
  readSelectors,
  SCOPE_ROOT,
  type Selector,
  type SelectorContext,
  UNSERVED,
} from "./selector.ts";

export interface StyleRule {
  selectors: readonly Selector[];
  declarations: readonly Written[];
  /** Applies only in another medium than the window in which mail is read, or in other browsers. */
  isElsewhere: boolean;
  /** The cascade layer; undefined for none, which comes after all layers. */
  layer: Layer | undefined;
  /** The innermost `@scope` around the rule; undefined outside of any. */
  scope: StyleScope | undefined;
  /** The conditions on the containers around its elements, in lower case. */
  containers: readonly string[];
  /** The at-rules around it, outermost first, as they are served; undefined if the rule is not served. */
  around: readonly Around[] | undefined;
}

/** A cascade layer (CSS Cascade 5 §6.4). */
export interface Layer {
  kind: "layer";
  /** Place in the order of precedence, from 1. */
  order: number;
  layers: Map<string, Layer>;
}

/** An `@scope` (CSS Cascade 6 §2.5): of the elements in a root that `starts` match, and in none that `ends` match. */
export interface StyleScope {
  kind: "scope";
  starts: readonly Selector[];
  ends: readonly Selector[];
  outer: StyleScope | undefined;
}

/** An at-rule around a rule. A text is as it is served. */
export type Around = string | Layer | StyleScope;

export interface Sheets {
  rules: readonly StyleRule[];
  /** Layers in the order of precedence. */
  layers: readonly Layer[];
}

/** Longest sheets of a mail that are read, in characters: each has a token of its own at worst. */
const MAX_CSS = 1024 * 1024;

/** At-rules whose rules may apply. */
const ENTERED = new Set(["media", "supports", "layer", "container", "scope"]);

const known = new WeakMap<Budget, Map<string, Sheets>>();

/** The sheets of HTML. @throws OverBudget */
export function readStyleSheets(html: string, budget: Budget): Sheets {
  const ofBudget = known.get(budget) ?? new Map<string, Sheets>();
  known.set(budget, ofBudget);
  let sheets = ofBudget.get(html);
  if (sheets === undefined) {
    const texts = sheetsIn(html);
    if (texts.reduce((sum, { css }) => sum + css.length, 0) > MAX_CSS)
      throw new OverBudget("style sheets too large to read");
    const outermost: Layer = { kind: "layer", order: 0, layers: new Map() };
    const rules = texts.flatMap((sheet) => readSheet(sheet, outermost, budget));
    sheets = { rules, layers: inOrder(outermost).slice(0, -1) };
    ofBudget.set(html, sheets);
  }
  return sheets;
}

/** A layer and those in it, which come before it, numbered. */
function inOrder(outermost: Layer): Layer[] {
  const found: Layer[] = [];
  const visit = (layer: Layer): void => {
    for (const inner of layer.layers.values()) visit(inner);
    layer.order = found.push(layer);
  };
  visit(outermost);
  return found;
}

interface SheetText {
  css: string;
  /** The `media` attribute of the style element, empty without one. */
  media: string;
}

/** Comments, and elements whose content is no markup. */
const OPENING = /<!--|<(style|script|title|textarea|xmp|iframe|noembed|noframes|noscript)(?=[\s/>])/gi;

/** Contents of the style elements. Those inside comments target a single program and are skipped. Linear time. */
function sheetsIn(html: string): SheetText[] {
  const sheets: SheetText[] = [];
  const opening = new RegExp(OPENING);
  for (let match = opening.exec(html); match !== null; match = opening.exec(html)) {
    const name = match[1]?.toLowerCase();
    const open = name === undefined ? match.index : html.indexOf(">", match.index);
    const ending = name === undefined ? /-->/g : new RegExp(`</${name}(?=[\\s/>])`, "gi");
    ending.lastIndex = open < 0 ? html.length : open;
    const close = ending.exec(html);
    if (name === "style" && open >= 0) {
      const tag = html.slice(match.index, Math.min(open, match.index + MAX_TAG));
      if (isCss(tag))
        sheets.push({
          css: html.slice(open + 1, close?.index ?? html.length),
          media: MEDIA.exec(tag)?.slice(1).find(Boolean) ?? "",
        });
    }
    if (close === null) break;
    opening.lastIndex = close.index + 1;
  }
  return sheets;
}

const MAX_TAG = 1_000;
const MEDIA = /\smedia\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*))/i;
const TYPE = /\stype\s*=\s*["']?([^\s"'>]*)/i;
const isCss = (tag: string): boolean => /^(?:text\/css)?$/i.test(TYPE.exec(tag)?.[1] ?? "");

/** The conditions, layer and selectors around the rules of a block. */
interface Context extends Pick<StyleRule, "isElsewhere" | "scope" | "containers" | "around"> {
  layer: Layer;
  /** The selectors of the style rule around; undefined outside of one. */
  selectors: readonly Selector[] | undefined;
  place: SelectorContext;
}

function readSheet({ css, media }: SheetText, outermost: Layer, budget: Budget): StyleRule[] {
  const rules: StyleRule[] = [];

  function add(declarations: readonly Written[], selectors: readonly Selector[], context: Context): void {
    const { isElsewhere, scope, containers, around, layer } = context;
    budget.spend(300);
    rules.push({
      selectors,
      declarations,
      isElsewhere,
      layer: layer === outermost ? undefined : layer,
      scope,
      containers,
      around,
    });
  }

  function read(items: readonly Item[], context: Context): void {
    for (const item of items) {
      budget.spend(100);
      if (item.kind === "declarations") {
        const selectors = context.selectors ?? (context.scope === undefined ? [] : [SCOPE_ROOT]);
        if (selectors.length > 0) add(item.declarations, selectors, context);
      } else if (item.kind === "rule") {
        const selectors = listServedSelectors(readSelectors(item.prelude, budget, context.place));
        if (selectors.length > 0)
          read(item.items, { ...context, selectors, place: contextInside(selectors, context.place) });
      } else if (item.name === "layer") readLayer(item, context);
      else if (item.items !== undefined) {
        const inside = enterAtRule(item, context, budget);
        if (inside !== undefined) read(item.items, inside);
      }
    }
  }

  function readLayer({ prelude, items }: AtRule, context: Context): void {
    const names = formatCssTokens(prelude)
      .split(",", MAX_LAYERS + 1)
      .map((name) => unescapeCss(name.trim()));
    // One without a name is another one each time.
    const paths = names.map((name) => (name === "" ? [`\n${context.layer.layers.size}`] : name.split(".")));
    if (names.length > MAX_LAYERS || paths.some((path) => path.length > MAX_LAYERS))
      throw new OverBudget("too many layers");
    const layers = paths.map((path) => path.reduce(layerIn, context.layer));
    const [layer, ...others] = layers;
    if (items === undefined || layer === undefined || others.length > 0) return;
    read(items, { ...context, layer, around: context.around && [...context.around, layer] });
  }

  const outer: Context = {
    isElsewhere: false,
    scope: undefined,
    containers: [],
    around: [],
    layer: outermost,
    selectors: undefined,
    place: OUTERMOST,
  };
  const tokens = tokenizeCss(css, budget);
  const ofElement: AtRule = { name: "media", prelude: tokenizeCss(media, budget), items: [] };
  read(parseCssRules(tokens, ENTERED), media.trim() === "" ? outer : (enterAtRule(ofElement, outer, budget) ?? outer));
  return rules;
}

/** Most layers of a list, and inside each other. */
const MAX_LAYERS = 100;

function layerIn(outer: Layer, name: string): Layer {
  const layer = outer.layers.get(name) ?? { kind: "layer", order: 0, layers: new Map() };
  outer.layers.set(name, layer);
  return layer;
}

type AtRule = Omit<Extract<Item, { kind: "at" }>, "kind">;

const listServedSelectors = (selectors: ReturnType<typeof readSelectors>): Selector[] =>
  selectors?.filter((selector) => selector !== UNSERVED) ?? [];

/** The context of the rules inside of an at-rule; undefined if these never apply. @throws OverBudget */
function enterAtRule({ name, prelude }: AtRule, context: Context, budget: Budget): Context | undefined {
  const isElsewhere = context.isElsewhere;
  const withServed = (served: string | StyleScope | undefined): readonly Around[] | undefined =>
    context.around && served !== undefined ? [...context.around, ...(served === "" ? [] : [served])] : undefined;
  if (name === "scope") {
    const scope = readScope(prelude, context, budget);
    if (scope === undefined) return undefined;
    if (scope.starts.length === 0) return { ...context, selectors: undefined };
    return { ...context, scope, around: withServed(scope), selectors: undefined, place: IN_SCOPE };
  }
  const given = unescapeCss(formatCssTokens(prelude)).trim();
  budget.spend(20 * given.length);
  const text = given.toLowerCase();
  if (name === "media") {
    if (text === "") return context;
    // Browsers take a medium that they do not know for one that never is.
    const queries = text.split(",").flatMap((query) => readServedMedium(query.trim()) ?? []);
    const list = queries.join(",");
    return {
      ...context,
      isElsewhere: isElsewhere || isOfOtherMedium(list || text),
      around: withServed(list === "" ? undefined : `@media ${list}`),
    };
  }
  const turned = given.length > LONGEST_CONDITION ? "" : turnedAround(given);
  const isPlain = PLAIN_CONDITION.test(turned) && isBalanced(turned);
  const around = withServed(isPlain ? `@${name} ${turned}` : undefined);
  if (name === "container") return { ...context, containers: [...context.containers, given], around };
  return { ...context, isElsewhere: isElsewhere || !isCssFeatureSupported(given, budget), around };
}

/** A condition that asks for nothing but what its words say. */
const PLAIN_CONDITION = /^[\w\s:.,%>=()#*+~&[\]-]+$/;

/** A condition without `<`, which a sheet that is served never has: `(1px < width)` is `(width > 1px)`. */
const turnedAround = (condition: string): string =>
  condition.replace(/\(([^()]*)\)/g, (_, feature: string) =>
    feature.includes("<")
      ? `(${feature
          .split(/(<=?)/)
          .reverse()
          .map((part) => part.trim().replace("<", ">"))
          .join("")})`
      : `(${feature})`,
  );

function isBalanced(text: string): boolean {
  const open: string[] = [];
  for (const mark of text.match(/[()[\]]/g) ?? []) {
    if (mark === "(" || mark === "[") open.push(mark);
    else if (open.pop() !== (mark === ")" ? "(" : "[")) return false;
  }
  return open.length === 0;
}

/** `@scope (starts) to (ends)`; without starts for one without a beginning. Undefined if browsers ignore it. @throws OverBudget */
function readScope(
  prelude: readonly Token[],
  { scope: outer, place }: Context,
  budget: Budget,
): StyleScope | undefined {
  const lists: Selector[][] = [];
  const words: string[] = [];
  for (let at = 0; at < prelude.length; at++) {
    const token = prelude[at] as Token;
    if (token.text === "(") {
      const end = endOfBlock(prelude, at);
      const isEnd = words.includes("to");
      const selectors = readSelectors(prelude.slice(at + 1, end), budget, isEnd ? IN_SCOPE : place);
      if (selectors === undefined) return undefined;
      lists.push(listServedSelectors(selectors));
      at = end;
      words.push("()");
    } else if (token.kind !== "space") words.push(token.text.toLowerCase());
  }
  const form = words.join(" ");
  if (form === "" || form === "to ()") return { kind: "scope", starts: [], ends: [], outer };
  const [starts = [], ends = []] = lists;
  if (!/^\(\)(?: to \(\))?$/.test(form) || starts.length === 0) return undefined;
  return { kind: "scope", starts, ends, outer };
}

/** A medium other than the window in which mail is read. A limit larger than any window excludes nothing. */
const ELSEWHERE = /print|max-(?:device-)?(?:width|height)(?!\s*:\s*(?:[2-9]\d{3}|\d{5}))|prefers-color-scheme|speech/i;
/** True if every medium in the list of an at-rule is another one. */
const isOfOtherMedium = (prelude: string): boolean =>
  prelude.split(",").every((medium) => ELSEWHERE.test(medium) && !/\bnot\b/i.test(medium));

const LENGTH = /[\d.]{1,10}(?:px|r?em|pt|in|cm|mm)?/.source;
const NAMES = [
  "(?:min-|max-)?(?:device-)?(?:width|height|aspect-ratio)",
  "(?:min-|max-)?resolution",
  "-webkit-(?:min-|max-)?device-pixel-ratio",
  "prefers-(?:color-scheme|reduced-motion|contrast)",
  "orientation",
  "(?:any-)?(?:hover|pointer)",
  "(?:min-)?(?:color|monochrome)",
].join("|");
const VALUE = `${LENGTH}|${/[\d.]{1,10}(?:dpi|dpcm|dppx|x)|\d{1,5} ?\/ ?\d{1,5}|[a-z-]{1,20}/.source}`;
const FEATURE = new RegExp(`^(?:${NAMES})(?: ?: ?(?:${VALUE}))?$`);
const RANGE = new RegExp(`^(?:(${LENGTH}) ?<=? ?)?(width|height)(?: ?([<>]=?) ?(${LENGTH}))?$`);
const MEDIUM = /^(?:(?:not |only )?(?:all|screen|print|speech)|(?:not )?\([^()]{1,100}\))(?: and \([^()]{1,100}\))*$/;

/** A medium as it is served; undefined for one that is none. */
function readServedMedium(text: string): string | undefined {
  if (text.length > 500 || !MEDIUM.test(text.replace(/ ?: ?/g, ":").replace(/\( | \)/g, (mark) => mark.trim())))
    return undefined;
  let isKnown = true;
  const served = text.replace(/\(([^()]*)\)/g, (_, given: string) => {
    const feature = given.trim();
    if (FEATURE.test(feature)) return `(${feature.replace(/ ?([:/]) ?/g, "$1")})`;
    const [, least, name, sign = "", other] = RANGE.exec(feature) ?? [];
    if (name === undefined) isKnown = false;
    const bounds = [
      ...(least === undefined ? [] : [`(min-${name}:${least})`]),
      ...(other === undefined ? [] : [`(${sign.startsWith("<") ? "max" : "min"}-${name}:${other})`]),
    ];
    return bounds.join(" and ");
  });
  return isKnown ? served : undefined;
}
