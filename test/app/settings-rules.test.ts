/** Rules in words. */
import { expect, test } from "bun:test";
import {
  describeRuleActions,
  type GivenRule,
  givenRule,
  moveListItem,
} from "../../src/app/pages/settings/settings-rules.ts";
import { senderRuleMatch } from "../../src/app/parts/thread/make-rule.tsx";

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
  expect(moveListItem(["a", "b", "c"], 2, 1)).toEqual(["a", "c", "b"]);
  expect(moveListItem(["a", "b", "c"], 0, 2)).toEqual(["b", "c", "a"]);
});

test("a rule for a sender is a search", () => {
  expect(senderRuleMatch("ann@x.example")).toBe("from:ann@x.example");
  expect(senderRuleMatch('"a b"@x.example')).toBe('from:""a b"@x.example"');
});
