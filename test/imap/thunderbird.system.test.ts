/** Thunderbird: it understands what autoconfig tells it, and reads, flags and moves. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import * as people from "../../src/admin/people.ts";
import { startThunderbird, type Thunderbird, thunderbird } from "../harness/clients/thunderbird.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";
import { arrive } from "./arrive.ts";

const portOf = (address = ""): number => Number(address.split(":")[1]);

describe.skipIf(thunderbird.absent)(`${thunderbird.named}`, () => {
  let app: Booted;
  let client: Thunderbird;
  beforeAll(async () => {
    app = await boot({ MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0" });
    for (let i = 0; i < 30; i++) {
      const { threadId } = await arrive(app, { subject: `Message ${i}`, messageId: `<m${i}@remote.example>` });
      // It shows no `Labels` without one.
      if (i === 20) await app.api.patch(`/threads/${threadId}`, { labels: ["Other"] });
    }
    const {
      core: { store },
    } = app.opened;
    store.transact((tx) => people.setLabelFolders(tx, app.owner.userId, true));
    client = await startThunderbird();
  }, 120_000);
  afterAll(() => client?.stop());

  test("reads the settings with its own reader", async () => {
    const told = await fetch(`${app.http}/mail/config-v1.1.xml?emailaddress=alice@example.test`);
    const read = await client.run(
      `const { readFromXML } = ChromeUtils.importESModule("resource:///modules/accountcreation/readFromXML.sys.mjs");
       const { JXON } = ChromeUtils.importESModule("resource:///modules/JXON.sys.mjs");
       const config = readFromXML(JXON.build(new DOMParser().parseFromString(args[0], "text/xml")), "example.test");
       return [config.incoming, ...config.incomingAlternatives, config.outgoing, ...config.outgoingAlternatives].map(
         ({ type, hostname, port, socketType, auth, username }) => [type, hostname, port, socketType, auth, username]);`,
      await told.text(),
    );
    // nsMsgSocketType and nsMsgAuthMethod.
    const [starttls, implicit, password] = [2, 3, 3];
    const server = (type: string, port: number, socketType: number) =>
      [type, "localhost", port, socketType, password, "%EMAILADDRESS%"] as const;
    expect(read).toEqual([
      server("imap", portOf(app.ready.imaps), implicit),
      server("imap", portOf(app.ready.imap), starttls),
      server("smtp", app.submissions.port, implicit),
      server("smtp", app.submission.port, starttls),
    ]);
  });

  test("shows folders and messages, and flags, reads and moves them", async () => {
    const pem = await Bun.file(join(app.opened.config.data, "tls/self-signed.pem")).text();
    const certificate = /BEGIN CERTIFICATE-----([^-]*)/.exec(pem)?.[1]?.replaceAll(/\s/g, "");
    const seen = await client.run(
      `const [port, password, certificate] = args;
       const { MailServices } = ChromeUtils.importESModule("resource:///modules/MailServices.sys.mjs");
       const until = async (holds) => { while (!holds()) await new Promise((next) => setTimeout(next, 20)); };
       const known = Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB).constructX509FromBase64(certificate);
       Cc["@mozilla.org/security/certoverride;1"].getService(Ci.nsICertOverrideService)
         .rememberValidityOverride("localhost", port, {}, known, false);
       const server = MailServices.accounts.createIncomingServer("alice@example.test", "localhost", "imap");
       Object.assign(server, { port, socketType: 3, authMethod: 3, password });
       const account = MailServices.accounts.createAccount();
       account.addIdentity(MailServices.accounts.createIdentity());
       account.incomingServer = server;
       server.performExpand(null);
       const folder = (name) => server.rootFolder.descendants.find((one) => one.name === name);
       await until(() => folder("Trash") && folder("Archive"));
       const inbox = server.rootFolder.getFolderWithFlags(Ci.nsMsgFolderFlags.Inbox);
       inbox.updateFolder(null);
       const message = (number) => [...inbox.messages].find((one) => one.mime2DecodedSubject === "Message " + number);
       await until(() => inbox.getTotalMessages(false) === 30 && message(29));
       inbox.markMessagesFlagged([message(5)], true);
       inbox.markMessagesRead([message(6)], true);
       const status = await new Promise((done) => MailServices.copy.copyMessages(
         inbox, [message(3)], folder("Archive"), true,
         { onStartCopy() {}, onProgress() {}, setMessageKey() {}, getMessageId() {}, onStopCopy: done,
           QueryInterface: ChromeUtils.generateQI(["nsIMsgCopyServiceListener"]) }, null, false));
       const special = ["Archive", "Drafts", "Junk", "SentMail", "Trash"].filter((name) =>
         server.rootFolder.getFolderWithFlags(Ci.nsMsgFolderFlags[name]));
       return [status, special, server.rootFolder.descendants.map(({ name }) => name)];`,
      portOf(app.ready.imaps),
      app.owner.apiKey,
      certificate,
    );
    expect(seen).toEqual([
      0,
      ["Archive", "Drafts", "Junk", "SentMail", "Trash"],
      ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash", "Labels", "Other"],
    ]);
    const found = async (query: string) => {
      const { body } = await app.api.get<{ threads: { subject: string }[] }>(`/search?q=${query}`);
      return body.threads.map(({ subject }) => subject);
    };
    expect(await found("in:archive")).toEqual(["Message 3"]);
    expect(await found("is:starred")).toEqual(["Message 5"]);
    await until(async () => (await found("is:unread&limit=100")).length === 29);
  }, 90_000);

  test("makes labels as folders, moves and copies into them and out of them, and misses nothing", async () => {
    const seen = await client.run(
      `const { MailServices } = ChromeUtils.importESModule("resource:///modules/MailServices.sys.mjs");
       const until = async (holds) => { while (!holds()) await new Promise((next) => setTimeout(next, 20)); };
       const server = MailServices.accounts.allServers.find(({ type }) => type === "imap");
       const folder = (name) => server.rootFolder.descendants.find((one) => one.name === name);
       folder("Labels").createSubfolder("Work", null);
       await until(() => folder("Work"));
       const subjects = (name) => [...folder(name).messages].map((one) => one.mime2DecodedSubject).sort();
       const inbox = folder("INBOX");
       const transfer = (from, subject, to, moves) => new Promise((done) => MailServices.copy.copyMessages(
         from, [[...from.messages].find((one) => one.mime2DecodedSubject === subject)], folder(to), moves,
         { onStartCopy() {}, onProgress() {}, setMessageKey() {}, getMessageId() {}, onStopCopy: done,
           QueryInterface: ChromeUtils.generateQI(["nsIMsgCopyServiceListener"]) }, null, false));
       const shows = async (name, wanted) => {
         await until(() => { folder(name).updateFolder(null); return subjects(name).join() === wanted.join(); });
       };
       const status = [];
       status.push(await transfer(inbox, "Message 10", "Work", true));
       status.push(await transfer(inbox, "Message 11", "Work", false));
       await shows("Work", ["Message 10", "Message 11"]);
       await shows("Archive", ["Message 10", "Message 3"]);
       status.push(await transfer(folder("Archive"), "Message 3", "Work", true));
       await shows("Work", ["Message 10", "Message 11", "Message 3"]);
       await shows("Archive", ["Message 10", "Message 3"]);
       status.push(await transfer(folder("Work"), "Message 3", "Other", true));
       await shows("Other", ["Message 20", "Message 3"]);
       status.push(await transfer(folder("Work"), "Message 10", "INBOX", true));
       await shows("Work", ["Message 11"]);
       await shows("Archive", ["Message 3"]);
       await new Promise((done) => { folder("Work").deleteMessages([...folder("Work").messages], null, false, false,
         { onStartCopy() {}, onProgress() {}, setMessageKey() {}, getMessageId() {}, onStopCopy: done,
           QueryInterface: ChromeUtils.generateQI(["nsIMsgCopyServiceListener"]) }, false); });
       await shows("Work", []);
       await shows("Trash", ["Message 11"]);
       await until(() => { inbox.updateFolder(null); return inbox.getTotalMessages(false) === 28; });
       return [status, subjects("INBOX").includes("Message 10")];`,
    );
    expect(seen).toEqual([[0, 0, 0, 0, 0], true]);
    const { body } = await app.api.get<{ threads: { subject: string; labels: string[] }[] }>(
      "/threads?folder=all&limit=50",
    );
    const labels = Object.fromEntries(
      body.threads.flatMap((one) => (one.labels.length > 0 ? [[one.subject, one.labels]] : [])),
    );
    expect(labels).toEqual({ "Message 3": ["Other"], "Message 20": ["Other"] });
  }, 90_000);
});
