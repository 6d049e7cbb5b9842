/**
 * Connects to one address of a mail host, through nodemailer: TCP, greeting, EHLO and TLS. Each step has a time limit,
 * and every call ends; nodemailer leaves calls open when a connection is lost.
 */
import type { X509Certificate } from "node:crypto";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { PassThrough, type Writable } from "node:stream";
import { TLSSocket } from "node:tls";
import SMTPConnection, {
  type SMTPConnectionEnvelope,
  type SMTPConnectionOptions,
} from "nodemailer/lib/smtp-connection";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { DeliveryFailure, type DeliveryResult, toDeliveryResult } from "./delivery-result.ts";

export interface TlsPolicy {
  /** `opportunistic`: STARTTLS where it is offered; `required`: STARTTLS; `implicit`: from the first byte. */
  mode: "opportunistic" | "required" | "implicit";
  /** The certificate must be valid for the host. */
  verify: boolean;
  /** When TLS is offered and fails, go on without it, over a new connection. */
  plainIfBroken: boolean;
  /**
   * Finds the fault of the certificate chain that the host presents, its own certificate first; undefined when there is
   * none.
   */
  check?: (chain: readonly X509Certificate[]) => string | undefined;
  /** The server name for TLS, when it differs from the host's. */
  servername?: string;
  /** The standard that requires this policy, for people. */
  askedBy?: string;
  /** When TLS fails under this policy, the failure is logged, and another connection begins under this one. */
  otherwise?: TlsPolicy;
}

export interface Target {
  /** Name of the host, for TLS and results; an IP address where it has no name. */
  host: string;
  address: string;
  port: number;
  tls: TlsPolicy;
}

/** Parts of the server that a connection uses. */
export interface ClientContext {
  runtime: Pick<Runtime, "setTimer" | "authorities">;
  /** Our own name, for EHLO. */
  hostname: string;
  log: Log;
  /** Aborting it ends every connection at once; its reason is for people. */
  signal: AbortSignal;
}

/** Fields of nodemailer's errors. */
export type SmtpError = Error & {
  code?: string | undefined;
  command?: string | undefined;
  response?: string | undefined;
  responseCode?: number | undefined;
  recipient?: string | undefined;
};

type Done<T> = (error?: SmtpError | null, result?: T) => void;

export interface SmtpConnection {
  readonly target: Target;
  readonly nodemailer: NodemailerConnection;
  /** EHLO keywords, upper case, with their parameters (RFC 5321 §4.1.1.1). */
  readonly offered: ReadonlyMap<string, string>;
  /**
   * Makes one of nodemailer's calls. Rejects with an SmtpError, also when the connection ends or `ms` pass first.
   *
   * It ends the connection to a remote that sends a reply to no command, since the client could then only guess which
   * reply belongs to which command; and to one that replies before it has the whole message, since the client's next
   * command would go into that message.
   */
  exchange<T>(ms: number, call: (done: Done<T>) => void): Promise<T>;
  /** Tells whether nothing is under way and the connection is open, as far as we know. */
  usable(): boolean;
  /** Sends QUIT. A command under way ends at once, and fails. */
  close(): void;
}

/** Time limit of connecting by TCP. */
const CONNECT_MS = 20_000;
/** Time limit of greeting, EHLO and TLS (RFC 5321 §4.5.3.2.1: 5 minutes for the greeting alone). */
const SETUP_MS = 5 * 60_000;
const QUIT_MS = 5_000;
/** Octets of a line of a reply: four times what RFC 5321 §4.5.3.1.5 allows. */
const LONGEST_REPLY_LINE = 2_048;
const MOST_REPLY_LINES = 100;
/** The beginning of the last line of a reply. */
const ENDS_REPLY = /^\d{3}(?:[^-\d]|$)/;
const LONGEST_CHAIN = 10;

