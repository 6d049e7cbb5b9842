/** Stored HTML is read anew when the rules for visible text have changed (mailbox/reading/renewal.ts). */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { unavailable } from "../../../src/base/errors.ts";
import { renewAllVisibleTexts } from "../../../src/mailbox/reading/renewal.ts";
import { type ReadHtml, readHtmlInThisThread } from "../../../src/message/reading.ts";
import { SEEN_VERSION } from "../../../src/message/visible.ts";
import { foldText } from "../../../src/search/fold.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { messageBodies } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const both = (subject: string, html: string) => `From: carol@remote.example
To: alice@example.test
Subject: ${subject}
Message-ID: <${subject}@remote.example>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary=x

--x

Hello
--x
Content-Type: text/html

${html}
--x--
`;

/** Mail as a version with other rules stored it: it did not know what the HTML says. */
async function old(count = 3, read: ReadHtml = readHtmlInThisThread) {
  const world = createAlice();
  const { core, store, runtime, box } = world;
  const engine = createFts5Engine(store);
  const filed: { seq: number }[] = [];
  for (let i = 0; i < count; i++)
    filed.push(await world.file(box, both(`m${i}`, `<p>Hello, pineapple${i}</p><p hidden>secret</p>`)));
  store.db.update(messageBodies).set({ seenVersion: 0, seenText: null, seenHidden: 0 }).run();
  await store.enqueue((tx) => {
    for (const { seq } of filed)
      engine.replace(
        tx,
        seq,
        { workspaceId: world.alice.workspaceId, mailboxId: box },
        { subject: "", body: foldText("Hello"), sender: "", recipients: "", files: "" },
      );
  });
  const asked: string[] = [];
  const counted: ReadHtml = (source, reading) => {
    asked.push(source);
    return read(source, reading);
  };
  const job = () => renewAllVisibleTexts({ ...core, engine, parser: { ...core.parser, read: counted } });
  const scope = { mailboxIds: [box] };
  return {
    ...world,
    asked,
    filed,
    job,
    /** Runs it until it has nothing to do. */
    async run(renewal = job()): Promise<void> {
      for (let due = await renewal.runDue(runtime.now()); due !== null; due = await renewal.runDue(runtime.now()));
    },
    finds: (q: string) => engine.messagesMatching(parseQuery(q, runtime.now()).message, scope),
    versions: () =>
      store.db
        .select({ version: messageBodies.seenVersion })
        .from(messageBodies)
        .all()
        .map(({ version }) => version),
  };
}

test("what people see by the present rules is stored and found then", async () => {
  const it = await old();
  expect(it.finds("pineapple1")).toEqual([]);
  await it.run();
  expect(it.finds("pineapple1")).toEqual([it.filed[1]?.seq ?? 0]);
  expect(it.finds("hello")).toHaveLength(3);
  expect(it.finds("secret")).toEqual([]);
  expect(it.versions()).toEqual([SEEN_VERSION, SEEN_VERSION, SEEN_VERSION]);
  expect(it.asked).toEqual([it.box, it.box, it.box]);
  await it.run();
  expect(it.asked).toHaveLength(3);
});

test("it goes on after an interruption, newest first, and reads nothing twice", async () => {
  const it = await old(120);
  const first = it.job();
  expect(await first.runDue(it.runtime.now())).toBeGreaterThan(it.runtime.now());
  expect(it.finds("pineapple119")).toHaveLength(1);
  expect(it.finds("pineapple0")).toEqual([]);
  await it.run();
  expect(it.finds("pineapple0")).toHaveLength(1);
  expect(it.asked).toHaveLength(120);
});

test("what is alike stays as it is stored, and mail with the present rules is not read", async () => {
  const it = await old(2);
  const [first, second] = it.filed;
  const set = (seq = 0, values: object) =>
    it.store.db.update(messageBodies).set(values).where(eq(messageBodies.messageSeq, seq)).run();
  set(first?.seq, { htmlSource: Buffer.from(Bun.zstdCompressSync("<p>Hello</p>")) });
  set(second?.seq, { seenVersion: SEEN_VERSION });
  await it.run();
  expect(it.versions()).toEqual([0, SEEN_VERSION]);
  expect(it.asked).toHaveLength(1);
});

test("a busy worker lets it try again, and no message is left out", async () => {
  let busy = 2;
  const it = await old(3, (source, reading) =>
    busy-- > 0 ? Promise.reject(unavailable("Too much mail waits")) : readHtmlInThisThread(source, reading),
  );
  await expect(it.run()).rejects.toThrow("Too much mail waits");
  await expect(it.run()).rejects.toThrow("Too much mail waits");
  await it.run();
  for (let i = 0; i < 3; i++) expect(it.finds(`pineapple${i}`)).toHaveLength(1);
});

test("rules that change again have everything read again", async () => {
  const it = await old(2);
  await it.run();
  it.store.db.$client.exec(`UPDATE seen_renewal SET version = ${SEEN_VERSION - 1}`);
  it.store.db
    .update(messageBodies)
    .set({ seenVersion: SEEN_VERSION - 1 })
    .run();
  await it.run();
  expect(it.asked).toHaveLength(4);
});

test("an empty database has nothing to be read", async () => {
  const it = await old(0);
  expect(await it.job().runDue(it.runtime.now())).toBeNull();
  await it.file(it.box, both("new", "<p>Hello</p>"));
  expect(await it.job().runDue(it.runtime.now())).toBeNull();
  expect(it.asked).toEqual([]);
});
