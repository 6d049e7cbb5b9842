/**
 * Commands that a hostile or broken client sends: well formed ones, their parts put together anew, cut, repeated and filled with
 * any octets, in pieces of any size. Each line has one reply, nobody else waits for it, and the server never fails.
 * FUZZ_SEED repeats a run, FUZZ_SECONDS makes it shorter.
 */
import { expect, test } from "bun:test";
import { type ImapAccount, imapAccount, imapStranger } from "../harness/clients/imap-client.ts";
import { boot } from "../harness/servers/boot.ts";
import { arrive } from "./arrive.ts";
import { chance } from "./chance.ts";

const SEED = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
const SECONDS = Number(process.env.FUZZ_SECONDS ?? 600);
/** Longest time in ms that a client waits for a NOOP while another one sends whatever it likes. */
const PATIENCE_MS = 2_000;

const COMMANDS = [
  "CAPABILITY",
  "NOOP",
  'ID ("name" "fuzz")',
  "ID NIL",
  "ENABLE CONDSTORE QRESYNC IMAP4rev2 UTF8=ACCEPT",
  "NAMESPACE",
  'LIST "" "*"',
  'LIST (SPECIAL-USE) "" (INBOX "%") RETURN (STATUS (MESSAGES UIDNEXT UIDVALIDITY UNSEEN SIZE HIGHESTMODSEQ))',
  'LSUB "" "*"',
  "STATUS INBOX (MESSAGES RECENT UNSEEN UIDNEXT UIDVALIDITY HIGHESTMODSEQ)",
  "SELECT INBOX",
  "SELECT INBOX (CONDSTORE)",
  "SELECT INBOX (QRESYNC (1 1 1:100 (1:10 1:10)))",
  "EXAMINE Archive",
  "CLOSE",
  "UNSELECT",
  "CHECK",
  "FETCH 1:* (FLAGS UID INTERNALDATE RFC822.SIZE ENVELOPE BODYSTRUCTURE BODY EMAILID THREADID MODSEQ)",
  "FETCH 1 (BODY.PEEK[1.2.3.MIME]<0.100> BODY.PEEK[HEADER.FIELDS (FROM TO)] BODY.PEEK[TEXT] RFC822.HEADER)",
  "FETCH 1:5,* (BINARY.PEEK[1] BINARY.SIZE[1])",
  "UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1 VANISHED)",
  "STORE 1:3 +FLAGS.SILENT (\\Seen $Forwarded Label)",
  "UID STORE 1:* (UNCHANGEDSINCE 5) -FLAGS (\\Deleted)",
  'SEARCH RETURN (MIN MAX COUNT ALL) CHARSET UTF-8 OR (SUBJECT "a" NOT FROM "b") (SINCE 1-Jan-2020 LARGER 10 UID 1:*)',
  "SEARCH 1:* HEADER Message-ID x KEYWORD Label MODSEQ 1 BODY hello TEXT {3+}\r\nabc",
  "UID SEARCH ALL",
  "MOVE 1 Archive",
  "COPY 1 Trash",
  "UID MOVE 1:2 INBOX",
  "EXPUNGE",
  "UID EXPUNGE 1:5",
  'APPEND INBOX (\\Seen) "01-Jan-2026 00:00:00 +0000" {24+}\r\nFrom: a@b.example\r\n\r\nhi\r\n',
  "APPEND Drafts ~{20+}\r\nSubject: x\r\n\r\nhello\r\n",
  "SUBSCRIBE INBOX",
  "CREATE New",
  "DELETE INBOX",
  "RENAME INBOX Other",
  "GETQUOTAROOT INBOX",
  "LOGIN alice@example.test",
  "AUTHENTICATE PLAIN =",
  "STARTTLS",
];

