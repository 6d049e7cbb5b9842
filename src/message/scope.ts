/**
 * Serves the safe part (style.ts) of the style sheets of a mail, for the elements of this mail alone.
 *
 * Mail that is shown gets a class of its own around it, with which every selector begins, and its classes get that name as
 * their prefix: neither do its sheets reach anything else on the page, nor is any of its elements taken for a part of the page.
 * Ids and attributes are not served; a selector that asks for them gets a class instead, which the elements that have them get,
 * too. Mail that is sent keeps its classes, ids and selectors, because the programs of its readers have rules for them, too.
 */
import { createHash } from "node:crypto";
import { type Budget, OverBudget } from "./markup.ts";
import { hasAttribute } from "./match.ts";
import type { AttributeTest, Compound, Selector, Simple } from "./selector.ts";
import { requireCheapSelectors } from "./selector-cost.ts";
import { type Around, type Layer, readStyleSheets } from "./sheets.ts";
import { findHidingDeclarations, sanitizeDeclarations } from "./stylesheet.ts";

export interface Scope {
  /** The rules as they are served; never empty. */
  css: string;
  /** The classes of what is around the mail, and of what stands for its body; "" for none. */
  outer: string;
  body: string;
  /** The class attribute of an element; "" for none. `attributes`: as received. @throws OverBudget */
  servedClassNames(tag: string, attributes: Readonly<Record<string, string>>): string;
  /** `html`: as it is served inside. @throws OverBudget if the sheets would keep its reader's browser busy */
  requireCheap(html: string): void;
}

/** Longest sheets that are served, in characters: each selector gets longer. */
const MAX_CSS = 2_000_000;
/** Names that are told apart, for the conditions of selectors. */
const MAX_NAMES = 5_000;
const PLAIN = /^[\w-]{1,60}$/;
const SCOPE = /^m[a-p]{16}$/;

const SCOPED = /^\s*<style>([^<]*)<\/style><div class="(m[a-p]{16})">([\s\S]*)<\/div>\s*$/;

/**
 * Takes from the HTML of a draft what serving it added, because its author got it so to edit. Quoted mail in it keeps its own
 * scope.
 */
export function removeStyleScope(html: string): string {
  const [, css, scope, inner] = SCOPED.exec(html) ?? [];
  if (css === undefined || scope === undefined || inner === undefined) return html;
  const sheet = css
    .replaceAll(`.${scope} `, "")
    .replaceAll(`.${scope}-`, ".")
    .replaceAll(`div:where(.${scope}_body)`, "body")
    .replaceAll(`:where(:not(.${scope}_other))`, "")
    .replaceAll(`:not(.${scope}_)`, "")
    .replaceAll(`i:where(.${scope}_)`, "html")
    .replace(new RegExp(`\\.${scope}(?:\\.${scope}|:is\\(div\\))?(?!\\w)`, "g"), ":root");
  // Parsers pass over the end tag that is left.
  const bare = inner.replace(new RegExp(`^<div class="${scope}_body(?: ${scope}_other)?">`), "");
  return `<style>${sheet}</style>${bare.replaceAll(`${scope}-`, "")}`;
}

/** The letters a to p for half a byte: no digits, which might be taken for a code. */
const scopeName = (html: string): string =>
  `m${[...createHash("sha256").update(html).digest().subarray(0, 8)]
    .map((byte) => String.fromCharCode(97 + (byte >> 4), 97 + (byte & 15)))
    .join("")}`;

export interface ScopeOptions {
  /** The mail leaves: its names stay. */
  isSent: boolean;
  /** The element that stands for one of these tags; undefined for one without an element. */
  findServedElement(tag: string): string | undefined;
}

