/** A mail app over IMAP: a client library, and commands by hand where the octets matter. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { eq } from "drizzle-orm";
import fc from "fast-check";
import { ImapFlow } from "imapflow";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { attachments } from "../../src/store/schema.ts";
import type { Letter } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { arrive as arriveIn } from "./arrive.ts";

let app: Booted;
let password: string;
const portOf = (address = ""): number => Number(address.split(":")[1]);
beforeAll(async () => {
  app = await boot({ MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0" });
  password = appPassword(app);
});

const arrive = (mail: Letter | string) => arriveIn(app, mail);

async function client(options: { secure?: boolean } = { secure: true }) {
  const flow = new ImapFlow({
    host: "127.0.0.1",
    port: portOf(options.secure ? app.ready.imaps : app.ready.imap),
    secure: options.secure === true,
    ...(options.secure ? {} : { doSTARTTLS: true }),
    tls: { rejectUnauthorized: false },
    auth: { user: "alice@example.test", pass: password },
    logger: false,
  });
  await flow.connect();
  return flow;
}

/** Speaks over TLS, line by line. */
async function byHand() {
  const socket = connectTls({ host: "127.0.0.1", port: portOf(app.ready.imaps), rejectUnauthorized: false });
  return speaker(socket);
}
function speaker(socket: Socket) {
  let received = "";
  let wake = (): void => {};
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    wake();
  });
  socket.on("close", () => wake());
  socket.on("error", () => wake());
  const until = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const found = pattern.exec(received);
      if (found) {
        const end = found.index + found[0].length;
        const text = received.slice(0, end);
        received = received.slice(end);
        return text;
      }
      if (socket.destroyed) return received;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  let count = 0;
  return {
    socket,
    until,
    write: (text: string) => void socket.write(text, "latin1"),
    async say(command: string): Promise<string> {
      const tag = `t${++count}`;
      socket.write(`${tag} ${command}\r\n`, "latin1");
      return until(new RegExp(`^${tag} .*\\r\\n`, "m"));
    },
  };
}
async function signedIn() {
  const hand = await byHand();
  await hand.until(/\r\n/);
  await hand.say(`LOGIN alice@example.test ${password}`);
  return hand;
}

