/**
 * The rules in the style sheets of a mail. They are read once a message, for those who ask what they hide (stylesheet.ts) and for
 * those who serve them (scope.ts).
 */
import { type AtRule, declarationsIn, rulesIn, textOf, tokensOf, unescapeCss, type Written } from "./css.ts";
import { type Budget, OverBudget } from "./markup.ts";
import { readSelectors, type Selector, UNSERVED } from "./selector.ts";

export interface StyleRule {
  selectors: readonly Selector[];
  declarations: readonly Written[];
  /** Applies only to another medium than the window in which mail is read. */
  isElsewhere: boolean;
  /** The at-rules around it, outermost first, as they are served; undefined if the rule is not served. */
  around: readonly string[] | undefined;
}

/** Longest sheets of a mail that are read, in characters: each has a token of its own at worst. */
const MAX_CSS = 1024 * 1024;

/** At-rules whose rules may apply. */
const ENTERED = new Set(["media", "supports", "layer", "container"]);

const known = new WeakMap<Budget, Map<string, readonly StyleRule[]>>();

/** The rules of HTML, in order. @throws OverBudget */
export function rulesOf(html: string, budget: Budget): readonly StyleRule[] {
  const ofBudget = known.get(budget) ?? new Map<string, readonly StyleRule[]>();
  known.set(budget, ofBudget);
  let rules = ofBudget.get(html);
  if (rules === undefined) {
    const sheets = sheetsIn(html);
    if (sheets.reduce((sum, { css }) => sum + css.length, 0) > MAX_CSS)
      throw new OverBudget("style sheets too large to read");
    rules = sheets.flatMap((sheet) => [...readRules(sheet, budget)]);
    ofBudget.set(html, rules);
  }
  return rules;
}

interface SheetText {
  css: string;
  /** As its element says. */
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

function* readRules({ css, media }: SheetText, budget: Budget): Generator<StyleRule> {
  const tokens = tokensOf(css, budget);
  const outer: AtRule[] = media.trim() === "" ? [] : [{ name: "media", prelude: tokensOf(media, budget) }];
  for (const { prelude, from, to, around } of rulesIn(tokens, ENTERED)) {
    budget.spend(300);
    const selectors = readSelectors(prelude, budget)?.filter((selector) => selector !== UNSERVED) ?? [];
    if (selectors.length === 0) continue;
    const declarations = [...declarationsIn(tokens, from, to)];
    if (declarations.length === 0) continue;
    const atRules = [...outer, ...around].map((one) => readAtRule(one, budget));
    yield {
      selectors,
      declarations,
      isElsewhere: atRules.some(({ isElsewhere }) => isElsewhere),
      around: atRules.some(({ served }) => served === undefined)
        ? undefined
        : atRules.flatMap(({ served = "" }) => (served === "" ? [] : [served])),
    };
  }
}

/** A medium other than the window in which mail is read. A limit larger than any window excludes nothing. */
const ELSEWHERE = /print|max-(?:device-)?(?:width|height)(?!\s*:\s*(?:[2-9]\d{3}|\d{5}))|prefers-color-scheme|speech/i;
/** True if every medium in the list of an at-rule is another one. */
const isElsewhere = (prelude: string): boolean =>
  prelude.split(",").every((medium) => ELSEWHERE.test(medium) && !/\bnot\b/i.test(medium));

/** `served`: "" if its rules are served without it. */
function readAtRule({ name, prelude }: AtRule, budget: Budget): { isElsewhere: boolean; served: string | undefined } {
  const text = unescapeCss(textOf(prelude)).toLowerCase().trim();
  budget.spend(20 * text.length);
  if (name === "media" && text === "") return { isElsewhere: false, served: "" };
  if (name === "media") {
    // Browsers take a medium that they do not know for one that never is.
    const queries = text.split(",").flatMap((query) => mediumOf(query.trim()) ?? []);
    const list = queries.join(",");
    return { isElsewhere: isElsewhere(list || text), served: list === "" ? undefined : `@media ${list}` };
  }
  if (name === "supports") return { isElsewhere: false, served: SUPPORTS.test(text) ? `@supports ${text}` : undefined };
  return { isElsewhere: false, served: name === "layer" ? "" : undefined };
}

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
function mediumOf(text: string): string | undefined {
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

const SUPPORTS =
  /^(?:not )?\([a-z-]{1,40}: ?[a-z\d .%#-]{1,60}\)(?: (?:and|or) (?:not )?\([a-z-]{1,40}: ?[a-z\d .%#-]{1,60}\)){0,5}$/;
