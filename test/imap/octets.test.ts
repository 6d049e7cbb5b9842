/**
 * The octets of mail over real sockets (rules: Octets): what came and what was handed in is what mail apps fetch, byte for byte,
 * below this server's own fields, and what was sent is what was signed and transmitted.
 */
import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { sweepUnnamedBlobs } from "../../src/mailbox/changing/removal.ts";
import { describeKeptOctets, listKeptHeaders } from "../../src/mailbox/reading/kept-octets.ts";
import { HTML, TEXT, unpackSkeleton } from "../../src/message/skeleton.ts";
import { attachments, imapOctets, messageOctets, octetsWaiting } from "../../src/store/schema.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { fileLetter } from "../harness/servers/core.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { signedIn, type World, world } from "../harness/servers/submission-world.ts";

const HOUR = 3_600_000;
const ALICE = "alice@example.test";

let it: World;
let hers: ImapAccount;
const portOf = ({ ready }: World): number => Number(ready.imaps?.split(":")[1]);
beforeAll(async () => {
  it = await world({ MAILROOM_IMAPS: "127.0.0.1:0" });
  hers = await imapAccount(portOf(it), ALICE, appPassword(it));
});

/** The last message of a folder: all of it, or an item of it, latin1. */
async function last(folder: string, item = "BODY.PEEK[]", client = hers): Promise<string> {
  await client.say(`SELECT ${folder}`);
  const { untagged, status, text } = await client.say(`FETCH * (${item})`);
  const line = untagged.find((one) => one.includes("FETCH (")) ?? "";
  const [, octets] = /\{\d+\}\r\n([\s\S]*)\)$/.exec(line) ?? [];
  return octets ?? (line === "" ? `${status} ${text}` : line);
}

async function append(folder: string, octets: string | Uint8Array): Promise<void> {
  hers.write(`a APPEND ${folder} {${octets.length}}\r\n`);
  expect(await hers.line()).toStartWith("+ ");
  hers.write(octets);
  hers.write("\r\n");
  while (!/^a /.test((await hers.line()) ?? "a ")) {}
}

async function arrives(message: string, to: string | string[] = ALICE): Promise<void> {
  const client = await connectSmtp(it.mx);
  expect((await client.deliver({ to }, message)).code).toBe(250);
  client.destroy();
}

/** Returns what is below the fields that this server put on top. */
const below = (octets: string): string =>
  /^Return-Path: [^\r]*\r\nReceived: (?:[^\r]|\r\n\t)*\r\nAuthentication-Results: (?:[^\r]|\r\n\t)*\r\n([\s\S]*)$/.exec(
    octets,
  )?.[1] ?? `nothing of: ${octets}`;

const lines = (...all: string[]): string => all.map((line) => `${line}\r\n`).join("");
const HEADER = ["From: Ben <ben@remote.example>", `To: ${ALICE}`];
/** Base64 of many bytes in lines of `length`. */
const base64 = (bytes: Uint8Array, length: number, end = "\r\n"): string =>
  (
    Buffer.from(bytes)
      .toString("base64")
      .match(new RegExp(`.{1,${length}}`, "g")) ?? []
  ).join(end);
const noise = (count: number, seed = 7): Uint8Array => {
  let state = seed;
  return Uint8Array.from({ length: count }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return state & 0xff;
  });
};
const mixed = (...parts: string[]): string =>
  `${lines(...HEADER, "Subject: Parts", "MIME-Version: 1.0", 'content-TYPE:  multipart/mixed;\tboundary="b b"', "")}A preamble that is no note of a program, but text\r\n${parts.map((part) => `--b b\r\n${part}\r\n`).join("")}--b b--\r\nAn epilogue\r\n`;
const file = (encoded: string): string =>
  lines("Content-Type: application/pdf; name=a.pdf; x=1", "Content-Transfer-Encoding: BASE64", "") + encoded;
const sound = base64(noise(5_000), 76);

