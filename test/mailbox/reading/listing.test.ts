/** Lists and search (rules: List of conversations, Search operation, Parameters, Folders, Query language). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { setThreadSnooze } from "../../../src/mailbox/changing/change.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads, searchThreads } from "../../../src/mailbox/reading/listing.ts";
import { listMessages } from "../../../src/mailbox/reading/messages.ts";
import type { ThreadFilters } from "../../../src/mailbox/state/views.ts";
import { LIST_FOLDERS } from "../../../src/search/operators.ts";
import { messages, threads } from "../../../src/store/schema.ts";
import { runs } from "../../harness/runs.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const MINUTE_MS = 60_000;
const at = (minutes: number) => new Date(START - minutes * MINUTE_MS).toUTCString();

const refusal = async (promise: Promise<unknown>) => {
  try {
    await promise;
    return undefined;
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return { code, message };
  }
};

/** One conversation in every folder, and what is shown of each, by name. Tests only read it. */
let each: ReturnType<typeof makeOneEach> | undefined;
function oneEach() {
  each ??= makeOneEach();
  return each;
}

async function makeOneEach() {
  const alice = createAlice();
  const { receive, send, core, store } = alice;
  const names = new Map<string, string>();
  let minutes = 0;
  const make = async (name: string) => {
    // Each has its own sender: moving one conversation to spam trains the mailbox on its sender.
    const from = `${name.replace(" ", ".")}@remote.example`;
    const { threadId } = await receive({ from, subject: name, date: at(++minutes) });
    names.set(threadId, name);
    return threadId;
  };
  await make("inbox");
  for (const folder of ["archive", "spam", "trash"] as const) {
    updateThread(core, alice.alice, await make(folder), { folder });
  }
  const snoozed = await make("snoozed");
  store.transact((tx) => setThreadSnooze(tx, snoozed, START + MINUTE_MS));
  updateThread(core, alice.alice, await make("starred"), { starred: true });
  updateThread(core, alice.alice, await make("starred spam"), { starred: true, folder: "spam" });
  names.set((await send({ subject: "sent", date: at(++minutes) })).threadId, "sent");
  return {
    ...alice,
    named: async (filters: Partial<ThreadFilters>) => (await alice.listed(filters)).map((id) => names.get(id)),
  };
}

describe("folders", () => {
  const expected: Record<(typeof LIST_FOLDERS)[number], string[]> = {
    inbox: ["inbox", "starred"],
    sent: ["sent"],
    drafts: [],
    archive: ["archive"],
    spam: ["spam", "starred spam"],
    trash: ["trash"],
    starred: ["starred"],
    snoozed: ["snoozed"],
    all: ["inbox", "archive", "snoozed", "starred", "sent"],
  };
  for (const folder of LIST_FOLDERS) {
    test(`${folder}: ${expected[folder].join(", ") || "nothing"}`, async () => {
      const { named } = await oneEach();
      expect(await named({ folder })).toEqual(expected[folder]);
    });
  }

  test("without folder: the inbox; with q: everything except trash and spam", async () => {
    const { named, core, alice } = await oneEach();
    expect(await named({})).toEqual(expected.inbox);
    expect(await named({ q: "  " })).toEqual(expected.inbox);
    expect(await named({ q: "how are you" })).toEqual(expected.all);
    expect(await named({ q: "how are you", folder: "spam" })).toEqual(expected.spam);
    const searched = await searchThreads(core, alice, { q: "starred", limit: 10 });
    expect(searched.threads.map(({ subject }) => subject)).toEqual(["starred"]);
  });
});