/** Parts of nodemailer that its types leave out. */
interface Inside {
  /** Whole replies that no command has taken yet, and the beginning of another. */
  readonly _responseQueue: readonly string[];
  readonly _remainder: string;
  /** Takes what the remote sent. */
  _onData(chunk: Buffer): void;
  /** Ends the connection for a reply beyond a limit. */
  _onResponseTooLarge(): void;
  readonly _socket: Socket | false;
  /** The message, while it is being written; else false. */
  _currentDataStream: unknown;
  /** Handlers of awaited replies, one for each. */
  readonly _responseActions: ((reply: string) => void)[];
  readonly _envelope: Pick<SMTPConnectionEnvelope, "accepted" | "size"> & { mailError?: SmtpError };
  /** Writes every command. */
  _sendCommand(line: string, logged?: string): void;
  /** Begins to write the message. */
  _createSendStream(done: Done<string>): Writable;
  /** Goes on after the reply to MAIL or RCPT. */
  _advanceEnvelope(reply: string, done: Done<unknown>): void;
  /** Takes the reply to the message. */
  _actionSMTPStream(reply: string, done: Done<string>): void;
}

class NodemailerConnection extends (SMTPConnection as unknown as new (
  options: SMTPConnectionOptions,
) => SMTPConnection & Inside) {
  /** MAIL declares SMTPUTF8 (RFC 6531 §3.4) for the sake of headers: nodemailer looks at addresses alone. */
  declaresUtf8 = false;
  /** Parameters of MAIL, and of RCPT by recipient, each after a space. */
  parameters: { mail: string; rcpt: ReadonlyMap<string, string> } | undefined;
  /** The remote takes a message as one chunk (RFC 3030), which goes as it is, after the replies to RCPT. */
  takesChunks = false;
  /** STARTTLS was sent. */
  startedTls = false;
  /** The message of the transaction under way has been begun. */
  hasBegun = false;
  /** A reply was there before the message was begun. */
  #repliedAhead = false;
  /** nodemailer waits for a reply to DATA, which was not sent. */
  #dataIsDue = false;

  /** The unfinished line of a reply: its first characters, and its octets so far. */
  #line = { begins: "", octets: 0 };
  /** Lines since the last whole reply, empty ones among them, which nodemailer keeps as replies. */
  #lines = 0;

  /** A reply has bounds before nodemailer, or an expression of ours, sees it. */
  override _onData(chunk: Buffer): void {
    for (let start = 0; start < chunk.length; ) {
      const feed = chunk.indexOf(0x0a, start);
      const end = feed < 0 ? chunk.length : feed;
      this.#line.begins += chunk
        .toString("latin1", start, Math.min(end, start + 4))
        .slice(0, 4 - this.#line.begins.length);
      this.#line.octets += end - start;
      if (feed >= 0) this.#lines = ENDS_REPLY.test(this.#line.begins) ? 0 : this.#lines + 1;
      if (this.#line.octets > LONGEST_REPLY_LINE || this.#lines >= MOST_REPLY_LINES) {
        this._onResponseTooLarge();
        return;
      }
      if (feed >= 0) this.#line = { begins: "", octets: 0 };
      start = end + 1;
    }
    super._onData(chunk);
  }

  /** The remote has sent a reply to no command. */
  get hasUnaskedReply(): boolean {
    return [...this._responseQueue, this._remainder].some((reply) => reply.trim() !== "");
  }

  /** The remote has the message only in part, or has replied to it ahead. */
  get isInMessage(): boolean {
    const unwritten = this._socket !== false && this._socket.writableLength > 0;
    return this.#repliedAhead || this._currentDataStream !== false || unwritten;
  }

  override _createSendStream(done: Done<string>): Writable {
    this.#repliedAhead = this.hasUnaskedReply;
    this.hasBegun = true;
    if (!this.takesChunks || !this._socket) return super._createSendStream(done);
    this._responseActions.push((reply) => this._actionSMTPStream(reply, done));
    this._sendCommand(`BDAT ${this._envelope.size} LAST`);
    const chunk = new PassThrough();
    this._currentDataStream = chunk;
    chunk.once("end", () => {
      this._currentDataStream = false;
    });
    chunk.pipe(this._socket, { end: false });
    return chunk;
  }

  override _advanceEnvelope(reply: string, done: Done<unknown>): void {
    super._advanceEnvelope(reply, done);
    if (!this.#dataIsDue || this._responseActions.length > 1 || reply.startsWith("421")) return;
    this.#dataIsDue = false;
    const { accepted, mailError } = this._envelope;
    this._responseActions.shift()?.(accepted.length > 0 && !mailError ? "354 go on" : "503 no recipient");
  }

  override _sendCommand(line: string, logged?: string): void {
    this.startedTls ||= line === "STARTTLS";
    this.#dataIsDue = line === "DATA" && this.takesChunks;
    if (this.#dataIsDue) return;
    super._sendCommand(line + this.#parametersOf(line), logged);
  }

  #parametersOf(line: string): string {
    if (line.startsWith("MAIL FROM:")) return (this.declaresUtf8 ? " SMTPUTF8" : "") + (this.parameters?.mail ?? "");
    const [, recipient] = /^RCPT TO:<(.*)>$/s.exec(line) ?? [];
    return (recipient !== undefined && this.parameters?.rcpt.get(recipient)) || "";
  }
}

/** TLS was begun or required, and failed. */
class TlsFailure extends DeliveryFailure {}

/**
 * Connects under the host's TLS policy, once more when TLS fails and the policy allows less. @throws DeliveryFailure;
 * its result has a `code` when the remote replied and refused
 */
export async function openSmtpConnection(target: Target, context: ClientContext): Promise<SmtpConnection> {
  try {
    return await open(target, context, true);
  } catch (error) {
    if (!(error instanceof TlsFailure)) throw error;
    const { plainIfBroken, otherwise, askedBy } = target.tls;
    if (otherwise) {
      context.log.warn("no TLS as asked for, going on", { remote: target.host, askedBy, reason: error.message });
      return await openSmtpConnection({ ...target, tls: otherwise }, context);
    }
    if (!plainIfBroken) throw error;
    context.log.debug("TLS failed, going on without", { remote: target.host, reason: error.message });
    return await open(target, context, false);
  }
}

async function open(target: Target, context: ClientContext, withTls: boolean): Promise<SmtpConnection> {
  const { host, port, tls } = target;
  const { runtime, hostname, log, signal } = context;
  if (signal.aborted) throw new DeliveryFailure(resultWithoutReply(target, "4.3.2", String(signal.reason)));
  const socket = await openSocket(target, context);
  const nodemailer = new NodemailerConnection({
    connection: socket,
    host,
    port,
    name: hostname,
    secure: tls.mode === "implicit",
    requireTLS: tls.mode === "required",
    ignoreTLS: !withTls,
    tls: {
      rejectUnauthorized: tls.verify,
      ...(isIP(host) ? {} : { servername: tls.servername ?? host }),
      ...(runtime.authorities && { ca: [...runtime.authorities] }),
    },
    connectionTimeout: SETUP_MS,
    greetingTimeout: SETUP_MS,
    logger: false,
  });

  let busy = false;
  /** Why the connection ended. */
  let lost: SmtpError | undefined;
  let abandon: (error: SmtpError) => void = () => {};
  function end(reason: string): void {
    lost ??= new Error(reason);
    nodemailer.close();
  }
  const stop = () => end(String(signal.reason));
  signal.addEventListener("abort", stop);
  nodemailer.on("error", (error: SmtpError) => {
    lost ??= error;
  });
  nodemailer.on("end", () => {
    signal.removeEventListener("abort", stop);
    // After a 421 nodemailer ends the connection first, and reports the reply, which says more, in the same turn.
    queueMicrotask(() => abandon(lost ?? new Error("the connection was closed")));
  });

  async function exchange<T>(ms: number, call: (done: Done<T>) => void): Promise<T> {
    if (nodemailer.hasUnaskedReply) end("it said what it was not asked");
    if (lost) throw lost;
    busy = true;
    const cancelTimer = runtime.setTimer(() => end("no answer in time"), ms);
    try {
      const result = await new Promise<T>((resolve, reject) => {
        abandon = reject;
        call((error, result) => (error ? reject(error) : resolve(result as T)));
      });
      if (nodemailer.isInMessage) throw new Error(TOO_EARLY);
      return result;
    } finally {
      if (nodemailer.isInMessage) end(TOO_EARLY);
      cancelTimer();
      busy = false;
    }
  }

  try {
    await exchange<void>(SETUP_MS, (done) => nodemailer.connect(done));
  } catch (error) {
    nodemailer.close();
    throw setupFailure(target, nodemailer, error as SmtpError);
  }
  const problem = nodemailer.secure ? tls.check?.(listCertificateChain(nodemailer._socket)) : undefined;
  if (problem !== undefined) {
    nodemailer.close();
    throw tlsFailure(target, problem);
  }
  const offered = parseEhloExtensions(nodemailer.lastServerResponse || "");
  nodemailer.takesChunks = offered.has("CHUNKING");
  log.debug("connected", { remote: host, address: target.address, port, tls: nodemailer.secure });
  return {
    target,
    nodemailer,
    offered,
    exchange,
    usable: () => !busy && !nodemailer.destroyed && socket.writable,
    close() {
      if (busy || nodemailer.destroyed) {
        end("closed here");
        return;
      }
      busy = true;
      nodemailer.once(
        "end",
        runtime.setTimer(() => nodemailer.close(), QUIT_MS),
      );
      nodemailer.quit();
    },
  };
}

const TOO_EARLY = "it answered before it had the whole message";

/** @throws DeliveryFailure */
function openSocket(target: Target, { runtime, signal }: ClientContext): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host: target.address, port: target.port });
    const giveUp = (reason: string) => {
      cancelTimer();
      signal.removeEventListener("abort", stop);
      socket.destroy();
      reject(new DeliveryFailure(resultWithoutReply(target, "4.4.1", reason)));
    };
    const stop = () => giveUp(String(signal.reason));
    const cancelTimer = runtime.setTimer(() => giveUp(`no connection within ${CONNECT_MS / 1000} seconds`), CONNECT_MS);
    signal.addEventListener("abort", stop);
    // This listener stays: a later error ends the connection, and the end is noticed.
    socket.on("error", (error) => giveUp(describeSmtpError(error)));
    socket.once("connect", () => {
      cancelTimer();
      signal.removeEventListener("abort", stop);
      resolve(socket);
    });
  });
}

