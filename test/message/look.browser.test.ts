/**
 * Mail looks as it was sent: rendered by a browser as received and as served, it has the same visible text with the same colours,
 * grounds, type and boxes, in a wide and a narrow window, in light and dark. Nothing hidden is seen, nothing loads, and nothing
 * lies over what is around it.
 */
import { afterAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Page } from "playwright-core";
import { FRAME_HEADERS } from "../../src/http/frame-responses.ts";
import { renderMessageDocument } from "../../src/message/frame.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { MAIL_TEMPLATES } from "../harness/mail/mail-templates.ts";

/** Paths that a document asked for. */
let strays: string[] = [];
let shown = { html: "", headers: {} as Record<string, string> };
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/shown") return new Response(shown.html, { headers: shown.headers });
    if (pathname !== "/favicon.ico") strays.push(pathname);
    return new Response(null, { status: 404 });
  },
});
afterAll(() => server.stop(true));

const HTML = { "content-type": "text/html; charset=utf-8" };
/** The policy of the app's frame; its sandbox would keep the test out. */
const FRAMED = {
  ...HTML,
  "content-security-policy": FRAME_HEADERS["content-security-policy"].replace(/; sandbox.*/, ""),
};

/** Style that the app's frame gives to all mail. */
const BASE =
  "<style>html{color:CanvasText;font:15px/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}body{margin:0}" +
  "img{max-width:100%}blockquote{margin:0 0 0 .5em;padding-left:.75em;border-left:2px solid GrayText}" +
  "pre{white-space:pre-wrap}</style>";

/** Document of the mail as received, for a browser that renders by the standards. */
function received(html: string): string {
  const bare = html.replace(/^\s*<!doctype[^>]*>/i, "");
  const head = /<head\b[^>]*>/i.exec(bare);
  const at = head === null ? 0 : head.index + head[0].length;
  return `<!doctype html>${bare.slice(0, at)}${BASE}${bare.slice(at)}`;
}

/** Document of the app's frame. The subject says that the mail is forwarded, so that its quotation is not folded. */
const framed = (html: string): string =>
  renderMessageDocument(
    { subject: "Fwd: Mail", text: "", html: sanitizeHtml(html), attachments: [] },
    { attachment: () => "", remote: undefined },
  );

