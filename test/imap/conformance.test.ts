/** Sentences of the RFCs on the order of replies, their codes and their states, one by one, over a socket. */
import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import type { ImapAccount, Reply } from "../harness/clients/imap-client.ts";
import { imapStranger } from "../harness/clients/imap-client.ts";
import { type ImapWorld, sharedImapWorld, uidsOf } from "../harness/servers/imap-world.ts";

/** Alice's INBOX with three messages, open in so many apps. */
async function opened(apps = 1): Promise<{ world: ImapWorld; clients: ImapAccount[]; uids: number[] }> {
  const world = await sharedImapWorld();
  for (const n of [1, 2, 3]) await world.arrive({ subject: `Message ${n}` });
  const clients: ImapAccount[] = [];
  for (let i = 0; i < apps; i++) {
    const client = await world.client();
    await client.say("SELECT INBOX");
    clients.push(client);
  }
  return { world, clients, uids: await uidsOf(clients[0] as ImapAccount, "Message") };
}
const portOf = (world: ImapWorld): number => Number(world.app.ready.imaps?.split(":")[1]);
const isModseq = (line: string): boolean => /^\* OK \[HIGHESTMODSEQ \d+\] /.test(line);
const modseqOf = (text = ""): number => Number(/HIGHESTMODSEQ (\d+)/.exec(text)?.[1]);
const told = ({ untagged }: Reply, what: RegExp): string[] => untagged.filter((line) => what.test(line));
const append = (client: ImapAccount, folder: string, text: string): Promise<Reply> =>
  client.say(`APPEND ${folder} {${text.length}+}\r\n${text}`);

describe("the states of a session (RFC 9051 §3, §6.1, §6.2)", () => {
  test("TLS begins once; a sign-in that the client cancels is BAD", async () => {
    const world = await sharedImapWorld();
    const client = await imapStranger(portOf(world));
    expect((await client.say("STARTTLS")).status).toBe("BAD");
    for (const [command, status] of [
      ["CHECK", "NO"],
      ["UID FETCH 1 (FLAGS)", "NO"],
      ["XYZZY", "BAD"],
    ] as const) {
      expect([command, (await client.say(command)).status]).toEqual([command, status]);
    }
    client.write("a AUTHENTICATE PLAIN\r\n");
    expect(await client.line()).toBe("+ ");
    client.write("*\r\n");
    expect(await client.line()).toStartWith("a BAD ");
  });

  test("commands without arguments take none, and LOGOUT says BYE before OK", async () => {
    const { clients } = await opened();
    const [client] = clients as [ImapAccount];
    for (const command of ["CAPABILITY", "NOOP", "CHECK", "LOGOUT", "UNSELECT", "CLOSE", "EXPUNGE", "IDLE"]) {
      expect([command, (await client.say(`${command} x`)).status]).toEqual([command, "BAD"]);
    }
    expect(await client.say("CHECK")).toMatchObject({ status: "OK" });
    const { untagged, status } = await client.say("LOGOUT");
    expect([untagged.map((line) => line.slice(0, 6)), status]).toEqual([["* BYE "], "OK"]);
  });

  test.each([
    ["a stranger", 60_000],
    ["a person", 31 * 60_000],
  ])("%s who is silent for long is told so", async (who, ms) => {
    const world = await sharedImapWorld();
    const client = who === "a person" ? await world.client() : await imapStranger(portOf(world));
    await world.app.advance(ms - 1);
    expect((await client.say("NOOP")).status).toBe("OK");
    await world.app.advance(ms);
    expect(await client.line()).toStartWith("* BYE ");
    await world.app.advance(1_000);
    expect(await client.line()).toBeUndefined();
  });

  test("a connection that never begins its TLS ends as well", async () => {
    const world = await sharedImapWorld();
    const socket = connect(portOf(world), "127.0.0.1");
    await new Promise((resolve) => socket.once("connect", resolve));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    while (!socket.closed) await world.app.advance(60_000);
    await closed;
  });

  test("a literal that nobody asked for and that is too large is BAD, TOOBIG, and the end (RFC 7888 §5)", async () => {
    const world = await sharedImapWorld();
    const client = await world.client();
    client.write("a APPEND INBOX {4097+}\r\n");
    expect(await client.line()).toStartWith("a BAD [TOOBIG] ");
    expect(await client.line()).toStartWith("* BYE [TOOBIG] ");
    const other = await world.client();
    const most = world.app.core.options.get("smtp.maxMessageBytes");
    expect(await other.say(`APPEND INBOX {${most + 1}}`)).toMatchObject({
      status: "NO",
      text: expect.stringContaining("[TOOBIG]"),
    });
    expect((await other.say("NOOP")).status).toBe("OK");
  });
});

