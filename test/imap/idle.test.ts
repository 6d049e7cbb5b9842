/** IDLE of an app that reads slowly. */
import { expect, test } from "bun:test";
import { runImapIdle } from "../../src/imap/commands/idle.ts";
import { Parser } from "../../src/imap/grammar.ts";
import type { ImapSession } from "../../src/imap/session.ts";

test("a change that comes while an app is told of others is told, too", async () => {
  const [reads, done, begins] = [0, 1, 2].map(() => Promise.withResolvers<void>());
  let changes = 1;
  let told = 0;
  const session = {
    caller() {},
    wire: { write: async () => {}, line: () => done?.promise.then(() => "DONE") },
    async tellChanges() {
      const now = changes;
      begins?.resolve();
      await reads?.promise;
      told = now;
    },
  } as unknown as ImapSession;
  let look = (): void => {};
  const idling = runImapIdle(session, new Parser({ text: "", literals: new Map() }), (wake) => {
    look = wake;
    return () => {};
  });
  await begins?.promise;
  changes = 2;
  look();
  reads?.resolve();
  done?.resolve();
  await idling;
  expect(told).toBe(2);
});