/** The visible text of a document, in runs, and how it looks. Runs in the browser. */
function lookOf(): Record<string, string>[] {
  const found: Record<string, string>[] = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = (node.textContent ?? "").replace(/\s+/g, " ").trim();
    const element = node.parentElement;
    if (text === "" || element === null) continue;
    const style = getComputedStyle(element);
    const range = document.createRange();
    range.selectNodeContents(node);
    let { left, top, right, bottom } = range.getBoundingClientRect();
    let opacity = 1;
    let ground = "";
    let isCut = false;
    for (let outer: Element | null = element; outer !== null; outer = outer.parentElement) {
      const of = getComputedStyle(outer);
      opacity *= Number(of.opacity);
      isCut ||= /inset\((?:[5-9]\d|100)%/.test(of.clipPath);
      if (of.position === "absolute" && /^rect\(0px[ ,]/.test(of.clip)) isCut = true;
      if (ground === "" && of.backgroundImage.includes("gradient")) ground = of.backgroundImage;
      if (ground === "" && of.backgroundColor !== "rgba(0, 0, 0, 0)") ground = of.backgroundColor;
      if (of.overflowX === "visible" && of.overflowY === "visible") continue;
      if (outer === document.documentElement || outer === document.body || outer.tagName === "MAIN") continue;
      const box = outer.getBoundingClientRect();
      left = Math.max(left, box.left);
      top = Math.max(top, box.top);
      right = Math.min(right, box.right);
      bottom = Math.min(bottom, box.bottom);
    }
    const isSeen =
      style.visibility === "visible" && opacity >= 0.05 && Number.parseFloat(style.fontSize) >= 2 && !isCut;
    if (!isSeen || right - left < 2 || bottom - top < 2 || right < 0 || bottom < 0 || left > 10_000) continue;
    const { color, fontSize, fontWeight, fontStyle, fontFamily, lineHeight, letterSpacing, textAlign } = style;
    const { textTransform, textDecorationLine, padding, borderWidth, borderStyle, borderRadius } = style;
    const { borderLeftColor, verticalAlign, whiteSpace } = style;
    const box = { padding, borderWidth, borderStyle, borderRadius, borderLeftColor, verticalAlign };
    // The frame's own.
    if (element.tagName === "MAIN") box.padding = "0px";
    const type = { fontSize, fontWeight, fontStyle, fontFamily, lineHeight, letterSpacing, textAlign, textTransform };
    const look = { color, ground, textDecorationLine, whiteSpace, ...box, ...type };
    // Elements that say nothing about the look cut text into pieces.
    const last = found.at(-1);
    if (last !== undefined && JSON.stringify({ ...last, text: "" }) === JSON.stringify({ text: "", ...look })) {
      last.text += ` ${text}`;
    } else found.push({ text, ...look });
  }
  return found;
}

/** Mail that looks otherwise, and why. */
const OTHERWISE: Record<string, string> = {
  "mikel-mail/spec/fixtures/emails/error_emails/content_transfer_encoding_with_8bits.eml":
    "start and end tags cross, which the sanitiser's parser mends in another way than browsers: a line is centred",
  "spamassassin/t/data/nice/cjk/big5-base64.1": "a marquee is not served: its text stands still, and wraps",
};

/** Mail that tries to style, cover or leave the page that shows it. */
const REACHING = [
  "<style>div,.card,#top,*,:root,html,body{color:red!important;background:red!important;display:none}</style><p>x</p>",
  "<style>body *{color:red} html>body .card{color:red} :root .card{color:red} * html .card{color:red}</style><p>x</p>",
  "<style>:is(html,body,*) .card{color:red} :not(.x){color:red} :where(.card){color:red}</style><p>x</p>",
  "<style>:has(.card) .card{color:red} html:has(p) .card{color:red} p ~ .card, p + .card{color:red}</style><p>x</p>",
  "<style>p{color:blue}}.card{color:red}</style><p>x</p>",
  "<style>p{color:blue;} } .card{color:red} @media screen{.card{color:red}}}.card{color:red}</style><p>x</p>",
  "<style>@media screen{p{color:blue}}} .card{color:red}</style><p>x</p>",
  "<style>p[title='}.card{color:red}']{color:blue} p[title=\\7d .card]{color:blue}</style><p>x</p>",
  "<style>.\\7d .card\\7b color\\3a red\\7d{color:blue}</style><p class='}.card{color:red}'>x</p>",
  "<style>p{font-family:'}.card{color:red}';color:blue}</style><p>x</p>",
  "<style>/*</style><p>x</p><style>*/.card{color:red}</style>",
  "<style>@layer a{.card{color:red}} @supports (color:red){.card{color:red}} @container (width>0){.card{color:red}}</style>x",
  "<style>@scope (html){.card{color:red}} p{&{color:red}} & .card{color:red}</style><p>x</p>",
  "<style>@import url(/a.css); @import '/b.css'; @namespace url(/c); @font-face{font-family:f;src:url(/f)} p{font-family:f}</style><p>x</p>",
  "<style>p{background:url(/a);background-image:url('/b');list-style:url(/c);content:url(/d);cursor:url(/e),auto}</style><p>x</p>",
  "<style>p{background:image-set('/a' 1x);background:u\\72l(/b);border-image:url(/c) 1;mask:url(/d);filter:url(/e#f)}</style><p>x</p>",
  "<style>p::before{content:url(/a)} p:hover{background:url(/b)} a:visited{background:url(/c)} @media print{p{background:url(/d)}}</style><p>x</p>",
  "<style>:root{--a:url(/a)} p{background:var(--a)} @keyframes k{to{background:url(/b)}} p{animation:k 1s}</style><p>x</p>",
  "<style>p{position:fixed;top:0;left:0;width:100vw;height:100vh;z-index:9;background:red}</style><p>x</p>",
  "<style>p{position:absolute;inset:0;background:red} div{position:sticky;top:0}</style><p>x</p><div>x</div>",
  "<style>p{margin-top:-300px;background:red} div{margin:-200px -200px}</style><p>x</p><div>x</div>",
  "<style>p{transform:translateY(-300px) scale(9);background:red;translate:0 -300px;scale:9;rotate:45deg}</style><p>x</p>",
  "<style>p{outline:3000px solid red;box-shadow:0 0 0 3000px red;text-shadow:0 -200px red}</style><p>x</p>",
  "<style>p{offset:path('M0 0 L 0 -300');top:-300px;position:relative}</style><p>x</p>",
  "<style>p{position:absolute;left:-9999px;background:red} p{position:absolute;left:0;top:-300px} p{z-index:-1}</style><p>x</p>",
  "<style>p{--x:3000px;box-shadow:0 0 0 var(--x) red;outline:var(--x) solid red;margin-top:calc(var(--x) * -1)}</style><p>x</p>",
  "<style>p{--x:0 -300px;translate:var(--x);-webkit-text-stroke:var(--x) red;filter:drop-shadow(0 -300px red) blur(300px)}</style><p>x</p>",
  "<style>@layer a,b;@layer x{.card{color:red}} @scope (body) to (p){.card,:scope{color:red}} @container style(--x){.card{color:red}}</style>x",
  "<style>@scope{.card{color:red}} .x{.card &,& .card,:is(&,.card){color:red}} @scope (.card){:scope,p{color:red}}</style>x",
  "<style>p{mask:url(/m);-webkit-mask-image:url(/n);clip-path:url(/c#c);filter:url(/f#f);--u:url(/u);background:var(--u)}</style><p>x</p>",
  '<p style="position:fixed;inset:0;background:red;z-index:9">x</p><p style="margin-top:-300px;background:red">x</p>',
  '<p style="outline:3000px solid red">x</p><p style="text-indent:-400px;letter-spacing:-300px">xxxx</p>',
  '<div class="card button" id="top" name="top">x</div>',
];

async function show(page: Page, html: string, headers: Record<string, string>): Promise<Record<string, string>[]> {
  shown = { html, headers };
  await page.goto(`http://127.0.0.1:${server.port}/shown`);
  return page.evaluate(lookOf);
}

/** Lists the style that each block with a <b> in it got from its own style, in order. */
async function computed(page: Page, html: string): Promise<string[]> {
  shown = {
    html: html.replace("</head>", "<style>main{padding:0!important;overflow:visible!important}</style></head>"),
    headers: HTML,
  };
  await page.goto(`http://127.0.0.1:${server.port}/shown`);
  return page.evaluate(() => {
    const names =
      "color backgroundColor backgroundImage borderTopWidth borderTopStyle borderTopColor borderLeftColor borderTopLeftRadius " +
      "marginTop marginLeft paddingTop paddingRight width height maxWidth minHeight fontSize fontWeight fontStyle fontFamily " +
      "lineHeight letterSpacing textAlign textIndent textTransform textDecorationLine textDecorationColor display visibility " +
      "opacity overflowX whiteSpace verticalAlign listStyleType boxShadow outlineWidth outlineStyle clipPath boxSizing float";
    return [...document.querySelectorAll("div:has(> b)")].map((element) => {
      const style = getComputedStyle(element) as unknown as Record<string, string>;
      return names
        .split(" ")
        .map((name) => `${name}:${style[name]}`)
        .join(";");
    });
  });
}

const byte = fc.integer({ min: 0, max: 255 });
const percent = fc.integer({ min: 0, max: 100 });
const angle = fc
  .tuple(fc.integer({ min: -400, max: 400 }), fc.constantFrom("", "deg", "rad", "turn", "grad"))
  .map((all) => all.join(""));
const alpha = fc.constantFrom("0", "1", ".5", "0.25", "50%", "100%", "12.5%");
const hex = fc
  .tuple(fc.constantFrom(3, 4, 6, 8, 5, 7), fc.stringMatching(/^[0-9a-fA-F]{8}$/))
  .map(([length, digits]) => `#${digits.slice(0, length)}`);
const anyColor = fc.oneof(
  { weight: 4, arbitrary: hex },
  fc.constantFrom(
    ..."red RED rebeccapurple transparent currentcolor currentColor inherit initial unset canvastext windowtext nosuchcolor".split(
      " ",
    ),
  ),
  fc.tuple(byte, byte, byte).map(([r, g, b]) => `rgb(${r}, ${g},${b})`),
  fc.tuple(byte, byte, byte, alpha).map(([r, g, b, a]) => `rgba( ${r},${g}, ${b} , ${a} )`),
  fc.tuple(byte, byte, byte, alpha).map(([r, g, b, a]) => `rgb(${r} ${g} ${b} / ${a})`),
  fc.tuple(percent, percent, percent).map(([r, g, b]) => `rgb(${r}%, ${g}%, ${b}%)`),
  fc.tuple(angle, percent, percent).map(([h, s, l]) => `hsl(${h}, ${s}%, ${l}%)`),
  fc.tuple(angle, percent, percent, alpha).map(([h, s, l, a]) => `hsla(${h} ${s}% ${l}% / ${a})`),
  fc.tuple(angle, percent, percent).map(([h, w, b]) => `hwb(${h} ${w}% ${b}%)`),
  fc.tuple(percent, percent).map(([l, c]) => `oklch(${l}% 0.${c} 30deg)`),
  fc.tuple(hex, percent).map(([one, part]) => `color-mix(in srgb, ${one} ${part}%, red)`),
);
const quantity = fc.constantFrom("0", "1", "7.5", ".5", "12", "1.50", "+3", "1e1", "240");
const anyLength = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(quantity, fc.constantFrom("px", "PX", "pt", "em", "rem", "%", "ex", "ch", "cm", "mm", "in", "pc"))
      .map((all) => all.join("").replace(/240(?:em|rem|in|cm|pc|%)/, "24px")),
  },
  fc.constantFrom("0", "-0", "12", "1 px", "auto", "inherit", "none", "normal", "medium"),
  quantity.map((number) => `calc(100% - ${number}px)`),
  quantity.map((number) => `calc((${number}px + 1em) * 2)`),
  quantity.map((number) => `min(50%, ${number}px)`),
  quantity.map((number) => `clamp(1px, ${number}px, max(2em, 10%))`),
);
const anyLine = fc.constantFrom("none", "solid", "dashed", "double", "SOLID", "hidden", "nosuchline");
const spaced = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map((all) => all.join(" "));
const of = (names: string, value: fc.Arbitrary<string>) =>
  fc.tuple(fc.constantFrom(...names.split(" ")), value).map(([name, text]) => `${name}:${text}`);
