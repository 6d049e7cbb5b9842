/**
 * A scripted remote mail server: a raw SMTP server on any loopback address, which replies to each command as the test says,
 * keeps the mail, and can make a client wait.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { ANY_TLS, type TlsPolicies } from "../../../src/authentication/tls-policy.ts";
import { createLog } from "../../../src/base/log.ts";
import type { Options } from "../../../src/store/settings.ts";
import type { Store } from "../../../src/store/store.ts";
import { type KeyPair, openCertificates } from "../../../src/tls/certificates.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { fakeRuntime } from "../runtime.ts";
import { whenChanged } from "../until.ts";

/** Settings by which an operator has mail delivered to remotes: their port, and loopback, where they are. */
export const settingsFor = ({ port }: { port: number | undefined }) => ({
  "smtp.outboundPort": String(port),
  "smtp.allowNetworks": "127.0.0.0/8",
});

/** Has an appliance deliver mail to remotes of this port. */
export function deliverTo(
  remote: { port: number | undefined },
  { store, options }: { store: Pick<Store, "transact">; options: Pick<Options, "set"> },
): void {
  const settings = Object.entries(settingsFor(remote));
  store.transact((tx) => {
    for (const [name, value] of settings) options.set(tx, name, value);
  });
}

/** Domains without a policy for TLS. */
export const OPPORTUNISTIC: TlsPolicies = { of: async () => async () => ANY_TLS, close() {} };

/** The context of a command. */
export interface About {
  /** The address of MAIL and RCPT, without angle brackets; the first accepted recipient for DATA and its end; else "". */
  address: string;
  /** Count of this command with this address, over all connections, with this one. */
  attempt: number;
  /** Number of the connection, from 1. */
  connection: number;
}

/** Ends the connection instead of replying. */
export const HANG_UP = "hang up";

type CommandName = "greeting" | "ehlo" | "mail" | "rcpt" | "data" | "end" | "rset" | "quit";

/**
 * A reply, such as `450 4.2.0 later`, or several lines with LF between them, each with its code; HANG_UP; or undefined for the
 * usual reply. A promise makes the client wait until it resolves. A 421 closes the connection (RFC 5321 §3.8).
 */
type Answer = string | undefined;
export type Answers = Answer | ((about: About) => Answer | Promise<Answer>);

export interface RemoteScript {
  /** 127.0.0.1 */
  host?: string;
  /** 0 for a free one. */
  port?: number;
  /** The name in its greeting. */
  name?: string;
  greeting?: Answers;
  ehlo?: Answers;
  mail?: Answers;
  rcpt?: Answers;
  /** The reply to DATA. */
  data?: Answers;
  /** The reply to the message. */
  end?: Answers;
  rset?: Answers;
  quit?: Answers;
  /**
   * STARTTLS, not offered by default. `refused` replies 454, `broken` agrees and then does not speak TLS, `silent` agrees and
   * then writes nothing.
   */
  starttls?: boolean | "refused" | "broken" | "silent";
  /** TLS from the first byte. */
  implicitTls?: boolean;
  pair?: KeyPair;
  /** On by default. */
  pipelining?: boolean;
  eightBitMime?: boolean;
  smtputf8?: boolean;
  /** Both off by default. */
  dsn?: boolean;
  chunking?: boolean;
  /** Bytes, offered as SIZE. */
  size?: number;
  /** Offers AUTH PLAIN and LOGIN, and requires them before MAIL. */
  auth?: { user: string; pass: string };
}

export interface RemoteMessage {
  from: string;
  to: string[];
  /** The content as UTF-8, dots unstuffed. */
  content: string;
  bytes: Uint8Array;
  /** True when it came over TLS. */
  secure: boolean;
  /** The name the client asked for in the handshake. */
  servername: string | undefined;
  /** Number of the connection, from 1. */
  connection: number;
  /** Epoch ms of the real clock. */
  at: number;
}

export interface RemoteMx {
  readonly host: string;
  readonly port: number;
  /** The accepted messages, in order. */
  readonly messages: RemoteMessage[];
  /** Command lines of all connections, in order. */
  readonly commands: string[];
  /** Connections accepted so far. */
  readonly connections: number;
  /** Connections open now. */
  readonly open: number;
  /** Writes a line on every connection, without a command. */
  say(line: string): void;
  /** Changes its replies from now on. */
  script(changes: RemoteScript): void;
  /** Resolves with the messages when there are this many. */
  waitFor(count: number): Promise<RemoteMessage[]>;
  /** Resolves when a command line with this beginning has come. */
  heard(start: string): Promise<void>;
  /** Resolves when no connection is open. */
  idle(): Promise<void>;
  /** Stops listening and cuts every connection. */
  close(): Promise<void>;
}

const running = new Set<RemoteMx>();
atEndOfFile(async () => {
  await Promise.all([...running].map((remote) => remote.close()));
});

