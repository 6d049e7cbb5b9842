/**
 * Mail that is signed and encrypted with OpenPGP and S/MIME, by gpg and openssl: what mail apps fetch of it, from wherever it lies,
 * verifies and decrypts as it did before it came (rules: Octets), also at another server that imports an export.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { signedIn, type World, world } from "../harness/servers/submission-world.ts";
import { exportOf, importInto } from "../harness/servers/transfer-rig.ts";

const ALICE = "alice@example.test";
const TEXT = "Grüße an alle \r\n\r\nFrom here on, a line with a trailing space \r\n.\r\nThe end";

const missing = ["gpg", "openssl"].filter((name) => Bun.which(name) === null);
const note = missing.length === 0 ? "" : ` (skipped: ${missing.join(" and ")} not installed)`;

const home = join(temporaryFolder(), "g");

/** Runs a program; returns what it printed, latin1. @throws Error if it fails */
function run(command: readonly string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], { env: { ...process.env, GNUPGHOME: home } });
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
  return Buffer.concat([stdout, stderr]).toString("latin1");
}

const gpg = (...options: string[]): string =>
  run(["gpg", "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", ...options]);

let files = 0;
function inFile(octets: string): string {
  const path = join(home, `${++files}`);
  writeFileSync(path, Buffer.from(octets, "latin1"));
  return path;
}

const latin1 = (text: string): string => Buffer.from(text).toString("latin1");
const lines = (...all: string[]): string => all.join("\r\n");

/** The entity that is signed or encrypted: a text and a file, in an encoding that no composer would choose. */
const ENTITY = latin1(
  lines(
    'content-type: Multipart/Mixed;  boundary="in ner"',
    "",
    "--in ner",
    "Content-Type: text/plain; charset=utf-8; format=flowed",
    "Content-Transfer-Encoding: 8bit",
    "",
    TEXT,
    "--in ner",
    "Content-Type: application/octet-stream",
    "Content-Transfer-Encoding: base64",
    "",
    Buffer.alloc(3_000, 7).toString("base64").replace(/.{60}/g, "$&\r\n"),
    "--in ner--",
    "",
  ),
);

/** A way to protect mail: its entity below the fields of the message, and the check of a fetched one. */
interface Form {
  name: string;
  protect(): string;
  /** @throws Error unless it verifies, and decrypts to what was protected */
  check(octets: string): void;
}

/** The parts of a multipart, each as it is between the delimiters. */
function partsOf(octets: string, boundary: string): string[] {
  const [, ...parts] = `\r\n${octets}`.split(`\r\n--${boundary}`);
  return parts.slice(0, -1).map((part) => part.slice(2));
}
const bodyOf = (part = ""): string => part.slice(part.indexOf("\r\n\r\n") + 4);

const pgpSigned = (): string =>
  lines(
    'Content-Type: multipart/signed; micalg=pgp-sha512; protocol="application/pgp-signature"; boundary="outer=_1"',
    "",
    "--outer=_1",
    ENTITY,
    "--outer=_1",
    "Content-Type: application/pgp-signature",
    "",
    gpg("--armor", "--detach-sign", "--output", "-", inFile(ENTITY)).replace(/\r?\n/g, "\r\n"),
    "--outer=_1--",
    "",
  );

function checkPgp(octets: string): void {
  const [entity = "", signature] = partsOf(octets, "outer=_1");
  expect(gpg("--verify", inFile(bodyOf(signature)), inFile(entity))).toContain("Good signature");
}

const smime = (...options: string[]): string =>
  run(["openssl", "cms", ...options, "-in", inFile(ENTITY)]).replace(/\r?\n/g, "\r\n");
const signer = (): string[] => ["-signer", join(home, "cert.pem"), "-inkey", join(home, "key.pem"), "-binary"];

function checkSmime(octets: string): void {
  const verified = run(["openssl", "cms", "-verify", "-in", inFile(octets), "-CAfile", join(home, "cert.pem")]);
  expect(verified).toMatch(/Verification successful/);
  expect(verified.replaceAll("\r\n", "\n")).toContain(latin1(TEXT).replaceAll("\r\n", "\n"));
}

