/** Remotes that reply out of turn: no reply is taken for that to another command, and no command becomes content. */
import { expect, test } from "bun:test";
import { createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { createLog } from "../../src/base/log.ts";
import { openSmtpSession } from "../../src/smtp/client.ts";
import { makePair, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const LETTER = Buffer.from("From: a@us.test\r\n\r\nText\r\n");
/** More than any socket holds. */
const LARGE = Buffer.concat([LETTER, Buffer.alloc(72 * 280_000, `${"0123456789".repeat(7)}\r\n`)]);

function openTo({ host, port }: { host: string; port: number }) {
  const runtime = fakeRuntime();
  const log = createLog("silent", runtime.now, () => {});
  const tls = { mode: "opportunistic", verify: false, plainIfBroken: false } as const;
  const target = { host: "mx.example.net", address: host, port, tls };
  return openSmtpSession(target, { runtime, hostname: "us.test", log, signal: new AbortController().signal });
}

const to = (recipients: string[], content: Uint8Array = LETTER) => ({
  reversePath: "bounce+1@us.test",
  recipients,
  content,
});

async function sessionWith(script: RemoteScript) {
  const remote = await startRemoteMx(script);
  return { remote, session: await openTo(remote) };
}

/** A server that stops reading at the first bytes of a message and replies to it then; it reads on once `release` is called. */
async function startHasty(answer: string, withTls: boolean, chunking: boolean) {
  const heard: string[] = [];
  const pair = await makePair("mx.example.net");
  let held: Socket | undefined;

  function serve(socket: Socket): void {
    let inMessage = false;
    function answerAhead(): void {
      held = socket;
      socket.pause();
      socket.write(`${answer}\r\n`);
    }
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      heard.push(...chunk.toString("latin1").split("\r\n"));
      if (inMessage) {
        if (!held) answerAhead();
        return;
      }
      for (const [line = ""] of chunk.toString("latin1").matchAll(/^.+$/gm)) {
        if (line.startsWith("EHLO")) {
          const isPlain = withTls && !(socket instanceof TLSSocket);
          const more = `250-${chunking ? "CHUNKING" : "SIZE"}\r\n250 ${isPlain ? "STARTTLS" : "8BITMIME"}\r\n`;
          socket.write(`250-mx.example.net\r\n250-PIPELINING\r\n${more}`);
        } else if (line.startsWith("STARTTLS")) {
          socket.write("220 go ahead\r\n");
          socket.removeAllListeners("data");
          serve(new TLSSocket(socket, { isServer: true, cert: pair.cert, key: pair.key }));
        } else if (line.startsWith("DATA")) {
          inMessage = true;
          socket.write("354 go on\r\n");
        } else if (line.startsWith("BDAT")) {
          inMessage = true;
          answerAhead();
          break;
        } else {
          socket.write("250 ok\r\n");
        }
      }
    });
  }

  const server = createServer((socket) => {
    socket.write("220 mx.example.net\r\n");
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    host: "127.0.0.1",
    port: typeof address === "object" && address ? address.port : 0,
    heard,
    /** Reads the rest, to the end of the connection. */
    async release(): Promise<void> {
      const socket = held;
      if (!socket) throw new Error("no message was begun");
      const gone = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      socket.resume();
      await gone;
      server.close();
    },
  };
}

test.each([
  { answer: "552 5.3.4 too large", withTls: false, kind: "refused", reply: "552 5.3.4 too large" },
  { answer: "552 5.3.4 too large", withTls: true, kind: "refused", reply: "552 5.3.4 too large" },
  { answer: "451 4.3.0 not now", withTls: false, kind: "deferred", reply: "451 4.3.0 not now" },
  {
    answer: "250 2.0.0 fine",
    withTls: false,
    kind: "deferred",
    reply: "mx.example.net [127.0.0.1]: it answered before it had the whole message",
  },
  { answer: "552 5.3.4 too large", withTls: false, chunking: true, kind: "refused", reply: "552 5.3.4 too large" },
  {
    answer: "250 2.0.0 fine",
    withTls: true,
    chunking: true,
    kind: "deferred",
    reply: "mx.example.net [127.0.0.1]: it answered before it had the whole message",
  },
])("a reply in the middle of the message ends the connection: %j", async (given) => {
  const { answer, withTls, chunking = false, kind, reply } = given;
  const remote = await startHasty(answer, withTls, chunking);
  const session = await openTo(remote);
  const { results } = await session.transmit(to(["a@example.net"], LARGE));
  expect(results).toMatchObject([{ kind, reply, hard: false }]);
  expect(session.usable()).toBe(false);
  await session.transmit(to(["b@example.net"]));
  session.close();
  await remote.release();
  expect(remote.heard.filter((line) => /^(?:RSET|QUIT)|<b@/.test(line))).toEqual([]);
});

test.each([{ starttls: false }, { starttls: true }, { starttls: true, chunking: true }])(
  "a large message is taken whole, and another after it: %j",
  async (script) => {
    const { session, remote } = await sessionWith(script);
    for (const content of [LARGE, LETTER]) {
      const { results } = await session.transmit(to(["a@example.net"], content));
      expect(results).toMatchObject([{ kind: "accepted" }]);
    }
    expect(remote.messages.map(({ bytes }) => bytes.length)).toEqual([LARGE.length, LETTER.length]);
    expect(remote.connections).toBe(1);
  },
);

test("a message whose reply came with the 354 counts as not sent", async () => {
  const { session } = await sessionWith({ data: "354 go on\n250 2.0.0 have it already" });
  const { results } = await session.transmit(to(["a@example.net"]));
  expect(results).toMatchObject([{ kind: "deferred", hard: false }]);
  expect(session.usable()).toBe(false);
});

test.each(["250 2.0.0 queued\n250 2.0.0 queued", "250 2.0.0 queued\n250 2.0"])(
  "a surplus reply is not taken for the reply to the next command: %j",
  async (end) => {
    const { session, remote } = await sessionWith({
      end,
      rcpt: ({ address }) => (address === "gone@example.net" ? "550 5.1.1 gone" : undefined),
    });
    expect((await session.transmit(to(["a@example.net"]))).results).toMatchObject([{ kind: "accepted" }]);
    const { results, unstarted } = await session.transmit(to(["gone@example.net", "there@example.net"]));
    // The owner of the session opens another.
    expect(unstarted).toBe(true);
    expect(results).toMatchObject([{ kind: "deferred" }, { kind: "deferred" }]);
    expect(session.usable()).toBe(false);
    await remote.idle();
    expect(remote.commands.filter((line) => /gone@|there@/.test(line))).toEqual([]);
  },
);

test("empty lines between replies do not count as replies", async () => {
  const { session } = await sessionWith({ data: "354 go on\n", end: "\n250 2.0.0 queued\n\n" });
  for (const recipient of ["a@example.net", "b@example.net"]) {
    expect((await session.transmit(to([recipient]))).results).toMatchObject([{ kind: "accepted" }]);
  }
});

test.each([
  "250-mx.example.net\r\n250-SIZE 1\r\n250 AUTH PLAIN\r\n",
  "250 SIZE 1\r\n250 ok\r\n250 ok\r\n354 go on\r\n250 2.0.0 taken\r\n",
])("what somebody puts in behind the reply to STARTTLS counts for nothing: %j", async (put) => {
  const pair = await makePair("mx.example.net");
  const heard: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 mx.example.net\r\n");
    const inPlain = (chunk: Buffer) => {
      if (chunk.toString().startsWith("EHLO")) socket.write("250-mx.example.net\r\n250 STARTTLS\r\n");
      else {
        socket.write(`220 go on\r\n${put}`);
        socket.off("data", inPlain);
        overTls(new TLSSocket(socket, { isServer: true, ...pair }));
      }
    };
    socket.on("data", inPlain);
  });
  const overTls = (socket: TLSSocket) => {
    let inMessage = false;
    socket.on("data", (chunk) => {
      for (const [line] of chunk.toString().matchAll(/^.+$/gm)) {
        heard.push(line.trim());
        const ends = inMessage && line.trim() === ".";
        if (inMessage && !ends) continue;
        inMessage = line.startsWith("DATA");
        socket.write(inMessage ? "354 go on\r\n" : ends ? "550 5.7.1 not this\r\n" : "250 ok\r\n");
      }
    });
  };
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const session = await openTo({ host: "127.0.0.1", port });
  const { results } = await session.transmit(to(["a@example.net"]));
  expect(results).toMatchObject([{ kind: "refused", reply: "550 5.7.1 not this" }]);
  expect(heard.slice(0, 4)).toEqual([
    "EHLO us.test",
    "MAIL FROM:<bounce+1@us.test>",
    "RCPT TO:<a@example.net>",
    "DATA",
  ]);
  session.close();
  server.close();
});