/** Text and HTML that stand as they are; `first` is what their first lines begin with. */
const alternatives = (first = ""): string =>
  lines(
    ...[...HEADER, "Subject: Both", "MIME-Version: 1.0", "Content-Type: multipart/alternative; boundary=c", ""],
    ...[
      "--c",
      "Content-Type: text/plain; charset=utf-8",
      "",
      `${first}Grüße`,
      "",
      ...Array(9).fill("Some words. "),
      "",
    ],
    ...["--c", "Content-Type: text/html; charset=utf-8", "", `${first}<p>Grüße`, ...Array(9).fill("<b>Words</b>"), ""],
    "--c--",
  );

const MAIL: [what: string, message: string][] = [
  ["of text and HTML that stand as they are", alternatives()],
  ["of text and HTML below blank lines", alternatives("\r\n \r\n")],
  ["of text and HTML with marks of byte order", alternatives("\ufeff\ufeff")],
  [
    "of text that equals its HTML",
    alternatives()
      .replaceAll(/<[^>]+>|Some /g, "")
      .replaceAll("words. ", "Words"),
  ],
  [
    "signed with OpenPGP, odd spaces and all",
    lines(
      ...HEADER,
      "Subject: Signed",
      "MIME-Version: 1.0",
      'Content-Type: multipart/signed; micalg="pgp-sha512"; protocol="application/pgp-signature"; boundary=s',
      "",
      "--s",
      "Content-Type: text/plain; charset=utf-8; format=flowed",
      "Content-Transfer-Encoding: quoted-printable",
      "",
      "Gr=C3=BC=C3=9Fe =",
      " trailing=20",
      "",
      "--s",
      'Content-Type: application/pgp-signature; name="OpenPGP_signature.asc"',
      "Content-Description: OpenPGP digital signature",
      "",
      "-----BEGIN PGP SIGNATURE-----",
      "",
      "abcdefg",
      "-----END PGP SIGNATURE-----",
      "--s--",
    ),
  ],
  ["of eight bits, without MIME", `${lines(...HEADER, "Subject: Gr\u00fc\u00dfe", "")}Gr\u00fc\u00dfe\t \r\n\r\n\r\n`],
  ["without a body", lines(...HEADER, "Subject: Nothing")],
  ["with a file that is encoded as everybody does", mixed(lines("", "Text"), file(`${sound}\r\n`))],
  ["with short and long lines of base64", mixed(file(base64(noise(4_000), 60)), file(base64(noise(4_000, 3), 400)))],
  ["with a space in the base64", mixed(file(sound.replace("\r\n", " \r\n")))],
  ["with bits behind the base64", mixed(file(`${sound.slice(0, -4)}QQ==`), file(`${sound.slice(0, -4)}QR==`))],
  ["with text behind the base64", mixed(file(`${sound}\r\nText behind it\r\n`))],
  ["with the same file twice", mixed(file(`${sound}\r\n\r\n`), file(sound), file("QQ=="))],
  [
    "with an invitation whose type has parameters",
    mixed(
      lines("Content-Type: text/calendar; method=REQUEST; charset=us-ascii", "", "BEGIN:VCALENDAR", "END:VCALENDAR"),
    ),
  ],
  ["with a multipart that never ends", mixed("Content-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\n\r\nText")],
  [
    "that no compression makes small",
    lines(...HEADER, "Subject: Large", "") +
      Array.from({ length: 4_000 }, (_, i) => Buffer.from(noise(40, i + 1)).toString("hex")).join("\r\n") +
      "\r\n",
  ],
];