const FOOTER = lines("Content-Type: text/plain", "", "To leave: leave@list.example");
/** Wraps an entity as a mailing list sends it on, with its own footer. */
const nested = (entity: string): string =>
  lines(
    "Content-Type: multipart/mixed; boundary=list",
    "",
    "--list",
    entity.replace(/\r\n$/, ""),
    "--list",
    FOOTER,
    "--list--",
    "",
  );

const FORMS: Form[] = [
  { name: "OpenPGP, signed", protect: pgpSigned, check: checkPgp },
  {
    name: "OpenPGP, encrypted",
    protect: () =>
      lines(
        'Content-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary=outer',
        "",
        "--outer",
        "Content-Type: application/pgp-encrypted",
        "Content-Description: PGP/MIME version identification",
        "",
        "Version: 1",
        "",
        "--outer",
        'Content-Type: application/octet-stream; name="encrypted.asc"',
        'Content-Disposition: inline; filename="encrypted.asc"',
        "",
        gpg(
          "--armor",
          "--encrypt",
          "--sign",
          "--trust-model",
          "always",
          "--recipient",
          ALICE,
          "--output",
          "-",
          inFile(ENTITY),
        ).replace(/\r?\n/g, "\r\n"),
        "--outer--",
        "",
      ),
    check(octets) {
      expect(octets).toMatch(
        /^Content-Type: multipart\/encrypted; protocol="application\/pgp-encrypted"; boundary=outer\r$/m,
      );
      const [version, encrypted] = partsOf(octets, "outer");
      expect(bodyOf(version)).toBe("Version: 1\r\n");
      const clear = join(home, `${++files}`);
      expect(gpg("--decrypt", "--output", clear, inFile(bodyOf(encrypted)))).toContain("Good signature");
      expect(run(["cat", clear])).toBe(ENTITY);
    },
  },
  {
    name: "OpenPGP, signed, with the footer of a list",
    protect: () => nested(pgpSigned()),
    check: (octets) => checkPgp(partsOf(octets, "list")[0] ?? ""),
  },
  { name: "S/MIME, signed", protect: () => smime("-sign", ...signer()), check: checkSmime },
  { name: "S/MIME, signed and opaque", protect: () => smime("-sign", "-nodetach", ...signer()), check: checkSmime },
  {
    name: "S/MIME, encrypted",
    protect: () => smime("-encrypt", "-aes256", "-binary", "-recip", join(home, "cert.pem")),
    check(octets) {
      const clear = run([
        "openssl",
        "cms",
        "-decrypt",
        "-in",
        inFile(octets),
        "-inkey",
        join(home, "key.pem"),
        "-recip",
        join(home, "cert.pem"),
      ]);
      expect(clear).toBe(ENTITY);
    },
  },
  {
    name: "S/MIME, signed, with the footer of a list",
    protect: () => nested(smime("-sign", ...signer()).replace(/^MIME-Version: 1\.0\r\n/, "")),
    check: (octets) => checkSmime(partsOf(octets, "list")[0] ?? ""),
  },
];

let it: World;
let app: ImapAccount;
let other: World;
let otherApp: ImapAccount;
beforeAll(async () => {
  if (missing.length > 0) return;
  mkdirSync(home, { mode: 0o700 });
  gpg("--quick-gen-key", `Alice <${ALICE}>`, "rsa2048", "default", "never");
  gpg(
    "--quick-add-key",
    /^fpr:+(\w+):$/m.exec(gpg("--list-keys", "--with-colons"))?.[1] ?? "",
    "rsa2048",
    "encr",
    "never",
  );
  const [key, cert] = [join(home, "key.pem"), join(home, "cert.pem")];
  const subject = [
    "-subj",
    "/CN=Alice",
    "-addext",
    `subjectAltName=email:${ALICE}`,
    "-addext",
    "keyUsage=digitalSignature,keyEncipherment",
  ];
  run([
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "9",
    "-keyout",
    key,
    "-out",
    cert,
    ...subject,
  ]);
  it = await world({ MAILROOM_IMAPS: "127.0.0.1:0" });
  app = await imapAccount(Number(it.ready.imaps?.split(":")[1]), ALICE, appPassword(it));
  other = await world({ MAILROOM_IMAPS: "127.0.0.1:0" });
  otherApp = await imapAccount(Number(other.ready.imaps?.split(":")[1]), ALICE, appPassword(other));
}, 60_000);

