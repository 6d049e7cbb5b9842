/** Many conversations at once, snoozing, labels and deliveries over /api/ext/v1 (rules: Further API). */
import { beforeAll, describe, expect, test } from "bun:test";
import { ALICE, bootExt, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";

interface Thread {
  id: string;
  folder: string;
  unread: boolean;
  starred: boolean;
  labels: string[];
  snoozedUntil?: string;
}
interface Changed {
  threads: Thread[];
  refused: { id: string; code: string; error: string }[];
}

const EXT = "/api/ext/v1";
let world: ExtWorld;
beforeAll(async () => {
  world = await bootExt();
});

const receiveMany = async (count: number): Promise<string[]> => {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((await world.receive(ALICE, `News ${i}`)).threadId);
  return ids;
};
const thread = async (id: string): Promise<Thread> =>
  (await world.api.get<{ thread: Thread }>(`/threads/${id}`)).body.thread;

describe("PATCH /threads", () => {
  test("changes each, and answers with their new state", async () => {
    const ids = await receiveMany(3);
    const { status, body } = await world.api.patch<Changed>(`${EXT}/threads`, {
      ids,
      folder: "archive",
      read: true,
      addLabels: ["News"],
    });
    expect(status).toBe(200);
    expect(body.refused).toEqual([]);
    expect(body.threads.map(({ id, folder, unread, labels }) => ({ id, folder, unread, labels }))).toEqual(
      ids.map((id) => ({ id, folder: "archive", unread: false, labels: ["News"] })),
    );
    expect(await thread(ids[2] ?? "")).toMatchObject({ folder: "archive", unread: false, labels: ["News"] });
  });

  test("tells which it refused and why, and changes the others", async () => {
    const [id = ""] = await receiveMany(1);
    const draft = await world.api.post<{ draftId: string }>(`/threads/${id}/draft`, { text: "Soon" });
    const ids = [draft.body.draftId, "thr_unknown", id];
    const { status, body } = await world.api.patch<Changed>(`${EXT}/threads`, { ids, folder: "archive" });
    expect(status).toBe(200);
    expect(body.threads.map((one) => one.id)).toEqual([id]);
    expect(body.refused).toEqual([
      { id: ids[0] ?? "", code: "conflict", error: expect.stringContaining("draft") },
      { id: "thr_unknown", code: "not_found", error: expect.stringContaining("no such thread") },
    ]);
  });

  test("of a share for viewing marks read, and moves nothing", async () => {
    const [id = ""] = await receiveMany(1);
    const read = await world.asMax.patch<Changed>(`${EXT}/threads`, { ids: [id], read: true });
    expect([read.body.threads.map(({ unread }) => unread), read.body.refused]).toEqual([[false], []]);
    const moved = await world.asMax.patch<Changed>(`${EXT}/threads`, { ids: [id], folder: "trash" });
    expect([moved.status, moved.body]).toMatchObject([200, { threads: [], refused: [{ id, code: "forbidden" }] }]);
    expect((await thread(id)).folder).toBe("inbox");
  });

  test.each([
    [{}, "ids is required"],
    [{ ids: [], read: true }, "ids must be a list of 1 to 100 items"],
    [{ ids: Array.from({ length: 101 }, (_, i) => `thr_${i}`), read: true }, "ids must be a list of 1 to 100 items"],
    [{ ids: ["thr_1", "thr_1"], read: true }, "ids must be a list of 1 to 100 items, each once"],
    [{ ids: ["thr_1"] }, "The body needs at least one of"],
    [{ ids: ["thr_1"], unread: true, read: true }, "read and unread"],
    [{ ids: ["thr_1"], colour: "red" }, "colour is not a field"],
    [{ ids: ["thr_1"], addLabels: [" "] }, "a label needs at least one character"],
    [{ ids: ["thr_1"], labels: ["x".repeat(61)] }, "labels[0] must be text of at most 60 characters"],
  ])("%j is 400", async (body, says) => {
    const answer = await world.api.patch<{ code: string; error: string }>(`${EXT}/threads`, body);
    expect([answer.status, answer.body.code]).toEqual([400, "bad_request"]);
    expect(answer.body.error).toContain(says);
  });

  test("needs the scope write, and counts as one request", async () => {
    const reader = world.apiWith(world.keyOf(world.owner.userId, ["read"]));
    expect(await reader.patch(`${EXT}/threads`, { ids: ["thr_1"], read: true })).toMatchObject({
      status: 403,
      body: { code: "missing_scope" },
    });
    const left = async () => Number((await world.api.get("/mailboxes")).headers.get("x-ratelimit-remaining"));
    const before = await left();
    await world.api.patch(`${EXT}/threads`, { ids: await receiveMany(2), read: true });
    // receive() asks once for each.
    expect(before - (await left())).toBe(1 + 2 + 1);
  });
});

describe("PATCH /threads/{id}/snooze", () => {
  const snooze = (id: string, until: unknown, as = world.api) =>
    as.patch<{ thread: Thread; code?: string; error?: string }>(`${EXT}/threads/${id}/snooze`, { until });

  test("takes it out of the inbox until then; null brings it back at once", async () => {
    const [id = ""] = await receiveMany(1);
    const until = new Date(world.runtime.now() + 3_600_000).toISOString();
    const snoozed = await snooze(id, until);
    expect([snoozed.status, snoozed.body.thread]).toMatchObject([200, { snoozedUntil: until }]);
    const inbox = async () =>
      (await world.api.get<{ threads: Thread[] }>("/threads?limit=100")).body.threads.map((one) => one.id);
    expect(await inbox()).not.toContain(id);
    expect((await snooze(id, null)).body.thread).not.toHaveProperty("snoozedUntil");
    expect(await inbox()).toContain(id);
  });

  test("it returns unread by itself", async () => {
    const [id = ""] = await receiveMany(1);
    await world.api.patch(`/threads/${id}`, { read: true });
    await snooze(id, new Date(world.runtime.now() + 60_000).toISOString());
    await world.advance(60_000);
    const back = await thread(id);
    expect([back.unread, back.snoozedUntil]).toEqual([true, undefined]);
  });

  test("null moves nothing that is not snoozed", async () => {
    const [id = ""] = await receiveMany(1);
    await world.api.patch(`/threads/${id}`, { folder: "archive" });
    expect((await snooze(id, null)).body.thread.folder).toBe("archive");
  });

  test("is refused where it cannot be, and for whom", async () => {
    const [id = ""] = await receiveMany(1);
    const soon = new Date(world.runtime.now() + 60_000).toISOString();
    expect(await snooze(id, soon, world.asMax)).toMatchObject({ status: 403, body: { code: "forbidden" } });
    expect(await snooze("thr_unknown", soon)).toMatchObject({ status: 404 });
    await world.api.patch(`/threads/${id}`, { folder: "trash" });
    expect(await snooze(id, soon)).toMatchObject({ status: 409, body: { code: "conflict" } });
  });

  test.each([
    ["tomorrow", "until must be a time as in"],
    ["2030-01-07", "until must be a time as in"],
    ["2030-01-07T08:00:00", "until must be a time as in"],
    ["2030-02-31T08:00:00Z", "until must be a time as in"],
    ["2020-01-07T08:00:00Z", "within the year to come"],
    ["9999-01-07T08:00:00Z", "within the year to come"],
    [5, "until must be a time as in 2030-01-07T08:00:00Z or null"],
    [undefined, "until is required"],
  ])("%p is 400", async (until, says) => {
    const { status, body } = await snooze("thr_1", until);
    expect([status, body.code]).toEqual([400, "bad_request"]);
    expect(body.error).toContain(says);
  });
});

describe("labels", () => {
  interface Labels {
    labels: { name: string; threads: number }[];
    nextCursor: string | null;
  }
  const list = async (as = world.api, query = "") => (await as.get<Labels>(`${EXT}/labels${query}`)).body;
  const named = async (name: string, as = world.api) =>
    (await list(as, "?limit=100")).labels.find((label) => label.name.toLowerCase() === name.toLowerCase());

  test("are listed by name over all mailboxes in reach, in pages", async () => {
    const [a = "", b = ""] = await receiveMany(2);
    const { threadId: c } = await world.receive(MAX, "For Max");
    await world.api.patch(`${EXT}/threads`, { ids: [a, b], addLabels: ["Årsmöte", "alpha"] });
    await world.asMax.patch(`/threads/${c}`, { addLabels: ["ALPHA", "zeta"] });
    expect(await named("alpha")).toEqual({ name: "alpha", threads: 3 });
    const first = await list(world.api, "?limit=1");
    expect([first.labels.length, typeof first.nextCursor]).toEqual([1, "string"]);
    const names: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page = await list(world.api, `?limit=1${cursor && `&cursor=${cursor}`}`);
      names.push(...page.labels.map(({ name }) => name));
      cursor = page.nextCursor;
    }
    expect(names).toEqual((await list(world.api, "?limit=100")).labels.map(({ name }) => name));
    expect(await world.api.get(`${EXT}/labels?cursor=x`)).toMatchObject({ status: 400 });
  });

  test("are renamed everywhere; a new name that is there already is kept once", async () => {
    const ids = await receiveMany(2);
    await world.api.patch(`${EXT}/threads`, { ids, labels: ["First", "Bills/2026", "Last"] });
    await world.api.patch(`/threads/${ids[1]}`, { addLabels: ["invoices"] });
    const renamed = await world.api.patch(`${EXT}/labels/${encodeURIComponent("bills/2026")}`, { name: " Invoices " });
    expect(renamed).toMatchObject({ status: 200, body: { threads: 2 } });
    expect((await thread(ids[0] ?? "")).labels).toEqual(["First", "Invoices", "Last"]);
    expect((await thread(ids[1] ?? "")).labels).toEqual(["First", "Invoices", "Last"]);
    expect(await named("Bills/2026")).toBeUndefined();
    expect(await named("Invoices")).toEqual({ name: "Invoices", threads: 2 });
    // In another case it stays the same label, and shows the new name.
    await world.api.patch(`${EXT}/labels/INVOICES`, { name: "iNVOICES" });
    expect(await named("invoices")).toEqual({ name: "iNVOICES", threads: 2 });
  });

  test("are removed everywhere, by the portion", async () => {
    const ids = await receiveMany(3);
    await world.api.patch(`${EXT}/threads`, { ids, addLabels: ["Doomed"] });
    expect(await world.api.delete(`${EXT}/labels/doomed`)).toMatchObject({ status: 200, body: { threads: 3 } });
    expect((await thread(ids[0] ?? "")).labels).toEqual([]);
    expect(await world.api.delete(`${EXT}/labels/doomed`)).toMatchObject({ status: 404, body: { code: "not_found" } });
  });

  test("of a mailbox that is shared for viewing stay, and those out of reach are not there", async () => {
    const [id = ""] = await receiveMany(1);
    await world.api.patch(`/threads/${id}`, { addLabels: ["Only Alice"] });
    expect(await named("Only Alice", world.asMax)).toEqual({ name: "Only Alice", threads: 1 });
    for (const refused of [
      await world.asMax.patch(`${EXT}/labels/only%20alice`, { name: "Mine" }),
      await world.asMax.delete(`${EXT}/labels/only%20alice`),
    ]) {
      expect(refused).toMatchObject({ status: 403, body: { code: "forbidden" } });
    }
    const { threadId } = await world.receive(MAX, "Also");
    await world.asMax.patch(`/threads/${threadId}`, { addLabels: ["only alice"] });
    expect((await world.asMax.patch(`${EXT}/labels/only%20alice`, { name: "Mine" })).body).toEqual({ threads: 1 });
    expect((await thread(id)).labels).toEqual(["Only Alice"]);
  });

  test.each([
    ["", "a label needs"],
    [" ", "a label needs"],
    ["x".repeat(61), "at most 60"],
  ])("the new name %p is 400", async (name, says) => {
    const { status, body } = await world.api.patch<{ error: string }>(`${EXT}/labels/any`, { name });
    expect(status).toBe(400);
    expect(body.error).toContain(says);
  });
});

