/** Rules and absences at the command line. */
import { expect, test } from "bun:test";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";

test("rules are set, shown and tried", async () => {
  const { ask, say } = openTerminal();
  const { address } = await ask<{ address: string }>(...SETUP);
  const list = [{ match: "from:ann", actions: [{ type: "star" }] }];
  const workspace = expect.any(String);
  const rules = [{ ...list[0], enabled: true }];
  expect(await ask("rule", "set", address, JSON.stringify(list))).toEqual({ rules, workspace });
  expect(await ask("rule", "show", address)).toEqual({ rules, workspace });
  expect(await ask("rule", "test", address, "from:ann")).toEqual({ threads: 0, more: false, workspace });
  const wrong = await say("rule", "set", address, "star everything");
  expect([wrong.exitCode, wrong.stderr]).toEqual([2, expect.stringContaining("no JSON")]);
  const bad = await say("rule", "set", address, '[{"match": "before:soon", "actions": [{"type": "star"}]}]');
  expect([bad.exitCode, bad.stderr]).toEqual([1, expect.stringContaining("match")]);
  const outside = await say(
    "rule",
    "set",
    address,
    '[{"match": "ann", "actions": [{"type": "forward", "to": "a@b.example"}]}]',
  );
  expect([outside.exitCode, outside.stderr]).toEqual([1, expect.stringContaining("rules.forwardOutside")]);
  await ask("settings", "set", "rules.forwardOutside", "true");
  expect(
    await ask("rule", "set", address, '[{"match": "ann", "actions": [{"type": "forward", "to": "a@b.example"}]}]'),
  ).toMatchObject({ rules: [{ actions: [{ to: "a@b.example" }] }] });
});

test("an absence is set, shown and ended", async () => {
  const { ask } = openTerminal();
  const { address } = await ask<{ address: string }>(...SETUP);
  const [from, until] = ["2090-01-01T00:00:00.000Z", "2090-02-01T00:00:00.000Z"];
  const absence = { from, until, text: "Away" };
  const workspace = expect.any(String);
  expect(await ask("absence", "set", address, "--from", from, "--until", until, "--text", "Away")).toEqual({
    ...absence,
    workspace,
  });
  expect(await ask("absence", "show", address)).toEqual({ ...absence, workspace });
  expect(await ask("absence", "end", address)).toEqual({ from: null, until: null, text: null, workspace });
});
