import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createHtmlBudget } from "../../src/message/markup.ts";
import { isColor, safeStyle, sanitizeHtml } from "../../src/message/sanitize.ts";
import { removeStyleScope } from "../../src/message/scope.ts";
import { corpusJson, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { dangersIn } from "../harness/mail/dangers.ts";
import { plain } from "../harness/runner/plain.ts";

test("the parser of these tests finds dangerous markup", () => {
  const html =
    '<script>x</script><a href="java&#115;cript:x" onclick="y" id="z">a</a><img src="x" style="background:url(y)"><!-- c -->';
  expect(dangersIn(html)).toEqual([
    "element script",
    "a href=javascript:x",
    "handler onclick",
    "attribute id",
    "img src=x",
    "style background:url(y)",
    "comment  c ",
  ]);
});

describe("keeps", () => {
  const cases: [string, string][] = [
    [
      '<table border="1" cellpadding="2" width="100%" bgcolor="#eeeeee"><tbody><tr><td align="left" colspan="2">x</td></tr></tbody></table>',
      '<table border="1" cellpadding="2" width="100%" bgcolor="#eeeeee"><tbody><tr><td align="left" colspan="2">x</td></tr></tbody></table>',
    ],
    ['<ul><li>a</li></ul><ol start="3"><li>b</li></ol>', '<ul><li>a</li></ul><ol start="3"><li>b</li></ol>'],
    ['<font color="red" face="Arial" size="+1">x</font>', '<font color="red" face="Arial" size="+1">x</font>'],
    ['<p style="color:red;position:fixed">x</p>', '<p style="color:red">x</p>'],
    [
      '<a href="https://a.example/?a=1&amp;b=2">x</a>',
      '<a href="https://a.example/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">x</a>',
    ],
    [
      '<a href="mailto:a@b.example">x</a>',
      '<a href="mailto:a@b.example" target="_blank" rel="noopener noreferrer nofollow">x</a>',
    ],
    ['<img src="cid:a@b" alt="" width="10">', '<img alt="" width="10" src="cid:a@b" />'],
    ['<img src="https://a.example/p.png">', '<img src="https://a.example/p.png" />'],
    ['<img src="data:image/png;base64,iVBORw0K">', '<img src="data:image/png;base64,iVBORw0K" />'],
    ['<body bgcolor="fff" text=red><p>x</p></body>', '<div style="background-color:#0f0f0f;color:red"><p>x</p></div>'],
    ['<body bgcolor="#123456" style="color:blue">x</body>', '<div style="background-color:#123456;color:blue">x</div>'],
    [
      '<body link="#123456"><a href="mailto:a@b.example" style="margin:0">x</a><a>y</a></body>',
      '<div><a style="color:#123456;margin:0" href="mailto:a@b.example" target="_blank" rel="noopener noreferrer nofollow">x</a><a>y</a></div>',
    ],
    ["<p hidden>x</p><p popover>y</p>", '<p hidden="hidden">x</p><p hidden="hidden">y</p>'],
    ["<dialog>x</dialog><dialog open>y</dialog>", '<div hidden="hidden">x</div>y'],
    [
      '<form style="display:none">x</form><o:p hidden>y</o:p>',
      '<div style="display:none">x</div><span hidden="hidden">y</span>',
    ],
    ["<details open><summary>x</summary>y</details>", "<details open><summary>x</summary>y</details>"],
    ["a &lt;b&gt; &amp;amp; c", "a &lt;b&gt; &amp;amp; c"],
    ["<b>unclosed", "<b>unclosed</b>"],
    ['مرحبا <bdo dir="rtl">x</bdo>', 'مرحبا <bdo dir="rtl">x</bdo>'],
  ];
  for (const [html, expected] of cases) test(plain(html), () => expect(sanitizeHtml(html)).toBe(expected));
});

describe("drops", () => {
  const cases: [string, string][] = [
    ["<script>alert(1)</script>x", "x"],
    ["<style>body{background:url(x)}</style>x", "x"],
    ["<style>@import 'x';@font-face{font-family:a;src:url(x)}@keyframes a{to{color:red}}</style>x", "x"],
    ["<p onclick=alert(1)>x</p>", "<p>x</p>"],
    ['<a href="javascript:alert(1)">x</a>', "<a>x</a>"],
    ['<a href=" java\tscript:alert(1)">x</a>', "<a>x</a>"],
    ['<a href="vbscript:x">x</a>', "<a>x</a>"],
    ['<a href="data:text/html,x">x</a>', "<a>x</a>"],
    ['<a href="/settings">x</a>', "<a>x</a>"],
    ['<a href="#x" name="y" id="z" class="w">x</a>', "<a>x</a>"],
    ['<img src="data:image/svg+xml;base64,AAAA">', "<img />"],
    ['<img src="x.png" srcset="https://a.example/x 2x" onerror="alert(1)">', "<img />"],
    ['<img src="file:///etc/passwd">', "<img />"],
    ['<form action="https://x.example"><input name="a"><button>Go</button></form>', "Go"],
    ["<select><option>a</option></select>x", "x"],
    ["<textarea></p><script>x</script></textarea>y", "y"],
    ["<iframe src=x><b>fallback</b></iframe>y", "y"],
    ['<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>y', "y"],
    [
      '<title></title><base href="https://x.example"><meta http-equiv="refresh" content="0;url=x"><link rel=stylesheet href=x>y',
      "y",
    ],
    ['<object data="x">a</object><embed src="x">y', "y"],
    ["<svg><script>x</script></svg>y", "y"],
    ['<table background="https://x.example/p.png"><tr><td>x</td></tr></table>', "<table><tr><td>x</td></tr></table>"],
    ["<!-- comment --><!doctype html><?php x ?>y", "y"],
    ["<p\u0000 on\u0000click=x>y</p>", "<p>y</p>"],
  ];
  for (const [html, expected] of cases) test(plain(html), () => expect(sanitizeHtml(html)).toBe(expected));
});

describe("HTML that is sent", () => {
  const sent = (html: string): string => sanitizeHtml(html, createHtmlBudget(), "recipient");

  test("keeps its sheets, classes, ids and selectors, and what programs of its readers look for", () => {
    const css =
      "#outlook a{padding:0}u+.body .x{color:#333333}[data-ogsc] .x{color:#eeeeee!important}table{mso-table-lspace:0pt}" +
      "@media screen and (max-width:600px){.x{width:100%!important}}";
    const html = sent(
      `<style>${css.replaceAll("{", " { ").replaceAll(";", " ; ")}</style><body class="body"><p class="x y" id="z">a</p>`,
    );
    expect(html).toBe(`<style>${css}</style><div class="body"><p id="z" class="x y">a</p></div>`);
  });

  test("keeps images behind text, and has neither scripts nor handlers nor other URLs", () => {
    expect(
      sent(
        '<table background="https://a.example/b.png" onclick="x()" style="background:#eee url(&quot;https://a.example/c.png&quot;) no-repeat center"><td style="background-image:url(javascript:x);mso-padding-alt:0 5px">a</td></table><script>x</script>',
      ),
    ).toBe(
      `<table style="background:#eee url('https://a.example/c.png') no-repeat center" background="https://a.example/b.png"><td style="mso-padding-alt:0 5px">a</td></table>`,
    );
    for (const url of [
      "javascript:x",
      "data:text/html,x",
      "//a.example/b",
      "https://a.example/b'x",
      "b.png",
      "vbscript:x",
    ]) {
      expect(sent(`<p style="background:url(&quot;${url}&quot;)" background="${url}">a</p>`)).not.toMatch(
        /url|script|data:/,
      );
    }
    expect(sent("<style>p{background:url(https://a.example/b)}q{background:url(javascript:x)}</style>")).toBe(
      "<style>p{background:url('https://a.example/b')}</style>",
    );
  });

  test("does not load such images where it is shown", () => {
    const html = sanitizeHtml(
      sent('<p style="background:url(https://a.example/b)" background="https://a.example/c">a</p>'),
    );
    expect(html).toBe("<p>a</p>");
  });

  test("a draft stays as it is, however often it is served and saved", () => {
    const written = sent(
      "<style>.a>p,#b,:root{color:#123456} body{margin:0} div,span{color:red}</style><body class=c><div class=a id=b><label>x</label></div></body>",
    );
    const saved = (draft: string): string => sent(removeStyleScope(sanitizeHtml(draft)));
    const once = saved(written);
    expect([saved(once), saved(saved(once))]).toEqual([once, once]);
    const shown = sanitizeHtml(once);
    expect(dangersIn(shown)).toEqual([]);
  });
});

test("HTML that is too large or has too many tags is shown as text", () => {
  expect(sanitizeHtml(`<p>hello</p>${"<i>".repeat(2_500)}`)).toBe('<div style="white-space:pre-wrap">hello</div>');
  expect(sanitizeHtml(`<p>hello</p>${"<br>".repeat(110_000)}`)).toContain("hello");
  expect(sanitizeHtml(`<p>hello</p>${" ".repeat(5_000_000)}`)).toContain("hello");
});

test("deep elements lose their tags and keep their text", () => {
  const html = sanitizeHtml(`${"<div>".repeat(1_000)}deep${"</div>".repeat(1_000)}`);
  expect(html).toContain("deep");
  expect(html.split("<div>").length).toBeLessThan(210);
});

test("any markup becomes safe, and soon a fixed point", () => {
  const piece = fc.constantFrom(
    "<p>",
    "</p>",
    "<a href='javascript:x'>",
    '<a href="https://x.example/',
    "<img src=x onerror=y>",
    "<svg>",
    "<math><mtext>",
    "<style>",
    "</style>",
    "<title>",
    "</title>",
    "<textarea>",
    "<noscript>",
    "<table>",
    "<td style='background:url(x)'>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    '"',
    "'",
    ">",
    "<",
    "&lt;script&gt;",
    "&#106;avascript:",
    "<script>alert(1)</script>",
    "text",
    "\u0000",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const safe = sanitizeHtml(pieces.join(""));
      const again = sanitizeHtml(safe);
      expect([dangersIn(safe), dangersIn(again)]).toEqual([[], []]);
      // Removed tags separated elements that end one another: paragraphs in paragraphs, links in links.
      expect(sanitizeHtml(again)).toBe(again);
    }),
  );
});

