/**
 * Decides which declarations of mail are served, and how, with a grammar for the values of each property that is kept, in style
 * attributes and in sheets alike. A declaration is kept whole or dropped whole, except that a background loses its images, and
 * negative margins become 0. A kept declaration cannot load anything, nor cover what is around the message.
 *
 * Values are written anew from what was read: names without escapes, numbers within limits, colours, a few functions of these.
 */
import { parseColor } from "./color.ts";
import { readCssTokenName, readStringToken, type Token } from "./css.ts";

/** A part of a value. */
interface Part {
  kind: "name" | "hash" | "string" | "number" | "percentage" | "dimension" | "call" | "url" | "mark" | "unknown";
  /** Text of the part as it is served; for a call, its name in lower case. */
  text: string;
  /** Value of a number, with or without a unit. */
  number: number;
  /** Lower case. */
  unit: string;
  /** Inside a call. */
  parts: readonly Part[];
  /** White space stands before it. */
  followsSpace: boolean;
}

/** Longest value, in tokens. */
const MAX_TOKENS = 200;

const PLAIN_NAME = /^-{0,2}[a-z_][\w-]{0,60}$/i;
/** Letters of all scripts: names of typefaces. */
const PLAIN_STRING = /^[\p{L}\p{N}\s,._-]{0,100}$/u;

const isOpening = ({ kind, text }: Token): boolean => kind === "call" || (kind === "other" && text === "(");
const isClosing = ({ kind, text }: Token): boolean => kind === "other" && text === ")";

/** The parts of a value. */
function readValueParts(tokens: readonly Token[]): Part[] {
  const outermost: Part[] = [];
  const open = [outermost];
  let followsSpace = false;
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    const inner = open.at(-1) as Part[];
    if (token.kind === "space") {
      followsSpace = true;
      continue;
    }
    const url = urlAt(tokens, at);
    if (isClosing(token) && open.length > 1) open.pop();
    else {
      const parts: Part[] = [];
      inner.push({ ...(url?.part ?? readPlainPart(token)), parts, followsSpace: followsSpace && inner.length > 0 });
      if (url) at = url.end;
      else if (isOpening(token)) open.push(parts);
    }
    followsSpace = false;
  }
  return outermost;
}