describe("what came is what is fetched", () => {
  test.each(MAIL)("mail %s", async (_, message) => {
    await arrives(message);
    // The line end before the dot belongs to the message.
    const came = Buffer.from(`${message}\r\n`).toString("latin1");
    const octets = await last("INBOX");
    expect(below(octets)).toBe(came);
    expect(await last("INBOX", "RFC822.SIZE")).toContain(`RFC822.SIZE ${octets.length})`);
    const header = await last("INBOX", "BODY.PEEK[HEADER]");
    expect(octets).toStartWith(header);
    expect(await last("INBOX", "BODY.PEEK[TEXT]")).toBe(octets.slice(header.length));
    expect(await last("INBOX", "BODY.PEEK[]<200.300>")).toBe(octets.slice(200, 500));
  });

  test("mail of many fields in many parts, whose structure is told as it was kept", async () => {
    const fields = Array.from({ length: 900 }, (_, i) => `a${i}:`);
    const message =
      lines(...HEADER, "Content-Type: multipart/mixed; boundary=b", "") +
      Array.from({ length: 200 }, (_, i) => lines("--b", ...fields, "", `Part ${i}`)).join("") +
      lines("--b--");
    await arrives(message);
    const octets = await last("INBOX");
    expect(below(octets) === `${message}\r\n`).toBe(true);
    expect(await last("INBOX", "BODY.PEEK[200]")).toBe("Part 199");
    const { id } = (await it.api.get<{ messages: { id: string }[] }>("/messages?folder=inbox")).body.messages[0] ?? {};
    const { status, body } = await it.api.bytes(`/api/ext/v1/messages/${id}/original`);
    expect([status, Buffer.from(body).toString("latin1") === octets]).toEqual([200, true]);
    const told = await last("INBOX", "BODYSTRUCTURE");
    const { structure } = it.core.db.select().from(messageOctets).all().at(-1) ?? {};
    expect([told.length > 10_000, told.endsWith(`(BODYSTRUCTURE ${structure})`)]).toEqual([true, true]);
  });

  test("NUL aside", async () => {
    await arrives(`${lines(...HEADER, "Subject: Nul", "")}a\0b`);
    expect(below(await last("INBOX"))).toBe(`${lines(...HEADER, "Subject: Nul", "")}ab\r\n`);
  });

  test("below where it came from, for whom if for one alone, and what was proved", async () => {
    const ben = it.join("ben@example.test");
    await arrives(lines(...HEADER, "Subject: One", "", "One"));
    const [first = "", ...fields] = (await last("INBOX", "BODY.PEEK[HEADER]")).split(/\r\n(?!\t)/);
    expect(first).toBe("Return-Path: <sender@remote.example>");
    expect(fields[0]).toMatch(
      /^Received: from client\.example \(\[127\.0\.0\.1\]\)\r\n\tby \S+ \(Mailroom\) with ESMTP id \S+\r\n\tfor <alice@example\.test>;\r\n\t\w{3}, \d\d \w{3} \d{4} [\d:]{8} \+0000$/,
    );
    expect(fields[1]).toMatch(/^Authentication-Results: \S+;\r\n\tspf=\w+/);
    await arrives(lines(...HEADER, "Subject: Two", "", "Two"), [ALICE, ben.email]);
    expect(await last("INBOX", "BODY.PEEK[HEADER]")).not.toContain("for <");
  });

  test("but results in this server's name, which others wrote, and a Bcc", async () => {
    const { hostname } = it.core.site;
    const others = ["Authentication-Results: other.example; spf=pass", "X-Last: 1"];
    const hidden = [
      `Authentication-Results: (ours) ${hostname.toUpperCase()} 1;\r\n spf=pass`,
      "Bcc: secret@remote.example,\r\n\tben@remote.example",
    ];
    await arrives(lines(hidden[0] as string, ...HEADER, hidden[1] as string, "Subject: Hidden", ...others, "", "Text"));
    const octets = await last("INBOX");
    expect(below(octets)).toBe(`${lines(...HEADER, "Subject: Hidden", ...others, "", "Text")}\r\n`);
    expect(await last("INBOX", "RFC822.SIZE")).toContain(`RFC822.SIZE ${octets.length})`);
    expect(await last("INBOX", "ENVELOPE")).not.toContain("secret");
    expect(await last("INBOX", "BODY.PEEK[HEADER]")).toBe(octets.slice(0, octets.indexOf("\r\n\r\n") + 4));
  });
});

