/** Mail that is refused leaves nothing on the disk: whoever sends it decides how much there is of it. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { countRefusalToTrace } from "../../src/outbound/trace-log.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { boot } from "../harness/servers/boot.ts";
import { testCore } from "../harness/servers/core.ts";

const ALICE = "alice@example.test";

async function open() {
  const folder = temporaryFolder();
  const dns = zone({ "_dmarc.strict.example": { txt: ["v=DMARC1; p=reject"] } });
  const { core, opened, mx } = await boot({ MAILROOM_DATA: folder }, dns);
  const set = (name: string, value: string) => core.store.transact((tx) => core.options.set(tx, name, value));
  /** Sends a message with files of some bytes each. Returns the reply to it. */
  async function send(from: string, files: number): Promise<string> {
    const client = await connectSmtp(mx);
    const parts = Array.from({ length: files }, (_, n) => `--b\r\nContent-Type: a/b\r\n\r\n${from} ${n}`);
    const head = `From: <${from}>\r\nTo: <${ALICE}>\r\nContent-Type: multipart/mixed; boundary=b\r\nMessage-ID: <${files}.${from}>`;
    const { code, lines } = await client.deliver(
      { from, to: ALICE },
      `${head}\r\n\r\n${parts.join("\r\n")}\r\n--b--\r\n`,
    );
    client.destroy();
    return `${code} ${lines.join(" ")}`;
  }
  const blobs = () =>
    readdirSync(join(folder, "blobs"), { recursive: true, encoding: "utf8" }).filter((path) => path.includes("/"));
  const spool = () => readdirSync(join(folder, "spool"));
  return { opened, core, send, set, blobs, spool };
}

test("but for the steps of 500 an hour", () => {
  const core = testCore();
  const { runtime } = core;
  const traced = () => Array.from({ length: 600 }, () => countRefusalToTrace(core)).filter(Boolean).length;
  expect([traced(), traced()]).toEqual([500, 0]);
  runtime.advanceTo(runtime.now() + 3_600_000);
  expect(traced()).toBe(500);
});

test("many tiny files count as what they take of the disk", async () => {
  const { core, send } = await open();
  await send("a@remote.example", 20);
  const { size } = core.store.db.$client.query("SELECT size FROM messages").get() as { size: number };
  expect(size).toBeGreaterThan(16 * 4_000);
});

test("by policy, for want of room, or because nobody is there any more", async () => {
  const { core, send, set, blobs, spool } = await open();
  expect(await send("a@strict.example", 20)).toStartWith("550 5.7.1");
  set("storage.mailboxBytes", "10");
  expect(await send("a@remote.example", 20)).toStartWith("452 4.2.2");
  expect([blobs(), spool()]).toEqual([[], []]);
  set("storage.mailboxBytes", "10000000");
  expect(await send("a@remote.example", 20)).toStartWith("250");
  expect([blobs().length, spool()]).toEqual([20, []]);
  // The same files again are here already.
  expect(await send("a@strict.example", 21)).toStartWith("550 5.7.1");
  expect(await send("a@remote.example", 21)).toStartWith("250");
  expect([blobs().length, spool()]).toEqual([21, []]);
  expect(core.store.db.$client.query("SELECT count(*) AS n FROM messages").get()).toEqual({ n: 2 });
});