const family = fc.constantFrom(
  "Arial",
  "'Helvetica Neue', Arial, sans-serif",
  '"Segoe UI"',
  "-apple-system, serif",
  "system-ui",
);
const declaration = fc.oneof(
  {
    weight: 4,
    arbitrary: of(
      "color background-color border-top-color border-color text-decoration-color COLOR background",
      anyColor,
    ),
  },
  {
    weight: 3,
    arbitrary: of(
      "width height max-width min-height padding padding-right font-size line-height border-radius margin margin-left",
      anyLength,
    ),
  },
  of("padding margin", spaced(anyLength, anyLength)),
  of(
    "border border-top border-left",
    fc.oneof(
      spaced(
        quantity.map((one) => `${one}px`),
        anyLine,
        anyColor,
      ),
      spaced(anyLine, anyColor),
      spaced(anyColor, anyLine),
      anyLine,
    ),
  ),
  of(
    "font",
    fc.oneof(
      spaced(
        fc.constantFrom("bold", "italic 600", "normal", "small-caps"),
        fc.constantFrom("12px/1.5", "1.2em", "9pt / 20px", "large"),
        family,
      ),
      family,
    ),
  ),
  of("font-family", family),
  of("font-weight", fc.constantFrom("bold", "400", "650", "1000", "1001", "lighter", "x")),
  of("line-height opacity", fc.constantFrom("1", "0.5", ".75", "50%", "0", "normal")),
  of(
    "text-align text-transform text-decoration display visibility overflow white-space vertical-align list-style-type float",
    fc.constantFrom(
      ..."center right uppercase underline block inline-block none hidden visible nowrap pre top middle square left inherit".split(
        " ",
      ),
    ),
  ),
  of("text-decoration", spaced(fc.constantFrom("underline", "line-through"), anyColor)),
  of("letter-spacing text-indent", fc.constantFrom("1px", "-0.5px", ".1em", "-.05in", "normal")),
  of("box-shadow", spaced(fc.constantFrom("0 1px 2px", "inset 0 0 4px 1px", "1px 2px"), anyColor)),
  of(
    "background background-image",
    spaced(fc.constant("linear-gradient(45deg,"), anyColor, fc.constant("10%,"), anyColor, fc.constant(")")),
  ),
  of("outline", fc.constantFrom("none", "0", "1px solid red", "thin dotted")),
  of("clip-path", fc.constantFrom("inset(50%)", "circle(40%)", "none", "polygon(0 0, 10px 0, 0 10px)")),
);
/** Elements whose text tells them apart. */
const TREE =
  '<div class="a b">1.<p id="i" title="tea">2.<b class="c">3.</b></p><p class="b" data-x="1">4.</p><form class="c">5.<span class="a" title="t">6.</span></form></div>' +
  '<table><tr><td class="a">7.</td><td id="j" lang="en" align="center">8.</td></tr></table><section title="to tea">9.<label class="b">10.</label><i></i><em>11.</em></section><p>12.</p>';
