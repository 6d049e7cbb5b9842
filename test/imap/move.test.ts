/** COPY and MOVE, within a mailbox and into another. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { appPassword, copied, type ImapWorld, imapWorld, uidsOf } from "../harness/servers/imap-world.ts";
import { carryInAnyOrder, placesIn } from "./carrying.ts";

let world: ImapWorld;
/** Alice's, for what a key may not. */
let person: { email: string; key: string };
beforeAll(async () => {
  world = await imapWorld();
  person = { email: "alice@example.test", key: appPassword(world.app) };
});

/** Where a mailbox has messages with that subject, by default Alice's. */
const placesOf = (subject: string, mailboxId?: string): string[] => placesIn(world, subject, mailboxId);

async function opened(name: string, who?: { email: string; key: string }): Promise<ImapAccount> {
  const client = await world.client(who);
  expect(await client.say(`SELECT ${name}`)).toMatchObject({ status: "OK" });
  return client;
}

test("a message that goes into another mailbox keeps what it says of its files", async () => {
  const hugo = world.member("Files", "full");
  const part = (...lines: string[]) => ["--b", ...lines].join("\n");
  await world.arrive({
    subject: "Files",
    headers: ["Content-Type: multipart/alternative; boundary=b"],
    text: [
      part("", "Come."),
      part("Content-Type: text/calendar; method=REQUEST; charset=utf-8", "", "BEGIN:VCALENDAR"),
      "--b--",
    ].join("\n"),
  });
  const client = await opened("Shared/alice@example.test/INBOX", hugo);
  await client.say(`UID COPY ${await uidsOf(client, "Files")} Archive`);
  const { $client } = world.app.core.db;
  const rows = $client
    .query(
      `SELECT mailbox_id AS mailbox, content_type AS type, parameters, unnamed, alternative FROM attachments
       JOIN messages ON seq = message_seq WHERE subject = 'Files' ORDER BY mailbox_id = ?`,
    )
    .all(hugo.mailboxId);
  const file = {
    type: "text/calendar",
    parameters: '[["method","REQUEST"],["charset","utf-8"]]',
    unnamed: 1,
    alternative: 1,
  };
  expect(rows).toEqual([world.app.owner.mailboxId, hugo.mailboxId].map((mailbox) => ({ mailbox, ...file })));
  await client.say("SELECT Archive");
  const { untagged } = await client.say(`UID FETCH ${await uidsOf(client, "Files")} (BODYSTRUCTURE)`);
  expect(untagged.join()).toContain('"text" "calendar" ("method" "REQUEST" "charset" "utf-8")');
});

