/** The queue over the administration API. */
import { expect, test } from "bun:test";
import { addOutbound } from "../../src/outbound/queue.ts";
import { messages, queueEntries } from "../../src/store/schema.ts";
import { startAdmin } from "../harness/servers/admin-world.ts";

type Entry = Record<string, unknown> & { id: string };

/** Messages of Olga's and Max's to Zoe, each with a Bcc to Ben, and one of another workspace. */
async function start() {
  const api = await startAdmin();
  const { store, runtime, file } = api;
  const put = async (name: string, workspaceId: string, sentBy: string, bcc: string) => {
    const { messageId: id } = await file(`From: a@example.test\nMessage-ID: <${name}@example.test>\n\nHello`);
    store.transact((tx) => {
      tx.update(messages).set({ sentBy }).run();
      addOutbound(tx, {
        ...{ id, workspaceId, mailboxId: "mbx_olga", mailbox: "olga@example.test", threadId: "thr_1" },
        ...{ messageId: `<${name}@example.test>`, subject: "Hello", domain: "example.test" },
        ...{ returnPath: `bounce+${name}@example.test`, acceptedAt: runtime.now(), outsideRecipients: 2 },
        recipients: [
          { id: `que_${name}_to`, email: "zoe@remote.example", field: "to" },
          { id: `que_${name}_bcc`, email: bcc, field: "bcc" },
        ],
        content: { bytes: new TextEncoder().encode("Subject: Hello\r\n\r\n") },
      });
    });
  };
  await put("max", "wsp_1", "max", "hidden@remote.example");
  await put("theirs", api.other, "eve", "hidden@remote.example");
  return { ...api, put };
}

test("the recipients of a workspace are listed, and Bcc recipients of others are not named", async () => {
  const { call } = await start();
  const { status, body, text } = await call("GET", "/queue");
  expect(status).toBe(200);
  expect((body.queue as Entry[]).map(({ id, recipient, field }) => [id, recipient, field])).toEqual([
    ["que_max_to", "zoe@remote.example", "to"],
    ["que_max_bcc", "a Bcc recipient", "bcc"],
  ]);
  expect((body.queue as Entry[])[0]).toMatchObject({
    ...{ state: "waiting", attempts: 0, attempting: false, mailbox: "olga@example.test", reply: null },
    ...{ nextAttemptAt: expect.stringMatching(/Z$/), acceptedAt: expect.stringMatching(/Z$/) },
  });
  expect(text).not.toContain("hidden@");
});

test("the sender sees the Bcc recipients of their own messages", async () => {
  const { call, put } = await start();
  await put("olga", "wsp_1", "olga", "ben@remote.example");
  expect((await call("GET", "/queue")).text).toContain("ben@remote.example");
});

test("pages list the waiting recipients, then the held ones", async () => {
  const { call, put, pagesOf, store } = await start();
  await put("more", "wsp_1", "max", "hidden@remote.example");
  await put("most", "wsp_1", "max", "hidden@remote.example");
  const ids = async () => (await pagesOf<Entry>("/queue", "queue")).map(({ id }) => id);
  const all = ["que_max_to", "que_max_bcc", "que_more_to", "que_more_bcc", "que_most_to", "que_most_bcc"];
  expect(await ids()).toEqual(all);
  store.db.$client.exec(
    "UPDATE queue_entries SET state = 'held', due_at = NULL WHERE id IN ('que_max_to', 'que_more_bcc')",
  );
  expect(await ids()).toEqual([
    "que_max_bcc",
    "que_more_to",
    "que_most_to",
    "que_most_bcc",
    "que_max_to",
    "que_more_bcc",
  ]);
  const { body } = await call("GET", "/queue?limit=1");
  expect((await call("GET", `/suppressions?cursor=${body.nextCursor}`)).body.code).toBe("bad_request");
});

test("retrying a recipient makes it wait again, and cancelling gives it up, once", async () => {
  const { call, store } = await start();
  const stateOf = (id: string) =>
    store.db
      .select()
      .from(queueEntries)
      .all()
      .find((entry) => entry.id === id)?.state;
  const retried = await call("POST", "/queue/que_max_to/retry");
  expect([retried.status, retried.body]).toEqual([200, { id: "que_max_to", state: "waiting" }]);
  const cancelled = await call("POST", "/queue/que_max_to/cancel", {}, { "idempotency-key": "c" });
  expect([cancelled.status, cancelled.body]).toEqual([200, { id: "que_max_to", state: "cancelled" }]);
  expect(stateOf("que_max_to")).toBe("cancelled");
  const again = await call("POST", "/queue/que_max_to/cancel", {}, { "idempotency-key": "c" });
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([200, "true"]);
  expect((await call("POST", "/queue/que_max_to/cancel")).body.code).toBe("conflict");
});

test.each(["que_theirs_to", "que_none"])("%s is not found, whether it exists or not", async (id) => {
  const { call } = await start();
  for (const deed of ["retry", "cancel"]) {
    const answer = await call("POST", `/queue/${id}/${deed}`);
    expect([answer.status, answer.body.error]).toEqual([404, `there is no queue entry ${id}`]);
  }
});
