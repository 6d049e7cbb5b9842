/** A scripted SMTP client on a raw socket. Each call is one write of the given bytes. */
import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";

export interface Reply {
  code: number;
  /** The enhanced status code, such as 5.1.1; "" without one. */
  status: string;
  /** Text of each line, without the code. */
  lines: string[];
}

export interface SmtpClient {
  /** Reads the next reply. Rejects when the server closes first. */
  reply(): Promise<Reply>;
  /** Writes bytes; strings as UTF-8. */
  write(data: string | Uint8Array): void;
  /** Writes a line with CRLF and returns its reply. */
  command(line: string): Promise<Reply>;
  /** Does the same, and throws when the reply has another code. */
  expect(code: number, line?: string): Promise<Reply>;
  /** Sends the commands up to DATA, and the message (dots not stuffed) with its end. Returns the last reply. */
  deliver(envelope: { from?: string; to: string | string[] }, message: string): Promise<Reply>;
  /** Does the handshake after the reply to STARTTLS. Accepts any certificate and returns it. */
  secure(): Promise<{ fingerprint: string }>;
  /** Resolves when the server has closed the connection. */
  closed: Promise<void>;
  /** Disconnects without QUIT. */
  destroy(): void;
}

export interface Address {
  host: string;
  port: number;
}

/** Connects, and by default waits for the greeting and sends EHLO. `tls`: from the first byte. `from`: our address. */
export async function connectSmtp(
  address: Address,
  { greet = true, ehlo = true, tls = false, from = "127.0.0.1" } = {},
): Promise<SmtpClient> {
  const client = await openSmtp(address, from);
  if (tls) await client.secure();
  if (greet) await client.expect(220);
  if (greet && ehlo) await client.expect(250, "EHLO client.example");
  return client;
}

async function openSmtp({ host, port }: Address, localAddress: string): Promise<SmtpClient> {
  let socket: Socket | TLSSocket = connect({ port, host, localAddress });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  const ended = Promise.withResolvers<void>();
  const replies: Reply[] = [];
  const waiting: { resolve(reply: Reply): void; reject(error: Error): void }[] = [];
  let gone = false;
  let text = "";
  let lines: string[] = [];

  function take(chunk: Buffer): void {
    text += chunk.toString("utf8");
    for (let end = text.indexOf("\r\n"); end >= 0; end = text.indexOf("\r\n")) {
      const line = text.slice(0, end);
      text = text.slice(end + 2);
      lines.push(line.slice(4));
      if (line[3] === "-") continue;
      const status = /^[245]\.\d{1,3}\.\d{1,3}(?= )/.exec(line.slice(4))?.[0] ?? "";
      const reply = { code: Number(line.slice(0, 3)), status, lines };
      lines = [];
      const next = waiting.shift();
      if (next) next.resolve(reply);
      else replies.push(reply);
    }
  }

  function leave(): void {
    gone = true;
    for (const next of waiting.splice(0)) next.reject(new Error("the server closed the connection"));
    ended.resolve();
  }

  function listen(): void {
    socket.on("data", take);
    socket.on("error", () => {});
    socket.on("close", leave);
  }
  listen();

  const client: SmtpClient = {
    reply() {
      const reply = replies.shift();
      if (reply) return Promise.resolve(reply);
      if (gone) return Promise.reject(new Error("the server closed the connection"));
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    write: (data) => void socket.write(data),
    command(line) {
      client.write(`${line}\r\n`);
      return client.reply();
    },
    async expect(code, line) {
      const reply = line === undefined ? await client.reply() : await client.command(line);
      if (reply.code !== code) throw new Error(`${line ?? "greeting"}: ${reply.code} ${reply.lines.join(" / ")}`);
      return reply;
    },
    async deliver({ from = "sender@remote.example", to }, message) {
      const replies = [await client.command(`MAIL FROM:<${from}>`)];
      for (const recipient of [to].flat()) replies.push(await client.command(`RCPT TO:<${recipient}>`));
      const refused = replies.find(({ code }) => code !== 250);
      if (refused) return refused;
      const ready = await client.command("DATA");
      if (ready.code !== 354) return ready;
      client.write(`${message}\r\n.\r\n`);
      return client.reply();
    },
    async secure() {
      socket.removeListener("data", take);
      socket.removeListener("close", leave);
      const plain = socket;
      const secured = connectTls({ socket: plain, rejectUnauthorized: false });
      await new Promise<void>((resolve, reject) => {
        secured.once("secureConnect", resolve);
        secured.once("error", reject);
      });
      socket = secured;
      listen();
      return { fingerprint: secured.getPeerCertificate().fingerprint256 };
    },
    closed: ended.promise,
    destroy: () => socket.destroy(),
  };
  return client;
}
