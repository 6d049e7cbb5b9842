/** List-Unsubscribe (RFC 2369 §3.2, RFC 8058), as its sender may have written it. */
import { describe, expect, test } from "bun:test";
import { chooseUnsubscribeWay, mailingListId, readListUnsubscribe } from "../../src/message/mailing-list.ts";

const ONE_CLICK = ["List-Unsubscribe-Post", "List-Unsubscribe=One-Click"] as const;

test.each<[string, string, string[]]>([
  [
    "two URLs",
    "<mailto:leave@list.example?subject=x>, <https://list.example/leave>",
    ["mailto:leave@list.example?subject=x", "https://list.example/leave"],
  ],
  ["folded", "<https://list.example/le\t ave>", ["https://list.example/leave"]],
  ["comments", "(Use this) <http://list.example/x>", ["http://list.example/x"]],
  ["a scheme that runs something", "<javascript:alert(1)>, <data:text/html,x>, <ftp://x.example/>", []],
  ["no brackets", "https://list.example/leave", []],
  ["empty", "", []],
  ["no URL", "<https://>", []],
  ["too long", `<https://list.example/${"x".repeat(3_000)}>`, []],
  [
    "many",
    Array.from({ length: 50 }, (_, i) => `<https://a.example/${i}>`).join(","),
    Array.from({ length: 10 }, (_, i) => `https://a.example/${i}`),
  ],
])("%s", (_, value, urls) => {
  expect(readListUnsubscribe([["LIST-unsubscribe", value]])?.urls ?? []).toEqual(urls);
});

test("one click needs an https: URL and its own field", () => {
  const of = (value: string, ...more: (readonly [string, string])[]) =>
    readListUnsubscribe([["List-Unsubscribe", value], ...more])?.oneClick;
  expect(of("<https://a.example/>", ONE_CLICK)).toBe(true);
  expect(of("<https://a.example/>")).toBe(false);
  expect(of("<http://a.example/>", ONE_CLICK)).toBe(false);
  expect(of("<mailto:a@a.example>", ONE_CLICK)).toBe(false);
  expect(readListUnsubscribe([ONE_CLICK])).toBeUndefined();
});

describe("the way to leave", () => {
  const MAIL = { by: "mail", subject: "unsubscribe", body: "unsubscribe" };
  const cases: [name: string, value: string, way: object | undefined][] = [
    ["prefers a message to a page", "<https://a.example/>, <mailto:b@a.example>", { ...MAIL, to: "b@a.example" }],
    [
      "prefers a secure page",
      "<http://a.example/1>, <https://a.example/2>",
      { by: "link", url: "https://a.example/2" },
    ],
    [
      "has subject and body, decoded once, with plus signs",
      "<mailto:b%2Bc@a.example?SUBJECT=a+b%20%2541&body=1%0D%0A2>",
      { by: "mail", to: "b+c@a.example", subject: "a+b %41", body: "1\n2" },
    ],
    ["takes the first of several addresses", "<mailto:b@a.example,c@a.example>", { ...MAIL, to: "b@a.example" }],
    ["takes no address with further fields", "<mailto:b@a.example%0D%0ABcc:c@a.example>", undefined],
    ["takes no address with a name", "<mailto:B%20%3Cb@a.example%3E>", undefined],
    ["takes no broken escape", "<mailto:b%E0%A4%A@a.example>", undefined],
    ["goes on after a broken one", "<mailto:b>, <mailto:c@a.example>", { ...MAIL, to: "c@a.example" }],
  ];
  for (const [name, value, way] of cases) {
    test(name, () => expect(chooseUnsubscribeWay([["List-Unsubscribe", value]], true)).toEqual(way as never));
  }

  test("is one click only with a signature", () => {
    const headers = [["List-Unsubscribe", "<https://a.example/>, <mailto:b@a.example>"], ONE_CLICK] as const;
    expect(chooseUnsubscribeWay(headers, true)).toEqual({ by: "post", url: "https://a.example/" });
    expect(chooseUnsubscribeWay(headers, false)).toEqual({ ...MAIL, to: "b@a.example" } as never);
  });
});

test("a list is known by its id, else by its sender", () => {
  expect(mailingListId([["List-ID", "My <b> list <A.Example>"]], "B@x.example")).toBe("a.example");
  expect(mailingListId([["List-Id", "nothing"]], "B@x.example")).toBe("b@x.example");
  expect(mailingListId([["List-Id", `<${"a".repeat(999)}>`]], "b@x.example")).toHaveLength(300);
});
