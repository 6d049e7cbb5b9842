/** A forwarded message: one header block that no value can break, then its text or HTML. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { type ForwardedMessage, forwardedHtml, forwardedText, forwardSubject } from "../../src/message/composition.ts";
import { anyCharacter } from "../harness/any-character.ts";
import { dangersIn } from "../harness/dangers.ts";

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

test("text: the block without empty fields, and the text unchanged", () => {
  expect(forwardedText(MAIL)).toBe(`\n\n${BLOCK.join("\n")}\n\nHello\n> before`);
});

test("html: the same, and the HTML, or the text where there is none", () => {
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

test("the HTML of any forwarded message is safe", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.string(), (html, subject) => {
      const forwarded = forwardedHtml({ ...MAIL, html: `<table><td>${html}`, subject });
      expect(dangersIn(forwarded)).toEqual([]);
    }),
    { numRuns: 15 },
  );
});
