/** An IMAP client that costs little: so that what is measured is the server. Loopback only: a password in the clear, any certificate. */
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";

export interface ImapClient {
  /** Sends a command and resolves with the whole response. @throws Error unless it ends in OK */
  command(text: string): Promise<string>;
  /** Sends a command and waits for nothing. */
  begin(text: string): void;
  close(): void;
}

/** Logs in. `from`: the address that it connects from. */
export async function imapClient(
  port: number,
  user: string,
  password: string,
  { secure = false, from }: { secure?: boolean; from?: string } = {},
): Promise<ImapClient> {
  const raw = connect({ port, host: "127.0.0.1", ...(from !== undefined && { localAddress: from }) }).setNoDelay(true);
  const socket = secure ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw;
  let tag = 0;
  let received = "";
  let arrived: () => void = () => {};
  let failed: (error: Error) => void = () => {};
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    arrived();
  });
  socket.on("error", (error) => failed(error));
  socket.on("close", () => failed(new Error("IMAP connection closed")));

  /** Resolves with what came when its last line begins with `start`. */
  const ended = (start: string): Promise<string> =>
    new Promise((resolve, reject) => {
      failed = reject;
      arrived = () => {
        if (!received.endsWith("\r\n")) return;
        const last = received.slice(received.lastIndexOf("\n", received.length - 2) + 1);
        if (!last.startsWith(start)) return;
        const all = received;
        received = "";
        if (last.startsWith(`${start} OK`)) resolve(all);
        else reject(new Error(last.trim()));
      };
      arrived();
    });

  async function command(text: string): Promise<string> {
    const name = `t${tag++}`;
    socket.write(`${name} ${text}\r\n`);
    return await ended(name);
  }

  await ended("*");
  await command(`LOGIN ${user} ${password}`);
  return { command, begin: (text) => void socket.write(`t${tag++} ${text}\r\n`), close: () => socket.destroy() };
}
