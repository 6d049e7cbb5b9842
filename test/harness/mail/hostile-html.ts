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
  "rules of a sheet": (size) =>
    styled(
      many(size, (i) => `.a${i}>p:hover{color:#${i};margin:0 ${i}px}`),
      "<p>x",
    ),
  "declarations of a rule": (size) =>
    styled(`p{${"color:red;margin:1px -2px;background:url(x) #fff;".repeat(size)}}`, "<p>x"),
  "parts of a value": (size) => styled(`p{background:${"linear-gradient(red,blue),".repeat(size)}red}`, "<p>x"),
  "calls in calls": (size) => styled(`p{width:${"calc(1px + ".repeat(size)}}`, '<p style="width:calc((((((((((1px">x'),
  "brackets that do not end": (size) => styled(`${"p{a:(".repeat(size)}`, `<p style="${"a:{[(".repeat(size)}">x`),
  "brackets in a selector": (size) => styled(`${":not(".repeat(size)}p{display:none}`, "<p>x"),
  "selectors in selectors": (size) =>
    styled(`:is(${many(size, (i) => `:not(.a${i},:has(b))`, ",")}) p{display:none}`, "<p>x"),
  "rules inside each other": (size) => styled(`${"p{color:red;".repeat(size)}`, "<p>x"),
  "strings that do not end": (size) => styled('p{font-family:"a\n'.repeat(size), "<p>x"),
  "comments in a sheet": (size) => styled(`${"/**/".repeat(size)}p/*{${"/*".repeat(size)}`, "<p>x"),
  "escapes in a sheet": (size) =>
    styled(`${"\\70 ".repeat(size)}{display:none}p{\\${"64 ".repeat(size)}:none}`, "<p>x"),
  "conditions of a medium": (size) =>
    styled(`@media ${"screen and (min-width:1px) and ".repeat(size)}{p{color:red}}`, "<p>x"),
  "media of a sheet": (size) =>
    styled(
      many(size, (i) => `@media (max-width:${i % 900}px){p{color:red}}`),
      "<p>x",
    ),
  "sheets of a mail": (size) => "<style>p{color:red}</style>".repeat(size),
  "sheets that do not end": (size) => `${"<style media='".repeat(size)}${"<style>p{".repeat(size)}`,
  "conditions on attributes": (size) =>
    styled(
      many(size, (i) => `[title='${i}'] b,#a${i}{color:red}`),
      "<p title=a id=b>x",
    ),
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
