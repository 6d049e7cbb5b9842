/** What a session remembers. */
import { expect, test } from "bun:test";
import { type ImapParts, Session, type Wire } from "../../src/imap/session.ts";

test("it knows the last 50,000 messages that were put under a label, each in its folder", () => {
  const session = new Session({} as ImapParts, {} as Wire, { trace: "t", source: "s", address: undefined });
  for (let uid = 1; uid <= 50_000; uid++) session.noteCopied(1, uid);
  expect([session.wasCopied(1, 1), session.wasCopied(2, 1)]).toEqual([true, false]);
  session.noteCopied(2, 1);
  expect([1, 2, 50_000].map((uid) => session.wasCopied(1, uid))).toEqual([false, true, true]);
  expect(session.wasCopied(2, 1)).toBe(true);
});
