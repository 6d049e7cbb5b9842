/** How labels of conversations are written. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { createImapFolders } from "../../../src/mailbox/imap/imap-folders.ts";
import { mailFolder } from "../../../src/mailbox/imap/uids.ts";
import { listLabels, listThreadLabels, writeLabels } from "../../../src/mailbox/state/labels.ts";
import { toThreadSeq } from "../../../src/search/document-number.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

async function conversation() {
  const { core, receive, store, box, alice } = createAlice();
  const { seq } = await receive({});
  await createImapFolders(core).opened(box, "inbox");
  const thread = toThreadSeq(seq);
  return {
    write: (labels: readonly string[]) => store.transact((tx) => writeLabels(tx, thread, labels)),
    labels: () => listThreadLabels(store.db, [thread]).get(thread) ?? [],
    inUse: () => listLabels(core, alice, box, 100).map(({ label, threads }) => [label, threads]),
    modseq: () => mailFolder(store.db, box, "inbox")?.modseq ?? 0,
  };
}

const WORDS = ["a", "A", "b", "c", "d", "e"];

test("any labels are there after any others, in their order and spelling", async () => {
  const { write, labels, inUse } = await conversation();
  const some = fc.uniqueArray(fc.constantFrom(...WORDS), { selector: (word) => word.toLowerCase() });
  fc.assert(
    fc.property(some, (given) => {
      write(given);
      expect(labels()).toEqual(given);
      expect(inUse()).toEqual(
        given.toSorted((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1)).map((one) => [one, 1]),
      );
    }),
    { numRuns: 300 },
  );
});

test("one of many that comes, goes or is renamed is one change of the messages, or two", async () => {
  const { write, labels, modseq } = await conversation();
  const many = Array.from({ length: 90 }, (_, i) => `Label ${i}`);
  write(many);
  for (const [next, changes] of [
    [[...many, "One"], 1],
    [many, 1],
    [many.toSpliced(40, 1, "Other"), 2],
    [many.toSpliced(40, 1), 1],
    [many.toSpliced(40, 1), 0],
  ] as const) {
    const before = modseq();
    write(next);
    expect([labels(), modseq() - before]).toEqual([[...next], changes]);
  }
});
