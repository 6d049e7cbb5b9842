/**
 * The MX listener: SMTP from other servers (RFC 5321), with STARTTLS, 8BITMIME, SMTPUTF8, SIZE and PIPELINING. No AUTH
 * here, no relaying. The only user of smtp-server, which parses commands and DATA; what it does not bound is bounded
 * here: connections, refused commands, commands that lead nowhere, and the time a client takes.
 *
 * Invariant: only CRLF . CRLF ends a message, and nothing sent before TLS is read after it. Both are smtp-server's
 * doing, and tested here byte by byte.
 */
import type { Socket } from "node:net";
import { SMTPServer, type SMTPServerDataStream, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";
import { SMTPConnection } from "smtp-server/lib/smtp-connection.js";
import type { Log } from "../log.ts";
import { canonicalAddress, sourceOfAddress } from "../network.ts";
import type { Runtime } from "../runtime.ts";
import type { Options } from "../store/options.ts";
import type { Certificates, KeyPair } from "../tls.ts";
import type { Inbound } from "./inbound.ts";
import { Refusal, type RefusalName, refusalOf } from "./refusal.ts";

export interface MxListener {
  /** Resolves with where it listens once it does. @throws what the operating system says, such as EADDRINUSE */
  start(): Promise<{ host: string; port: number }>;
  isListening(): boolean;
  /**
   * Stops accepting, says 421 to whoever is not sending a message, and lets the others finish for up to `graceMs`.
   * Resolves when every connection is closed or the time is up.
   */
  stop(graceMs: number): Promise<void>;
}

export interface MxListenerParts {
  /** Port 0 picks a free one. */
  listen: { host: string; port: number };
  /** Name in the greeting. */
  hostname: string;
  certificates: Pick<Certificates, "current" | "onChange">;
  inbound: Inbound;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "setTimer" | "randomBytes">;
  log: Log;
  limits?: Partial<Limits>;
}

export interface Limits {
  connections: number;
  /** From one source: an IPv4 address, or an IPv6 /64. */
  connectionsPerSource: number;
  /** 5yz replies of a session, until a message of it is accepted. */
  refusals: number;
  /** Replies of a session, until a message of it is accepted. */
  replies: number;
  /** From one reply to the next complete command (RFC 5321 §4.5.3.2.7: at least 5 minutes). */
  commandMs: number;
  /** From 354 to the last byte of the message. */
  dataMs: number;
}

const LIMITS: Limits = {
  connections: 1_000,
  connectionsPerSource: 100,
  refusals: 100,
  replies: 1_000,
  commandMs: 5 * 60_000,
  dataMs: 30 * 60_000,
};

/** RFC 5321 §4.5.3.1.8: at least 100. One transaction files them all. */
const MOST_RECIPIENTS = 100;
/** RFC 5321 §4.5.3.1.4 says 512, and more with extensions; SMTPUTF8 addresses are long. */
const LONGEST_COMMAND = 2048;
/** RFC 5321 §4.1.1.11: whatever other parameter MAIL has is an error. */
const MAIL_PARAMETERS = new Set(["SIZE", "BODY", "SMTPUTF8"]);

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

export function createMxListener(parts: MxListenerParts): MxListener {
  const { listen, hostname, certificates, inbound, options, runtime, log } = parts;
  const limits = { ...LIMITS, ...parts.limits };
  const connectionOf = new WeakMap<SMTPServerSession, MxConnection>();
  /** Sessions whose message is being received or filed. */
  const busy = new Set<SMTPServerSession>();
  let stopping = false;

  /** A session with deadlines and counts. Everything it is told goes through `send`. */
  class MxConnection extends SMTPConnection {
    #cancelDeadline: (() => void) | undefined;
    #refusals = 0;
    #replies = 0;

    override send(code: number, data?: string | string[] | null, context?: string | false): void {
      const reworded = typeof data === "string" ? REWORDED.get(data) : undefined;
      if (reworded) {
        this.refuse(reworded);
        return;
      }
      if (context === "DATA_OK") this.#refusals = this.#replies = 0;
      this.#replies++;
      if (code >= 500) this.#refusals++;
      const ours = typeof data === "string" && ENHANCED_STATUS.test(data);
      super.send(code, data, ours ? false : context);
      this.setDeadline(code === 354 ? limits.dataMs : limits.commandMs);
      if (this.#refusals > limits.refusals || this.#replies > limits.replies) this.refuse("tooManyErrors");
    }

    /** Ends the session with a refusal. */
    refuse(reason: RefusalName): void {
      const { responseCode, message } = new Refusal(reason);
      super.send(responseCode, message, false);
      this.close();
    }

    /** Gives the client that long for what is awaited of it; undefined: it awaits us. */
    setDeadline(ms: number | undefined): void {
      this.#cancelDeadline?.();
      this.#cancelDeadline = ms === undefined ? undefined : runtime.setTimer(() => this.refuse("tooSlow"), ms);
    }

    override close(): void {
      this.setDeadline(undefined);
      super.close();
    }

    /** smtp-server ends the path at the first space or second `@`, and a quoted local part may hold either. */
    override _parseAddressCommand(name: string, command: Buffer | string) {
      const [, before, quoted, after] = QUOTED_LOCAL_PART.exec(command.toString()) ?? [];
      if (quoted === undefined) return super._parseAddressCommand(name, command);
      const parsed = super._parseAddressCommand(name, `${before}quoted${after}`);
      return parsed && { ...parsed, address: parsed.address.replace("quoted", () => quoted) };
    }

    handler_EXPN(_command: Buffer, callback: () => void): void {
      this.send(502, "5.5.1 Not implemented");
      callback();
    }
  }

  class MxServer extends SMTPServer {
    override connect(socket: Socket): void {
      const sources = [...this.connections].map((connection) =>
        sourceOfAddress(canonicalAddress(connection.remoteAddress)),
      );
      const connection = new MxConnection(this, socket, {
        id: Buffer.from(runtime.randomBytes(9)).toString("base64url"),
      });
      const source = sourceOfAddress(canonicalAddress(connection.remoteAddress));
      if (
        sources.length >= limits.connections ||
        sources.filter((other) => other === source).length >= limits.connectionsPerSource
      ) {
        log.warn("connection refused", { ip: connection.remoteAddress, connections: sources.length });
        socket.on("error", () => {});
        connection.refuse("tooManyConnections");
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
    name: hostname,
    banner: "Mailroom",
    heloResponse: "%s greets %s",
    disableReverseLookup: true,
    hideENHANCEDSTATUSCODES: false,
    disabledCommands: ["AUTH", "XCLIENT", "XFORWARD", "WIZ", "SHELL", "KILL"],
    // Real senders have such addresses as `name.@example.com`; who is no recipient is told so all the same.
    lenientAddressParsing: true,
    maxRecipients: MOST_RECIPIENTS,
    maxCommandLength: LONGEST_COMMAND,
    socketTimeout: limits.commandMs,
    logger: false,
    /** Read anew whenever it is offered or checked. */
    get size() {
      return options.get("smtp.maxMessageBytes");
    },

    onMailFrom(address, _session, callback) {
      const unknown = Object.keys(address.args || {}).some((name) => !MAIL_PARAMETERS.has(name));
      // Not at once: smtp-server forgets to go on after a message that was pipelined behind another and ends within
      // the same call.
      queueMicrotask(() => callback(unknown ? new Refusal("unknownParameter") : null));
    },

    onRcptTo(address, session, callback) {
      try {
        if (address.args) throw new Refusal("unknownParameter");
        inbound.admit(address.address, declaredSize(session));
        callback();
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal.reason === "failed") log.error("recipient not checked", { trace: session.id, error });
        callback(refusal);
      }
    },

    onData(stream, session, callback) {
      const connection = connectionOf.get(session);
      stream.once("end", () => connection?.setDeadline(undefined));
      busy.add(session);
      receive(stream, session)
        .then((text) => callback(null, text), callback)
        .finally(() => {
          busy.delete(session);
          if (stopping) connection?.refuse("stopping");
        });
    },

    onClose(session) {
      connectionOf.get(session)?.setDeadline(undefined);
    },
  };

  /** Resolves with the text of the 250. @throws Refusal */
  async function receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string> {
    const { mailFrom, rcptTo } = session.envelope;
    const [first, ...others] = await inbound.accept(
      {
        trace: session.id,
        ip: session.remoteAddress,
        helo: session.hostNameAppearsAs,
        tls: session.secure,
        reversePath: mailFrom ? mailFrom.address : "",
        recipients: rcptTo.map(({ address }) => address),
      },
      stream,
    );
    return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
  }

  const server = new MxServer(serverOptions);
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
        if (connection instanceof MxConnection && !busy.has(connection.session)) connection.refuse("stopping");
      }
      await closed;
    },
  };
}

const tlsOptions = ({ cert, key }: KeyPair) => ({ cert, key, minVersion: "TLSv1.2" }) as const;

function declaredSize({ envelope }: SMTPServerSession): number {
  const args = (envelope.mailFrom || undefined)?.args;
  const size = (args || undefined)?.SIZE;
  return typeof size === "string" ? Number(size) : 0;
}
