/**
 * Every message of the corpora, over SMTP by BDAT, which changes no octet, and back over IMAP: below this server's own fields it is
 * what was sent, but for NUL and Bcc (rules: Octets). An export brings the same octets to another server.
 */
import { expect, test } from "bun:test";
import { fetchAll, imapAccount } from "../harness/clients/imap-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { appPassword } from "../harness/servers/imap-world.ts";
import { exportOf, importInto } from "../harness/servers/transfer-rig.ts";

const OURS =
  /^Return-Path: <ben@remote\.example>\r\nReceived: (?:.*\r\n[\t ])+.*\r\nAuthentication-Results: localhost;(?:\r\n\t.*|.*\r\n\t.*)*\r\n/;

/** The octets that are served of a message: ended, without NUL, and without the fields that not everybody sees. */
function served(bytes: Uint8Array): string {
  const sent = Buffer.from(bytes).toString("latin1");
  const text = (sent.endsWith("\r\n") ? sent : `${sent}\r\n`).replaceAll("\0", "");
  const end = /\r?\n\r?\n/.exec(text)?.index ?? text.length;
  const header = text.slice(0, end).replace(/^(?:resent-)?bcc[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*(?:\n|$)/gim, "");
  return header + text.slice(end);
}

/** Digests of the octets that everybody sees. Without a Message-ID, a message may come twice, and is imported once. */
const servedDigests = ({ core }: Booted): unknown[] =>
  core.store.db.$client
    .query("SELECT DISTINCT hex(coalesce(served_digest, digest)) AS digest FROM message_octets ORDER BY 1")
    .all();

test.skipIf(!corpusPresent)(
  `each is fetched as it came, also where an export of it is imported${corpusNote}`,
  async () => {
    const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
    const sender = await connectSmtp(app.mx);
    const came = new Map<string, { name: string; bytes: Uint8Array }>();
    for (const file of corpusFiles()) {
      await sender.expect(250, "MAIL FROM:<ben@remote.example> BODY=8BITMIME");
      await sender.expect(250, "RCPT TO:<alice@example.test>");
      sender.write(Buffer.concat([Buffer.from(`BDAT ${file.bytes.length} LAST\r\n`), file.bytes]));
      const { code, lines } = await sender.reply();
      expect([file.name, code]).toEqual([file.name, 250]);
      const [, id = ""] = /\b(msg_\w+) filed/.exec(lines.join(" ")) ?? [];
      // The corpora have some messages twice.
      if (!came.has(id)) came.set(id, file);
    }
    sender.destroy();
    expect(came.size).toBeGreaterThan(700);

    const client = await imapAccount(Number(app.ready.imaps?.split(":")[1]), "alice@example.test", appPassword(app));
    const faults: string[] = [];
    let count = 0;
    for (const folder of ["INBOX", "Junk"]) {
      for (const { id, size, octets } of (await fetchAll(client, folder)).mail) {
        const file = came.get(id);
        if (!file) continue;
        count++;
        const expected = served(file.bytes);
        const [ours = ""] = OURS.exec(octets) ?? [];
        if (ours === "") faults.push(`${file.name}: ${octets.slice(0, 300)}`);
        if (size !== octets.length) faults.push(`${file.name}: told ${size} of ${octets.length}`);
        if (octets.slice(ours.length) !== expected)
          faults.push(`${file.name}: ${octets.length - ours.length}, ${expected.length}`);
      }
    }
    client.end();
    expect(faults).toEqual([]);
    expect(count).toBe(came.size);

    const other = await boot();
    expect(await importInto(other, await exportOf(app))).toMatchObject({ failed: 0 });
    expect(servedDigests(other)).toEqual(servedDigests(app));
  },
  300_000,
);