test("overlong text is cut between whole characters", () => {
  for (const html of ["<".repeat(5_000_000), "\u{1f600}".repeat(3_000_000)]) {
    const shown = sanitizeHtml(html);
    expect(shown.length).toBeLessThan(5_000_000);
    expect([shown.isWellFormed(), shown.endsWith("…</div>")]).toEqual([true, true]);
  }
});

describe("sanitised attack vectors of other projects are safe", () => {
  test.skipIf(!corpusPresent)(`dompurify${corpusNote}`, () => {
    const vectors = corpusJson("dompurify/expect.json") as { title?: string; payload: string }[];
    expect(vectors.length).toBeGreaterThan(200);
    for (const { payload } of vectors)
      expect({ payload, dangers: dangersIn(sanitizeHtml(payload)) }).toEqual({ payload, dangers: [] });
  });

  test.skipIf(!corpusPresent)(`h5sc${corpusNote}`, () => {
    const payloads = stringsIn(corpusJson("h5sc/items.json"));
    expect(payloads.length).toBeGreaterThan(149);
    for (const payload of payloads)
      expect({ payload, dangers: dangersIn(sanitizeHtml(payload)) }).toEqual({ payload, dangers: [] });
  });
});

/** Every string in a JSON value: payloads are spread over several fields. */
function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