const base64 = (octets: Buffer): string => octets.toString("base64").replace(/(.{76})/g, "$1\r\n");
/** A message with a file, which has octets of its own. */
const withFile = (file: Buffer, subject: string): string =>
  [
    ...["From: Ben <ben@remote.example>", "To: alice@example.test", `Subject: ${subject}`, "Message-ID: <file@x>"],
    ...["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"', "", "--b", "Content-Type: text/plain"],
    ...["", "Here", "--b", 'Content-Type: application/octet-stream; name="f.bin"'],
    ...["Content-Disposition: attachment", "Content-Transfer-Encoding: base64", "", base64(file), "--b--", ""],
  ].join("\r\n");

/** The octets of the first literal of a reply. */
function literalIn(reply: string): Buffer {
  const [announced = "", size] = /~?\{(\d+)\}\r\n/.exec(reply) ?? [];
  const start = reply.indexOf(announced) + announced.length;
  return Buffer.from(reply.slice(start, start + Number(size)), "latin1");
}

describe("octets", () => {
  for (const [name, size] of [
    ["small", 1_000],
    ["large, composed in a worker", 1_500_000],
  ] as const) {
    test(`a ${name} message is the same whole, in parts and decoded`, async () => {
      const file = Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * i * 31) % 251));
      await arrive(withFile(file, name));
      const hand = await signedIn();
      await hand.say("SELECT INBOX");
      const uid = /SEARCH (\d+)/.exec(await hand.say(`UID SEARCH SUBJECT "${name}"`))?.[1];
      const fetch = (items: string) => hand.say(`UID FETCH ${uid} ${items}`);
      const whole = literalIn(await fetch("BODY.PEEK[]"));
      expect(Number(/RFC822\.SIZE (\d+)/.exec(await fetch("RFC822.SIZE"))?.[1])).toBe(whole.length);
      const pieces = [];
      for (let at = 0; at < whole.length; at += 400_000)
        pieces.push(literalIn(await fetch(`BODY.PEEK[]<${at}.400000>`)));
      expect(Buffer.concat(pieces).equals(whole)).toBe(true);
      expect(await fetch(`BODY.PEEK[]<${whole.length + 5}.10>`)).toContain("{0}\r\n)");
      const encoded = literalIn(await fetch("BODY.PEEK[2]"));
      expect(Buffer.from(encoded.toString(), "base64").equals(file)).toBe(true);
      const decoded = await fetch("BINARY.PEEK[2]");
      expect(decoded).toContain("BINARY[2] ~{");
      expect(literalIn(decoded).equals(file)).toBe(true);
      expect(await fetch("BINARY.SIZE[2]")).toContain(`BINARY.SIZE[2] ${file.length})`);
      expect(literalIn(await fetch("BINARY.PEEK[2]<500.300>")).equals(file.subarray(500, 800))).toBe(true);
      expect(await fetch("BINARY.PEEK[1]")).toContain("BINARY[1] {4}\r\nHere)");
      expect(await fetch("BINARY.PEEK[3]")).toContain("BINARY[3] NIL");
      const header = literalIn(await fetch("BODY.PEEK[HEADER]"));
      expect(whole.subarray(0, header.length).equals(header)).toBe(true);
      expect(await fetch("(ENVELOPE BODYSTRUCTURE)")).toContain(`"${name}"`);
      hand.socket.destroy();
    });
  }

  test("an encoding that is unknown is refused, and the session goes on", async () => {
    const inner = ["Subject: Inner", "Content-Transfer-Encoding: x-own", "", "what"].join("\r\n");
    await arrive(
      [
        ...["From: Ben <ben@remote.example>", "To: alice@example.test", "Subject: Encodings", "MIME-Version: 1.0"],
        ...[
          'Content-Type: multipart/mixed; boundary="b"',
          "",
          "--b",
          "",
          "Text",
          "--b",
          "Content-Type: message/rfc822",
        ],
        ...["Content-Disposition: attachment", "", inner, "--b--", ""],
      ].join("\r\n"),
    );
    const hand = await signedIn();
    await hand.say("SELECT INBOX");
    const uid = /SEARCH (\d+)/.exec(await hand.say("UID SEARCH SUBJECT Encodings"))?.[1];
    const refused = await hand.say(`UID FETCH ${uid} (BODY.PEEK[2] BINARY.PEEK[2.1])`);
    expect(refused).toMatch(/^t\d+ NO \[UNKNOWN-CTE\]/);
    expect(await hand.say(`UID FETCH ${uid} BINARY.PEEK[2]`)).toContain("Subject: Inner");
    hand.socket.destroy();
  });

  test("a message whose file is missing is left out, and the others come", async () => {
    const { store } = app.core;
    const lost = await arrive(withFile(Buffer.from("lost".repeat(1_000)), "Lost file"));
    await arrive({ subject: "After it", text: "Here" });
    const blob = "0".repeat(64);
    store.db.update(attachments).set({ blob }).where(eq(attachments.messageSeq, lost.seq)).run();
    const hand = await signedIn();
    expect(await hand.say("SELECT INBOX")).toContain(" OK ");
    const first = /SEARCH (\d+)/.exec(await hand.say('UID SEARCH SUBJECT "Lost file"'))?.[1];
    const reply = await hand.say(`UID FETCH ${first}:* BODY.PEEK[]`);
    expect(reply).toContain("Subject: After it");
    expect(reply).not.toContain("Subject: Lost file");
    expect(reply).toMatch(/^t\d+ NO \[SERVERBUG\] The message cannot be read\r\n/m);
    // What was told of it is in rows.
    expect(await hand.say(`UID FETCH ${first} (ENVELOPE BODYSTRUCTURE)`)).toMatch(/^t\d+ OK /m);
    expect(await hand.say(`UID SEARCH UID ${first}:* LARGER 1`)).toMatch(new RegExp(`SEARCH ${first}\\b`));
    expect(await hand.say("STATUS INBOX (SIZE)")).toMatch(/STATUS "INBOX" \(SIZE \d+\)/);
    expect(await hand.say("NOOP")).toContain(" OK ");
    await hand.say(`UID MOVE ${first} Trash`);
    await hand.say("SELECT Trash");
    await hand.say("STORE 1:* +FLAGS (\\Deleted)");
    expect(await hand.say("EXPUNGE")).toContain(" OK ");
    app.lines.length = 0;
    hand.socket.destroy();
  });

  test("a message is appended as a literal of eight bits", async () => {
    const hand = await signedIn();
    const message = "From: Ben <ben@remote.example>\r\nSubject: Eight\r\n\r\nGr\xfc\xdfe\r\n";
    hand.write(`a APPEND INBOX ~{${message.length}}\r\n`);
    await hand.until(/^\+ .*\r\n/m);
    hand.write(`${message}\r\n`);
    expect(await hand.until(/^a .*\r\n/m)).toContain("APPENDUID");
    hand.socket.destroy();
  });
});

