/**
 * Reduces inline CSS to declarations that cannot load, overlay or escape: an allow list of properties and of their
 * values' grammar.
 *
 * A declaration is kept whole or dropped whole. Values are words, colours, numbers and lengths: without url(), escapes,
 * comments or functions other than colours, nothing can hide in them.
 */

const COLOR = /^(?:#[0-9a-f]{3,8}|[a-z]{3,25}|(?:rgb|rgba|hsl|hsla)\([\d\s.,%/deg-]{1,60}\))$/i;
const WORDS = /^[a-z][a-z\s-]{0,60}$/i;
const FONT_FAMILY = /^[\p{L}\p{N}\s,._'"-]{1,300}$/u;
/**
 * Numbers with absolute and type-relative units, without those of the viewport, which would measure the reader's
 * window.
 */
const LENGTH = String.raw`(?:[a-z-]{1,20}|\d{0,5}(?:\.\d{0,8})?(?:px|pt|pc|em|rem|ex|ch|cm|mm|in|%)?)`;
const LENGTHS = new RegExp(`^${LENGTH}(?:\\s+${LENGTH}){0,3}$`, "i");
/** Widths, styles and colours of borders, and the parts of font and text-decoration. */
const SHORTHAND = /^(?:[a-z0-9#.,%\s'"/_-]|(?:rgb|rgba|hsl|hsla)\([\d\s.,%/deg-]{1,60}\)){1,300}$/i;

/** Longest value that is examined, in characters. */
const MAX_VALUE = 500;
/** Largest length, in any unit; a larger one is meant to hide or cover something. */
const MAX_LENGTH = 4_000;

const DISPLAY =
  /^(?:none|block|inline|inline-block|list-item|table|inline-table|table-(?:row|cell|caption|column|row-group|header-group|footer-group|column-group))$/i;
const OVERFLOW = /^(?:hidden|auto)$/i;

const sides = (property: string) => ["top", "right", "bottom", "left"].map((side) => `${property}-${side}`);

const VALUES = new Map<string, RegExp>([
  ...[
    "color",
    "background-color",
    "border-color",
    "text-decoration-color",
    ...sides("border").map((s) => `${s}-color`),
  ].map((property) => [property, COLOR] as const),
  ...[
    "font-style",
    "font-variant",
    "text-align",
    "text-transform",
    "text-decoration-line",
    "text-decoration-style",
    "vertical-align",
    "white-space",
    "word-break",
    "word-wrap",
    "overflow-wrap",
    "hyphens",
    "direction",
    "float",
    "clear",
    "list-style-type",
    "list-style-position",
    "border-collapse",
    "table-layout",
    "caption-side",
    "empty-cells",
    "box-sizing",
    "border-style",
    "unicode-bidi",
  ].map((property) => [property, WORDS] as const),
  ...[
    "font-size",
    "font-weight",
    "line-height",
    "letter-spacing",
    "word-spacing",
    "text-indent",
    "vertical-align",
    "width",
    "min-width",
    "max-width",
    "height",
    "min-height",
    "max-height",
    "margin",
    ...sides("margin"),
    "padding",
    ...sides("padding"),
    "border-width",
    "border-radius",
    "border-spacing",
  ].map((property) => [property, LENGTHS] as const),
  ...["border", ...sides("border"), "font", "text-decoration", "outline"].map(
    (property) => [property, SHORTHAND] as const,
  ),
  ["font-family", FONT_FAMILY],
  ["display", DISPLAY],
  ["overflow", OVERFLOW],
]);

/** The safe declarations of a style attribute, in order; "" for none. */
export function safeStyle(style: string): string {
  if (style.length > 10_000) return "";
  const kept: string[] = [];
  for (const declaration of splitDeclarations(style.replace(/\/\*.*?(?:\*\/|$)/gs, " ").replace(/\s+/g, " "))) {
    const colon = declaration.indexOf(":");
    const property = declaration.slice(0, colon).trim().toLowerCase();
    const value = declaration
      .slice(colon + 1)
      .replace(/\s*!\s*important\s*$/i, "")
      .trim();
    if (colon < 0 || value === "" || value.length > MAX_VALUE) continue;
    if (property === "background") {
      const color = backgroundColor(value);
      if (color !== undefined) kept.push(`background-color:${color}`);
    } else if (isSafe(property, value)) {
      kept.push(`${property}:${value}`);
    }
  }
  return kept.join(";");
}

/** True if a value is a colour as the HTML attributes bgcolor and color have it. */
export function isColor(value: string): boolean {
  return COLOR.test(value.trim()) || /^[0-9a-f]{6}$/i.test(value.trim());
}

function isSafe(property: string, value: string): boolean {
  const grammar = VALUES.get(property);
  if (grammar === undefined || !grammar.test(value)) return false;
  return !/(?:^|[\s,(])-\s*\.?\d/.test(value) && !exceeds(value);
}

function exceeds(value: string): boolean {
  for (const [number] of value.matchAll(/\d+/g)) if (number.length > 8 || Number(number) > MAX_LENGTH) return true;
  return false;
}

/** Keeps only the colour of the background shorthand: the rest loads or positions images. */
function backgroundColor(value: string): string | undefined {
  const withoutImages = value.replace(/(?<![a-z-])[a-z-]*\((?:[^()"']|"[^"]*"|'[^']*')*\)/gi, (call) =>
    COLOR.test(call) ? call : " ",
  );
  if (COLOR.test(withoutImages.trim())) return withoutImages.trim();
  const named = withoutImages.match(/(?:^|\s)(#[0-9a-f]{3,8}|(?:rgb|rgba|hsl|hsla)\([^()]*\))(?=\s|$)/i)?.[1];
  return named !== undefined && COLOR.test(named) ? named : undefined;
}

/** Splits at semicolons outside quotes and parentheses. */
function* splitDeclarations(style: string): Generator<string> {
  let start = 0;
  let quote = "";
  let depth = 0;
  for (let i = 0; i < style.length; i++) {
    const character = style[i] as string;
    if (quote !== "") quote = character === quote ? "" : quote;
    else if (character === '"' || character === "'") quote = character;
    else if (character === "(") depth++;
    else if (character === ")") depth = Math.max(0, depth - 1);
    else if (character === ";" && depth === 0) {
      yield style.slice(start, i);
      start = i + 1;
    }
  }
  yield style.slice(start);
}
