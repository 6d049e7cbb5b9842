/** Whatever a key, another key, a person and new mail do in turn, undo returns each field to what the key found (rules: Undo). */
import { expect, test } from "bun:test";
import { asc, eq } from "drizzle-orm";
import fc from "fast-check";
import type { Caller } from "../../../src/access/caller.ts";
import type { ThreadChange } from "../../../src/mailbox/changing/change.ts";
import { changeThreads, getThread } from "../../../src/mailbox/changing/threads.ts";
import { undoKeyChanges } from "../../../src/mailbox/changing/undo.ts";
import { messages, threads } from "../../../src/store/schema.ts";
import { runs } from "../../harness/runs.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const MINUTE_MS = 60_000;
const LABELS = ["A", "B", "C"];
const THREADS = 3;
const KEYS = ["key_one", "key_two"] as const;
type Actor = (typeof KEYS)[number] | "person" | "mail";

const folder = fc.constantFrom("inbox" as const, "archive" as const, "trash" as const, "spam" as const);
const someLabels = fc.subarray(LABELS);
const change = fc.oneof(
  fc.record({ folder }),
  fc.record({ starred: fc.boolean() }),
  fc.record({ unread: fc.boolean() }),
  fc.record({ labels: someLabels }),
  fc.record({ addLabels: someLabels, removeLabels: someLabels }),
  fc.record({ snoozedUntil: fc.constantFrom(null, 9_000_000_000_000) }),
  fc.record({ folder, starred: fc.boolean(), unread: fc.boolean(), labels: someLabels }),
);
const thread = fc.nat(THREADS - 1);
const actor = fc.constantFrom<Actor>("key_one", "key_one", "key_one", "key_two", "person");
const step = fc.oneof(
  { weight: 10, arbitrary: fc.record({ kind: fc.constant("change" as const), thread, actor, change }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("mail" as const), thread }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("undo" as const), key: fc.constantFrom(...KEYS), back: fc.nat(15) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** A field as the model knows it: its value, and what was done to it and not undone. */
interface Field<T> {
  value: T;
  /** `before` is absent for a confirmation. */
  past: { actor: Actor; at: number; before?: { value: T } }[];
}

interface Conversation {
  folder: Field<string>;
  starred: Field<boolean>;
  /** Which messages are read, in order. */
  unread: Field<boolean[]>;
  labels: Map<string, Field<boolean>>;
}

const field = <T>(value: T): Field<T> => ({ value, past: [] });

function set<T>(one: Field<T>, by: Actor, at: number, value: T, isSame: boolean): void {
  const last = one.past.at(-1);
  if (!isSame) one.past.push({ actor: by, at, before: { value: structuredClone(one.value) } });
  else if (last?.actor !== by) one.past.push({ actor: by, at });
  one.value = value;
}

/** Returns whether the field changed. */
function takeBack<T>(one: Field<T>, by: Actor, since: number, restore: (before: T) => T = (before) => before): boolean {
  let target: { value: T } | undefined;
  for (let last = one.past.at(-1); last?.actor === by && last.before && last.at >= since; last = one.past.at(-1)) {
    target = last.before;
    one.past.pop();
  }
  if (!target) return false;
  const value = restore(target.value);
  const changed = !Bun.deepEquals(value, one.value);
  one.value = value;
  return changed;
}

async function play(steps: readonly Step[]): Promise<void> {
  const { alice, receive, core, store, runtime, workspaceId } = createAlice();
  const ids: string[] = [];
  for (let i = 0; i < THREADS; i++) {
    const filed = await receive({ messageId: `<${i}@x>`, subject: `Subject ${i}`, from: `first-${i}@remote.example` });
    ids.push(filed.threadId);
  }
  const model = ids.map(
    (): Conversation => ({
      folder: field("inbox"),
      starred: field(false),
      unread: field([false]),
      labels: new Map(LABELS.map((label) => [label, field(false)])),
    }),
  );
  const callerOf = (by: Actor): Caller => (by === "person" ? alice : { ...alice, keyId: by });

  function actual(i: number) {
    const row = store.db
      .select()
      .from(threads)
      .where(eq(threads.id, ids[i] as string))
      .get();
    if (!row) throw new Error("the conversation is gone");
    const read = store.db
      .select()
      .from(messages)
      .where(eq(messages.threadSeq, row.seq))
      .orderBy(asc(messages.seq))
      .all();
    return {
      folder: `${row.folder} ${row.snoozedUntil}`,
      starred: row.starred,
      unread: row.unread,
      read: read.map((message) => message.read),
      labels: getThread(core, alice, row.id, { html: false }).thread.labels.toSorted(),
    };
  }
  const expected = ({ folder, starred, unread, labels }: Conversation) => ({
    folder: folder.value.includes(" ") ? folder.value : `${folder.value} null`,
    starred: starred.value,
    unread: unread.value.includes(false),
    read: unread.value,
    labels: LABELS.filter((label) => labels.get(label)?.value),
  });

  function apply(i: number, by: Actor, asked: ThreadChange): void {
    const one = model[i] as Conversation;
    const at = runtime.now();
    const isDone = changeThreads(core, callerOf(by), [ids[i] as string], asked).refused.length === 0;
    if (!isDone) return;
    if (asked.folder !== undefined || asked.snoozedUntil !== undefined) {
      const place = (() => {
        if (asked.folder !== undefined) return `${asked.folder} null`;
        if (asked.snoozedUntil !== null) return `inbox ${asked.snoozedUntil}`;
        return one.folder.value.endsWith(" null") ? one.folder.value : "inbox null";
      })();
      set(one.folder, by, at, place, place === one.folder.value);
    }
    if (asked.starred !== undefined) set(one.starred, by, at, asked.starred, asked.starred === one.starred.value);
    if (asked.unread !== undefined) {
      const flags = one.unread.value;
      const isSame = flags.includes(false) === asked.unread;
      const next = isSame ? flags : flags.map((read, n) => (asked.unread ? read && n < flags.length - 1 : true));
      set(one.unread, by, at, next, isSame);
    }
    for (const [label, has] of one.labels) {
      const named = asked.labels ?? (asked.addLabels?.includes(label) || asked.removeLabels?.includes(label));
      if (!named) continue;
      const base = asked.labels ? asked.labels.includes(label) : has.value;
      const next = (base || asked.addLabels?.includes(label) === true) && asked.removeLabels?.includes(label) !== true;
      set(has, by, at, next, next === has.value);
    }
  }

  let letters = 0;
  async function arrive(i: number): Promise<void> {
    const headers = [`In-Reply-To: <${i}@x>`];
    await receive({ headers, from: `sender-${++letters}@remote.example`, text: `Letter ${letters}` });
    const one = model[i] as Conversation;
    one.unread.value = [...one.unread.value, false];
    const place = one.folder.value.startsWith("spam") ? one.folder.value : "inbox null";
    if (place !== one.folder.value) set(one.folder, "mail", runtime.now(), place, false);
  }

  async function undo(key: (typeof KEYS)[number], since: number): Promise<void> {
    const wanted = { workspaceId, keyId: key, since };
    const wouldBe = await undoKeyChanges(core, wanted, { person: () => alice, face: "app", dryRun: true });
    const done = await undoKeyChanges(core, wanted, { person: () => alice, face: "app", dryRun: false });
    expect(done).toEqual(wouldBe);
    let changes = 0;
    for (const one of model) {
      const labels = [...one.labels.values()].map((has) => takeBack(has, key, since));
      const read = takeBack(one.unread, key, since, (before) => [...before, ...one.unread.value.slice(before.length)]);
      changes += [...labels, read, takeBack(one.folder, key, since), takeBack(one.starred, key, since)].filter(
        Boolean,
      ).length;
    }
    expect(done.fields.filter((taken) => taken.field !== "training")).toHaveLength(changes);
    const again = await undoKeyChanges(core, wanted, { person: () => alice, face: "app", dryRun: false });
    expect([again.threads, again.changes, again.fields]).toEqual([0, 0, []]);
  }

  for (const one of model) one.folder.value = "inbox null";
  for (const one of steps) {
    runtime.setBy(MINUTE_MS);
    if (one.kind === "change") apply(one.thread, one.actor, one.change);
    else if (one.kind === "mail") await arrive(one.thread);
    else await undo(one.key, runtime.now() - one.back * MINUTE_MS);
    expect(ids.map((_, i) => actual(i))).toEqual(model.map(expected));
  }
}

test("random changes, then undo", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await play(steps);
    }),
    { numRuns: runs(100) },
  );
}, 60_000);
