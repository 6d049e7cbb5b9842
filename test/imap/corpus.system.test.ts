/**
 * Every message of the corpora over IMAP: what is told of its octets is what Dovecot tells of the same file, and its parts are
 * what Python's email decodes.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { connect as connectTls } from "node:tls";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { createImapFolders } from "../../src/mailbox/imap/imap-folders.ts";
import { formatBodyStructure, formatImapEnvelope, openMessageContent } from "../../src/message/imap-data.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { noDovecot, startDovecot } from "../harness/peers/dovecot.ts";
import { boot } from "../harness/servers/boot.ts";

const app = corpusPresent ? await boot({ MAILROOM_IMAPS: "127.0.0.1:0" }) : undefined;
afterAll(() => app?.server.stop(0));
const port = Number(app?.ready.imaps?.split(":")[1]);

/** Names of the filed messages by UID. */
const filed = new Map<number, string>();
for (const { name, bytes } of corpusFiles()) {
  if (!app) break;
  const { core } = app.opened;
  const { store } = core;
  const { mailboxId } = app.owner;
  const message = await prepareMessage(Buffer.from(bytes), store.blobs).catch(() => undefined);
  if (!message) continue;
  const { seq, duplicate } = await store.enqueue((tx) =>
    fileMessage(core, tx, { mailboxId, receivedOn: "alice@example.test", message, now: app.runtime.now() }),
  );
  const folders = createImapFolders(core);
  const opened = await folders.opened(mailboxId, "inbox");
  const uid = duplicate ? undefined : opened.uidIn(seq);
  if (uid !== undefined) filed.set(uid, name);
}

/** An answer to a command, as lists, strings and null. */
type Value = string | null | Value[];

/** Reads the data of FETCH. */
function fetched(reply: Buffer): Map<string, Value>[] {
  const found: Map<string, Value>[] = [];
  let at = 0;
  const read = (): Value => {
    while (reply[at] === 0x20) at++;
    const character = String.fromCharCode(reply[at] ?? 0);
    if (character === "(") {
      at++;
      const list: Value[] = [];
      for (;;) {
        while (reply[at] === 0x20) at++;
        if (reply[at] === 0x29) break;
        list.push(read());
      }
      at++;
      return list;
    }
    if (character === '"') {
      let text = "";
      for (at++; reply[at] !== 0x22; at++) {
        if (reply[at] === 0x5c) at++;
        text += String.fromCharCode(reply[at] ?? 0);
      }
      at++;
      return text;
    }
    if (character === "{" || character === "~") {
      const end = reply.indexOf("}", at);
      const size = Number(reply.toString("latin1", at, end).replace(/^~?\{/, ""));
      at = end + 3 + size;
      return reply.toString("latin1", end + 3, at);
    }
    const [atom = ""] = /^[^\s()[]+(?:\[[^\]]*\])?/.exec(reply.toString("latin1", at, at + 200)) ?? [];
    at += atom.length;
    return atom === "NIL" ? null : atom;
  };
  const mark = /^\* \d+ FETCH /;
  while (at < reply.length) {
    const [start] = mark.exec(reply.toString("latin1", at, at + 40)) ?? [];
    if (start === undefined) {
      at = reply.indexOf("\n", at) + 1 || reply.length;
      continue;
    }
    at += start.length;
    const list = read() as Value[];
    found.push(new Map(list.flatMap((name, i) => (i % 2 === 0 ? [[name as string, list[i + 1] ?? null]] : []))));
    at += 2;
  }
  return found;
}

/** Signs in, opens INBOX, and fetches items of all messages. */
async function fetchAll(port: number, login: string, items: string): Promise<Map<string, Value>[]> {
  const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false });
  const chunks: Buffer[] = [];
  const ended = Promise.withResolvers<void>();
  socket.on("data", (chunk: Buffer) => void chunks.push(chunk));
  socket.on("close", () => ended.resolve());
  socket.write(`a LOGIN ${login}\r\nb EXAMINE INBOX\r\nc UID FETCH 1:* ${items}\r\nd LOGOUT\r\n`);
  await ended.promise;
  return fetched(Buffer.concat(chunks));
}

/** A file that was attached may have bare line feeds. We serve it as it came, and Dovecot with CRLF. */
const BARE = /(?<!\r)\n/;
const withCrlf = (octets: Buffer): Buffer => Buffer.from(octets.toString("latin1").replace(/\r?\n/g, "\r\n"), "latin1");

function toldOf(octets: Buffer): Map<string, Value> {
  const content = openMessageContent(octets);
  const header = octets.toString("latin1", 0, content.root.bodyStart);
  const told = `ENVELOPE ${formatImapEnvelope(header)} BODYSTRUCTURE ${formatBodyStructure(content, true)}`;
  return fetched(Buffer.from(`* 1 FETCH (${told})\r\n`, "latin1"))[0] ?? new Map();
}

