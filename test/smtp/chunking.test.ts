/** BDAT (RFC 3030): a message comes in chunks whose sizes alone tell where it ends. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Limits } from "../../src/smtp/server-connection.ts";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { START } from "../harness/runtime.ts";
import { type ListenerOptions, listenAndKeep, listenForMailbox } from "../harness/servers/mx-rig.ts";
import { listenForSubmission } from "../harness/servers/submission-rig.ts";
import { until } from "../harness/until.ts";

const SUBJECT = "Subject: in chunks\r\n\r\n";

async function start(options: ListenerOptions = {}) {
  const rig = await listenAndKeep(options);
  const client = await connectSmtp(rig.address);
  await begin(client);
  return { ...rig, client, contents: () => rig.accepted.map(({ content }) => content) };
}

async function begin(client: SmtpClient): Promise<void> {
  await client.expect(250, "MAIL FROM:<a@remote.example> BODY=8BITMIME");
  await client.expect(250, "RCPT TO:<alice@example.test>");
}

/** Writes a chunk in one packet with its command. */
const chunk = (content: string, last = false): Buffer =>
  Buffer.concat([Buffer.from(`BDAT ${content.length}${last ? " LAST" : ""}\r\n`), Buffer.from(content, "latin1")]);

async function codes(client: SmtpClient, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) found.push((await client.reply()).code);
  return found;
}

test("EHLO offers CHUNKING and LIMITS on both listeners, and no BINARYMIME", async () => {
  const offers = async (address: { host: string; port: number }) => {
    const client = await connectSmtp(address, { ehlo: false });
    const { lines } = await client.command("EHLO client.example");
    client.destroy();
    return lines.filter((line) => /CHUNKING|LIMITS|BINARYMIME/.test(line));
  };
  expect(await offers((await listenAndKeep()).address)).toEqual(["CHUNKING", "LIMITS RCPTMAX=100"]);
  const submission = await listenForSubmission();
  submission.set("sending.maxRecipients", "7");
  expect(await offers(submission.address)).toEqual(["CHUNKING", "LIMITS RCPTMAX=7"]);
});

test("BINARYMIME is refused", async () => {
  const { address } = await listenAndKeep();
  const client = await connectSmtp(address);
  await client.expect(501, "MAIL FROM:<a@remote.example> BODY=BINARYMIME");
});

test("chunks make one message, each with a reply of its own", async () => {
  const { client, contents } = await start();
  client.write(chunk(SUBJECT));
  expect(await client.reply()).toEqual({ code: 250, status: "2.0.0", lines: ["2.0.0 22 octets received"] });
  client.write(chunk("one\r\n"));
  await client.expect(250);
  client.write(chunk("two\r\n", true));
  expect((await client.reply()).lines).toEqual(["2.6.0 msg_1 filed"]);
  expect(contents()).toEqual([`${SUBJECT}one\r\ntwo\r\n`]);
  await begin(client);
  client.write(chunk("another\r\n", true));
  await client.expect(250);
  expect(contents()[1]).toBe("another\r\n");
});

test("a client may take its time again after the last chunk", async () => {
  const { client, runtime } = await start();
  client.write(chunk("one\r\n", true));
  await client.expect(250);
  expect(runtime.nextTimer()).toBe(START + 5 * 60_000);
  runtime.advanceTo(START + 5 * 60_000);
  expect(await client.reply()).toMatchObject({ code: 421, status: "4.4.2" });
});

test("a mailbox gets the same message by BDAT as by DATA", async () => {
  const { address, filed } = await listenForMailbox();
  const client = await connectSmtp(address);
  const message = "Message-ID: <1@remote.example>\r\nSubject: twice\r\n\r\nthe same\r\n";
  expect((await client.deliver({ to: "alice@example.test" }, message.slice(0, -2))).code).toBe(250);
  await begin(client);
  client.write(chunk(message, true));
  await client.expect(250);
  expect(filed().map(({ subject, text }) => [subject, text.trim()])).toEqual([["twice", "the same"]]);
});