describe("what others wrote in this server's name is not served", () => {
  const host = (): string => it.core.site.hostname;
  const FORGED: [what: string, fields: () => string][] = [
    ["in lines that go on from ours", () => " ;\tdmarc=pass (FORGED)\r\n"],
    ["with a comment behind the name", () => `Authentication-Results: ${host()}(x); dmarc=pass (FORGED)\r\n`],
    ["behind a nested comment", () => `Authentication-Results: ((a) b) ${host()}; dmarc=pass (FORGED)\r\n`],
    ["behind a quoted bracket", () => `Authentication-Results: (a\\) b) ${host()}; dmarc=pass (FORGED)\r\n`],
    ["in quotes", () => `Authentication-Results: "${host().replace("o", "\\o")}" 1; dmarc=pass (FORGED)\r\n`],
    ["with a dot at its end", () => `Authentication-Results: ${host()}.; dmarc=pass (FORGED)\r\n`],
    ["with a version", () => `Authentication-Results: ${host()}/1; dmarc=pass (FORGED)\r\n`],
    [
      "behind long comments",
      () => `Authentication-Results:${`\r\n (${"a".repeat(80)})`.repeat(60)}\r\n ${host()}; dmarc=pass (FORGED)\r\n`,
    ],
    ["with spaces before the colon", () => `Authentication-Results${" ".repeat(985)}: ${host()}; (FORGED)\r\n`],
    ["with its name on a line of its own", () => `Authentication-Results\r\n : ${host()}; dmarc=pass (FORGED)\r\n`],
    ["behind a bare CR", () => `X-A: b\rAuthentication-Results: ${host()}; dmarc=pass (FORGED)\r\n`],
    ["with a form feed", () => `Authentication-Results\x0c: ${host()}; dmarc=pass (FORGED)\r\n`],
    ["with a comma", () => `Authentication-Results: ${host()}, dmarc=pass (FORGED)\r\n`],
    ["of nobody", () => "Authentication-Results: ; dmarc=pass (FORGED)\r\n"],
  ];
  test.each(FORGED)("%s", async (_, fields) => {
    await arrives(`${fields()}${lines(...HEADER, "Subject: Forged", "", "Text")}`);
    const octets = await last("INBOX");
    expect(octets).toContain("Subject: Forged");
    expect(octets).not.toContain("FORGED");
    expect(await last("INBOX", "RFC822.SIZE")).toContain(`RFC822.SIZE ${octets.length})`);
  });

  test("also if it comes from a mailbox of this server", async () => {
    const ben = it.join("neighbour@example.test");
    const smtp = await signedIn(it);
    const message = lines(
      `Authentication-Results: ${host()}; dmarc=pass (FORGED)`,
      ...["From: alice@example.test", `To: ${ben.email}`, "Subject: Near", "", "Text"],
    );
    expect((await smtp.deliver({ from: ALICE, to: ben.email }, message)).code).toBe(250);
    smtp.destroy();
    await it.server.settled();
    const his = await imapAccount(portOf(it), ben.email, ben.key);
    expect(await last("INBOX", "BODY.PEEK[]", his)).not.toContain("FORGED");
    his.end();
  });
});

describe("a Bcc", () => {
  test("whose name has spaces behind it is neither transmitted nor served to others", async () => {
    const smtp = await signedIn(it);
    const spaces = " ".repeat(990);
    const message = lines(
      ...["From: alice@example.test", "To: carol@remote.example", `Bcc${spaces}: secret@remote.example`],
      ...["Subject: x\rBcc: hidden@remote.example", "", "Text"],
    );
    expect((await smtp.deliver({ from: ALICE, to: "carol@remote.example" }, message)).code).toBe(250);
    smtp.destroy();
    await it.server.settled();
    expect(it.remote.messages.at(-1)?.content).not.toMatch(/secret@|hidden@/);
    const ben = it.join("sharer@example.test", "member", { access: "view" });
    const his = await imapAccount(portOf(it), ben.email, ben.key);
    expect(await last(`Shared/${ALICE}/Sent`, "BODY.PEEK[]", his)).not.toMatch(/secret@|hidden@/);
    his.end();
  });

  test("is not confirmed to whoever guesses it", async () => {
    const sent = await it.api.post("/send", {
      ...{ from: ALICE, to: ["carol@remote.example"], bcc: ["guessed@remote.example"], subject: "Guess", text: "Hi" },
    });
    expect(sent.status).toBe(202);
    const ben = it.join("guesser@example.test", "member", { access: "view" });
    const his = await imapAccount(portOf(it), ben.email, ben.key);
    const seen = await last(`Shared/${ALICE}/Sent`, "BODY.PEEK[]", his);
    const direction = async (guess: string): Promise<unknown> => {
      const octets = `Bcc: ${guess}\r\n${seen}`;
      await his.say(`APPEND Archive {${octets.length}+}\r\n${octets}`);
      const { body } = await it
        .apiWith(ben.key)
        .get<{ messages: { subject: string; direction: string }[] }>("/messages");
      return body.messages.find(({ subject }) => subject === "Guess")?.direction;
    };
    expect([await direction("wrong@remote.example"), await direction("guessed@remote.example")]).toEqual([
      "inbound",
      "inbound",
    ]);
    his.end();
  });

  test.each(["Archive", "INBOX", "Sent"])(
    "of one's own that an app appends to %s is there for its author",
    async (folder) => {
      const octets = lines(
        ...["From: alice@example.test", "To: carol@remote.example", `Message-ID: <own-${folder}@app>`],
        ...["Bcc: dave@remote.example", "Subject: Own", "", "Text"],
      );
      await hers.say(`APPEND ${folder} {${octets.length}+}\r\n${octets}`);
      expect(await last(folder)).toBe(octets);
    },
  );
});