describe("in:", () => {
  const cases: [q: string, found: string[]][] = [
    ["in:spam", ["spam", "starred spam"]],
    ["in:TRASH", ["trash"]],
    ["in:inbox", ["inbox", "starred"]],
    ["in:snoozed", ["snoozed"]],
    ["in:starred", ["starred"]],
    ["in:all", ["inbox", "archive", "snoozed", "starred", "sent"]],
    ["starred in:spam", ["starred spam"]],
    ["in:spam is:starred", ["starred spam"]],
    ["-in:archive", ["inbox", "snoozed", "starred", "sent"]],
    ["-in:inbox", ["archive", "snoozed", "sent"]],
    ["-in:starred -in:sent", ["inbox", "archive", "snoozed"]],
    ["in:all -in:snoozed -in:spam", ["inbox", "archive", "starred", "sent"]],
    ["in:inbox in:starred", ["starred"]],
    ["in:spam in:trash", []],
    ["in:spam -in:starred", ["spam", "starred spam"]],
  ];
  test.each(cases)("%s: %j", async (q, found) => {
    const { named, core, alice } = await oneEach();
    expect(await named({ q })).toEqual(found);
    const searched = await searchThreads(core, alice, { q, limit: 10 });
    expect(await named({ q, limit: 100 })).toHaveLength(searched.threads.length);
    expect(searched.unread).toBe(searched.threads.filter(({ unread }) => unread).length);
  });

  test("a folder that the request names narrows further", async () => {
    const { named } = await oneEach();
    expect(await named({ q: "in:inbox", folder: "starred" })).toEqual(["starred"]);
    expect(await named({ q: "-in:inbox", folder: "all" })).toEqual(["archive", "snoozed", "sent"]);
    expect(await named({ q: "in:spam", folder: "all" })).toEqual([]);
    expect(await named({ q: "-in:starred", folder: "spam" })).toEqual(["spam", "starred spam"]);
  });
});

describe("filters", () => {
  test("unread=true leaves out read conversations; unread=false leaves out none", async () => {
    const { receive, listed, core, alice } = createAlice();
    const read = await receive({ date: at(1) });
    const unread = await receive({ date: at(2), subject: "Else" });
    updateThread(core, alice, read.threadId, { read: true });
    for (const folder of ["inbox", "all"] as const) {
      expect(await listed({ folder, unread: true })).toEqual([unread.threadId]);
      expect(await listed({ folder, unread: false })).toEqual([read.threadId, unread.threadId]);
    }
  });

  test("hasAttachments selects those with or those without", async () => {
    const { receive, listed } = createAlice();
    const without = await receive({ date: at(1) });
    const attached = await receive({
      date: at(2),
      subject: "Else",
      headers: ['Content-Disposition: attachment; filename="a.txt"'],
    });
    for (const folder of ["inbox", "all"] as const) {
      expect(await listed({ folder, hasAttachments: true })).toEqual([attached.threadId]);
      expect(await listed({ folder, hasAttachments: false })).toEqual([without.threadId]);
    }
  });

  test("label is compared without case", async () => {
    const { receive, listed, core, alice } = createAlice();
    const { threadId } = await receive({});
    await receive({ subject: "Else" });
    updateThread(core, alice, threadId, { labels: ["Straße"] });
    for (const label of ["Straße", "straße", "STRASSE", " Straße "])
      expect(await listed({ label })).toEqual([threadId]);
    expect(await listed({ label: "Stra" })).toEqual([]);
  });

  test("mailbox is an id, an address or an alias address in any case; anything else is not found", async () => {
    const { receive, file, listed, world, workspaceId, box, core, alice } = createAlice();
    const bob = world.box(workspaceId, "bob@example.test");
    world.alias(box, "sales@example.test");
    world.alias(box, "*@example.test");
    const mine = await receive({ date: at(1) });
    const his = await file(bob, { date: at(2) });
    expect(await listed()).toEqual([mine.threadId, his.threadId]);
    for (const name of [box, "alice@example.test", "Sales@Example.test"]) {
      expect(await listed({ mailbox: name })).toEqual([mine.threadId]);
    }
    for (const name of ["", "mbx_none", "nobody@example.test", "*@example.test", "alice+x@example.test"]) {
      expect((await refusal(listed({ mailbox: name })))?.code).toBe("not_found");
      expect(() => listMessages(core, alice, { mailbox: name, limit: 5 })).toThrow("no such mailbox");
    }
  });
});

