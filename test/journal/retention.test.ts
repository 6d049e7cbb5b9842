/** Most entries that the journal keeps, whatever their age (rules: Undo). */
import { expect, test } from "bun:test";
import { forgetOldJournalEntries, getKeyChangesKeptSince } from "../../src/journal/retention.ts";
import { updateThread } from "../../src/mailbox/changing/threads.ts";
import { journalEntries, keyChanges } from "../../src/store/schema.ts";
import { START } from "../harness/runtime.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";

const DAY_MS = 86_400_000;

test("the latest entries and changes are kept, and how far undo reaches back is known", async () => {
  const { alice, receive, core, store, runtime } = createAlice();
  const { threadId } = await receive({});
  const agent = { ...alice, keyId: "key_agent" };
  const most = 100;
  const keptSince = () => getKeyChangesKeptSince(core, most);
  const toggle = (times: number): void => {
    for (let i = 0; i < times; i++) {
      runtime.setBy(1_000);
      updateThread(core, agent, threadId, { starred: i % 2 === 0 });
    }
  };
  toggle(90);
  expect(keptSince()).toBe(runtime.now() - 90 * DAY_MS);
  toggle(60);
  const job = forgetOldJournalEntries(core, most);
  await job.runDue(runtime.now());
  expect(store.db.select().from(journalEntries).all()).toHaveLength(most);
  expect(store.db.select().from(keyChanges).all()).toHaveLength(most);
  expect(keptSince()).toBe(START + 51_000);
});