describe("within a mailbox", () => {
  test("COPY puts a message into the other folder, and tells its UIDs", async () => {
    const { threadId } = await world.arrive({ subject: "One copy" });
    const client = await opened("INBOX");
    const [uid = 0] = await uidsOf(client, "One copy");
    await client.say(`UID STORE ${uid} +FLAGS (\\Flagged \\Answered Work)`);
    const reply = await client.say(`UID COPY ${uid} Archive`);
    expect(reply.status).toBe("OK");
    const [[from, to] = []] = copied(reply);
    expect(from).toBe(uid);
    expect(placesOf("One copy")).toEqual(["Archive"]);
    const { body } = await world.app.api.get<{ thread: { folder: string }; messages: unknown[] }>(
      `/threads/${threadId}`,
    );
    expect([body.thread.folder, body.messages.length]).toEqual(["archive", 1]);
    await client.say("SELECT Archive");
    expect(await uidsOf(client, "One copy")).toEqual([to as number]);
    const { untagged } = await client.say(`UID FETCH ${to} (FLAGS)`);
    expect(untagged[0]).toContain("(\\Flagged \\Answered Work)");
  });

  test.each([
    ["INBOX", "Archive", true],
    ["Trash", "INBOX", false],
  ] as const)("%s to %s by COPY and delete, by UID: %p, whatever the order and wherever it ends", (from, to, byUid) =>
    carryInAnyOrder(world, person, from, to, byUid),
  );

  test("numbers stay after COPY, so that \\Deleted by number is of the message that was copied", async () => {
    const nora = world.member("Nora");
    for (const n of [1, 2, 3]) await world.arrive({ subject: `Numbered ${n}` }, nora.email);
    const client = await opened("INBOX", nora);
    const last = client.uids.length;
    for (const number of [last - 2, last - 1]) {
      const { untagged } = await client.say(`COPY ${number} Archive`);
      expect(untagged.filter((line) => /EXPUNGE|VANISHED/.test(line))).toEqual([]);
      await client.say(`STORE ${number} +FLAGS (\\Deleted)`);
    }
    const { untagged } = await client.say("EXPUNGE");
    expect(untagged.filter((line) => line.includes("EXPUNGE"))).toEqual([
      `* ${last - 1} EXPUNGE`,
      `* ${last - 2} EXPUNGE`,
    ]);
    expect(placesOf("Numbered 3", nora.mailboxId)).toEqual(["INBOX"]);
    expect(placesOf("Numbered 1", nora.mailboxId)).toEqual(["Archive"]);
    expect(client.mistakes).toEqual([]);
  });

  test("a refusal moves nothing: what others wrote does not go to Sent, and read-only mailboxes stay", async () => {
    await world.arrive({ subject: "Stays" });
    const client = await opened("INBOX");
    const [uid] = await uidsOf(client, "Stays");
    for (const verb of ["COPY", "MOVE"]) {
      expect(await client.say(`UID ${verb} 1:${uid} Sent`)).toMatchObject({
        status: "NO",
        text: expect.stringContaining("[CANNOT]"),
      });
      expect(await client.say(`UID ${verb} ${uid} Nowhere`)).toMatchObject({
        text: expect.stringContaining("[TRYCREATE]"),
      });
      // An app that copies, and deletes what it copied, would lose it.
      expect(await client.say(`UID ${verb} ${uid} INBOX`)).toMatchObject({
        text: expect.stringContaining("[CANNOT]"),
      });
      expect(await client.say(`UID ${verb} 999999 Archive`)).toMatchObject({ status: "OK", untagged: [] });
      expect(await client.say(`${verb} 999999 Archive`)).toMatchObject({ status: "BAD" });
    }
    await client.say("EXAMINE INBOX");
    for (const verb of ["COPY", "MOVE"]) {
      expect(await client.say(`UID ${verb} ${uid} Archive`)).toMatchObject({
        text: expect.stringContaining("[READ-ONLY]"),
      });
    }
    expect(placesOf("Stays")).toEqual(["INBOX"]);
  });
});

