import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { unavailable } from "../../src/base/errors.ts";
import { createMemoryRoom } from "../../src/base/memory.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { openSpool, type Received } from "../../src/smtp/spool.ts";
import { addresses, mailboxes } from "../../src/store/schema.ts";
import { createParserPool } from "../../src/workers/parser-pool.ts";
import { connectSmtp, type Reply, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { listenForMailbox, type MailboxRig, testLog } from "../harness/servers/mx-rig.ts";
import { sharePoisoned } from "../harness/servers/parser.ts";
import { until } from "../harness/until.ts";

const brief = ({ code, status }: Reply): string => `${code} ${status}`;
let count = 0;
const mail = (subject: string, text = "How are you?", ...headers: string[]): string =>
  [
    "From: Zoe <zoe@remote.example>",
    "To: alice@example.test",
    `Subject: ${subject}`,
    `Message-ID: <${++count}@remote.example>`,
    ...headers,
    "",
    text,
  ].join("\r\n");

const spooled = ({ folder }: MailboxRig): string[] => readdirSync(join(folder, "spool"));
const logged = ({ lines }: MailboxRig) => lines.filter(({ message }) => message === "message");
const events = ({ store }: MailboxRig) => store.db.query.events.findMany().sync();

async function open(options?: Parameters<typeof listenForMailbox>[0]): Promise<MailboxRig & { client: SmtpClient }> {
  const rig = await listenForMailbox(options);
  return { ...rig, client: await connectSmtp(rig.address) };
}

async function recipients(client: SmtpClient, from: string, ...to: string[]): Promise<string[]> {
  await client.expect(250, `MAIL FROM:${from}`);
  const replies: string[] = [];
  for (const recipient of to) replies.push(brief(await client.command(`RCPT TO:<${recipient}>`)));
  await client.expect(250, "RSET");
  return replies;
}

describe("recipients", () => {
  test("known ones are accepted; unknown ones and other domains are refused", async () => {
    const { client } = await open();
    const table: [recipient: string, reply: string][] = [
      ["alice@example.test", "250 2.1.5"],
      ["ALICE@Example.TEST", "250 2.1.5"],
      ["alice+tag@example.test", "250 2.1.5"],
      ["sales@example.test", "250 2.1.5"],
      ["anybody@other.test", "250 2.1.5"],
      ["postmaster", "250 2.1.5"],
      ["Postmaster", "250 2.1.5"],
      ["postmaster@example.test", "250 2.1.5"],
      ["abuse@example.test", "250 2.1.5"],
      ["@relay.example:alice@example.test", "250 2.1.5"],
      ["nobody@example.test", "550 5.1.1"],
      ["nobody.@example.test", "550 5.1.1"],
      [`${"n".repeat(65)}@example.test`, "550 5.1.1"],
      ["nobody.@elsewhere.example", "550 5.7.1"],
      ["someone@elsewhere.example", "550 5.7.1"],
      ["alice@sub.example.test", "550 5.7.1"],
      ["alice%elsewhere.example@example.test", "550 5.1.1"],
      ["alice@[127.0.0.1]", "550 5.7.1"],
      ["alice", "501 5.1.3"],
      ["", "501 5.1.3"],
      ["alice@", "501 5.1.3"],
    ];
    const given = table.map(([recipient]) => recipient);
    expect(await recipients(client, "<zoe@remote.example>", ...given)).toEqual(table.map(([, reply]) => reply));
    expect(await recipients(client, "<>", "alice@example.test")).toEqual(["250 2.1.5"]);
    client.destroy();
  });

  test("a quoted local part may hold characters that otherwise end an address", async () => {
    const { client, store } = await open();
    const [alice] = store.db.select().from(addresses).where(eq(addresses.address, "alice@example.test")).all();
    store.transact((tx) => {
      for (const address of ['"john doe"@example.test', '"j@d>"@example.test']) {
        tx.insert(addresses)
          .values({ ...(alice as NonNullable<typeof alice>), address, kind: "alias" })
          .run();
      }
    });
    const table: [recipient: string, reply: string][] = [
      ['"john doe"@example.test', "250 2.1.5"],
      ['"John\\ Doe"@EXAMPLE.test', "250 2.1.5"],
      ['@relay.example:"john doe"@example.test', "250 2.1.5"],
      ['"j@d>"@example.test', "250 2.1.5"],
      ['"alice"@example.test', "250 2.1.5"],
      ['"jane doe"@example.test', "550 5.1.1"],
      ['"alice@example.test"@elsewhere.example', "550 5.7.1"],
      ['"john doe"', "501 5.1.3"],
      ["john doe@example.test", "501 5.1.3"],
      ['"a"b"@example.test', "550 5.1.1"],
      ['"john doe"@example.test> <x', "555 5.5.4"],
    ];
    const given = table.map(([recipient]) => recipient);
    const replies = await recipients(client, '<"zoe z"@remote.example> SIZE=9 BODY=8BITMIME', ...given);
    expect(replies).toEqual(table.map(([, reply]) => reply));
    client.destroy();
  });

  test("a mailbox over its quota, already or by the declared size, is refused; postmaster is exempt", async () => {
    const { client, store } = await open();
    const full = "full@example.test";
    expect(await recipients(client, "<z@remote.example> SIZE=1000", full)).toEqual(["250 2.1.5"]);
    expect(await recipients(client, "<z@remote.example> SIZE=1001", full)).toEqual(["452 4.2.2"]);
    expect((await client.deliver({ to: full }, mail("big", "x".repeat(800)))).code).toBe(250);
    expect(await recipients(client, "<z@remote.example> SIZE=500", full)).toEqual(["452 4.2.2"]);
    expect(await recipients(client, "<z@remote.example>", full)).toEqual(["250 2.1.5"]);

    store.transact((tx) => tx.update(mailboxes).set({ quotaBytes: 0 }).run());
    expect(
      await recipients(client, "<z@remote.example>", full, "alice@example.test", "postmaster@example.test"),
    ).toEqual(["452 4.2.2", "452 4.2.2", "250 2.1.5"]);
    client.destroy();
  });

  test("while the disk has little room, mail to postmaster and abuse is within the quota, too", async () => {
    const { client, store } = await open();
    const roles = ["postmaster", "postmaster@example.test", "abuse@example.test"];
    const answers = () => recipients(client, "<z@remote.example> SIZE=2000", ...roles);
    store.isDiskLow = () => true;
    expect(await answers()).toEqual(roles.map(() => "250 2.1.5"));
    store.transact((tx) => tx.update(mailboxes).set({ quotaBytes: 1000 }).run());
    expect(await answers()).toEqual(roles.map(() => "452 4.2.2"));
    // The size was not declared.
    const sent = await client.deliver({ to: "postmaster@example.test" }, mail("Large", "x".repeat(2000)));
    expect(brief(sent)).toBe("452 4.2.2");
    store.isDiskLow = () => false;
    expect(await answers()).toEqual(roles.map(() => "250 2.1.5"));
    client.destroy();
  });
});

describe("filing", () => {
  test("is done when the 250 is sent, which names the emailId", async () => {
    const rig = await open();
    const reply = await rig.client.deliver({ to: "alice@example.test" }, mail("Hello", "Bonjour"));
    const [message] = rig.filed();
    expect(reply.lines).toEqual([`2.6.0 ${message?.id} filed`]);
    expect(message).toMatchObject({
      mailbox: "alice@example.test",
      receivedOn: "alice@example.test",
      subject: "Hello",
      text: "Bonjour",
    });
    expect(events(rig).map(({ event }) => event)).toEqual(["message.inbound"]);
    rig.client.destroy();
  });

  test("each mailbox gets one copy, on the first recipient that reached it", async () => {
    const rig = await open();
    const to = ["nobody+x@other.test", "sales+spring@example.test", "alice@example.test", "bob@example.test"];
    const reply = await rig.client.deliver({ to }, mail("Everybody"));
    expect(reply.lines[0]).toMatch(/^2\.6\.0 msg_\w+ and 2 more filed$/);
    expect(rig.filed().map(({ mailbox, receivedOn }) => [mailbox, receivedOn])).toEqual([
      ["carol@other.test", "nobody@other.test"],
      ["alice@example.test", "sales@example.test"],
      ["bob@example.test", "bob@example.test"],
    ]);
    expect(events(rig)).toHaveLength(3);
    rig.client.destroy();
  });

  test("a retry of the same message is accepted and files nothing", async () => {
    const rig = await open();
    const message = mail("Once");
    const first = await rig.client.deliver({ to: "alice@example.test" }, message);
    const again = await rig.client.deliver({ to: "alice@example.test" }, `Received: from elsewhere\r\n${message}`);
    expect(again).toEqual(first);
    expect(rig.filed()).toHaveLength(1);
    expect(events(rig)).toHaveLength(1);
    expect(logged(rig).map(({ outcome }) => outcome)).toEqual(["filed", "duplicate"]);
    rig.client.destroy();
  });

  test("a large message whose copies are not all filed is refused for now, and the retry files the others once", async () => {
    const rig = await open();
    const { enqueue } = rig.store;
    let filings = 0;
    // Each copy is filed in a transaction of its own, of which the second fails.
    rig.store.enqueue = (work, bytes = 0) =>
      bytes > 0 && ++filings === 2 ? Promise.reject(unavailable("full")) : enqueue(work, bytes);
    const message = mail("large", "The same line of a large message.\r\n".repeat(150_000));
    const to = ["alice@example.test", "bob@example.test", "carol@other.test"];
    expect(brief(await rig.client.deliver({ to }, message))).toBe("452 4.3.1");
    expect(rig.filed().map(({ mailbox }) => mailbox)).toEqual(["alice@example.test"]);
    const again = await rig.client.deliver({ to }, message);
    expect(again.code).toBe(250);
    expect(rig.filed().map(({ mailbox }) => mailbox)).toEqual(to);
    expect(events(rig)).toHaveLength(3);
    expect(filings).toBe(5);
  });

  test("a message that fits one of its recipients is kept for all, one that fits none is refused", async () => {
    const rig = await open();
    const long = "x".repeat(1_500);
    expect(brief(await rig.client.deliver({ to: "full@example.test" }, mail("none", long)))).toBe("452 4.2.2");
    expect(rig.filed()).toEqual([]);
    const both = await rig.client.deliver({ to: ["full@example.test", "bob@example.test"] }, mail("one", long));
    expect(both.code).toBe(250);
    expect(rig.filed().map(({ mailbox }) => mailbox)).toEqual(["full@example.test", "bob@example.test"]);
    rig.client.destroy();
  });

  test("a mailbox that was removed after RCPT is skipped", async () => {
    const rig = await open();
    await rig.client.expect(250, "MAIL FROM:<z@remote.example>");
    await rig.client.expect(250, "RCPT TO:<bob@example.test>");
    await rig.client.expect(354, "DATA");
    rig.store.transact((tx) => tx.delete(mailboxes).run());
    expect(brief(await rig.client.command(`${mail("late")}\r\n.`))).toBe("550 5.1.1");
    rig.client.destroy();
  });

  test("a message that is too large is refused after DATA as well, and the session goes on", async () => {
    const rig = await open();
    rig.set("smtp.maxMessageBytes", "400000");
    for (const size of [400_001, 3_000_000]) {
      const reply = await rig.client.deliver({ to: "alice@example.test" }, mail("large", "x".repeat(size)));
      expect(brief(reply)).toBe("552 5.3.4");
      expect(spooled(rig)).toEqual([]);
    }
    expect((await rig.client.deliver({ to: "alice@example.test" }, mail("small"))).code).toBe(250);
    expect(rig.filed().map(({ subject }) => subject)).toEqual(["small"]);
    rig.client.destroy();
  });

  test("a large message goes through a file, unchanged", async () => {
    const rig = await open();
    const text = Array.from({ length: 40_000 }, (_, i) => `.line ${i} of a long letter`).join("\r\n");
    const stuffed = mail("long", text.replace(/^\./gm, ".."));
    expect((await rig.client.deliver({ to: "alice@example.test" }, stuffed)).code).toBe(250);
    expect(rig.filed()[0]?.text).toBe(text.replaceAll("\r\n", "\n"));
    expect(spooled(rig)).toEqual([]);
    rig.client.destroy();
  });

  test("a loop ends after 100 hops", async () => {
    const rig = await open();
    const hops = (count: number) =>
      Array.from({ length: count }, (_, i) => `rEceived: from h${i}.example\r\n\tby next`);
    expect((await rig.client.deliver({ to: "alice@example.test" }, mail("100", "x", ...hops(100)))).code).toBe(250);
    const looping = await rig.client.deliver({ to: "alice@example.test" }, mail("101", "x", ...hops(101)));
    expect(brief(looping)).toBe("554 5.4.6");
    const quoted = mail("quoted", hops(150).join("\r\n"));
    expect((await rig.client.deliver({ to: "alice@example.test" }, quoted)).code).toBe(250);
    rig.client.destroy();
  });

  test("each message has one log line, without recipients or bodies", async () => {
    const rig = await open();
    const message = mail("Secret subject", "Secret body");
    await rig.client.deliver({ to: ["alice@example.test", "bob@example.test"] }, message);
    expect(logged(rig)).toEqual([
      {
        time: expect.any(String),
        level: "info",
        message: "message",
        trace: expect.stringMatching(/^[\w-]{12}$/),
        ip: "127.0.0.1",
        helo: "client.example",
        tls: false,
        reversePath: "sender@remote.example",
        recipients: 2,
        size: message.length + 2,
        auth: { spf: "none", dkim: "none", dmarc: "none" },
        outcome: "filed",
        ms: 0,
      },
    ]);
    expect(JSON.stringify(rig.lines)).not.toMatch(/Secret|alice|bob/);
    rig.client.destroy();
  });
});

describe("failures", () => {
  test("a busy store is 452, nothing is stored, and the retry succeeds", async () => {
    const rig = await open();
    const other = new Database(join(rig.folder, "mailroom.db"));
    const message = mail("patience");
    other.exec("BEGIN IMMEDIATE");
    const refused = await rig.client.deliver({ to: ["alice@example.test", "bob@example.test"] }, message);
    expect(brief(refused)).toBe("452 4.3.1");
    expect(rig.filed()).toEqual([]);
    other.exec("ROLLBACK");
    other.close();
    expect((await rig.client.deliver({ to: ["alice@example.test", "bob@example.test"] }, message)).code).toBe(250);
    expect(rig.filed()).toHaveLength(2);
    rig.client.destroy();
  });

  test("a fault of ours is 451, without details", async () => {
    const rig = await open();
    rig.store.transact((tx) => tx.run("DROP TABLE message_bodies"));
    const reply = await rig.client.deliver({ to: "alice@example.test" }, mail("unlucky"));
    expect(reply).toMatchObject({ code: 451, lines: ["4.3.0 Local error, try again later"] });
    expect(rig.store.db.query.messages.findMany().sync()).toEqual([]);
    expect(rig.lines.filter(({ level }) => level === "error")).toHaveLength(1);
    rig.client.destroy();
  });

  test("a client that leaves half-way leaves nothing behind", async () => {
    const rig = await open();
    await rig.client.expect(250, "MAIL FROM:<z@remote.example>");
    await rig.client.expect(250, "RCPT TO:<alice@example.test>");
    await rig.client.expect(354, "DATA");
    rig.client.write(mail("half", "x".repeat(600_000)));
    await until(() => spooled(rig).length === 1);
    rig.client.destroy();
    await until(() => logged(rig).length === 1);
    expect(logged(rig)[0]).toMatchObject({ outcome: "451 4.4.2 Connection was lost", recipients: 1 });
    expect(spooled(rig)).toEqual([]);
    expect(rig.filed()).toEqual([]);
  });

  describe("a message that no parser can read", () => {
    const ZONE: Zone = {
      "_dmarc.strict.example": { txt: ["v=DMARC1; p=reject"] },
      "_dmarc.careful.example": { txt: ["v=DMARC1; p=quarantine"] },
    };
    const openPoisoned = () =>
      open({
        runtime: fakeRuntime({ dns: zone(ZONE) }),
        parser: ({ blobFolder, runtime }) => {
          const { log } = testLog(runtime);
          const names = createDnsCache(runtime);
          return createParserPool({ blobFolder, names, runtime, log, workers: 1, start: sharePoisoned });
        },
      });
    /** Between two looks of the pool at a busy parser. */
    const LOOK_MS = 50;
    const last = ({ store }: MailboxRig) => store.db.query.messages.findMany().sync().at(-1);

    test("is filed with its original attached, and authenticated", async () => {
      const rig = await openPoisoned();
      expect((await rig.client.deliver({ to: "alice@example.test" }, mail("fine"))).code).toBe(250);
      for (const [before, poison] of ["hang", "exit"].entries()) {
        const message = mail(poison, "evil", `X-Poison: ${poison}`);
        // The last look at the message before.
        rig.runtime.advanceTo(rig.runtime.now() + LOOK_MS);
        const reply = rig.client.deliver({ from: "evil@remote.example", to: "bob@example.test" }, message);
        if (poison === "hang") {
          // Alone, it has ten seconds, and two looks at the parser to end.
          await until(() => rig.runtime.timers().includes(rig.runtime.now() + LOOK_MS));
          rig.runtime.advanceTo(rig.runtime.now() + 10_000 + 2 * LOOK_MS);
        }
        expect((await reply).code).toBe(250);
        const filed = rig.filed().at(-1);
        expect(filed).toMatchObject({
          mailbox: "bob@example.test",
          text: expect.stringContaining("could not be read"),
        });
        const row = last(rig);
        const all = rig.store.db.query.attachments.findMany().sync();
        const [attachment, ...others] = all.filter(({ messageSeq }) => messageSeq === row?.seq);
        expect(others).toEqual([]);
        expect(attachment).toMatchObject({ filename: "original.eml", contentType: "message/rfc822", inline: false });
        expect(await (await rig.store.blobs.file(attachment?.blob ?? "")).text()).toBe(`${message}\r\n`);
        expect(row).toMatchObject({
          from: { email: "evil@remote.example" },
          folder: "inbox",
          auth: { spf: "none", dkim: "none", dmarc: "none" },
        });
        const found = "SELECT count(*) AS count FROM message_index WHERE message_index MATCH ?";
        for (const words of ["sender:evil", "body:attached", "files:original"]) {
          expect(rig.store.db.$client.query(found).get(words)).toEqual({ count: before + 1 });
        }
        if (poison === "hang")
          expect((await rig.client.deliver({ to: "bob@example.test" }, mail("next"))).code).toBe(250);
      }
      rig.client.destroy();
    });

    test("does not get around DMARC, by its From or by the reverse-path that is shown as its author", async () => {
      const rig = await openPoisoned();
      const send = async (from: string, shown: string) => {
        const message = mail("evil", "evil", "X-Poison: exit").replace("zoe@remote.example", shown);
        return brief(await rig.client.deliver({ from, to: "bob@example.test" }, message));
      };
      expect(await send("evil@remote.example", "ceo@strict.example")).toBe("550 5.7.1");
      expect(await send("ceo@strict.example", "zoe@remote.example")).toBe("550 5.7.1");
      expect(await send("evil@remote.example", "ceo@str\u00adict.example")).toBe("550 5.7.1");
      expect(await send("ceo@str\u00adict.example", "zoe@remote.example")).toBe("550 5.7.1");
      expect(rig.filed()).toEqual([]);
      expect(await send("evil@remote.example", "ceo@careful.example")).toBe("250 2.6.0");
      expect(last(rig)).toMatchObject({ folder: "spam", auth: { dmarc: "fail" } });
      expect(await send("ceo@pl\u00adain.example", "zoe@remote.example")).toBe("250 2.6.0");
      expect(last(rig)).toMatchObject({ folder: "spam", from: { email: "ceo@plain.example" } });
      rig.client.destroy();
    });

    test("is spam when it cannot be authenticated either", async () => {
      const rig = await openPoisoned();
      const message = mail("evil", "evil", "X-Poison: always");
      expect((await rig.client.deliver({ from: "a@remote.example", to: "bob@example.test" }, message)).code).toBe(250);
      const verdicts = { spf: "permerror", dkim: "permerror", dmarc: "permerror" };
      expect(last(rig)).toMatchObject({ folder: "spam", auth: verdicts });
      expect(events(rig).map(({ data }) => data)).toMatchObject([{ isSpam: true }]);
      rig.client.destroy();
    });
  });
});

describe("the spool", () => {
  const content = async function* (...chunks: string[]) {
    for (const chunk of chunks) yield new Uint8Array(Buffer.from(chunk));
  };

  test("begins empty", async () => {
    const folder = join(temporaryFolder(), "spool");
    mkdirSync(folder);
    writeFileSync(join(folder, "1.eml"), "left by a crash");
    const spool = openSpool(folder);
    expect(readdirSync(folder)).toEqual([]);
    expect(await spool.receive(content("x"), 10)).toMatchObject({ size: 1, hops: 0, tooLarge: false });
  });

  test("keeps small messages in memory and large ones in files, until it disposes of them", async () => {
    const folder = join(temporaryFolder(), "spool");
    const spool = openSpool(folder);
    const small = await spool.receive(content("Subject: a\r\n", "\r\nb"), 1e6);
    expect(small.source).toEqual(new Uint8Array(Buffer.from("Subject: a\r\n\r\nb")));
    const parts = Array.from({ length: 10 }, (_, i) => String(i).repeat(50_000));
    const large = await spool.receive(content(...parts), 1e6);
    expect(readFileSync(large.source as string, "latin1")).toBe(parts.join(""));
    await large.dispose();
    await large.dispose();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("keeps many small messages in files once the memory for them is used up", async () => {
    const spool = openSpool(join(temporaryFolder(), "spool"));
    const received: Received[] = [];
    for (let i = 0; i < 200; i++) received.push(await spool.receive(content("x".repeat(200_000)), 1e6));
    const inFiles = () => received.filter(({ source }) => typeof source === "string").length;
    expect(inFiles()).toBeGreaterThan(20);
    expect(inFiles()).toBeLessThan(180);
    await Promise.all(received.map(({ dispose }) => dispose()));
    expect(typeof (await spool.receive(content("x"), 1e6)).source).toBe("object");
  });

  test("reads large messages back into memory only as far as there is room for them", async () => {
    const spool = openSpool(join(temporaryFolder(), "spool"), createMemoryRoom(1e7));
    const received = await Promise.all([6e6, 5e6, 10].map((size) => spool.receive(content("x".repeat(size)), 1e7)));
    const read: number[] = [];
    const [first, second, small] = received.map(async (message) => read.push((await message.read()).byteLength));
    await Promise.all([first, small]);
    expect(read.sort()).toEqual([10, 6e6]);
    await received[0]?.dispose();
    await second;
    expect(read).toEqual([10, 6e6, 5e6]);
    await Promise.all(received.map(({ dispose }) => dispose()));
  });

  test("reports a failing disk only after the last byte", async () => {
    const folder = join(temporaryFolder(), "spool");
    const spool = openSpool(folder);
    writeFileSync(join(folder, "1.eml"), "in the way");
    let ended = false;
    const source = async function* () {
      for (let i = 0; i < 10; i++) yield new Uint8Array(100_000);
      ended = true;
    };
    expect(await spool.receive(source(), 1e7).catch((error) => error.code)).toBe("EEXIST");
    expect(ended).toBe(true);
  });

  test("counts hops in a header cut into any chunks", async () => {
    const spool = openSpool(join(temporaryFolder(), "spool"));
    const header = "Received: a\r\n\tReceived: folded\r\nX-Received: b\r\nRECEIVED: c\r\n\r\nReceived: body\r\n";
    expect((await spool.receive(content(header), 1e6)).hops).toBe(2);
    expect((await spool.receive(content(...header), 1e6)).hops).toBe(2);
    expect((await spool.receive(content("Received: a\nreceived: b\n\nReceived: c\n"), 1e6)).hops).toBe(2);
  });
});