const simple = fc.constantFrom(
  ...".a .b .c #i #j [title] [title=tea] [title^=t] [title$='a'] [title~=\"tea\"] [title*=ea] [title=TEA] [data-x='1'] [class~=a] [class*=b] [id=i] [align=center]".split(
    " ",
  ),
  "[title=TEA i]",
);
/** Those which browsers' own elements around the mail could have, too, stand behind a type. */
const structural = fc.constantFrom(
  ...":first-child :last-child :only-child :nth-child(odd) :nth-child(2n+1) :nth-of-type(2) :nth-last-child(-n+2) :not(.a) :not(.b,#i) :is(.a,#i) :where(.b) :has(.c) :has(>b) :empty :is(p,td):not([title]) :lang(en)".split(
    " ",
  ),
);
const typed = fc.constantFrom("p", "td", "b", "span", "section", "form", "em", "label");
const named = fc.constantFrom(
  "p",
  "P",
  "div",
  "b",
  "td",
  "form",
  "section",
  "span",
  "label",
  "*",
  "em",
  "body",
  "html",
  ":root",
);
const compound = fc.oneof(
  named,
  simple,
  fc.tuple(named, simple).map((all) => all.join("")),
  fc.tuple(simple, simple).map((all) => all.join("")),
  fc.tuple(typed, structural).map((all) => all.join("")),
  fc.tuple(typed, simple, structural).map((all) => all.join("")),
);
const selector = fc.oneof(
  { weight: 6, arbitrary: compound },
  {
    weight: 4,
    arbitrary: fc.tuple(compound, fc.constantFrom(" ", ">", " > ", "+", " ~ "), compound).map((all) => all.join("")),
  },
  fc
    .tuple(compound, fc.constantFrom(" ", ">"), compound, fc.constantFrom(" ", "+"), compound)
    .map((all) => all.join("")),
  fc.constantFrom(
    "p:foo",
    "p::before",
    "..a",
    "> p",
    "p >",
    ":not()",
    "p:hover",
    "#outlook a",
    "u + .a",
    "* html p",
    "[title",
    "p[title=]",
    "a|p",
  ),
);
const rule = fc
  .tuple(
    fc.array(selector, { minLength: 1, maxLength: 3 }),
    fc.constantFrom(
      "color:#c00",
      "color:#0a0!important",
      "color:#00f",
      "color:#909",
      "text-decoration:underline",
      "/*}*/color:#077",
    ),
  )
  .map(([selectors, declaration]) => `${selectors.join(",")}{${declaration}}`);