/** The pair of remote servers without one of their own, made once in a process. */
let made: Promise<KeyPair> | undefined;
function ownPair(): Promise<KeyPair> {
  made ??= makePair("mx.example.net");
  return made;
}

/** Makes a self-signed pair for a name or address. */
export async function makePair(hostname: string): Promise<KeyPair> {
  const runtime = { ...fakeRuntime(), now: Date.now };
  const log = createLog("silent", runtime.now, () => {});
  const setup = { mode: { mode: "self-signed" } as const, hostname, folder: temporaryFolder(), runtime, log };
  return (await openCertificates(setup)).current();
}

/** Makes a client wait: `wait` is the usual reply, which comes when it is released. */
export function gate() {
  const reached = Promise.withResolvers<void>();
  const released = Promise.withResolvers<undefined>();
  return {
    wait: () => {
      reached.resolve();
      return released.promise;
    },
    /** Resolves when a client waits. */
    reached: reached.promise,
    release: () => released.resolve(undefined),
  };
}

export async function startRemoteMx(first: RemoteScript = {}): Promise<RemoteMx> {
  let script: RemoteScript = first;
  const { host = "127.0.0.1", port: wanted = 0 } = first;
  const pair = first.pair ?? (await ownPair());
  const messages: RemoteMessage[] = [];
  const commands: string[] = [];
  const attempts = new Map<string, number>();
  const sockets = new Set<Socket>();
  const { changed, until } = whenChanged();
  let accepted = 0;

  async function answer(to: CommandName, address: string, connection: number): Promise<Answer> {
    const key = `${to} ${address}`;
    const attempt = (attempts.get(key) ?? 0) + 1;
    attempts.set(key, attempt);
    const given = script[to];
    return typeof given === "function" ? await given({ address, attempt, connection }) : given;
  }

  function receive(initial: Socket): void {
    const connection = ++accepted;
    sockets.add(initial);
    let socket: Socket = initial;
    let buffered = Buffer.alloc(0);
    let busy = false;
    let gone = false;
    let readingMessage = false;
    /** Bytes of a chunk that are still to come. */
    let chunk: number | undefined;
    let authenticated = false;
    let login: ((line: string) => string) | undefined;
    let from: string | undefined;
    let to: string[] = [];

    function say(reply: string): void {
      if (reply === HANG_UP) socket.destroy();
      else socket.write(`${reply.split("\n").join("\r\n")}\r\n`);
      if (reply.startsWith("421")) socket.end();
    }
    function forget(): void {
      from = undefined;
      to = [];
    }

    function offers(): string {
      const {
        name = "mx.example.net",
        starttls,
        pipelining,
        eightBitMime,
        smtputf8,
        dsn,
        chunking,
        size,
        auth,
      } = script;
      const secure = socket instanceof TLSSocket;
      const lines = [name, "ENHANCEDSTATUSCODES"];
      if (pipelining !== false) lines.push("PIPELINING");
      if (eightBitMime !== false) lines.push("8BITMIME");
      if (smtputf8 !== false) lines.push("SMTPUTF8");
      if (dsn) lines.push("DSN");
      if (chunking) lines.push("CHUNKING");
      if (size !== undefined) lines.push(`SIZE ${size}`);
      if (starttls && !secure) lines.push("STARTTLS");
      if (auth) lines.push("AUTH PLAIN LOGIN");
      return lines.map((line, i) => `250${i < lines.length - 1 ? "-" : " "}${line}`).join("\n");
    }

    function secure(): void {
      const plain = socket;
      plain.removeAllListeners("data");
      buffered = Buffer.alloc(0);
      if (script.starttls === "silent") return;
      if (script.starttls === "broken") {
        plain.once("data", () => plain.write("this is no TLS record\r\n"));
        return;
      }
      const secured = new TLSSocket(plain, { isServer: true, cert: pair.cert, key: pair.key });
      socket = secured;
      attach(secured);
    }

    function checkPlain(response: string): string {
      const [, user, pass] = Buffer.from(response, "base64").toString("utf8").split("\0");
      authenticated = user === script.auth?.user && pass === script.auth?.pass;
      return authenticated ? "235 2.7.0 welcome" : "535 5.7.8 credentials are invalid";
    }

    function authenticate(argument: string): string {
      const [mechanism = "", initial] = argument.split(" ");
      if (mechanism.toUpperCase() === "PLAIN") return checkPlain(initial ?? "");
      let user = "";
      const decode = (line: string) => Buffer.from(line, "base64").toString("utf8");
      login = (line) => {
        user = decode(line);
        login = (second) => {
          login = undefined;
          return checkPlain(Buffer.from(`\0${user}\0${decode(second)}`).toString("base64"));
        };
        return "334 UGFzc3dvcmQ6";
      };
      return "334 VXNlcm5hbWU6";
    }

    async function handle(line: string): Promise<void> {
      commands.push(line);
      changed();
      if (login) return say(login(line));
      const [, verb = "", rest = ""] = /^(\S+) ?(.*)$/s.exec(line) ?? [];
      const address = /<(.*)>/.exec(rest)?.[1] ?? "";
      switch (verb.toUpperCase()) {
        case "EHLO":
        case "HELO":
          forget();
          return say((await answer("ehlo", "", connection)) ?? (verb === "HELO" ? "250 hello" : offers()));
        case "STARTTLS":
          if (script.starttls === "refused" || !script.starttls) return say("454 4.7.0 TLS is not available");
          say("220 2.0.0 go ahead");
          return secure();
        case "AUTH":
          return say(script.auth ? authenticate(rest) : "502 5.5.1 not here");
        case "MAIL": {
          const reply = await answer("mail", address, connection);
          if (reply === undefined && script.auth && !authenticated) return say("530 5.7.0 Authentication required");
          if (reply === undefined || reply.startsWith("2")) from = address;
          return say(reply ?? "250 2.1.0 sender ok");
        }
        case "RCPT": {
          if (from === undefined) return say("503 5.5.1 MAIL first");
          const reply = (await answer("rcpt", address, connection)) ?? "250 2.1.5 recipient ok";
          if (reply.startsWith("2")) to.push(address);
          return say(reply);
        }
        case "DATA": {
          if (to[0] === undefined) return say("554 5.5.1 no valid recipients");
          const reply = (await answer("data", to[0], connection)) ?? "354 go on";
          readingMessage = reply.startsWith("3");
          return say(reply);
        }
        case "BDAT":
          chunk = Number(/^(\d+) LAST$/.exec(rest)?.[1]);
          return;
        case "RSET":
          forget();
          return say((await answer("rset", "", connection)) ?? "250 2.0.0 reset");
        case "QUIT":
          say((await answer("quit", "", connection)) ?? "221 2.0.0 bye");
          socket.end();
          return;
        default:
          return say("500 5.5.2 unknown command");
      }
    }

    async function take(bytes: Buffer): Promise<void> {
      const reply = (await answer("end", to[0] ?? "", connection)) ?? "250 2.0.0 queued as 4711";
      if (reply.startsWith("2")) {
        const servername = socket instanceof TLSSocket ? socket.servername || undefined : undefined;
        messages.push({
          from: from ?? "",
          to,
          content: bytes.toString("utf8"),
          bytes,
          secure: socket instanceof TLSSocket,
          servername,
          connection,
          at: Date.now(),
        });
      }
      forget();
      say(reply);
      changed();
    }

    /** Takes the next line or message that has arrived whole. */
    function next(): (() => Promise<void>) | undefined {
      if (readingMessage) {
        const found = buffered.indexOf("\r\n.\r\n");
        const isEmpty = buffered.subarray(0, 3).equals(Buffer.from(".\r\n"));
        if (found < 0 && !isEmpty) return undefined;
        const body = isEmpty ? Buffer.alloc(0) : buffered.subarray(0, found + 2);
        buffered = buffered.subarray(isEmpty ? 3 : found + 5);
        readingMessage = false;
        const text = body.toString("latin1").replace(/(^|\r\n)\./g, "$1");
        return () => take(Buffer.from(text, "latin1"));
      }
      if (chunk !== undefined) {
        if (buffered.length < chunk) return undefined;
        const body = buffered.subarray(0, chunk);
        buffered = buffered.subarray(chunk);
        chunk = undefined;
        return () => take(body);
      }
      const end = buffered.indexOf("\r\n");
      if (end < 0) return undefined;
      const line = buffered.subarray(0, end).toString("utf8");
      buffered = buffered.subarray(end + 2);
      return () => handle(line);
    }

    async function work(): Promise<void> {
      if (busy) return;
      busy = true;
      for (let step = next(); step && !gone; step = next()) await step();
      busy = false;
    }

    function attach(on: Socket): void {
      on.on("data", (chunk: Buffer) => {
        buffered = Buffer.concat([buffered, chunk]);
        void work();
      });
      on.on("error", () => {});
    }

    initial.on("close", () => {
      gone = true;
      sockets.delete(initial);
      changed();
    });
    attach(initial);
    void (async () => {
      say((await answer("greeting", "", connection)) ?? `220 ${script.name ?? "mx.example.net"} ESMTP`);
      changed();
    })();
  }

  const server: Server = first.implicitTls ? createTlsServer(pair, receive) : createServer(receive);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(wanted, host, resolve);
  });
  const address = server.address();
  const remote: RemoteMx = {
    host,
    port: typeof address === "object" && address ? address.port : wanted,
    messages,
    commands,
    get connections() {
      return accepted;
    },
    get open() {
      return sockets.size;
    },
    say(line) {
      for (const socket of sockets) socket.write(`${line}\r\n`);
    },
    script(changes) {
      script = { ...script, ...changes };
    },
    async waitFor(count) {
      await until(() => messages.length >= count);
      return messages;
    },
    heard: (start) => until(() => commands.some((line) => line.startsWith(start))),
    idle: () => until(() => sockets.size === 0),
    async close() {
      running.delete(remote);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  running.add(remote);
  return remote;
}
