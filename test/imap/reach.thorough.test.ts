/** Keys that are revoked while a command changes more messages than one transaction does. */
import { describe, test } from "bun:test";
import { revokedAmidst } from "./revoking.ts";

describe("a key that is revoked in the midst of a command", () => {
  test.each([
    ["MOVE 1:* Labels/Work", "folder = 'archive'", 100],
    ["STORE 1:* +FLAGS (\\Flagged)", "flagged", 100],
    ["EXPUNGE", "folder = 'trash'", 100],
    ["COPY 1:* Archive", "folder = 'archive'", 0],
  ])("ends %s", (command, isChanged, changed) => revokedAmidst(command, isChanged, changed, 101));
});
