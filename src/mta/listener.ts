/**
 * An SMTP listener (RFC 5321), with STARTTLS or implicit TLS, 8BITMIME, SMTPUTF8, SIZE and PIPELINING. What the
 * commands mean is its role's (role.ts). The only user of smtp-server, which parses commands and DATA; what it does not
 * bound is bounded here: connections, refused commands, commands that lead nowhere, and the time a client takes. A client
 * that speaks before its turn is refused.
 *
 * Invariant: only CRLF . CRLF ends a message, and nothing sent before TLS is read after it. Both are smtp-server's
 * doing, and tested here byte by byte. AUTH exists under TLS only.
 */
import type { Socket } from "node:net";
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";
import { SMTPConnection } from "smtp-server/lib/smtp-connection.js";
import type { Log } from "../log.ts";
import { canonicalAddress, networkOfAddress, sourceOfAddress } from "../network.ts";
import type { Runtime } from "../runtime.ts";
import type { Options } from "../store/options.ts";
import type { Certificates, KeyPair } from "../tls.ts";
import type { Envelope } from "./inbound.ts";
import { Refusal, type RefusalName, refusalOf } from "./refusal.ts";
import { createRefusalLog } from "./refusal-log.ts";
import type { Credentials, SmtpRole, SmtpSession } from "./role.ts";

export interface SmtpListener {
  /** Resolves with where it listens once it does. @throws what the operating system says, such as EADDRINUSE */
  start(): Promise<{ host: string; port: number }>;
  isListening(): boolean;
  /**
   * Stops accepting, says 421 to whoever is not sending a message, and lets the others finish for up to `graceMs`.
   * Resolves when every connection is closed or the time is up.
   */
  stop(graceMs: number): Promise<void>;
}

export interface SmtpListenerParts {
  /** Port 0 picks a free one. */
  listen: { host: string; port: number };
  /** Implicit TLS (RFC 8314 §3.3) instead of STARTTLS. */
  implicitTls?: boolean;
  /** Name in the greeting. */
  hostname: string;
  certificates: Pick<Certificates, "current" | "onChange">;
  role: SmtpRole;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Log;
  limits?: Partial<Limits>;
}

/** What a session may take. */
interface SessionLimits {
  /** 5yz replies, until somebody signs in or a message is accepted. */
  refusals: number;
  /** Replies, until somebody signs in or a message is accepted. */
  replies: number;
  /** From one reply to the next complete command (RFC 5321 §4.5.3.2.7: at least 5 minutes). */
  commandMs: number;
}

export interface Limits extends SessionLimits {
  connections: number;
  /** From one source: an IPv4 address, or an IPv6 /64. Whom the role trusts has no limit, here and in the next. */
  connectionsPerSource: number;
  /** From one network: an IPv4 /24, or an IPv6 /48. */
  connectionsPerNetwork: number;
  /** From 354 to the last byte of the message. */
  dataMs: number;
  /** How long who spoke out of turn waits for the refusal. */
  outOfTurnMs: number;
  /**
   * Where it takes signing in, as long as nobody has: apps do it at once, and only strangers and guesses take longer.
   * `commandMs` also for the handshake of implicit TLS.
   */
  beforeAuth: SessionLimits;
}

const LIMITS: Limits = {
  connections: 1_000,
  connectionsPerSource: 100,
  connectionsPerNetwork: 400,
  refusals: 100,
  replies: 1_000,
  commandMs: 5 * 60_000,
  dataMs: 30 * 60_000,
  outOfTurnMs: 5_000,
  beforeAuth: { refusals: 5, replies: 30, commandMs: 60_000 },
};

/** RFC 5321 §4.5.3.1.4 says 512, and more with extensions; SMTPUTF8 addresses and passwords are long. */
const LONGEST_COMMAND = 2048;