describe("inline CSS", () => {
  const KEPT = [
    "color:red",
    "color:#ff0000",
    "color:rgb(1, 2, 3)",
    "background-color:rgba(0,0,0,.5)",
    "font-family:Arial, 'Helvetica Neue', 'Segoe UI'",
    "font:bold 12px/1.5 Arial",
    "margin:0 auto",
    "padding:10px 5px",
    "width:600px",
    "max-width:100%",
    "border:1px solid #ccc",
    "border-collapse:collapse",
    "text-align:center",
    "line-height:1.5",
    "display:none",
    "display:inline-block",
    "vertical-align:top",
    "white-space:pre-wrap",
    "overflow:hidden",
    "list-style-type:square",
    "opacity:0",
    "visibility:hidden",
    "clip-path:inset(100%)",
    "width:calc(100% + 1px)",
    "display:flex",
    "text-indent:-.25in",
    "letter-spacing:-0.5px",
    "border-radius:4px 4px 0 0",
    "max-width:99999px",
    "color:red!important",
    "background-image:linear-gradient(90deg, #f00 0%, rgba(0,0,0,.5) 100%)",
    "box-shadow:0 2px 8px rgba(0,0,0,.2)",
    "outline:none",
    "color:var(--x)",
    "color:rgb(var(--r),0,0)",
    "--Ink:#333",
    "filter:blur(5px) brightness(0.5)",
    "-webkit-mask-image:linear-gradient(#000, transparent)",
    "-webkit-line-clamp:3",
    "display:inline flow-root",
    "container:card / inline-size",
    "isolation:isolate",
    "text-indent:-9999px",
    "transform:scale(0)",
    "rotate:x 90deg",
  ];

  const DROPPED = [
    "position:fixed",
    "position:absolute;top:0",
    "z-index:9999",
    "width:100vw",
    "height:99999px",
    "font-size:100000px",
    "background:url(https://x.example/)",
    "background-image:url('x')",
    "list-style-image:url(x)",
    "list-style:url(x)",
    "border-image:url(x)",
    "cursor:url(x), auto",
    "content:'x'",
    "width:expression(alert(1))",
    "width:e/**/xpression(alert(1))",
    "behavior:url(x)",
    "-moz-binding:url(x)",
    "background-image:image-set('x' 1x)",
    "background:image-set('x' 1x)",
    "font-family:url(x)",
    "margin:var(--x)",
    "box-shadow:0 0 0 var(--x) red",
    "outline:solid var(--x)",
    "-webkit-text-stroke:var(--x) red",
    "--x:url(https://x.example/)",
    "--x:attr(title)",
    "--x:99999px",
    "--x:100vw",
    "width:calc(var(--x) * 1000)",
    "transform:scale(100)",
    "transform:translateY(-300px)",
    "animation:x 1s",
    "pointer-events:none",
    "outline:3000px solid red",
    "outline-width:1000px",
    "box-shadow:0 0 0 3000px red",
    "text-shadow:900px 0 red",
    "letter-spacing:900px",
    "text-decoration:underline 900px",
    "vertical-align:-900px",
    "width:calc(100vw)",
    "width:attr(title px)",
    "content:attr(title)",
    "@import 'x'",
    "color:red}body{background:url(x)",
    "color",
    ":red",
    "__proto__:red",
    "constructor:red",
  ];

  for (const style of KEPT) test(`keeps ${style}`, () => expect(safeStyle(style)).toBe(style));
  for (const style of DROPPED) test(`drops ${style}`, () => expect(safeStyle(style)).toBe(""));

  test("checks each declaration alone, and keeps only the colour of a background", () => {
    expect(safeStyle("COLOR : Red !important; position:fixed; background: #fff url('a;b') no-repeat; margin:1px")).toBe(
      "color:Red!important;background-color:#fff;margin:1px",
    );
    expect(safeStyle("background:red")).toBe("background:red");
    expect(safeStyle('font-family:"a;b";color:red')).toBe("color:red");
    expect(safeStyle("x".repeat(20_000))).toBe("");
    expect(safeStyle("color:\\72 ed")).toBe("color:red");
    expect(safeStyle("background:url(x),linear-gradient(red,blue) no-repeat center / cover,#fff")).toBe(
      "background:linear-gradient(red,blue) no-repeat center / cover #fff",
    );
  });

  test("a margin loses what is negative, which would lay the message over what is around it", () => {
    expect(safeStyle("margin:-100px")).toBe("margin:0");
    expect(safeStyle("margin:1px -5em 2px")).toBe("margin:1px 0 2px");
    expect(safeStyle("margin-left: -5em")).toBe("margin-left:0");
  });

  test.each([
    "position:absolute;left:-9999px",
    "position:fixed;top:-100em",
    "position:absolute;clip:rect(0,0,0,0)",
    "position:absolute;left:-9999px;display:block!important",
    "mask:url(https://x.example/)",
    "filter:blur(100px)",
    "filter:url(#x)",
    "clip-path:url(#x)",
    "clip-path:path('M0 0')",
    "margin-left:-9999px",
    "margin-inline-start:-9999px",
    "margin-block:0 -9999px",
    "position:absolute;inset-inline:-9999px auto",
    "position:relative;inset-block-start:-9999px",
    "letter-spacing:-99px",
    "text-decoration:line-through white 40px",
  ])("what hides, and is not served, is not displayed: %s", (style) => {
    expect(safeStyle(style)).toMatch(/(?:^|;)display:none!important$/);
  });

  test.each([
    ["-webkit-transform:scale(0)", "transform:scale(0)"],
    ["transform:rotateX(90deg)", "transform:scale(0)"],
    ["transform:translateX(-9999px)", "transform:scale(0)"],
    ["scale:0 1", "scale:0"],
    ["translate:0 -9999px", "translate:-9999px"],
    ["text-indent:-800px", "text-indent:-9999px"],
  ])("what hides is served in one form, which reaches nothing: %s", (style, served) => {
    expect(safeStyle(style)).toBe(served);
  });

  test("keeps every colour, alone and in shorthands", () => {
    const byte = fc.integer({ min: 0, max: 255 });
    const hex = fc
      .tuple(fc.constantFrom(3, 4, 6, 8), fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 8, maxLength: 8 }))
      .map(
        ([length, digits]) =>
          `#${digits
            .map((digit) => digit.toString(16))
            .join("")
            .slice(0, length)}`,
      );
    const call = fc.tuple(byte, byte, byte).map(([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`);
    fc.assert(
      fc.property(fc.oneof(hex, call), (color) => {
        for (const style of [`color:${color}`, `border:1px solid ${color}`, `background-color:${color}`]) {
          expect(safeStyle(style)).toBe(style);
        }
        expect(safeStyle(`background:${color} url(x)`)).toBe(`background-color:${color}`);
      }),
    );
  });

  test("takes names and hexadecimal numbers for colours", () => {
    for (const color of ["red", "#fff", "ffffff", " #FFFFFF "]) expect(isColor(color)).toBe(true);
    for (const color of ["", "url(x)", "red;x", "#ggg"]) expect(isColor(color)).toBe(false);
  });
});

test("a rule for all elements reaches the text that stands in no element", () => {
  for (const selector of ["*", ":not(.a)"]) {
    const served = sanitizeHtml(`<style>${selector}{display:none}</style>secret`);
    expect(served).toMatch(
      /^<style>\.(m[a-p]{16}) [^{]+\{display:none\}<\/style><div class="\1"><div class="\1_body">secret<\/div>/,
    );
  }
});
