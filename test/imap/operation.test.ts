/** The IMAP listeners in operation: metrics, certificates, stopping, a demo's ports, and what a standby becomes. */

import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { letOthersRun } from "../../src/base/pause.ts";
import { readConfig } from "../../src/config.ts";
import { demoEnvironment } from "../../src/demo/demo-folder.ts";
import { mailFolder } from "../../src/mailbox/imap/uids.ts";
import { readStandby, writeStandby } from "../../src/replica/follow-replica.ts";
import { turnStandbyIntoServer } from "../../src/replica/promote.ts";
import { openStore } from "../../src/store/store.ts";
import { imapAccount, imapStranger } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { imapWorld } from "../harness/servers/imap-world.ts";
import { followStopped } from "../harness/servers/standby.ts";

const ALICE = "alice@example.test";
const IMAPS = { MAILROOM_IMAPS: "127.0.0.1:0" };
const portOf = ({ ready }: Booted): number => Number(ready.imaps?.split(":")[1]);

test("metrics count connections, commands by their replies, and bytes", async () => {
  const app = await boot(IMAPS);
  const open = await imapAccount(portOf(app), ALICE, app.owner.apiKey);
  await open.say("NOOP");
  await open.say("SELECT Nowhere");
  await open.say("FROBNICATE");
  const text = await (await fetch(`${app.http}/metrics`)).text();
  for (const line of [
    'mailroom_imap_connections{kind="open"} 1',
    'mailroom_imap_commands_total{command="LOGIN",reply="OK"} 1',
    'mailroom_imap_commands_total{command="NOOP",reply="OK"} 1',
    'mailroom_imap_commands_total{command="SELECT",reply="NO"} 1',
    'mailroom_imap_commands_total{command="other",reply="BAD"} 1',
  ]) {
    expect(text.split("\n")).toContain(line);
  }
  for (const direction of ["received", "sent"]) {
    const [, bytes] =
      new RegExp(`^mailroom_imap_bytes_total\\{direction="${direction}"\\} (\\d+)$`, "m").exec(text) ?? [];
    expect(Number(bytes)).toBeGreaterThan(50);
  }
  expect(text).toMatch(/^mailroom_imap_connections\{kind="most"\} [1-9]\d+$/m);
  expect(await (await fetch(`${app.http}/healthz`)).json()).toMatchObject({ status: "ok" });
  open.end();
});

test("metrics count the messages whose octets are to be made, and those whose octets cannot be", async () => {
  const world = await imapWorld();
  const { app } = world;
  const shown = async (): Promise<Record<string, string>> => {
    const text = await (await fetch(`${app.http}/metrics`)).text();
    return Object.fromEntries(
      [...text.matchAll(/^mailroom_imap_messages\{octets="(\w+)"\} (\d+)$/gm)].map(([, state, count]) => [
        state,
        count,
      ]),
    );
  };
  expect(await shown()).toEqual({ waiting: "0", lost: "0" });
  const before = (subject: string) => world.arrive({ subject }, world.alice, { withoutOctets: true });
  for (const subject of ["One", "Two", "Three"]) await before(subject);
  expect(await shown()).toEqual({ waiting: "3", lost: "0" });
  app.core.store.db.$client.run(
    "UPDATE octets_waiting SET lost = 1 WHERE message_seq = (SELECT min(seq) FROM messages)",
  );
  const client = await world.client();
  await client.say("SELECT INBOX");
  await client.say("FETCH 2 BODY.PEEK[]");
  expect(await shown()).toEqual({ waiting: "1", lost: "1" });
  await app.advance(600_000);
  expect(await shown()).toEqual({ waiting: "0", lost: "1" });
  client.end();
});

