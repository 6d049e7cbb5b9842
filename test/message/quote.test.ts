/** Quotations are attributed, marked line by line or in a blockquote that quoted text cannot leave, and bounded. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type QuotedMessage, quotedHtml, quotedText } from "../../src/message/composition.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { snippetOf } from "../../src/message/text.ts";
import { dangersIn } from "../harness/dangers.ts";

const ANN: QuotedMessage = {
  from: { email: "ann@remote.example", name: "Ann Example" },
  date: Date.UTC(2003, 6, 1, 10, 52, 37),
  text: "Hello\n\n> earlier\n>> before\nYours\n",
};
const ATTRIBUTION = "On Tue, 1 Jul 2003 at 10:52 UTC, Ann Example <ann@remote.example> wrote:";

test("text: each line behind a mark, quoted lines behind one more", () => {
  expect(quotedText(ANN)).toBe([ATTRIBUTION, "> Hello", ">", ">> earlier", ">>> before", "> Yours"].join("\n"));
});

test("html: the HTML, or the text where there is none", () => {
  expect(quotedHtml({ ...ANN, html: "<p>Hello</p>" })).toMatch(
    /^<div [^>]*>On Tue[^<]*wrote:<\/div>\n<blockquote [^>]*><p>Hello<\/p><\/blockquote>$/,
  );
  expect(quotedHtml({ ...ANN, text: "1 < 2\n" })).toContain(">1 &lt; 2\n</div></blockquote>");
});

test("the attribution is one line, and begins the history that a snippet leaves out", () => {
  const odd = { ...ANN, from: { email: "ann@remote.example\r\nX: y", name: `A\r\nB\u202e${"n".repeat(500)}` } };
  const [line = "", ...rest] = quotedText({ ...odd, text: "x" }).split("\n");
  expect(line).toMatch(/^[^\p{C}]{1,150}$/u);
  expect(rest).toEqual(["> x"]);
  expect(snippetOf(`Agreed.\n\n${quotedText(ANN)}`)).toBe("Agreed.");
  expect(quotedText({ ...ANN, from: { email: "ann@remote.example" } })).toStartWith(
    "On Tue, 1 Jul 2003 at 10:52 UTC, ann@remote.example wrote:\n",
  );
});

test("attached images become their alternative text, others stay", () => {
  const html = '<p><img src="cid:a" alt="Logo &amp; seal" /><img src="https://remote.example/b.png" /></p>';
  expect(quotedHtml({ ...ANN, html })).toContain('<p>Logo &amp; seal<img src="https://remote.example/b.png" /></p>');
});

test("a very long message is cut", () => {
  const long = `${"ä".repeat(2 * 1024 * 1024)}THE END`;
  expect(quotedText({ ...ANN, text: long })).toMatch(/…$/);
  for (const quoted of [quotedText({ ...ANN, text: long }), quotedHtml({ ...ANN, text: long })]) {
    expect(quoted.length).toBeLessThan(1.1 * 1024 * 1024);
    expect(quoted).not.toContain("THE END");
  }
  const html = `<p>${long}</p>`;
  expect(quotedHtml({ ...ANN, text: "instead", html })).toContain(">instead</div></blockquote>");
});

const withoutLinks = (html: string): string => html.replace(/<\/?a\b[^>]*>/g, "");

test("quoted HTML cannot leave the blockquote or run", () => {
  const piece = fc.constantFrom(
    "<b>",
    "</b>",
    "<blockquote>",
    "</blockquote>",
    "</div>",
    "<div>",
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "<table>",
    "</td>",
    "<img src=x onerror=y>",
    "<p",
    '<a href="javascript:x">',
    "text",
    "<style>",
    "<xmp>",
    "\0",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const quoted = quotedHtml({ ...ANN, html: pieces.join("") });
      expect(dangersIn(quoted)).toEqual([]);
      // Balanced: a sanitiser has nothing to close, and the quotation is closed last. Nested links are left for the
      // reader to separate.
      expect(withoutLinks(sanitizeHtml(quoted))).toBe(withoutLinks(quoted));
      const inside = quoted.slice(quoted.indexOf("<blockquote"), -"</blockquote>".length);
      let depth = 0;
      for (const [, slash] of inside.matchAll(/<(\/?)blockquote/g)) {
        depth += slash === "/" ? -1 : 1;
        expect(depth).toBeGreaterThan(0);
      }
      expect(depth).toBe(1);
    }),
    { examples: [[['<a href="javascript:x">', "<p", "<b>", '<a href="javascript:x">']]] },
  );
});