describe("SELECT (RFC 3501 §6.3.1, RFC 9051 §6.3.2)", () => {
  test("the first message that is not seen is told, unless all are", async () => {
    const { clients } = await opened();
    const [client] = clients as [ImapAccount];
    await client.say("STORE 1 +FLAGS.SILENT (\\Seen)");
    expect(told(await client.say("SELECT INBOX"), /UNSEEN/)).toEqual([expect.stringMatching(/^\* OK \[UNSEEN 2\]/)]);
    await client.say("STORE 1:* +FLAGS.SILENT (\\Seen)");
    await append(client, "Archive", "Subject: Elsewhere\r\n\r\nHi\r\n");
    expect(told(await client.say("SELECT INBOX"), /UNSEEN/)).toEqual([]);
  });

  test("the mailbox before is closed first, and with a refusal nothing is selected", async () => {
    const { clients } = await opened();
    const [client] = clients as [ImapAccount];
    expect((await client.say("EXAMINE INBOX")).untagged[0]).toStartWith("* OK [CLOSED] ");
    expect((await client.say("SELECT INBOX (NONSENSE)")).status).toBe("BAD");
    expect((await client.say("SELECT INBOX (QRESYNC (1 1))")).status).toBe("BAD");
    expect((await client.say("FETCH 1 (UID)")).status).toBe("OK");
    const { untagged, text } = await client.say("SELECT Nowhere");
    expect([untagged.length, text]).toEqual([1, expect.stringContaining("[NONEXISTENT]")]);
    expect((await client.say("FETCH 1 (UID)")).status).toBe("NO");
    expect(told(await client.say("SELECT INBOX"), /CLOSED/)).toEqual([]);
  });

  test("who may only read opens to read only", async () => {
    const { world } = await opened();
    const { core } = world.app.opened;
    const { store } = core;
    const { userId } = world.app.owner;
    const { key } = store.transact((tx) =>
      developers.createKey(core, tx, { userId, name: "Reader", scopes: ["read"] }),
    );
    const client = await world.client({ email: world.alice, key });
    const reply = await client.say("SELECT INBOX");
    expect(reply.text).toStartWith("[READ-ONLY]");
    expect(told(reply, /PERMANENTFLAGS/)).toEqual([expect.stringContaining("[PERMANENTFLAGS ()]")]);
    await client.say("FETCH 1 (BODY[])");
    expect((await client.say("STORE 1 +FLAGS (\\Seen)")).text).toStartWith("[NOPERM]");
    expect((await client.say("EXPUNGE")).text).toStartWith("[NOPERM]");
    expect(told(await client.say("FETCH 1 (FLAGS)"), /FETCH/)).toEqual(["* 1 FETCH (FLAGS ())"]);
    expect((await client.say("CLOSE")).status).toBe("OK");
  });
});

