/**
 * The cost of hostile HTML is at most proportional to its size. Work that multiplies (rules by elements by depth) ends
 * with the message's budget: the HTML is then shown as text, and counts as hidden.
 */
import { describe, expect, test } from "bun:test";
import { textOfHtml } from "../../src/message/layout.ts";
import { createHtmlBudget, OverBudget } from "../../src/message/markup.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { visibleHtml, visibleTextForModel } from "../../src/message/visible.ts";
import { HOSTILE_HTML } from "../harness/mail/hostile-html.ts";
import { expectLinearSteps, expectShownAsText } from "./cost-of-markup.ts";

/** Work grows with the depth, too, until it is the greatest that these have. */
const DEEP = ["unclosed elements", "links inside each other"];

describe("steps grow linearly with a little HTML of", () => {
  test.each(Object.entries(HOSTILE_HTML))("%s", async (name, make) =>
    expectLinearSteps(make, DEEP.includes(name) ? [1_000, 2_000] : [100, 400]),
  );
});

describe("the budget ends work that multiplies", () => {
  test("end tags of nothing that keep the depth from being seen", () =>
    expectShownAsText(`<p>secret${"<b></x>".repeat(2_500)}${"</x>".repeat(90_000)}`));

  test("a spent budget is spent for every part of the message", () => {
    const budget = createHtmlBudget(100);
    expect(() => budget.spend(101)).toThrow(OverBudget);
    expect(() => budget.spend(0)).toThrow(OverBudget);
    expect(sanitizeHtml("<p>a</p>", budget)).toBe('<div style="white-space:pre-wrap">a</div>');
    expect(textOfHtml("<ul><li>a</li></ul>", budget)).toBe("a");
    expect(visibleHtml("<p>a</p>", budget)).toEqual({ html: "", text: "", hidden: 8 });
  });
});

describe("sheets that would keep the browser of their reader busy make text", () => {
  const many = (count: number, rule: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => rule(n)).join("");
  const letters = (count: number) => `<p>${"<i class=a>x</i><b>y</b>".repeat(count)}</p>`;
  const mails: [string, string][] = [
    [
      "any element, by its place",
      `<style>${many(4_000, (n) => `* i:nth-child(${n}n+1){color:red}`)}</style>${letters(5_000)}`,
    ],
    ["siblings", `<style>${many(200, (n) => `b ~ i.q${n} ~ i{color:red}`)}</style>${letters(3_000)}`],
    ["what is inside", `<style>${many(50, (n) => `i:has(~ b.q${n}){color:red}`)}</style>${letters(3_000)}`],
    ["the first of its type", `<style>${many(200, () => "i:last-of-type{color:red}")}</style>${letters(3_000)}`],
    [
      "ancestors",
      `<style>${many(500, (n) => `div div .q${n} i{color:red}`)}</style>${"<div>".repeat(150)}${letters(9_000)}`,
    ],
  ];
  test.each(mails)("%s", (_, html) => {
    expect(sanitizeHtml(html)).toStartWith('<div style="white-space:pre-wrap">');
  });

  test("a long table with the rules of a template keeps them", () => {
    const css =
      "table.lines td{padding:4px} tr:nth-child(even) td{background:#eee} td+td{text-align:right} .a td,.b td,td p{color:#333} " +
      "body,p,div{font-size:14px} #x .y td{color:red} a:hover{color:red} tr:last-child td{border:0} h4~p{margin:0} p:has(img){padding:0}";
    const row = "<tr><td>a</td><td>b</td><td><p>c</p></td></tr>";
    const html = `<style>${css}</style><body>${"<div>".repeat(30)}<table class=lines>${row.repeat(1_500)}</table>`;
    expect(sanitizeHtml(html)).toStartWith("<style>");
  });
});

describe("HTML too large to follow is kept from models and shown to people", () => {
  const mails: [string, string][] = [
    ["of tags", `<p>seen</p><p hidden>secret</p>${"<br>".repeat(100_000)}`],
    ["of style sheets", `<p>seen</p><p hidden>secret</p><style>${"b{color:red}".repeat(100_000)}</style>`],
    ["of characters", `<p>seen</p><p hidden>secret</p>${" ".repeat(4 * 1024 * 1024)}`],
    ["of depth", `<p>seen</p><p hidden>secret</p>${"<b>".repeat(2_001)}`],
  ];
  test.each(mails)("%s", async (_, html) => {
    const message = Buffer.from(`Content-Type: text/html\n\n${html}`);
    const parsed = await parseMessage(message);
    expect(parsed.text.split(/\s+/)).toEqual(["seen", "secret"]);
    expect(sanitizeHtml(html)).toContain("secret");
    expect(visibleTextForModel(parsed.text, html)).toMatchObject({ text: "", fromHtml: true });
    expect(visibleTextForModel("another story", html).hidden).toBeGreaterThan("seensecret".length);
  });
});

describe("hidden text in a long document stays hidden", () => {
  const long = "x".repeat(20_000);
  const documents: [string, string][] = [
    ["a style attribute", `<p style="color:red;--a:${long};display:none">secret</p>seen`],
    ["a rule", `<style>p{--a:${long};display:none}</style><p>secret</p>seen`],
    ["a selector", `<style>p${".a".repeat(1_000)}{display:none}</style><p class=a>secret</p>seen`],
    ["a list of selectors", `<style>${"b,".repeat(5_000)}p{display:none}</style><p>secret</p>seen`],
    ["rules before it", `<style>${".b{color:red}".repeat(5_000)}p{display:none}</style><p>secret</p>seen`],
  ];
  test.each(documents)("%s", (_, html) => {
    expect(visibleHtml(html).text).toBe("seen");
  });
});