test("a stop ends sessions that wait, and lets a command finish", async () => {
  const app = await boot(IMAPS);
  const waiting = await imapAccount(portOf(app), ALICE, app.owner.apiKey);
  for (let i = 0; i < 20; i++) {
    const guesser = await imapStranger(portOf(app));
    expect((await guesser.say(`LOGIN ${ALICE} guess-${i}`)).status).toBe("NO");
    guesser.end();
  }
  const busy = await imapStranger(portOf(app));
  // Its reply is slowed down, so that it is under way.
  busy.write(`a LOGIN ${ALICE} guess\r\n`);
  await (await imapStranger(portOf(app))).say("CAPABILITY");
  const stopped = app.server.stop(3_600_000);
  expect(await waiting.line()).toBe("* BYE The server stops");
  expect(await waiting.line()).toBeUndefined();
  const answered = busy.line();
  let isAnswered = false;
  void answered.then(() => {
    isAnswered = true;
  });
  // The server may begin to slow it down only after a step of the clock; in three minutes it ends who has not signed in.
  while (!isAnswered) {
    await app.advance(1);
    await letOthersRun();
  }
  expect(await answered).toStartWith("a NO ");
  expect(await busy.line()).toBe("* BYE The server stops");
  await stopped;
  await expect(imapStranger(portOf(app))).rejects.toThrow();
});

test("a new certificate is shown to new sessions, and those from before go on", async () => {
  const folder = temporaryFolder();
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const put = async () => {
    const { pair } = await makeChain("localhost");
    writeFileSync(cert, pair.cert);
    writeFileSync(key, pair.key);
  };
  await put();
  const app = await boot({ ...IMAPS, MAILROOM_TLS: `files:${cert},${key}` });
  const shown = () =>
    new Promise<string>((resolve, reject) => {
      const socket = connectTls({ host: "127.0.0.1", port: portOf(app), rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      });
      socket.on("error", reject);
    });
  const session = await imapAccount(portOf(app), ALICE, app.owner.apiKey);
  const before = await shown();
  await put();
  while ((await shown()) === before) await app.advance(60_000);
  expect((await session.say("NOOP")).status).toBe("OK");
  session.end();
});

test("a demo has IMAP on ports of its own, unless its environment says otherwise", () => {
  expect(readConfig(demoEnvironment({}))).toMatchObject({
    imap: { host: "127.0.0.1", port: 2143 },
    imaps: { host: "127.0.0.1", port: 2993 },
  });
  expect(readConfig(demoEnvironment({ MAILROOM_IMAP: "off", MAILROOM_IMAPS: "127.0.0.1:0" }))).toMatchObject({
    imap: "off",
    imaps: { port: 0 },
  });
});

test("a standby has no IMAP", async () => {
  const data = temporaryFolder();
  const env = { ...IMAPS, MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_DATA: data };
  const server = await boot(env, undefined, { file: join(data, "mailroom.db") });
  expect(Object.keys(server.ready)).toContain("imaps");
  const standby = await followStopped(server);
  expect(Object.keys(standby.ready)).not.toContain("imap");
  expect(Object.keys(standby.ready)).not.toContain("imaps");
  await standby.stop();
});

test("a standby that becomes the server numbers mail anew, also after a crash on the way", async () => {
  const data = temporaryFolder();
  const server = await boot({ ...IMAPS, MAILROOM_DATA: data }, undefined, { file: join(data, "mailroom.db") });
  const account = await imapAccount(portOf(server), ALICE, server.owner.apiKey);
  const validity = (lines: string[]): number => Number(/UIDVALIDITY (\d+)/.exec(lines.join("\n"))?.[1]);
  const before = validity((await account.say("SELECT INBOX")).untagged);
  account.end();
  await server.server.stop(0);
  const now = server.runtime.now();
  const present = (): number | undefined => {
    const store = openStore({ folder: data, restoring: true, runtime: server.runtime });
    const row = mailFolder(store.db, server.owner.mailboxId, "inbox");
    store.close();
    return row?.uidValidity;
  };
  expect(present()).toBe(before);
  // As after a crash: the database is in its place, and the folder still a standby's.
  writeStandby(data, { place: "s3://bucket/prefix" });
  await turnStandbyIntoServer(data, now);
  expect(readStandby(data)).toBeUndefined();
  const renewed = present();
  expect(renewed).toBeGreaterThan(before);
  // A server's own folder is left alone.
  await turnStandbyIntoServer(data, now + 60_000);
  expect(present()).toBe(renewed);
});
