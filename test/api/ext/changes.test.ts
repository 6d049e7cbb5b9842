/** The list of changes over /api/ext/v1 (rules: Changes). */
import { beforeAll, describe, expect, test } from "bun:test";
import { count, eq } from "drizzle-orm";
import * as developers from "../../../src/admin/developers.ts";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import * as removals from "../../../src/admin/removals.ts";
import { deleteThreads } from "../../../src/mailbox/changing/threads.ts";
import { listMailboxes } from "../../../src/mailbox/state/mailboxes.ts";
import { mailboxes, SCOPES, threadChanges } from "../../../src/store/schema.ts";
import type { Client } from "../../harness/clients/api.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";
import { until } from "../../harness/until.ts";

interface Change {
  threadId: string;
  mailboxId: string;
  kind: "upserted" | "gone";
  at: string;
}
interface Changes {
  changes: Change[];
  next: string;
  more: boolean;
}

const DAY = 86_400_000;
let world: ExtWorld;
beforeAll(async () => {
  world = await bootExt();
});

const read = async (as: Client, query = ""): Promise<Changes> => {
  const { status, body } = await as.get<Changes>(`/api/ext/v1/changes${query}`);
  expect([status, body]).toEqual([200, expect.anything()]);
  return body;
};
/** A reader that passes each cursor on, until there is no more. */
async function follow(as: Client, filter = "") {
  let { next } = await read(as);
  return async (): Promise<Change[]> => {
    const changes: Change[] = [];
    for (let more = true; more; ) {
      const page = await read(as, `?after=${next}${filter}`);
      changes.push(...page.changes);
      ({ next, more } = page);
    }
    return changes;
  };
}
const kinds = (changes: Change[]): [string, string][] => changes.map(({ threadId, kind }) => [threadId, kind]);

describe("a cursor", () => {
  test("without after is the present one; what changes later follows, oldest first, once a conversation", async () => {
    await world.receive(ALICE, "Before");
    const changes = await follow(world.api);
    expect(await changes()).toEqual([]);
    const first = await world.receive(ALICE, "First");
    const second = await world.receive(ALICE, "Second");
    await world.api.patch(`/threads/${first.threadId}`, { starred: true });
    const { mailboxId } = world.owner;
    const at = new Date(world.runtime.now()).toISOString();
    expect(await changes()).toEqual([
      { threadId: second.threadId, mailboxId, kind: "upserted", at },
      { threadId: first.threadId, mailboxId, kind: "upserted", at },
    ]);
    expect(await changes()).toEqual([]);
  });

  test.each<[string, (id: string) => Promise<unknown>, string]>([
    ["a move", (id) => world.api.patch(`/threads/${id}`, { folder: "trash" }), "upserted"],
    ["a label", (id) => world.api.patch(`/threads/${id}`, { addLabels: ["x"] }), "upserted"],
    ["a read mark", (id) => world.api.patch(`/threads/${id}`, { read: true }), "upserted"],
    [
      "snoozing",
      (id) =>
        world.api.patch(`/api/ext/v1/threads/${id}/snooze`, {
          until: new Date(world.runtime.now() + 1e6).toISOString(),
        }),
      "upserted",
    ],
    ["deletion", async (id) => deleteThreads(world.opened.core, await aliceWith(id), [id]), "gone"],
  ])("of %s is %s", async (_, change, kind) => {
    const { threadId } = await world.receive(ALICE, "Changed");
    const changes = await follow(world.api);
    await change(threadId);
    expect(kinds(await changes())).toEqual([[threadId, kind]]);
  });

  test("is good for 30 days, and goes on from there", async () => {
    const changes = await follow(world.api);
    const { threadId } = await world.receive(ALICE, "A month ago");
    await world.api.patch(`/threads/${threadId}`, { folder: "trash" });
    const { threadId: deleted } = await world.receive(ALICE, "Deleted");
    await world.api.patch(`/threads/${deleted}`, { folder: "trash" });
    await deleteThreads(world.opened.core, await aliceWith(deleted), [deleted]);
    await world.advance(30 * DAY - 1);
    const told = (await changes()).filter((change) => [threadId, deleted].includes(change.threadId));
    expect(kinds(told)).toEqual([
      [threadId, "upserted"],
      [deleted, "gone"],
    ]);
    const { next } = await read(world.api);
    await world.advance(30 * DAY + 1);
    const old = await world.api.get<{ code: string; error: string }>(`/api/ext/v1/changes?after=${next}`);
    expect([old.status, old.body]).toEqual([
      400,
      { code: "bad_request", error: expect.stringMatching(/30 days.*begin anew/) },
    ]);
  });

  test.each(["x", "MS4x", "MS4wLjAuMA", Buffer.from("1.999999.1.0").toString("base64url"), ""])(
    "%p is 400",
    async (after) => {
      const { status, body } = await world.api.get(`/api/ext/v1/changes?after=${after}`);
      expect([status, body]).toMatchObject([400, { code: "bad_request" }]);
    },
  );
});

/** Alice as the mailbox knows her; the conversation goes to trash first. */
async function aliceWith(id: string) {
  await world.api.patch(`/threads/${id}`, { folder: "trash" });
  const { userId, workspaceId } = world.owner;
  return { userId, workspaceId, role: "owner", email: ALICE, scopes: new Set(SCOPES) } as const;
}

