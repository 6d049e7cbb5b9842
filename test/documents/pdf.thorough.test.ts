import { expect, test } from "bun:test";
import { extracted, linesOf, pagesOfText, pdf } from "../harness/mail/documents.ts";

test("a PDF of 5,000 pages has the first million characters; one with little on its pages the first 2,000", async () => {
  const long = await extracted(pdf(pagesOfText(5_000)));
  expect(long.text).toHaveLength(1_000_000);
  expect(long.notes).toEqual(["Left out: what follows the first 1000000 characters."]);
  const short = await extracted(pdf(Array.from({ length: 2_005 }, (_, i) => linesOf([`p${i + 1}.`]))));
  expect(short.notes).toEqual(["Left out: pages 2001 to 2005."]);
  expect(short.text).toContain("--- page 2000 of 2005 ---\np2000.\n");
}, 60_000);
