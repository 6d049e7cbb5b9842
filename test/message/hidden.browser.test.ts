/**
 * A browser shows the same words of mail as received and as served, and its text has these words: for each way of hiding words,
 * or of undoing that, and for combinations of them. Words are looked for in the pixels, each alone.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Page } from "playwright-core";
import { renderMessageDocument } from "../../src/message/frame.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { visibleHtml } from "../../src/message/visible.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { WAYS_OF_HIDING } from "./ways-of-hiding.ts";

/** The frame's own style, and letters that are as wide as spaces. */
const BASE =
  "<style>html{font:14px/16px monospace!important;color:CanvasText}@layer first{head{display:none!important}}body{margin:0}p{margin:0}main{font-family:monospace!important;min-height:70px;font:14px/16px monospace!important}" +
  "blockquote{margin:0 0 0 .5em}pre{white-space:pre-wrap}</style>";
const asReceived = (html: string): string => `<!doctype html>${BASE}${html}`;
const asServed = (html: string): string =>
  renderMessageDocument(
    { subject: "Fwd: Mail", text: "", html: sanitizeHtml(html), attachments: [] },
    { attachment: () => "", remote: undefined },
  ).replace("</head>", `${BASE}</head>`);

const WORD = /W\d/g;
const HEIGHT = 80;
const [WIDE, NARROW] = [620, 320];
/** Documents of one picture. */
const AT_ONCE = 40;

/** The documents without any word, and with each word alone. */
function variantsOf(html: string): { words: string[]; variants: string[] } {
  const words = html.match(WORD) ?? [];
  const only = (word?: string) => html.replace(WORD, (one) => (one === word ? one : "\u00a0\u00a0"));
  return { words, variants: [only(), ...words.map(only)] };
}

