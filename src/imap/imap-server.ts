/**
 * The listeners of IMAP: connections with their limits, TLS, and the loop that reads a command, runs it and replies. session.ts
 * knows what a session is, commands/ what commands do.
 *
 * Invariants: nothing that was sent before TLS is read after it; nobody signs in without TLS; a client that does not read its
 * replies is not read from, and ends after a while.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createSecureContext, type SecureContext, TLSSocket } from "node:tls";
import { PolicyRefusal } from "../access/policy.ts";
import { isKnownSignInSource } from "../access/sign-in-sources.ts";
import { AppError } from "../base/errors.ts";
import { collectGarbageSoon, LARGE_BYTES } from "../base/memory.ts";
import { randomToken } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { Shares } from "../base/shares.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { canonicalIpAddress, createNetworkMatcher, ipAddressSource, isOwnOrTrustedAddress } from "../net/ip.ts";
import { type Certificates, tlsOptions } from "../tls/certificates.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { runImapAppend } from "./commands/append.ts";
import { runImapExpunge } from "./commands/expunge.ts";
import { runImapFetch } from "./commands/fetch.ts";
import { runImapIdle } from "./commands/idle.ts";
import { runImapCreate, runImapDelete, runImapRename } from "./commands/label-commands.ts";
import { runImapList, runImapLsub, runImapNamespace, runImapStatus, runImapSubscribe } from "./commands/list.ts";
import { runImapCopy, runImapMove } from "./commands/move.ts";
import { runImapGetQuota, runImapGetQuotaRoot } from "./commands/quota.ts";
import { runImapSearch } from "./commands/search-command.ts";
import { runImapClose, runImapSelect } from "./commands/select.ts";
import { runImapAuthenticate, runImapLogin } from "./commands/sign-in-commands.ts";
import { runImapStore } from "./commands/store-command.ts";
import { Malformed, Parser } from "./grammar.ts";
import { createImapCommandReader } from "./lines.ts";
import { Ended, ImapSession, Refused, type Shared, toImapRefusal, type Wire } from "./session.ts";

/** Sessions that wait are looked at once in this time, whether they still may. */
const SWEEP_MS = 1_000;

const CAPABILITIES = "IMAP4rev1 IMAP4rev2 LITERAL- SASL-IR ID ENABLE";
const BEFORE_TLS = `${CAPABILITIES} STARTTLS LOGINDISABLED`;
const BEFORE_SIGN_IN = `${CAPABILITIES} AUTH=PLAIN AUTH=OAUTHBEARER`;
const SIGNED_IN = `${CAPABILITIES} BINARY CHILDREN CONDSTORE ESEARCH IDLE LIST-EXTENDED LIST-STATUS MOVE NAMESPACE OBJECTID QRESYNC QUOTA QUOTA=RES-STORAGE SEARCHRES SPECIAL-USE STATUS=SIZE UIDPLUS UNSELECT UTF8=ACCEPT WITHIN`;

/** Extensions that ENABLE takes, in the spelling of the reply, by their upper-case names. */
const ENABLED = new Map(["CONDSTORE", "QRESYNC", "IMAP4rev2", "UTF8=ACCEPT"].map((name) => [name.toUpperCase(), name]));

/** For metrics, whose names no client makes up. */
const KNOWN: ReadonlySet<string> = new Set(
  (
    "APPEND AUTHENTICATE CAPABILITY CHECK CLOSE COPY CREATE DELETE ENABLE EXAMINE EXPUNGE FETCH GETQUOTA GETQUOTAROOT ID IDLE " +
    "LIST LOGIN LSUB MOVE NAMESPACE NOOP RENAME SEARCH SELECT STARTTLS STATUS STORE SUBSCRIBE UID UNSELECT UNSUBSCRIBE"
  ).split(" "),
);