describe("search", () => {
  let made: ReturnType<typeof makeMails> | undefined;
  /** Tests only read them. */
  function mails() {
    made ??= makeMails();
    return made;
  }

  async function makeMails() {
    const alice = createAlice();
    const { receive, core } = alice;
    const update = (id: string, patch: Parameters<typeof updateThread>[3]) =>
      updateThread(core, alice.alice, id, patch);
    const a = (await receive({ subject: "apple pie", messageId: "<a@x>", date: at(1) })).threadId;
    await receive({ subject: "Re: apple pie", headers: ["In-Reply-To: <a@x>"], text: "with cream", date: at(2) });
    const b = (await receive({ subject: "apple tart", date: at(3) })).threadId;
    const c = (await receive({ subject: "plum", date: at(4), headers: ["Bcc: hidden@remote.example"] })).threadId;
    update(a, { read: true, labels: ["Work"] });
    update(b, { starred: true, labels: ["work", "home"] });
    return { ...alice, a, b, c };
  }
  const cases: [string, ("a" | "b" | "c")[]][] = [
    ["apple", ["a", "b"]],
    ["apple cream", ["a"]],
    ["pie cream", ["a"]],
    ["plum cream", []],
    ["-apple", ["c"]],
    ["label:work", ["a", "b"]],
    ["label:WORK label:home", ["b"]],
    ["label:none", []],
    ["-label:work", ["c"]],
    ["apple -label:home", ["a"]],
    ["is:unread", ["b", "c"]],
    ["-is:unread", ["a"]],
    ["is:unread apple", ["b"]],
    ["is:unread -is:unread", []],
    ["is:starred", ["b"]],
    ["-is:starred", ["a", "c"]],
    ["is:starred plum", []],
    ["has:attachment", []],
    ["to:hidden@remote.example", []],
    ["hidden", []],
    ["!!", ["a", "b", "c"]],
  ];
  for (const [q, expected] of cases) {
    test(`${q}: ${expected.join(", ") || "nothing"}`, async () => {
      const world = await mails();
      const { threads: found, unread } = await searchThreads(world.core, world.alice, { q, limit: 10 });
      expect(found.map(({ id }) => id)).toEqual(expected.map((name) => world[name]));
      expect(unread).toBe(found.filter((thread) => thread.unread).length);
    });
  }

  test("narrows further by label, unread and mailbox", async () => {
    const { listed, a, b, box } = await mails();
    expect(await listed({ q: "apple", label: "home" })).toEqual([b]);
    expect(await listed({ q: "apple", unread: true })).toEqual([b]);
    expect(await listed({ q: "apple", mailbox: box })).toEqual([a, b]);
  });

  test("notes say which terms were searched as text; a list without q has none", async () => {
    const { core, alice } = await mails();
    const { threads: found, notes } = await searchThreads(core, alice, { q: "fro:apple apple", limit: 10 });
    expect(found).toEqual([]);
    expect(notes).toEqual(['"fro:apple" was searched as text: fro: is no operator']);
    expect(await listThreads(core, alice, { q: "apple", limit: 10 })).not.toHaveProperty("notes");
    expect(await listThreads(core, alice, { limit: 10 })).not.toHaveProperty("notes");
  });

  test("sizes are those of the messages as they arrived", async () => {
    const { listed, receive, store } = createAlice();
    const { threadId } = await receive({ text: "x".repeat(3_000) });
    const size = store.db.select().from(messages).get()?.size ?? 0;
    expect(size).toBeGreaterThan(3_000);
    for (const q of [`larger:${size - 1}`, `smaller:${size + 1}`, "larger:3k -larger:4k", `-smaller:${size}`]) {
      expect([q, await listed({ q })]).toEqual([q, [threadId]]);
    }
    for (const q of [`larger:${size}`, `smaller:${size}`]) expect([q, await listed({ q })]).toEqual([q, []]);
  });

  test("a bad date is bad_request", async () => {
    const { listed } = await mails();
    expect((await refusal(listed({ q: "before:2026-02-30" })))?.code).toBe("bad_request");
  });
});

