/**
 * Finds the quoted history in HTML mail, so that the frame can fold it and show the new text of a reply first.
 *
 * As in quoted.ts, the doubtful stays open: a block quotation counts as history if an attribution or a mailer's margin
 * line marks it and nothing follows it; Outlook's quotation begins with the headers of the older message. A quotation
 * without new text before it stays open.
 */
import { beginsWithHeaders, endsInAttribution } from "./quoted.ts";

/** Numbers of elements in document order, from 0. */
export interface History {
  /** The element with which the history begins. */
  first: number;
  /** The parent, with which it ends; undefined if it ends with the document. */
  parent: number | undefined;
}

interface Block {
  index: number;
  tag: string;
  style: string;
  parent: Block | undefined;
  /** A ruled line directly precedes it. */
  followsRule: boolean;
  /** Offsets of its text in the document's text. */
  start: number;
  end: number;
}

/** Elements without content, and so without an end tag. */
const VOID = new Set(["br", "col", "hr", "img", "wbr"]);
/** Elements between which <details> may stand. */
const PARTS = new Set(["div", "blockquote", "section", "article", "main", "center"]);
const LINES = new Set([...PARTS, "br", "hr", "p", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6"]);

const LINE_ABOVE = /(?:^|;)\s*border-top:[^;]*solid/i;
const LINE_AT_SIDE = /(?:^|;)\s*border-left:[^;]*solid/i;
/** Characters of text searched for an attribution or the headers of a message. */
const LOOKED_AT = 1_000;
/** Stands for an image in the text. */
const OBJECT = "\ufffc";

/** Where the history of sanitised HTML begins, if it has any. */
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

/** The outermost ancestor that has no other text before the block: its margins and lines belong to the history. */
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