const anyRule = fc.oneof(
  { weight: 6, arbitrary: rule },
  fc
    .tuple(
      fc.constantFrom(
        ..."@media screen|@media print|@media (min-width:500px)|@media only screen and (max-width: 500px)|@media not print|@media (foo)|@media screen, (foo)|@media (width >= 300px)|@media (300px <= width <= 600px)|@media all and (min-width:1px) and (orientation:portrait)|@media yahoo|@media (prefers-color-scheme:light)|@supports (display:flex)|@supports (display:nosuch)|@supports not (display:nosuch)|@media".split(
          "|",
        ),
      ),
      fc.array(rule, { maxLength: 2 }),
    )
    .map(([before, rules]) => `${before}{${rules.join("")}}`),
  fc.constantFrom(
    "@import 'x';",
    '@charset "utf-8";',
    "<!--",
    "-->",
    "/* p{color:red} */",
    "@font-face{font-family:x}",
    "@keyframes k{from{color:red}}",
    "@page{margin:0}",
    ";",
    "p{color:red",
    "}",
  ),
);

const anyStyle = fc
  .array(fc.tuple(declaration, fc.constantFrom("", "", "", " !important", "!IMPORTANT", "/**/")), {
    minLength: 1,
    maxLength: 4,
  })
  .map((all) => all.map((one) => one.join("")).join(" ; "));