describe("waiting", () => {
  const timers = () => world.runtime.timers().filter((at) => at - world.runtime.now() > 10_000).length;

  test("ends with the first change in reach", async () => {
    const { next } = await read(world.asMax);
    const before = timers();
    const waits = read(world.asMax, `?after=${next}&waitSeconds=50`);
    await until(() => timers() === before + 1);
    const { threadId } = await world.receive(MAX, "Awaited");
    expect(kinds((await waits).changes)).toEqual([[threadId, "upserted"]]);
  });

  test("ends after its time without any", async () => {
    const before = timers();
    const waits = read(world.asMax, "?waitSeconds=20");
    await until(() => timers() === before + 1);
    await world.advance(20_000);
    expect(await waits).toEqual({ changes: [], next: expect.any(String), more: false });
  });

  test("ends with the key", async () => {
    const { core } = world.opened;
    const { store } = core;
    const made = store.transact((tx) =>
      developers.createKey(core, tx, { userId: world.maxId, name: "Short", scopes: ["read"] }),
    );
    const before = timers();
    const waits = world.apiWith(made.key).get("/api/ext/v1/changes?waitSeconds=50");
    await until(() => timers() === before + 1);
    store.transact((tx) => developers.revokeKey(core, tx, made.id));
    await world.receive(MAX, "Afterwards");
    expect(await waits).toMatchObject({ status: 401 });
  });

  test.each(["51", "-1", "x"])("waitSeconds=%s is 400", async (seconds) => {
    expect(await world.api.get(`/api/ext/v1/changes?waitSeconds=${seconds}`)).toMatchObject({ status: 400 });
  });
});

describe("reach", () => {
  const setRole = (role: "member" | "admin") =>
    world.core.store.transact((tx) => people.setRole(tx, world.maxId, role));
  const unshare = () =>
    world.core.store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, world.owner.mailboxId, world.maxId));
  const share = () =>
    world.core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "view"));
  const threadsOf = async (as: Client): Promise<string[]> => {
    const ids: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await as.get<{ threads: { id: string }[]; nextCursor: string | null }>(
        `/threads?folder=all&mailbox=${ALICE}&limit=100${cursor && `&cursor=${cursor}`}`,
      );
      ids.push(...body.threads.map(({ id }) => id));
      if (body.nextCursor === null) return ids;
      cursor = body.nextCursor;
    }
  };

  test("only mail in it is told, and of one mailbox if asked", async () => {
    const mine = await follow(world.asMax, `&mailbox=${world.maxMailboxId}`);
    const all = await follow(world.asMax);
    const { threadId: hers } = await world.receive(ALICE, "Shared");
    const { threadId: his } = await world.receive(MAX, "Own");
    expect(kinds(await mine())).toEqual([[his, "upserted"]]);
    expect(kinds(await all())).toEqual([
      [hers, "upserted"],
      [his, "upserted"],
    ]);
    expect(await world.asMax.get("/api/ext/v1/changes?mailbox=mbx_unknown")).toMatchObject({ status: 404 });
  });

  test("a share that ends: its conversations are gone; one that begins: they are upserted", async () => {
    const before = (await threadsOf(world.api)).sort();
    expect(before.length).toBeGreaterThan(3);
    const changes = await follow(world.asMax);
    unshare();
    // Not told: he reaches it no more.
    const { threadId: later } = await world.receive(ALICE, "Later");
    const gone = (await changes()).filter(({ mailboxId }) => mailboxId === world.owner.mailboxId);
    expect(new Set(gone.map(({ kind }) => kind))).toEqual(new Set(["gone"]));
    expect(gone.map(({ threadId }) => threadId)).toEqual(expect.arrayContaining(before));
    expect(gone.map(({ threadId }) => threadId)).not.toContain(later);
    share();
    const back = await changes();
    expect(new Set(back.map(({ kind }) => kind))).toEqual(new Set(["upserted"]));
    expect(back.map(({ threadId }) => threadId)).toEqual(expect.arrayContaining([...before, later]));
  });

  test("a role that ends and begins", async () => {
    unshare();
    const { threadId } = await world.receive(ALICE, "Hers alone");
    const changes = await follow(world.asMax);
    setRole("admin");
    expect(kinds(await changes())).toContainEqual([threadId, "upserted"]);
    setRole("member");
    const gone = await changes();
    expect(kinds(gone)).toContainEqual([threadId, "gone"]);
    // His own mail stays.
    expect(gone.map(({ mailboxId }) => mailboxId)).not.toContain(world.maxMailboxId);
    share();
  });

  test("many conversations come in pages, and deleted ones are gone even then", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { workspaceId } = world.owner;
    const box = store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" }),
    );
    const ids: string[] = [];
    for (let i = 0; i < 6; i++) ids.push((await world.receive("team@example.test", `Team ${i}`)).threadId);
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, box, world.maxId, "view"));
    const changes = await follow(world.asMax);
    store.transact((tx) => removals.beginMailboxRemoval(tx, box));
    while (store.db.select().from(mailboxes).where(eq(mailboxes.id, box)).get()) await world.advance(3_600_000);
    const told = await changes();
    expect(kinds(told).sort()).toEqual(ids.map((id): [string, string] => [id, "gone"]).sort());
    expect(listMailboxes(core, await aliceWith(ids[0] ?? ""))).not.toContainEqual(expect.objectContaining({ id: box }));
    expect(kinds(await (await follow(world.api))())).toEqual([]);
  });

  test("a person who is removed leaves no row about their reach", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { workspaceId } = world.owner;
    const { userId } = store.transact((tx) => {
      const added = people.addUser(core, tx, {
        workspaceId,
        email: "eve@example.test",
        name: "Eve",
        role: "member",
        ownMailbox: false,
      });
      mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, added.userId, "view");
      return added;
    });
    const rows = () =>
      store.db.select({ n: count() }).from(threadChanges).where(eq(threadChanges.userId, userId)).get()?.n;
    expect(rows()).toBe(1);
    store.transact((tx) => people.removeUser(tx, userId));
    expect(rows()).toBe(0);
  });
});