describe("between mailboxes", () => {
  const shared = "Shared/alice@example.test";

  test("flags, keywords and date go along; MOVE leaves nothing, COPY leaves the message", async () => {
    const ben = world.member("Ben", "full");
    for (const verb of ["COPY", "MOVE"]) {
      const subject = `Across by ${verb}`;
      await world.arrive({ subject, text: "Grüße" });
      await world.app.advance(60_000);
      const client = await opened(`${shared}/INBOX`, ben);
      const [uid = 0] = await uidsOf(client, subject);
      await client.say(`UID STORE ${uid} +FLAGS (\\Seen \\Flagged \\Answered Work)`);
      const asked = "(FLAGS INTERNALDATE BODY.PEEK[TEXT])";
      const { untagged: before } = await client.say(`UID FETCH ${uid} ${asked}`);
      const reply = await client.say(`UID ${verb} ${uid} Archive`);
      const [[from, to] = []] = copied(reply);
      expect(from).toBe(uid);
      expect(placesOf(subject)).toEqual(verb === "COPY" ? ["INBOX"] : []);
      await client.say("SELECT Archive");
      const { untagged: after } = await client.say(`UID FETCH ${to} ${asked}`);
      const told = (line = "") => line.replace(/^\* \d+ /, "").replace(/UID \d+/, "");
      expect(told(after[0])).toBe(told(before[0]));
      expect(after[0]).toContain("(\\Seen \\Flagged \\Answered Work)");
    }
    const { body } = await world.app
      .apiWith(ben.key)
      .get<{ threads: { subject: string; labels: string[] }[] }>("/threads?folder=archive");
    const archived = body.threads.filter(({ subject }) => subject.startsWith("Across"));
    expect(archived.map(({ labels }) => labels)).toEqual([["Work"], ["Work"]]);
  });

  test("a mailbox has a message once: one that is there already moves to the folder, and its UID is told", async () => {
    const cleo = world.member("Cleo", "full");
    const mail = { subject: "Sent to both", from: "both@remote.example", messageId: "<both@remote.example>" };
    await world.arrive(mail);
    await world.arrive(mail, cleo.email);
    const client = await opened(`${shared}/INBOX`, cleo);
    const [uid = 0] = await uidsOf(client, mail.subject);
    const [[, to] = []] = copied(await client.say(`UID MOVE ${uid} Archive`));
    expect(await world.mail(client)).toEqual({ Archive: [mail.subject] });
    await client.say("SELECT Archive");
    expect(await uidsOf(client, mail.subject)).toEqual([to as number]);
    expect(placesOf(mail.subject)).toEqual([]);
  });

  for (const access of ["view", "send"] as const) {
    test(`who may ${access} copies into their own mailbox, and moves and files nothing`, async () => {
      const who = world.member(access === "view" ? "Vera" : "Sam", access);
      const subject = `For ${access}`;
      await world.arrive({ subject });
      await world.arrive({ subject: "Own" }, who.email);
      const client = await opened(`${shared}/INBOX`, who);
      const [uid] = await uidsOf(client, subject);
      const isRefused = { status: "NO", text: expect.stringContaining("[NOPERM]") };
      expect(await client.say(`UID STORE ${uid} +FLAGS (\\Seen)`)).toMatchObject({ status: "OK" });
      for (const refused of [
        `UID STORE ${uid} +FLAGS (\\Flagged)`,
        `UID STORE ${uid} +FLAGS (\\Deleted)`,
        `UID STORE ${uid} +FLAGS (Label)`,
        `UID STORE ${uid} FLAGS (\\Seen \\Answered)`,
        `UID MOVE ${uid} ${shared}/Trash`,
        `UID COPY ${uid} ${shared}/Trash`,
        `UID MOVE ${uid} INBOX`,
      ]) {
        expect([refused, await client.say(refused)]).toEqual([refused, expect.objectContaining(isRefused)]);
      }
      const octets = "Subject: Not here\r\n\r\nx\r\n";
      expect(await client.say(`APPEND ${shared}/INBOX {${octets.length}+}\r\n${octets}`)).toMatchObject(isRefused);
      // Nothing is marked.
      expect(await client.say("EXPUNGE")).toMatchObject({ untagged: [] });
      expect(await client.say(`UID COPY ${uid} INBOX`)).toMatchObject({ status: "OK" });
      expect(await world.mail(client)).toEqual({ INBOX: [subject, "Own"].sort() });
      await client.say("SELECT INBOX");
      for (const verb of ["COPY", "MOVE"]) {
        expect(await client.say(`${verb} 1:* ${shared}/INBOX`)).toMatchObject(isRefused);
      }
      expect(placesOf(subject)).toEqual(["INBOX"]);
      expect(placesOf("Own")).toEqual([]);
    });
  }

  test("a full mailbox takes nothing, and nothing leaves", async () => {
    const dana = world.member("Dana", "full");
    const { store } = world.app.core;
    await world.arrive({ subject: "Too much", text: "x".repeat(5_000) });
    store.db.$client.run("UPDATE mailboxes SET quota_bytes = 4096 WHERE id = ?", [dana.mailboxId]);
    const client = await opened(`${shared}/INBOX`, dana);
    const [uid] = await uidsOf(client, "Too much");
    for (const verb of ["COPY", "MOVE"]) {
      expect(await client.say(`UID ${verb} ${uid} INBOX`)).toMatchObject({
        text: expect.stringContaining("[OVERQUOTA]"),
      });
    }
    expect(placesOf("Too much")).toEqual(["INBOX"]);
  });

  test("what was sent keeps its Bcc, for its author alone", async () => {
    const eve = world.member("Eve", "full");
    const sent = {
      from: "alice@example.test",
      to: "x@remote.example",
      bcc: "hidden@remote.example",
      subject: "Secret",
    };
    await world.app.api.post("/send", { ...sent, text: "Hi" });
    const client = await opened(`${shared}/Sent`, eve);
    const [uid] = await uidsOf(client, "Secret");
    const [[, to] = []] = copied(await client.say(`UID MOVE ${uid} Sent`));
    expect([placesOf("Secret"), placesOf("Secret", eve.mailboxId)]).toEqual([[], ["Sent"]]);
    await client.say("SELECT Sent");
    const { untagged } = await client.say(`UID FETCH ${to} (BODY.PEEK[])`);
    expect(untagged[0]).toContain("Subject: Secret");
    expect(untagged[0]).not.toContain("hidden@");
    const { db } = world.app.core.store;
    const { bcc } = db.$client.query("SELECT bcc FROM messages WHERE subject = 'Secret'").get() as { bcc: string };
    expect(bcc).toContain("hidden@remote.example");
  });
});

