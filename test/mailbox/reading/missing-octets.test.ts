/** The octets that mail lacks: what is made of them, when, and that what mail apps were told stays. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { unavailable } from "../../../src/base/errors.ts";
import { createLog } from "../../../src/base/log.ts";
import { createImapFolders } from "../../../src/mailbox/imap/imap-folders.ts";
import { createOctets } from "../../../src/mailbox/imap/octets.ts";
import { getRawMessage } from "../../../src/mailbox/reading/messages.ts";
import { createMissingOctetsJob, makeOctetsLater } from "../../../src/mailbox/reading/missing-octets.ts";
import { unpackSkeleton } from "../../../src/message/skeleton.ts";
import {
  attachments,
  imapMessages,
  imapOctets,
  messageBodies,
  messageOctets,
  messages,
  octetsWaiting,
} from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

/** Mail from before octets were kept. */
const BEFORE = { withoutOctets: true };

function office() {
  const alice = createAlice(BEFORE);
  const lines: string[] = [];
  const core = { ...alice.core, log: createLog("info", alice.runtime.now, (line) => lines.push(line)) };
  const octets = createOctets(core);
  const { db } = alice.store;
  return {
    ...alice,
    lines,
    octets,
    job: () => createMissingOctetsJob(core).runDue(alice.runtime.now()),
    /** messages.seq of mail whose octets are to be made. */
    waiting: () =>
      db
        .select({ seq: octetsWaiting.messageSeq })
        .from(octetsWaiting)
        .all()
        .map(({ seq }) => seq),
    kept: () => db.select().from(messageOctets).all(),
    text: (seq: number, userId = alice.alice.userId) =>
      octets.withContent(seq, userId, ({ bytes }) => bytes.toString("latin1")),
  };
}
const digestOf = (text = ""): string => new Bun.CryptoHasher("sha256").update(text, "latin1").digest("hex");

test("what arrived is the raw file under our Received and Authentication-Results", async () => {
  const { receive, text, core, alice } = office();
  const { seq, messageId } = await receive({ text: "Hello" }, { auth: { spf: "pass", dkim: "none", dmarc: "pass" } });
  const raw = Buffer.from(await getRawMessage(core, alice, messageId)).toString();
  expect(await text(seq)).toBe(
    `Received: by example.test with ESMTP id ${messageId}\r\n\tfor <alice@example.test>; Mon, 05 Jan 2026 09:00:00 +0000\r\nAuthentication-Results: example.test; spf=pass; dkim=none; dmarc=pass\r\n${raw}`,
  );
});

test("the author sees the Bcc of what they sent, and nobody else", async () => {
  const { send, text, world, workspaceId, octets, alice } = office();
  const ben = world.user(workspaceId, "ben@example.test", "admin");
  const { seq } = await send({ text: "Hello" }, { bcc: [{ email: "ben@example.test" }] });
  const [hers, his] = [await text(seq), await text(seq, ben.userId)];
  expect(hers).toContain("Bcc: ben@example.test\r\n");
  expect(his).toBe(hers?.replace("Bcc: ben@example.test\r\n", "") ?? "");
  for (const [{ userId }, seen] of [
    [alice, hers],
    [ben, his],
  ] as const)
    expect((await octets.known([seq], userId, "all")).get(seq)?.size).toBe(seen?.length ?? 0);
});

