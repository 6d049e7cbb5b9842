/** The colours of CSS, and those of HTML's attributes. */

/** `alpha`: 0 to 1. */
export type Color = readonly [red: number, green: number, blue: number, alpha: number];

export const WHITE: Color = [255, 255, 255, 1];
export const BLACK: Color = [0, 0, 0, 1];

const named = (names: string, color: Color | undefined) => names.split(" ").map((name) => [name, color] as const);
/** System colours in the light theme, which mail is designed for. Undefined for those that differ between programs. */
const OF_THE_SYSTEM = new Map([
  ...named("canvas window field", WHITE),
  ...named("canvastext windowtext fieldtext buttontext menutext infotext captiontext marktext", BLACK),
  ...named(
    "accentcolor accentcolortext activeborder activecaption activetext appworkspace background buttonborder buttonface " +
      "buttonhighlight buttonshadow currentcolor graytext highlight highlighttext inactiveborder inactivecaption " +
      "inactivecaptiontext infobackground linktext mark menu scrollbar selecteditem selecteditemtext threeddarkshadow threedface " +
      "threedhighlight threedlightshadow threedshadow visitedtext windowframe",
    undefined,
  ),
]);

/** The colour of an attribute, in any spelling that browsers take for one (HTML §2.3.6). Lower case. */
export function legacyColor(given: string): string {
  const value = given.toLowerCase().trim();
  if (/^#[0-9a-f]{3}$/.test(value) || (!value.startsWith("#") && Array.isArray(Bun.color(value, "[rgba]"))))
    return value;
  const digits = value
    .slice(0, 128)
    .replace(/^#/, "")
    .replace(/[^0-9a-f]/g, "0");
  const length = Math.ceil(digits.length / 3) || 1;
  const padded = digits.padEnd(3 * length, "0");
  const parts = [0, 1, 2].map((part) => padded.slice(part * length, (part + 1) * length).slice(-8));
  const zeros = Math.min(...parts.map((part) => Math.min(part.search(/[^0]|$/), part.length - 2)));
  return `#${parts.map((part) => part.slice(Math.max(zeros, 0)).slice(0, 2).padStart(2, "0")).join("")}`;
}

/** Bun also reads a colour with something behind it, which browsers ignore. */
const ONE_COLOR = /^(?:#[0-9a-f]+|[a-z]+|[a-z-]+\([^()]*\))$/;

/** The colour of a value in lower case; undefined if it depends on the reader's program or on the rest of the page. */
export function parseColor(value: string): Color | undefined | "invalid" {
  if (OF_THE_SYSTEM.has(value)) return OF_THE_SYSTEM.get(value);
  const color = ONE_COLOR.test(value) ? Bun.color(value, "[rgba]") : undefined;
  if (!Array.isArray(color)) return value.includes("(") ? undefined : "invalid";
  const [red, green, blue, alpha] = color;
  return [red, green, blue, alpha / 255];
}
