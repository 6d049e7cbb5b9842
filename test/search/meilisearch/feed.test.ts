/** The feed of Meilisearch: complete, in order, at least once, across crashes of either side, and without Bcc. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { eq } from "drizzle-orm";
import { foldDocument } from "../../../src/search/fold.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { listSeqsInSet } from "../../../src/search/sets.ts";
import {
  MESSAGES_PER_THREAD,
  mailboxes,
  messageBodies,
  messages,
  threads,
  workspaces,
} from "../../../src/store/schema.ts";
import { type SeedMessage, seedIndex, WHOLE_A } from "../../harness/data/search-seed.ts";
import { type FakeMeilisearch, problem, startFakeMeilisearch } from "../../harness/peers/fake-meilisearch.ts";
import { openRig, type Rig } from "../../harness/servers/meilisearch-rig.ts";

setDefaultTimeout(300_000);

const MAIL: SeedMessage[] = [
  { thread: "one", subject: "First", text: "alpha", bcc: [{ email: "secret@example.net", name: "Hidden" }], date: 5 },
  { thread: "one", text: "beta" },
  { thread: "two", text: "gamma", mailbox: "mbx_a2", files: ["plan.pdf"] },
  { thread: "three", text: "delta", mailbox: "mbx_b1" },
];
const SEQS = [65_536, 65_537, 131_072, 196_608];

const rowsOf = ({ store }: Pick<Rig, "store">, table: string): unknown[] =>
  store.db.$client.query(`SELECT * FROM ${table}`).all();

/** A rig whose server has received all of MAIL. */
async function openFed(server: FakeMeilisearch, mail = MAIL): Promise<Rig> {
  const rig = openRig(server, mail);
  await rig.joined.idle();
  return rig;
}

/** The value of that field in the index, for each message. */
const wordsIn = (server: FakeMeilisearch, field: string): unknown[] => {
  const [index] = server.indexes.values();
  return server.messages().map((seq) => index?.get(seq)?.[field]);
};

