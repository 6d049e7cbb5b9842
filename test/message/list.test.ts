/** List-Unsubscribe (RFC 2369 §3.2, RFC 8058), as its sender may have written it. */
import { expect, test } from "bun:test";
import { listUnsubscribeOf } from "../../src/message/list.ts";

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
  expect(listUnsubscribeOf([["LIST-unsubscribe", value]])?.urls ?? []).toEqual(urls);
});

test("one click needs an https: URL and its own field", () => {
  const of = (value: string, ...more: (readonly [string, string])[]) =>
    listUnsubscribeOf([["List-Unsubscribe", value], ...more])?.oneClick;
  expect(of("<https://a.example/>", ONE_CLICK)).toBe(true);
  expect(of("<https://a.example/>")).toBe(false);
  expect(of("<http://a.example/>", ONE_CLICK)).toBe(false);
  expect(of("<mailto:a@a.example>", ONE_CLICK)).toBe(false);
  expect(listUnsubscribeOf([ONE_CLICK])).toBeUndefined();
});