describe("GET /messages/{id}/deliveries", () => {
  const deliveries = (id: string, as = world.api) =>
    as.get<{ deliveries: Record<string, unknown>[] }>(`${EXT}/messages/${id}/deliveries`);

  test("tells the state of each recipient, of Bcc to its sender alone", async () => {
    const to = [MAX, "nobody@gone.example"];
    const sent = await world.api.post<{ emailId: string }>("/send", {
      from: ALICE,
      to,
      bcc: "hidden@gone.example",
      text: "Hello",
    });
    await world.server.settled();
    const { status, body } = await deliveries(sent.body.emailId);
    expect(status).toBe(200);
    expect(body.deliveries).toEqual([
      {
        recipient: MAX,
        field: "to",
        state: "delivered",
        attempts: 1,
        settledAt: expect.any(String),
        complained: false,
        reply: expect.any(String),
      },
      {
        recipient: "nobody@gone.example",
        field: "to",
        state: expect.any(String),
        attempts: 1,
        complained: false,
        reply: expect.any(String),
        ...(body.deliveries[1]?.settledAt ? { settledAt: expect.any(String) } : { nextAttemptAt: expect.any(String) }),
      },
      expect.objectContaining({ recipient: "hidden@gone.example", field: "bcc" }),
    ]);
    const seen = (await deliveries(sent.body.emailId, world.asMax)).body.deliveries;
    expect(seen.map(({ recipient }) => recipient)).toEqual(to);
  });

  test("is empty for mail that came in, and 404 out of reach", async () => {
    const { emailId } = await world.receive(ALICE, "In");
    expect(await deliveries(emailId)).toMatchObject({ status: 200, body: { deliveries: [] } });
    expect(await deliveries("msg_unknown")).toMatchObject({ status: 404, body: { code: "not_found" } });
  });
});

describe("the API", () => {
  test("has a document of its own, and the twelve operations stay as they are", async () => {
    const document = await world.apiWith().get<{ paths: object; info: { version: string } }>(`${EXT}/openapi.json`);
    expect([document.status, Object.keys(document.body.paths)]).toEqual([200, expect.arrayContaining(["/threads"])]);
    const twelve = (await world.apiWith().get<{ paths: Record<string, object> }>("/openapi.json")).body.paths;
    expect(Object.values(twelve).flatMap((path) => Object.keys(path))).toHaveLength(12);
  });

  test("answers 401 without a key, 404 for a path that is not there", async () => {
    expect(await world.apiWith().get(`${EXT}/labels`)).toMatchObject({ status: 401 });
    const { status, body } = await world.api.get<{ error: string }>(`${EXT}/nothing`);
    expect([status, body.error]).toEqual([404, expect.stringContaining("/api/ext/v1/openapi.json")]);
  });
});