describe("the job", () => {
  test("makes all octets, newest first and in portions, and then rests", async () => {
    const { receive, job, waiting, kept, runtime } = office();
    const filed = [];
    for (let i = 0; i < 70; i++) filed.push(await receive({ text: `Hello ${i}` }, { now: 100_000 - i }));
    const { seq } = await receive({ text: "The oldest conversation", messageId: "<old@x>" }, { now: 1 });
    await job();
    expect(waiting().toSorted()).toEqual([...filed.slice(64), { seq }].map((one) => one.seq).toSorted());
    expect(kept()).toHaveLength(64);
    await job();
    expect(waiting()).toEqual([]);
    expect(kept().every(({ envelope, structure }) => envelope !== null && structure !== null)).toBe(true);
    expect(await job()).toBe(runtime.now() + 600_000);
  });

  test("keeps attachments once", async () => {
    const { receive, store, kept, job, text } = office();
    const file = Buffer.from(Array.from({ length: 30_000 }, (_, i) => (i * i) % 251)).toString("base64");
    const part = (type: string) => `--b\nContent-Type: ${type}\nContent-Transfer-Encoding: base64\n\n${file}\n`;
    const { seq } = await receive(
      `From: ada@remote.example\nContent-Type: multipart/mixed; boundary="b"\n\n${part("image/png")}${part("application/pdf")}--b--\n`,
    );
    await job();
    const [{ skeleton, size } = { skeleton: null, size: 0 }] = kept();
    expect(unpackSkeleton(skeleton ?? new Uint8Array(), size).cuts).toHaveLength(2);
    expect(store.db.select().from(attachments).all()).toHaveLength(2);
    expect((await text(seq))?.length).toBe(size);
  });

  test("waits while the disk is nearly full", async () => {
    const { receive, core, store, waiting, runtime } = office();
    const { seq } = await receive({ text: "Hello" });
    const job = createMissingOctetsJob({ ...core, store: { ...store, isDiskLow: () => true } });
    expect(await job.runDue(runtime.now())).toBe(runtime.now() + 600_000);
    expect(waiting()).toEqual([seq]);
  });

  test.each([
    ["back by an hour", -3_600_000],
    ["ahead by a day", 86_400_000],
  ])("rests no longer when the clock is set %s", async (_, by) => {
    const { receive, core, runtime } = office();
    await receive({ text: "First" });
    const keepComposed: typeof core.parser.keepComposed = (parts) => {
      runtime.setBy(by);
      runtime.advanceTo(runtime.now() + 100);
      return core.parser.keepComposed(parts);
    };
    const job = createMissingOctetsJob({ ...core, parser: { ...core.parser, keepComposed } });
    const next = (await job.runDue(runtime.now())) ?? 0;
    expect(next).toBeWithin(runtime.now() - 3_600_000, runtime.now() + 10_000);
  });

  test("what cannot be made holds up nothing, and what a store lacks for a moment is made later", async () => {
    const { receive, core, runtime, kept, waiting, store, lines } = office();
    let error: unknown;
    let times = 0;
    const keepComposed: typeof core.parser.keepComposed = (parts) => {
      times++;
      return error && parts.text.includes("Odd") ? Promise.reject(error) : core.parser.keepComposed(parts);
    };
    const alike = { ...core, log: createLog("info", runtime.now, (line) => lines.push(line)) };
    const poor = { ...alike, parser: { ...core.parser, keepComposed } };
    const odd = await receive({ text: "Odd" });
    const even = await receive({ text: "Even" });
    error = unavailable("later");
    const failing = createMissingOctetsJob(poor);
    const run = () => failing.runDue(runtime.now());
    await run();
    expect([kept().map(({ messageSeq }) => messageSeq), waiting()]).toEqual([[even.seq], [odd.seq]]);
    // It is passed by for a while.
    expect(await run()).toBe(runtime.now() + 600_000);
    await expect(run()).rejects.toThrow("later");
    expect(await run()).toBe(runtime.now() + 600_000);
    error = new Error("gone");
    await run();
    expect(store.db.select().from(octetsWaiting).all()).toMatchObject([{ messageSeq: odd.seq, lost: true }]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain(odd.messageId);
    expect(await run()).toBe(runtime.now() + 600_000);
    const octets = createOctets(poor);
    const tries = times;
    expect((await octets.known([odd.seq, even.seq], "usr_1", "all")).size).toBe(1);
    expect(times).toBe(tries);
    await expect(octets.withContent(odd.seq, "usr_1", () => 1)).rejects.toThrow("cannot be read");
    expect(lines).toHaveLength(1);
    error = undefined;
    expect(await octets.withContent(odd.seq, "usr_1", () => 1)).toBe(1);
    expect(waiting()).toEqual([]);
  });
});

describe("what mail apps were told", () => {
  async function told(digest?: string) {
    const one = office();
    const { seq } = await one.receive({ text: "Hello" });
    await createImapFolders(one.core).opened(one.box, "inbox");
    await one.receive({ text: "Another" });
    const { db } = one.store;
    const made = await one.text(seq);
    db.delete(messageOctets).run();
    one.store.transact((tx) => makeOctetsLater(tx, [seq]));
    const state = () => ({
      uids: db
        .select({ seq: imapMessages.messageSeq, uid: imapMessages.uid })
        .from(imapMessages)
        .all()
        .map(({ uid }) => uid),
      told: db.select().from(imapOctets).all(),
    });
    db.insert(imapOctets)
      .values({
        messageSeq: seq,
        author: false,
        digest: Buffer.from(digest ?? digestOf(made), "hex"),
      })
      .run();
    return { ...one, seq, state };
  }

  test("stays, with its UID", async () => {
    const { job, state, lines } = await told();
    await job();
    expect(state()).toEqual({ uids: [1, 2], told: [] });
    expect(lines).toEqual([]);
  });

  test("is given another UID where it no longer comes out so, and the log says it", async () => {
    const { job, state, lines, seq, store } = await told("00".repeat(32));
    await job();
    expect(state()).toEqual({ uids: expect.arrayContaining([2, 3]), told: [] });
    expect(store.db.select().from(imapMessages).where(eq(imapMessages.messageSeq, seq)).get()?.uid).toBe(3);
    expect(lines.map((line) => JSON.parse(line).message)).toEqual([
      "a message is no longer what mail apps were told, and gets another UID",
    ]);
  });
});

test("a draft has octets once they are asked for, and others when it is written anew", async () => {
  const { receive, text, store, kept, waiting, lines } = office();
  const { seq } = await receive({ text: "Hello" }, { kind: "draft" });
  expect(waiting()).toEqual([]);
  expect(await text(seq)).toContain("Hello");
  expect(kept()).toHaveLength(1);
  store.db.delete(messages).where(eq(messages.seq, seq)).run();
  expect(await text(seq)).toBeUndefined();
  expect([kept(), lines]).toEqual([[], []]);
});

test("where nothing can be written, octets are made for each reader", async () => {
  const { send, core, kept, alice } = office();
  const { seq } = await send({ text: "Hello" }, { bcc: [{ email: "ben@example.test" }] });
  const enqueue = () => Promise.reject(unavailable("The disk is full"));
  const octets = createOctets({ ...core, store: { ...core.store, enqueue } });
  const read = (userId: string) => octets.withContent(seq, userId, ({ bytes }) => bytes.toString());
  expect(await read(alice.userId)).toContain("Bcc: ben@example.test\r\n");
  expect(await read("usr_1")).not.toContain("ben@example.test");
  expect((await octets.header(seq, "usr_1"))?.toString()).toContain("Subject: ");
  expect(kept()).toEqual([]);
});

test("where the disk is nearly full, nothing is written for a reader", async () => {
  const { receive, core, kept } = office();
  const { seq } = await receive({ text: "Hello" });
  const octets = createOctets({ ...core, store: { ...core.store, isDiskLow: () => true } });
  expect(await octets.known([seq], "usr_1", "all")).toEqual(new Map());
  expect(await octets.withContent(seq, "usr_1", ({ bytes }) => bytes.toString())).toContain("Hello");
  expect(kept()).toEqual([]);
});

test("a file of another size than was cut out is not read", async () => {
  const { receive, text, store } = office();
  const file = Buffer.alloc(3_000, 7).toString("base64");
  const { seq } = await receive(
    `From: ada@remote.example\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\n${file}\n`,
    { withoutOctets: false },
  );
  expect(await text(seq)).toContain("image/png");
  store.db.update(attachments).set({ size: 3_001 }).run();
  await expect(text(seq)).rejects.toThrow("cannot be read");
});

test("what is written anew while its octets are made is made again", async () => {
  const { receive, core, store } = office();
  const { seq } = await receive({ text: "First" }, { kind: "draft" });
  let times = 0;
  const keepComposed: typeof core.parser.keepComposed = async (parts) => {
    const octets = await core.parser.keepComposed(parts);
    if (times++ === 0) {
      store.db.update(messageBodies).set({ text: "Second" }).where(eq(messageBodies.messageSeq, seq)).run();
      store.db.update(messages).set({ filedAt: 1 }).where(eq(messages.seq, seq)).run();
    }
    return octets;
  };
  const octets = createOctets({ ...core, parser: { ...core.parser, keepComposed } });
  expect(await octets.withContent(seq, "usr_1", ({ bytes }) => bytes.toString())).toContain("Second");
  expect(times).toBe(2);
});

test("of mail that was moved here, what mail apps are told of its octets is made", async () => {
  const { receive, store, job, waiting, kept } = office();
  const { seq } = await receive({ text: "Hello" }, { withoutOctets: false });
  const before = kept();
  store.db.update(messageOctets).set({ envelope: null, structure: null }).run();
  store.transact((tx) => makeOctetsLater(tx, [seq]));
  await job();
  expect([kept(), waiting()]).toEqual([before, []]);
  // What is damaged is noted.
  store.db
    .update(messageOctets)
    .set({ envelope: null, structure: null, digest: Buffer.alloc(32) })
    .run();
  store.transact((tx) => makeOctetsLater(tx, [seq]));
  await job();
  expect(store.db.select().from(octetsWaiting).all()).toMatchObject([{ lost: true }]);
});

test("the header alone is that of the whole", async () => {
  const one = office();
  for (const mail of [{ text: "Hello" }, { text: "Grüße ".repeat(20_000) }, ...KEPT.map(([, mail]) => mail)]) {
    const { seq } = await one.receive(mail, { auth: { spf: "pass", dkim: "pass", dmarc: "pass" } });
    const header = await one.octets.header(seq, one.alice.userId);
    const whole = (await one.text(seq)) ?? "";
    expect(header?.toString()).toBe(whole.slice(0, whole.indexOf("\r\n\r\n") + 4));
  }
});

/** Digests of what versions before 0065_octets_waiting.sql told mail apps, which may have kept these octets. Never change them. */
const KEPT: [name: string, mail: Parameters<ReturnType<typeof office>["receive"]>[0], digest: string][] = [
  ["plain", { text: "Hello", messageId: "<1@x>" }, "9eadf7cca4d1a61ab0f3d79d92b4d8b2c0dc0db1a8dce94ac7e19e188b2c80c5"],
  [
    "long lines and other scripts",
    { text: `${"word ".repeat(300)}\n日本語 Grüße\n.\n`, subject: "=?utf-8?q?Gr=C3=BC=C3=9Fe?=", messageId: "<2@x>" },
    "1168b951ae07db0968a130ffbcffee74ae86b0bf0adf8e00180a5237908fa65c",
  ],
  [
    "HTML, an inline picture and a file",
    [
      "From: Ada <ada@remote.example>",
      "To: alice@example.test",
      "Subject: Parts",
      "Date: Mon, 05 Jan 2026 07:00:00 +0000",
      "Message-ID: <3@x>",
      "MIME-Version: 1.0",
      'Content-Type: multipart/mixed; boundary="b"',
      "",
      "--b",
      'Content-Type: multipart/related; boundary="c"',
      "",
      "--c",
      "Content-Type: text/html; charset=utf-8",
      "",
      '<p>Hi <img src="cid:p"></p>',
      "--c",
      "Content-Type: image/png",
      "Content-ID: <p>",
      "Content-Transfer-Encoding: base64",
      "",
      "iVBORw0KGgo=",
      "--c--",
      "--b",
      'Content-Type: application/pdf; name="plan.pdf"',
      "Content-Disposition: attachment",
      "Content-Transfer-Encoding: base64",
      "",
      "JVBERi0=",
      "--b--",
      "",
    ].join("\n"),
    "d6c4e79a5fee418501173aaf6a8246398bdda23cfb6292386faeb35ac841767e",
  ],
];
test("what is known of files is in the octets, and stays", async () => {
  const { receive, text, store } = office();
  const mail = [
    "From: Ada <ada@remote.example>",
    "Date: Mon, 05 Jan 2026 07:00:00 +0000",
    "Message-ID: <4@x>",
    'Content-Type: multipart/alternative; boundary="b"',
    "",
    "--b",
    "",
    "Come.",
    "--b",
    "Content-Type: text/calendar; method=REQUEST; x-title*=utf-8''Gr%C3%BC%C3%9Fe",
    "",
    "BEGIN:VCALENDAR",
    "--b--",
    "",
  ].join("\n");
  const { seq } = await receive(mail, {});
  store.db.update(messages).set({ id: "msg_kept" }).where(eq(messages.seq, seq)).run();
  const octets = (await text(seq)) ?? "";
  expect(octets).toContain("text/calendar; method=REQUEST;\r\n x-title*0*=utf-8''Gr%C3%BC%C3%9Fe\r\n");
  expect(digestOf(octets)).toBe("64b4dd428e8714683e69923a73d11a90b36516f669ee6ee19a57a1d0e2a3c090");
});

for (const [name, mail, digest] of KEPT) {
  test(`what mail apps were told is made again: ${name}`, async () => {
    const { receive, text, store } = office();
    const { seq } = await receive(mail, { auth: { spf: "pass", dkim: "pass", dmarc: "pass" } });
    store.db.update(messages).set({ id: "msg_kept" }).where(eq(messages.seq, seq)).run();
    // What was not known of its files.
    store.db.update(attachments).set({ parameters: [], unnamed: false, alternative: false }).run();
    expect(digestOf(await text(seq))).toBe(digest);
  });
}