describe("of a command that fails midway", () => {
  /** Runs a command on a disk that fails when this message is moved to Archive, or filed there. */
  async function failing<T>(subject: string, run: () => Promise<T>): Promise<T> {
    const { $client } = world.app.core.store.db;
    for (const [name, event] of [
      ["fails_move", "UPDATE OF folder"],
      ["fails_filing", "INSERT"],
    ]) {
      $client.run(
        `CREATE TRIGGER ${name} BEFORE ${event} ON messages WHEN new.subject = '${subject}' AND new.folder = 'archive'
         BEGIN SELECT RAISE(ABORT, 'the disk failed'); END`,
      );
    }
    try {
      return await run();
    } finally {
      for (const name of ["fails_move", "fails_filing"]) $client.run(`DROP TRIGGER ${name}`);
    }
  }

  test("COPY within a mailbox leaves all where it was; MOVE tells what it moved", async () => {
    const gail = world.member("Gail");
    const subjects = Array.from({ length: 105 }, (_, i) => `Many ${i}`);
    await world.arriveAll(subjects, gail.email);
    const client = await opened("INBOX", gail);
    // What COPY took back has higher UIDs than the others.
    for (const [verb, last] of [
      ["COPY", 104],
      ["MOVE", 99],
    ]) {
      const reply = await failing(`Many ${last}`, () => client.say(`${verb} 1:* Archive`));
      expect([verb, reply.status]).toEqual([verb, "NO"]);
      expect(copied(reply)).toHaveLength(verb === "COPY" ? 0 : 100);
      const inbox = subjects.filter((one) => placesOf(one, gail.mailboxId).includes("INBOX"));
      expect(inbox).toHaveLength(verb === "COPY" ? 105 : 5);
      await client.say("SELECT INBOX");
    }
  });

  test("COPY into another mailbox leaves nothing there, and what was there as it was", async () => {
    const hugo = world.member("Hugo", "full");
    const both = { from: "both@remote.example", messageId: "<midway-both@remote.example>", subject: "Midway both" };
    await world.arrive({ subject: "Midway talk", messageId: "<midway-talk@x>" }, hugo.email);
    await world.arrive(both, hugo.email);
    await world.arrive(both);
    const answer = { subject: "Re: Midway talk", headers: ["In-Reply-To: <midway-talk@x>"] };
    const { threadId } = await world.arrive(answer);
    await world.app.api.patch(`/threads/${threadId}`, { labels: ["Work"] });
    for (const n of [1, 2, 3]) await world.arrive({ subject: `Midway ${n}` });
    const client = await opened("Shared/alice@example.test/INBOX", hugo);
    const uids = (await uidsOf(client, "Midway")).join(",");
    const theirs = async () => {
      const api = world.app.apiWith(hugo.key);
      const { body } = await api.get<{ threads: { id: string }[] }>("/threads?mailbox=hugo@example.test");
      const all = await Promise.all(body.threads.map(({ id }) => api.get<{ thread: object }>(`/threads/${id}`)));
      return all.map(({ body }) => body);
    };
    const before = await theirs();
    expect(before).toHaveLength(2);
    const reply = await failing("Midway 3", () => client.say(`UID COPY ${uids} Archive`));
    expect([reply.status, copied(reply)]).toEqual(["NO", []]);
    expect(await theirs()).toEqual(before);
    const moved = await failing("Midway 3", () => client.say(`UID MOVE ${uids} Archive`));
    expect([moved.status, copied(moved)]).toEqual([
      "NO",
      [expect.anything(), expect.anything(), expect.anything(), expect.anything()],
    ]);
    expect(await world.mail(client)).toEqual({
      INBOX: ["Midway talk"],
      Archive: ["Midway 1", "Midway 2", "Midway both", "Re: Midway talk"],
    });
  });
});
