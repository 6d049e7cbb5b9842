/** Importing mail from an account on a real IMAP server. */
import { beforeAll, describe, expect, spyOn, test } from "bun:test";
import { ImapFlow } from "imapflow";
import { hasMessageOfSize } from "../../src/mailbox/filing/filing-rows.ts";
import { IMAP_FLAGS } from "../../src/mailbox/imap/uids.ts";
import { findImapAccountMessages, type ImapRequest } from "../../src/transfer/imap-account.ts";
import { letter } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Dovecot, noDovecot, startDovecot } from "../harness/peers/dovecot.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { importInto } from "../harness/servers/transfer-rig.ts";
import { until } from "../harness/until.ts";

/** A name that leads to the server, which has no certificate for it. */
const OTHER_NAME = "imap.old.example";
const dns = zone({ [OTHER_NAME]: { a: ["127.0.0.1"] } });
const world = { dns, now: Date.now };

/** Timers fire at once. */
const atOnce = (wake: () => void) => {
  const timer = setImmediate(wake);
  return () => clearImmediate(timer);
};

describe.skipIf(noDovecot !== undefined)(`Dovecot${noDovecot ? ` (skipped: ${noDovecot})` : ""}`, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot();
    dovecot.put("INBOX", {
      "1:2,RS": letter({ subject: "Read", messageId: "<read@x>" }),
      "2:2,F": letter({ subject: "Starred, unread" }),
      "3:2,ST": letter({ subject: "Deleted" }),
    });
    dovecot.put("Sent", { "4:2,S": letter({ subject: "Sent", from: "ada@old.example" }) });
    dovecot.put("Rubbish", { "5:2,S": letter({ subject: "Thrown away" }) });
    dovecot.put("Work.Clients", { "6:2,S": letter({ subject: "Filed" }) });
    dovecot.put("Archive", { "7:2,S": letter({ subject: "Read", messageId: "<read@x>" }) });
  }, 120_000);

  const account = (change: object = {}) => ({
    host: "localhost",
    port: dovecot.port,
    user: dovecot.user,
    password: dovecot.password,
    implicitTls: true,
    ...change,
  });

  const find = (change: Partial<ImapRequest>) =>
    findImapAccountMessages({
      account: account(),
      mostBytes: 1_000_000,
      isKnown: () => false,
      runtime: { ...world, setTimer: atOnce, authorities: [dovecot.authority] },
      log: { debug() {}, info() {}, warn() {}, error() {} } as never,
      ...change,
    });

  const importFrom = (booted: Booted, change: Partial<ImapRequest> = {}, onMessage = async () => {}) => {
    const { core } = booted.opened;
    const isKnown = (messageId: string, size: number) =>
      hasMessageOfSize(core.db, booted.owner.mailboxId, messageId, size);
    const found = find({ isKnown, ...change });
    async function* watched() {
      for await (const message of found) {
        yield message;
        await onMessage();
      }
    }
    return importInto(booted, "", { request: { messages: watched() } });
  };

  const listed = async ({ api }: Booted) => {
    const { body } = await api.get<{
      messages: { subject: string; folder: string; direction: string; read: boolean; threadId: string }[];
    }>("/messages?limit=100");
    return body.messages.map(({ subject, folder, direction, read }) => [subject, folder, direction, read]).sort();
  };

  test("each message comes once, with its folder and flags; a second import transfers none", async () => {
    const booted = await boot();
    expect(await importFrom(booted)).toMatchObject({ imported: 5, skipped: 2, failed: 0 });
    expect(await listed(booted)).toEqual([
      ["Filed", "archive", "inbound", true],
      ["Read", "inbox", "inbound", true],
      ["Sent", "sent", "outbound", true],
      ["Starred, unread", "inbox", "inbound", false],
      ["Thrown away", "trash", "inbound", true],
    ]);
    const { threads } = (
      await booted.api.get<{ threads: { labels: string[] }[] }>("/threads?label=Work%2FClients&folder=all")
    ).body;
    expect(threads).toMatchObject([{ labels: ["Work/Clients"] }]);
    const answered = booted.core.store.db.$client
      .query<{ subject: string }, [flag: number]>(
        "SELECT subject FROM imap_messages JOIN messages ON seq = message_seq WHERE flags & ?",
      )
      .all(IMAP_FLAGS.answered);
    expect(answered).toEqual([{ subject: "Read" }]);
    const { threads: starred } = (await booted.api.get<{ threads: { subject: string }[] }>("/threads?folder=starred"))
      .body;
    expect(starred.map(({ subject }) => subject)).toEqual(["Starred, unread"]);
    expect(await importFrom(booted)).toMatchObject({ imported: 0, skipped: 7, failed: 0 });
  }, 120_000);

  test("only the requested folders are read", async () => {
    const booted = await boot();
    expect(await importFrom(booted, { folders: ["Work/Clients"] })).toMatchObject({ imported: 1, skipped: 0 });
    await expect(importFrom(booted, { folders: ["Nowhere"] })).rejects.toThrow("has no folder Nowhere");
  }, 120_000);

  test("a message that is too large is reported, and the others come", async () => {
    const booted = await boot();
    dovecot.put("Large", {
      "8:2,S": letter({ subject: "Large", text: "x".repeat(70_000) }),
      "9:2,S": letter({ subject: "Small" }),
    });
    const result = await importFrom(booted, { folders: ["Large"], mostBytes: 10_000 });
    expect(result).toMatchObject({ imported: 1, failed: 1 });
    expect(result.sources[0]?.failures[0]).toEqual({
      place: "message 1",
      reason: expect.stringMatching(/^too large: 70\d{3} bytes$/),
    });
    expect(await listed(booted)).toEqual([["Small", "archive", "inbound", true]]);
  }, 120_000);

  test("after a lost connection it connects again, and no message comes twice", async () => {
    const booted = await boot();
    const count = 30;
    dovecot.put(
      "Many",
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => [
          `m${i}:2,S`,
          letter({ subject: `Many ${i}`, text: "y".repeat(300_000) }),
        ]),
      ),
    );
    const lost: string[] = [];
    const log = { debug() {}, info() {}, error() {}, warn: (message: string) => lost.push(message) } as never;
    let came = 0;
    const result = await importFrom(booted, { folders: ["Many"], log }, async () => {
      if (++came === 3) dovecot.cut();
    });
    expect(lost).toEqual(["reading broke off: connecting again"]);
    expect(result).toMatchObject({ imported: count, failed: 0 });
    expect((await listed(booted)).length).toBe(count);
  }, 120_000);

  test("a folder that the server refuses to search is read again, not passed over", async () => {
    const search = spyOn(ImapFlow.prototype, "search").mockResolvedValueOnce(false as never);
    let count = 0;
    for await (const _ of find({ folders: ["INBOX"] })) count++;
    search.mockRestore();
    expect(count).toBe(3);
  }, 120_000);

  test("the connection ends when the caller stops reading", async () => {
    for await (const _ of find({ folders: ["INBOX"] })) {
      expect(dovecot.connections()).toBe(1);
      break;
    }
    await until(() => dovecot.connections() === 0);
  }, 120_000);

  test("a certificate for another name than the host's is refused", async () => {
    const booted = await boot();
    await expect(importFrom(booted, { account: account({ host: "127.0.0.1" }) })).rejects.toThrow(
      /^127\.0\.0\.1 does not work: .*(altnames|certificate|ERR_TLS|IP)/i,
    );
  }, 120_000);

  test("gives up if the server hangs up at the same message each time", async () => {
    const booted = await boot();
    dovecot.put("Broken", { "m1:2,S": letter({ subject: "Whole" }) });
    expect(await importFrom(booted, { folders: ["Broken"] })).toMatchObject({ imported: 1 });
    dovecot.put("Broken", { "m2:2,S": letter({ subject: "Stumbling block" }) });
    // The message that is already imported is found before it.
    const hangUp = async () => dovecot.cut();
    await expect(importFrom(booted, { folders: ["Broken"] }, hangUp)).rejects.toThrow("does not work");
  }, 120_000);

  test("a wrong password and an untrusted certificate end the import", async () => {
    const booted = await boot();
    await expect(importFrom(booted, { account: account({ password: "wrong" }) })).rejects.toThrow(
      "refuses the user ada or the password",
    );
    await expect(importFrom(booted, { runtime: { ...world, setTimer: () => () => {} } })).rejects.toThrow(
      /localhost does not work: .*(self.signed|verify|certificate)/i,
    );
    await expect(importFrom(booted, { account: account({ host: OTHER_NAME }) })).rejects.toThrow(
      /imap\.old\.example does not work: .*(altnames|certificate)/i,
    );
    expect(dns.questions).toEqual([`a ${OTHER_NAME}`, `aaaa ${OTHER_NAME}`]);
    await expect(importFrom(booted, { account: account({ host: "missing.example" }) })).rejects.toThrow(
      "missing.example does not work: missing.example has no address",
    );
  }, 120_000);
});