/** The sheets of HTML as they are served; undefined if nothing of them is. @throws OverBudget */
export function scopeStyleSheets(
  html: string,
  { isSent, findServedElement }: ScopeOptions,
  budget: Budget,
): Scope | undefined {
  const { rules, layers } = readStyleSheets(html, budget);
  if (rules.length === 0) return undefined;
  const names = isSent ? sentNames() : scopedNames(scopeName(html), findServedElement);
  const hiding = findHidingDeclarations(html, budget);
  const servedName = ({ order }: Layer): string => `${names.layer}${order}`;
  let css = layers.length > 0 ? `@layer ${layers.map(servedName).join(",")};` : "";
  if (isDarkAware(html)) css += `${names.root}{color-scheme:light dark}`;
  // What lies behind other elements lies before the ground of the page.
  if (!isSent && hiding.properties.has("z-index")) css += `${names.root},.${names.body}{isolation:isolate}`;
  const declared = css.length;
  const written: Selector[] = [];
  let open: readonly string[] = [];
  const close = (shared: number) => "}".repeat(open.length - shared);
  const writeList = (selectors: readonly Selector[], inScope: boolean, inContainer = false): string =>
    [
      ...new Set(
        selectors.flatMap((selector) => {
          const texts = names.write(selector, inScope, inContainer);
          if (texts.length > 0) written.push(selector);
          return texts;
        }),
      ),
    ].join(",");
  /** Writes an at-rule; undefined if no element is in it. */
  function writeAround(one: Around): string | undefined {
    if (typeof one === "string") return one;
    // One layer is not put into another: their order says it all.
    if (one.kind === "layer") return `@layer ${servedName(one)}`;
    const starts = writeList(one.starts, one.outer !== undefined);
    const ends = writeList(one.ends, true);
    return starts === "" ? undefined : `@scope (${starts})${ends && ` to (${ends})`}`;
  }
  const aroundWritten = new Map<Around, string | undefined>();
  for (const { selectors, declarations, layer, scope, containers, around: given } of rules) {
    if (given === undefined) continue;
    const around: string[] = [];
    for (const one of given) {
      if (typeof one !== "string" && one.kind === "layer" && one !== layer) continue;
      const text = aroundWritten.has(one) ? aroundWritten.get(one) : writeAround(one);
      aroundWritten.set(one, text);
      if (text !== undefined) around.push(text);
      budget.spend(20 + (text?.length ?? 0));
    }
    if (scope !== undefined && aroundWritten.get(scope) === undefined) continue;
    const style = sanitizeDeclarations(declarations, budget, { ofRule: true, isSent, hiding });
    if (style === "") continue;
    const list = writeList(selectors, scope !== undefined, containers.length > 0);
    if (list === "") continue;
    let shared = 0;
    while (shared < open.length && open[shared] === around[shared]) shared++;
    css += `${close(shared)}${around
      .slice(shared)
      .map((one) => `${one}{`)
      .join("")}${list}{${style}}`;
    open = around;
    budget.spend(100 + list.length + style.length);
    if (css.length > MAX_CSS) throw new OverBudget("style sheets too large to serve");
  }
  if (css.length === declared) return undefined;
  const used = (name: string): string => (name !== "" && css.includes(name) ? name : "");
  const other = used(names.other);
  return {
    css: css + close(0),
    outer: names.outer,
    body: [written.some(choosesAny) ? names.body : used(names.body), other].filter(Boolean).join(" "),
    servedClassNames: names.servedClassNames(budget, other),
    requireCheap: (html) => requireCheapSelectors(written, html, names.findRuleKey, budget),
  };
}

/** True for one that may choose the body by no name, as `*` does, or count it among what is around an element. */
const choosesAny = (selector: Selector): boolean => selector.some(isNameless);
const isNameless = ({ simples }: Compound): boolean =>
  simples.every(
    (simple) =>
      simple.kind === "any" ||
      simple.kind === "state" ||
      (simple.kind === "logic" &&
        (/^(?:not|has)$/.test(simple.name) ||
          simple.selectors.some((selector) => selector.slice(-1).some(isNameless)))),
  );

/** Where a document says what it is designed for, in its first characters. */
const HEAD = 64 * 1024;
/** True if the document says that it has a design for dark windows. */
function isDarkAware(html: string): boolean {
  for (const [tag] of html.slice(0, HEAD).matchAll(/<meta\b[^>]{0,500}>/gi)) {
    if (/\bname\s*=\s*["']?(?:supported-)?color-schemes?\b/i.test(tag) && /\bcontent\s*=[^>]*\bdark\b/i.test(tag))
      return true;
  }
  return false;
}

interface Names {
  /** The selector of the document's root. */
  root: string;
  outer: string;
  body: string;
  /** The class of an element that stands for one of another type. */
  other: string;
  /** Beginning of the names of layers. */
  layer: string;
  /**
   * The selectors to serve in place of one; none if no element that is served could be meant. `inScope`: the selector stands in
   * an `@scope`, which limits it already; `inContainer`: it stands in an `@container`, and no container is around the root.
   */
  write(selector: Selector, inScope: boolean, inContainer: boolean): string[];
  /** The key by which a browser finds the rules of an element: its type, or a class behind a dot. */
  findRuleKey(simple: Simple): string | undefined;
  /** `other`: this class, if it is used. */
  servedClassNames(budget: Budget, other: string): Scope["servedClassNames"];
}

/** CSSOM §2.1, more cautious: everything but letters, digits, `-` and `_` is escaped. */
const escaped = (name: string): string =>
  name.replace(/^-?\d|^-$|[^\w-]/gu, (text) =>
    [...text].map((one) => `\\${(one.codePointAt(0) ?? 0).toString(16)} `).join(""),
  );

const writeState = ({ name, argument }: Extract<Simple, { kind: "state" }>): string => `:${name}${argument}`;

const writeCompounds = (
  compounds: readonly Compound[],
  write: (simple: Simple) => string | undefined,
): string | undefined => {
  let text = "";
  for (const { combinator, simples } of compounds) {
    text += combinator;
    for (const simple of simples) {
      const written = write(simple);
      if (written === undefined) return undefined;
      text += written;
    }
  }
  return text;
};

const known = (...texts: (string | undefined)[]): string[] => texts.filter((text) => text !== undefined);

function sentNames(): Names {
  const write = (simple: Simple): string | undefined => {
    switch (simple.kind) {
      case "type":
        return escaped(simple.name);
      case "class":
        return `.${escaped(simple.name)}`;
      case "id":
        return `#${escaped(simple.name)}`;
      case "attribute": {
        const { name, operator, value, ignoresCase } = simple.test;
        return `[${escaped(name)}${operator && `${operator}"${escaped(value)}"${ignoresCase ? " i" : ""}`}]`;
      }
      case "state":
        return writeState(simple);
      case "logic":
        return writeLogic(simple, write);
      default:
        return "*";
    }
  };
  return {
    root: ":root",
    outer: "",
    body: "",
    other: "",
    layer: "layer-",
    write: (selector) => known(writeCompounds(selector, write)),
    findRuleKey: () => undefined,
    servedClassNames: () => () => "",
  };
}

function writeLogic(
  { name, selectors }: Extract<Simple, { kind: "logic" }>,
  write: (simple: Simple) => string | undefined,
): string | undefined {
  const list = selectors.map((selector) => writeCompounds(selector, write));
  const written = known(...list);
  // Without one of them, `:not()` would mean more.
  if (written.length === 0 || (name === "not" && written.length < list.length)) return undefined;
  return `:${name}(${written.join(",")})`;
}

function scopedNames(scope: string, findServedElement: ScopeOptions["findServedElement"]): Names {
  const classes = new Map<string, string>();
  const ids = new Map<string, string>();
  const tags = new Map<string, string>();
  const tests = new Map<string, Map<string, { test: AttributeTest; name: string }>>();
  let count = 0;
  const next = (): string => {
    if (++count > MAX_NAMES) throw new OverBudget("too many conditions in style sheets");
    return `${scope}_${count}`;
  };
  function servedName(names: Map<string, string>, key: string, preferred?: string): string {
    const name = names.get(key) ?? preferred ?? next();
    names.set(key, name);
    return name;
  }
  function nameOfTest(test: AttributeTest): string {
    const ofAttribute = tests.get(test.name) ?? new Map<string, { test: AttributeTest; name: string }>();
    tests.set(test.name, ofAttribute);
    const key = [test.operator, test.ignoresCase, test.value].join();
    const named = ofAttribute.get(key) ?? { test, name: next() };
    ofAttribute.set(key, named);
    return named.name;
  }
  const body = `${scope}_body`;
  const other = `${scope}_other`;

  function write(simple: Simple): string | undefined {
    switch (simple.kind) {
      case "type": {
        const { name } = simple;
        if (name === "body") return `div:where(.${body})`;
        // Nothing inside is the root.
        if (name === "html") return `i:where(.${scope}_)`;
        // Elements that stand for others are not of this type.
        if (name === "div" || name === "span") return `${name}:where(:not(.${other}))`;
        const element = findServedElement(name);
        // The class adds nothing to the weight of the type.
        return element === undefined || element === name ? element : `${element}:where(.${servedName(tags, name)})`;
      }
      case "class":
        return `.${servedName(classes, simple.name, PLAIN.test(simple.name) ? `${scope}-${simple.name}` : undefined)}`;
      case "id":
        // An id that nothing has adds its weight. One of a draft has it already.
        if (SCOPE.test(simple.name)) return `#${simple.name}`;
        return `:is(.${servedName(ids, simple.name)},#${scope})`;
      case "attribute":
        return `.${nameOfTest(simple.test)}`;
      case "state":
        return simple.name === "root" ? `.${scope}_` : writeState(simple);
      case "logic":
        return writeLogic(simple, write);
      default:
        return "*";
    }
  }
  const isRoot = (simple: Simple): boolean =>
    (simple.kind === "type" && simple.name === "html") || (simple.kind === "state" && simple.name === "root");

  return {
    root: `.${scope}`,
    outer: scope,
    body,
    other,
    layer: `${scope}_l`,
    write(given, inScope, inContainer) {
      if (inScope) {
        const written = writeCompounds(given, write);
        // The weight of the class that others begin with.
        return known(written && `${written}:not(.${scope}_)`);
      }
      const [first, next] = given;
      if (first === undefined) return [];
      // The document's root is what is around the mail.
      const asRoot = writeCompounds(given, (simple) => {
        if (!first.simples.includes(simple) || (!isRoot(simple) && simple.kind !== "any")) return write(simple);
        return simple.kind === "any" ? "" : simple.kind === "type" ? ":is(div)" : `.${scope}`;
      });
      const written = first.simples.some(isRoot) ? undefined : writeCompounds(given, write);
      const isInRoot = isNameless(first) && /^[ >]$/.test(next?.combinator ?? (inContainer ? "" : " "));
      return known(
        written && `.${scope} ${written}`,
        asRoot !== undefined && (written === undefined || isInRoot) ? `.${scope}${asRoot}` : undefined,
      );
    },
    findRuleKey(simple) {
      if (simple.kind === "class") return `.${classes.get(simple.name)}`;
      if (simple.kind === "type") return simple.name === "body" ? "div" : findServedElement(simple.name);
      return undefined;
    },
    servedClassNames: (budget, other) => (tag, attributes) => {
      const found = other !== "" && tag !== "body" && findServedElement(tag) !== tag ? [other] : [];
      const add = (name: string | undefined) => {
        if (name !== undefined) found.push(name);
      };
      for (const name of classNames(attributes.class, budget)) add(classes.get(name));
      if (attributes.id !== undefined) add(ids.get(attributes.id));
      add(tags.get(tag));
      if (tests.size > 0) {
        for (const name of Object.keys(attributes)) {
          for (const { test, name: served } of tests.get(name)?.values() ?? []) {
            if (hasAttribute(attributes, test, budget)) add(served);
          }
        }
      }
      return [...new Set(found)].join(" ");
    },
  };
}

function classNames(names: string | undefined, budget: Budget): string[] {
  if (names === undefined) return [];
  budget.spend(10 * names.length);
  return names.split(/\s+/).filter((name) => name !== "");
}
