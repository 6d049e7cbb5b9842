/** The bytes of outgoing messages, read by postal-mime, which shares no code with this project. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import PostalMime from "postal-mime";
import {
  type Composition,
  type ForwardedMessage,
  forwardedHtml,
  forwardedText,
  forwardSubject,
  type QuotedMessage,
  quotedHtml,
  quotedText,
  serializeComposition,
} from "../../src/message/composition.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { makeSnippet } from "../../src/message/text.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { dangersIn } from "../harness/mail/dangers.ts";

/** Each blob contains its own name. */
const readBlob = async (name: string) => new TextEncoder().encode(name);

const read = async (letter: Omit<Composition, "id" | "headers">) => {
  const bytes = await serializeComposition(
    { id: "boundary", headers: [["From", "alice@example.test"]], ...letter },
    readBlob,
  );
  const { text, html, attachments } = await PostalMime.parse(bytes);
  return { text: text?.trimEnd(), html: html?.trimEnd(), attachments: attachments.length };
};
const quoted = { from: { email: "carol@remote.example" }, date: 0, text: "Lunch?", html: "<p>Lunch?</p>" };

describe("an outgoing message with", () => {
  for (const [what, letter, text, html] of [
    ["text", { text: "Hi" }, "Hi", undefined],
    ["HTML", { html: "<p>Hi <b>you</b></p>" }, "Hi you", "<p>Hi <b>you</b></p>"],
    ["text and HTML", { text: "Hi", html: "<p>You</p>" }, "Hi", "<p>You</p>"],
    ["HTML and an empty text", { text: "", html: "<p>You</p>" }, "You", "<p>You</p>"],
    ["text and an empty HTML", { text: "Hi", html: "" }, "Hi", undefined],
    [
      "HTML that hides words",
      { html: '<style>.x{display:none}</style><p class="x">No</p><p hidden>No</p><p>Yes</p>' },
      "Yes",
      '<style>.x{display:none}</style><p class="x">No</p><p hidden="hidden">No</p><p>Yes</p>',
    ],
    [
      "HTML too deep to follow",
      { html: `${"<div>".repeat(20_000)}Words` },
      "Words",
      '<div style="white-space:pre-wrap">Words</div>',
    ],
    ["unsafe HTML", { html: "<p>Hi</p><script>x()</script>" }, "Hi", "<p>Hi</p>"],
    [
      "text, quoting",
      { text: "Yes", quoted },
      "Yes\n\nOn Thu, 1 Jan 1970 at 00:00 UTC, carol@remote.example wrote:\n> Lunch?",
      undefined,
    ],
  ] as const) {
    test(what, async () => {
      expect(await read(letter)).toEqual({ text, html, attachments: 0 });
    });
  }

  test("HTML keeps the document type that its author gave it, once and in front", async () => {
    for (const type of ["<!DOCTYPE html>", '<!doctype html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "x.dtd">']) {
      const html = `\n${type}<html><body><p>You</p></body></html>`;
      const forwarded = { ...quoted, to: [], cc: [], subject: "Lunch", html: "<!doctype html><p>Lunch?</p>" };
      for (const more of [{}, { quoted }, { forwarded }]) {
        const composed = (await read({ html, ...more })).html ?? "";
        expect(composed.startsWith(`${type}<div`) || composed.startsWith(`${type}\n<div`)).toBe(true);
        expect(composed.match(/<!doctype/gi)).toHaveLength(1);
      }
    }
    expect((await read({ html: "<p>You</p>", quoted })).html).not.toMatch(/doctype/i);
    expect((await read({ html: "<p>x</p><!doctype html>" })).html).toBe("<p>x</p>");
  });

  test("HTML, quoting", async () => {
    const { text, html } = await read({ html: "<p>Yes</p>", quoted });
    expect(text).toMatch(/^Yes\n\nOn .* wrote:\n> Lunch\?$/);
    expect(html).toMatch(
      /^<p>Yes<\/p>[\s\S]*wrote:[\s\S]*<blockquote[^>]*>[\s\S]*<p>Lunch\?<\/p>[\s\S]*<\/blockquote>$/,
    );
  });
});

test("an outgoing message contains its attachments, inline if its HTML shows them", async () => {
  const file = (filename: string, blob: string, more = {}) => ({
    filename,
    blob,
    size: blob.length,
    contentType: "text/csv",
    inline: false,
    ...more,
  });
  const pic = file("pic.png", "PIC", { contentType: "image/png", inline: true, contentId: "pic@x" });
  const files = [pic, file("Zahlen – März.csv", "a,b")];
  const letter = { id: "boundary", headers: [["From", "alice@example.test"]] as const, files };
  const { attachments } = await PostalMime.parse(
    await serializeComposition({ ...letter, html: '<p>See <img src="cid:pic@x"></p>' }, readBlob),
  );
  const said = attachments.map(({ filename, mimeType, disposition, contentId, content }) => [
    filename,
    mimeType,
    disposition,
    contentId,
    new TextDecoder().decode(content as ArrayBuffer),
  ]);
  expect(said).toEqual([
    ["pic.png", "image/png", "inline", "<pic@x>", "PIC"],
    ["Zahlen – März.csv", "text/csv", "attachment", undefined, "a,b"],
  ]);
});

