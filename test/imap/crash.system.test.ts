/**
 * The server is killed while it makes the octets of mail from before they were kept, and while a mail app opens the mailbox for
 * the first time: what the app saw of it stays, and nothing is made twice or never.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, imapAccount, told } from "../harness/clients/imap-client.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { imapsOf, run, runJson, serve } from "../harness/servers/process.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";
const MANY = 3_000;
const KILLS = 6;
const BCC = "Bcc: owner+bcc@example.test\r\n";
const ABOVE = /^Received: by example\.test with ESMTP id \S+\r\n\t[^\r]+\r\n(?:Authentication-Results: [^\r]+\r\n)?$/;

/** Every third with a file; its Subject says which. */
function message(n: number): string {
  const to = OWNER;
  const subject = `Message ${n}`;
  const messageId = `<m${n}@remote.example>`;
  if (n % 3 > 0) return letter({ to, subject, messageId, text: `Text ${n}\n`.repeat(n % 50) });
  return letter({
    ...{ to, subject, messageId },
    headers: ['Content-Type: multipart/mixed; boundary="b"'],
    text: `--b\nContent-Type: text/html; charset=utf-8\n\n<p>Text <b>${n}</b></p>\n--b\nContent-Type: application/octet-stream; name="f"\nContent-Transfer-Encoding: base64\n\n${randomBytes(600).toString("base64")}\n--b--`,
  });
}

/**
 * Reads from a database the digests of octets and the UIDs, by numbers of messages, and how many messages still wait for their
 * octets.
 */
function octetsIn(data: string) {
  const sqlite = new Database(join(data, "mailroom.db"), { readonly: true });
  try {
    const all = <T>(sql: string): T[] => sqlite.query<T, []>(sql).all();
    const made = all<{ seq: number; digest: Uint8Array; size: number }>(
      "SELECT message_seq AS seq, digest, size FROM message_octets",
    );
    const numbered = all<{ seq: number; uid: number }>("SELECT message_seq AS seq, uid FROM imap_messages");
    const [{ count: waiting } = { count: 0 }] = all<{ count: number }>("SELECT count(*) AS count FROM octets_waiting");
    return {
      digests: new Map(made.map(({ seq, digest, size }) => [seq, `${size} ${Buffer.from(digest).toString("hex")}`])),
      uids: new Map(numbered.map(({ seq, uid }) => [seq, uid])),
      waiting,
    };
  } finally {
    sqlite.close();
  }
}

/** Makes mail what it was before octets were kept. */
function forgetOctets(data: string): void {
  const sqlite = new Database(join(data, "mailroom.db"));
  sqlite.run("DELETE FROM message_octets");
  sqlite.run("INSERT INTO octets_waiting (message_seq, filed_at) SELECT seq, filed_at FROM messages");
  sqlite.close();
}

const digestOf = (octets: string): string =>
  `${octets.length} ${new Bun.CryptoHasher("sha256").update(Buffer.from(octets, "latin1")).digest("hex")}`;