describe("pages", () => {
  const FILTERS: Partial<ThreadFilters>[] = [
    {},
    { folder: "all" },
    { folder: "all", unread: true },
    { folder: "starred" },
    { q: "even" },
    { q: "-even" },
    { folder: "snoozed" },
    { label: "x" },
  ];

  /** 40 conversations in two mailboxes, pairs of them at the same time, in all kinds of states. */
  async function many() {
    const alice = createAlice();
    const { world, workspaceId, store, core, box } = alice;
    const boxes = [box, world.box(workspaceId, "bob@example.test")];
    for (let i = 0; i < 40; i++) {
      const { threadId } = await world.file(boxes[i % 2] ?? box, {
        from: `p${i}@remote.example`,
        subject: i % 4 < 2 ? `even ${i}` : `odd ${i}`,
        date: at(Math.floor(i / 2)),
      });
      const folder = ["inbox", "archive", "inbox", "trash", "spam"][i % 5] as "inbox" | "archive" | "trash" | "spam";
      updateThread(core, alice.alice, threadId, {
        folder,
        read: i % 3 === 0,
        starred: i % 7 < 3,
        labels: i % 6 < 2 ? ["X"] : [],
      });
      if (folder === "inbox" && i % 4 === 0) store.transact((tx) => setThreadSnooze(tx, threadId, START + MINUTE_MS));
    }
    return alice;
  }

  test("together are the whole list, once each, newest first, with the same unread count", async () => {
    const { core, alice } = await many();
    for (const filters of FILTERS) {
      const whole = await listThreads(core, alice, { ...filters, limit: 100 });
      expect(whole.nextCursor).toBeNull();
      expect(whole.threads.length).toBeGreaterThan(3);
      const times = whole.threads.map(({ lastMessageAt }) => lastMessageAt);
      expect(times).toEqual(times.toSorted().reverse());
      expect(whole.unread).toBe(whole.threads.filter(({ unread }) => unread).length);
      for (const limit of [1, 3, whole.threads.length]) {
        const paged = [];
        let cursor: string | undefined;
        do {
          const page = await listThreads(core, alice, { ...filters, limit, cursor });
          expect(page.unread).toBe(whole.unread);
          expect(page.threads.length).toBeGreaterThan(0);
          paged.push(...page.threads);
          cursor = page.nextCursor ?? undefined;
        } while (cursor !== undefined);
        expect(paged).toEqual(whole.threads);
      }
    }
  });

  test("of a search by age are those of the day of the first", async () => {
    const { core, alice, receive, runtime } = createAlice();
    for (const hours of [30, 20, 10]) await receive({ subject: `${hours}`, date: at(hours * 60) });
    const search = (cursor?: string) => searchThreads(core, alice, { q: "newer_than:1d", limit: 1, cursor });
    const first = await search();
    const second = await search(first.nextCursor ?? "");
    runtime.advanceTo(START + 86_400_000);
    const later = await search(first.nextCursor ?? "");
    expect(later).toEqual(second);
    expect(await search()).not.toEqual(first);
  });

  test("a cursor stays where it is when mail arrives", async () => {
    const { core, alice, receive } = await many();
    const first = await listThreads(core, alice, { folder: "all", limit: 5 });
    const rest = (cursor: string | null) =>
      listThreads(core, alice, { folder: "all", limit: 100, cursor: cursor ?? undefined });
    const before = await rest(first.nextCursor);
    await receive({ subject: "New", date: at(0) });
    expect((await rest(first.nextCursor)).threads).toEqual(before.threads);
  });

  test("a cursor is bound to its filters, in any spelling", async () => {
    const { core, alice, box } = await many();
    const { nextCursor } = await listThreads(core, alice, { mailbox: box, folder: "all", label: "x", limit: 1 });
    const cursor = nextCursor ?? "";
    const ask = (filters: Partial<ThreadFilters>) =>
      refusal(listThreads(core, alice, { limit: 1, cursor, ...filters }));
    const same = { mailbox: box, folder: "all", label: "x" } as const;
    expect(await ask(same)).toBeUndefined();
    expect(await ask({ ...same, mailbox: "ALICE@example.test", label: "X", limit: 7 })).toBeUndefined();
    const others: Partial<ThreadFilters>[] = [
      { ...same, folder: "inbox" },
      { ...same, label: "y" },
      { ...same, label: undefined },
      { ...same, mailbox: undefined },
      { ...same, mailbox: "bob@example.test" },
      { ...same, unread: true },
      { ...same, hasAttachments: false },
      { ...same, q: "even" },
    ];
    for (const other of others) expect((await ask(other))?.code).toBe("bad_request");
    for (const bad of ["", "x", cursor.slice(1), `${cursor}AAAA`]) {
      expect((await ask({ ...same, cursor: bad }))?.code).toBe("bad_request");
    }
  });

  test("a bad cursor or date is refused before the mailbox is looked up", async () => {
    const { core, alice, world, workspaceId } = await many();
    const max = world.user(workspaceId, "max@example.test", "member");
    const { nextCursor } = await listThreads(core, alice, { mailbox: "bob@example.test", limit: 1 });
    const ask = async (filters: Partial<ThreadFilters>) =>
      (await refusal(listThreads(core, max, { limit: 1, ...filters })))?.code;
    for (const name of ["bob@example.test", "nobody@example.test"]) {
      expect(await ask({ mailbox: name })).toBe("not_found");
      expect(await ask({ mailbox: name, cursor: "x" })).toBe("bad_request");
      expect(await ask({ mailbox: name, q: "after:2026-02-30" })).toBe("bad_request");
    }
    expect(await ask({ mailbox: "bob@example.test", cursor: nextCursor ?? "" })).toBe("not_found");
  });

  test("any list equals a plain reading of the rows", async () => {
    const world = await many();
    const { store, core, alice, box } = world;
    const rows = store.db.select().from(threads).all();
    const labelled = new Set(
      store.db.$client
        .query<{ seq: number }, []>("SELECT thread_seq AS seq FROM thread_labels WHERE label_key = 'x'")
        .all()
        .map(({ seq }) => seq),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          folder: fc.option(fc.constantFrom(...LIST_FOLDERS), { nil: undefined }),
          places: fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...LIST_FOLDERS)), { maxLength: 3 }),
          unread: fc.option(fc.boolean(), { nil: undefined }),
          label: fc.option(fc.constant("x"), { nil: undefined }),
          hasAttachments: fc.option(fc.boolean(), { nil: undefined }),
          mailbox: fc.option(fc.constant(box), { nil: undefined }),
          q: fc.option(
            fc
              .subarray(["even", "-odd", "is:unread", "-is:unread", "is:starred", "-is:starred", "-label:x"])
              .map((terms) => terms.join(" ")),
            { nil: undefined },
          ),
        }),
        async ({ places, ...asked }) => {
          const named = places.map(([negated, folder]) => `${negated ? "-" : ""}in:${folder}`);
          const q = named.length === 0 ? asked.q : [...named, asked.q ?? ""].join(" ");
          const filters = { ...asked, q };
          const terms = new Set(q?.split(" "));
          const usual = places.every(([negated]) => negated) ? (q ? "all" : "inbox") : undefined;
          const whole = asked.folder ?? usual;
          const chosen = rows
            .filter((row) => {
              const junk = row.folder === "trash" || row.folder === "spam";
              const isIn = (folder: (typeof LIST_FOLDERS)[number]): boolean =>
                folder === "all"
                  ? !junk
                  : folder === "starred"
                    ? row.starred && !junk
                    : folder === "snoozed"
                      ? row.snoozedUntil !== null
                      : row.folder === folder && (row.folder !== "inbox" || row.snoozedUntil === null);
              return (
                (whole === undefined || isIn(whole)) &&
                places.every(([negated, folder]) => isIn(folder) !== negated) &&
                (filters.unread !== true || row.unread) &&
                (filters.label === undefined || labelled.has(row.seq)) &&
                (filters.hasAttachments === undefined || row.hasAttachments === filters.hasAttachments) &&
                (filters.mailbox === undefined || row.mailboxId === filters.mailbox) &&
                (!(terms.has("even") || terms.has("-odd")) || row.subject.startsWith("even")) &&
                (!terms.has("is:unread") || row.unread) &&
                (!terms.has("-is:unread") || !row.unread) &&
                (!terms.has("is:starred") || row.starred) &&
                (!terms.has("-is:starred") || !row.starred) &&
                (!terms.has("-label:x") || !labelled.has(row.seq))
              );
            })
            .sort((a, b) => b.lastMessageAt - a.lastMessageAt || b.seq - a.seq);
          const list = await listThreads(core, alice, { ...filters, limit: 100 });
          expect(list.threads.map(({ id }) => id)).toEqual(chosen.map(({ id }) => id));
          expect(list.unread).toBe(chosen.filter(({ unread }) => unread).length);
          expect(list.notes).toBeUndefined();
        },
      ),
      { numRuns: runs(300) },
    );
  });
});

