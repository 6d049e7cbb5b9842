/** Rules in words. */
import { expect, test } from "bun:test";
import { describeRuleActions, type GivenRule, givenRule, moved } from "../../src/app/pages/settings/settings-rules.ts";
import { ruleFor } from "../../src/app/parts/thread/make-rule.tsx";

const rule = (...actions: GivenRule["actions"]): GivenRule => ({ match: "ann", actions });

test("a rule is the end of a sentence", () => {
  expect(describeRuleActions(rule({ type: "star" }))).toBe("star it");
  expect(describeRuleActions(rule({ type: "label", label: "News" }, { type: "archive" }))).toBe(
    "label it News and keep it out of the inbox",
  );
  expect(describeRuleActions(rule({ type: "star" }, { type: "trash" }, { type: "forward", to: "bob@x.example" }))).toBe(
    "star it, move it to trash and forward it to bob@x.example",
  );
});

test("a rule is sent without what the server says about it", () => {
  const actions = [{ type: "forward" as const, to: "bob@x.example", stopped: "The setting is off" }];
  expect(givenRule({ match: "ann", actions, enabled: false, notes: ["fro: is no operator"] })).toEqual({
    match: "ann",
    actions: [{ type: "forward", to: "bob@x.example" }],
    enabled: false,
  });
});

test("a rule moves in the list", () => {
  expect(moved(["a", "b", "c"], 2, 1)).toEqual(["a", "c", "b"]);
  expect(moved(["a", "b", "c"], 0, 2)).toEqual(["b", "c", "a"]);
});

test("a rule for a sender is a search", () => {
  expect(ruleFor("ann@x.example")).toBe("from:ann@x.example");
  expect(ruleFor('"a b"@x.example')).toBe('from:""a b"@x.example"');
});