describe("what a session is told of changes (RFC 9051 §5.2, §7.5)", () => {
  test("FETCH that nobody asked for has the UID, in IDLE, too", async () => {
    const { world, clients, uids } = await opened(2);
    const [client, other] = clients as [ImapAccount, ImapAccount];
    await other.say("STORE 2 +FLAGS (\\Flagged)");
    expect((await client.say("NOOP")).untagged).toEqual([`* 2 FETCH (FLAGS (\\Flagged) UID ${uids[1]})`]);
    client.write("i IDLE\r\n");
    expect(await client.line()).toBe("+ idling");
    await other.say("STORE 2 +FLAGS (\\Answered)");
    await world.app.advance(100);
    expect(await client.line()).toBe(`* 2 FETCH (FLAGS (\\Flagged \\Answered) UID ${uids[1]})`);
  });

  test("FETCH, STORE and SEARCH tell what came and what changed, but no number changes", async () => {
    const { world, clients } = await opened(2);
    const [client, other] = clients as [ImapAccount, ImapAccount];
    const commands = ["FETCH 3 (UID)", "STORE 3 +FLAGS.SILENT (\\Seen)", "SEARCH 3", "UID SEARCH 3"];
    for (const [i, command] of commands.entries()) {
      await world.arrive({ subject: `More ${i}` });
      await other.say(`STORE 1 ${i % 2 === 0 ? "+" : "-"}FLAGS.SILENT (\\Flagged)`);
      const { untagged } = await client.say(command);
      expect(untagged).toContain(`* ${i + 4} EXISTS`);
      expect(untagged).toContainEqual(expect.stringMatching(/^\* 1 FETCH \(FLAGS \(/));
    }
    await other.say("MOVE 1 Archive");
    for (const command of commands) {
      await world.arrive({ subject: "After it" });
      const { untagged } = await client.say(command);
      expect([command, untagged.filter((line) => /EXPUNGE|EXISTS/.test(line))]).toEqual([command, []]);
    }
    expect((await client.say("NOOP")).untagged).toEqual(["* 1 EXPUNGE", "* 10 EXISTS"]);
    expect(client.mistakes).toEqual([]);
  });

  test("what is gone already is left out, and the reply says why", async () => {
    const { clients, uids } = await opened(2);
    const [client, other] = clients as [ImapAccount, ImapAccount];
    await other.say("MOVE 2 Trash");
    const reply = await client.say("FETCH 1:3 (UID FLAGS)");
    expect(reply.text).toStartWith("[EXPUNGEISSUED] ");
    expect(reply.untagged).toEqual([`* 1 FETCH (UID ${uids[0]} FLAGS ())`, `* 3 FETCH (UID ${uids[2]} FLAGS ())`]);
    expect(await client.say("FETCH 1:3 (UID)")).toMatchObject({
      text: "FETCH completed",
      untagged: uids.map((uid, i) => `* ${i + 1} FETCH (UID ${uid})`),
    });
  });

  test("FETCH that marks as seen says so of the messages that were not", async () => {
    const { clients, uids } = await opened();
    const [client] = clients as [ImapAccount];
    await client.say("STORE 1 +FLAGS.SILENT (\\Seen)");
    expect((await client.say("FETCH 1:2 (BODY[]<0.1>)")).untagged).toEqual([
      expect.stringMatching(/^\* 1 FETCH \(BODY\[\]<0> \{1\}\r\n.\)$/),
      expect.stringMatching(/^\* 2 FETCH \(BODY\[\]<0> \{1\}\r\n. FLAGS \(\\Seen\)\)$/),
    ]);
    expect((await client.say("NOOP")).untagged).toEqual([]);
    await client.say("ENABLE CONDSTORE");
    const [line = ""] = (await client.say("FETCH 3 (BODY[TEXT])")).untagged;
    expect(line).toMatch(new RegExp(` FLAGS \\(\\\\Seen\\) UID ${uids[2]} MODSEQ \\(\\d+\\)\\)$`));
  });
});

test("sequence numbers of no message are BAD, and UIDs of none are none (RFC 9051 §6.4.9, §9)", async () => {
  const { clients } = await opened();
  const [client] = clients as [ImapAccount];
  const statuses = async (sets: string[], byUid = "") => {
    const found: string[] = [];
    for (const set of sets) {
      for (const command of [`FETCH ${set} (FLAGS)`, `STORE ${set} +FLAGS (\\Seen)`, `COPY ${set} Archive`])
        found.push((await client.say(byUid + command)).status);
    }
    return [...new Set(found)];
  };
  expect(await statuses(["4", "1:4", "5:*", "1,9"])).toEqual(["BAD"]);
  expect(await statuses(["8:9", "99"], "UID ")).toEqual(["OK"]);
  expect(told(await client.say("UID FETCH 99:* (UID)"), /FETCH/)).toHaveLength(1);
  await client.say("SELECT Trash");
  expect(await statuses(["*", "1:*", "1"])).toEqual(["BAD"]);
  expect(await statuses(["*", "1:*", "1"], "UID ")).toEqual(["OK"]);
  expect(await statuses(["$"])).toEqual(["OK"]);
});

test("a section has the name in the reply that it was asked for by", async () => {
  const { clients } = await opened();
  const [client] = clients as [ImapAccount];
  for (const [asked, named] of [
    ["BODY.PEEK[HEADER.FIELDS (SUBJECT From)]", "BODY[HEADER.FIELDS (SUBJECT From)]"],
    ['BODY.PEEK[HEADER.FIELDS.NOT ("To" "a]b" {1+}\r\nx)]<0.1>', 'BODY[HEADER.FIELDS.NOT (To "a]b" x)]<0>'],
    ["BODY.PEEK[1.MIME]", "BODY[1.MIME]"],
    ["RFC822.HEADER", "RFC822.HEADER"],
  ] as const) {
    const { untagged } = await client.say(`FETCH 1 (${asked})`);
    expect(untagged[0]).toStartWith(`* 1 FETCH (${named} {`);
  }
});

describe("COPYUID (RFC 4315 §3, RFC 9051 §7.1)", () => {
  test("has both sets in ascending order, whatever the conversations: messages arrive in the order of their UIDs", async () => {
    const world = await sharedImapWorld();
    const client = await world.client();
    await client.say("SELECT INBOX");
    const first = { subject: "One", messageId: "<one@remote.example>", from: "one@remote.example" };
    await world.arrive(first);
    for (const subject of ["Two", "Three"]) await world.arrive({ subject });
    const headers = ["In-Reply-To: <one@remote.example>", "References: <one@remote.example>"];
    await world.arrive({ subject: "Re: One", from: "one@remote.example", headers });
    await client.say("SELECT INBOX");
    // Now the first one is the last.
    await client.say("UID MOVE 1 Trash");
    await client.say("SELECT Trash");
    await client.say("UID MOVE 1 INBOX");
    await client.say("SELECT INBOX");
    expect((await client.say("UID MOVE 1:* Archive")).untagged[0]).toMatch(/^\* OK \[COPYUID \d+ 2:5 1:4\] /);
    await client.say("SELECT Archive");
    const { untagged } = await client.say("FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])");
    expect(untagged.map((line) => /UID (\d+).*Subject: ([^\r]*)/s.exec(line)?.slice(1))).toEqual([
      ["1", "Two"],
      ["2", "Three"],
      ["3", "Re: One"],
      ["4", "One"],
    ]);
    await client.say("STORE 1:* +FLAGS.SILENT (\\Deleted)");
    await client.say("EXPUNGE");
    await client.say("SELECT Trash");
    expect(await uidsOf(client, "One")).toEqual([4, 5]);
  });

  test("is in the reply to COPY, and before EXPUNGE for MOVE", async () => {
    const { world, clients, uids } = await opened();
    const [client] = clients as [ImapAccount];
    const ben = world.member("Ben", "full");
    const bens = await world.client(ben);
    await bens.say(`SELECT Shared/${world.alice}/INBOX`);
    for (const [app, command, from] of [
      [bens, "COPY 1 INBOX", uids[0]],
      [bens, `UID COPY ${uids[1]} INBOX`, uids[1]],
      [client, `UID COPY ${uids[0]} Archive`, uids[0]],
    ] as const) {
      const { text, untagged } = await app.say(command);
      expect([command, text, untagged]).toEqual([
        command,
        expect.stringMatching(new RegExp(`^\\[COPYUID \\d+ ${from} \\d+\\] `)),
        [],
      ]);
    }
    await client.say("NOOP");
    const { text, untagged } = await client.say("MOVE 1:2 Archive");
    expect(untagged).toEqual([
      expect.stringMatching(new RegExp(`^\\* OK \\[COPYUID \\d+ ${uids[1]}:${uids[2]} \\d+:\\d+\\] `)),
      "* 2 EXPUNGE",
      "* 1 EXPUNGE",
    ]);
    expect(text).toMatch(/^\[HIGHESTMODSEQ \d+\] /);
    expect(await client.say("UID MOVE 999 Archive")).toMatchObject({ text: "MOVE completed", untagged: [] });
  });
});

test("APPEND takes no NUL that a binary part would lose (RFC 3516 §4.4), and leaves out other NUL", async () => {
  const { clients } = await opened();
  const [client] = clients as [ImapAccount];
  const send = async (text: string): Promise<string> => {
    client.write(`a APPEND INBOX ~{${text.length}}\r\n`);
    expect(await client.line()).toStartWith("+ ");
    client.write(`${text}\r\n`);
    for (;;) {
      const line = (await client.line()) ?? "";
      if (!line.startsWith("* ")) return line;
    }
  };
  const octets = (encoding: string, file: string, begin = ""): string =>
    [
      `${begin}Subject: Octets`,
      "MIME-Version: 1.0",
      "Content-Type: application/octet-stream",
      `Content-Transfer-Encoding: ${encoding}`,
      ...["", file, ""],
    ].join("\r\n");
  // Of any length, so that the field stands anywhere in what is read at once.
  const far = Array.from({ length: 300 }, (_, n) => `X-${n}: ${"x".repeat(900)}\r\n`).join("");
  for (const refused of [octets("Binary", "a\0b"), octets("binary", "a\0b", far)]) {
    expect(await send(refused)).toStartWith("a NO [UNKNOWN-CTE] ");
  }
  for (const [taken, kept] of [
    [octets("binary", "ab"), "ab"],
    [octets("7bit", "a\0b"), "ab"],
    [octets("base64", "YQBi"), "a\0b"],
  ] as const) {
    const [, uid] = /^a OK \[APPENDUID \d+ (\d+)\]/.exec(await send(taken)) ?? [];
    const { untagged } = await client.say(`UID FETCH ${uid} (BINARY.PEEK[1])`);
    expect(untagged[0]).toMatch(new RegExp(`BINARY\\[1\\] ~?\\{\\d\\}\\r\\n${kept}(?:\\r\\n)?\\)$`));
  }
});

describe("CONDSTORE and QRESYNC (RFC 7162)", () => {
  test.each([
    "ENABLE CONDSTORE",
    "ENABLE QRESYNC",
    "STATUS Archive (HIGHESTMODSEQ)",
    "FETCH 1 (MODSEQ)",
    "UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1)",
    "SEARCH MODSEQ 1",
    "STORE 1 (UNCHANGEDSINCE 999) +FLAGS (\\Flagged)",
  ])("%s is told of the latest MODSEQ once, and MODSEQ and UID from then on", async (command) => {
    const { clients, uids } = await opened();
    const [client] = clients as [ImapAccount];
    expect(told(await client.say(command), /HIGHESTMODSEQ/).filter(isModseq)).toHaveLength(1);
    expect((await client.say(command)).untagged.filter(isModseq)).toEqual([]);
    const { untagged } = await client.say("STORE 2 +FLAGS.SILENT (\\Answered)");
    expect(untagged).toEqual([
      expect.stringMatching(
        new RegExp(`^\\* 2 FETCH \\(FLAGS \\(\\\\Answered\\) UID ${uids[1]} MODSEQ \\(\\d+\\)\\)$`),
      ),
    ]);
  });

  test("SELECT that asks for it tells it with the mailbox alone", async () => {
    const { clients } = await opened();
    const [client] = clients as [ImapAccount];
    expect(told(await client.say("SELECT INBOX (CONDSTORE)"), /HIGHESTMODSEQ/)).toHaveLength(1);
    expect((await client.say("FETCH 1 (MODSEQ)")).untagged).toHaveLength(1);
  });

  test("what EXPUNGE and MOVE removed is in the MODSEQ of their reply, of CLOSE in none", async () => {
    const { clients, uids } = await opened();
    const [client] = clients as [ImapAccount];
    await client.say("ENABLE QRESYNC");
    await client.say(`UID STORE ${uids.join(",")} +FLAGS.SILENT (\\Deleted)`);
    const expunged = await client.say(`UID EXPUNGE ${uids[0]}`);
    expect(expunged.untagged).toEqual([`* VANISHED ${uids[0]}`]);
    const moved = await client.say(`UID MOVE ${uids[1]} Archive`);
    expect(moved.untagged.at(-1)).toBe(`* VANISHED ${uids[1]}`);
    const [first, second] = [expunged, moved].map(({ text }) => modseqOf(text));
    expect(second).toBeGreaterThan(first as number);
    expect(modseqOf((await client.say("STATUS INBOX (HIGHESTMODSEQ)")).untagged[0])).toBe(second as number);
    expect((await client.say("UID EXPUNGE 1:999")).text).toMatch(/^\[HIGHESTMODSEQ/);
    expect((await client.say("EXPUNGE")).text).toBe("EXPUNGE completed");
    await append(client, "INBOX", "Subject: Last\r\n\r\nHi\r\n");
    await client.say("STORE 1 +FLAGS.SILENT (\\Deleted)");
    expect((await client.say("CLOSE")).text).not.toContain("HIGHESTMODSEQ");
  });

  test("a client that loses its connection before it is told what vanished asks again from before that", async () => {
    const { clients, uids } = await opened(2);
    const [client, other] = clients as [ImapAccount, ImapAccount];
    await client.say("ENABLE QRESYNC");
    const before = modseqOf((await client.say("STATUS INBOX (HIGHESTMODSEQ)")).untagged[0]);
    await other.say(`UID MOVE ${uids[0]} Archive`);
    const { untagged } = await client.say("STORE 3 +FLAGS (\\Flagged)");
    const [, modseq] = /MODSEQ \((\d+)\)/.exec(untagged[0] ?? "") ?? [];
    expect(Number(modseq)).toBeGreaterThan(before);
    expect(untagged.slice(1).map(modseqOf)).toEqual([before]);
    expect((await client.say("NOOP")).untagged[0]).toBe(`* VANISHED ${uids[0]}`);
  });

  test("VANISHED (EARLIER) is of what the client does not count, in any order of the modifiers", async () => {
    const { clients, uids } = await opened(2);
    const [client, other] = clients as [ImapAccount, ImapAccount];
    await client.say("ENABLE QRESYNC");
    await other.say(`UID MOVE ${uids[0]} Archive`);
    await client.say("NOOP");
    await other.say(`UID MOVE ${uids[1]} Archive`);
    const { untagged } = await client.say("UID FETCH 1:* (FLAGS) (VANISHED CHANGEDSINCE 1)");
    expect(untagged.filter((line) => line.includes("VANISHED"))).toEqual([
      `* VANISHED (EARLIER) ${uids[0]}`,
      `* VANISHED ${uids[1]}`,
    ]);
    for (const bad of [
      "FETCH 1:* (FLAGS) (CHANGEDSINCE 1 VANISHED)",
      "UID FETCH 1:* (FLAGS) (VANISHED)",
      "UID FETCH 1:* (FLAGS) (NONSENSE 1)",
    ]) {
      expect([bad, (await client.say(bad)).status]).toEqual([bad, "BAD"]);
    }
    expect(client.mistakes).toEqual([]);
  });
});

describe("LIST and LSUB (RFC 3501 §6.3.8 f., RFC 9051 §6.3.9)", () => {
  /** `shared`: a mailbox that Alice may use, as LIST names it. */
  async function sharing(): Promise<{ client: ImapAccount; shared: string }> {
    const world = await sharedImapWorld();
    const { core } = world.app.opened;
    const { store } = core;
    const { workspaceId } = world.app.owner;
    store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, { workspaceId, address: `grün@${world.domain}`, name: "Grün" }),
    );
    return { client: await world.client(), shared: `Shared/gr&APw-n@${world.domain}` };
  }

  test("a parent that is no mailbox is \\Noselect; LSUB has it for %", async () => {
    const { client, shared } = await sharing();
    const parent = async (command: string) => told(await client.say(command), /"Shared"/);
    for (const command of ['LIST "" "%"', 'LIST () "" "%"', 'LIST "" ("%")', 'LIST "" "*" RETURN (SPECIAL-USE)']) {
      expect([command, await parent(command)]).toEqual([command, ['* LIST (\\Noselect \\HasChildren) "/" "Shared"']]);
    }
    expect(await parent('LSUB "" "%"')).toEqual(['* LSUB (\\Noselect) "/" "Shared"']);
    expect(await parent('LSUB "" "*"')).toEqual([]);
    expect((await client.say('LSUB "Shared/" "%"')).untagged).toEqual([`* LSUB (\\Noselect) "/" "${shared}"`]);
  });

  test("an empty name asks for the delimiter, but in the extended form for nothing", async () => {
    const { client } = await sharing();
    expect((await client.say('LIST "" ""')).untagged).toEqual(['* LIST (\\Noselect) "/" ""']);
    for (const extended of ['LIST () "INBOX" ""', 'LIST "INBOX" ("")', 'LIST "INBOX" "" RETURN (CHILDREN)']) {
      expect([extended, await client.say(extended)]).toEqual([
        extended,
        { status: "OK", text: "LIST completed", untagged: [] },
      ]);
    }
    expect((await client.say('LIST "" ("" INBOX)')).untagged).toHaveLength(1);
  });

  test("a pattern is of names in modified UTF-7, as they were told, and in UTF-8", async () => {
    const { client, shared } = await sharing();
    const name = `"${shared}/INBOX"`;
    for (const pattern of [name, `"${shared}/I%"`, Buffer.from('"Shared/grün*/INBOX"').toString("latin1")]) {
      for (const verb of ["LIST", "LSUB"]) {
        expect((await client.say(`${verb} "" ${pattern}`)).untagged).toEqual([expect.stringMatching(/INBOX"$/)]);
      }
    }
  });

  test("the folders of others have no use for the caller (RFC 6154 §2)", async () => {
    const { client } = await sharing();
    const { untagged } = await client.say('LIST (SPECIAL-USE) "" "*"');
    expect(untagged.filter((line) => line.includes("Shared"))).toEqual([]);
    expect(untagged).toHaveLength(5);
  });

  test("every mailbox is subscribed: that is neither taken back nor done to what there is not", async () => {
    const { client, shared } = await sharing();
    for (const [command, status, code] of [
      ["SUBSCRIBE inbox", "OK", ""],
      [`SUBSCRIBE "${shared}/INBOX"`, "OK", ""],
      ["SUBSCRIBE Nowhere", "NO", "[NONEXISTENT] "],
      ["UNSUBSCRIBE Nowhere", "OK", ""],
      ["UNSUBSCRIBE Junk", "NO", "[CANNOT] "],
      ["SUBSCRIBE", "BAD", ""],
      ["UNSUBSCRIBE Junk x", "BAD", ""],
    ] as const) {
      const reply = await client.say(command);
      expect([command, reply.status, reply.text]).toEqual([command, status, expect.stringContaining(code)]);
    }
  });
});

test("refusals to make, delete and rename mailboxes say what is wrong (RFC 5530), with and without labels", async () => {
  const world = await sharedImapWorld();
  const client = await world.client();
  const {
    core: { store },
  } = world.app.opened;
  for (const wanted of [false, true]) {
    store.transact((tx) => people.setLabelFolders(tx, world.app.owner.userId, wanted));
    for (const [command, expected] of [
      ["CREATE inbox", "NO [ALREADYEXISTS]"],
      ["CREATE Trash/", "NO [ALREADYEXISTS]"],
      ["CREATE Elsewhere", "NO [CANNOT]"],
      ["DELETE INBOX", "NO [CANNOT]"],
      ["DELETE Nowhere", "NO [NONEXISTENT]"],
      ["RENAME INBOX Old", "NO [CANNOT]"],
      ["RENAME Nowhere Else", "NO [NONEXISTENT]"],
      ["CREATE", "BAD expected"],
      ["CREATE Labels/x y", "BAD unexpected"],
      ["DELETE Trash x", "BAD unexpected"],
      ["RENAME INBOX", "BAD expected"],
      ["RENAME INBOX x y", "BAD unexpected"],
    ] as const) {
      const { status, text } = await client.say(command);
      expect([command, `${status} ${text}`]).toEqual([command, expect.stringContaining(expected)]);
    }
  }
  expect((await client.say("CREATE Labels/Work")).status).toBe("OK");
  expect((await client.say("RENAME Labels/Work Trash")).text).toStartWith("[ALREADYEXISTS]");
  await client.say("SELECT Labels/Work");
  expect((await client.say("DELETE Labels/Work")).untagged).toEqual([expect.stringContaining("* OK [CLOSED] ")]);
  expect((await client.say("FETCH 1:* (UID)")).status).toBe("NO");
});
