/** An account to import is on a server that does its worst: what it says has an end, and the password stays here. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { findImapAccountMessages, type ImapRequest } from "../../src/transfer/imap-account.ts";
import { letter } from "../harness/mail/mail.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type ImapScript, type ImapServer, startImapServer, withoutEnd } from "../harness/peers/imap-server.ts";
import { START } from "../harness/runtime.ts";

const HOST = "imap.old.example";
const PASSWORD = "correct-horse";
const MESSAGES = [1, 2, 3].map((n) => letter({ subject: `Message ${n}`, messageId: `<${n}@old.example>` }));
const dns = zone({ [HOST]: { a: ["127.0.0.1"] } });
const MB = 1024 * 1024;

let chain: Awaited<ReturnType<typeof makeChain>>;
beforeAll(async () => {
  chain = await makeChain(HOST);
});

const start = (script: Partial<ImapScript> = {}) =>
  startImapServer({ pair: chain.pair, messages: MESSAGES, ...script });

/** Timers fire at once, except for those that a test sets; time goes on by itself. */
const runtime = {
  dns,
  now: () => Date.now(),
  setTimer: (wake: () => void, ms: number) => {
    const timer = setTimeout(wake, Math.min(ms, 20));
    return () => clearTimeout(timer);
  },
};

async function read(server: Pick<ImapServer, "port">, change: Partial<ImapRequest> = {}, implicitTls = true) {
  const found: string[] = [];
  const request: ImapRequest = {
    account: { host: HOST, port: server.port, user: "ada", password: PASSWORD, implicitTls },
    mostBytes: 1 * MB,
    isKnown: () => false,
    runtime: { ...runtime, authorities: [chain.authority], ...change.runtime },
    log: { debug() {}, info() {}, warn() {}, error() {} } as never,
  };
  for await (const message of findImapAccountMessages(request)) if ("place" in message) found.push(message.place);
  return found;
}

const failureOf = (reading: Promise<unknown>): Promise<{ code?: string; message: string }> =>
  reading.then(
    (found) => ({ message: `it was read: ${JSON.stringify(found)}` }),
    (error) => error,
  );

test("an honest one is read", async () => {
  for (const starttls of [false, true]) {
    expect(await read(await start({ starttls }), {}, !starttls)).toEqual(["message 1", "message 2", "message 3"]);
  }
});

const endlessly =
  (text: string) =>
  ({ socket }: { socket: Parameters<typeof withoutEnd>[0] }) =>
    withoutEnd(socket, text);

describe("what has no end is ended soon", () => {
  test.each<[string, Partial<ImapScript>]>([
    ["a greeting", { greeting: (socket) => withoutEnd(socket, "* OK welcome ") }],
    ["lines before the greeting", { greeting: (socket) => withoutEnd(socket, "* BAD patience\r\n") }],
    ["lines before the answer to CAPABILITY", { answers: { CAPABILITY: endlessly("* OK patience\r\n") } }],
    ["lines in place of the answer to LOGIN", { answers: { LOGIN: endlessly("* OK patience\r\n") } }],
    ["folders", { answers: { LIST: endlessly('* LIST () "/" "One more"\r\n') } }],
    ["a folder's name", { answers: { LIST: endlessly("* LIST () x") } }],
    ["flags of a folder", { answers: { EXAMINE: endlessly("* FLAGS (x)\r\n") } }],
    ["UIDs", { answers: { "UID SEARCH": endlessly("* SEARCH 1 2 3 4 5 6 7 8 9\r\n") } }],
    ["flags of a message", { answers: { "UID FETCH": endlessly("* 1 FETCH (UID 1 FLAGS (a b c d e f g h)) ") } }],
    ["messages nobody asked for", { answers: { "UID FETCH": endlessly("* 9 FETCH (UID 9 RFC822.SIZE 5)\r\n") } }],
  ])(
    "%s",
    async (_, script) => {
      const server = await start(script);
      const { code, message } = await failureOf(read(server));
      expect([code, message]).toEqual(["upstream_failed", expect.stringContaining(`${HOST} does not work: `)]);
      expect(server.written() / server.connections).toBeLessThan(20 * MB);
    },
    120_000,
  );

  test.each<[string, string, string]>([
    ["a literal of 4 GB", "LIST", "* LIST () {4294967296}"],
    ["a literal of more digits than numbers have", "LIST", `* LIST () {${"9".repeat(40)}}`],
    ["4 billion messages", "EXAMINE", "* 4294967295 EXISTS"],
    ["lists in lists", "UID FETCH", `* 1 FETCH ${"(".repeat(50_000)}`],
    ["flags by the thousand", "UID FETCH", `* 1 FETCH (UID 1 FLAGS (${"a ".repeat(60_000)}))`],
  ])(
    "%s",
    async (_, command, line) => {
      const server = await start({ answers: { [command]: { lines: [line] } } });
      const before = process.memoryUsage().rss;
      const { code, message } = await failureOf(read(server));
      expect([code, message]).toEqual(["upstream_failed", expect.stringContaining(`${HOST} does not work: `)]);
      expect(process.memoryUsage().rss - before).toBeLessThan(128 * MB);
    },
    120_000,
  );

  test("all UIDs there are: as many are read as the folder has", async () => {
    const all = '* ESEARCH (TAG "x") UID ALL 1:4294967295';
    expect(await read(await start({ answers: { "UID SEARCH": { lines: [all] } } }))).toHaveLength(MESSAGES.length);
  });

  test("answers that trickle", async () => {
    let now = START;
    const server = await start({
      answers: {
        LIST: ({ write, socket }) => {
          const timer = setInterval(() => {
            now += 60_000;
            write("*");
            if (socket.destroyed) clearInterval(timer);
          }, 5);
        },
      },
    });
    const { message } = await failureOf(read(server, { runtime: { ...runtime, now: () => now } }));
    expect(message).toBe(`${HOST} does not work: its answers come too slowly`);
  });
});