async function openPage(width: number, colorScheme: "light" | "dark" = "light"): Promise<Page> {
  const context = await (await openBrowser()).newContext({ viewport: { width, height: 900 }, colorScheme });
  return context.newPage();
}

describe.skipIf(!chromiumPresent)(`in Chromium${chromiumNote}`, () => {
  const windows: [name: string, width: number][] = [
    ["a wide window", 900],
    ["a narrow window", 360],
  ];
  test.each(windows)("templates look as they were sent in %s", async (name, width) => {
    const page = await openPage(width);
    const { foreign } = await openBrowser();
    const words = new Set<string>();
    for (const [template, html] of Object.entries(MAIL_TEMPLATES)) {
      const before = await show(page, received(html), HTML);
      strays = [];
      foreign.length = 0;
      const after = await show(page, framed(html), FRAMED);
      expect({ template, look: after }).toEqual({ template, look: before });
      expect([strays, foreign]).toEqual([[], []]);
      for (const { text = "" } of after) for (const word of text.split(" ")) words.add(word);
    }
    expect([words.has("HIDDEN"), words.has("PHONE"), words.has("DESK")]).toEqual([
      false,
      name === "a narrow window",
      name === "a wide window",
    ]);
    await page.context().close();
  });

  test("in a dark window, mail with a design for it has that design, and other mail the light one", async () => {
    const [dark, light] = [await openPage(900, "dark"), await openPage(900)];
    for (const [template, html] of Object.entries(MAIL_TEMPLATES)) {
      const isDark = template === "stripe";
      // Mail without colours of its own has those of the app.
      if (template === "apple mail") continue;
      const before = await show(isDark ? dark : light, received(html), HTML);
      expect({ template, look: await show(dark, framed(html), FRAMED) }).toEqual({ template, look: before });
      if (isDark) expect(JSON.stringify(before)).toContain("rgb(227, 232, 238)");
    }
    await Promise.all([dark.context().close(), light.context().close()]);
  });

  test("declarations mean the same as received and as served, in attributes and in sheets", async () => {
    const page = await openPage(900);
    const styles = fc.sample(anyStyle, { numRuns: 1_500, seed: 7 });
    const asAttributes = styles
      .map((style) => `<div style="${style.replaceAll('"', "&quot;")}"><b>x</b></div>`)
      .join("");
    const asRules = `<style>${styles.map((style, n) => `.a${n}{${style}}`).join("\n")}</style>${styles.map((_, n) => `<div class="a${n}"><b>x</b></div>`).join("")}`;
    for (const html of [asAttributes, asRules]) {
      const [before, after] = [await computed(page, received(html)), await computed(page, framed(html))];
      expect(before).toHaveLength(styles.length);
      const differing = styles.flatMap((style, n) => {
        const of = before[n]?.split(";") ?? [];
        const pairs = after[n]?.split(";").flatMap((one, at) => (one === of[at] ? [] : `${of[at]} => ${one}`)) ?? [];
        return pairs.length === 0 ? [] : { style, pairs };
      });
      expect(differing.slice(0, 20)).toEqual([]);
    }
    await page.context().close();
  });

  test("selectors and at-rules choose the same elements as received and as served", async () => {
    const page = await openPage(700);
    for (const [n, rules] of fc
      .sample(fc.array(anyRule, { minLength: 1, maxLength: 6 }), { numRuns: 120, seed: 7 })
      .entries()) {
      const html = `${n % 2 ? "<!doctype html><html><head><title>x</title>" : ""}<style>${rules.join("\n")}</style>${n % 2 ? '</head><body class="a" id="j">' : ""}${TREE}`;
      const colors = async (document: string) =>
        (await show(page, document, HTML)).flatMap(({ text = "", color, textDecorationLine }) =>
          [...text.matchAll(/\d+/g)].map(([number]) => `${number} ${color} ${textDecorationLine}`),
        );
      expect({ html, colors: await colors(framed(html)) }).toEqual({ html, colors: await colors(received(html)) });
    }
    await page.context().close();
  }, 120_000);

  test("on a page that shows it, mail reaches nothing but itself", async () => {
    const page = await openPage(900);
    const { foreign } = await openBrowser();
    const neighbour = '<div class="card button" id="top" style="height:200px">Page</div>';
    const around = async (mail: string) => {
      const main = `<main style="height:300px;overflow:auto">${mail}</main>`;
      await show(page, `<!doctype html><title>Page</title>${neighbour}${main}${neighbour}`, HTML);
      return page.evaluate(() =>
        [document.documentElement, document.body, ...document.querySelectorAll("body > div")].map((element) => {
          const { color, backgroundColor, display, fontFamily, fontSize } = getComputedStyle(element);
          return { color, backgroundColor, display, fontFamily, fontSize };
        }),
      );
    };
    const alone = await around("");
    for (const html of REACHING) {
      strays = [];
      foreign.length = 0;
      expect({ html, around: await around(sanitizeHtml(html)) }).toEqual({ html, around: alone });
      const covered = await page.evaluate(() => {
        const main = document.querySelector("main") as HTMLElement;
        const { top, bottom } = main.getBoundingClientRect();
        const found: string[] = [];
        for (let y = 5; y < innerHeight; y += 20) {
          for (let x = 5; x < innerWidth; x += 60) {
            const at = document.elementFromPoint(x, y);
            if ((y < top || y > bottom) && at !== null && at !== main && main.contains(at)) found.push(`${x},${y}`);
          }
        }
        return found;
      });
      expect({ html, covered, loaded: [...strays, ...foreign] }).toEqual({ html, covered: [], loaded: [] });
    }
    await page.context().close();
  });

  test.skipIf(!corpusPresent)(
    `mail of other projects looks as it was sent${corpusNote}`,
    async () => {
      const page = await openPage(900);
      let count = 0;
      const differing: string[] = [];
      for (const { name, bytes } of corpusFiles()) {
        const { html } = await parseMessage(bytes);
        if (html === undefined || html.length > 200_000) continue;
        count++;
        const [before, after] = [await show(page, received(html), HTML), await show(page, framed(html), FRAMED)];
        if (JSON.stringify(before) !== JSON.stringify(after)) differing.push(name);
      }
      expect(count).toBeGreaterThan(50);
      expect(differing).toEqual(Object.keys(OTHERWISE));
      await page.context().close();
    },
    120_000,
  );
});
