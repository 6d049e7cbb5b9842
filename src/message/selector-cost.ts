/**
 * How much work the selectors of a mail are for the browser of its reader, who would wait for all of it. A browser finds the rules
 * of an element by a class or the type of their last compound, and then walks to its ancestors and siblings.
 */
import { type Budget, OverBudget } from "./markup.ts";
import type { Compound, Selector, Simple } from "./selector.ts";

/** Comparisons. Chromium took less than two seconds for as many of each kind, on a busy machine. */
const MOST = 400_000_000;
/** Comparisons that counting the place of an element among others takes: browsers remember it. */
const COUNTED = 8;

interface Shape {
  elements: number;
  /** Number of elements by `type` and `.class`. */
  counts: ReadonlyMap<string, number>;
  deepest: number;
  mostSiblings: number;
}

const VOID = new Set(["br", "col", "hr", "img", "wbr"]);

/** The shape of sanitised HTML. */
function measureHtmlShape(html: string): Shape {
  const counts = new Map<string, number>();
  const add = (key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
  /** Children so far, of each open element. */
  const open = [0];
  let [elements, deepest, mostSiblings] = [0, 0, 0];
  for (const [tag, end, name = ""] of html.matchAll(/<(\/?)([a-z][a-z\d]*)[^>]*>/g)) {
    if (end !== "") {
      open.pop();
      continue;
    }
    elements++;
    add(name);
    for (const one of / class="([^"]*)"/.exec(tag)?.[1]?.split(" ") ?? []) add(`.${one}`);
    const siblings = (open.at(-1) ?? 0) + 1;
    open[open.length - 1] = siblings;
    mostSiblings = Math.max(mostSiblings, siblings);
    if (VOID.has(name)) continue;
    open.push(0);
    deepest = Math.max(deepest, open.length);
  }
  return { elements, counts, deepest, mostSiblings };
}

/**
 * `findRuleKey`: the type, or the class behind a dot, that a simple selector asks for as it is served; undefined for others.
 * @throws OverBudget if the selectors are too much work for a browser
 */
export function requireCheapSelectors(
  selectors: readonly Selector[],
  html: string,
  findRuleKey: (simple: Simple) => string | undefined,
  budget: Budget,
): void {
  budget.spend(html.length);
  const shape = measureHtmlShape(html);
  let work = 0;
  for (const selector of selectors) {
    budget.spend(20 * selector.length);
    const keys = selector.at(-1)?.simples.flatMap((simple) => findRuleKey(simple) ?? []) ?? [];
    const found = keys.map((key) => shape.counts.get(key) ?? 0);
    work += Math.min(shape.elements, ...found) * countSelectorComparisons(selector, shape);
    if (work > MOST) throw new OverBudget("style sheets that would keep a browser busy");
  }
}

/** Comparisons for one element. */
function countSelectorComparisons(selector: Selector, shape: Shape): number {
  const walks = (combinator: Compound["combinator"]) => selector.some((one) => one.combinator === combinator);
  const compounds = selector.reduce(
    (sum, { simples }) => sum + simples.reduce((of, simple) => of * countSimpleComparisons(simple, shape), 1),
    0,
  );
  return compounds * (walks(" ") ? shape.deepest : 1) * (walks("~") ? shape.mostSiblings : 1);
}

function countSimpleComparisons(simple: Simple, shape: Shape): number {
  if (simple.kind === "state") {
    if (simple.argument !== "") return COUNTED;
    return simple.name.endsWith("-of-type") ? shape.mostSiblings : 1;
  }
  if (simple.kind !== "logic") return 1;
  const inner = simple.selectors.reduce((sum, selector) => sum + countSelectorComparisons(selector, shape), 1);
  return simple.name === "has" ? inner * shape.elements : inner;
}