function tlsFailure(target: Target, reason: string): TlsFailure {
  const { askedBy } = target.tls;
  const what = askedBy === undefined ? "no TLS" : `no TLS as ${askedBy} asks for it`;
  return new TlsFailure(resultWithoutReply(target, "4.7.5", `${what}: ${reason}`));
}

/** Lists the certificates that the remote presents: its own first, and each issuer after what it issued. */
function listCertificateChain(socket: Socket | false): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined;
  while (next && chain.length < LONGEST_CHAIN) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain;
}

function setupFailure(target: Target, nodemailer: NodemailerConnection, error: SmtpError): DeliveryFailure {
  // After STARTTLS, any failure before the reply to the next EHLO counts as a failure of TLS.
  const isTls = nodemailer.startedTls || nodemailer.upgrading;
  const { responseCode: code, response = "" } = error;
  if (isTls) {
    return tlsFailure(target, code ? response : describeSmtpError(error));
  }
  if (!isSmtpRefusalCode(code))
    return new DeliveryFailure(resultWithoutReply(target, "4.4.2", describeSmtpError(error)));
  const command = error.command === "CONN" ? "connect" : "ehlo";
  return new DeliveryFailure(toDeliveryResult({ command, code, text: response, remote: target.host }));
}

/** Makes the result for a missing reply, or one that does not count. `status`: of class 4. */
export function resultWithoutReply({ host, address }: Target, status: string, reason: string): DeliveryResult {
  const name = host === address ? host : `${host} [${address}]`;
  return toDeliveryResult({ command: "connect", status, text: `${name}: ${reason}`, remote: host });
}

/** Tells whether a reply code refuses. */
export const isSmtpRefusalCode = (code: number | undefined): code is number =>
  code !== undefined && code >= 400 && code < 600;

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was reset",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
};

/** Describes, for people, a failure without a reply. */
export function describeSmtpError(error: SmtpError & { originalCode?: string | undefined }): string {
  return REASONS[error.originalCode ?? error.code ?? ""] ?? error.message;
}

function parseEhloExtensions(reply: string): Map<string, string> {
  const lines = reply.split("\n").slice(1);
  return new Map(
    lines.map((line) => {
      const [keyword = "", ...parameters] = line.slice(4).trim().split(/[\s=]/);
      return [keyword.toUpperCase(), parameters.join(" ").trim()];
    }),
  );
}
