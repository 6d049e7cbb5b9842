/**
 * DKIM signatures of messages as mail apps fetch them, checked by Python's dkimpy, which shares no code with the server: those that
 * other servers wrote, and our own on the copy in Sent (rules: Octets).
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { dkimKeys } from "../../src/store/schema.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { signedIn, type World, world } from "../harness/servers/submission-world.ts";

const ALICE = "alice@example.test";
const python = Bun.which("python3");
const hasDkim = python !== null && Bun.spawnSync([python, "-c", "import dkim, nacl"]).exitCode === 0;

/** Runs Python with a message as latin1. Returns what it writes, in latin1. @throws Error if it fails */
function run(script: string, message: string, ...args: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([python ?? "", "-c", script, ...args], {
    stdin: Buffer.from(message, "latin1"),
  });
  if (exitCode !== 0) throw new Error(stderr.toString());
  return stdout.toString("latin1");
}

const SIGN = `
import dkim, sys
message = sys.stdin.buffer.read()
_, how, pem = sys.argv
head, body = how.split("/")
sys.stdout.buffer.write(dkim.sign(message, b"s", b"remote.example", pem.encode(), canonicalize=(head.encode(), body.encode())))
sys.stdout.buffer.write(message)
`;
/** Prints the outcome of each signature, from the topmost on. */
const VERIFY = `
import dkim, json, sys
message = sys.stdin.buffer.read()
keys = json.loads(sys.argv[1])
signed = dkim.DKIM(message)
count = sum(1 for name, _ in signed.headers if name.lower() == b"dkim-signature")
for i in range(count):
    def find(name, timeout=5):
        return keys[name.decode().rstrip(".")].encode()
    print(dkim.DKIM(message, minkey=1024).verify(idx=i, dnsfunc=find))
`;

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs1", format: "pem" }).toString();
const remoteKeys = {
  "s._domainkey.remote.example": `v=DKIM1; k=rsa; p=${publicKey.export({ type: "spki", format: "der" }).toString("base64")}`,
};

let it: World;
let app: ImapAccount;
beforeAll(async () => {
  if (!hasDkim) return;
  it = await world({ MAILROOM_IMAPS: "127.0.0.1:0" });
  app = await imapAccount(Number(it.ready.imaps?.split(":")[1]), ALICE, appPassword(it));
});

/** The last message of a folder, latin1. */
async function last(folder: string): Promise<string> {
  await app.say(`SELECT ${folder}`);
  const { untagged } = await app.say("FETCH * (BODY.PEEK[])");
  return /\{\d+\}\r\n([\s\S]*)\)$/.exec(untagged.find((line) => line.includes("FETCH (")) ?? "")?.[1] ?? "";
}

/** Sends a message in latin1, which ends with a line end. */
async function send(client: SmtpClient, from: string, to: string[], message: string): Promise<void> {
  await client.expect(250, `MAIL FROM:<${from}> BODY=8BITMIME`);
  for (const one of to) await client.expect(250, `RCPT TO:<${one}>`);
  await client.expect(354, "DATA");
  client.write(Buffer.from(`${message.replace(/^\./gm, "..")}.\r\n`, "latin1"));
  expect((await client.reply()).code).toBe(250);
  client.destroy();
}

const verified = (message: string, keys: Record<string, string>): string[] =>
  run(VERIFY, message, JSON.stringify(keys)).trim().split("\n");

/** Our own keys, as DNS has them. */
const ownKeys = (): Record<string, string> =>
  Object.fromEntries(
    it.core.store.db
      .select()
      .from(dkimKeys)
      .all()
      .map(({ selector, algorithm, publicKey }) => [
        `${selector}._domainkey.example.test`,
        `v=DKIM1; k=${algorithm}; p=${publicKey}`,
      ]),
  );

const lines = (...all: string[]): string => all.map((line) => `${line}\r\n`).join("");
const file = Buffer.alloc(3_000, 7).toString("base64").replace(/.{60}/g, "$&\r\n");
const PARTS = lines(
  "mime-version: 1.0",
  'content-type: Multipart/Mixed;  boundary="in ner"',
  "",
  "Preamble ",
  "--in ner",
  "Content-Type: text/plain; charset=iso-8859-1",
  "Content-Transfer-Encoding: 8bit",
  "",
  "Gr\u00fc\u00dfe \t ",
  ".",
  "From here",
  "--in ner",
  "Content-Type: application/octet-stream",
  "Content-Transfer-Encoding: base64",
  "",
  file,
  "--in ner--",
  "Epilogue",
  "",
  "",
);
const fields = (from: string, to: string): string =>
  lines(
    "Subject:  An odd  subject \t",
    "\t of two lines",
    `TO: ${to}`,
    `From:\t${from}`,
    "Date: Mon, 5 Jan 2026 08:00:00 +0000",
    `Message-Id: <${crypto.randomUUID()}@app.example>`,
  );

describe.skipIf(!hasDkim)(`signatures verify by dkimpy${hasDkim ? "" : " (not installed)"}`, () => {
  test.each(["simple/simple", "relaxed/simple", "simple/relaxed", "relaxed/relaxed"])(
    "of mail that arrived, signed as %s, also once it was moved",
    async (how) => {
      const signed = run(SIGN, fields("Ben <ben@remote.example>", ALICE) + PARTS, how, pem);
      expect(verified(signed, remoteKeys)).toEqual(["True"]);
      await send(await connectSmtp(it.mx), "ben@remote.example", [ALICE], signed);
      const arrived = await last("INBOX");
      expect(arrived).toEndWith(signed);
      expect(verified(arrived, remoteKeys)).toEqual(["True"]);
      await app.say("MOVE * Archive");
      expect(await last("Archive")).toBe(arrived);
    },
  );

  test("of what a mail app sent, in Sent, in the inbox of a mailbox here, and at another server", async () => {
    const message = fields(`Alice <${ALICE}>`, `carol@remote.example, ${ALICE}`) + PARTS;
    await send(await signedIn(it), ALICE, ["carol@remote.example", "dave@remote.example", ALICE], message);
    await it.server.settled();
    const sent = await last("Sent");
    expect(sent).toContain("Bcc: dave@remote.example\r\n");
    const relayed = it.remote.messages.at(-1)?.bytes ?? new Uint8Array();
    for (const octets of [sent, await last("INBOX"), Buffer.from(relayed).toString("latin1")]) {
      expect(octets).toEndWith(PARTS);
      expect(verified(octets, ownKeys())).toEqual(["True", "True"]);
    }
  });

  test("of what a program sent, in Sent and in an original", async () => {
    const attachments = [{ filename: "a.txt", text: "Text\n".repeat(500) }];
    const request = { from: ALICE, to: "carol@remote.example", bcc: "dave@remote.example", text: "Grüße", attachments };
    const { body } = await it.api.post<{ emailId: string }>("/send", request);
    await it.server.settled();
    const sent = await last("Sent");
    expect(verified(sent, ownKeys())).toEqual(["True", "True"]);
    const original = await it.api.bytes(`/api/ext/v1/messages/${body.emailId}/original`);
    expect(Buffer.from(original.body).toString("latin1")).toBe(sent);
  });
});
