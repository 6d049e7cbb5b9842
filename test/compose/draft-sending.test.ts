/** Drafts that are due are sent once, whatever fails on the way, in the name of the person who pressed Send. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { dueDraftSending, sendDraft, undoSend } from "../../src/compose/draft-sending.ts";
import { attachToDraft, detachFromDraft, openDraft, saveDraft } from "../../src/compose/write-drafts.ts";
import { getThread } from "../../src/mailbox/changing/threads.ts";
import { getVisibleText } from "../../src/mailbox/reading/masked-codes.ts";
import { packText } from "../../src/message/reading.ts";
import { mailboxes, messageBodies, users } from "../../src/store/schema.ts";
import { createOffice } from "../harness/servers/outgoing.ts";

const UNDO_MS = 10_000;
const LETTER = { from: "alice@example.test", to: "dave@remote.example", subject: "Plans", text: "Lunch?" };

function refuse({ smarthost }: Awaited<ReturnType<typeof createOffice>>): void {
  smarthost.refusal = "535";
}

/** A scheduled draft of Alice. */
async function scheduled() {
  const office = await createOffice();
  const { core, alice, runtime } = office;
  const { draftId, revision } = await saveDraft(core, alice, LETTER);
  const { due } = await sendDraft(core, alice, draftId, { ...LETTER, revision, attachments: [] });
  /** Runs the job `ms` from now. */
  const runAfter = async (ms: number) => {
    runtime.advanceTo(runtime.now() + ms);
    return dueDraftSending(core).runDue(runtime.now());
  };
  return { ...office, draftId, dueAt: Date.parse(due?.at ?? ""), runAfter };
}

describe("a draft that is due", () => {
  test("is sent at its time; the job returns when the next one is due", async () => {
    const office = await scheduled();
    expect(await dueDraftSending(office.core).runDue(office.runtime.now())).toBe(office.dueAt);
    expect(await office.queued()).toEqual([]);
    expect(await office.runAfter(UNDO_MS)).toBeNull();
    expect((await office.queued()).map(({ subject }) => subject)).toEqual(["Plans"]);
    expect(office.events().map(({ event }) => event)).toEqual(["message.outbound"]);
    expect(() => openDraft(office.core, office.alice, office.draftId)).toThrow("no such thread");
  });

  test("is sent by the next process, however late", async () => {
    const office = await scheduled();
    await office.runAfter(30 * 86_400_000);
    expect(await office.queued()).toHaveLength(1);
  });

  test("is sent when a clock that was ahead is set right, if only the undo time delayed it; a chosen time stays", async () => {
    const office = await createOffice();
    const { core, alice, runtime } = office;
    runtime.setBy(86_400_000);
    const chosen = runtime.now() + 3_600_000;
    for (const [subject, at] of [
      ["Undone", undefined],
      ["Chosen", chosen],
    ] as const) {
      const { draftId, revision } = await saveDraft(core, alice, { ...LETTER, subject });
      const request = { ...LETTER, subject, revision, attachments: [], ...(at !== undefined && { at }) };
      await sendDraft(core, alice, draftId, request);
    }
    runtime.setBy(-86_400_000);
    expect(await dueDraftSending(core).runDue(runtime.now(), true)).toBe(chosen);
    expect((await office.queued()).map(({ subject }) => subject)).toEqual(["Undone"]);
  });

  test("stays due if the accepting transaction fails, which stores nothing, and is sent at the next attempt", async () => {
    const office = await scheduled();
    const { $client } = office.store.db;
    // Fails where a crash might: the Sent copy is filed, the queue not yet written.
    $client.exec("CREATE TRIGGER crash BEFORE INSERT ON outbound_messages BEGIN SELECT RAISE(ABORT, 'crash'); END");
    const before = office.stored();
    await expect(office.runAfter(UNDO_MS)).rejects.toThrow();
    expect(office.stored()).toEqual(before);
    expect(openDraft(office.core, office.alice, office.draftId)).toMatchObject({
      dueAt: new Date(office.dueAt).toISOString(),
      refusal: null,
    });
    $client.exec("DROP TRIGGER crash");
    await office.runAfter(1_000);
    await office.runAfter(1_000);
    expect(await office.queued()).toHaveLength(1);
  });

  test("does not hold up another due draft if it fails", async () => {
    const office = await scheduled();
    const { core, alice, store } = office;
    const { draftId, revision } = await saveDraft(core, alice, { ...LETTER, subject: "Other" });
    await sendDraft(core, alice, draftId, { ...LETTER, subject: "Other", revision, attachments: [] });
    store.db.$client.exec(
      "CREATE TRIGGER crash BEFORE INSERT ON outbound_messages WHEN new.subject = 'Plans' BEGIN SELECT RAISE(ABORT, 'crash'); END",
    );
    await office.runAfter(UNDO_MS).catch(() => {});
    expect((await office.queued()).map(({ subject }) => subject)).toEqual(["Other"]);
  });

  test("is not sent if the sending is undone meanwhile", async () => {
    const office = await scheduled();
    const running = office.runAfter(UNDO_MS);
    await undoSend(office.core, office.alice, office.draftId);
    await running;
    expect(await office.queued()).toEqual([]);
    expect(openDraft(office.core, office.alice, office.draftId)).toMatchObject({ dueAt: null, refusal: null });
  });

  test.each<[string, (office: Awaited<ReturnType<typeof scheduled>>) => void, RegExp]>([
    [
      "the person who pressed Send has left",
      ({ store, alice }) => void store.db.delete(users).where(eq(users.id, alice.userId)).run(),
      /pressed Send has left/,
    ],
    [
      "its domain is no longer verified",
      ({ store }) => void store.db.$client.exec("UPDATE domains SET verified_at = NULL"),
      /not verified/,
    ],
    ["the workspace is paused", (office) => void office.pauseWorkspace("audit"), /audit/],
    ["its recipient is suppressed", (office) => void office.suppress("dave@remote.example"), /suppression list/],
    ["the cap is reached", (office) => void office.set("sending.mailboxPerHour", "0"), /within 60 minutes/],
    ["the mailbox is full", (office) => void office.quota(office.boxes.alice, 1), /out of storage/],
    ["the smarthost refuses the credentials", (office) => refuse(office), /credentials/],
  ])("stays a draft with the reason if %s", async (_, change, why) => {
    const office = await scheduled();
    change(office);
    await office.runAfter(UNDO_MS);
    expect(await office.queued()).toEqual([]);
    const row = office.store.db.$client.query("SELECT due_at, refusal FROM drafts").get() as Record<string, unknown>;
    expect(row).toEqual({ due_at: null, refusal: expect.stringMatching(why) });
  });

  test("is deleted with its mailbox", async () => {
    const office = await scheduled();
    office.store.db.delete(mailboxes).where(eq(mailboxes.id, office.boxes.alice)).run();
    expect(await office.runAfter(UNDO_MS)).toBeNull();
    expect(await office.queued()).toEqual([]);
  });
});