test("dots, bare line ends and commands within a chunk are content", async () => {
  const content = "..a\r\n.\r\nMAIL FROM:<smuggled@remote.example>\r\n\n.\n\r.\r\0\xff\r\n.\r\nQUIT\r\n";
  const { client, contents } = await start();
  client.write(chunk(content, true));
  await client.expect(250);
  await client.expect(221, "QUIT");
  expect(contents()).toEqual([content]);
});

test("the last line of a message is whole, as after DATA", async () => {
  const { client, contents } = await start();
  for (const [given, kept] of [
    ["no end", "no end\r\n"],
    ["bare\n", "bare\n\r\n"],
    ["bare\r", "bare\r\r\n"],
    ["whole\r\n", "whole\r\n"],
    ["", ""],
  ] as const) {
    client.write(chunk(given, true));
    await client.expect(250);
    expect(contents().at(-1)).toBe(kept);
    await begin(client);
  }
  await client.expect(250, "RSET");
  client.write(chunk("of no message\r", true));
  await client.expect(503);
  await begin(client);
  client.write(chunk("\n", true));
  await client.expect(250);
  expect(contents().at(-1)).toBe("\n\r\n");
  await begin(client);
  client.write(chunk("cut\r"));
  client.write(chunk("\n"));
  client.write("BDAT 0 LAST\r\n");
  expect(await codes(client, 3)).toEqual([250, 250, 250]);
  expect(contents().at(-1)).toBe("cut\r\n");
});

test("whole sessions in one packet have their replies in order", async () => {
  const { client, contents } = await start();
  const envelope = "MAIL FROM:<b@remote.example>\r\nRCPT TO:<bob@example.test>\r\n";
  client.write(
    Buffer.concat([
      chunk("one "),
      chunk(""),
      chunk("message\r\n", true),
      Buffer.from(envelope),
      chunk("another\r\n", true),
      Buffer.from("QUIT\r\n"),
    ]),
  );
  expect(await codes(client, 7)).toEqual([250, 250, 250, 250, 250, 250, 221]);
  expect(contents()).toEqual(["one message\r\n", "another\r\n"]);
});

