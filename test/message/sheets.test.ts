/** The rules of sheets as they are served: nested ones are ordinary ones, and layers, scopes and conditions stay (mail that is sent). */
import { describe, expect, test } from "bun:test";
import { parseColor } from "../../src/message/color.ts";
import { parseColorFilter } from "../../src/message/colour-filter.ts";
import { evaluateCssCondition } from "../../src/message/condition.ts";
import { createHtmlBudget, OverBudget } from "../../src/message/markup.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { readStyleSheets } from "../../src/message/sheets.ts";
import { visibleHtml } from "../../src/message/visible.ts";
import { expectLinear } from "../harness/growth.ts";

const served = (css: string): string =>
  /<style>([^<]*)<\/style>/.exec(sanitizeHtml(`<style>${css}</style><p>x`, createHtmlBudget(), "recipient"))?.[1] ?? "";

describe("nested rules are served as ordinary ones", () => {
  test.each([
    [".a{& .b{color:red}}", ".a .b{color:red}"],
    [".a{.b{color:red}}", ".a .b{color:red}"],
    [".a{>.b{color:red}}", ".a>.b{color:red}"],
    [".a{&.b,&:hover{color:red}}", ".a.b,.a:hover{color:red}"],
    [".a{.b &{color:red}}", ".b :is(.a){color:red}"],
    [".a .b{&+&{color:red}}", ".a .b+:is(.a .b){color:red}"],
    [".a,#b{p{color:red}}", ":is(.a,#b) p{color:red}"],
    [".a{color:red;.b{color:blue}margin:1px}", ".a{color:red}.a .b{color:blue}.a{margin:1px}"],
    [".a{@media screen{color:red;p{color:blue}}}", "@media screen{.a{color:red}.a p{color:blue}}"],
    [".a{.b{.c{.d{.e{color:red}}}}}", ".a .b .c .d .e{color:red}"],
    [".a{p:hover{color:red}}", ".a p:hover{color:red}"],
    [".a{--x:{b:c};color:red}", ".a{color:red}"],
    [".a{color:red .b{color:blue}}", ""],
    [".a{.b,:nosuch(x){color:red}color:blue}", ".a{color:blue}"],
    ["&{color:red}", ":root{color:red}"],
    [".a{&p{color:red}}", ""],
    [".a{p&{color:red}}", "p:is(.a){color:red}"],
  ])("%s", (css, expected) => expect(served(css)).toBe(expected));
});

describe("at-rules", () => {
  test.each([
    ["@layer a{p{color:red}}p{color:blue}", "@layer layer-1;@layer layer-1{p{color:red}}p{color:blue}"],
    ["@layer b,a;@layer a{p{color:red}}", "@layer layer-1,layer-2;@layer layer-2{p{color:red}}"],
    [
      "@layer a{@layer b{p{color:red}}p{color:blue}}",
      "@layer layer-1,layer-2;@layer layer-1{p{color:red}}@layer layer-2{p{color:blue}}",
    ],
    ["@layer a.b{p{color:red}}", "@layer layer-1,layer-2;@layer layer-1{p{color:red}}"],
    ["@scope (.a) to (.b){p{color:red}}", "@scope (.a) to (:where(:scope) .b){:where(:scope) p{color:red}}"],
    ["@scope (.a){:scope{color:red}>p{color:blue}}", "@scope (.a){:scope{color:red}:where(:scope)>p{color:blue}}"],
    ["@scope (.a,:nosuch){p{color:red}}", ""],
    ["@container (min-width:10px){p{color:red}}", "@container (min-width:10px){p{color:red}}"],
    ["@container card style(--x:red){p{color:red}}", "@container card style(--x:red){p{color:red}}"],
    ["@container (1px <= width<9px){p{color:red}}", "@container (9px>width>=1px){p{color:red}}"],
    ["@container (width</style>){p{color:red}}", ""],
    ["@container (min-width:10px)}p{color:red}{p{color:red}}", ""],
    ["@container url(x){p{color:red}}", "@container url(x){p{color:red}}"],
    [
      "@supports (display:grid) and (not (display:nosuch)){p{color:red}}",
      "@supports (display:grid) and (not (display:nosuch)){p{color:red}}",
    ],
    ["@supports (background:url('x')){p{color:red}}", ""],
    ["p{@media print{color:red}}", "@media print{p{color:red}}"],
    ["@starting-style{p{color:red}}@property --x{syntax:'*'}", ""],
  ])("%s", (css, expected) => expect(served(css)).toBe(expected));
});

test("conditions are true, false or unknown, as their features are", () => {
  const of = (condition: string) =>
    evaluateCssCondition(condition, (feature) => ({ t: true, f: false })[feature.trim()]);
  expect(of("(t)")).toBe(true);
  expect(of("not (t)")).toBe(false);
  expect(of("(t) and (f)")).toBe(false);
  expect(of("(u) and (f)")).toBe(false);
  expect(of("(u) or (t)")).toBe(true);
  expect(of("(u) and (t)")).toBeUndefined();
  expect(of("((f) or (not (f))) and (t)")).toBe(true);
  expect(of("(t) (t)")).toBeUndefined();
  expect(of("(t) and")).toBeUndefined();
  expect(of("(".repeat(400))).toBeUndefined();
});