/** The last message of a folder, latin1. */
async function last(folder: string): Promise<string> {
  await app.say(`SELECT ${folder}`);
  return fetched(app, "*");
}

async function fetched(client: ImapAccount, number: string): Promise<string> {
  const { untagged } = await client.say(`FETCH ${number} (BODY.PEEK[])`);
  return /\{\d+\}\r\n([\s\S]*)\)$/.exec(untagged.find((line) => line.includes("FETCH (")) ?? "")?.[1] ?? "";
}

/** A message with that entity. Its fields are in an order that no composer would choose. */
const messageOf = (entity: string, to: string): string =>
  `${lines("Subject: Protected", `To: ${to}`, `From: Alice <${ALICE}>`, "Mime-Version: 1.0 (Apple)", `Message-Id: <${++files}@app.example>`, "Date: Mon, 5 Jan 2026 08:00:00 +0000")}\r\n${entity.replace(/^MIME-Version: 1\.0\r\n/, "")}`;

/** Ends a message as SMTP has it. */
const dotted = (message: string): string => `${message.replace(/\r\n$/, "").replace(/^\./gm, "..")}\r\n.\r\n`;

describe.skipIf(missing.length > 0)(`protected mail${note}`, () => {
  test.each(FORMS)("$name", async ({ protect, check }) => {
    const entity = protect();
    check(messageOf(entity, ALICE));

    const arriving = await connectSmtp(it.mx);
    await arriving.expect(250, "MAIL FROM:<alice@remote.example> BODY=8BITMIME");
    await arriving.expect(250, `RCPT TO:<${ALICE}>`);
    await arriving.expect(354, "DATA");
    arriving.write(Buffer.from(dotted(messageOf(entity, ALICE)), "latin1"));
    expect((await arriving.reply()).code).toBe(250);
    arriving.destroy();
    check(await last("INBOX"));

    // To another server and to a mailbox of this one, with a Bcc.
    const leaving = await signedIn(it);
    await leaving.expect(250, `MAIL FROM:<${ALICE}> BODY=8BITMIME`);
    for (const to of ["carol@remote.example", "dave@remote.example", ALICE])
      await leaving.expect(250, `RCPT TO:<${to}>`);
    await leaving.expect(354, "DATA");
    leaving.write(Buffer.from(dotted(messageOf(entity, `carol@remote.example, ${ALICE}`)), "latin1"));
    expect((await leaving.reply()).code).toBe(250);
    leaving.destroy();
    await it.server.settled();
    check(await last("Sent"));
    check(await last("INBOX"));
    check(latin1(it.remote.messages.at(-1)?.content ?? ""));

    const appended = Buffer.from(messageOf(entity, ALICE), "latin1");
    app.write(`a APPEND Archive {${appended.length}}\r\n`);
    expect(await app.line()).toStartWith("+ ");
    app.write(appended);
    app.write("\r\n");
    while (!/^a /.test((await app.line()) ?? "a ")) {}
    check(await last("Archive"));
    await app.say("COPY * Trash");
    check(await last("Trash"));

    expect((await importInto(other, await exportOf(it))).failed).toBe(0);
    for (const folder of ["INBOX", "Sent", "Trash"]) {
      const octets = await last(folder);
      await otherApp.say(`SELECT ${folder}`);
      const found = await otherApp.say(`SEARCH HEADER Message-ID ${/<\d+@app.example>/.exec(octets)?.[0]}`);
      const imported = await fetched(otherApp, /\d+/.exec(found.untagged.join())?.[0] ?? "");
      check(imported);
      expect(imported).toBe(octets);
    }
  });
});
