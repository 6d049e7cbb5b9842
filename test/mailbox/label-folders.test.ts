/** The mailboxes of labels, below IMAP. */
import { expect, test } from "bun:test";
import { replaceLabel } from "../../src/mailbox/labels.ts";
import { createUids } from "../../src/mailbox/uids.ts";
import { createAlice } from "../harness/mailbox-world.ts";

/** Conversations of one message each, with those labels. */
async function labelled(...labels: string[][]) {
  const world = createAlice();
  const seqs: number[] = [];
  for (const [i, given] of labels.entries()) {
    const { seq, threadId } = await world.receive({ from: `f${i}@remote.example` });
    world.mailbox.update(world.alice, threadId, { labels: given });
    seqs.push(seq);
  }
  return { ...world, seqs };
}

test("a label that is renamed to one in use while its mail is numbered has the mail of both", async () => {
  const { alice, store, box, runtime, seqs } = await labelled(["A"], ["B"]);
  const { db, enqueue } = store;
  const begun = db.$client.prepare("SELECT 1 FROM imap_labels WHERE label_key = 'a'");
  let isRenamed = false;
  const enqueueLate: typeof enqueue = async (work) => {
    if (begun.get() && !isRenamed) {
      isRenamed = true;
      await replaceLabel(store, alice, { label: "A", replacement: "B", now: runtime.now });
    }
    return enqueue(work);
  };
  await createUids({ store: { db, enqueue: enqueueLate }, now: runtime.now }).opened(box, undefined, "A");
  const uids = createUids({ store, now: runtime.now });
  const { id } = await uids.opened(box, undefined, "B");
  expect(uids.numbered(id).map(({ seq }) => seq)).toEqual(seqs);
});