test("colours in all forms of CSS", () => {
  expect(parseColor("oklch(0.7 0.1 200)")).toEqual(parseColor("oklch(70% 0.1 200)"));
  expect(parseColor("oklab(1 0 0)")).toEqual([255, 255, 255, 1]);
  expect(parseColor("lab(100 0 0)")).toEqual([255, 255, 255, 1]);
  expect(parseColor("color(srgb 1 0 0)")).toEqual([255, 0, 0, 1]);
  expect(parseColor("color-mix(in srgb,white,black)")).toEqual([128, 128, 128, 1]);
  expect(parseColor("light-dark(rgb(1,2,3),white)")).toEqual([1, 2, 3, 1]);
  expect(parseColor("graytext")).toEqual([128, 128, 128, 1]);
  expect(parseColor("rgb(from red r g b / 0)")).toEqual([255, 0, 0, 0]);
  expect(parseColor("currentcolor")).toBeUndefined();
  expect(parseColor("color(nosuch 1 1 1)")).toBeUndefined();
  expect(parseColor("nosuch")).toBe("invalid");
  expect(parseColor("red blue")).toBe("invalid");
});

test("filters change colours, or hide", () => {
  const of = (value: string) => {
    const read = parseColorFilter(value);
    return read === "hidden" ? read : [...read.filter([51, 102, 255, 1]).slice(0, 3).map(Math.round), read.opacity];
  };
  expect(of("none")).toBe("hidden");
  expect(of("")).toEqual([51, 102, 255, 1]);
  expect(of("brightness(0)")).toEqual([0, 0, 0, 1]);
  expect(of("brightness(50%) opacity(.5)")).toEqual([26, 51, 128, 0.5]);
  expect(of("contrast(0)")).toEqual([128, 128, 128, 1]);
  expect(of("invert()")).toEqual([204, 153, 0, 1]);
  expect(of("grayscale(1)")).toEqual([102, 102, 102, 1]);
  expect(of("blur(2px) hue-rotate(90deg)")).toEqual([51, 102, 255, 1]);
  expect([of("blur(9px)"), of("url(#x)"), of("nosuch(1)"), of("brightness(x)")]).toEqual(Array(4).fill("hidden"));
});

describe("work is bounded", () => {
  const nests: [string, (size: number) => string][] = [
    ["nested rules beside each other", (size) => `.a{${".b{color:red}&.c{margin:0}".repeat(size)}}`],
    ["lists of selectors around", (size) => `${".a,".repeat(size)}.b{& &{color:red}}`],
    ["layers", (size) => Array.from({ length: size }, (_, n) => `@layer a${n}{p{color:red}}`).join("")],
    ["scopes", (size) => Array.from({ length: size }, (_, n) => `@scope (.a${n}){p{color:red}}`).join("")],
    ["custom properties", (size) => Array.from({ length: size }, (_, n) => `.a{--x${n}:var(--x${n + 1})}`).join("")],
    ["conditions", (size) => "@container (min-width:1px) and (not (width>9px)){p{display:none}}".repeat(size)],
  ];
  test.each(nests)("steps grow linearly with %s", async (_, make) => {
    const stepsOf = (html: string): number => {
      const budget = createHtmlBudget(Number.POSITIVE_INFINITY);
      sanitizeHtml(html, budget);
      visibleHtml(html, budget);
      return budget.spent;
    };
    const html = (size: number) => `<style>${make(size)}</style><p class=a>x</p>`;
    await expectLinear({ make: html, steps: stepsOf, sizes: [400, 800] });
  });

  test("selectors that multiply are refused", () => {
    const css = `.a${"{:is(&,.b) :is(&,.c) &".repeat(12)}{color:red}${"}".repeat(12)}`;
    expect(() => readStyleSheets(`<style>${css}</style>`, createHtmlBudget())).toThrow(OverBudget);
    const html = `<style>${css}</style><p hidden>secret</p>seen`;
    expect(visibleHtml(html).text).toBe("");
  });

  test("custom properties that multiply end", () => {
    const css = Array.from({ length: 30 }, (_, n) => `--x${n}:var(--x${n + 1}) var(--x${n + 1});`).join("");
    expect(visibleHtml(`<style>p{${css}--x30:a;display:var(--x0)}</style><p>seen</p>`).text).toBe("seen");
    const cycle = "--a:var(--b) var(--b);--b:var(--a) var(--a);";
    expect(visibleHtml(`<style>p{${cycle}display:none;display:var(--a)}</style><p>seen</p>`).text).toBe("seen");
  });
});