describe("what was handed in is what is fetched", () => {
  test.each(MAIL)("an app appends mail %s", async (_, message) => {
    const octets = Buffer.from(message.replace("Subject: ", `Message-ID: <${Bun.hash(message)}@app>\r\nSubject: `));
    await append("Archive", octets);
    expect(await last("Archive")).toBe(octets.toString("latin1"));
  });

  test("an app submits, and its author alone sees the Bcc", async () => {
    const smtp = await signedIn(it);
    const body = lines(
      'Content-Type: multipart/signed; protocol="application/pkcs7-signature"; boundary=s',
      "MIME-Version: 1.0",
      "",
      "--s",
      "Content-Type: text/plain",
      "",
      "Hello ",
      "--s",
      "Content-Type: application/pkcs7-signature; name=smime.p7s",
      "Content-Transfer-Encoding: base64",
      "",
      base64(noise(2_000), 64),
      "--s--",
    );
    const header = lines(
      "From: Alice <alice@example.test>",
      "To: carol@remote.example",
      "Message-ID: <sub@app>",
      "Date: Mon, 05 Jan 2026 08:00:00 +0000",
      "Subject: Handed in",
    );
    await smtp.expect(250, "MAIL FROM:<alice@example.test>");
    for (const to of ["carol@remote.example", "dave@remote.example"]) await smtp.expect(250, `RCPT TO:<${to}>`);
    await smtp.expect(354, "DATA");
    smtp.write(`${header}${body}.\r\n`);
    expect((await smtp.reply()).code).toBe(250);
    smtp.destroy();
    const whole = await last("Sent");
    expect(whole).toMatch(/^Bcc: dave@remote\.example\r\nDKIM-Signature: /);
    const octets = whole.slice(whole.indexOf("\r\n") + 2);
    expect(octets).toEndWith(`${header}${body}`);
    await it.server.settled();
    expect(it.remote.messages.at(-1)?.content).toBe(octets);
    const ben = it.join("reader@example.test", "member", { access: "full" });
    const his = await imapAccount(portOf(it), ben.email, ben.key);
    expect(await last(`Shared/${ALICE}/Sent`, "BODY.PEEK[]", his)).toBe(octets);
    expect(await last(`Shared/${ALICE}/Sent`, "RFC822.SIZE", his)).toContain(`RFC822.SIZE ${octets.length})`);
    expect(await last(`Shared/${ALICE}/Sent`, "ENVELOPE", his)).not.toContain("dave");
    expect(await last("Sent", "ENVELOPE")).toContain('"dave"');
    his.end();
  });
});

test("what comes from a mailbox of this server is what was transmitted, below where it came from", async () => {
  const sent = await it.api.post("/send", { from: ALICE, to: [ALICE], subject: "To myself", text: "Hello" });
  expect(sent.status).toBe(202);
  await it.server.settled();
  const octets = await last("Sent");
  const [returnPath, received, ...rest] = (await last("INBOX")).split(/\r\n(?!\t)/);
  expect(returnPath).toBe(`Return-Path: <${ALICE}>`);
  expect(received).toMatch(/^Received: by \S+ \(Mailroom\) id msg_\w+\r\n\tfor <alice@example\.test>;\r\n\t\w{3}, /);
  expect(rest.join("\r\n")).toBe(octets.replaceAll(/\r\n\t/g, "\r\n\t"));
});

