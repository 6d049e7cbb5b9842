/**
 * A scripted IMAP server: honest with a few messages, unless a test has it answer otherwise, at any command, with any octets.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import type { KeyPair } from "../../../src/tls/certificates.ts";
import { atEndOfFile } from "../end.ts";

/** Lines that go before the tagged OK; `tagged` replaces that. Or a function that writes all by itself. */
export type ImapAnswer =
  | { lines?: readonly string[]; tagged?: string }
  | ((peer: { tag: string; line: string; write: (text: string) => boolean; socket: Socket }) => void);

export interface ImapScript {
  pair: KeyPair;
  /** STARTTLS in place of TLS from the first octet. */
  starttls?: boolean;
  messages?: readonly string[];
  /** In place of the usual greeting. */
  greeting?: string | ((socket: Socket) => void);
  /** Answers by command, such as `UID FETCH`. */
  answers?: Readonly<Record<string, ImapAnswer>>;
}

export interface ImapServer {
  port: number;
  /** Commands as they came, without tags. */
  commands: string[];
  connections: number;
  /** Octets that were taken from it. */
  written(): number;
}

const literal = (text: string): string => `{${Buffer.byteLength(text)}}\r\n${text}`;

export async function startImapServer(script: ImapScript): Promise<ImapServer> {
  const { pair, starttls = false, messages = [], greeting = "* OK ready\r\n", answers = {} } = script;
  const all = messages.map((_, i) => i + 1);
  const capability = `* CAPABILITY IMAP4rev1 COMPRESS=DEFLATE${starttls ? " STARTTLS" : ""}`;
  const fetched = (line: string): string[] =>
    all.map((n) => {
      const text = messages[n - 1] ?? "";
      const id = /^Message-ID:.*\r\n/im.exec(text)?.[0] ?? "";
      if (line.includes("RFC822.SIZE")) {
        return `* ${n} FETCH (UID ${n} RFC822.SIZE ${text.length} BODY[HEADER.FIELDS (MESSAGE-ID)] ${literal(`${id}\r\n`)})`;
      }
      return `* ${n} FETCH (UID ${n} FLAGS (\\Seen) INTERNALDATE "05-Jan-2026 09:00:00 +0000" BODY[] ${literal(text)})`;
    });
  const usual: Record<string, (line: string) => readonly string[]> = {
    CAPABILITY: () => [capability],
    LIST: () => ['* LIST (\\HasNoChildren) "/" INBOX'],
    LSUB: () => [],
    EXAMINE: () => [`* ${messages.length} EXISTS`, "* OK [UIDVALIDITY 1] ok", "* FLAGS ()"],
    "UID SEARCH": () => [`* SEARCH ${all.join(" ")}`],
    "UID FETCH": fetched,
    LOGOUT: () => ["* BYE"],
  };
  const server: ImapServer & { sockets: Set<Socket> } = {
    port: 0,
    commands: [],
    connections: 0,
    sockets: new Set(),
    written: () =>
      [...server.sockets].reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0),
  };

  function speak(socket: Socket, isSecure: boolean): void {
    server.sockets.add(socket);
    socket.on("error", () => {});
    const write = (text: string): boolean => !socket.destroyed && socket.write(text);
    let rest = "";
    const read = (data: Buffer): void => {
      rest += data.toString("latin1");
      for (let end = rest.indexOf("\r\n"); end >= 0; end = rest.indexOf("\r\n")) {
        const [tag = "", ...words] = rest.slice(0, end).split(" ");
        rest = rest.slice(end + 2);
        const name = (words[0]?.toUpperCase() === "UID" ? words.slice(0, 2) : words.slice(0, 1))
          .join(" ")
          .toUpperCase();
        const line = words.join(" ");
        server.commands.push(line);
        const answer = answers[name];
        if (typeof answer === "function") {
          answer({ tag, line, write, socket });
          continue;
        }
        if (name === "STARTTLS" && !answer) {
          write(`${tag} OK go on\r\n`);
          socket.removeListener("data", read);
          speak(new TLSSocket(socket, { isServer: true, ...pair }), true);
          return;
        }
        const lines = answer?.lines ?? usual[name]?.(line);
        const tagged = answer?.tagged ?? (lines || name === "LOGIN" ? "OK done" : "BAD unknown");
        write(`${(lines ?? []).map((one) => `${one}\r\n`).join("")}${tag} ${tagged}\r\n`);
        if (name === "LOGOUT") socket.end();
      }
    };
    socket.on("data", read);
    if (isSecure && starttls) return;
    if (typeof greeting === "function") greeting(socket);
    else write(greeting);
  }

  const begin = (socket: Socket): void => {
    server.connections++;
    speak(socket, !starttls);
  };
  const listener: Server = starttls ? createServer(begin) : createTlsServer(pair, begin);
  await new Promise<void>((resolve) => void listener.listen(0, "127.0.0.1", resolve));
  server.port = (listener.address() as { port: number }).port;
  atEndOfFile(() => {
    for (const socket of server.sockets) socket.destroy();
    listener.close();
  });
  return server;
}

/** Writes a text again and again, as fast as it is taken. */
export function withoutEnd(socket: Socket, text: string): void {
  const chunk = text.repeat(Math.ceil(65_536 / text.length));
  const more = (): void => {
    while (!socket.destroyed && socket.write(chunk));
    socket.once("drain", more);
  };
  more();
}