describe("quoting", () => {
  const ANN: QuotedMessage = {
    from: { email: "ann@remote.example", name: "Ann Example" },
    date: Date.UTC(2003, 6, 1, 10, 52, 37),
    text: "Hello\n\n> earlier\n>> before\nYours\n",
  };
  const ATTRIBUTION = "On Tue, 1 Jul 2003 at 10:52 UTC, Ann Example <ann@remote.example> wrote:";

  test("marks each line of a text, and quoted lines once more", () => {
    expect(quotedText(ANN)).toBe([ATTRIBUTION, "> Hello", ">", ">> earlier", ">>> before", "> Yours"].join("\n"));
  });

  test("shows the HTML, or the text where there is none, in a blockquote", () => {
    expect(quotedHtml({ ...ANN, html: "<p>Hello</p>" })).toMatch(
      /^<div [^>]*>On Tue[^<]*wrote:<\/div>\n<blockquote [^>]*><p>Hello<\/p><\/blockquote>$/,
    );
    expect(quotedHtml({ ...ANN, text: "1 < 2\n" })).toContain(">1 &lt; 2\n</div></blockquote>");
  });

  test("writes the attribution on one line, which snippets recognise", () => {
    const odd = { ...ANN, from: { email: "ann@remote.example\r\nX: y", name: `A\r\nB\u202e${"n".repeat(500)}` } };
    const [line = "", ...rest] = quotedText({ ...odd, text: "x" }).split("\n");
    expect(line).toMatch(/^[^\p{C}]{1,150}$/u);
    expect(rest).toEqual(["> x"]);
    expect(makeSnippet(`Agreed.\n\n${quotedText(ANN)}`)).toBe("Agreed.");
    expect(quotedText({ ...ANN, from: { email: "ann@remote.example" } })).toStartWith(
      "On Tue, 1 Jul 2003 at 10:52 UTC, ann@remote.example wrote:\n",
    );
  });

  test("replaces attached images with their alternative text, and keeps others", () => {
    const html = '<p><img src="cid:a" alt="Logo &amp; seal" /><img src="https://remote.example/b.png" /></p>';
    expect(quotedHtml({ ...ANN, html })).toContain('<p>Logo &amp; seal<img src="https://remote.example/b.png" /></p>');
  });

  test("cuts a very long message", () => {
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

  test("keeps quoted HTML inside the blockquote, and safe", () => {
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
});

describe("forwarding", () => {
  const MAIL: ForwardedMessage = {
    from: { email: "ann@remote.example", name: "Ann Example" },
    to: [{ email: "bea@remote.example" }, { email: "cy@remote.example", name: "Cy" }],
    cc: [],
    subject: "Plans",
    date: Date.UTC(2003, 6, 1, 10, 52, 37),
    text: "Hello\n> before",
  };
  const BLOCK = [
    "---------- Forwarded message ----------",
    "From: Ann Example <ann@remote.example>",
    "Date: Tue, 01 Jul 2003 10:52:37 UTC",
    "Subject: Plans",
    "To: bea@remote.example, Cy <cy@remote.example>",
  ];

  test("writes the header block without empty fields above the unchanged text", () => {
    expect(forwardedText(MAIL)).toBe(`\n\n${BLOCK.join("\n")}\n\nHello\n> before`);
  });

  test("writes the same block above the HTML, or above the text where there is none", () => {
    const html = forwardedHtml({ ...MAIL, html: "<p>Hello</p>" });
    for (const line of BLOCK) expect(html).toContain(line.replaceAll("<", "&lt;").replaceAll(">", "&gt;"));
    expect(html).toEndWith("<div><p>Hello</p></div>");
    expect(forwardedHtml({ ...MAIL, text: "1 < 2" })).toContain("1 &lt; 2");
  });

  test.each([
    ["Plans", "Fwd: Plans"],
    ["Fwd: Plans", "Fwd: Plans"],
    ["WG: Plans", "WG: Plans"],
    ["Re: Plans", "Fwd: Re: Plans"],
    ["", "Fwd: "],
    ["x".repeat(20_000), `Fwd: ${"x".repeat(9_995)}`],
  ])("the subject %j becomes %j", (subject, forwarded) => {
    expect(forwardSubject(subject)).toBe(forwarded);
  });

  test("no name, address or subject adds a line or markup", () => {
    const odd = "a\r\nTo: evil@remote.example\u2028<script>x()</script><img src=x onerror=x()>";
    const mail = { ...MAIL, subject: odd, from: { email: odd, name: odd }, to: [{ email: odd, name: odd }] };
    expect(forwardedText(mail).split("\n\n")[1]?.split("\n")).toHaveLength(5);
    expect(dangersIn(forwardedHtml(mail))).toEqual([]);
  });

  test("makes the HTML of any message safe", () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), fc.string(), (html, subject) => {
        const forwarded = forwardedHtml({ ...MAIL, html: `<table><td>${html}`, subject });
        expect(dangersIn(forwarded)).toEqual([]);
      }),
      { numRuns: 15 },
    );
  });
});

test("the sheets of a quoted message reach neither the answer nor another quotation", () => {
  const from = { email: "ann@remote.example" };
  const quotedOf = (css: string) =>
    quotedHtml({ from, date: 0, text: "a", html: sanitizeHtml(`<style>${css}</style><p class="x">a</p>`) });
  const [one, other] = [quotedOf("p,.x{color:red}"), quotedOf("p,.x{color:blue}")];
  for (const quoted of [one, other]) {
    const scope = /<style>\.(m[a-p]{16}) p,/.exec(quoted)?.[1];
    expect(quoted).toContain(`.${scope} .${scope}-x{color:`);
    expect(quoted).toContain(`<div class="${scope}"><p class="${scope}-x">a</p></div></blockquote>`);
  }
  expect(/m[a-p]{16}/.exec(one)?.[0]).not.toBe(/m[a-p]{16}/.exec(other)?.[0] as string);
});
