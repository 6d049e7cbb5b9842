import { expect, test } from "bun:test";
import { firstMessageId, referencesOf } from "../../src/message/message-id.ts";

test("identifiers keep their angle brackets, and get them where they are missing", () => {
  expect(firstMessageId(" <a@b> (comment)")).toBe("<a@b>");
  expect(firstMessageId("a@b")).toBe("<a@b>");
  expect(firstMessageId("<a\t@b>")).toBe("<a@b>");
  expect(firstMessageId("<a@b")).toBe("<a@b>");
  expect(firstMessageId("Your message of Monday <a@b>")).toBe("<a@b>");
  expect(firstMessageId("no identifier")).toBeUndefined();
  expect(firstMessageId("<>")).toBeUndefined();
  expect(firstMessageId(`<${"x".repeat(2_000)}@b>`)).toBeUndefined();
});

test("references: oldest first, without duplicates, the root and the newest of too many", () => {
  expect(referencesOf("<a@b><c@d> <a@b>,<e@f>")).toEqual(["<a@b>", "<c@d>", "<e@f>"]);
  const many = referencesOf(Array.from({ length: 150 }, (_, i) => `<${i}@x>`).join(" "));
  expect(many.length).toBe(100);
  expect(many[0]).toBe("<0@x>");
  expect(many.at(1)).toBe("<51@x>");
  expect(many.at(-1)).toBe("<149@x>");
});
