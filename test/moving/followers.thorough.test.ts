/** Webhooks, and programs that follow the mail, go on at the other server and miss nothing. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { apiClient } from "../harness/clients/api.ts";
import { peek } from "../harness/data/table-rows.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import {
  copySource,
  deleteForGood,
  exportTo,
  importFrom,
  makeSource,
  move,
  newExport,
  openPlace,
  type Place,
} from "../harness/servers/moving-world.ts";

setDefaultTimeout(30_000);
beforeAll(async () => void (await makeSource()));

const CHANGES = "/api/ext/v1/changes";

/** A server where a lot has happened already, so that the numbers of rows of an export are taken. */
async function busyPlace(): Promise<Place> {
  const place = openPlace();
  await place.ask("workspace", "add", "Busy");
  peek(place.data, (db) =>
    db.exec(
      `INSERT INTO events (seq, id, workspace_id, event, created_at, data)
         SELECT 3, 'evt_busy', id, 'message.inbound', 1, '{}' FROM workspaces;
       INSERT INTO thread_changes (seq, thread_seq, thread_id, mailbox_id, kind, at) VALUES (5, 7, 'thr_busy', 'mbx_busy', 'upserted', 1);
       UPDATE webhook_cursor SET event_seq = 3`,
    ),
  );
  return place;
}

test("an event that was not announced yet is announced by the other server, and no other", async () => {
  /** Makes the last event look as if the server had been killed before it announced it. */
  const unannounce = ({ data }: Place): string =>
    peek(data, (db) => {
      const { seq, id } = db
        .query(
          `SELECT seq, id FROM events WHERE event = 'message.inbound' AND data ->> 'mailbox' LIKE '%@example.test'
           ORDER BY seq DESC LIMIT 1`,
        )
        .get() as { seq: number; id: string };
      db.exec(
        `DELETE FROM webhook_deliveries WHERE event_seq = ${seq}; UPDATE webhook_cursor SET event_seq = ${seq - 1}`,
      );
      return id;
    });
  const eventsIn = ({ data }: Place) =>
    peek(data, (db) =>
      db
        .query(
          "SELECT event_id AS id FROM webhook_deliveries JOIN webhook_endpoints e ON e.seq = endpoint_seq WHERE url LIKE '%/a' ORDER BY 1",
        )
        .all(),
    ) as { id: string }[];
  for (const target of [openPlace(), await busyPlace()]) {
    const source = await copySource();
    const last = unannounce(source);
    const before = eventsIn(source).map(({ id }) => id);
    expect(before).not.toContain(last);
    const folder = newExport();
    await exportTo(source, folder, "--final");
    await importFrom(target, folder);
    const served = await target.serve();
    await served.server.settled();
    await served.server.stop(0);
    // Not those of notices that the other server files by itself.
    const known = peek(source.data, (db) => JSON.stringify(db.query("SELECT id FROM events").all()));
    const announced = eventsIn(target).filter(({ id }) => known.includes(id));
    expect(announced.map(({ id }) => id)).toEqual([...before, last].sort());
  }
});

test("a cursor of the old server leads to everything since, and a deletion is told", async () => {
  const source = await copySource();
  const old = await source.serve();
  const api = apiClient(old.http, source.key);
  const { next } = (await api.get<{ next: string }>(CHANGES)).body;
  const arrivals = (await api.get<{ nextAfter: string }>("/messages?after=2026-01-05T09:00:00Z")).body.nextAfter;
  const { threads } = (await api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=drafts")).body;
  const draft = threads.find(({ subject }) => subject === "Unsent")?.id ?? "";
  await deleteForGood(old, source, draft);
  await old.server.settled();
  await old.server.stop(0);

  const folder = newExport();
  await exportTo(source, folder, "--final");
  for (const place of [openPlace(), await busyPlace()]) {
    await importFrom(place, folder);
    await place.ask("domain", "verify", "example.test", "--skip-dns");
    const served = await place.serve();
    const there = apiClient(served.http, source.key);
    const all = (await there.get<{ threads: { id: string }[] }>("/threads?folder=all&limit=100")).body.threads;
    const changes: { threadId: string; kind: string }[] = [];
    for (let after = next, more = true; more; ) {
      const { status, body } = await there.get<{ changes: typeof changes; next: string; more: boolean }>(
        `${CHANGES}?after=${after}`,
      );
      expect(status).toBe(200);
      changes.push(...body.changes);
      ({ next: after, more } = body);
    }
    const upserted = new Set(changes.filter(({ kind }) => kind === "upserted").map(({ threadId }) => threadId));
    for (const { id } of all) expect([id, upserted.has(id)]).toEqual([id, true]);
    expect(changes).toContainEqual(expect.objectContaining({ threadId: draft, kind: "gone" }));

    const sender = mailer(served.mx);
    await sender.send(
      { from: "carol@remote.example", to: "alice@example.test" },
      letter({ subject: "After the move" }),
    );
    sender.close();
    const { body } = await there.get<{ messages: { subject: string }[] }>(`/messages?after=${arrivals}&limit=100`);
    expect(body.messages.map(({ subject }) => subject)).toContain("After the move");
    await served.server.stop(0);
  }
});

test("mail comes and goes at the other server", async () => {
  const { place } = await move(await copySource());
  const source = await makeSource();
  const served = await place.serve();
  const sender = mailer(served.mx);
  const { reply } = await sender.send(
    { from: "carol@remote.example", to: "sales@example.test" },
    letter({ to: "sales@example.test", subject: "New here", text: "brandnewword" }),
  );
  sender.close();
  expect(reply).toStartWith("250");
  const api = apiClient(served.http, source.key);
  const { body } = await api.get<{ threads?: object[]; results?: object[] }>("/search?q=brandnewword");
  expect(JSON.stringify(body)).toContain("New here");
  expect((await api.post("/send", { ...source.sent.body, subject: "From here" })).status).toBe(202);
  await served.server.stop(0);
});
