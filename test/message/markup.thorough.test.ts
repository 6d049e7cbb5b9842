/** The cost of hostile HTML in large sizes, with whole budgets, and of real mail. markup.test.ts has small sizes. */
import { describe, expect, test } from "bun:test";
import { createHtmlBudget } from "../../src/message/markup.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { visibleHtml, visibleTextForModel } from "../../src/message/visible.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { HOSTILE_HTML } from "../harness/mail/hostile-html.ts";
import { expectLinearSteps, expectShownAsText } from "./cost-of-markup.ts";

describe("steps grow linearly with the HTML of", () => {
  test.each(Object.entries(HOSTILE_HTML))("%s", async (_, make) => expectLinearSteps(make, [1_000, 4_000]));
});

describe("the budget ends work that multiplies", () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => `c${index}`).join(" ");
  const mails: [string, string][] = [
    [
      "rules by elements",
      `<style>${"u * b{display:none}\n".repeat(20_000)}</style><u><i>${"<b>secret</b>".repeat(5_000)}</i></u>`,
    ],
    [
      "rules by elements by classes",
      `<style>${Array.from({ length: 2_000 }, (_, i) => `.a${".c1".repeat(9)}.b${i}{display:none}`).join("")}</style>${`<p class="a ${names(400)}">secret</p>`.repeat(1_000)}`,
    ],
    [
      "attribute selectors by elements by the attribute",
      `<style>${"[title~=x]{display:none}".repeat(2_000)}</style>${`<p title="${"ab ".repeat(1_000)}">secret</p>`.repeat(400)}`,
    ],
    ["depth by end tags", `<p>secret${"<b>".repeat(1_990)}${"</x>".repeat(97_000)}`],
    [
      "end tags of nothing that keep the depth from being seen",
      `<p>secret${"<b></x>".repeat(2_500)}${"</x>".repeat(90_000)}`,
    ],
  ];
  test.each(mails)("%s", (_, html) => expectShownAsText(html));
});

test("hidden text behind a long sheet stays hidden", () => {
  const html = `<style>${"b{color:red}".repeat(60_000)}p{display:none}</style><p>secret</p>seen`;
  expect(visibleHtml(html).text).toBe("seen");
});

test.skipIf(!corpusPresent)(`no real mail takes a twentieth of its budget${corpusNote}`, async () => {
  let most = 0;
  for (const { bytes } of corpusFiles()) {
    const budget = createHtmlBudget();
    const { text, html } = await parseMessage(bytes, budget);
    if (html === undefined) continue;
    sanitizeHtml(html, budget);
    visibleTextForModel(text, html, budget);
    most = Math.max(most, budget.spent);
  }
  expect(most).toBeGreaterThan(1_000_000);
  expect(() => createHtmlBudget().spend(20 * most)).not.toThrow();
});