test("searches with many and few hits, walked or looked up, give the same list", async () => {
  const world = createAlice();
  const { store, core, alice, box } = world;
  const insert = store.db.$client.prepare(
    `INSERT INTO threads (id, mailbox_id, folder, unread, starred, last_message_at, has_attachments, message_count,
       next_ordinal, received_on, subject, subject_key, snippet, counterpart, participants)
     VALUES (?, ?, ?, ?, 0, ?, 0, 1, 1, '', '', '', '', '{"email":"a@b.example"}', '[]')`,
  );
  const label = store.db.$client.prepare("INSERT INTO thread_labels VALUES (?, 'many', 'many', 0)");
  store.transact(() => {
    for (let i = 0; i < 2_500; i++) {
      const folder = i % 3 === 0 ? "archive" : i % 3 === 1 ? "inbox" : "trash";
      const { lastInsertRowid } = insert.run(`thr_${i}`, box, folder, i % 5 === 0 ? 1 : 0, START - ((i * 7) % 2_500));
      label.run(lastInsertRowid);
    }
  });
  const expected = store.db
    .select()
    .from(threads)
    .all()
    .filter(({ folder }) => folder !== "trash")
    .sort((a, b) => b.lastMessageAt - a.lastMessageAt);
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await searchThreads(core, alice, { q: "label:many", limit: 100, cursor });
    expect(page.unread).toBe(expected.filter(({ unread }) => unread).length);
    found.push(...page.threads.map(({ id }) => id));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  expect(found).toEqual(expected.map(({ id }) => id));
});

test("a list over many mailboxes is newest first", async () => {
  const { world, workspaceId, core, alice } = createAlice();
  const minutes = [7, 3, 11, 0, 5, 9, 1, 10, 2, 8, 4, 6];
  for (const [i, n] of minutes.entries()) {
    const box = world.box(workspaceId, `box${i}@example.test`);
    for (const age of [n, n + 12]) await world.file(box, { subject: `${age}`, date: at(age) });
  }
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await listThreads(core, alice, { limit: 5, cursor });
    found.push(...page.threads.map(({ subject }) => subject));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  expect(found).toEqual(Array.from({ length: 24 }, (_, age) => `${age}`));
});