describe("a client library", () => {
  for (const secure of [true, false]) {
    test(`reads, flags, moves and deletes ${secure ? "over implicit TLS" : "after STARTTLS"}`, async () => {
      const subject = `Library ${secure}`;
      const { threadId } = await arrive({ subject, from: `lib-${secure}@remote.example`, text: "Grüße" });
      const flow = await client({ secure });
      const boxes = await flow.list();
      expect(boxes.map(({ path, specialUse }) => [path, specialUse])).toEqual([
        ["INBOX", "\\Inbox"],
        ["Sent", "\\Sent"],
        ["Drafts", "\\Drafts"],
        ["Archive", "\\Archive"],
        ["Junk", "\\Junk"],
        ["Trash", "\\Trash"],
      ]);
      await flow.mailboxOpen("INBOX");
      const uids = (await flow.search({ subject }, { uid: true })) as number[];
      expect(uids).toHaveLength(1);
      const uid = String(uids[0]);
      const found = await flow.fetchOne(
        uid,
        { envelope: true, flags: true, bodyStructure: true, source: true, size: true, internalDate: true },
        { uid: true },
      );
      if (!found) throw new Error("nothing was fetched");
      expect(found.envelope?.subject).toBe(subject);
      expect(found.envelope?.from?.[0]?.address).toBe(`lib-${secure}@remote.example`);
      expect(found.flags).toEqual(new Set());
      expect(found.size).toBe(found.source?.length);
      expect(found.bodyStructure?.type).toBe("text/plain");
      expect(found.internalDate).toEqual(new Date(app.runtime.now()));

      await flow.messageFlagsAdd(uid, ["\\Seen", "\\Flagged", "Invoices"], { uid: true });
      const api = () =>
        app.api.get(`/threads/${threadId}`).then(({ body }) => (body as { thread: Record<string, unknown> }).thread);
      expect(await api()).toMatchObject({ unread: false, starred: true, labels: ["Invoices"], folder: "inbox" });
      await flow.messageFlagsRemove(uid, ["\\Flagged", "Invoices"], { uid: true });
      expect(await api()).toMatchObject({ starred: false, labels: [] });

      const moved = await flow.messageMove(uid, "Archive", { uid: true });
      expect(await api()).toMatchObject({ folder: "archive" });
      await flow.mailboxOpen("Archive");
      const there = (moved || undefined)?.uidMap?.get(Number(uid));
      expect(await flow.search({ subject }, { uid: true })).toEqual([there as number]);

      await flow.messageDelete(String(there), { uid: true });
      expect(await api()).toMatchObject({ folder: "trash" });
      await flow.mailboxOpen("Trash");
      await flow.messageDelete((await flow.search({ subject }, { uid: true })) as number[], { uid: true });
      expect((await app.api.get(`/threads/${threadId}`)).status).toBe(404);
      await flow.logout();
    });
  }

  test("appends to Sent once, and drafts that the API has", async () => {
    const flow = await client();
    const mail = (id: string, subject: string) =>
      `From: alice@example.test\r\nTo: ben@remote.example\r\nSubject: ${subject}\r\nMessage-ID: <${id}@x>\r\n\r\nHi\r\n`;
    const first = await flow.append("Sent", mail("sent-1", "Sent by app"), ["\\Seen"]);
    const again = await flow.append("Sent", mail("sent-1", "Sent by app"), ["\\Seen"]);
    expect([(first || undefined)?.uid, (again || undefined)?.uid]).toEqual([1, 1]);
    await flow.append("Drafts", mail("draft-1", "Half written"), ["\\Draft"]);
    await flow.append("Archive", mail("kept-1", "Kept"), ["\\Flagged"], new Date(Date.UTC(2020, 0, 1)));
    const subjects = async (folder: string) =>
      ((await app.api.get(`/threads?folder=${folder}`)).body as { threads: { subject: string }[] }).threads.map(
        ({ subject }) => subject,
      );
    expect(await subjects("drafts")).toEqual(["Half written"]);
    expect(await subjects("starred")).toEqual(["Kept"]);
    await flow.mailboxOpen("Archive");
    const [uid] = (await flow.search({ subject: "Kept" }, { uid: true })) as number[];
    expect((await flow.fetchOne(String(uid), { internalDate: true }, { uid: true })) as object).toMatchObject({
      internalDate: new Date(Date.UTC(2020, 0, 1)),
    });
    await flow.logout();
  });
});

