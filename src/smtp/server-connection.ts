/**
 * One connection at a listener (smtp-listener.ts). It adds what smtp-server lacks: limits on refused commands, unproductive
 * commands and the time that a client takes, BDAT (RFC 3030), and LIMITS (RFC 9422). It refuses a client that speaks out of
 * turn.
 *
 * Invariants: every reply goes through `send`. AUTH exists under TLS only. A message that comes by BDAT is handled as one that
 * comes by DATA, except that only the sizes of its chunks tell where it ends.
 */
import type { Socket } from "node:net";
import type { SMTPServer } from "smtp-server";
import { SMTPConnection } from "smtp-server/lib/smtp-connection.js";
import { SMTPStream } from "smtp-server/lib/smtp-stream.js";
import type { Runtime } from "../base/runtime.ts";
import { canonicalIpAddress, ipAddressNetwork, ipAddressSource, isOwnOrTrustedAddress } from "../net/ip.ts";
import { type NoteRefusal, Refusal, type RefusalName } from "./refusal.ts";
import type { SmtpCommands, SmtpRole } from "./role.ts";

// The package smtp-server parses commands and DATA for our listeners. Only this file imports it.
export { SMTPServer, type SMTPServerAddress, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";

/** Limits of a session. */
interface SessionLimits {
  /** 5yz replies; signing in or an accepted message resets the count. */
  refusals: number;
  /** Replies; the count is reset in the same way. */
  replies: number;
  /** Time from one reply to the next complete command (RFC 5321 §4.5.3.2.7: at least 5 minutes). */
  commandMs: number;
}

export interface Limits extends SessionLimits {
  /** A quarter is kept for peers that the role trusts or knows, unless it knows nobody. */
  connections: number;
  /**
   * Connections from one source: an IPv4 address, or an IPv6 /64. This limit and the next do not apply to peers that the role
   * trusts.
   */
  connectionsPerSource: number;
  /** Connections from one network: an IPv4 /24, or an IPv6 /48. */
  connectionsPerNetwork: number;
  /** Time from 354 to the last byte of the message. */
  dataMs: number;
  /**
   * Bytes of a message that must come in each span of `paceMs`. The span is the longest that a client may take for one
   * block (RFC 5321 §4.5.3.2.5).
   */
  leastBytes: number;
  paceMs: number;
  /** Delay before a client that spoke out of turn is refused. */
  outOfTurnMs: number;
  /**
   * Limits before signing in, on listeners that require it: apps sign in at once, and only intruders take longer.
   * `commandMs` also limits the handshake of implicit TLS.
   */
  beforeAuth: SessionLimits;
}

export const LIMITS: Limits = {
  connections: 1_000,
  connectionsPerSource: 100,
  connectionsPerNetwork: 400,
  refusals: 100,
  replies: 1_000,
  commandMs: 5 * 60_000,
  dataMs: 30 * 60_000,
  leastBytes: 65_536,
  paceMs: 3 * 60_000,
  outOfTurnMs: 5_000,
  beforeAuth: { refusals: 5, replies: 30, commandMs: 60_000 },
};

/** Returns the limits of a listener that may have so many connections. */
export const smtpListenerLimits = (connections: number): Partial<Limits> => ({
  connections: Math.min(connections, LIMITS.connections),
  connectionsPerSource: Math.min(Math.ceil(connections / 4), LIMITS.connectionsPerSource),
  connectionsPerNetwork: Math.min(Math.ceil(connections / 2), LIMITS.connectionsPerNetwork),
});

/**
 * Splits `MAIL FROM:<`, a source route, a quoted local part (RFC 5321 §4.1.2, RFC 6531 §3.3), and the rest from the `@`
 * on.
 */
const QUOTED_LOCAL_PART = /^([^<]*<(?:@[^\s:"<>]+:)?)("(?:[^"\\\p{Cc}]|\\[ -~])*")(@[^"\s]*(?:\s.*)?)$/u;

/** Parameters whose values are xtext (RFC 3461). */
const XTEXT_PARAMETERS = /\s(ENVID|ORCPT)=(\S+)/gi;

/** The refusals that replace texts of smtp-server. */
const REWORDED = new Map<string, RefusalName>([
  ["Error: Command line too long", "lineTooLong"],
  ["Error: too many unrecognized commands", "tooManyErrors"],
  ["Timeout - closing connection", "tooSlow"],
  ["Server shutting down", "stopping"],
]);

const rewordedAs = (text: string, hostname: string): RefusalName | undefined =>
  text === `${hostname} You talk too soon` ? "outOfTurn" : REWORDED.get(text);

const ENHANCED_STATUS = /^[245]\.\d{1,3}\.\d{1,3} /;

/** The source and network of a connection, for the limits. */
export interface Origin {
  source: string;
  network: string;
}

/** A peer that connects. */
export interface Newcomer {
  origin: Origin;
  isTrusted: boolean;
  /** See isOwnOrTrustedAddress. */
  isOurs: boolean;
  /** Known to the role, or ours. */
  isWelcome: boolean;
}

/** A client that waits for nothing, while we wait for it. */
export interface Waiting {
  readonly peer: Newcomer;
  /** Makes room for another client. */
  dismiss(): void;
}

export function describeSmtpPeer(ip: string | undefined, role: Pick<SmtpRole, "isTrusted" | "isKnown">): Newcomer {
  const address = canonicalIpAddress(ip ?? "");
  const isTrusted = role.isTrusted(ip ?? "");
  const isOurs = isOwnOrTrustedAddress(address, isTrusted);
  return {
    origin: { source: ipAddressSource(address), network: ipAddressNetwork(address) },
    isTrusted,
    isOurs,
    isWelcome: isOurs || role.isKnown?.(ip ?? "") === true,
  };
}

export interface ConnectionParts {
  role: SmtpRole;
  limits: Limits;
  /** Name in the greeting. */
  hostname: string;
  runtime: Pick<Runtime, "setTimer" | "randomBytes">;
  note: NoteRefusal;
  /** Tells whether there are too many connections already, or too many from this peer's origin, and none to end for it. */
  isCrowded(peer: Newcomer): boolean;
  /** We wait for this client, which has not signed in, from now on, or no more. */
  noteWait(waiting: Waiting, waits: boolean): void;
}

/** A size of more digits is refused: no client sends so many bytes in the time it has. */
const BDAT = /^BDAT +(\d{1,15})( +LAST)? *$/i;
/** A smaller chunk counts as an unproductive command. */
const LEAST_CHUNK = 1024;
/** So many bytes of a message show that its client is not the slowest. */
const SIGN_OF_LIFE_BYTES = 16_384;
const CRLF = Buffer.from("\r\n");

interface Chunk {
  /** Bytes that are still to come. */
  left: number;
  /** The chunk ends a message. */
  isLast: boolean;
  /** Called once it has come, unless it ends a message; `goOn` reads the next command. */
  received(goOn: () => void): void;
}

/** The parser of smtp-server, which also reads chunks: bytes without meaning, as many as announced. */
class Parser extends SMTPStream {
  /** Called once in SIGN_OF_LIFE_BYTES of a message. */
  onProgress = (): void => {};
  #progress = 0;
  #chunk: Chunk | undefined;
  /** The last two bytes of the message. */
  #tail = Buffer.alloc(0);

  /** Reads a chunk into the message that startDataMode has opened; discards it where none is open. */
  readChunk(chunk: Chunk, goOn: () => void): void {
    this.#chunk = chunk;
    this._dataMode = true;
    if (chunk.left === 0) this.#endChunk(chunk, Buffer.alloc(0), goOn);
    else goOn();
  }

  /** Forgets the message that was opened. */
  dropMessage(): void {
    this._dataStream = null;
    this.#tail = Buffer.alloc(0);
  }

  /** A client that sends a message is alive: others make room before it. */
  override _countDataBytes(length: number): void {
    super._countDataBytes(length);
    this.#progress += length;
    if (this.#progress < SIGN_OF_LIFE_BYTES) return;
    this.#progress = 0;
    this.onProgress();
  }

  /** The bytes of a chunk are content, whatever they are (RFC 3030 §2). */
  override _feedDataStream(bytes: Buffer, done: (error?: Error | null) => void): void {
    const chunk = this.#chunk;
    if (!chunk) {
      super._feedDataStream(bytes, done);
      return;
    }
    const content = bytes.subarray(0, chunk.left);
    chunk.left -= content.length;
    this._countDataBytes(content.length);
    const rest = bytes.subarray(content.length);
    // Deferred: thousands of small chunks may stand in one packet.
    const goOn = chunk.left > 0 ? () => done() : () => void setImmediate(() => this.#endChunk(chunk, rest, done));
    const stream = this._dataStream;
    if (stream) this.#tail = Buffer.concat([this.#tail, content.subarray(-2)]).subarray(-2);
    if (!stream?.writable || stream.write(content)) {
      goOn();
      return;
    }
    const proceed = () => {
      stream.off("drain", proceed).off("close", proceed);
      goOn();
    };
    stream.on("drain", proceed).on("close", proceed);
  }

  #endChunk({ isLast, received }: Chunk, rest: Buffer, done: () => void): void {
    this.#chunk = undefined;
    this._dataMode = false;
    if (this.isClosed) {
      done();
    } else if (isLast) {
      // As after DATA, the last line of a message is whole.
      const end = this.dataBytes === 0 || this.#tail.equals(CRLF) ? false : CRLF;
      this.#tail = Buffer.alloc(0);
      this._endDataMode(end, rest, done);
    } else {
      received(() => this._write(rest, "buffer", done));
    }
  }
}

/** A connection with deadlines and counts. */
export class Connection extends SMTPConnection implements Waiting {
  readonly peer: Newcomer;
  readonly #parts: ConnectionParts;
  /** The client may speak out of turn: it is trusted, or a mail app, which can do nothing before it has signed in. */
  readonly #mayInterrupt: boolean;
  #commands: SmtpCommands | undefined;
  #spokeOutOfTurn = false;
  /**
   * We replied to EHLO in this turn of the event loop. The client sent whatever else arrives in this turn before it
   * could read the reply.
   */
  #justGreeted = false;
  /** A message comes in chunks: its first has begun, and its last has no reply yet. */
  #inChunks = false;
  #cancelDeadline: (() => void) | undefined;
  #refusals = 0;
  #replies = 0;

  constructor(server: SMTPServer, socket: Socket, parts: ConnectionParts) {
    super(server, socket, { id: Buffer.from(parts.runtime.randomBytes(9)).toString("base64url") });
    this.#parts = parts;
    this.peer = describeSmtpPeer(this.remoteAddress, parts.role);
    this.#mayInterrupt = parts.role.requiresAuth || this.peer.isTrusted;
  }

  /** @throws Error before `enter` */
  get commands(): SmtpCommands {
    if (!this.#commands) throw new Error("a connection that was not admitted");
    return this.#commands;
  }

  /** @throws Refusal */
  enter(): void {
    const { role, isCrowded } = this.#parts;
    // First, so that a client that is refused for its rate pushes nobody out.
    this.#commands = role.open({ trace: this.id, ip: this.remoteAddress });
    if (isCrowded(this.peer)) throw new Refusal("tooManyConnections");
    this.#noteWait(true);
  }

  /**
   * Sends a reply. Bounds the refusals and replies of a session, which are how addresses and passwords are guessed. Adds CHUNKING
   * and LIMITS (RFC 9422) to the reply to EHLO, and holds back the 354 of a message in chunks.
   */
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    const { role, limits, hostname } = this.#parts;
    const reason = typeof data === "string" ? rewordedAs(data, hostname) : undefined;
    if (reason === "outOfTurn") this.#refuseOutOfTurn();
    else if (reason) this.refuse(reason);
    if (reason) return;
    if (code === 354 && this.#inChunks) {
      this.#awaitMessage(limits.dataMs);
      return;
    }
    if (context === "DATA_OK" || code === 235) this.#refusals = this.#replies = 0;
    this.#replies++;
    if (code >= 500) this.#refusals++;
    // Only the reply to EHLO is a list.
    const lines = Array.isArray(data) ? [...data, "CHUNKING", `LIMITS RCPTMAX=${role.maxRecipients()}`] : data;
    const text = role.requiresAuth && !this.secure ? withoutAuth(code, lines) : lines;
    const ours = typeof text === "string" && ENHANCED_STATUS.test(text);
    answerHalfClosed(this._socket);
    super.send(code, text, ours ? false : context);
    const { refusals, replies, commandMs } = this.#limits();
    if (code === 354) this.#awaitMessage(limits.dataMs);
    else if (!this.#inChunks) this.setDeadline(commandMs);
    if (this.#refusals > refusals || this.#replies > replies) this.refuse("tooManyErrors");
  }

  #limits(): SessionLimits {
    const { role, limits } = this.#parts;
    return role.requiresAuth && !this.session.user ? limits.beforeAuth : limits;
  }

  /** Strangers leave a part of the room to others, and make room first. */
  get isStranger(): boolean {
    return !this.peer.isWelcome && !this.session.user;
  }

  dismiss(): void {
    this.refuse("tooManyConnections");
    // It may never close its side.
    this._socket.destroySoon();
  }

  #noteWait(waits: boolean): void {
    this.#parts.noteWait(this, waits && !this.session.user);
  }

  /** Ends the session with a refusal. */
  refuse(reason: RefusalName): void {
    const { responseCode, message } = new Refusal(reason);
    this.#parts.note(reason, { trace: this.id, ip: this.remoteAddress });
    super.send(responseCode, message, false);
    this.close();
  }

  /**
   * Refuses the client, at once or after a delay in which it is not read, since smtp-server is not called back. Most
   * clients that do not wait for replies have left by then.
   */
  #refuseOutOfTurn(): void {
    this.#spokeOutOfTurn = true;
    if (this.#mayInterrupt) {
      this.refuse("outOfTurn");
    } else {
      this._socket.once("end", () => this.close());
      this.setDeadline(this.#parts.limits.outOfTurnMs, () => this.refuse("outOfTurn"));
    }
  }

  /**
   * smtp-server waits a moment before its greeting, to notice clients that speak first. Clients that may do so are
   * greeted at once.
   */
  override init(): void {
    if (this.#mayInterrupt) this._setListeners(() => this.connectionReady());
    else super.init();
  }

  /** False for a client that has spoken first, which is refused: smtp-server notices only whole lines. */
  isToBeGreeted(): boolean {
    const isEarly = !this.#mayInterrupt && this._socket.bytesRead > 0;
    if (isEarly && !this.#spokeOutOfTurn) this.#refuseOutOfTurn();
    return !this.#spokeOutOfTurn;
  }

  /**
   * Runs the handler of a command unless what came before forbids it: MAIL in one packet with EHLO, whose reply tells what may
   * follow (EHLO ends a group of commands, RFC 2920 §3.1); AUTH without TLS; RCPT and DATA within a message in chunks.
   */
  override _getHandler(verb: string): ReturnType<SMTPConnection["_getHandler"]> {
    const handler = super._getHandler(verb);
    return (
      handler &&
      ((command, callback) => {
        const refuse = (code: number, text: string): void => {
          this.send(code, text);
          callback();
        };
        if (verb === "EHLO" || verb === "HELO") this.#noteGreeting();
        if (verb === "MAIL" && this.#justGreeted && !this.#mayInterrupt) this.#refuseOutOfTurn();
        else if (verb === "AUTH" && !this.secure) refuse(530, new Refusal("tlsFirst").message);
        else if (this.#inChunks && (verb === "RCPT" || verb === "DATA"))
          refuse(503, "Error: the message has begun, with BDAT");
        else handler.call(this, command, callback);
      })
    );
  }

  #noteGreeting(): void {
    this.#justGreeted = true;
    queueMicrotask(() => {
      this.#justGreeted = false;
    });
  }

  /** Refuses the client unless it speaks within `ms`. Undefined ends the deadline, while the client waits for us. */
  setDeadline(ms: number | undefined, pass: () => void = () => this.refuse("tooSlow")): void {
    this.#cancelDeadline?.();
    // A client that has left needs no deadline.
    const isOff = ms === undefined || this._closing || this._closed;
    this.#noteWait(!isOff);
    this.#cancelDeadline = isOff ? undefined : this.#parts.runtime.setTimer(pass, ms);
  }

  /** Refuses a client that sends a message too slowly: not within `leftMs`, or too little of it in a span. */
  #awaitMessage(leftMs: number): void {
    const { paceMs, leastBytes } = this.#parts.limits;
    const received = () => (this._parser ? this._parser.dataBytes : 0);
    const before = received();
    this.setDeadline(Math.min(paceMs, leftMs), () => {
      if (leftMs <= paceMs || received() - before < leastBytes) this.refuse("tooSlow");
      else this.#awaitMessage(leftMs - paceMs);
    });
  }

  /** A session that ends waits for nothing, so that it is not taken for one that can make room. */
  override close(): void {
    super.close();
    this.setDeadline(undefined);
  }

  /**
   * Parses a quoted local part (RFC 5321 §4.1.2), which may hold a space or an `@`: smtp-server ends the path at the first space or
   * second `@`. Leaves xtext (RFC 3461 §4) encoded, since smtp-server decodes it, malformed or not.
   */
  override _parseAddressCommand(
    name: string,
    command: Buffer | string,
  ): ReturnType<SMTPConnection["_parseAddressCommand"]> {
    const [, before, quoted, after] = QUOTED_LOCAL_PART.exec(command.toString()) ?? [];
    // A path without quotes has no space, and so looks like no parameter.
    const line = quoted === undefined ? command.toString() : `${before}quoted${after}`;
    const parsed = super._parseAddressCommand(name, line);
    if (!parsed) return parsed;
    for (const [, key = "", value = ""] of line.matchAll(XTEXT_PARAMETERS)) {
      if (parsed.args) parsed.args[key.toUpperCase()] = value;
    }
    if (quoted !== undefined) parsed.address = parsed.address.replace("quoted", () => quoted);
    return parsed;
  }

  /** Reads chunks, and closes a half-closed connection once the client has its replies. */
  override _createParser(): Parser {
    const parser = new Parser({ maxCommandLength: this._server.options.maxCommandLength });
    parser.oncommand = (command, callback) => this._onCommand(command, callback);
    parser.onProgress = () => this.#noteWait(true);
    parser.on("error", (error) => this.send(421, `Error: ${error.message}`));
    // The client has ended its side, and has had its replies.
    parser.on("finish", () => this.close());
    return parser;
  }

  /**
   * The first chunk begins a message as DATA does. A chunk that is refused is read to its end (RFC 3030 §2), in the time that a
   * command may take.
   */
  handler_BDAT(command: Buffer, callback: () => void): void {
    const [, digits, last] = BDAT.exec(command.toString("latin1")) ?? [];
    const parser = this._parser;
    if (digits === undefined || !(parser instanceof Parser)) {
      // What follows may be the chunk: it must not be read as commands.
      this.refuse("badChunk");
      return;
    }
    const size = Number(digits);
    if (!this.#inChunks && this.session.envelope.rcptTo.length > 0) {
      this.#inChunks = true;
      this.handler_DATA(command, () => {});
    }
    const isLast = last !== undefined && this.#inChunks;
    const received = (goOn: () => void) => {
      if (!this.#inChunks) this.send(503, "Error: need RCPT command");
      else if (parser.dataBytes > Number(this._server.options.size)) this.send(552, new Refusal("tooLarge").message);
      else this.send(250, `2.0.0 ${size} octets received`);
      if (size >= LEAST_CHUNK) this.#replies--;
      this._whenWritable(goOn);
    };
    parser.readChunk({ left: size, isLast, received }, callback);
  }

  /** Ends the transaction, and with it a message of which chunks are missing. */
  override _resetSession(): void {
    super._resetSession();
    if (!this.#inChunks) return;
    this.#inChunks = false;
    if (this._parser instanceof Parser) this._parser.dropMessage();
    if (this._dataStream) this._dataStream.destroy(new Error("the transaction was reset"));
    this._dataStream = false;
    this.setDeadline(this.#limits().commandMs);
  }

  handler_EXPN(_command: Buffer, callback: () => void): void {
    this.send(502, "5.5.1 Not implemented");
    callback();
  }
}

/**
 * Lets smtp-server, which writes to sockets only that are open both ways, reply to a client that has ended its side behind
 * its last command, as Exim does behind QUIT.
 */
function answerHalfClosed(socket: Socket): void {
  if (socket.readyState !== "writeOnly") return;
  Object.defineProperty(socket, "readyState", { get: () => (socket.writable ? "open" : "closed") });
}

/** Rewrites a reply before TLS: it does not offer AUTH, and tells a client that signs in to begin TLS first. */
function withoutAuth<T extends string | string[] | null | undefined>(code: number, data: T): string | string[] | T {
  if (code === 530) return new Refusal("tlsFirst").message;
  return Array.isArray(data) ? data.filter((line) => !line.startsWith("AUTH ")) : data;
}
