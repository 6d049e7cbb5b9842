/**
 * Where the quoted history of HTML mail lies, so that the frame can fold it: the new text of a reply is what people
 * look for.
 *
 * As in quoted.ts rather too much stays open than too little: a block quotation is history when an attribution
 * or a mailer's margin line says so and nothing follows it; what Outlook quotes begins with the headers of the older
 * message. What has no new text before it stays open.
 */
import { beginsWithHeaders, endsInAttribution } from "./quoted.ts";

/** Elements by their number in the document, from 0. */
export interface History {
  /** The history begins with this one, */
  first: number;
  /** and ends with this one, its parent; undefined: with the document. */
  parent: number | undefined;
}

interface Block {
  index: number;
  tag: string;
  style: string;
  parent: Block | undefined;
  /** A rule stands right before it. */
  followsRule: boolean;
  /** Where its text lies in that of the document. */
  start: number;
  end: number;
}

/** Without content, and so without an end tag. */
const VOID = new Set(["br", "col", "hr", "img", "wbr"]);
/** What <details> may stand between. */
const PARTS = new Set(["div", "blockquote", "section", "article", "main", "center"]);
const LINES = new Set([...PARTS, "br", "hr", "p", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6"]);

const LINE_ABOVE = /(?:^|;)\s*border-top:[^;]*solid/i;
const LINE_AT_SIDE = /(?:^|;)\s*border-left:[^;]*solid/i;
/** Characters of text in which an attribution or the headers of a message are looked for. */
const LOOKED_AT = 1_000;
/** Stands for an image. */
const OBJECT = "\ufffc";

/** Where the history of sanitised HTML begins, if it has one. */
export function findHistory(html: string): History | undefined {
  const { text, blocks } = readBlocks(html);
  const begin = text.search(/\S/);
  const end = text.trimEnd().length;
  const first = begin < 0 ? undefined : blocks.find((block) => block.start > begin && isHistory(block, text, end));
  return first && outermost(first, text);
}

function isHistory({ tag, style, followsRule, start, end }: Block, text: string, textEnd: number): boolean {
  const within = text.slice(start, Math.min(end, start + LOOKED_AT)).trimStart();
  if (tag === "div") return (followsRule || LINE_ABOVE.test(style)) && beginsWithHeaders(within);
  if (tag !== "blockquote" || end < textEnd) return false;
  const before = text.slice(Math.max(0, start - LOOKED_AT), start);
  // Apple's mailers write the attribution into the quotation.
  const firstLines = within.slice(0, within.search(/[:：]\n/) + 1);
  return LINE_AT_SIDE.test(style) || endsInAttribution(before) || endsInAttribution(firstLines);
}

/** With what holds nothing else before it: its margins and lines belong to the history. */
function outermost(block: Block, text: string): History {
  let outer = block;
  for (let above = outer.parent; above && PARTS.has(above.tag); above = above.parent) {
    if (text.slice(above.start, block.start).trim() !== "") break;
    outer = above;
  }
  return { first: outer.index, parent: outer.parent?.index };
}

function readBlocks(html: string): { text: string; blocks: Block[] } {
  const pieces: string[] = [];
  let length = 0;
  let followsRule = false;
  const add = (piece: string) => {
    pieces.push(piece);
    length += piece.length;
    if (piece.trim() !== "") followsRule = false;
  };
  const blocks: Block[] = [];
  let count = 0;
  let inner: Block | undefined;
  new HTMLRewriter()
    .on("*", {
      element(element) {
        const tag = element.tagName;
        const index = count++;
        if (LINES.has(tag)) add("\n");
        if (tag === "img") add(OBJECT);
        if (tag === "hr") followsRule = true;
        if (VOID.has(tag)) return;
        const style = element.getAttribute("style") ?? "";
        const block: Block = { index, tag, style, parent: inner, followsRule, start: length, end: length };
        if (PARTS.has(tag)) blocks.push(block);
        inner = block;
        element.onEndTag(() => {
          block.end = length;
          inner = block.parent;
          if (LINES.has(tag)) add("\n");
        });
      },
    })
    .onDocument({
      text(chunk) {
        add(chunk.text.replaceAll(/\s+/g, " "));
      },
    })
    .transform(html);
  return { text: pieces.join(""), blocks };
}