/** Octets of a command without its large literal. */
const LONGEST_COMMAND = 64 * 1024;
/** Most connections of one source on which nobody has signed in, and most of one person. */
const MOST_OF_SOURCE = 100;
const MOST_OF_PERSON = 32;
/** How long a client may be silent: before signing in, and afterwards (RFC 9051 §5.4: at least 30 minutes). */
const SILENT_MS = { stranger: 60_000, person: 31 * 60_000 };
/** Time within which a client must sign in, whatever it says meanwhile. */
const STRANGER_MS = 3 * 60_000;
/** How long a client may take to read what it was sent. */
const STALLED_MS = 5 * 60_000;
/** How long a client may take to read that it is over. */
const FAREWELL_MS = 1_000;
/** Octets of a message that must come in each span of PACE_MS, as at submission. */
const LEAST_OCTETS = 65_536;
const PACE_MS = 3 * 60_000;
/** How long a client waits for room for a message. */
const ROOM_MS = 60_000;
/** Refused commands in a row. */
const MOST_REFUSED = { stranger: 5, person: 100 };
/** Changes are looked for once in this time. */
const LOOK_MS = 100;

/**
 * After these the client is told of nothing that changes sequence numbers: of FETCH, STORE and SEARCH by RFC 9051 §7.5.1, of
 * UID SEARCH by RFC 7162 §3.2.10.2, of COPY because \Deleted follows, often by number.
 */
const KEEPS_NUMBERS = /^\S+ (?:FETCH|STORE|(?:UID )?(?:SEARCH|COPY)) /i;

/** A text of a reply, which may name what somebody else chose: in ASCII, in one line. */
const plain = (text: string): string => text.replace(/[^ -~]/g, "?");

interface Listening {
  listen: { host: string; port: number };
  implicitTls: boolean;
  certificates: Pick<Certificates, "current" | "choose" | "onChange">;
}

