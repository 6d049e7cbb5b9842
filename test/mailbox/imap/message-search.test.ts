/** Messages are looked through in as many steps as their texts take, and the steps together find what one finds. */
import { expect, test } from "bun:test";
import {
  createMarks,
  hasMark,
  lookThrough,
  type MessageKey,
  setMark,
} from "../../../src/mailbox/imap/message-search.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const KEYS: MessageKey[] = [
  { key: "body", text: "plum" },
  {
    key: "or",
    of: [
      { key: "envelope", field: "subject", text: "3" },
      { key: "body", text: "quince" },
    ],
  },
  {
    key: "and",
    of: [
      { key: "marks", at: 0 },
      { key: "not", of: { key: "body", text: "plum" } },
    ],
  },
  { key: "not", of: { key: "anywhere", text: "remote.example" } },
  { key: "within", seconds: 60, younger: true },
];

test("each step looks at something, and marks the rest", async () => {
  const { core, alice, receive } = createAlice();
  const seqs: number[] = [];
  for (let n = 0; n < 30; n++) {
    const { seq } = await receive({
      subject: `Subject ${n}`,
      text: `${n % 3 === 0 ? "plum" : "quince"} ${"x ".repeat(n * 100)}`,
    });
    seqs.push(seq);
  }
  const odd = createMarks(seqs.length);
  for (const i of seqs.keys()) if (i % 2 === 1) setMark(odd, i);
  const listMarked = (marks: typeof odd, of: readonly number[]) => of.filter((_, i) => hasMark(marks, i));
  for (const key of KEYS) {
    const search = { key, userId: alice.userId };
    const whole = await lookThrough(core, { ...search, seqs, marks: [odd] });
    expect(listMarked(whole.rest, seqs)).toEqual([]);
    const found: number[] = [];
    let steps = 0;
    for (let left = seqs; left.length > 0; steps++) {
      const marks = createMarks(left.length);
      for (const [i, seq] of left.entries()) if (hasMark(odd, seqs.indexOf(seq))) setMark(marks, i);
      const {
        found: some,
        open,
        rest,
      } = await lookThrough(core, { ...search, seqs: left, marks: [marks] }, { most: 1 });
      expect(listMarked(open, left)).toEqual([]);
      found.push(...listMarked(some, left));
      const remaining = listMarked(rest, left);
      expect(remaining.length).toBeLessThan(left.length);
      left = remaining;
    }
    expect(found.sort((a, b) => a - b)).toEqual(listMarked(whole.found, seqs));
    expect(steps).toBeLessThanOrEqual(seqs.length);
  }
});

test("what has to be composed stays open without octets", async () => {
  const { core, alice, receive } = createAlice();
  const { seq } = await receive({ subject: "One" });
  const keys: MessageKey[] = [
    { key: "size", relation: "larger", bytes: 1 },
    { key: "header", name: "Received", text: "mx" },
  ];
  for (const key of keys) {
    const { found, open, rest } = await lookThrough(core, { key, marks: [], seqs: [seq], userId: alice.userId });
    expect([found, open, rest].map((marks) => hasMark(marks, 0))).toEqual([false, true, false]);
  }
});