describe("the feed sends", () => {
  test("all stored mail, then the changes", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    expect(server.messages()).toEqual(SEQS);
    expect(wordsIn(server, "body")).toEqual(["alpha", "beta", "gamma", "delta"]);
    expect(wordsIn(server, "mailbox")).toEqual(["mbx_a1", "mbx_a1", "mbx_a2", "mbx_b1"]);
    expect(wordsIn(server, "attachment")).toEqual([false, false, true, false]);
    rig.add({ thread: "four", text: "epsilon" });
    await rig.joined.idle();
    expect(wordsIn(server, "body")).toEqual(["alpha", "beta", "gamma", "delta", "epsilon"]);
    expect(rowsOf(rig, "search_changes")).toEqual([]);
    expect(rig.joined.state()).toMatchObject({ engine: "meilisearch", feed: { phase: "current", behind: 0 } });
  });

  test("requests of bounded size, however long encoded words become", async () => {
    const server = startFakeMeilisearch();
    const text = Array.from({ length: 120_000 }, (_, i) => `${100 + (i % 900)}b`).join(" ");
    const rig = await openFed(server, [
      { thread: "long", text },
      { thread: "longer", text: `${text} and more` },
      { thread: "short", text: "alpha" },
    ]);
    const numbers = [65_536, 131_072, 196_608];
    const together = () => server.bodies.flatMap((body) => body.match(/"id":[1-9]/g)?.length ?? []);
    expect(server.messages()).toEqual(numbers);
    expect(together()).toEqual([2, 1]);
    rig.store.transact((tx) => {
      for (const seq of numbers) {
        const document = { subject: "", body: "", sender: "", recipients: "", files: "" };
        rig.joined.replace(tx, seq, { workspaceId: "wsp_a", mailboxId: "mbx_a1" }, document);
      }
    });
    await rig.joined.idle();
    expect(together()).toEqual([2, 1, 2, 1]);
    expect(rowsOf(rig, "search_changes")).toEqual([]);
  });

  test.each([0, 9, 10, 11, 20])("%i messages, which are read by tens", async (count) => {
    const server = startFakeMeilisearch();
    const mail = Array.from({ length: count }, (_, i): SeedMessage => ({ thread: `${i}`, text: "alpha" }));
    const rig = await openFed(server, mail);
    expect(server.messages()).toHaveLength(count);
    expect(rig.joined.state().engine).toBe("meilisearch");
  });

  test("the remaining number, each time it starts over", async () => {
    const server = startFakeMeilisearch();
    const behind: number[] = [];
    const rig = openRig(server, MAIL);
    server.does.answer = () => void behind.push(rig.joined.state().feed.behind);
    for (let time = 0; time < 2; time++) {
      behind.length = 0;
      rig.store.transact((tx) => rig.joined.refill(tx));
      await rig.joined.idle();
      expect([Math.max(...behind), rig.joined.state().feed.behind]).toEqual([MAIL.length, 0]);
    }
  });

  test("no Bcc, and only searched fields", async () => {
    const server = startFakeMeilisearch();
    await openFed(server);
    const sent = server.bodies.join("\n").toLowerCase();
    expect(sent).toContain("alpha");
    expect(sent).not.toMatch(/secret|hidden|example\.net/);
    const documents = [...server.indexes.values()].flatMap((index) => [...index.values()]);
    expect(new Set(documents.flatMap(Object.keys))).toEqual(
      new Set([
        "id",
        "mark",
        "thread",
        "workspace",
        "mailbox",
        "attachment",
        "date",
        "size",
        "subject",
        "body",
        "body2",
        "body3",
        "body4",
        "sender",
        "recipients",
        "files",
        "marked",
        "markedCc",
        "markedFiles",
      ]),
    );
  });

  test("every kind of deletion", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    rig.store.transact((tx) =>
      tx
        .delete(messages)
        .where(eq(messages.seq, SEQS[1] ?? 0))
        .run(),
    );
    await rig.joined.idle();
    expect(server.messages()).toEqual([65_536, 131_072, 196_608]);
    rig.store.transact((tx) =>
      tx
        .delete(threads)
        .where(eq(threads.seq, rig.seqOf("one")))
        .run(),
    );
    await rig.joined.idle();
    expect(server.messages()).toEqual([131_072, 196_608]);
    rig.store.transact((tx) => tx.delete(mailboxes).where(eq(mailboxes.id, "mbx_a2")).run());
    await rig.joined.idle();
    expect(server.messages()).toEqual([196_608]);
    rig.store.transact((tx) => tx.delete(workspaces).run());
    await rig.joined.idle();
    expect(server.messages()).toEqual([]);
  });

  test("the last version of a message that changes often, and not one that was added and deleted", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    const seq = SEQS[0] ?? 0;
    const say = (text: string) =>
      rig.store.transact((tx) => {
        tx.update(messageBodies).set({ text }).where(eq(messageBodies.messageSeq, seq)).run();
        const document = foldDocument({ subject: "", text, from: [], to: [], cc: [], filenames: [] });
        rig.engine.replace(tx, seq, { workspaceId: "wsp_a", mailboxId: "mbx_a1" }, document);
      });
    say("second");
    say("third");
    rig.add({ thread: "brief", text: "gone" });
    rig.store.transact((tx) =>
      tx
        .delete(threads)
        .where(eq(threads.seq, rig.seqOf("brief")))
        .run(),
    );
    await rig.joined.idle();
    expect(wordsIn(server, "body")).toEqual(["third", "beta", "gamma", "delta"]);
    expect(server.bodies.filter((body) => body.includes('"second"'))).toEqual([]);
  });

  test("nothing of a rolled-back transaction", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    const told = server.requests.length;
    expect(() =>
      rig.store.transact((tx) => {
        tx.delete(threads).run();
        throw new Error("no");
      }),
    ).toThrow("no");
    await rig.joined.idle();
    expect(rowsOf(rig, "search_changes")).toEqual([]);
    expect(server.requests).toHaveLength(told);
  });

  test("nothing without Meilisearch, and records nothing", () => {
    const seeded = seedIndex(MAIL);
    seeded.store.transact((tx) => tx.delete(threads).run());
    expect(rowsOf(seeded, "search_changes")).toEqual([]);
    expect(rowsOf(seeded, "search_feed")).toEqual([]);
  });
});