const SPICE = [
  ...'"\\(){}[]<>*%~+-,.:;@=&$ \t\0\x7f\x80\xff',
  ...[
    "NIL",
    "INBOX",
    "&AGE-",
    "&",
    "{0}",
    "{0+}\r\n",
    "{4294967296}",
    "{99999999999}",
    "~{1+}\r\n\0",
    '""',
    "1:*",
    "*:*",
  ],
  ...["0", "4294967295", "4294967296", "18446744073709551615", "-1", "()", "(((((", ")))))", "NOT ", "OR ", "BODY["],
];

test(
  `whatever a client sends, the server answers and goes on (seed ${SEED})`,
  async () => {
    const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
    const port = Number(app.ready.imaps?.split(":")[1]);
    const pick = chance(SEED);
    const one = <T>(of: readonly T[]): T => of[pick(of.length)] as T;
    async function fill(): Promise<void> {
      for (let i = 0; i < 20; i++) {
        await arrive(app, { subject: `Message ${pick(1e9)}`, from: "bob@remote.example" });
      }
    }

    function command(): string {
      let text = one(COMMANDS);
      for (let changes = pick(5); changes > 0; changes--) {
        const at = pick(text.length + 1);
        const [head, tail] = [text.slice(0, at), text.slice(at)];
        switch (pick(6)) {
          case 0:
            text = head + tail.slice(1 + pick(8));
            break;
          case 1:
            text = head + one(SPICE) + tail;
            break;
          case 2:
            text = head + one(COMMANDS).slice(pick(20)) + tail;
            break;
          case 3:
            text = head + tail.slice(0, 1 + pick(10)).repeat(pick(10) === 0 ? 3_000 : 1 + pick(30)) + tail;
            break;
          case 4:
            text = head + Array.from({ length: 1 + pick(20) }, () => String.fromCharCode(pick(256))).join("") + tail;
            break;
          default:
            text = head;
        }
      }
      return text;
    }

    /** Sends commands until the session ends; the server says BYE, or asks for octets that do not come. */
    async function attack(account: ImapAccount): Promise<void> {
      let isOver = false;
      const reading = (async () => {
        for (let line = await account.line(); line !== undefined; line = await account.line()) {
          expect(line).not.toContain("SERVERBUG");
        }
        isOver = true;
      })();
      for (let count = 1 + pick(40); count > 0 && !isOver; count--) {
        const octets = Buffer.from(`f ${command()}\r\n`, "latin1");
        for (let at = 0; at < octets.length; ) {
          const size = one([1, 7, 100, octets.length, octets.length]);
          account.write(octets.subarray(at, at + size));
          at += size;
          if (octets.length < 200) await new Promise(setImmediate);
        }
      }
      // Whatever state it is in: an end of what was begun, and of the session.
      account.write(`\r\n${"x".repeat(70_000)}\r\n`);
      const giveUp = setTimeout(() => account.end(), 500);
      await reading;
      clearTimeout(giveUp);
    }

    const watcher = await imapAccount(port, "alice@example.test", app.owner.apiKey);
    let longest = 0;
    const until = Date.now() + SECONDS * 1_000;
    let sessions = 0;
    while (Date.now() < until) {
      if (sessions % 20 === 0) await fill();
      const accounts = await Promise.all([
        imapStranger(port),
        imapAccount(port, "alice@example.test", app.owner.apiKey),
        imapAccount(port, "alice@example.test", app.owner.apiKey),
      ]);
      sessions += accounts.length;
      let isOver = false;
      const watching = (async () => {
        while (!isOver) {
          const asked = performance.now();
          expect(await watcher.say("NOOP")).toMatchObject({ status: "OK" });
          longest = Math.max(longest, performance.now() - asked);
        }
      })();
      await Promise.all(accounts.map(attack));
      isOver = true;
      await watching;
      // Connections of which the client did not read the end are closed after a second.
      await app.advance(2_000);
    }
    expect(longest).toBeLessThan(PATIENCE_MS);
    expect(app.lines.filter(({ level }) => level === "error")).toEqual([]);
    console.log(`${sessions} sessions; the longest NOOP beside them took ${longest.toFixed(0)} ms`);
  },
  (SECONDS + 120) * 1_000,
);
