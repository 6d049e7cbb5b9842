/** Commands that Ctrl+K finds by name (app/lib/commands.ts). */
import { expect, test } from "bun:test";
import { type Command, commandsFor, rankMatch } from "../../src/app/lib/commands.ts";

test.each([
  ["Archive", "arch", 0],
  ["Reply to all", "all", 1],
  ["Reply to all", "re all", 1],
  ["Straße", "strasse", undefined],
  ["Rechnungen für Zoë", "zoe", 1],
  ["storage.mailboxBytes", "mailbox", 1],
  ["Snoozed", "ooz", 2],
  ["Snoozed", "zoo", undefined],
  ["Snoozed", "", 0],
])("%s is found by %j: %p", (text, typed, score) => {
  expect(rankMatch(text, typed)).toBe(score as number);
});

test("names come before other words, beginnings before what is inside, and equals stay in order", () => {
  const command = (name: string, words?: string): Command => ({
    name,
    group: "Actions",
    run: () => {},
    ...(words !== undefined && { words }),
  });
  const commands = [
    command("Move to trash", "delete"),
    command("Undelete"),
    command("Delete label"),
    command("Delete draft"),
  ];
  const found = commandsFor(commands, "delete", 10).map(({ name }) => name);
  expect(found).toEqual(["Delete label", "Delete draft", "Undelete", "Move to trash"]);
  expect(commandsFor(commands, "delete", 2)).toHaveLength(2);
});