type Plain = Omit<Part, "parts" | "followsSpace">;
const UNKNOWN: Plain = { kind: "unknown", text: "", number: 0, unit: "" };
/** An image, as it may be in mail that is sent. */
const PLAIN_URL = /^(?:https?:\/\/|cid:)[^\s'"()<>\\]{1,2000}$/i;

/** A URL that begins with the token, in quotes or without; undefined if none does. `end`: its last token. */
function urlAt(tokens: readonly Token[], at: number): { part: Plain; end: number } | undefined {
  const { kind, text } = tokens[at] as Token;
  if (!/^url\(/i.test(text)) return undefined;
  let end = at;
  let url = text.slice(4).replace(/\)$/, "").trim();
  if (kind === "call") {
    const [quoted, ...rest] = tokens.slice(at + 1, at + 5).filter((token) => token.kind !== "space");
    if (quoted?.kind !== "string") return undefined;
    end = tokens.indexOf(rest[0] as Token, at);
    if (end < 0 || !isClosing(tokens[end] as Token)) return undefined;
    url = readStringToken(quoted);
  }
  return { part: PLAIN_URL.test(url) ? { ...UNKNOWN, kind: "url", text: `url('${url}')` } : UNKNOWN, end };
}

function readPlainPart(token: Token): Plain {
  const { kind, text } = token;
  if (isOpening(token)) {
    const name = kind === "call" ? readCssTokenName(token).toLowerCase() : "";
    return name === "" || PLAIN_NAME.test(name) ? { ...UNKNOWN, kind: "call", text: name } : UNKNOWN;
  }
  switch (kind) {
    case "name":
    case "hash": {
      const name = readCssTokenName(token);
      if (kind === "name") return PLAIN_NAME.test(name) ? { ...UNKNOWN, kind, text: name } : UNKNOWN;
      return { ...UNKNOWN, kind, text: `#${name}` };
    }
    case "string": {
      const content = readStringToken(token);
      return PLAIN_STRING.test(content) ? { ...UNKNOWN, kind, text: `'${content.replace(/\s+/g, " ")}'` } : UNKNOWN;
    }
    case "number":
    case "percentage":
    case "dimension": {
      if (text.length > 40 || text.includes("\\")) return UNKNOWN;
      const unit = kind === "dimension" ? text.replace(/^[+-]?[\d.]+(?:e[+-]?\d+)?/i, "").toLowerCase() : "";
      return { kind, text, number: Number.parseFloat(text), unit };
    }
    default:
      return /^[,/+*-]$/.test(text) ? { ...UNKNOWN, kind: "mark", text } : UNKNOWN;
  }
}

const formatValueParts = (parts: readonly Part[]): string =>
  parts
    .map(({ kind, text, parts: inner, followsSpace }) => {
      const own = kind === "call" ? `${text}(${formatValueParts(inner)})` : text;
      return followsSpace ? ` ${own}` : own;
    })
    .join("")
    .trimStart();

/* What a part may be. */

type Fits = (part: Part) => boolean;

const either =
  (...kinds: Fits[]): Fits =>
  (part) =>
    kinds.some((fits) => fits(part));
function words(list: string): Fits {
  const all = new Set(list.split(" "));
  return ({ kind, text }) => kind === "name" && all.has(text.toLowerCase());
}
function calls(names: string, inner: Fits): Fits {
  const all = new Set(names.split(" "));
  return ({ kind, text, parts }) => kind === "call" && all.has(text) && parts.every(inner);
}
const mark =
  (character: string): Fits =>
  ({ kind, text }) =>
    kind === "mark" && text === character;
const isComma = mark(",");
const isSlash = mark("/");
const isWord: Fits = ({ kind }) => kind === "name";
const isString: Fits = ({ kind }) => kind === "string";
const isPercentage: Fits = ({ kind }) => kind === "percentage";
const number =
  (least: number, most: number): Fits =>
  ({ kind, number }) =>
    kind === "number" && number >= least && number <= most;
const isNumber = number(-1e9, 1e9);

/** Pixels of each unit that does not depend on the window, roughly. */
export const PIXELS: Readonly<Record<string, number>> = {
  px: 1,
  pt: 4 / 3,
  pc: 16,
  em: 16,
  rem: 16,
  ex: 8,
  ch: 8,
  in: 96,
  cm: 37.8,
  mm: 3.78,
  q: 0.945,
};
/** A larger length is meant to hide or to cover something. */
const LARGEST = 4_000;

/** The pixels of a length, roughly; undefined for units of the window, which would measure that of the reader. */
function toPixels({ kind, number, unit }: Part): number | undefined {
  if (kind === "percentage") return 8 * number;
  if (kind === "number") return number === 0 ? 0 : undefined;
  const factor = kind === "dimension" && Object.hasOwn(PIXELS, unit) ? PIXELS[unit] : undefined;
  return factor && factor * number;
}

/** A length or percentage of so many pixels. */
const size =
  (least: number, most = LARGEST): Fits =>
  (part) => {
    const pixels = toPixels(part);
    return pixels !== undefined && pixels >= least && pixels <= most;
  };

const isTerm: Fits = (part) =>
  size(-LARGEST)(part) ||
  number(-LARGEST, LARGEST)(part) ||
  (part.kind === "mark" && part.text !== ",") ||
  (part.kind === "call" && part.text === "" && part.parts.every(isTerm)) ||
  isSum(part);
const isSum = calls("calc min max clamp", (part) => isComma(part) || isTerm(part));

const isAngle: Fits = ({ kind, unit }) => kind === "dimension" && /^(?:deg|grad|rad|turn)$/.test(unit);
const isColor: Fits = (part) =>
  (part.kind === "hash" && /^#(?:[\da-f]{3}|[\da-f]{4}|[\da-f]{6}|[\da-f]{8})$/i.test(part.text)) ||
  (part.kind === "name" && parseColor(part.text.toLowerCase()) !== "invalid") ||
  isColorCall(part);
const isColorCall = calls(
  "rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark",
  (part) =>
    isWord(part) ||
    isNumber(part) ||
    isPercentage(part) ||
    isAngle(part) ||
    isComma(part) ||
    isSlash(part) ||
    isSum(part) ||
    isVariable(part) ||
    isColor(part),
);
const isGradient = calls(
  "linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient repeating-conic-gradient",
  (part) => isColor(part) || isAngle(part) || isWord(part) || isComma(part) || isVariable(part) || size(-LARGEST)(part),
);

/* The grammars of values: each gives the value as it is served. */

type Grammar = (parts: readonly Part[]) => string | undefined;

/** A grammar for at most `most` parts, each of one of the kinds. */
function list(most: number, ...kinds: Fits[]): Grammar {
  const fits = either(...kinds);
  return (parts) => (parts.length <= most && parts.every(fits) ? formatValueParts(parts) : undefined);
}
const one = (...kinds: Fits[]): Grammar => list(1, ...kinds);
const word = (list: string): Grammar => one(words(list));

/** Steps of `filter`; a radius smears what is around as far. */
const isFilter = either(
  calls("opacity brightness contrast grayscale invert sepia saturate", either(number(0, 100), isPercentage)),
  calls("hue-rotate", either(isAngle, number(0, 0))),
  calls("blur", size(0, 40)),
  calls("drop-shadow", (part) => isShade(part)),
);
const isShape = calls("inset circle ellipse polygon rect xywh", either(size(-LARGEST), isWord, isComma));

/** A value of a custom property, in its place or behind a comma. */
const isVariable: Fits = ({ kind, text, parts: [name, comma, ...rest] }) =>
  kind === "call" &&
  text === "var" &&
  name?.kind === "name" &&
  name.text.startsWith("--") &&
  (comma === undefined || (isComma(comma) && rest.every(isAnything)));
/** True for a value that every property that may use custom properties serves or ignores. */
const isAnything: Fits = (part) =>
  isVariable(part) ||
  isWord(part) ||
  isString(part) ||
  isComma(part) ||
  isSlash(part) ||
  size(-LARGEST)(part) ||
  number(-LARGEST, LARGEST)(part) ||
  isAngle(part) ||
  isSum(part) ||
  isColor(part) ||
  isGradient(part) ||
  isFilter(part) ||
  isShape(part);
/** Properties whose own limits are none but those of all values. */
const VARIABLE =
  /^(?:(?:background-|border-(?:[a-z]+-)?|-webkit-text-fill-|text-decoration-)?color|background(?:-image)?|display|visibility|opacity|content-visibility|filter|clip-path|font(?:-size|-weight|-style|-family)?|line-height|text-align|text-transform|white-space|overflow(?:-[xy])?|(?:min-|max-)?(?:width|height)|padding(?:-[a-z]+)?|border(?:-[a-z]+)?|border-radius)$/;

const isGlobal = words("inherit initial unset revert revert-layer");
const isLength = either(size(0), isSum);
const isAuto = words("auto none normal min-content max-content fit-content");
const isThickness = either(size(0), words("thin medium thick"));
const isLine = words("none hidden dotted dashed solid double groove ridge inset outset wavy");
const isTypeSize = either(
  isLength,
  // Nothing else is measured by the window.
  ({ kind, unit, number }) => kind === "dimension" && /^v(?:w|h|min|max)$/.test(unit) && number >= 0 && number <= 50,
  words("xx-small x-small small medium large x-large xx-large xxx-large smaller larger"),
);
/** True for a width so thin that it covers nothing. */
const isThin = either(size(0, 5), words("auto from-font thin medium thick"));
/** A shadow that stays close. */
const isShade = either(size(-24, 40), words("none inset"), isColor, isComma);

const isNegative = size(-500, -Number.MIN_VALUE);
const NONE: Omit<Part, "followsSpace"> = { kind: "number", text: "0", number: 0, unit: "", parts: [] };
/** A margin, with 0 in place of negative values, which would move the message over what is around it. */
const margin = (most: number): Grammar => {
  const grammar = list(most, isLength, isAuto);
  return (parts) =>
    grammar(parts.map((part) => (isNegative(part) ? { ...NONE, followsSpace: part.followsSpace } : part)));
};

const isPosition = either(
  words("top right bottom left center repeat no-repeat repeat-x repeat-y space round cover contain auto scroll local"),
  words("border-box padding-box content-box text"),
  isSlash,
  size(-LARGEST),
);

/** Layers without images: the gradients, and the colour, which is in the last one. */
function gradientsIn(parts: readonly Part[]): string | undefined {
  const layers: Part[][] = [[]];
  for (const part of parts) isComma(part) ? layers.push([]) : layers.at(-1)?.push(part);
  const shown = layers.filter((layer) => layer.some(isGradient));
  const gradients = shown.map((layer) => {
    const isWhole = layer.every((part) => isGradient(part) || isPosition(part));
    return formatValueParts(layer.filter((part) => (isWhole ? true : isGradient(part))));
  });
  return gradients.length > 0 && gradients.length <= 8 ? gradients.join(",") : undefined;
}

/** The declarations that `background` stands for. */
function background(parts: readonly Part[]): [property: string, value: string][] {
  const color = parts.slice(parts.findLastIndex(isComma) + 1).find(isColor);
  const gradients = gradientsIn(parts.filter((part) => !isColor(part)));
  if (gradients !== undefined) return [["background", color ? `${gradients} ${formatValueParts([color])}` : gradients]];
  if (color !== undefined) return [[parts.length === 1 ? "background" : "background-color", formatValueParts([color])]];
  return parts.length === 1 && parts.every(words("none initial unset")) ? [["background-color", "transparent"]] : [];
}

const SIDES = "top right bottom left inline-start inline-end block-start block-end".split(" ");
const sides = (before: string, after = "") => SIDES.map((side) => before + side + after);

const isBreak = words("auto avoid always left right");

/** The properties that are served, and the values that they may have. */
const GRAMMARS = new Map<string, Grammar>(
  (
    [
      [
        [
          "color",
          "background-color",
          "text-decoration-color",
          "-webkit-text-fill-color",
          ...sides("border-", "-color"),
        ],
        one(isColor),
      ],
      [["border-color"], list(4, isColor)],
      [["background-image"], (parts) => gradientsIn(parts) ?? word("none")(parts)],
      [["background-clip", "-webkit-background-clip"], word("border-box padding-box content-box text")],
      [["background-size", "background-position", "background-repeat"], list(8, isPosition, isComma)],
      [["border-width"], list(4, isThickness)],
      [sides("border-", "-width"), one(isThickness)],
      [["border-style"], list(4, isLine)],
      [sides("border-", "-style"), one(isLine)],
      [["border", ...sides("border-")], list(3, isThickness, isLine, isColor)],
      [["border-radius"], list(9, isLength, isSlash)],
      [
        [
          "border-top-left-radius",
          "border-top-right-radius",
          "border-bottom-left-radius",
          "border-bottom-right-radius",
        ],
        list(2, isLength),
      ],
      [["border-spacing"], list(2, isLength)],
      [["border-collapse"], word("collapse separate")],
      [["outline"], list(3, isThin, isLine, isColor)],
      [["outline-width"], one(isThin)],
      [["outline-style"], one(isLine)],
      [["outline-color"], one(isColor)],
      [["box-shadow", "text-shadow"], list(40, isShade)],
      [["margin", "margin-inline", "margin-block"], margin(4)],
      [sides("margin-"), margin(1)],
      [["padding", "padding-inline", "padding-block"], list(4, isLength)],
      [sides("padding-"), one(isLength)],
      [["width", "height", "min-width", "min-height", "inline-size", "block-size"], one(isLength, isAuto)],
      // They make nothing larger.
      [["max-width", "max-height", "max-inline-size", "max-block-size"], one(size(0, 1e9), isSum, isAuto)],
      [
        ["display"],
        (parts) =>
          word(
            "none block inline inline-block list-item flow-root table inline-table table-row table-cell table-caption table-column " +
              "table-row-group table-header-group table-footer-group table-column-group flex inline-flex contents grid inline-grid " +
              "ruby -webkit-box -webkit-inline-box -webkit-flex -webkit-inline-flex",
          )(parts) ?? list(3, words("block inline flow flow-root flex grid table list-item ruby"))(parts),
      ],
      [["-webkit-line-clamp", "line-clamp"], one(number(1, 1_000), words("none"))],
      [["-webkit-box-orient"], word("horizontal vertical inline-axis block-axis")],
      [["container-type"], list(2, words("normal size inline-size"))],
      [["container-name"], list(8, isWord)],
      [["container"], list(10, isWord, isSlash)],
      [["isolation"], word("auto isolate")],
      [["-webkit-text-security"], word("none disc circle square")],
      [["-webkit-text-stroke"], list(2, isThin, isColor)],
      [["-webkit-text-stroke-width"], one(isThin)],
      [["-webkit-text-stroke-color"], one(isColor)],
      [
        ["mask", "mask-image", "-webkit-mask", "-webkit-mask-image"],
        (parts) => gradientsIn(parts) ?? word("none")(parts),
      ],
      [
        [
          "mask-size",
          "mask-position",
          "mask-repeat",
          "-webkit-mask-size",
          "-webkit-mask-position",
          "-webkit-mask-repeat",
        ],
        list(8, isPosition, isComma),
      ],
      // Its values are those of all properties.
      [["all"], () => undefined],
      [["flex"], list(3, number(0, 1_000), isLength, isAuto)],
      [["flex-grow", "flex-shrink"], one(number(0, 1_000))],
      [["flex-basis"], one(isLength, isAuto)],
      [["flex-direction"], word("row column")],
      [["flex-wrap"], word("wrap nowrap")],
      [["flex-flow"], list(2, words("row column wrap nowrap"))],
      [
        ["align-items", "align-content", "align-self", "justify-content", "justify-items"],
        word(
          "auto normal start end left right center stretch baseline flex-start flex-end space-between space-around space-evenly",
        ),
      ],
      [["gap", "row-gap", "column-gap"], list(2, isLength, isAuto)],
      [["visibility"], word("visible hidden collapse")],
      [["opacity"], one(number(0, 1), (part) => isPercentage(part) && part.number >= 0 && part.number <= 100, isSum)],
      [["content-visibility"], word("visible hidden auto")],
      [["filter", "-webkit-filter"], (parts) => list(8, isFilter)(parts) ?? word("none")(parts)],
      [["overflow", "overflow-x", "overflow-y"], list(2, words("visible hidden auto scroll clip"))],
      [["clip-path", "-webkit-clip-path"], one(isShape, words("none"))],
      [["contain"], list(5, words("none size inline-size layout style paint content strict"))],
      [
        ["zoom"],
        one(number(0, 3), (part) => isPercentage(part) && part.number >= 0 && part.number <= 300, words("normal")),
      ],
      [["font"], list(60, isWord, isString, isComma, isSlash, isTypeSize, number(0, 1_000))],
      [["font-family"], list(60, isWord, isString, isComma)],
      [["font-size"], one(isTypeSize)],
      [["font-weight"], one(number(1, 1_000), words("normal bold bolder lighter"))],
      [["font-style"], list(2, words("normal italic oblique"), isAngle)],
      [
        ["font-stretch", "font-variant", "font-variant-caps", "font-variant-numeric", "font-kerning"],
        list(4, isWord, isPercentage),
      ],
      [["line-height"], one(isLength, number(0, 100), words("normal"))],
      [["letter-spacing", "word-spacing"], one(size(-7, 100), words("normal"))],
      // Text that is far away stays there, and reaches nothing on its way.
      [["text-indent"], (parts) => (one(size(-1e9, -250))(parts) ? "-9999px" : one(size(-96), isSum)(parts))],
      [
        [
          "text-align",
          "text-align-last",
          "text-transform",
          "white-space",
          "word-break",
          "word-wrap",
          "overflow-wrap",
          "line-break",
        ],
        list(3, isWord),
      ],
      [
        [
          "hyphens",
          "-webkit-hyphens",
          "direction",
          "unicode-bidi",
          "float",
          "clear",
          "caption-side",
          "empty-cells",
          "table-layout",
        ],
        one(isWord),
      ],
      [["text-decoration", "-webkit-text-decoration"], list(6, isWord, isColor, isThin)],
      [["text-decoration-line", "text-decoration-style"], list(4, isWord)],
      [["text-decoration-thickness"], one(isThin)],
      [["text-underline-offset"], one(size(-5, 20), words("auto"))],
      [["text-overflow"], word("clip ellipsis")],
      [["text-size-adjust", "-webkit-text-size-adjust", "-ms-text-size-adjust"], one(isPercentage, words("none auto"))],
      [["vertical-align"], one(size(-50, 500), isWord)],
      [["list-style"], list(3, isWord)],
      [["list-style-type", "list-style-position"], one(isWord)],
      [["box-sizing"], word("border-box content-box")],
      [["object-fit"], word("fill contain cover none scale-down")],
      [["color-scheme"], list(3, words("light dark only normal"))],
      [
        ["page-break-before", "page-break-after", "page-break-inside", "break-before", "break-after", "break-inside"],
        one(isBreak, isWord),
      ],
    ] as const satisfies [readonly string[], Grammar][]
  ).flatMap(([properties, grammar]) => properties.map((property) => [property, grammar] as const)),
);

const CUSTOM = /^--[\w-]{1,60}$/;
const isUrl: Fits = ({ kind }) => kind === "url";
/** Grammars for mail that is sent alone: images that its readers' programs may load, and properties of Word (`mso-…`). */
const sentImage = list(60, isUrl, isColor, isGradient, isPosition, isComma, words("none fixed"));
const ofWord = list(8, isWord, isString, isComma, isColor, size(-LARGEST), isNumber);

/**
 * The declarations that stand for one, as they are served: none if it is dropped. `property`: lower case. `isSent`: in mail that
 * leaves.
 */
export function sanitizeDeclaration(
  property: string,
  value: readonly Token[],
  isSent = false,
): [property: string, value: string][] {
  if (value.length > MAX_TOKENS) return [];
  const isCustom = CUSTOM.test(property);
  const isBackground = property === "background";
  const grammar = GRAMMARS.get(property) ?? (isSent && /^mso-[a-z-]{1,40}$/.test(property) ? ofWord : undefined);
  if (grammar === undefined && !isBackground && !isCustom) return [];
  const parts = readValueParts(value);
  if (parts.length === 0) return [];
  if (isCustom || (VARIABLE.test(property) && parts.some(isVariable)))
    return parts.length <= 40 && parts.every(isAnything) ? [[property, formatValueParts(parts)]] : [];
  if (parts.length === 1 && parts.every(isGlobal)) return [[property, formatValueParts(parts).toLowerCase()]];
  const image = isSent && property.startsWith("background") && parts.some(isUrl) ? sentImage(parts) : undefined;
  if (image !== undefined) return [[property, image]];
  if (isBackground) return background(parts);
  const valid = grammar?.(parts);
  return valid === undefined ? [] : [[property, valid]];
}