describe("by hand", () => {
  test("nothing before TLS: no password, and nothing sent in the same breath", async () => {
    const hand = speaker(connect(portOf(app.ready.imap), "127.0.0.1"));
    expect(await hand.until(/\r\n/)).toContain("STARTTLS LOGINDISABLED]");
    expect(await hand.say(`LOGIN alice@example.test ${app.owner.apiKey}`)).toContain("NO [PRIVACYREQUIRED]");
    hand.write("a STARTTLS\r\nb NOOP\r\n");
    expect(await hand.until(/a .*\r\n/)).toContain("a OK");
    const tls = speaker(connectTls({ socket: hand.socket, rejectUnauthorized: false }));
    const said = await tls.say("CAPABILITY");
    expect(said).toContain("AUTH=PLAIN");
    expect(said).not.toContain("b OK");
    hand.socket.destroy();
  });

  test("AUTHENTICATE PLAIN, at once or when asked; wrong passwords", async () => {
    const plain = (secret: string, acting = "") =>
      Buffer.from(`${acting}\0alice@example.test\0${secret}`).toString("base64");
    const hand = await byHand();
    await hand.until(/\r\n/);
    expect(await hand.say(`AUTHENTICATE PLAIN ${plain("wrong")}`)).toContain("NO [AUTHENTICATIONFAILED]");
    expect(await hand.say(`AUTHENTICATE PLAIN ${plain(app.owner.apiKey, "ben@example.test")}`)).toContain(
      "NO [AUTHENTICATIONFAILED]",
    );
    expect(await hand.say("SELECT INBOX")).toContain("NO [CLIENTBUG] Sign in first");
    hand.write("x AUTHENTICATE PLAIN\r\n");
    await hand.until(/\+ \r\n/);
    hand.write(`${plain(app.owner.apiKey)}\r\n`);
    expect(await hand.until(/x .*\r\n/)).toContain("x OK [CAPABILITY ");
    hand.socket.destroy();
  });

  test("a session ends with its key", async () => {
    const { core } = app.opened;
    const { store } = core;
    const { userId } = app.owner;
    const { key, id } = store.transact((tx) =>
      developers.createKey(core, tx, { userId, name: "Short", scopes: ["read"] }),
    );
    const hand = await byHand();
    await hand.until(/\r\n/);
    await hand.say(`LOGIN alice@example.test ${key}`);
    await hand.say("SELECT INBOX");
    expect(await hand.say("UID STORE 1 +FLAGS (\\Flagged)")).toContain("NO [NOPERM]");
    store.transact((tx) => developers.revokeKey(core, tx, id));
    expect(await hand.say("SELECT INBOX")).toContain("* BYE Sign in again");
  });

  test("IDLE tells of what arrives and what changes elsewhere", async () => {
    const hand = await signedIn();
    await hand.say("SELECT INBOX");
    hand.write("i IDLE\r\n");
    await hand.until(/\+ idling\r\n/);
    const { threadId } = await arrive({ subject: "While idle", from: "idle@remote.example" });
    await app.advance(100);
    expect(await hand.until(/\* (\d+) EXISTS\r\n/)).toMatch(/EXISTS/);
    await app.api.patch(`/threads/${threadId}`, { unread: false, starred: true });
    await app.advance(100);
    expect(await hand.until(/FETCH .*\r\n/)).toContain("FLAGS (\\Seen \\Flagged)");
    await app.api.patch(`/threads/${threadId}`, { folder: "archive" });
    await app.advance(100);
    expect(await hand.until(/EXPUNGE\r\n/)).toMatch(/^\* \d+ EXPUNGE\r\n$/m);
    hand.write("DONE\r\n");
    expect(await hand.until(/i .*\r\n/)).toContain("i OK");
    expect(await hand.say("LOGOUT")).toContain("* BYE");
  });

  test("sequence numbers stay while another session moves mail, until the client is told", async () => {
    for (const n of [1, 2, 3]) await arrive({ subject: `Seq ${n}`, from: `seq${n}@remote.example` });
    const [one, other] = [await signedIn(), await signedIn()];
    await one.say("SELECT INBOX");
    await other.say("SELECT INBOX");
    const last = Number(/\* (\d+) EXISTS/.exec(await one.say("SELECT INBOX"))?.[1]);
    await other.say(`MOVE ${last - 2} Trash`);
    const fetched = await one.say(`FETCH ${last} (ENVELOPE)`);
    expect(fetched).toContain('"Seq 3"');
    expect(fetched).not.toContain("EXPUNGE");
    expect(await one.say("NOOP")).toContain(`* ${last - 2} EXPUNGE`);
    expect(await one.say(`FETCH ${last - 1} (ENVELOPE)`)).toContain('"Seq 3"');
    expect(await one.say(`FETCH ${last} (ENVELOPE)`)).toContain("BAD");
    for (const hand of [one, other]) hand.socket.destroy();
  });

  test("QRESYNC: what vanished and changed while the client was away", async () => {
    for (const n of [1, 2, 3]) await arrive({ subject: `Sync ${n}`, from: `sync${n}@remote.example` });
    const [one, other] = [await signedIn(), await signedIn()];
    expect(await one.say("ENABLE QRESYNC")).toContain("* ENABLED QRESYNC");
    const opened = await one.say("SELECT INBOX");
    const [validity, next, modseq] = ["UIDVALIDITY", "UIDNEXT", "HIGHESTMODSEQ"].map((name) =>
      Number(new RegExp(`${name} (\\d+)`).exec(opened)?.[1]),
    ) as [number, number, number];
    await one.say("UNSELECT");
    await other.say("SELECT INBOX");
    await other.say(`UID MOVE ${next - 3} Archive`);
    await other.say(`UID STORE ${next - 1} +FLAGS.SILENT ($Forwarded \\Answered)`);
    const again = await one.say(`SELECT INBOX (QRESYNC (${validity} ${modseq} 1:${next}))`);
    expect(again).toContain(`* VANISHED (EARLIER) ${next - 3}\r\n`);
    expect(again.match(/FETCH .*/g)).toEqual([
      expect.stringMatching(new RegExp(`FLAGS \\(\\\\Answered \\$Forwarded\\) UID ${next - 1} MODSEQ`)),
    ]);
    expect(await one.say(`UID FETCH 1:* (FLAGS) (CHANGEDSINCE ${modseq} VANISHED)`)).toContain(
      `* VANISHED (EARLIER) ${next - 3}\r\n`,
    );
    await other.say(`UID MOVE ${next - 2} Archive`);
    expect(await one.say("NOOP")).toContain(`* VANISHED ${next - 2}\r\n`);
    expect(await one.say(`UID STORE ${next - 1} (UNCHANGEDSINCE ${modseq}) +FLAGS (\\Deleted)`)).toContain(
      `OK [MODIFIED ${next - 1}]`,
    );
    for (const hand of [one, other]) hand.socket.destroy();
  });

  test("LIST with its extensions, STATUS, and searches by text, date and size", async () => {
    await arrive({ subject: "Quarterly plan", from: "find@remote.example", text: "The word is zanzibar." });
    const hand = await signedIn();
    expect(await hand.say('LIST "" "%" RETURN (SPECIAL-USE STATUS (MESSAGES))')).toMatch(
      /\* LIST \(.*\\Archive\) "\/" "Archive"\r\n\* STATUS "Archive" \(MESSAGES \d+\)/,
    );
    expect((await hand.say('LIST (SPECIAL-USE) "" *')).match(/\* LIST/g)).toHaveLength(5);
    expect(await hand.say('LIST "" inbox')).toContain('"INBOX"');
    expect(await hand.say("STATUS Trash (UIDNEXT UIDVALIDITY UNSEEN HIGHESTMODSEQ)")).toMatch(
      /\* STATUS "Trash" \(UIDNEXT \d+ UIDVALIDITY \d+ UNSEEN \d+ HIGHESTMODSEQ \d+\)/,
    );
    const last = /(\d+) EXISTS/.exec(await hand.say("SELECT INBOX"))?.[1];
    const unseen = /\* SEARCH(.*)\r\n/
      .exec(await hand.say("SEARCH UNSEEN"))?.[1]
      ?.trim()
      .split(" ").length;
    expect(await hand.say("STATUS INBOX (MESSAGES UNSEEN)")).toContain(`(MESSAGES ${last} UNSEEN ${unseen})`);
    for (const key of [
      "BODY ZANZIBAR",
      'SUBJECT "quarterly PLAN"',
      "FROM find@remote.example",
      'HEADER "From" find@',
      "TEXT zanzibar SINCE 1-Jan-2020 UNSEEN",
      "OR BODY nothing BODY zanzibar",
      "BODY zanzibar LARGER 10 SMALLER 100000",
    ]) {
      expect([key, await hand.say(`SEARCH ${key}`)]).toEqual([key, expect.stringContaining(`* SEARCH ${last}\r\n`)]);
    }
    expect(await hand.say("SEARCH RETURN (MIN COUNT) NOT BODY zanzibar BODY zanzibar")).toMatch(
      /\* ESEARCH \(TAG "t\d+"\) COUNT 0\r\n/,
    );
    hand.socket.destroy();
  });

  test("a shared mailbox is under Shared/, by its access", async () => {
    const ben = app.join("ben@example.test", "member", { name: "Ben", access: "view" });
    await arrive({ subject: "Shared", from: "shared@remote.example" });
    const hand = await byHand();
    await hand.until(/\r\n/);
    await hand.say(`LOGIN ben@example.test ${ben.key}`);
    expect(await hand.say("NAMESPACE")).toContain('* NAMESPACE (("" "/")) (("Shared/" "/")) NIL');
    expect(await hand.say('LIST "" Shared/*')).toContain('"Shared/alice@example.test/INBOX"');
    const last = /(\d+) EXISTS/.exec(await hand.say("SELECT Shared/alice@example.test/INBOX"))?.[1];
    expect(Number(last)).toBeGreaterThan(0);
    expect(await hand.say(`STORE ${last} +FLAGS (\\Seen)`)).toContain("FLAGS (\\Seen)");
    for (const refused of [
      `STORE ${last} +FLAGS (\\Flagged)`,
      `STORE ${last} +FLAGS (Label)`,
      `MOVE ${last} Shared/alice@example.test/Trash`,
    ]) {
      expect([refused, await hand.say(refused)]).toEqual([refused, expect.stringContaining("NO [NOPERM]")]);
    }
    expect(await hand.say(`MOVE ${last} INBOX`)).toContain("NO [NOPERM]");
    expect(await hand.say("SELECT Shared/nobody@example.test/INBOX")).toContain("NO [NONEXISTENT]");
    const idle = await byHand();
    await idle.until(/\r\n/);
    await idle.say(`LOGIN ben@example.test ${ben.key}`);
    await idle.say("SELECT Shared/alice@example.test/INBOX");
    idle.write("i IDLE\r\n");
    await idle.until(/idling\r\n/);
    await hand.say("SELECT Shared/alice@example.test/INBOX");
    app.write((tx) => mailboxAdmin.revokeMailboxAccess(tx, app.owner.mailboxId, ben.userId));
    expect(await hand.say("FETCH 1 (FLAGS)")).toContain("* BYE The mailbox is no longer shared with you");
    await arrive({ subject: "Not for Ben", from: "late-shared@remote.example" });
    await app.advance(100);
    const told = await idle.until(/BYE .*\r\n/);
    expect(told).toContain("* BYE The mailbox is no longer shared with you");
    expect(told).not.toContain("EXISTS");
  });

  test("any commands leave the server well", async () => {
    const word = fc.constantFrom(
      "FETCH",
      "UID",
      "STORE",
      "SEARCH",
      "SELECT",
      "INBOX",
      "Trash",
      "1:*",
      "*",
      "1",
      "(FLAGS ENVELOPE)",
      "BODY[1.2.HEADER]",
      "(BODY.PEEK[]<0.5>)",
      "+FLAGS",
      "-FLAGS.SILENT",
      "(\\Seen Blue)",
      "(\\Deleted)",
      "EXPUNGE",
      "MOVE",
      "Archive",
      "LIST",
      '""',
      "*",
      "STATUS",
      "(MESSAGES)",
      "ALL",
      "NOT",
      "OR",
      "BODY",
      "x",
      "CLOSE",
      "NOOP",
      "ENABLE",
      "QRESYNC",
      "(",
      ")",
      "{2+}\r\nab",
      "RETURN (COUNT)",
      "(QRESYNC (1 1))",
      "CAPABILITY",
      "ID NIL",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(word, { minLength: 1, maxLength: 5 }), { maxLength: 15 }),
        async (commands) => {
          const hand = await signedIn();
          for (const words of commands) {
            const said = await hand.say(words.join(" "));
            expect([words, said]).toEqual([words, expect.not.stringContaining("SERVERBUG")]);
            if (/^\* BYE/m.test(said)) break;
          }
          hand.socket.destroy();
        },
      ),
      { numRuns: 30 },
    );
    expect(app.lines.filter(({ level }) => level === "error")).toEqual([]);
  }, 60_000);

  test("MOVE tells the new UID; unknown commands are BAD", async () => {
    await arrive({ subject: "To move", from: "move@remote.example" });
    const hand = await signedIn();
    await hand.say("SELECT INBOX");
    expect(await hand.say("UID MOVE * Junk")).toMatch(/\* OK \[COPYUID \d+ \d+ \d+\] Moved\r\n\* \d+ EXPUNGE\r\n/);
    expect(await hand.say("MOVE 1 Nowhere")).toMatch(/NO \[TRYCREATE\]|BAD/);
    expect(await hand.say("XYZZY")).toContain("BAD");
    expect(await hand.say("FETCH 1 (NONSENSE)")).toContain("BAD");
    hand.socket.destroy();
  });
});

afterAll(() => app.server.stop(0));
