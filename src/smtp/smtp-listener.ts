/**
 * An SMTP listener (RFC 5321), with STARTTLS or implicit TLS, 8BITMIME, SMTPUTF8, SIZE, PIPELINING, CHUNKING and
 * LIMITS. Its role (role.ts) decides what the commands do. smtp-server parses commands and DATA. This file limits the
 * number of connections, and server-connection.ts limits each connection.
 *
 * Invariants: only CRLF . CRLF ends a message after DATA, and nothing sent before TLS is read after it; smtp-server sees to both,
 * and our tests check them byte by byte. AUTH exists under TLS only.
 */
import type { Socket } from "node:net";
import type { Log } from "../base/log.ts";
import type { Core } from "../store/core.ts";
import { type Certificates, tlsOptions } from "../tls/certificates.ts";
import { MAIL_PARAMETERS, readMessageDsn, readRecipientDsn } from "./dsn.ts";
import { type NoteRefusal, Refusal, type RefusalName, toSmtpRefusal } from "./refusal.ts";
import type { Credentials, Envelope, SmtpRole } from "./role.ts";
import {
  Connection,
  type ConnectionParts,
  describeSmtpPeer,
  LIMITS,
  type Limits,
  type Newcomer,
  type Origin,
  SMTPServer,
  type SMTPServerAddress,
  type SMTPServerOptions,
  type SMTPServerSession,
  type Waiting,
} from "./server-connection.ts";

export type SmtpListener = ReturnType<typeof createSmtpListener>;

interface SmtpListenerParts {
  /** Port 0 picks a free one. */
  listen: { host: string; port: number };
  /** Implicit TLS (RFC 8314 §3.3) instead of STARTTLS. */
  implicitTls?: boolean;
  certificates: Pick<Certificates, "current" | "choose" | "onChange">;
  role: SmtpRole;
  limits?: Partial<Limits>;
}

/** RFC 5321 §4.5.3.1.4 says 512, and more with extensions; SMTPUTF8 addresses and passwords are long. */
const LONGEST_COMMAND = 2048;

