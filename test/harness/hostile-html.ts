/** HTML that keeps a mail server busy. Each kind grows in one direction. */

const many = (count: number, piece: (index: number) => string, glue = ""): string =>
  Array.from({ length: count }, (_, index) => piece(index)).join(glue);

const styled = (css: string, html: string): string => `<style>${css}</style>${html}`;

/** Makes HTML that has `size` of the thing that the key names. */
export const HOSTILE_HTML: Record<string, (size: number) => string> = {
  "nested @media": (size) => styled(`${"@media screen{".repeat(size)}${"p{color:red}".repeat(size)}`, "<p>x"),
  "classes of one element": (size) =>
    styled(
      many(100, (i) => `.a.b${i}{display:none}`),
      `<p class="a ${many(size, (i) => `c${i}`, " ")}">x</p>`,
    ),
  "rules for other elements": (size) =>
    styled(
      many(size, (i) => `.a${i} b{color:red} .b${i}{display:none}`),
      "<p>x",
    ),
  "ids, each with its rule": (size) =>
    styled(
      many(size, (i) => `#i${i}{display:none}`),
      many(size, (i) => `<p id=i${i}>x</p>`),
    ),
  "selectors of one rule": (size) => styled(`${many(size, (i) => `.a${i}`, ",")}{display:none}`, "<p>x"),
  "a long selector": (size) => styled(`${".a ".repeat(size)}:::${"[a=b]".repeat(size)}{display:none}`, "<p class=a>x"),
  "spaces in a selector": (size) => styled(`[a=b${" ".repeat(10 * size)}{display:none}`, "<p>x"),
  attributes: (size) => `<p ${many(size, (i) => `a${i}=x`, " ")}>x</p>`,
  "attribute selectors over a long attribute": (size) =>
    styled(
      many(20, (i) => `[title~=a${i}]{display:none}[title*=b${i}]{display:none}`),
      `<p title="${"word ".repeat(size)}">x</p>`,
    ),
  "a long style attribute": (size) => `<p style="${"color:red;margin:0;".repeat(size)}">x</p>`,
  "spaces in a style attribute": (size) => `<p style="filter:opacity(${" ".repeat(10 * size)}x">x</p>`,
  "words in a background": (size) => `<p style="background:${"a".repeat(490)}">x</p>`.repeat(size / 100),
  "words in a font": (size) => `<p style="font:${"bold ".repeat(size)}(">x</p>`,
  "boxes that cut off, inside each other": (size) =>
    `${'<p style="overflow:hidden;height:9px">x'.repeat(100)}${"x<br>".repeat(size)}`,
  "cells behind formatting": (size) => `<table>${"<b>".repeat(200)}${"<td>x".repeat(size / 10)}`,
  "style attributes, all different": (size) => many(size, (i) => `<p style="width:${i}px;color:#fff">x</p>`),
  elements: (size) => "<b>x</b>".repeat(size),
  "unclosed elements": (size) => "<p><i>".repeat(Math.min(size, 900)) + "x".repeat(size),
  "end tags of nothing": (size) => `${"<b>".repeat(400)}${"</x>".repeat(size)}`,
  "end tags of what goes on": (size) => `${"<p><b hidden></p>".repeat(size)}${"</b>".repeat(size)}`,
  comments: (size) => "<!--a-->".repeat(size),
  "comments that do not end": (size) => "<!--<style".repeat(size),
  entities: (size) => "&amp;".repeat(size),
  "quotations around lines": (size) => `${"<blockquote>".repeat(40)}${"a<br>".repeat(size)}`,
  "links inside each other": (size) => `<p><a href=https://a.example>a`.repeat(Math.min(size, 900)) + "b ".repeat(size),
  "items around lines": (size) => `${"<ul><li>".repeat(40)}<pre>${"a\n".repeat(size)}`,
  "slashes of a link": (size) => `<p>https://${"/".repeat(size)}x</p>`,
  "noscript that does not end": (size) => "<div><noscript></div>".repeat(size),
};

/** HTML of 313 kB that once took the server 36 s: 100 elements in one with 40,000 classes, and 2,000 rules for them. */
export const CLASSES_BY_RULES = styled(
  many(2_000, (i) => `.x${i} b{display:none}`),
  `<div class="${many(40_000, (i) => `c${i}`, " ")}">${"<b>secret</b>".repeat(100)}</div>`,
);
