/** Clients that end their side of the connection behind their last command, as Exim does behind QUIT, and wait for replies. */
import { expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { START } from "../harness/runtime.ts";
import { listenAndKeep } from "../harness/servers/mx-rig.ts";
import { until } from "../harness/until.ts";

type Way = "plain" | "STARTTLS" | "implicit TLS";

/** Starts a listener that files a message once `release` is called. */
async function start(way: Way) {
  const filing = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const accepted: { content: string }[] = [];
  const rig = await listenAndKeep({
    implicitTls: way === "implicit TLS",
    async accept(_envelope, content) {
      const chunks: Uint8Array[] = [];
      begun.resolve();
      for await (const chunk of content) chunks.push(chunk);
      await filing.promise;
      accepted.push({ content: Buffer.concat(chunks).toString() });
      return { emailIds: ["msg_1"], isReport: false };
    },
  });
  const client = await open(rig.address, way);
  return { ...rig, ...client, kept: accepted, begun: begun.promise, release: () => filing.resolve() };
}

async function open({ host, port }: { host: string; port: number }, way: Way) {
  let socket: Socket = connect({ host, port, allowHalfOpen: true });
  const closed = Promise.withResolvers<void>();
  let text = "";
  const codes = () => [...text.matchAll(/^(\d{3}) /gm)].map(([, code]) => Number(code));
  const hear = (on: Socket) => {
    socket = on;
    on.on("data", (bytes: Buffer) => {
      text += bytes.toString();
    });
    on.on("error", () => {});
    on.on("close", () => closed.resolve());
  };
  const secure = async () => {
    socket.removeAllListeners();
    const secured = connectTls({ socket, rejectUnauthorized: false });
    await new Promise<void>((resolve) => secured.once("secureConnect", resolve));
    secured.allowHalfOpen = true;
    hear(secured);
  };
  const say = async (line: string, replies: number) => {
    const before = codes().length;
    socket.write(line);
    await until(() => codes().length === before + replies);
  };
  hear(socket);
  if (way === "implicit TLS") await secure();
  await until(() => codes().length === 1);
  await say("EHLO client.example\r\n", 1);
  if (way === "STARTTLS") {
    await say("STARTTLS\r\n", 1);
    await secure();
    await say("EHLO client.example\r\n", 1);
  }
  /** Resolves when the listener has had the time to see the end: it is in this process. */
  async function end(bytes: string): Promise<void> {
    await new Promise<void>((resolve) => socket.end(bytes, () => resolve()));
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  return { codes, say, closed: closed.promise, end };
}

const ENVELOPE = "MAIL FROM:<a@remote.example>\r\nRCPT TO:<alice@example.test>\r\n";
const MESSAGE = "Subject: x\r\n\r\nhello\r\n";

test.each<[way: Way, by: "DATA" | "BDAT"]>([
  ["plain", "DATA"],
  ["plain", "BDAT"],
  ["STARTTLS", "DATA"],
  ["STARTTLS", "BDAT"],
  ["implicit TLS", "DATA"],
])("%s, %s: the replies come after the end, and then the connection closes", async (way, by) => {
  const { say, end, codes, closed, release, kept, begun } = await start(way);
  await say(ENVELOPE, 2);
  if (by === "DATA") await say("DATA\r\n", 1);
  await end(by === "DATA" ? `${MESSAGE}.\r\nQUIT\r\n` : `BDAT ${MESSAGE.length} LAST\r\n${MESSAGE}QUIT\r\n`);
  await begun;
  release();
  await closed;
  expect(codes().slice(-2)).toEqual([250, 221]);
  expect(kept).toEqual([{ content: MESSAGE }]);
});

test("the reply comes without QUIT, too", async () => {
  const { say, end, codes, closed, release } = await start("plain");
  await say(ENVELOPE, 2);
  await say("DATA\r\n", 1);
  await end(`${MESSAGE}.\r\n`);
  release();
  await closed;
  expect(codes().at(-1)).toBe(250);
});

test.each([
  ["DATA\r\n", MESSAGE],
  ["", `BDAT 100 LAST\r\n${MESSAGE}`],
  ["", `BDAT ${MESSAGE.length}\r\n${MESSAGE}`],
])("a message that ends too early is not accepted, and the connection closes at once: %j %j", async (data, rest) => {
  const { say, end, closed, release, kept, runtime, lines } = await start("plain");
  await say(ENVELOPE, 2);
  if (data) await say(data, 1);
  release();
  await end(rest);
  await closed;
  expect(kept).toEqual([]);
  expect(runtime.now()).toBe(START);
  expect(lines.filter(({ level }) => level === "error")).toEqual([]);
});

test("a client that ends between commands is gone at once", async () => {
  const { end, closed, runtime } = await start("plain");
  await end("");
  await closed;
  expect(runtime.nextTimer()).toBeUndefined();
});