export function createSmtpListener(
  { store, options, runtime, log, meters, site: { hostname } }: Core,
  { listen, implicitTls = false, certificates, role, limits: given }: SmtpListenerParts,
) {
  const limits = { ...LIMITS, ...given };
  const logRefusal = createRefusalLog(log, runtime.now);
  const note: NoteRefusal = (reason, fields) => {
    meters.countRefusal(reason);
    logRefusal(reason, fields);
  };
  const connectionOf = new WeakMap<SMTPServerSession, Connection>();
  /** Clients for which we wait, the longest first: one ends when there is no room for another. */
  const waiting = new Set<Waiting>();
  /** Messages that are being received or filed. */
  const busy = new Map<object, Connection>();
  let stopping = false;

  class Server extends SMTPServer {
    /** Peers whose TLS handshake is not over. */
    readonly #handshaking = new Map<Socket, Waiting>();

    /**
     * Tells whether there are too many connections, or too many from the source or network of a peer. Where there are,
     * but not from its source, a client for which we wait makes room, strangers first.
     */
    isCrowded({ origin, isTrusted, isWelcome }: Newcomer): boolean {
      const peers = [...this.#handshaking.values()].map(({ peer }) => ({ peer, isStranger: !peer.isWelcome }));
      const all = [...peers, ...[...this.connections].filter((one) => one instanceof Connection)];
      const from = (key: keyof Origin) => all.filter(({ peer }) => peer.origin[key] === origin[key]).length;
      if (!isTrusted && from("source") >= limits.connectionsPerSource) return true;
      if (!isTrusted && from("network") >= limits.connectionsPerNetwork) {
        return !dismissOne((peer) => peer.origin.network === origin.network);
      }
      const forStrangers = limits.connections - (role.isKnown ? Math.floor(limits.connections / 4) : 0);
      const isFull = all.length >= limits.connections;
      const isTaken = !isWelcome && all.filter(({ isStranger }) => isStranger).length >= forStrangers;
      if (!isFull && !isTaken) return false;
      if (dismissOne((peer) => !peer.isWelcome)) return false;
      // Known networks may be many and silent, too.
      return isTaken || !(dismissOne((peer) => !peer.isOurs) || dismissOne(() => true));
    }

    /**
     * With implicit TLS, smtp-server counts a client only after its handshake, and does not limit how long that takes.
     */
    override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
      if (!handshake) return super._acceptSocket(socket, handshake);
      const { remoteAddress: ip = "" } = socket;
      const peer = describeSmtpPeer(ip, role);
      if (this.isCrowded(peer)) {
        note("tooManyConnections", { ip });
        socket.on("error", () => {});
        socket.destroy();
        return false;
      }
      const release = super._acceptSocket(socket, handshake);
      if (!release) return release;
      const giveUp = () => this._pendingSockets.get(socket)?.destroy();
      const cancel = runtime.setTimer(giveUp, limits.beforeAuth.commandMs);
      const wait = { peer, dismiss: giveUp };
      this.#handshaking.set(socket, wait);
      waiting.add(wait);
      const forget = () => {
        cancel();
        this.#handshaking.delete(socket);
        waiting.delete(wait);
      };
      socket.once("close", forget);
      return () => {
        forget();
        release();
      };
    }

    /** Makes connections with our limits; the role may refuse one before its greeting. */
    override connect(socket: Socket): void {
      const connection = new Connection(this, socket, connectionParts);
      try {
        connection.enter();
      } catch (error) {
        socket.on("error", () => {});
        connection.refuse(toSmtpRefusal(error).reason);
        return;
      }
      connectionOf.set(connection.session, connection);
      this.connections.add(connection);
      connection.on("error", (error) => log.debug("connection failed", { trace: connection.id, error }));
      connection.init();
    }
  }

  const connectionParts: ConnectionParts = {
    role,
    limits,
    hostname,
    runtime,
    note,
    isCrowded: (peer) => server.isCrowded(peer),
    noteWait(connection, waits) {
      waiting.delete(connection);
      if (waits) waiting.add(connection);
    },
  };

  /** Ends the client for which we wait longest, of those that `may` end. Returns false if there is none. */
  function dismissOne(may: (peer: Newcomer) => boolean): boolean {
    for (const one of waiting) {
      if (!may(one.peer)) continue;
      waiting.delete(one);
      one.dismiss();
      return true;
    }
    return false;
  }

  const serverOptions: SMTPServerOptions = {
    ...tlsOptions(certificates.current()),
    SNICallback: certificates.choose,
    secure: implicitTls,
    name: hostname,
    banner: "Mailroom",
    heloResponse: "%s greets %s",
    disableReverseLookup: true,
    // Exim ends its side behind QUIT, and waits for the replies.
    allowHalfOpen: true,
    hideENHANCEDSTATUSCODES: false,
    hideDSN: !MAIL_PARAMETERS.every((name) => role.mailParameters.includes(name)),
    disabledCommands: ["XCLIENT", "XFORWARD", "WIZ", "SHELL", "KILL", ...(role.requiresAuth ? [] : ["AUTH"])],
    authMethods: ["PLAIN", "LOGIN"],
    authRequiredMessage: new Refusal("signInFirst").message,
    // Connection counts them itself, with AUTH among them.
    maxAllowedUnauthenticatedCommands: Number.POSITIVE_INFINITY,
    // Real senders have addresses such as `name.@example.com`. RCPT checks recipients anyway.
    lenientAddressParsing: true,
    maxCommandLength: LONGEST_COMMAND,
    socketTimeout: limits.commandMs,
    logger: false,
    /**
     * Getters, because smtp-server reads these two whenever it offers or checks them, and the settings may have
     * changed.
     */
    get size() {
      return options.get("smtp.maxMessageBytes");
    },
    get maxRecipients() {
      return role.maxRecipients();
    },

    onConnect(session, callback) {
      if (connectionOf.get(session)?.isToBeGreeted()) callback();
    },

    onAuth({ username = "", password, authcid, authzid }, session, callback) {
      const connection = connectionOf.get(session);
      connection?.setDeadline(undefined);
      // RFC 4616 §2: no user may act as another.
      const asAnother = authcid && authzid && authcid !== authzid;
      const signIn = asAnother
        ? Promise.reject(new Refusal("badCredentials"))
        : authenticate(connection, { username, password: password ?? "" });
      signIn.then(
        () => callback(null, { user: true }),
        (error) => callback(refusalFor(error, session, "credentials not checked")),
      );
    },

    onMailFrom(address, session, callback) {
      let refusal: Refusal | null = null;
      try {
        requireKnown(address, role.mailParameters);
        readMessageDsn(address.args);
        connectionOf.get(session)?.commands.startMail(address.address);
      } catch (error) {
        refusal = refusalFor(error, session, "sender not checked");
      }
      // Deferred: when a message that was pipelined behind another ends within the same call, smtp-server forgets to go
      // on.
      queueMicrotask(() => callback(refusal));
    },

    onRcptTo(address, session, callback) {
      const refuse = (error: unknown) => callback(refusalFor(error, session, "recipient not checked"));
      try {
        requireKnown(address, role.rcptParameters);
        readRecipientDsn(address.args);
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
      busy.set(stream, connection);
      connection.commands
        .acceptMessage(readSessionEnvelope(session), stream)
        .then(async (text) => {
          // The client hears of no message that may be lost yet.
          await store.replicated().catch((error) => {
            throw toSmtpRefusal(error);
          });
          return text;
        })
        .then(
          (text) => callback(null, text),
          // A message that the client has taken back has no reply.
          (error) => stream.errored || callback(error),
        )
        .finally(() => {
          busy.delete(stream);
          if (stopping) connection.refuse("stopping");
        });
    },

    onClose(session) {
      connectionOf.get(session)?.setDeadline(undefined);
    },
  };

  /** Returns the refusal for an error that a command threw. Logs a fault of ours as `fault`. */
  function refusalFor(error: unknown, session: SMTPServerSession, fault: string): Refusal {
    const refusal = toSmtpRefusal(error);
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
    /** Resolves with the address once it listens. @throws the error of the operating system, such as EADDRINUSE */
    start: (): Promise<{ host: string; port: number }> =>
      new Promise((resolve, reject) => {
        server.server.once("error", reject);
        server.listen(listen.port, listen.host, () => {
          server.server.off("error", reject);
          const address = server.server.address();
          const port = typeof address === "object" && address ? address.port : listen.port;
          resolve({ host: listen.host, port });
        });
      }),
    isListening: (): boolean => server.server.listening,
    /**
     * Stops accepting, sends 421 to clients that are not sending a message, and lets the others finish for up to
     * `graceMs`. Resolves when every connection is closed or the time is up.
     */
    async stop(graceMs: number): Promise<void> {
      stopping = true;
      forgetCertificates();
      server.options.closeTimeout = Math.max(1, graceMs);
      const closed = new Promise<void>((resolve) => server.close(resolve));
      const sending = new Set(busy.values());
      for (const connection of [...server.connections]) {
        if (connection instanceof Connection && !sending.has(connection)) connection.refuse("stopping");
      }
      await closed;
    },
  };
}

function readSessionEnvelope(session: SMTPServerSession): Envelope {
  const { mailFrom, rcptTo } = session.envelope;
  return {
    trace: session.id,
    ip: session.remoteAddress,
    helo: session.hostNameAppearsAs,
    tls: session.secure,
    reversePath: mailFrom ? mailFrom.address : "",
    recipients: rcptTo.map(({ address }) => address),
    dsn: {
      ...readMessageDsn((mailFrom || undefined)?.args),
      recipients: new Map(rcptTo.map(({ address, args }) => [address, readRecipientDsn(args)])),
    },
  };
}

/** Requires that all parameters of a command are among `names`. @throws Refusal unknownParameter */
function requireKnown({ args }: SMTPServerAddress, names: readonly string[]): void {
  if (Object.keys(args || {}).some((name) => !names.includes(name))) throw new Refusal("unknownParameter");
}

function declaredSize({ envelope }: SMTPServerSession): number {
  const args = (envelope.mailFrom || undefined)?.args;
  const size = (args || undefined)?.SIZE;
  return typeof size === "string" ? Number(size) : 0;
}

const ONE_LINE_IN_MS = 60_000;

/**
 * Logs refusals, so that an operator sees why mail does not come. A flood of refusals makes few lines: one a minute for
 * each reason, with the number of refusals since the last line. `now` gives epoch ms.
 */
export function createRefusalLog(log: Log, now: () => number): NoteRefusal {
  const lines = new Map<RefusalName, { loggedAt: number; unlogged: number }>();
  return (reason, fields) => {
    const last = lines.get(reason);
    const at = now();
    if (last && at >= last.loggedAt && at < last.loggedAt + ONE_LINE_IN_MS) {
      last.unlogged++;
      return;
    }
    lines.set(reason, { loggedAt: at, unlogged: 0 });
    log.info("refused", { reason, ...fields, ...(last && last.unlogged > 0 ? { unlogged: last.unlogged } : {}) });
  };
}