test("kill -9 while a mailbox is made ready for a mail app loses nothing, and what the app saw stays", async () => {
  const place = { data: temporaryFolder(), env: { MAILROOM_IMAPS: "127.0.0.1:0" } };
  const names = ["--domain", "example.test", "--email", OWNER, "--name", "Owner"];
  const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...names);
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, WITHOUT_LIMITS);
  const folder = files({
    "inbox.mbox": Array.from({ length: MANY }, (_, n) => mboxEntry(message(n))).join(""),
    "archive.mbox": Array.from({ length: 20 }, (_, n) => mboxEntry(message(MANY + n))).join(""),
  });
  const importing = ["import", "--mailbox", OWNER];
  await runJson(place, ...importing, join(folder, "inbox.mbox"));
  await runJson(place, ...importing, "--folder", "archive", join(folder, "archive.mbox"));
  forgetOctets(place.data);

  let server = await serve(place);
  /** Mail that comes, and mail with a Bcc that goes out. */
  async function correspond(n: number): Promise<void> {
    const sender = mailer(server.mx, { starttls: false });
    await sender.send({ from: "carol@remote.example", to: OWNER }, message(n));
    sender.close();
    const request = { from: OWNER, to: OWNER, bcc: "owner+bcc@example.test", subject: `Sent ${n}`, text: "x" };
    expect((await apiClient(server.http, apiKey).post("/send", request)).status).toBe(202);
  }
  await correspond(10_000);
  const client = () => imapAccount(imapsOf(server), OWNER, apiKey);
  const first = await client();
  const seen = await fetchAll(first, "Archive");
  expect(seen.mail).toHaveLength(20);
  const validity = told((await first.say("STATUS INBOX (UIDVALIDITY)")).untagged, "UIDVALIDITY");
  expect(validity).toBe(seen.validity);
  first.end();

  let before = octetsIn(place.data);
  const shares: number[] = [];
  for (let round = 1; round <= KILLS; round++) {
    const app = await client();
    const selecting = app.say("SELECT INBOX");
    // Some are killed while mail gets its numbers, others while its octets are made.
    const enough = before.digests.size + Math.floor(Math.random() * (MANY / KILLS));
    if (round > 2) await until(() => octetsIn(place.data).digests.size > enough);
    await Bun.sleep(Math.random() * 60);
    await server.kill("SIGKILL");
    expect((await selecting).status).toBeOneOf(["OK", "BYE"]);
    server = await serve(place);
    await correspond(10_000 + round);
    const now = octetsIn(place.data);
    for (const [seq, digest] of before.digests) expect(now.digests.get(seq)).toBe(digest);
    for (const [seq, uid] of before.uids) expect(now.uids.get(seq)).toBe(uid);
    shares.push(now.waiting);
    before = now;
  }
  // Kills came in the middle.
  expect(shares.filter((waiting) => waiting > 0 && waiting < MANY).length).toBeGreaterThan(1);

  const last = await client();
  const { untagged: inbox, status } = await last.say("SELECT INBOX");
  expect([status, told(inbox, "UIDVALIDITY")]).toEqual(["OK", validity]);
  await until(() => octetsIn(place.data).waiting === 0);
  const all = octetsIn(place.data);
  for (const [seq, digest] of before.digests) expect(all.digests.get(seq)).toBe(digest);
  const api = apiClient(server.http, apiKey);
  const known = new Set(all.digests.values());
  const ids = new Set<string>();
  for (const name of ["INBOX", "Archive", "Sent"]) {
    const { mail } = await fetchAll(last, name);
    expect(mail).toHaveLength(told((await last.say(`STATUS ${name} (MESSAGES)`)).untagged, "MESSAGES"));
    for (const { id, size, octets } of mail) {
      ids.add(id);
      expect([size, known.has(digestOf(octets))]).toEqual([octets.length, true]);
      expect(octets.includes(BCC)).toBe(name === "Sent");
      // What came since was kept as it came.
      if (/^(?:Bcc|Return-Path): /.test(octets)) continue;
      const raw = Buffer.from((await api.bytes(`/messages/${id}/raw`)).body).toString("latin1");
      expect(octets.endsWith(raw)).toBe(true);
      expect(octets.slice(0, octets.length - raw.length)).toMatch(ABOVE);
    }
    if (name === "Archive") expect(mail).toEqual(seen.mail);
    const uids = mail.map(({ uid }) => uid);
    expect(uids).toEqual([...new Set(uids)].sort((a, b) => a - b));
  }
  expect(ids.size).toBe(all.uids.size);
  last.end();
  const checks = JSON.parse((await run(place, ["doctor", "--json"])).stdout) as { id: string; detail: string }[];
  expect(checks.find(({ id }) => id === "mail-apps")).toMatchObject({
    state: "ok",
    detail: "all mail is ready for them",
  });
  expect(await server.kill("SIGTERM")).toBe(0);
}, 240_000);