/** The words of each document that are seen in a window of that width. */
async function wordsSeen(page: Page, documents: readonly string[], width: number): Promise<string[]> {
  const seen: string[] = [];
  for (let from = 0; from < documents.length; from += AT_ONCE) {
    const part = documents.slice(from, from + AT_ONCE).map(variantsOf);
    const shown = part.flatMap(({ variants }) => variants);
    // The document without a word that each one is compared with.
    const bare = part.flatMap(({ variants }) => variants.map((_, n) => n));
    await page.setViewportSize({ width, height: shown.length * HEIGHT });
    const frames = shown.map(
      (document) =>
        `<iframe scrolling=no style="display:block;border:0;width:${width}px;height:${HEIGHT}px" srcdoc="${document.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"></iframe>`,
    );
    await page.setContent(`<!doctype html><style>body{margin:0}</style>${frames.join("")}`);
    const picture = await page.screenshot({ animations: "disabled", caret: "hide" });
    const differs = await page.evaluate(
      async ({ png, bare, size }) => {
        const image = new Image();
        image.src = `data:image/png;base64,${png}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, image.width, image.height);
        return bare.map((above, n) => {
          for (let at = n * size; at < (n + 1) * size; at++) {
            if (Math.abs((data[at] ?? 0) - (data[at - above * size] ?? 0)) > 24) return true;
          }
          return false;
        });
      },
      { png: picture.toString("base64"), bare, size: width * HEIGHT * 4 },
    );
    for (const { words, variants } of part) {
      const own = differs.splice(0, variants.length).slice(1);
      seen.push(words.filter((_, n) => own[n]).join(" "));
    }
  }
  return seen;
}

const wordsOf = (text: string): string => (text.match(WORD) ?? []).join(" ");

/** Mail whose words as served, or in its text, are not those that were seen as received. */
async function differences(page: Page, mails: readonly string[], width: number): Promise<unknown[]> {
  const received = await wordsSeen(page, mails.map(asReceived), width);
  const served = await wordsSeen(page, mails.map(asServed), width);
  return mails.flatMap((html, n) => {
    const told = {
      received: received[n],
      served: served[n],
      text: width === WIDE ? wordsOf(visibleHtml(html).text) : received[n],
    };
    return told.received === told.served && told.received === told.text ? [] : { html, ...told };
  });
}

/** Rules of all these kinds, inside each other at random. */
const declarations = fc.constantFrom(
  ..."display:none|display:block|display:revert-layer|color:#fff|color:#333|color:var(--c)|--c:#fff|--c:#333|opacity:0|opacity:1|visibility:hidden|visibility:visible|font-size:0|font-size:15px|transform:scale(0)|transform:none|position:absolute;left:-9999px|position:static|filter:brightness(1)|filter:opacity(0)|clip-path:inset(50%)|clip-path:none|color:oklch(0.3 0 0)|-webkit-text-fill-color:#fff|-webkit-text-fill-color:currentcolor".split(
    "|",
  ),
);
const declared = fc.tuple(declarations, fc.constantFrom("", "", "", "!important")).map(([text, mark]) =>
  text
    .split(";")
    .map((one) => one + mark)
    .join(";"),
);
const simple = fc.constantFrom(
  ".a",
  ".b",
  ".c",
  "p",
  "b",
  "div",
  "#i",
  "*",
  "p.a",
  "b.c",
  ":is(.a,.b)",
  ":where(.c)",
  ":not(.b)",
);
const chosen = fc.oneof(
  { weight: 3, arbitrary: simple },
  fc.tuple(simple, fc.constantFrom(" ", ">"), simple).map((parts) => parts.join("")),
  // A body has a sibling, which is not served.
  fc.tuple(fc.constantFrom(".a", ".b", "p", "b"), fc.constantFrom("+", "~"), simple).map((parts) => parts.join("")),
);
const nested = fc.oneof(
  chosen,
  chosen.map((one) => `& ${one}`),
  chosen.map((one) => `> ${one}`),
  fc.constantFrom("&.b", "&:not(.a)", ".a &", "&", "& + &"),
);
const around = fc.constantFrom(
  "@media screen",
  "@media print",
  "@media (min-width:500px)",
  "@supports (display:flex)",
  "@layer x",
  "@layer y",
  "@layer",
  "@container style(--c:#fff)",
  "@container not style(--c:#333)",
);
const scope = fc.constantFrom("@scope (.a)", "@scope (div) to (.b)", "@scope (.a,p)", "@scope (div)");
const { sheet } = fc.letrec<{ sheet: string; inner: string; block: string }>((tie) => ({
  block: fc
    .tuple(declared, fc.array(tie("inner"), { maxLength: 2 }), fc.option(declared, { nil: "" }))
    .map(([one, inner, other]) => `{${one};${inner.join("")}${other}}`),
  inner: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    declared.map((one) => `${one};`),
    fc.tuple(nested, tie("block")).map((parts) => parts.join("")),
    fc.tuple(around, tie("block")).map((parts) => parts.join("")),
  ),
  sheet: fc
    .array(
      fc.oneof(
        { weight: 2, arbitrary: fc.tuple(chosen, tie("block")).map((parts) => parts.join("")) },
        fc
          .tuple(
            fc.oneof(around, scope),
            fc.array(
              fc.tuple(chosen, tie("block")).map((parts) => parts.join("")),
              { minLength: 1, maxLength: 2 },
            ),
          )
          .map(([at, rules]) => `${at}{${rules.join("")}}`),
        fc.constant("@layer y,x;"),
      ),
      { minLength: 1, maxLength: 4 },
    )
    .map((rules) => rules.join("")),
}));
const trees = [
  "<div class=a>W1<p class=b>W2<b class=c>W3</b></p></div><p id=i>W4</p>",
  "<body>W1<div class=b><p class=a>W2</p><b class=b>W3</b><p>W4</p></div>",
  "<p class='a b'>W1<b>W2</b></p><div class=c style='color:#333'><p class=c>W3</p></div>",
];

describe.skipIf(!chromiumPresent)(`in Chromium${chromiumNote}`, () => {
  test.each(Object.entries(WAYS_OF_HIDING))(
    "the same words are seen as received and as served, and are in the text: %s",
    async (_, mails) => {
      const page = await (await (await openBrowser()).newContext()).newPage();
      expect(await differences(page, mails, WIDE)).toEqual([]);
      const ofWidth = mails.filter((html) => /width|vw/.test(html));
      expect(await differences(page, ofWidth, NARROW)).toEqual([]);
      await page.context().close();
    },
    120_000,
  );

  test("so it is with combinations of rules", async () => {
    const page = await (await (await openBrowser()).newContext()).newPage();
    const sheets = fc.sample(sheet, { numRuns: 80, seed: 7 });
    const mails = sheets.map((css, n) => `<style>${css}</style>${trees[n % trees.length]}`);
    expect(await differences(page, mails, WIDE)).toEqual([]);
    await page.context().close();
  }, 120_000);
});