/** `mostConnections`: of all listeners together. A quarter is kept for people, and for sources from which somebody signed in. */
export function createImap(
  core: ParsingCore,
  {
    mostConnections,
    appended,
    ...shared
  }: Shared & {
    mostConnections: number;
    /** Bytes of messages that are appended. */
    appended: Shares;
  },
) {
  const { options, runtime, log, meters, site } = core;
  const connections = new Set<ReturnType<typeof serve>>();
  /** Connections that have not signed in and for which we wait, the longest first. */
  const waiting = new Set<ReturnType<typeof serve>>();
  const servers: Server[] = [];
  const forgetCertificates: (() => void)[] = [];
  let stopping = false;
  /** Called when the last connection has ended. */
  let ended = (): void => {};
  const idlers = new Set<() => void>();
  let isLooking = false;

  /** Tells whether limits for strangers leave out a client. */
  function isWelcome(address: string | undefined): boolean {
    const networks = options.get("mx.trustedNetworks");
    const isTrusted = address !== undefined && networks !== "none" && createNetworkMatcher(networks)(address);
    return isOwnOrTrustedAddress(address, isTrusted) || isKnownSignInSource(core, ipAddressSource(address));
  }

  /** The limit that leaves no room for a client. Where it is of all, one for which we wait makes room, strangers first. */
  function noRoomFor(address: string | undefined): "source" | "total" | undefined {
    const strangers = [...connections].filter((one) => one.isStranger());
    const welcome = isWelcome(address);
    const source = ipAddressSource(address);
    if (!welcome && strangers.filter((one) => one.source === source).length >= MOST_OF_SOURCE) return "source";
    const forStrangers = mostConnections - Math.floor(mostConnections / 4);
    const isFull = connections.size >= mostConnections;
    const isTaken = !welcome && strangers.length >= forStrangers;
    if (!isFull && !isTaken) return undefined;
    const longest = [...waiting].find((one) => one.isStranger()) ?? (isTaken ? undefined : [...waiting][0]);
    longest?.dismiss();
    return longest ? undefined : "total";
  }

  /** Wakes those that wait for changes, soon. */
  function look(): void {
    if (isLooking || idlers.size === 0) return;
    isLooking = true;
    runtime.setTimer(() => {
      isLooking = false;
      for (const wake of idlers) wake();
    }, LOOK_MS);
  }
  const stopLooking = core.store.onCommit(look);

  const onChange = (wake: () => void): (() => void) => {
    idlers.add(wake);
    return () => idlers.delete(wake);
  };

  /** Runs one command; returns what follows the tag. @throws Malformed, Refused, Ended */
  async function run(session: ImapSession, name: string, parser: Parser, tag: string): Promise<string> {
    const byUid = name === "UID";
    if (byUid) parser.space();
    const verb = byUid ? parser.atom().toUpperCase() : name;
    if (byUid && !/^(?:FETCH|STORE|SEARCH|COPY|MOVE|EXPUNGE)$/.test(verb))
      throw new Malformed(`UID ${verb} is unknown`);
    switch (verb) {
      case "CAPABILITY":
        parser.end();
        await session.send(`* CAPABILITY ${listCapabilities(session)}`);
        return "CAPABILITY completed";
      case "NOOP":
        parser.end();
        return "NOOP completed";
      case "ID":
        await session.send('* ID ("name" "Mailroom")');
        return "ID completed";
      case "STARTTLS":
        parser.end();
        if (session.wire.isSecure()) throw new Malformed("TLS has begun already");
        return "Begin TLS";
      case "LOGIN":
        return runImapLogin(session, parser);
      case "AUTHENTICATE":
        return runImapAuthenticate(session, parser);
      default:
    }
    if (!session.who)
      throw KNOWN.has(verb) ? new Refused("Sign in first", "CLIENTBUG") : new Malformed(`${verb} is unknown`);
    switch (verb) {
      case "ENABLE": {
        parser.space();
        const asked = [parser.atom().toUpperCase()];
        while (parser.take(" ")) asked.push(parser.atom().toUpperCase());
        const enabled = asked.filter((one) => ENABLED.has(one));
        await session.send(["* ENABLED", ...new Set(enabled.map((one) => ENABLED.get(one)))].join(" "));
        if (enabled.includes("QRESYNC") || enabled.includes("CONDSTORE")) await session.enableCondstore();
        for (const one of enabled) session.enabled.add(one);
        return "ENABLE completed";
      }
      case "CHECK":
        parser.end();
        session.selected();
        return "CHECK completed";
      case "LIST":
        return runImapList(session, parser);
      case "LSUB":
        return runImapLsub(session, parser);
      case "NAMESPACE":
        return runImapNamespace(session, parser);
      case "GETQUOTA":
        return runImapGetQuota(session, parser);
      case "GETQUOTAROOT":
        return runImapGetQuotaRoot(session, parser);
      case "STATUS":
        return runImapStatus(session, parser);
      case "SELECT":
        return runImapSelect(session, parser, false);
      case "EXAMINE":
        return runImapSelect(session, parser, true);
      case "CLOSE":
        return runImapClose(session, parser, true);
      case "UNSELECT":
        return runImapClose(session, parser, false);
      case "FETCH":
        return runImapFetch(session, parser, byUid);
      case "STORE":
        return runImapStore(session, parser, byUid);
      case "SEARCH":
        return runImapSearch(session, parser, byUid, tag);
      case "MOVE":
        return runImapMove(session, parser, byUid);
      case "COPY":
        return runImapCopy(session, parser, byUid);
      case "EXPUNGE":
        return runImapExpunge(session, parser, byUid);
      case "APPEND":
        return runImapAppend(session, parser);
      case "IDLE":
        return runImapIdle(session, parser, onChange);
      case "SUBSCRIBE":
      case "UNSUBSCRIBE":
        return runImapSubscribe(session, parser, verb === "SUBSCRIBE");
      case "CREATE":
        return runImapCreate(session, parser);
      case "DELETE":
        return runImapDelete(session, parser);
      case "RENAME":
        return runImapRename(session, parser);
      default:
        throw new Malformed(`${verb} is unknown`);
    }
  }

  const listCapabilities = ({ who, wire }: ImapSession): string =>
    who
      ? `${SIGNED_IN} APPENDLIMIT=${options.get("smtp.maxMessageBytes")}`
      : wire.isSecure()
        ? BEFORE_SIGN_IN
        : BEFORE_TLS;

  function serve(
    raw: Socket,
    { implicitTls, certificates, context }: Omit<Listening, "listen"> & { context(): SecureContext },
  ) {
    const trace = randomToken(runtime, 16);
    const address = canonicalIpAddress(raw.remoteAddress ?? "");
    const source = ipAddressSource(address);
    const welcome = isWelcome(address);
    const isStranger = (): boolean => !welcome && !session.who;
    const lines = createImapCommandReader({
      command: LONGEST_COMMAND,
      large: () => (session.who ? options.get("smtp.maxMessageBytes") : 0),
      takesLarge: (text) => /^\S{1,100} APPEND /i.test(text),
    });
    let socket: Socket = raw;
    let isSecure = false;
    let isOver = false;
    let isWaiting = false;
    let arrived = Promise.withResolvers<void>();
    let cancelSilence = (): void => {};
    const since = runtime.now();
    let received = 0;
    let isLeaving = false;
    const closed = new AbortController();
    let cancelEnd = (): void => {};

    function end(): void {
      isOver = true;
      closed.abort();
      cancelSilence();
      cancelEnd();
      arrived.resolve();
      socket.destroy();
      raw.destroy();
      connections.delete(connection);
      waiting.delete(connection);
      if (connections.size === 0) ended();
    }

    function bye(reason: string): void {
      if (isOver || isLeaving) return;
      isLeaving = true;
      socket.end(`* BYE ${plain(reason)}\r\n`, end);
      // It may not read.
      cancelEnd();
      cancelEnd = runtime.setTimer(end, 1_000);
    }

    function attend(to: Socket): void {
      to.on("data", (chunk: Buffer) => {
        to.pause();
        meters.countImapBytes("received", chunk.length);
        received += chunk.length;
        lines.push(chunk);
        arrived.resolve();
      });
      to.on("close", end);
      to.on("error", (error) => {
        log.debug("connection failed", { trace, error });
        end();
      });
    }

    function secure(): void {
      lines.clear();
      raw.removeAllListeners("data");
      const tls = new TLSSocket(raw, { isServer: true, secureContext: context(), SNICallback: certificates.choose });
      socket = tls;
      isSecure = true;
      attend(tls);
      raw.resume();
    }

    const wire: Wire = {
      isSecure: () => isSecure,
      hangUp: bye,
      async write(data) {
        if (isOver) throw new Ended("the connection has ended");
        const chunk = typeof data === "string" ? Buffer.from(data, "latin1") : data;
        meters.countImapBytes("sent", chunk.length);
        if (socket.write(chunk)) return;
        const drained = Promise.withResolvers<void>();
        const cancel = runtime.setTimer(end, STALLED_MS);
        const done = (): void => drained.resolve();
        socket.once("drain", done);
        socket.once("close", done);
        await drained.promise;
        socket.off("close", done);
        cancel();
      },
      async line() {
        const read = await nextRead();
        // A literal would come past the bounds of APPEND.
        if (read && !("command" in read)) throw new Ended("A line without a literal was expected");
        return read?.command.text;
      },
    };
    const session = new ImapSession(core, shared, wire, { trace, source, address });

    /** Waits for octets until `lines` has something. */
    async function nextRead() {
      waiting.delete(connection);
      if (!session.who) waiting.add(connection);
      const ms = session.who ? SILENT_MS.person : SILENT_MS.stranger;
      cancelSilence = runtime.setTimer(() => {
        bye("Nothing was said for too long");
        cancelSilence = runtime.setTimer(end, FAREWELL_MS);
      }, ms);
      try {
        for (;;) {
          const read = lines.next();
          if (read) waiting.delete(connection);
          if (read || isOver) return read;
          arrived = Promise.withResolvers<void>();
          isWaiting = true;
          socket.resume();
          await arrived.promise;
          isWaiting = false;
        }
      } finally {
        cancelSilence();
      }
    }

    /** Runs a command and replies; returns false at the end of the session. */
    async function answer(command: { text: string; literals: ReadonlyMap<number, Uint8Array> }): Promise<boolean> {
      const parser = new Parser(command);
      let [tag, name, verb] = ["*", "", "other"];
      try {
        tag = parser.tag();
        parser.space();
        name = parser.atom().toUpperCase();
        if (KNOWN.has(name)) verb = name;
        if (name === "LOGOUT") {
          parser.end();
          await session.send(`* BYE See you\r\n${tag} OK LOGOUT completed`);
          return false;
        }
        const said = await run(session, name, parser, tag);
        if (isOver) return false;
        if (session.who) await session.tellChanges({ keepsNumbers: KEEPS_NUMBERS.test(command.text) });
        const capability = /^(?:LOGIN|AUTHENTICATE)$/.test(name) ? `[CAPABILITY ${listCapabilities(session)}] ` : "";
        if (capability !== "" && !admitPerson()) throw new Refused("Too many connections", "LIMIT");
        await session.send(`${tag} OK ${capability}${said}`);
        if (name === "STARTTLS") secure();
        meters.countImapCommand(verb, "OK");
        refused = 0;
        return true;
      } catch (error) {
        if (error instanceof Ended) {
          if (!isOver) await session.send(`* BYE ${plain(error.message)}`).catch(() => {});
          return false;
        }
        meters.countImapCommand(verb, error instanceof Malformed ? "BAD" : "NO");
        if (error instanceof Malformed) await session.send(`${tag} BAD ${plain(error.message)}`);
        else {
          if (error instanceof PolicyRefusal) await noteRefusal(error, name);
          const { message, code } = refusal(error);
          await session.send(`${tag} NO ${code ? `[${code}] ` : ""}${plain(message)}`);
        }
        if (++refused < (session.who ? MOST_REFUSED.person : MOST_REFUSED.stranger)) return true;
        await session.send("* BYE Too many mistakes");
        return false;
      }
    }
    let refused = 0;

    /** A refusal by the policy of a key is in its journal. */
    async function noteRefusal({ code: outcome }: PolicyRefusal, name: string): Promise<void> {
      const caller = session.caller(name.toLowerCase());
      await core.store.note((tx) => addJournalEntry(tx, caller, { ids: [], outcome }, runtime.now()));
    }

    function refusal(error: unknown): Refused {
      try {
        return toImapRefusal(error);
      } catch {
        log.error("an IMAP command failed", { trace, error });
        return new Refused("The server failed", "SERVERBUG");
      }
    }

    /** False if the person has too many connections. */
    function admitPerson(): boolean {
      const { userId } = session.caller("login");
      const theirs = [...connections].filter((one) => one.session.who?.caller.userId === userId);
      if (theirs.length <= MOST_OF_PERSON) return true;
      meters.countImapRefusal("person");
      session.who = undefined;
      return false;
    }

    /** Waits for room for a message; the result gives it back. Undefined if that takes too long, or the client leaves. */
    async function roomFor(octets: number): Promise<(() => void) | undefined> {
      const who = session.who?.caller ?? { workspaceId: "", userId: source };
      const held = await appended.wait(who, octets, ROOM_MS, closed.signal);
      if (!held) return undefined;
      return () => {
        held.release();
        if (octets > LARGE_BYTES) collectGarbageSoon();
      };
    }

    /** Ends the session if a message comes too slowly. */
    function keepPace(): void {
      const before = received;
      cancelEnd = runtime.setTimer(() => {
        if (received - before < LEAST_OCTETS) bye("The message comes too slowly");
        else keepPace();
      }, PACE_MS);
    }

    async function converse(): Promise<void> {
      if (implicitTls) secure();
      else attend(raw);
      await session.send(`* OK [CAPABILITY ${listCapabilities(session)}] ${site.hostname} Mailroom`);
      let leave: (() => void) | undefined;
      try {
        for (let goesOn = true; goesOn && !isOver; ) {
          if (stopping) return bye("The server stops");
          let read = await nextRead();
          if (read && "waits" in read && read.large !== undefined) {
            leave = await roomFor(read.large);
            if (leave) keepPace();
            else read = lines.refuse("NO [LIMIT] Too much mail comes at once; try again");
          }
          if (!read) break;
          if ("waits" in read) {
            await wire.write("+ Go on\r\n");
            continue;
          }
          cancelEnd();
          if ("refused" in read) {
            await session.send(`${read.tag} ${read.refused}`);
            if (read.ends) {
              await session.send("* BYE [TOOBIG] The rest cannot be read");
              goesOn = false;
            }
          } else goesOn = await answer(read.command);
          leave?.();
          leave = undefined;
        }
      } finally {
        leave?.();
      }
    }

    const connection = {
      session,
      source,
      isStranger,
      /** Ends it at once: a client that says nothing does not wait for the end of its TLS either. */
      dismiss(): void {
        meters.countImapRefusal("total");
        if (socket.writable) socket.write("* BYE Too many connections\r\n");
        end();
      },
      /**
       * Ends the session of a person who may no longer, and of a stranger who does not sign in. While a command of a person
       * runs, that is seen by it.
       */
      check(): void {
        if (!session.who && runtime.now() - since >= STRANGER_MS) bye("Sign in sooner");
        try {
          if (isWaiting && session.who) session.present();
        } catch (error) {
          if (!(error instanceof Ended || error instanceof AppError)) throw error;
          bye(error.message);
        }
      },
      /** A command that runs is finished before. */
      stop(): void {
        if (isWaiting) bye("The server stops");
      },
      end,
    };
    connections.add(connection);
    waiting.add(connection);
    converse()
      .catch((error) => {
        if (!isOver) log.error("an IMAP session failed", { trace, error });
      })
      .finally(() => {
        if (isOver) return;
        socket.end();
        cancelSilence = runtime.setTimer(end, FAREWELL_MS);
      });
    return connection;
  }

  return {
    /** Resolves with the address once it listens. @throws the error of the operating system, such as EADDRINUSE */
    listen: (given: Listening): Promise<{ host: string; port: number }> =>
      new Promise((resolve, reject) => {
        const { implicitTls, certificates } = given;
        // The keys of session tickets are the context's, so clients resume their sessions until the certificate changes.
        let context = createSecureContext(tlsOptions(certificates.current()));
        const forget = certificates.onChange((pair) => {
          context = createSecureContext(tlsOptions(pair));
        });
        forgetCertificates.push(forget);
        const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
          const limit = noRoomFor(canonicalIpAddress(socket.remoteAddress ?? ""));
          if (limit) {
            meters.countImapRefusal(limit);
            socket.on("error", () => {});
            if (implicitTls) socket.destroy();
            else socket.end("* BYE Too many connections\r\n");
            return;
          }
          serve(socket, { implicitTls, certificates, context: () => context });
        });
        servers.push(server);
        server.once("error", reject);
        server.listen(given.listen.port, given.listen.host, () => {
          const address = server.address();
          const port = typeof address === "object" && address ? address.port : given.listen.port;
          resolve({ host: given.listen.host, port });
        });
      }),
    job: {
      name: "imap-sessions",
      runDue(now) {
        for (const connection of [...connections]) connection.check();
        return now + SWEEP_MS;
      },
    } satisfies Job,
    /** Has idle sessions look for news; called when another process may have changed mail. */
    look,
    isListening: (): boolean => servers.every((server) => server.listening),
    open: (): number => connections.size,
    /**
     * Stops accepting, ends sessions that wait, and lets the commands of the others finish for up to `graceMs`. Resolves when
     * every connection has ended or the time is up.
     */
    async stop(graceMs: number): Promise<void> {
      stopping = true;
      stopLooking();
      for (const forget of forgetCertificates.splice(0)) forget();
      for (const server of servers.splice(0)) server.close();
      const allEnded = Promise.withResolvers<void>();
      ended = allEnded.resolve;
      for (const connection of [...connections]) connection.stop();
      if (connections.size === 0 || graceMs === 0) allEnded.resolve();
      const cancel = runtime.setTimer(allEnded.resolve, graceMs);
      await allEnded.promise;
      cancel();
      for (const connection of [...connections]) connection.end();
    },
  };
}