test("what waited for approval is what was signed, with its Bcc for its author", async () => {
  const policy = { send: "hold" };
  const key = await it.api.post<{ key: string }>("/api/admin/v1/keys", {
    name: "Held",
    scopes: ["read", "send"],
    policy,
  });
  const request = {
    from: ALICE,
    to: ["carol@remote.example"],
    bcc: ["dave@remote.example"],
    subject: "Held",
    text: "Hi",
  };
  const held = await it.apiWith(key.body.key).post<{ emailId: string }>("/send", request);
  const approver = it.apiWith(it.keyOf(it.owner.userId, ["approve"]));
  const approved = await approver.post(`/api/admin/v1/holds/${held.body.emailId}/approve`, {});
  expect([key.status, held.status, approved.status]).toEqual([201, 202, 200]);
  await it.server.settled();
  expect(await last("Sent")).toBe(`Bcc: dave@remote.example\r\n${it.remote.messages.at(-1)?.content}`);
});

test("what the API sends is what was signed and transmitted", async () => {
  const content = Buffer.from(noise(3_000)).toString("base64");
  const sent = await it.api.post("/send", {
    ...{ from: ALICE, to: ["carol@remote.example"], subject: "Signed", text: "Grüße", html: "<p>Grüße</p>" },
    attachments: [{ filename: "a.bin", contentType: "application/octet-stream", content }],
  });
  expect(sent.status).toBe(202);
  await it.server.settled();
  expect(await last("Sent")).toBe(it.remote.messages.at(-1)?.content ?? "");
});

test("a folder of mail from before opens at once, and what an app is told of it stays", async () => {
  const ben = it.join("before@example.test");
  const older = { mailboxId: ben.mailboxId, receivedOn: ben.email, withoutOctets: true };
  for (const subject of ["One", "Two", "Three"]) await fileLetter(it.core, { subject }, older);
  const app = await imapAccount(portOf(it), ben.email, ben.key);
  const waiting = () => it.core.db.select().from(octetsWaiting).all().length;
  expect((await app.say("SELECT INBOX")).untagged).toContain("* 3 EXISTS");
  expect(waiting()).toBe(3);
  const size = await last("INBOX", "RFC822.SIZE", app);
  const octets = await last("INBOX", "BODY.PEEK[]", app);
  expect(size).toContain(`RFC822.SIZE ${octets.length})`);
  expect(waiting()).toBe(2);
  await it.advance(600_000);
  expect(waiting()).toBe(0);
  expect(await last("INBOX", "BODY.PEEK[]", app)).toBe(octets);
  app.end();
});