test.each<[string, (office: Awaited<ReturnType<typeof createOffice>>) => void, string]>([
  ["the smarthost refuses the credentials", (office) => refuse(office), "upstream_failed"],
  ["the workspace is paused", (office) => void office.pauseWorkspace("audit"), "locked"],
  ["the mailbox is full", (office) => office.quota(office.boxes.alice, 1), "insufficient_storage"],
  ["the cap is reached", (office) => office.set("sending.workspacePerHour", "0"), "rate_limited"],
])("Send is refused at once if %s, and nothing is scheduled", async (_, change, code) => {
  const office = await createOffice();
  const { draftId, revision } = await saveDraft(office.core, office.alice, LETTER);
  change(office);
  const sent = sendDraft(office.core, office.alice, draftId, { ...LETTER, revision, attachments: [] });
  expect(await sent.catch((error) => error.code)).toBe(code);
  expect(await dueDraftSending(office.core).runDue(office.runtime.now() + UNDO_MS)).toBeNull();
});

test("a draft whose files change while it is being scheduled is not sent, since nobody saw the new files", async () => {
  const { core, alice, queued, parser } = await createOffice();
  const { draftId, revision } = await saveDraft(core, alice, LETTER);
  const file = (filename: string) => ({
    filename,
    contentType: "text/plain",
    size: filename.length,
    content: (async function* () {
      yield new TextEncoder().encode(filename);
    })(),
  });
  const { id } = await attachToDraft(core, alice, draftId, file("seen.txt"));
  const { prepare } = parser;
  parser.prepare = async (work, letter) => {
    await detachFromDraft(core, alice, draftId, id);
    await attachToDraft(core, alice, draftId, file("unseen.txt"));
    return prepare(work, letter);
  };
  const scheduled = sendDraft(core, alice, draftId, { ...LETTER, revision, attachments: [id] });
  await expect(scheduled).rejects.toThrow("changed elsewhere");
  expect(openDraft(core, alice, draftId)).toMatchObject({ dueAt: null, attachments: [{ filename: "unseen.txt" }] });
  expect(await queued()).toEqual([]);
});

test("the visible text of a draft is that of its present HTML", async () => {
  const { core, alice, store } = await createOffice();
  const { draftId, revision } = await saveDraft(core, alice, { ...LETTER, html: "<p>Lunch?</p>" });
  store.db
    .update(messageBodies)
    .set({ seenText: Buffer.from(packText("Breakfast?")), seenHidden: 3 })
    .run();
  await saveDraft(core, alice, { ...LETTER, revision, html: "<p>Supper?</p>" }, { draftId });
  const [draft] = getThread(core, alice, draftId, { html: false }).messages;
  expect(draft && (await getVisibleText(core, alice, draft))).toEqual({ text: "Supper?", hidden: 0, fromHtml: false });
});