describe("the password stays here", () => {
  const nothingSecret = ({ commands }: ImapServer) => expect(commands.join("\n")).not.toContain(PASSWORD);

  test("where an answer was put in before TLS", async () => {
    const server = await start({
      starttls: true,
      answers: { STARTTLS: ({ tag, write }) => void write(`${tag} OK go on\r\n* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n`) },
    });
    const { code } = await failureOf(read(server, {}, false));
    expect(code).toBe("upstream_failed");
    nothingSecret(server);
  });

  test.each<[string, Partial<ImapScript>]>([
    ["STARTTLS is not offered", { answers: { CAPABILITY: { lines: ["* CAPABILITY IMAP4rev1"] } } }],
    ["STARTTLS is refused", { answers: { STARTTLS: { tagged: "NO not now" } } }],
    ["somebody is signed in already", { greeting: "* PREAUTH welcome\r\n" }],
  ])("where %s", async (_, script) => {
    const server = await start({ starttls: true, ...script });
    expect((await failureOf(read(server, {}, false))).code).toBe("upstream_failed");
    nothingSecret(server);
  });

  test("where the certificate is another's, or of an unknown authority", async () => {
    const other = await makeChain("other.example");
    for (const script of [{ pair: other.pair }, { pair: other.pair, starttls: true }]) {
      const server = await start(script);
      const authorities = [other.authority];
      expect((await failureOf(read(server, {}, !script.starttls))).code).toBe("upstream_failed");
      expect((await failureOf(read(server, { runtime: { ...runtime, authorities } }, !script.starttls))).code).toBe(
        "upstream_failed",
      );
      nothingSecret(server);
    }
  });

  test("where it sends us elsewhere", async () => {
    let isAsked = false;
    const elsewhere = createServer(() => {
      isAsked = true;
    });
    await new Promise<void>((resolve) => void elsewhere.listen(0, "127.0.0.1", resolve));
    const { port } = elsewhere.address() as { port: number };
    const server = await start({
      answers: { LOGIN: { tagged: `NO [REFERRAL imap://ada@127.0.0.1:${port}/] over there` } },
    });
    expect((await failureOf(read(server))).code).toBe("unauthorized");
    expect(isAsked).toBe(false);
    elsewhere.close();
  });
});

test("nothing is unpacked that could unpack to any size", async () => {
  const server = await start();
  await read(server);
  expect(server.commands.filter((line) => line.startsWith("COMPRESS"))).toEqual([]);
});

test("a message nobody asked for is not imported", async () => {
  const stray = '* 9 FETCH (UID 99 FLAGS () INTERNALDATE "05-Jan-2026 09:00:00 +0000" BODY[] {5}\r\nstray)';
  let asked = 0;
  const server = await start({
    answers: {
      "UID FETCH": ({ tag, line, write }) => {
        asked++;
        if (line.includes("RFC822.SIZE")) write("* 1 FETCH (UID 1 RFC822.SIZE 5)\r\n");
        else write(`${stray}\r\n* 1 FETCH (UID 1 FLAGS () BODY[] {5}\r\nhello)\r\n`);
        write(`${tag} OK done\r\n`);
      },
    },
  });
  expect(await read(server)).toEqual(["message 1"]);
  expect(asked).toBe(2);
});

test("a message that comes again, and says something else each time, is imported once", async () => {
  const texts = ["", "BODY[] {5}\r\nfirst", "BODY[] {6}\r\nsecond", "BODY[] {5}\r\nthird"];
  const server = await start({
    messages: MESSAGES.slice(0, 1),
    answers: {
      "UID FETCH": ({ tag, line, write }) => {
        if (line.includes("RFC822.SIZE")) write("* 1 FETCH (UID 1 RFC822.SIZE 5)\r\n");
        else for (const text of texts) write(`* 1 FETCH (UID 1 FLAGS () ${text})\r\n`);
        write(`${tag} OK done\r\n`);
      },
    },
  });
  const found: string[] = [];
  const account = { host: HOST, port: server.port, user: "ada", password: PASSWORD, implicitTls: true };
  const request = {
    ...{ account, mostBytes: 1 * MB, isKnown: () => false },
    runtime: { ...runtime, authorities: [chain.authority] },
    log: { debug() {}, info() {}, warn() {}, error() {} } as never,
  };
  for await (const message of findImapAccountMessages(request))
    if ("place" in message) found.push(message.content.toString());
  // The first says that its flags have changed, and has no text.
  expect(found).toEqual(["", "first"]);
});
