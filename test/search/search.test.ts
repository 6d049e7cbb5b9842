/** The choice of the engine that serves a search, the handling of late, wrong or missing responses, and the metrics. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import type { ProcessState } from "../../src/base/child-process.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { parseQuery } from "../../src/search/query.ts";
import type { SearchState } from "../../src/search/search.ts";
import { registerSearchGauges } from "../../src/search/search.ts";
import { listSeqsInSet } from "../../src/search/sets.ts";
import { MAIL_SCOPES } from "../../src/store/schema.ts";
import { readExposition, sampleOf } from "../harness/clients/exposition.ts";
import { type SeedMessage, WHOLE_A } from "../harness/data/search-seed.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type FakeMeilisearch, problem, startFakeMeilisearch } from "../harness/peers/fake-meilisearch.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { openRig, type Rig } from "../harness/servers/meilisearch-rig.ts";

setDefaultTimeout(300_000);

const MAIL: SeedMessage[] = [
  { thread: "one", text: "alpha" },
  { thread: "two", text: "alpha", mailbox: "mbx_a2" },
  { thread: "three", text: "alpha", mailbox: "mbx_b1" },
];

async function openFed(): Promise<{ server: FakeMeilisearch; rig: Rig; match(): Promise<number[]> }> {
  const server = startFakeMeilisearch();
  const rig = openRig(server, MAIL);
  await rig.joined.idle();
  return { server, rig, match: async () => listSeqsInSet(await rig.joined.match(parseQuery("alpha", 0), WHOLE_A)) };
}

describe("FTS5 serves searches in place of Meilisearch", () => {
  const faults: [what: string, answer: () => Response | Promise<Response>][] = [
    ["fails", () => problem(500, "internal")],
    ["lets nobody in", () => problem(403, "invalid_api_key")],
    ["has lost the index", () => problem(400, "index_not_found")],
    ["answers something else", () => Response.json({ results: "none" })],
    ["answers without what it found", () => Response.json({ results: [{ hits: [], estimatedTotalHits: 0 }] })],
    ["answers what is no JSON", () => new Response("<html>")],
    ["never answers", () => new Promise<never>(() => {})],
  ];
  test.each(faults)("when it %s, which pauses queries for a while", async (_, answer) => {
    const { server, rig, match } = await openFed();
    server.does.find = () => [65_536];
    expect(await match()).toEqual([1]);
    const searches = (): number => server.requests.filter((request) => request === "POST /multi-search").length;
    server.does.answer = (name) => (name === "POST /multi-search" ? answer() : undefined);
    expect(await match()).toEqual([1, 2]);
    expect(await match()).toEqual([1, 2]);
    expect(searches()).toBe(2);
    expect(rig.joined.state()).toMatchObject({ engine: "fts5", fallbacks: 2 });
    server.does.answer = undefined;
    rig.runtime.advanceTo(rig.runtime.now() + 5_000);
    await rig.joined.idle();
    expect(await match()).toEqual([1]);
    expect(rig.joined.state().engine).toBe("meilisearch");
    expect(JSON.stringify(rig.lines)).not.toContain(server.key);
  });

  const badly: [what: string, answer: () => Response][] = [
    ["fails", () => problem(500, "internal")],
    ["does not say what it found", () => Response.json({ results: [{ facetDistribution: {} }] })],
    ["answers nothing", () => Response.json({ results: [] })],
  ];
  test.each(badly)("and its ranking is ignored when it %s", async (_, answer) => {
    const { server, rig } = await openFed();
    const rank = async () => rig.joined.rank?.(parseQuery("alpha", 0), WHOLE_A, [1, 2], false);
    server.does.find = () => [131_072, 65_536];
    expect(await rank()).toEqual([
      { thread: 2, score: 1 },
      { thread: 1, score: 0.5 },
    ]);
    server.does.answer = (name) => (name === "POST /multi-search" ? answer() : undefined);
    expect(await rank()).toBeUndefined();
    expect(rig.joined.state()).toMatchObject({ engine: "fts5", fallbacks: 1 });
  });

  test("while it lacks anything", async () => {
    const { server, rig, match } = await openFed();
    server.does.find = () => [];
    const told = Promise.withResolvers<void>();
    server.does.answer = async () => {
      await told.promise;
      return undefined as unknown as Response;
    };
    rig.add({ thread: "four", text: "alpha" });
    expect(await match()).toEqual([1, 2, 4]);
    expect(rig.joined.state()).toMatchObject({ engine: "fts5", reason: "meilisearch is behind by 1 message" });
    told.resolve();
    await rig.joined.idle();
    expect(await match()).toEqual([]);
  });
});

describe("a server that lies", () => {
  const lies: [what: string, found: number[]][] = [
    ["of everybody's mail", [65_536, 131_072, 196_608]],
    ["of mail that is not there", [65_536, 99 * 65_536, Number.MAX_SAFE_INTEGER]],
    ["with what is no number", [65_536, Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY]],
  ];
  test.each(lies)("%s gives only numbers", async (_, found) => {
    const { server, match } = await openFed();
    server.does.find = () => found;
    for (const seq of await match()) expect(Number.isSafeInteger(seq)).toBe(true);
  });
});

describe("in an appliance", () => {
  const path = "/search?q=alpha&limit=100";
  const subjectsOf = async (api: Booted["api"], asked = path): Promise<string[]> => {
    const { body } = await api.get<{ threads: { subject: string }[] }>(asked);
    return body.threads.map(({ subject }) => subject).sort();
  };

  /** Alice's workspace, where Max is a member with a mailbox of his own, and Bob's, on a server that may return any mail. */
  async function openTenants() {
    const server = startFakeMeilisearch();
    const booted = await boot();
    const { core } = booted.opened;
    const { store, options } = core;
    const keys = store.transact((tx) => {
      const { id: other } = workspaceAdmin.addWorkspace(core, tx, "Other");
      const dkim = domains.listDomains(core)[0];
      if (!dkim) throw new Error("there is no domain");
      const { workspaceId } = booted.owner;
      const max = people.addUser(core, tx, {
        workspaceId,
        email: "max@example.test",
        name: "Max",
        role: "member",
        ownMailbox: true,
      });
      const bob = people.addUser(core, tx, {
        workspaceId: other,
        email: "bob@other.test",
        name: "Bob",
        role: "owner",
        ownMailbox: false,
      });
      const keyOf = (userId: string) =>
        developers.createKey(core, tx, { userId, name: "Tests", scopes: MAIL_SCOPES }).key;
      return { max: keyOf(max.userId), bob: keyOf(bob.userId) };
    });
    const sender = mailer(booted.mx);
    for (const to of ["alice", "max"]) {
      await sender.send({ from: "c@remote.example", to: `${to}@example.test` }, letter({ subject: to, text: "alpha" }));
    }
    sender.close();
    const set = (name: string, value: string) => store.transact((tx) => options.set(tx, name, value));
    set("search.meilisearchKey", server.key);
    set("search.meilisearchUrl", server.url);
    set("search.engine", "meilisearch");
    await booted.server.settled();
    return { server, booted, set, keys };
  }

  test("callers get only mail in reach, whatever the server returns", async () => {
    const { server, booted, keys } = await openTenants();
    const all = server.messages();
    expect(all).toHaveLength(2);
    const filters: string[] = [];
    server.does.find = ({ filter }) => {
      filters.push(filter);
      return all;
    };
    expect(await subjectsOf(booted.api)).toEqual(["alice", "max"]);
    expect(await subjectsOf(booted.apiWith(keys.max))).toEqual(["max"]);
    expect(await subjectsOf(booted.apiWith(keys.bob))).toEqual([]);
    expect(await subjectsOf(booted.api, `${path}&mailbox=alice@example.test`)).toEqual(["alice"]);
    const { workspaceId, mailboxId } = booted.owner;
    // Bob reaches no mailbox at all, so no query is sent for him.
    expect(filters).toEqual([
      `workspace = "${workspaceId}"`,
      expect.stringMatching(/^mailbox IN \["mbx_[^",]+"\]$/),
      `mailbox IN ["${mailboxId}"]`,
    ]);
  });

  test("callers get the same by relevance, which is requested within reach only", async () => {
    const { server, booted, keys } = await openTenants();
    const [first = 0, second = 0] = server.messages();
    let filters: string[] = [];
    server.does.find = ({ filter, showRankingScore }) => {
      if (showRankingScore) filters.push(filter);
      return [second, 99 * 65_536, Number.NaN, first];
    };
    const inOrder = async (key?: string, more = "") => {
      filters = [];
      const api = key === undefined ? booted.api : booted.apiWith(key);
      const { body } = await api.get<{ threads: { subject: string }[] }>(`${path}&sort=relevance${more}`);
      return body.threads.map(({ subject }) => subject);
    };
    const { workspaceId, mailboxId } = booted.owner;
    expect(await inOrder()).toEqual(["max", "alice"]);
    expect(filters).toEqual([`workspace = "${workspaceId}" AND thread IN [1,2]`]);
    expect(await inOrder(keys.max)).toEqual(["max"]);
    expect(filters).toEqual([expect.stringMatching(/^mailbox IN \["mbx_[^",]+"\] AND thread IN \[1,2\]$/)]);
    expect(await inOrder(undefined, "&mailbox=alice@example.test")).toEqual(["alice"]);
    expect(filters).toEqual([`mailbox IN ["${mailboxId}"] AND thread IN [1,2]`]);
    expect(await inOrder(keys.bob)).toEqual([]);
    expect(filters).toEqual([]);
  });

  test("suggested words come only from mail in reach, whatever the server forgives", async () => {
    const { server, booted, keys } = await openTenants();
    const sender = mailer(booted.mx);
    for (const [to, text] of [
      ["alice", "severance"],
      ["max", "temperance"],
    ] as const) {
      await sender.send({ from: "c@remote.example", to: `${to}@example.test` }, letter({ subject: text, text }));
    }
    sender.close();
    await booted.server.settled();
    const all = server.messages();
    server.does.find = ({ attributesToSearchOn }) => (attributesToSearchOn ? all : []);
    const answerOf = async (key: string | undefined, q: string) => {
      const api = key === undefined ? booted.api : booted.apiWith(key);
      const { body } = await api.get<{ threads: { subject: string }[]; nearWords?: string[] }>(`/search?q=${q}`);
      return [body.threads.map(({ subject }) => subject).sort(), body.nearWords];
    };
    expect(await answerOf(undefined, "severence")).toEqual([
      ["alice", "max", "severance", "temperance"],
      ["severance"],
    ]);
    expect(await answerOf(keys.max, "severence")).toEqual([["max", "temperance"], []]);
    expect(await answerOf(keys.max, "temperence")).toEqual([["max", "temperance"], ["temperance"]]);
    expect(await answerOf(keys.bob, "severence")).toEqual([[], undefined]);
    expect(await answerOf(undefined, "%22severence%22")).toEqual([[], undefined]);
    // Words of own mail that the list does not show are not suggested, either.
    const { threads } = (await booted.api.get<{ threads: { id: string; subject: string }[] }>("/threads")).body;
    const severance = threads.find(({ subject }) => subject === "severance");
    await booted.api.patch(`/threads/${severance?.id}`, { folder: "trash" });
    expect(await answerOf(undefined, "severence")).toEqual([["alice", "max", "temperance"], []]);
    expect(await answerOf(undefined, "severence&folder=trash")).toEqual([["severance"], ["severance"]]);
  });

  test("the health page names the engine, and is healthy with each", async () => {
    const { booted, set } = await openTenants();
    const health = async () => {
      const answer = await fetch(`${booted.http}/healthz`);
      return [answer.status, ((await answer.json()) as { search: string }).search];
    };
    expect(await health()).toEqual([200, "meilisearch"]);
    set("search.meilisearchKey", "another");
    await booted.server.settled();
    expect(await health()).toEqual([200, "fts5 (meilisearch cannot be fed)"]);
    set("search.meilisearchUrl", "none");
    await booted.server.settled();
    expect(await health()).toEqual([200, "fts5 (meilisearch is not running)"]);
    set("search.engine", "fts5");
    await booted.server.settled();
    expect(await health()).toEqual([200, "fts5"]);
  });

  test("mail is accepted while the server hangs", async () => {
    const { server, booted } = await openTenants();
    server.does.answer = () => new Promise<never>(() => {});
    const sender = mailer(booted.mx);
    const { reply } = await sender.send(
      { from: "c@remote.example", to: "alice@example.test" },
      letter({ subject: "third", text: "alpha" }),
    );
    sender.close();
    expect(reply).toStartWith("250");
    expect(await subjectsOf(booted.api)).toEqual(["alice", "max", "third"]);
  });
});

describe("metrics while Meilisearch is", () => {
  const NAMES = [
    "backlog_messages",
    "up",
    "behind_messages",
    "refused_messages",
    "fallbacks_total",
    "process_up",
    "process_restarts_total",
  ];
  type Figures = (number | undefined)[];

  const OFF: Figures = [undefined, undefined, undefined, undefined];
  const cases: [name: string, search: SearchState, process: ProcessState, figures: Figures][] = [
    [
      "not asked for",
      { engine: "fts5", feed: { phase: "off", behind: 0, refused: 0 }, backlog: 12, fallbacks: 0 },
      { state: "off", restarts: 0 },
      [12, ...OFF, undefined, undefined],
    ],
    [
      "down",
      {
        engine: "fts5",
        reason: "it is down",
        feed: { phase: "down", behind: 7, refused: 1 },
        backlog: 0,
        fallbacks: 3,
      },
      { state: "failed", restarts: 2 },
      [0, 0, 7, 1, 3, 0, 2],
    ],
    [
      "answering",
      { engine: "meilisearch", feed: { phase: "current", behind: 0, refused: 0 }, backlog: 0, fallbacks: 1 },
      { state: "running", restarts: 1 },
      [0, 1, 0, 0, 1, 1, 1],
    ],
    [
      "another's server",
      { engine: "meilisearch", feed: { phase: "current", behind: 0, refused: 0 }, backlog: 0, fallbacks: 0 },
      { state: "off", restarts: 0 },
      [0, 1, 0, 0, 0, undefined, undefined],
    ],
  ];
  test.each(cases)("%s", async (_, search, process, figures) => {
    const metrics = createMetrics();
    registerSearchGauges(metrics, { search: () => search, process: () => process });
    const families = readExposition(await metrics.expose());
    expect(NAMES.map((name) => sampleOf(families, `mailroom_search_${name}`))).toEqual(figures);
  });
});