test("a message that no longer comes out as an app saw it is not told of under its old UID", async () => {
  const cara = it.join("other@example.test");
  const app = await imapAccount(portOf(it), cara.email, cara.key);
  await app.say("SELECT INBOX");
  for (const [i, item] of [
    "BODY.PEEK[]",
    "RFC822.SIZE",
    "BODY.PEEK[HEADER]",
    "(RFC822.SIZE BODY.PEEK[TEXT])",
  ].entries()) {
    const older = { mailboxId: cara.mailboxId, receivedOn: cara.email, withoutOctets: true };
    const { seq } = await fileLetter(it.core, { subject: `Told ${i}` }, older);
    const uid = 2 * i + 1;
    expect((await app.say("NOOP")).untagged.join()).toContain("EXISTS");
    it.write((tx) =>
      tx
        .insert(imapOctets)
        .values({ messageSeq: seq, author: false, digest: Buffer.alloc(32) })
        .run(),
    );
    const { untagged, status, text } = await app.say(`UID FETCH ${uid} ${item}`);
    expect([item, status, /FETCH \(/.test(untagged.join("\n"))]).toEqual([item, "OK", false]);
    expect(text).toContain("EXPUNGEISSUED");
    expect((await app.say("NOOP")).status).toBe("OK");
    expect((await app.say(`UID FETCH ${uid + 1} ${item}`)).untagged.join("\n")).toContain(`UID ${uid + 1}`);
  }
  app.end();
});

describe("what is told of octets is true of those that are served", () => {
  const fields = (count: number): string[] => Array.from({ length: count }, (_, i) => `X-${i}: 1`);
  const parts = ["--b", "", "one", "two", "--b", "Content-Type: text/html", "", "<p>three", "--b--"];
  const type = ["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=b"];
  const secret = "Bcc: secret@remote.example";
  const bccs = Array.from({ length: 1_100 }, (_, i) => `Bcc: secret-${i}@remote.example`);

  /** Fetches all that tells about the last message of a folder, and holds it to its octets. */
  async function checkTold(folder: string, client = hers): Promise<{ structure: string; octets: string }> {
    const octets = await last(folder, "BODY.PEEK[]", client);
    const [header, text] = [
      await last(folder, "BODY.PEEK[HEADER]", client),
      await last(folder, "BODY.PEEK[TEXT]", client),
    ];
    expect(header + text).toBe(octets);
    expect(await last(folder, "RFC822.SIZE", client)).toContain(`RFC822.SIZE ${octets.length})`);
    const structure = await last(folder, "BODYSTRUCTURE", client);
    const second = await last(folder, "BODY.PEEK[2]", client);
    expect(structure.includes("BODYSTRUCTURE ((")).toBe(!second.endsWith("BODY[2] NIL)"));
    const [, size] = /BODYSTRUCTURE \(?\("[^"]*" "[^"]*" (?:NIL|\([^)]*\)) NIL NIL "[^"]*" (\d+)/.exec(structure) ?? [];
    expect((await last(folder, "BODY.PEEK[1]", client)).length).toBe(Number(size));
    return { structure, octets };
  }

  test.each<[what: string, message: string]>([
    ["as many fields as can be read", lines(...HEADER, ...fields(996), ...type, "", ...parts)],
    ["as many with the fields of this server", lines(...HEADER, ...fields(993), ...type, "", ...parts)],
    ["few fields", lines(...HEADER, ...type, "", ...parts)],
    ["more Bcc fields than can be read", lines(...bccs, ...HEADER, ...type, "", ...parts)],
    ["a Bcc behind what ends a header", lines(...HEADER, "Dear all", secret, "", "Text")],
    [
      "a delimiter that ends the header, and a Bcc behind it",
      lines(...HEADER, ...type, "--b", secret, "", ...parts.slice(2)),
    ],
    ["a line on top that is of no field", lines(" ; x", ...HEADER, "", "Text")],
  ])("in mail with %s", async (_, message) => {
    await arrives(message);
    const { structure, octets } = await checkTold("INBOX");
    expect(structure + octets).not.toContain("secret");
  });

  test("to its author and to others, where a Bcc is one field too many", async () => {
    const message = lines("From: alice@example.test", secret, ...fields(997), ...type, "", ...parts);
    await append("Sent", message);
    expect((await checkTold("Sent")).octets).toBe(message);
    const ben = it.join("many@example.test", "member", { access: "view" });
    const his = await imapAccount(portOf(it), ben.email, ben.key);
    const { structure, octets } = await checkTold(`Shared/${ALICE}/Sent`, his);
    expect([structure.includes("BODYSTRUCTURE (("), octets.includes("secret")]).toEqual([true, false]);
    his.end();
  });
});

test("the header of mail that packs well is not unpacked on the main thread if it is large", async () => {
  const { db } = it.core;
  for (const [count, isUnpacked] of [
    [2_000, true],
    [4_000, false],
  ] as const) {
    const encoded = "Content-Transfer-Encoding: quoted-printable";
    await arrives(
      lines(...HEADER, "Subject: Equal lines", encoded, "", ...Array<string>(count).fill("=61".repeat(25))),
    );
    const row = db.select().from(messageOctets).all().at(-1);
    expect(row?.skeleton?.length).toBeLessThan(1_000);
    const seq = row?.messageSeq ?? 0;
    const kept = describeKeptOctets(db, [seq], "usr_nobody").get(seq);
    expect(kept && listKeptHeaders(db, [kept]).has(seq)).toBe(isUnpacked);
    expect(await last("INBOX", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]")).toBe("Subject: Equal lines\r\n\r\n");
  }
});

describe("octets that are not whole", () => {
  let restore: (() => void) | undefined;
  afterEach(() => restore?.());

  async function damaged(change: Record<string, unknown>): Promise<void> {
    await arrives(mixed(file(sound)));
    const { db } = it.core;
    const row = db.select().from(messageOctets).all().at(-1);
    if (!row) throw new Error("nothing is kept");
    const where = eq(messageOctets.messageSeq, row.messageSeq);
    restore = () => db.update(messageOctets).set(row).where(where).run();
    db.update(messageOctets).set(change).where(where).run();
  }

  test.each([
    ["with another digest", { digest: Buffer.alloc(32) }],
    ["of another size", { size: 100 }],
    ["damaged", { skeleton: Buffer.from("nothing") }],
    ["gone", { skeleton: null }],
    ["in a blob that is gone", { skeleton: null, blob: "0".repeat(64) }],
  ])("%s are never served, and what is known of them is", async (_, change) => {
    await damaged(change);
    expect(await last("INBOX")).toStartWith("NO [SERVERBUG]");
    expect(await last("INBOX", "BODY.PEEK[TEXT]")).toStartWith("NO [SERVERBUG]");
    expect(await last("INBOX", "ENVELOPE")).toContain('"Parts"');
    it.lines.length = 0;
  });

  test("keep no others from being served, each as if it were asked for alone", async () => {
    await damaged({ digest: Buffer.alloc(32) });
    await arrives(alternatives());
    await hers.say("SELECT INBOX");
    const { untagged: all } = await hers.say("FETCH 1:* (UID)");
    for (const item of ["BODY.PEEK[]", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]"]) {
      const together = await hers.say(`FETCH 1:* (${item})`);
      expect([together.status, together.untagged.length]).toEqual(["NO", all.length - 1]);
      const alone = [];
      for (const number of all.keys()) alone.push(...(await hers.say(`FETCH ${number + 1} (${item})`)).untagged);
      expect(together.untagged).toEqual(alone);
    }
    it.lines.length = 0;
  });
});

test("text and HTML that came as they are are kept once", async () => {
  await arrives(alternatives());
  const { skeleton, size } = it.core.db.select().from(messageOctets).all().at(-1) ?? { skeleton: null, size: 0 };
  const { bytes, cuts } = unpackSkeleton(skeleton ?? new Uint8Array(), size);
  expect(cuts.map(({ position }) => position)).toEqual([TEXT, HTML]);
  expect(Buffer.from(bytes).toString()).not.toMatch(/words/i);
  await arrives(lines(...HEADER, "Subject: Plain", "", ...Array(9).fill("Some words.")));
  expect(await last("INBOX", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]")).toBe("Subject: Plain\r\n\r\n");
});

test("those of large mail are a blob, which stays as long as the message", async () => {
  const { db, blobs, store } = it.core;
  await arrives(MAIL.at(-1)?.[1] ?? "");
  const octets = await last("INBOX");
  const row = db.select().from(messageOctets).all().at(-1);
  const { blob, skeleton } = row ?? {};
  expect([typeof blob, skeleton]).toEqual(["string", null]);
  const files = () =>
    db
      .select()
      .from(attachments)
      .all()
      .map((one) => one.blob);
  const before = new Set(files());
  await sweepUnnamedBlobs(it.core, Date.now() + 2 * HOUR);
  expect(await last("INBOX")).toBe(octets);
  for (const name of before) expect(await (await blobs.file(name)).exists()).toBe(true);
  store.transact((tx) =>
    tx
      .delete(messageOctets)
      .where(eq(messageOctets.messageSeq, row?.messageSeq ?? 0))
      .run(),
  );
  await sweepUnnamedBlobs(it.core, Date.now() + 2 * HOUR);
  expect(await (await blobs.file(blob ?? "")).exists()).toBe(false);
});