describe("the feed resumes after any interruption", () => {
  /**
   * The server stops responding at request number `at`, and another process takes over. False if there were fewer
   * requests.
   */
  async function dieAt(at: number): Promise<boolean> {
    const server = startFakeMeilisearch();
    const died = Promise.withResolvers<void>();
    server.does.answer = () => {
      if (server.requests.length < at) return undefined;
      died.resolve();
      return new Promise<never>(() => {});
    };
    const rig = openRig(server, MAIL);
    await Promise.race([died.promise, change(rig)]);
    const isDead = server.requests.length >= at;
    await rig.joined.stop();
    server.does.answer = undefined;
    const next = rig.again();
    await next.idle();
    await change({ ...rig, joined: next });
    expect([at, server.messages()]).toEqual([at, [65_536, 131_072, 196_608, 262_144]]);
    expect([at, wordsIn(server, "body")]).toEqual([at, ["alpha", "gamma", "delta", "epsilon"]]);
    expect(rowsOf(rig, "search_changes")).toEqual([]);
    expect(rig.lines.filter(({ message }) => `${message}`.includes("made anew"))).toEqual([]);
    await next.stop();
    server.stop();
    return isDead;
  }

  /** Adds one message and deletes one. */
  async function change(rig: Pick<Rig, "store" | "add" | "seqOf" | "joined">): Promise<void> {
    await rig.joined.idle();
    if (Number.isNaN(rig.seqOf("four"))) {
      rig.add({ thread: "four", text: "epsilon" });
      rig.store.transact((tx) =>
        tx
          .delete(messages)
          .where(eq(messages.seq, SEQS[1] ?? 0))
          .run(),
      );
    }
    await rig.joined.idle();
  }

  test("a kill at any request loses nothing", async () => {
    let at = 1;
    while (await dieAt(at)) at++;
    expect(at).toBeGreaterThan(15);
  }, 120_000);

  test("sending twice is harmless", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    const insert = rig.store.db.$client.prepare("INSERT INTO search_changes (message_seq) VALUES (?)");
    for (const seq of [...SEQS, ...SEQS, 7 * MESSAGES_PER_THREAD]) insert.run(seq);
    rig.joined.look();
    await rig.joined.idle();
    expect(server.messages()).toEqual(SEQS);
    expect(rowsOf(rig, "search_changes")).toEqual([]);
  });
});

describe("an index of another state of the store is rebuilt, and the old one deleted", () => {
  const cases: [what: string, spoil: (rig: Rig, server: FakeMeilisearch) => void][] = [
    [
      "the store is an older state of itself, as after a restore",
      ({ store }) => store.db.$client.run("UPDATE search_feed SET mark = 'older', previous_mark = 'older still'"),
    ],
    ["the index is gone", (_, { indexes }) => indexes.clear()],
    ["the index is empty", (_, { indexes }) => indexes.forEach((index) => void index.clear())],
    [
      "its settings are of another version",
      ({ store }) => store.db.$client.run("UPDATE search_feed SET settings_version = settings_version - 1"),
    ],
  ];
  test.each(cases)("%s", async (_, spoil) => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    const [before] = server.indexes.keys();
    spoil(rig, server);
    rig.add({ thread: "four", text: "epsilon" });
    await rig.joined.idle();
    const [after, ...others] = server.indexes.keys();
    expect(others).toEqual([]);
    expect(after).not.toBe(before);
    expect(server.messages()).toEqual([...SEQS, 262_144]);
    expect(rig.joined.state().engine).toBe("meilisearch");
  });

  test("changes while another engine was selected are sent, too", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    rig.set("search.engine", "fts5");
    await rig.joined.idle();
    expect(rowsOf(rig, "search_feed")).toMatchObject([{ active: 0 }]);
    rig.add({ thread: "four", text: "epsilon" });
    rig.store.transact((tx) =>
      tx
        .delete(messages)
        .where(eq(messages.seq, SEQS[0] ?? 0))
        .run(),
    );
    await rig.joined.idle();
    expect(rowsOf(rig, "search_changes")).toEqual([]);
    rig.set("search.engine", "meilisearch");
    await rig.joined.idle();
    expect(server.messages()).toEqual([65_537, 131_072, 196_608, 262_144]);
  });
});

