/** The colours of CSS, and those of HTML's attributes. */

/** `alpha`: 0 to 1. */
export type Color = readonly [red: number, green: number, blue: number, alpha: number];

export const WHITE: Color = [255, 255, 255, 1];
export const BLACK: Color = [0, 0, 0, 1];

/** System colours in the light theme, which mail is designed for, as Chromium has them. */
const OF_THE_SYSTEM: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "#fff":
      "canvas window field accentcolortext activecaption appworkspace background highlighttext inactivecaption infobackground menu scrollbar selecteditemtext",
    "#000":
      "canvastext windowtext fieldtext buttontext menutext infotext captiontext marktext activeborder buttonborder inactiveborder windowframe threeddarkshadow threedhighlight threedlightshadow threedshadow",
    "#efefef": "buttonface buttonhighlight buttonshadow threedface",
    "#808080": "graytext inactivecaptiontext",
    "#0075ff": "accentcolor",
    "#f00": "activetext -webkit-activelink",
    "#0000ee": "linktext -webkit-link",
    "#551a8b": "visitedtext",
    "#ff0": "mark",
    "#1967d2": "selecteditem highlight",
  }).flatMap(([color, names]) => names.split(" ").map((name) => [name, color] as const)),
);

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
const ONE_COLOR = /^(?:#[0-9a-f]+|-?[a-z-]+|[a-z-]+\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))$/;
const WORD = /(?<![\w#-])-?[a-z][a-z-]*(?![\w(-])/g;
/** A lightness may be a number. Bun reads a percentage alone. */
const LIGHTNESS = /(?<![\w-])((?:ok)?l(?:ab|ch))\( ?([\d.]+)(?=[ /])/g;
const BARE_HSL = /(?<![\w-])(hsla?|hwb)\( ?([^\s,()]+) ([\d.]+)%? ([\d.]+)%?(?=[ /)])/g;

/** The colour of a value in lower case; undefined if it depends on the rest of the page, or cannot be told. */
export function parseColor(value: string): Color | undefined | "invalid" {
  if (value === "currentcolor") return undefined;
  const read = ONE_COLOR.test(value) ? Bun.color(toPlainColor(value), "[rgba]") : undefined;
  if (!Array.isArray(read)) return value.includes("(") ? undefined : "invalid";
  const [red, green, blue, alpha] = read;
  return [red, green, blue, alpha / 255];
}

/** A colour in a form that Bun reads. */
function toPlainColor(value: string): string {
  if (!value.includes("(")) return OF_THE_SYSTEM.get(value) ?? value;
  const plain = resolveLightDark(value)
    .replace(WORD, (word) => OF_THE_SYSTEM.get(word) ?? word)
    .replace(
      LIGHTNESS,
      (_, name: string, number: string) => `${name}(${Number(number) * (name.startsWith("ok") ? 100 : 1)}%`,
    )
    .replace(BARE_HSL, "$1($2 $3% $4%");
  return plain.startsWith("color(") ? `color-mix(in srgb,${plain},${plain})` : plain;
}

/** `light-dark()` in light. */
function resolveLightDark(value: string): string {
  const at = value.indexOf("light-dark(");
  if (at < 0) return value;
  let depth = 0;
  let comma = -1;
  for (let end = at + "light-dark".length; end < value.length; end++) {
    if (value[end] === "(") depth++;
    if (value[end] === "," && depth === 1 && comma < 0) comma = end;
    if (value[end] === ")" && --depth === 0)
      return comma < 0
        ? value
        : resolveLightDark(value.slice(0, at) + value.slice(at + 11, comma).trim() + value.slice(end + 1));
  }
  return value;
}
