/** The tokens of a message, from a bounded part of any message. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readJunkSender } from "../../../src/mailbox/junk/senders.ts";
import { extractJunkTokens, type JunkSource, listSenderJunkTokens } from "../../../src/mailbox/junk/tokens.ts";
import { anyCharacter } from "../../harness/mail/any-character.ts";

const COMPLETE: JunkSource["headers"] = [
  ["From", "x"],
  ["To", "y"],
  ["Date", "z"],
  ["Message-ID", "<1@shop.example>"],
  ["Subject", "s"],
];

function tokens(message: Partial<Omit<JunkSource, "html">> & { html?: string } = {}): string[] {
  const { html, ...parts } = message;
  return extractJunkTokens({
    headers: COMPLETE,
    from: { email: "offers@shop.example" },
    replyTo: [],
    subject: "",
    text: "",
    attachments: [],
    size: 1_000,
    ...parts,
    html: () => html,
  }).split(" ");
}

const CASES: [name: string, message: Parameters<typeof tokens>[0], expected: string[]][] = [
  ["words as search folds them", { text: "Grüße, ＷＯＲＬＤ!" }, ["grusse", "world"]],
  ["words of the subject apart", { subject: "Free money" }, ["subject:free", "subject:money"]],
  ["a script without spaces, by twos", { text: "发票代开" }, ["发票", "票代", "代开"]],
  ["a subject that shouts", { subject: "BUY NOW!" }, ["subject:CAPITALS", "subject:!"]],
  ["a subject with something far behind it", { headers: [["Subject", "Offer        xk3"]] }, ["subject:gap"]],
  ["a mailing list", { headers: [["List-Id", "<dev.lists.example>"]] }, ["header:list-id", "list-id:dev"]],
  ["the program that wrote it", { headers: [["X-Mailer", "MassMail 3"]] }, ["x-mailer:massmail"]],
  ["what honest mail has", { headers: [] }, ["without:date", "without:from", "without:message-id", "without:to"]],
  ["the name it shows", { from: { email: "a@b.example", name: "PayPal Support" } }, ["name:paypal", "name:support"]],
  ["an answer to elsewhere", { replyTo: [{ email: "x@other.example" }] }, ["reply-to:other.example"]],
  ["an answer to the same", { replyTo: [{ email: "x@SHOP.example" }] }, ["reply-to:same"]],
  ["whose Message-ID it has", { messageId: "<1@shop.example>" }, ["message-id:same"]],
  ["a foreign Message-ID", { messageId: "<1@bulk.example>" }, ["message-id:other"]],
  ["domains of links", { text: "http://go.pills.example/x?y" }, ["link:pills.example", "link:go.pills.example"]],
  ["links of the HTML", { html: '<a href="https://A.example/">x</a>' }, ["html", "link:a.example"]],
  ["a link to an address", { text: "http://192.0.2.7:8080/" }, ["link:address", "link::port"]],
  ["a link that pretends", { text: "http://bank.example@evil.example/" }, ["link:@", "link:evil.example"]],
  ["a form", { html: "<form action=x>" }, ["html:form"]],
  ["what is hidden", { html: '<p style="display:none">' }, ["html:hidden"]],
  ["a tracking pixel", { html: '<img src="https://t.example/1.gif" width="1">' }, ["html:image", "html:pixel"]],
  [
    "attachments",
    { attachments: [{ filename: "invoice.PDF.Exe", contentType: "application/x-msdownload" }] },
    ["file:application/x-msdownload", "file:.exe"],
  ],
];

test.each(CASES)("%s", (_, message, expected) => {
  expect(tokens(message)).toEqual(expect.arrayContaining(expected));
});

test("ordinary mail has none of these traits", () => {
  const plain = tokens({ subject: "Lunch tomorrow", text: "At noon?", messageId: "<1@shop.example>" });
  expect(plain.toSorted()).toEqual(
    ["at", "length:4", "message-id:same", "noon", "subject:lunch", "subject:tomorrow"].toSorted(),
  );
});

describe("the sender", () => {
  const from = { email: "Ann@Shop.Example" };
  test("without verdicts", () => {
    expect(listSenderJunkTokens(readJunkSender(from, undefined), undefined)).toEqual([
      "from:ann@shop.example",
      "from:@shop.example",
    ]);
  });

  test("that is spoofed", () => {
    const auth = { spf: "fail", dkim: "none", dmarc: "fail" };
    expect(listSenderJunkTokens(readJunkSender(from, auth), auth)).toEqual([
      "spoofed:ann@shop.example",
      "spoofed:@shop.example",
      "spf:fail",
      "dkim:none",
      "dmarc:fail",
    ]);
  });
});

describe("bounded for any message", () => {
  const words = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `w${i + from}x`).join(" ");

  test("a million distinct words in 8 MB, subject and header as long, ten thousand links and files", () => {
    const text = words(1_000_000);
    const found = tokens({
      text,
      subject: words(10_000),
      headers: Array.from({ length: 1_000 }, (_, i) => ["List-Id", words(100, i * 100)] as const),
      html: Array.from({ length: 10_000 }, (_, i) => `<a href=http://h${i}.d${i}.example/>`).join(""),
      attachments: Array.from({ length: 10_000 }, (_, i) => ({ filename: `a.x${i}`, contentType: `a/b${i}` })),
    });
    expect(found.length).toBeLessThanOrEqual(160);
    expect(found.filter((token) => /^w\d+x$/.test(token)).length).toBeGreaterThan(70);
  });

  test("the HTML of a large message is never read", () => {
    const source = { headers: COMPLETE, replyTo: [], subject: "", text: "", attachments: [] };
    const html = () => {
      throw new Error("asked for");
    };
    expect(extractJunkTokens({ ...source, size: 1_048_577, html })).toBe("length:0");
    expect(() => extractJunkTokens({ ...source, size: 1_048_576, html })).toThrow("asked for");
  });

  const REPEATED = ["<img ", "<img width ", "<font ", "a<!--", "http://", `color:${" ".repeat(300)}`, "<a href=", ". "];
  test.each(REPEATED)("%p repeated many times is fast", (piece) => {
    const html = piece.repeat(1_000_000 / piece.length);
    for (let i = 0; i < 20; i++) expect(tokens({ html, text: html, subject: html }).length).toBeLessThan(100);
  });

  test.each(["color:", "display:", "src=", "<form", "http:"])("%p and a million spaces are fast", (piece) => {
    const text = piece + " ".repeat(1_000_000);
    expect(tokens({ html: text, text, subject: text }).length).toBeLessThan(100);
  });

  test("words after a long beginning are included", () => {
    const spam = tokens({ text: `${words(1_000)} ${words(1_000, 5_000)}` });
    expect(spam.filter((token) => /^w[5-9]\d{3}x$/.test(token)).length).toBeGreaterThan(25);
  });

  test("the selection from a long text does not depend on other words", () => {
    const late = (found: string[]) => new Set(found.filter((token) => /^w9\d{3}x$/.test(token)));
    const one = late(tokens({ text: `${words(500)} ${words(500, 9_000)}` }));
    const other = late(tokens({ text: `${words(500, 2_000)} ${words(500, 9_000)}` }));
    expect(one.intersection(other).size).toBeGreaterThan(one.size / 2);
  });

  test("tokens of any text are distinct, not empty, without spaces, and no word can forge a trait", () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), fc.string({ unit: anyCharacter }), (text, html) => {
        const found = tokens({ text, html });
        expect(new Set(found).size).toBe(found.length);
        expect(found).not.toContain("");
        expect(tokens({ text: `spoofed:x from:y html:form ${text}` })).not.toContain("html:form");
      }),
    );
  });
});