describe("a server that refuses", () => {
  test("a refused change removes the outdated version, and FTS5 serves its searches", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    server.does.refuse = ({ body }) => (body === "changed" ? "not this one" : undefined);
    const seq = SEQS[0] ?? 0;
    rig.store.transact((tx) => {
      tx.update(messageBodies).set({ text: "changed" }).where(eq(messageBodies.messageSeq, seq)).run();
      const document = foldDocument({ subject: "", text: "changed", from: [], to: [], cc: [], filenames: [] });
      rig.engine.replace(tx, seq, { workspaceId: "wsp_a", mailboxId: "mbx_a1" }, document);
    });
    await rig.joined.idle();
    expect(server.messages()).toEqual(SEQS.slice(1));
    expect(listSeqsInSet(await rig.joined.match(parseQuery("changed", 0), WHOLE_A))).toEqual([1]);
    expect(rig.joined.state()).toMatchObject({ engine: "fts5", reason: "meilisearch refused 1 message" });
    server.does.find = () => [65_537];
    expect(await rig.joined.matchLoosely?.(parseQuery("chagned", 0), WHOLE_A)).toMatchObject({ threads: [1] });
  });

  test("a refused message does not hold up others, and is sent again when it changes", async () => {
    const server = startFakeMeilisearch();
    server.does.refuse = ({ body }) => (body === "gamma" ? "not this one" : undefined);
    const rig = await openFed(server);
    expect(server.messages()).toEqual([65_536, 65_537, 196_608]);
    expect(rig.joined.state().feed).toMatchObject({ refused: 1, behind: 0 });
    expect(rig.lines.filter(({ message }) => message === "Meilisearch refuses a message")).toHaveLength(1);
    rig.add({ thread: "two", text: "more", mailbox: "mbx_a2" });
    await rig.joined.idle();
    server.does.refuse = undefined;
    rig.store.transact((tx) => {
      tx.delete(messages)
        .where(eq(messages.seq, SEQS[2] ?? 0))
        .run();
    });
    await rig.joined.idle();
    expect(server.messages()).toEqual([65_536, 65_537, 131_073, 196_608]);
    expect(rig.joined.state().feed).toMatchObject({ refused: 0, behind: 0 });
  });

  const troubles: [what: string, answer: () => Response, says: RegExp][] = [
    ["refuses the key", () => problem(403, "invalid_api_key"), /problem invalid_api_key/],
    ["has no room", () => problem(500, "no_space_left_on_device"), /problem no_space_left/],
    ["is something else", () => new Response("<html>", { status: 200 }), /does not answer/],
  ];
  test.each(troubles)("one that %s is retried with growing delays, and logged once", async (_, answer, says) => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    const told = server.requests.length;
    server.does.answer = (name) => (name.startsWith("GET /tasks") ? undefined : answer());
    rig.add({ thread: "four", text: "epsilon" });
    await rig.joined.idle();
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const at = rig.runtime.nextTimer() ?? 0;
      waits.push(at - rig.runtime.now());
      rig.runtime.advanceTo(at);
      await rig.joined.idle();
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    expect(server.requests.length - told).toBe(9);
    const state = rig.joined.state();
    expect(state).toMatchObject({ engine: "fts5", feed: { phase: "failing", behind: 1 } });
    expect(state.feed.reason).toMatch(says);
    expect(rig.lines.filter(({ message }) => message === "Meilisearch cannot be fed")).toHaveLength(1);
    expect(JSON.stringify(rig.lines)).not.toContain(server.key);
    server.does.answer = undefined;
    rig.runtime.advanceTo(rig.runtime.nextTimer() ?? 0);
    await rig.joined.idle();
    expect(rig.joined.state()).toMatchObject({ engine: "meilisearch", feed: { behind: 0 } });
    expect(server.messages()).toHaveLength(5);
  });

  test("a changed setting applies at once, without waiting for the next retry", async () => {
    const server = startFakeMeilisearch();
    const rig = await openFed(server);
    rig.set("search.meilisearchKey", "another");
    rig.add({ thread: "four", text: "epsilon" });
    await rig.joined.idle();
    expect(rig.joined.state().feed.phase).toBe("failing");
    rig.set("search.meilisearchKey", server.key);
    await rig.joined.idle();
    expect(rig.joined.state().engine).toBe("meilisearch");
    const other = startFakeMeilisearch();
    rig.set("search.meilisearchUrl", other.url);
    await rig.joined.idle();
    expect(other.messages()).toHaveLength(5);
    rig.set("search.meilisearchUrl", "none");
    await rig.joined.idle();
    expect(rig.joined.state()).toMatchObject({ engine: "fts5", feed: { phase: "down" } });
  });
});