test("any chunks in any packets make the message", async () => {
  const { address, accepted } = await listenAndKeep();
  const pieces = fc.array(fc.constantFrom("\r\n", ".", "BDAT 3\r\n", "x", "", "RSET\r\n"), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(pieces, fc.array(fc.nat(400), { maxLength: 8 }), async (chunks, cuts) => {
      const client = await connectSmtp(address);
      await begin(client);
      const bytes = Buffer.concat([
        ...chunks.map((piece) => chunk(piece)),
        chunk("end\r\n", true),
        Buffer.from("NOOP\r\n"),
      ]);
      const positions = [0, ...new Set(cuts.filter((cut) => cut < bytes.length)), bytes.length].sort((a, b) => a - b);
      for (let i = 1; i < positions.length; i++) {
        client.write(bytes.subarray(positions[i - 1], positions[i]));
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(await codes(client, chunks.length + 2)).toEqual(Array(chunks.length + 2).fill(250));
      expect(accepted.at(-1)?.content).toBe(`${chunks.join("")}end\r\n`);
      client.destroy();
    }),
    { numRuns: 60 },
  );
});

describe("out of order", () => {
  test("a chunk without a recipient is discarded, and refused", async () => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    for (const line of [undefined, "MAIL FROM:<a@remote.example>"]) {
      if (line) await client.expect(250, line);
      client.write(Buffer.concat([chunk("QUIT\r\n"), chunk("QUIT\r\n", true), chunk("", true)]));
      expect(await codes(client, 3)).toEqual([503, 503, 503]);
    }
    await client.expect(250, "NOOP");
    expect(accepted).toEqual([]);
  });

  test("DATA, RCPT and MAIL are refused once a chunk has come, and do the message no harm", async () => {
    const { client, accepted } = await start();
    client.write(chunk(SUBJECT));
    await client.expect(250);
    await client.expect(503, "DATA");
    await client.expect(503, "RCPT TO:<bob@example.test>");
    await client.expect(503, "MAIL FROM:<b@remote.example>");
    await client.expect(250, "NOOP");
    client.write(chunk("end\r\n", true));
    await client.expect(250);
    expect(accepted.map(({ envelope, content }) => [envelope.recipients, content])).toEqual([
      [["alice@example.test"], `${SUBJECT}end\r\n`],
    ]);
  });

  test("after DATA and after LAST a chunk belongs to no message", async () => {
    const { client, accepted } = await start();
    await client.expect(354, "DATA");
    client.write("by data\r\n.\r\n");
    await client.expect(250);
    client.write(chunk("more\r\n", true));
    await client.expect(503);
    await begin(client);
    client.write(Buffer.concat([chunk("whole\r\n", true), chunk("more\r\n", true)]));
    expect(await codes(client, 2)).toEqual([250, 503]);
    expect(accepted).toHaveLength(2);
  });

  test.each(["RSET", "EHLO client.example", "HELO client.example"])("%s forgets the chunks", async (command) => {
    const { client, contents, lines } = await start();
    client.write(chunk("of the first"));
    await client.expect(250);
    await client.expect(250, command);
    await begin(client);
    client.write(chunk("the second\r\n", true));
    await client.expect(250);
    await client.expect(250, "NOOP");
    expect(contents()).toEqual(["the second\r\n"]);
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("STARTTLS forgets the chunks, and whatever came with it", async () => {
    const { client, contents } = await start();
    client.write(chunk("before"));
    await client.expect(250);
    client.write(`STARTTLS\r\n${chunk("injected", true)}`);
    await client.expect(220);
    await client.secure();
    await client.expect(250, "EHLO client.example");
    client.write(chunk("QUIT\r\n", true));
    await client.expect(503);
    await begin(client);
    client.write(chunk("after\r\n", true));
    await client.expect(250);
    expect(contents()).toEqual(["after\r\n"]);
  });

  test("QUIT and a lost connection between chunks file nothing", async () => {
    const { address, filed, lines } = await listenForMailbox();
    for (const leave of [
      (client: SmtpClient) => client.expect(221, "QUIT"),
      (client: SmtpClient) => client.destroy(),
    ]) {
      const client = await connectSmtp(address);
      await begin(client);
      client.write(chunk(SUBJECT));
      await client.expect(250);
      await leave(client);
      await client.closed;
    }
    expect(filed()).toEqual([]);
    const outcomes = () => lines.flatMap(({ message, outcome }) => (message === "message" ? [outcome] : []));
    await until(() => outcomes().length === 2);
    expect(outcomes()).toEqual(Array(2).fill("451 4.4.2 Connection was lost"));
  });
});

describe("hostile sizes", () => {
  test.each([
    "BDAT",
    "BDAT LAST",
    "BDAT -1",
    "BDAT 1.5",
    "BDAT 0x10",
    "BDAT 5 LAST now",
    "BDAT 5 FIRST",
    "BDAT 1000000000000000000",
    "BDAT 99999999999999999999999999 LAST",
    "BDAT 5\tLAST",
  ])("%j ends the session, since what follows may be the chunk", async (command) => {
    const { client, accepted } = await start();
    client.write(`${command}\r\nRSET\r\nMAIL FROM:<b@remote.example>\r\n`);
    expect((await client.reply()).lines).toEqual(["5.5.4 BDAT needs the size of the chunk, in bytes"]);
    await client.closed;
    expect(accepted).toEqual([]);
  });

  test("a message that is too large is refused at the chunk that makes it so, and at each that follows", async () => {
    const { address, filed, lines } = await listenForMailbox();
    const client = await connectSmtp(address);
    await begin(client);
    const large = "x".repeat(20_000_000);
    client.write(chunk(large));
    await client.expect(250);
    client.write(chunk(large));
    expect(await client.reply()).toMatchObject({ code: 552, status: "5.3.4" });
    client.write(chunk("more\r\n"));
    await client.expect(552);
    client.write(chunk("the end\r\n", true));
    expect(await client.reply()).toMatchObject({ code: 552, status: "5.3.4" });
    expect(filed()).toEqual([]);
    expect(lines.filter(({ message }) => message === "message")).toMatchObject([
      { outcome: "552 5.3.4 Message is larger than this server takes" },
    ]);
    await begin(client);
    client.write(chunk("small\r\n", true));
    await client.expect(250);
  });

  const PACE_MS = 20_000;
  const LIMITS: Partial<Limits> = { dataMs: 3 * PACE_MS, leastBytes: 1_000, paceMs: PACE_MS };

  test.each([
    ["a chunk that does not come", "BDAT 900000000000 LAST\r\n"],
    ["a next chunk that does not come", chunk("one")],
  ])("%s is waited for no longer than the rest of a message", async (_what, bytes) => {
    const { client, runtime, accepted } = await start({ limits: LIMITS });
    client.write(bytes);
    if (bytes instanceof Buffer) await client.expect(250);
    await until(() => runtime.nextTimer() === START + PACE_MS);
    runtime.advanceTo(START + PACE_MS);
    expect(await client.reply()).toMatchObject({ code: 421, status: "4.4.2" });
    await client.closed;
    expect(accepted).toEqual([]);
  });

  test("a chunk of no message has the time of a command", async () => {
    const { client, runtime } = await start();
    await client.expect(250, "RSET");
    client.write("BDAT 900000000000 LAST\r\nQUIT\r\n");
    for (let minute = 1; minute <= 5; minute++) {
      await new Promise((resolve) => setImmediate(resolve));
      client.write("x".repeat(100_000));
      runtime.advanceTo(START + minute * 60_000);
    }
    expect(await client.reply()).toMatchObject({ code: 421, status: "4.4.2" });
    await client.closed;
  });

  test("chunks that trickle in take no longer than a message by DATA", async () => {
    const { client, runtime, accepted } = await start({ limits: LIMITS });
    for (let span = 1; span <= 3; span++) {
      client.write(chunk("x".repeat(1_100)));
      await client.expect(250);
      runtime.advanceTo(START + span * PACE_MS);
    }
    expect((await client.reply()).code).toBe(421);
    await client.closed;
    expect(accepted).toEqual([]);
  });

  test("small chunks are unproductive commands, chunks of a kilobyte are not", async () => {
    const { client } = await start({ limits: { replies: 20 } });
    for (let i = 0; i < 60; i++) client.write(chunk("x".repeat(1024)));
    expect(await codes(client, 60)).toEqual(Array(60).fill(250));
    client.write(Buffer.concat(Array.from({ length: 60 }, () => chunk("x"))));
    const replies: number[] = [];
    await expect(
      (async () => {
        for (;;) replies.push((await client.reply()).code);
      })(),
    ).rejects.toThrow("closed");
    expect(replies.length).toBeLessThan(20);
    expect(replies.at(-1)).toBe(421);
  });
});

test("a mail app sends chunks once it has signed in", async () => {
  const { address, connectAs, alice, submitted } = await listenForSubmission();
  const plain = await connectSmtp(address);
  plain.write(chunk("x", true));
  await plain.expect(503);
  const client = await connectAs(alice);
  await client.expect(250, "MAIL FROM:<alice@example.test>");
  await client.expect(250, "RCPT TO:<zoe@remote.example>");
  client.write(chunk("From: alice@example.test\r\nTo: zoe@remote.example\r\n"));
  client.write(chunk("Subject: chunked\r\n\r\n.\r\nbare\nend", true));
  expect(await codes(client, 2)).toEqual([250, 250]);
  expect(submitted[0]?.content).toEndWith("Subject: chunked\r\n\r\n.\r\nbare\r\nend\r\n");
  await client.expect(250, "MAIL FROM:<alice@example.test>");
  await client.expect(250, "RCPT TO:<zoe@remote.example>");
  client.write(chunk("From: alice@example.test\r\n\r\na\0b\r\n", true));
  expect(await client.reply()).toMatchObject({ code: 554, status: "5.6.0" });
});