/** Without what is Dovecot's own way. */
const plain = (value: Value): Value => {
  if (Array.isArray(value)) return value.map(plain);
  // It names what is missing of an address.
  if (value === "MISSING_DOMAIN" || value === "MISSING_MAILBOX") return "";
  // It keeps the space before a value that was folded.
  return value?.replace(/\s+/g, " ").trim().toLowerCase() ?? null;
};

/** Stands in a path for the list of an envelope. */
const ENVELOPE = -1;
interface Difference {
  path: number[];
  a: Value;
  b: Value;
}

function* differences(a: Value, b: Value, path: number[]): Generator<Difference> {
  if (JSON.stringify(a) === JSON.stringify(b)) return;
  const isMessage = Array.isArray(a) && a[0] === "message" && a[1] === "rfc822";
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) yield { path, a, b };
  else
    for (const [i, one] of a.entries())
      yield* differences(one, b[i] ?? null, [...path, i, ...(isMessage && i === 7 ? [ENVELOPE] : [])]);
}

/** Why we tell something else than Dovecot of the same file; undefined if that is not known. */
function reasonOf({ path, a, b }: Difference): string | undefined {
  // We tell the first of repeated fields, it the last, or of addresses all; and each reads broken addresses in its own way.
  if (path.includes(ENVELOPE)) return "a field that is repeated or broken";
  const isMultipart = (value: Value): boolean => Array.isArray(value) && Array.isArray(value[0]);
  // It ends the header of a message that has no empty line with one.
  if (typeof a === "string" && Number(b) - Number(a) === 2) return "a message that is a header alone";
  if (Array.isArray(a) && a[1] === "octet-stream") return "a message that is encoded, which is not taken apart";
  if (a === null && JSON.stringify(b) === '["",null]') return "an empty disposition";
  if (isMultipart(a) || isMultipart(b) || (path.length > 2 && b === "0")) return "a broken multipart";
  if (Array.isArray(b) && b[0] === "") return "a type that is none";
  if (typeof a !== "string" || typeof b !== "string") return undefined;
  const isCount = /^\d+$/.test(a) && /^\d+$/.test(b);
  if (isCount)
    return Number(a) > Number(b) ? "a header that does not end, which it takes for all of the message" : undefined;
  if (path.at(-1) === 5 && (a === "7bit" || b === "7bit")) return "an encoding that is none, or has more behind it";
  return b === "" || a.startsWith(`${b} `) ? "a value that is not quoted, or no word" : undefined;
}

/** Fetches each leaf that Python finds in a message, decoded by us, and decoded by Python from what we serve encoded. */
const SCRIPT = `
import email, imaplib, json, ssl, sys
imaplib._MAXLINE = 100_000_000
m = imaplib.IMAP4_SSL("127.0.0.1", int(sys.argv[1]), ssl_context=ssl._create_unverified_context())
m.login("alice@example.test", sys.argv[2])
m.select("INBOX", readonly=True)
def fetch(uid, item):
    status, data = m.uid("FETCH", uid, item)
    if status == "NO" and data[0].startswith(b"[UNKNOWN-CTE]"): return None
    assert status == "OK", (uid, item, data)
    return data[0][1] if isinstance(data[0], tuple) else None
def leaves(message, prefix=""):
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for i, part in enumerate(message.get_payload(), 1):
            yield from leaves(part, f"{prefix}{i}.")
    elif not message.is_multipart():
        yield (prefix or "1.")[:-1], message
parts, differing = 0, []
for uid in m.uid("SEARCH", None, "ALL")[1][0].split():
    message = email.message_from_bytes(fetch(uid, "(BODY.PEEK[])"))
    for number, part in leaves(message):
        parts += 1
        want = part.get_payload(decode=True)
        got = fetch(uid, f"(BINARY.PEEK[{number}])")
        if got is None: got = want if part["content-transfer-encoding"] else b""
        if want.replace(b"\\r\\n", b"\\n") != got.replace(b"\\r\\n", b"\\n"):
            differing.append((int(uid), number))
print(json.dumps({"parts": parts, "differing": differing}))
`;

const ITEMS = "(UID RFC822.SIZE ENVELOPE BODYSTRUCTURE BODY.PEEK[])";
const ours = app ? await fetchAll(port, `alice@example.test ${app.owner.apiKey}`, ITEMS) : [];
const nameOf = (one: Map<string, Value>): string => filed.get(Number(one.get("UID"))) ?? "";

/**
 * Messages that Python takes apart in a way of its own: it ends a header at a line that is no field, takes an epilogue for a part,
 * keeps spaces at the ends of lines in quoted-printable (RFC 2045 §6.7 has them removed), or does not trim an encoding's name.
 */
