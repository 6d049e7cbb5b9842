import { describe, expect, test } from "bun:test";
import { CODE_MASK, type CodedPart, LINK_MASK, maskCodes, mayFindCode } from "../../src/message/codes.ts";
import { type Layout, OTHER_MAIL, SIGN_IN_MAIL } from "./transactional-mail.ts";

const partsOf = ({ subject, text, html }: Layout): CodedPart[] => [
  { content: subject },
  ...(text === undefined ? [] : [{ content: text }]),
  ...(html === undefined ? [] : [{ content: html, html: true }]),
];

const masked = (parts: CodedPart[]): string[] => maskCodes(parts).contents;
const again = (parts: CodedPart[]): CodedPart[] =>
  masked(parts).map((content, i) => ({ ...(parts[i] as CodedPart), content }));

/** The text of HTML, as far as a secret could be read in it. */
const readable = (content: string): string => `${content}\n${content.replace(/<[^>]*>|\s/g, "")}`;

describe("mail that signs people in", () => {
  test.each(SIGN_IN_MAIL.map((layout) => [layout.name, layout] as const))("%s", (_, layout) => {
    const contents = masked(partsOf(layout));
    for (const secret of layout.secrets) {
      for (const content of contents) expect(readable(content)).not.toContain(secret);
    }
    expect(contents.join()).toMatch(/\[(?:code|link) hidden\]/);
    expect(masked(again(partsOf(layout)))).toEqual(contents);
  });
});

describe("other mail stays as it is", () => {
  test.each(OTHER_MAIL.map((layout) => [layout.name, layout] as const))("%s", (_, layout) => {
    const parts = partsOf(layout);
    expect(masked(parts)).toEqual(parts.map(({ content }) => content));
  });
});

test("what is found in one part is masked in all", () => {
  const { contents, codes } = maskCodes([
    { content: "Welcome, 482913" },
    { content: "Your login code is 482 913." },
    { content: '<p data-x="482913">482913</p>', html: true },
    { content: "a_482913.txt" },
    { content: "We look forward to it. Your number is 4829…" },
  ]);
  expect(contents).toEqual([
    `Welcome, ${CODE_MASK}`,
    `Your login code is ${CODE_MASK}.`,
    `<p data-x="${CODE_MASK}">${CODE_MASK}</p>`,
    `a_${CODE_MASK}.txt`,
    `We look forward to it. Your number is ${CODE_MASK}…`,
  ]);
  expect(maskCodes([{ content: "482913.pdf" }], codes).contents).toEqual([`${CODE_MASK}.pdf`]);
});

test("a mask tells nothing of what it hides", () => {
  const of = (code: string) => masked([{ content: "" }, { content: `Your code: ${code}` }])[1];
  expect(of("1234")).toBe(of("1234567890"));
  const link = (token: string) => masked([{ content: "" }, { content: `https://a.example/login?token=${token}` }])[1];
  expect(link("abcd1234")).toBe(LINK_MASK);
  expect(link("abcd1234".repeat(20))).toBe(LINK_MASK);
});

test("HTML keeps its markup, without comments and scripts", () => {
  const html =
    '<div class="a"><!-- 482913 --><p>Your code:</p><b>48</b><i>2913</i><script>x("482913")</script><a href="/login">x</a></div>';
  expect(masked([{ content: "" }, { content: html, html: true }])[1]).toBe(
    `<div class="a"><p>Your code:</p><b>${CODE_MASK}</b><i></i><a href="/login">x</a></div>`,
  );
});

test("addresses with a name and password, and links in every attribute, are credentials", () => {
  const of = (html: string) => masked([{ content: "" }, { content: html, html: true }])[1];
  expect(of('<a href="https://ann:secret@a.example/">x</a>')).toBe(`<a href="${LINK_MASK}">x</a>`);
  expect(of("<form action=//a.example/reset?t=abc123def><img src='https://a.example/verify/abc123def/x'>")).toBe(
    `<form action="${LINK_MASK}"><img src="${LINK_MASK}">`,
  );
});

test("a search for a code or a link is known as one", () => {
  for (const text of ["482913", "4", "G-12", "WDJB-MJHT", "https://a.example/x", "４８", "abc1"]) {
    expect(mayFindCode(text)).toBe(true);
  }
  for (const text of ["invoice", "IKEA", "ann@example.com", "well-known", "验证码"])
    expect(mayFindCode(text)).toBe(false);
});

/** A generator of numbers that is the same in every run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

const PIECES = [
  ..."Your code is|482913|771 204|2026|verify|https://a.example/login?token=abc123def456|https://a.example/x|sign in|PIN|:".split(
    "|",
  ),
  ..."G-384756|WDJB-MJHT|a1b2c3|order|number|1 2 3 4 5 6|\n|\n\n|, |. |[code hidden]|[link hidden]|验证码|是|expires|and|a".split(
    "|",
  ),
  ..."4 8 2 9|12 34 56|<b>|</b>|<p>|<td>|&nbsp;|&#52;|<a href='https://a.example/reset/abc123def456'>|</a>|€|12:30".split(
    "|",
  ),
];

test("masked mail has nothing left to mask, of any words", () => {
  const random = randomFrom(7);
  for (let run = 0; run < 3_000; run++) {
    const words = Array.from({ length: 1 + random(25) }, () => PIECES[random(PIECES.length)]);
    const content = words.join(random(2) === 0 ? " " : "");
    const parts = [{ content: PIECES[random(PIECES.length)] as string }, { content, html: random(2) === 0 }];
    const contents = masked(parts);
    expect([content, masked(parts.map((part, i) => ({ ...part, content: contents[i] as string })))]).toEqual([
      content,
      contents,
    ]);
    // Every mask stands for four characters at least.
    expect(contents.join("").length).toBeLessThanOrEqual(4 * parts.map((part) => part.content).join("").length + 40);
  }
});
