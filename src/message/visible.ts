/**
 * HTML of mail without what its reader does not see: text of no size, of the colour of its ground, beyond the window,
 * not displayed. What is hidden from people is not for models either, which would take it for part of the letter. The
 * only user of htmlparser2.
 *
 * Of HTML as it was received: the sanitised has lost the declarations that hide (style.ts), and its style sheets. What
 * is too large for sanitize.ts is shown to people as text, with everything in it, and comes back as it is.
 */
import { Parser } from "htmlparser2";
import { DEFAULT_INK, hidesAll, type Ink, inkInside, isReadable } from "./hiding.ts";
import { isShownAsText } from "./sanitize.ts";
import { declarationsOf, readSheets, type Styled } from "./stylesheet.ts";

export interface VisibleHtml {
  html: string;
  /** Characters of text that were left out, spaces and those of no width not counted. */
  hidden: number;
}

interface Open extends Styled {
  ink: Ink;
}

/** Elements whose text nobody reads anyway: what they contain is not counted as hidden. */
const NO_TEXT = new Set([
  "script",
  "style",
  "title",
  "template",
  "noscript",
  "select",
  "iframe",
  "object",
  "svg",
  "math",
]);
/** Elements whose content is for programs that know nothing better, or is not shown before somebody acts. */
const NOT_SHOWN = new Set(["video", "audio", "canvas", "datalist", "noembed", "noframes", "dialog"]);
const NOT_COUNTED = /[\s\p{DI}\u2800]+/gu;
/** Images this small are there to be fetched, not to be seen; so is their description. */
const SMALLEST_IMAGE = 2;

/** Linear time. Never throws: what cannot be followed counts as hidden. */
export function visibleHtml(html: string): VisibleHtml {
  if (isShownAsText(html)) return { html, hidden: 0 };
  const walk = startWalk(html);
  try {
    const parser = new Parser(
      {
        onopentag: (name, attributes) => walk.open(name, attributes, parser.startIndex, parser.endIndex + 1),
        ontext: (text) => walk.text(text, parser.startIndex, parser.endIndex + 1),
        onclosetag: (name, isImplied) => walk.close(name, isImplied, parser.startIndex, parser.endIndex + 1),
      },
      { decodeEntities: true },
    );
    parser.end(html);
  } catch {
    return { html: "", hidden: html.replace(NOT_COUNTED, "").length };
  }
  return walk.finish();
}

function startWalk(html: string) {
  const sheet = readSheets(html);
  const path: Open[] = [];
  const kept: string[] = [];
  let copied = 0;
  let hidden = 0;
  /** Elements open since the hidden one, itself included; 0 outside. */
  let depth = 0;
  let hiddenFrom = 0;
  let textless = 0;

  function leaveOut(from: number, to: number): void {
    if (to <= copied) return;
    if (from > copied) kept.push(html.slice(copied, from));
    copied = to;
  }

  return {
    open(name: string, attributes: Record<string, string>, from: number, to: number): void {
      if (NO_TEXT.has(name)) textless++;
      if (depth > 0) {
        depth++;
        return;
      }
      const classes = attributes.class?.split(/\s+/).filter((one) => one !== "") ?? [];
      const outer = path.at(-1)?.ink ?? DEFAULT_INK;
      const element: Open = { name, attributes, classes, ink: outer };
      path.push(element);
      if (sheet === undefined && isPlain(attributes) && name !== "a" && !NOT_SHOWN.has(name)) return;
      const style = new Map([...hintsOf(name, attributes), ...declarationsOf(sheet, path)]);
      element.ink = inkInside(outer, style);
      if (hidesItself(name, attributes) || hidesAll(style) || (name === "img" && isTiny(attributes, style))) {
        depth = 1;
        hiddenFrom = from;
        if (name === "img") hidden += (attributes.alt ?? "").replace(NOT_COUNTED, "").length;
      } else if (name === "a" && !isReadable(element.ink)) {
        // Its target would be told in place of its text.
        leaveOut(from, to);
      }
    },
    text(text: string, from: number, to: number): void {
      if (textless > 0 || (depth === 0 && isReadable(path.at(-1)?.ink ?? DEFAULT_INK))) return;
      const characters = text.replace(NOT_COUNTED, "").length;
      hidden += characters;
      // Spaces stay: they keep the words around them apart.
      if (depth === 0 && characters > 0) leaveOut(from, to);
    },
    close(name: string, isImplied: boolean, from: number, to: number): void {
      if (NO_TEXT.has(name)) textless--;
      if (depth > 1) {
        depth--;
        return;
      }
      // What closes it without being its end stays, unless it is a void element's own tag.
      if (depth === 1) leaveOut(hiddenFrom, isImplied && from !== hiddenFrom ? from : to);
      depth = 0;
      path.pop();
    },
    finish: (): VisibleHtml => ({ html: copied === 0 ? html : kept.join("") + html.slice(copied), hidden }),
  };
}

const hidesItself = (name: string, attributes: Record<string, string>): boolean =>
  Object.hasOwn(attributes, "hidden") ||
  Object.hasOwn(attributes, "popover") ||
  (NOT_SHOWN.has(name) && !(name === "dialog" && Object.hasOwn(attributes, "open")));

const isPlain = (attributes: Record<string, string>): boolean =>
  attributes.style === undefined &&
  attributes.color === undefined &&
  attributes.bgcolor === undefined &&
  attributes.background === undefined &&
  attributes.text === undefined &&
  attributes.hidden === undefined &&
  attributes.popover === undefined &&
  attributes.width === undefined;

/** What attributes say of looks, which any declaration overrides (HTML §15.3). */
function hintsOf(name: string, { color, bgcolor, background, text, href }: Record<string, string>): [string, string][] {
  const hints: [string, string][] = [];
  if (name === "a" && href !== undefined) hints.push(["color", "blue"]);
  if (color !== undefined) hints.push(["color", color.toLowerCase().trim()]);
  if (name === "body" && text !== undefined) hints.push(["color", text.toLowerCase().trim()]);
  if (bgcolor !== undefined) hints.push(["background-color", bgcolor.toLowerCase().trim()]);
  if (background !== undefined) hints.push(["background-image", "url()"]);
  return hints;
}

function isTiny(attributes: Record<string, string>, style: ReadonlyMap<string, string>): boolean {
  return (["width", "height"] as const).some((side) => {
    const size = Number.parseFloat(style.get(side) ?? attributes[side] ?? "");
    return size <= SMALLEST_IMAGE && !/%\s*$/.test(style.get(side) ?? attributes[side] ?? "");
  });
}