const PYTHONS_WAY: ReadonlySet<string> = new Set([
  "stalwart-mail-parser/resources/eml/malformed/003.eml",
  "stalwart-mail-parser/resources/eml/malformed/006.eml",
  "stalwart-mail-parser/resources/eml/malformed/008.eml",
  "stalwart-mail-parser/resources/eml/malformed/009.eml",
  "stalwart-mail-parser/resources/eml/malformed/011.eml",
  "stalwart-mail-parser/resources/eml/malformed/013.eml",
  "stalwart-mail-parser/resources/eml/thirdparty/003.eml",
  "stalwart-mail-parser/resources/eml/thirdparty/005.eml",
  "stalwart-mail-parser/resources/eml/thirdparty/012.eml",
  "mikel-mail/spec/fixtures/emails/plain_emails/raw_email_incorrect_header.eml",
  "mikel-mail/spec/fixtures/emails/rfc2822/example13.eml",
  "mime4j-testmsgs/core/src/test/resources/testmsgs/malformedHeader-nocrlfcrlf.msg",
  "mime4j-testmsgs/core/src/test/resources/testmsgs/malformedHeaderStartsBody-nocrlfcrlf.msg",
  "mime4j-testmsgs/core/src/test/resources/testmsgs/multipartemptypart.msg",
  "mime4j-testmsgs/core/src/test/resources/testmsgs/obsolete.msg",
  "cpython-test-email/msg_15.txt",
  "cpython-test-email/msg_37.txt",
  "cpython-test-email/msg_39.txt",
  "sisimai/set-of-emails/maildir/bsd/lhost-gmail-19.eml",
  "sisimai/set-of-emails/maildir/bsd/lhost-sendmail-08.eml",
]);
/** Messages of which Dovecot tells something else. */
const odd = new Set<string>();

describe(`the corpora over IMAP${corpusNote}`, () => {
  test.skipIf(!corpusPresent)("every message is fetched, with the size that was told", () => {
    expect(ours.length).toBe(filed.size);
    expect(ours.length).toBeGreaterThan(500);
    for (const one of ours)
      expect([nameOf(one), one.get("BODY[]")?.length]).toEqual([nameOf(one), Number(one.get("RFC822.SIZE"))]);
  });

  const skipped = noDovecot ?? (corpusPresent ? undefined : "no corpus");
  test.skipIf(skipped !== undefined)(
    `as Dovecot tells of the same files, but for what is named${skipped ? ` (skipped: ${skipped})` : ""}`,
    async () => {
      const dovecot = await startDovecot();
      const file = (one: Map<string, Value>): [string, Buffer] => [
        `${1_000_000 + Number(one.get("UID"))}:2,S`,
        Buffer.from(one.get("BODY[]") as string, "latin1"),
      ];
      dovecot.put("INBOX", Object.fromEntries(ours.map(file)));
      const theirs = new Map(
        (await fetchAll(dovecot.port, `${dovecot.user} ${dovecot.password}`, ITEMS)).map((one) => [
          one.get("UID"),
          one,
        ]),
      );
      const reasons: Record<string, number> = {};
      const others: unknown[] = [];
      for (const one of ours) {
        const other = theirs.get(one.get("UID") ?? null);
        const octets = Buffer.from(one.get("BODY[]") as string, "latin1");
        const told = BARE.test(octets.toString("latin1")) ? toldOf(withCrlf(octets)) : one;
        for (const item of ["ENVELOPE", "BODYSTRUCTURE"]) {
          const [a, b] = [told, other].map((each) => plain(each?.get(item) ?? null)) as [Value, Value];
          const [first] = differences(a, b, item === "ENVELOPE" ? [ENVELOPE] : []);
          if (!first) continue;
          const reason = reasonOf(first);
          odd.add(nameOf(one));
          if (reason === undefined) others.push([nameOf(one), item, first]);
          else reasons[reason] = (reasons[reason] ?? 0) + 1;
        }
      }
      expect(others).toEqual([]);
      // Of 872 messages.
      expect(reasons).toEqual({
        "a broken multipart": 52,
        "a field that is repeated or broken": 38,
        "a header that does not end, which it takes for all of the message": 7,
        "a message that is a header alone": 11,
        "a message that is encoded, which is not taken apart": 4,
        "a type that is none": 3,
        "a value that is not quoted, or no word": 4,
        "an empty disposition": 1,
        "an encoding that is none, or has more behind it": 2,
      });
    },
  );

  const python = Bun.which("python3");
  test.skipIf(!python || !corpusPresent)(
    "parts are what Python decodes",
    async () => {
      const child = Bun.spawn(["python3", "-c", SCRIPT, `${port}`, app?.owner.apiKey ?? ""], {
        stdout: "pipe",
        stderr: "pipe",
      });
      const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
      expect(errors).toBe("");
      const { parts, differing } = JSON.parse(out) as { parts: number; differing: [uid: number, part: string][] };
      const names = [...new Set(differing.map(([uid]) => filed.get(uid) ?? ""))].filter((name) => !odd.has(name));
      expect(names.filter((name) => !PYTHONS_WAY.has(name))).toEqual([]);
      expect(parts).toBeGreaterThan(1_000);
    },
    120_000,
  );
});