/** `MAIL FROM:<`, a source route, a quoted local part (RFC 5321 §4.1.2, RFC 6531 §3.3), and the rest from the `@` on. */
const QUOTED_LOCAL_PART = /^([^<]*<(?:@[^\s:"<>]+:)?)("(?:[^"\\\p{Cc}]|\\[ -~])*")(@[^"]*)$/u;

/** smtp-server's words for what we say in ours. */
const REWORDED = new Map<string, RefusalName>([
  ["Error: Command line too long", "lineTooLong"],
  ["Error: too many unrecognized commands", "tooManyErrors"],
  ["Timeout - closing connection", "tooSlow"],
  ["Server shutting down", "stopping"],
]);

const ENHANCED_STATUS = /^[245]\.\d{1,3}\.\d{1,3} /;

export function createSmtpListener(parts: SmtpListenerParts): SmtpListener {
  const { listen, implicitTls = false, hostname, certificates, role, options, runtime, log } = parts;
  const limits = { ...LIMITS, ...parts.limits };
  const reworded = new Map([...REWORDED, [`${hostname} You talk too soon`, "outOfTurn" as const]]);
  const note = createRefusalLog(log, runtime.now);
  const connectionOf = new WeakMap<SMTPServerSession, Connection>();
  /** Connections whose message is being received or dealt with. */
  const busy = new Set<Connection>();
  let stopping = false;

  /** A connection with deadlines and counts. Everything it is told goes through `send`. */
  class Connection extends SMTPConnection {
    readonly origin = originOf(this.remoteAddress);
    readonly #isTrusted = role.isTrusted(this.remoteAddress);
    /** Mail apps, which say nothing before they have signed in, and whom we trust. */
    readonly #mayInterrupt = role.requiresAuth || this.#isTrusted;
    #commands: SmtpSession | undefined;
    #spokeOutOfTurn = false;
    /** EHLO was answered in this turn of the event loop: what else it holds was sent before the answer could be read. */
    #justGreeted = false;
    #cancelDeadline: (() => void) | undefined;
    #refusals = 0;
    #replies = 0;

    /** @throws Error before `enter` */
    get commands(): SmtpSession {
      if (!this.#commands) throw new Error("a connection that was not let in");
      return this.#commands;
    }

    /** @throws Refusal */
    enter(): void {
      if (server.isCrowded(this.origin, this.#isTrusted)) throw new Refusal("tooManyConnections");
      this.#commands = role.open({ trace: this.id, ip: this.remoteAddress });
    }

    override send(code: number, data?: string | string[] | null, context?: string | false): void {
      const reason = typeof data === "string" ? reworded.get(data) : undefined;
      if (reason === "outOfTurn") this.#refuseOutOfTurn();
      else if (reason) this.refuse(reason);
      if (reason) return;
      if (context === "DATA_OK" || code === 235) this.#refusals = this.#replies = 0;
      this.#replies++;
      if (code >= 500) this.#refusals++;
      const text = role.requiresAuth && !this.secure ? withoutAuth(code, data) : data;
      const ours = typeof text === "string" && ENHANCED_STATUS.test(text);
      super.send(code, text, ours ? false : context);
      const { refusals, replies, commandMs } = this.#limits();
      this.setDeadline(code === 354 ? limits.dataMs : commandMs);
      if (this.#refusals > refusals || this.#replies > replies) this.refuse("tooManyErrors");
    }

    #limits(): SessionLimits {
      return role.requiresAuth && !this.session.user ? limits.beforeAuth : limits;
    }

    /** Ends the session with a refusal. */
    refuse(reason: RefusalName): void {
      const { responseCode, message } = new Refusal(reason);
      note(reason, { trace: this.id, ip: this.remoteAddress });
      super.send(responseCode, message, false);
      this.close();
    }

    /** Nothing more is read of it: smtp-server is not called back. Who does not wait is gone when it is told. */
    #refuseOutOfTurn(): void {
      this.#spokeOutOfTurn = true;
      if (this.#mayInterrupt) this.refuse("outOfTurn");
      else this.setDeadline(limits.outOfTurnMs, "outOfTurn");
    }

    /** Called when it is time to greet. smtp-server notices only whole lines that came before. */
    override connectionReady(next?: () => void): void {
      const isEarly = !this.#mayInterrupt && this._socket.bytesRead > 0;
      if (isEarly && !this.#spokeOutOfTurn) this.#refuseOutOfTurn();
      if (!this.#spokeOutOfTurn) super.connectionReady(next);
    }

    override handler_EHLO(command: Buffer, callback: () => void): void {
      this.#greeted();
      super.handler_EHLO(command, callback);
    }

    override handler_HELO(command: Buffer, callback: () => void): void {
      this.#greeted();
      super.handler_HELO(command, callback);
    }

    #greeted(): void {
      this.#justGreeted = true;
      queueMicrotask(() => {
        this.#justGreeted = false;
      });
    }

    /** RFC 2920 §3.1: EHLO ends a group of commands; what mail may hold is known only from its reply. */
    override handler_MAIL(command: Buffer, callback: () => void): void {
      if (this.#justGreeted && !this.#mayInterrupt) this.#refuseOutOfTurn();
      else super.handler_MAIL(command, callback);
    }

    /** Gives the client that long, then refuses it; undefined: it awaits us. */
    setDeadline(ms: number | undefined, reason: RefusalName = "tooSlow"): void {
      this.#cancelDeadline?.();
      // A reply to who has left meanwhile is awaited by nobody.
      const over = ms === undefined || this._closing || this._closed;
      this.#cancelDeadline = over ? undefined : runtime.setTimer(() => this.refuse(reason), ms);
    }

    override close(): void {
      super.close();
      this.setDeadline(undefined);
    }

    /** smtp-server ends the path at the first space or second `@`, and a quoted local part may hold either. */
    override _parseAddressCommand(name: string, command: Buffer | string) {
      const [, before, quoted, after] = QUOTED_LOCAL_PART.exec(command.toString()) ?? [];
      if (quoted === undefined) return super._parseAddressCommand(name, command);
      const parsed = super._parseAddressCommand(name, `${before}quoted${after}`);
      return parsed && { ...parsed, address: parsed.address.replace("quoted", () => quoted) };
    }

    override handler_AUTH(command: Buffer, callback: () => void): void {
      if (this.secure) {
        super.handler_AUTH(command, callback);
        return;
      }
      this.send(530, new Refusal("tlsFirst").message);
      callback();
    }

    handler_EXPN(_command: Buffer, callback: () => void): void {
      this.send(502, "5.5.1 Not implemented");
      callback();
    }
  }

  class Server extends SMTPServer {
    /** Whether there are too many, or too many from where this one comes. */
    isCrowded({ source, network }: Origin, isTrusted: boolean): boolean {
      const origins = [...this._pendingSockets.keys()].map(({ remoteAddress }) => originOf(remoteAddress));
      for (const connection of this.connections) {
        if (connection instanceof Connection) origins.push(connection.origin);
      }
      if (origins.length >= limits.connections) return true;
      return (
        !isTrusted &&
        (origins.filter((other) => other.source === source).length >= limits.connectionsPerSource ||
          origins.filter((other) => other.network === network).length >= limits.connectionsPerNetwork)
      );
    }

    /** With implicit TLS, smtp-server counts a client only after its handshake, and lets it take its time over that. */
    override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
      const { remoteAddress: ip = "" } = socket;
      if (handshake && this.isCrowded(originOf(ip), role.isTrusted(ip))) {
        note("tooManyConnections", { ip });
        socket.on("error", () => {});
        socket.destroy();
        return false;
      }
      const release = super._acceptSocket(socket, handshake);
      if (!release || !handshake) return release;
      const giveUp = () => this._pendingSockets.get(socket)?.destroy();
      const cancel = runtime.setTimer(giveUp, limits.beforeAuth.commandMs);
      socket.once("close", cancel);
      return () => {
        cancel();
        release();
      };
    }

    override connect(socket: Socket): void {
      const connection = new Connection(this, socket, {
        id: Buffer.from(runtime.randomBytes(9)).toString("base64url"),
      });
      try {
        connection.enter();
      } catch (error) {
        socket.on("error", () => {});
        connection.refuse(refusalOf(error).reason);
        return;
      }
      connectionOf.set(connection.session, connection);
      this.connections.add(connection);
      connection.on("error", (error) => log.debug("connection failed", { trace: connection.id, error }));
      connection.init();
    }
  }

  const serverOptions: SMTPServerOptions = {
    ...tlsOptions(certificates.current()),
    secure: implicitTls,
    name: hostname,
    banner: "Mailroom",
    heloResponse: "%s greets %s",
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    disabledCommands: ["XCLIENT", "XFORWARD", "WIZ", "SHELL", "KILL", ...(role.requiresAuth ? [] : ["AUTH"])],
    authMethods: ["PLAIN", "LOGIN"],
    authRequiredMessage: new Refusal("signInFirst").message,
    // Counted here, with AUTH among them.
    maxAllowedUnauthenticatedCommands: Number.POSITIVE_INFINITY,
    // Real senders have such addresses as `name.@example.com`; who is no recipient is told so all the same.
    lenientAddressParsing: true,
    maxCommandLength: LONGEST_COMMAND,
    maxClients: limits.connections,
    socketTimeout: limits.commandMs,
    logger: false,
    /** Read anew whenever it is offered or checked, as is the next. */
    get size() {
      return options.get("smtp.maxMessageBytes");
    },
    get maxRecipients() {
      return role.maxRecipients();
    },

    onAuth({ username = "", password, authcid, authzid }, session, callback) {
      const connection = connectionOf.get(session);
      connection?.setDeadline(undefined);
      // RFC 4616 §2: nobody here may act as another.
      const asAnother = authcid && authzid && authcid !== authzid;
      const signIn = asAnother
        ? Promise.reject(new Refusal("badCredentials"))
        : authenticate(connection, { username, password: password ?? "" });
      signIn.then(
        () => callback(null, { user: true }),
        (error) => callback(said(error, session, "credentials not checked")),
      );
    },

    onMailFrom(address, session, callback) {
      let refusal: Refusal | null = null;
      try {
        const unknown = Object.keys(address.args || {}).some((name) => !role.mailParameters.includes(name));
        if (unknown) throw new Refusal("unknownParameter");
        connectionOf.get(session)?.commands.startMail(address.address);
      } catch (error) {
        refusal = said(error, session, "sender not checked");
      }
      // Not at once: smtp-server forgets to go on after a message that was pipelined behind another and ends within
      // the same call.
      queueMicrotask(() => callback(refusal));
    },

    onRcptTo(address, session, callback) {
      const refuse = (error: unknown) => callback(said(error, session, "recipient not checked"));
      try {
        if (address.args) throw new Refusal("unknownParameter");
        const connection = connectionOf.get(session);
        const admitted = connection?.commands.admitRecipient(address.address, declaredSize(session));
        if (admitted) {
          connection?.setDeadline(undefined);
          admitted.then(() => callback(), refuse);
        } else {
          callback();
        }
      } catch (error) {
        refuse(error);
      }
    },

    onData(stream, session, callback) {
      const connection = connectionOf.get(session);
      if (!connection) throw new Error("a message came on no connection");
      stream.once("end", () => connection.setDeadline(undefined));
      busy.add(connection);
      connection.commands
        .acceptMessage(envelopeOf(session), stream)
        .then((text) => callback(null, text), callback)
        .finally(() => {
          busy.delete(connection);
          if (stopping) connection.refuse("stopping");
        });
    },

    onClose(session) {
      connectionOf.get(session)?.setDeadline(undefined);
    },
  };

  /** The refusal for what a command threw; `fault` is logged when it is one of ours. */
  function said(error: unknown, session: SMTPServerSession, fault: string): Refusal {
    const refusal = refusalOf(error);
    const { id: trace, remoteAddress: ip } = session;
    if (refusal.reason === "failed") log.error(fault, { trace, error });
    else note(refusal.reason, { trace, ip });
    return refusal;
  }

  async function authenticate(connection: Connection | undefined, credentials: Credentials): Promise<void> {
    if (!connection?.commands.authenticate) throw new Refusal("badCredentials");
    await connection.commands.authenticate(credentials);
  }

  const server = new Server(serverOptions);
  server.on("error", (error) => log.debug("listener", { error }));
  const forgetCertificates = certificates.onChange((pair) => server.updateSecureContext(tlsOptions(pair)));

  return {
    start: () =>
      new Promise((resolve, reject) => {
        server.server.once("error", reject);
        server.listen(listen.port, listen.host, () => {
          server.server.off("error", reject);
          const address = server.server.address();
          const port = typeof address === "object" && address ? address.port : listen.port;
          resolve({ host: listen.host, port });
        });
      }),
    isListening: () => server.server.listening,
    async stop(graceMs) {
      stopping = true;
      forgetCertificates();
      server.options.closeTimeout = Math.max(1, graceMs);
      const closed = new Promise<void>((resolve) => server.close(resolve));
      for (const connection of [...server.connections]) {
        if (connection instanceof Connection && !busy.has(connection)) connection.refuse("stopping");
      }
      await closed;
    },
  };
}

/** Where a connection comes from, for the limits. */
interface Origin {
  source: string;
  network: string;
}

function originOf(ip: string | undefined): Origin {
  const address = canonicalAddress(ip ?? "");
  return { source: sourceOfAddress(address), network: networkOfAddress(address) };
}

const tlsOptions = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" }) as const;

/** What is said before TLS: AUTH is not offered, and TLS comes before signing in. */
function withoutAuth<T extends string | string[] | null | undefined>(code: number, data: T): string | string[] | T {
  if (code === 530) return new Refusal("tlsFirst").message;
  return Array.isArray(data) ? data.filter((line) => !line.startsWith("AUTH ")) : data;
}

function envelopeOf(session: SMTPServerSession): Envelope {
  const { mailFrom, rcptTo } = session.envelope;
  return {
    trace: session.id,
    ip: session.remoteAddress,
    helo: session.hostNameAppearsAs,
    tls: session.secure,
    reversePath: mailFrom ? mailFrom.address : "",
    recipients: rcptTo.map(({ address }) => address),
  };
}

function declaredSize({ envelope }: SMTPServerSession): number {
  const args = (envelope.mailFrom || undefined)?.args;
  const size = (args || undefined)?.SIZE;
  return typeof size === "string" ? Number(size) : 0;
}
