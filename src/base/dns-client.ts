/**
 * The DNS client through which the appliance asks everything that it asks of DNS, over UDP and TCP. Only runtime.ts imports it.
 *
 * Name servers are asked in their order. Each has a moment to answer before the next is asked, too, and whichever answers first
 * decides: a server that is slow, silent, unreachable or failing costs a question that moment at most. Such a server is then asked last
 * for a while, but only if another one knew the answer, and if it has answered nothing else lately: otherwise the fault may lie with
 * the name, which a stranger may have chosen.
 *
 * Invariants: an answer is taken only from a server that was asked, and only for the question that was asked. A question ends within
 * a bounded time, and open questions are bounded in number. Faults are rejections, never thrown at once.
 */
import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { connect, isIP } from "node:net";
import {
  type Answer,
  aliasTarget,
  formatDnsName,
  isDnsAnswerTo,
  type RecordData,
  type RecordType,
  readDnsAnswer,
  readDnsRecordData,
  TYPES,
  toWireName,
  type WireName,
  writeDnsQuery,
} from "./dns-message.ts";

export type { RecordData, RecordType, Tlsa } from "./dns-message.ts";

export interface DnsAnswer<T extends RecordType> {
  /** Empty when there are none. */
  records: RecordData[T][];
  /** Says what is missing when there are no records: the name itself (NXDOMAIN), or records of this type. */
  absence: "name" | "type" | undefined;
  /** The name that has the records: the one asked for, or the one its CNAME records lead to. Lower case, as formatDnsName gives it. */
  name: string;
  /** Seconds that the answer holds; undefined when an absence has no time. */
  ttl: number | undefined;
  /** The resolver has authenticated the whole answer, or the absence of records (DNSSEC, RFC 4035 §3.2.3). */
  authenticated: boolean;
}

export interface NameServer {
  /** IP address. */
  host: string;
  port: number;
}

export interface DnsClient {
  /** The servers that are asked: those it was made with, or the system's at this moment. */
  servers(): readonly NameServer[];
  /**
   * Asks for the records of a name; dots divide its labels, and every other character stands for itself. `servers`: asked
   * instead of the client's own. Rejects with `ETIMEOUT`, `ESERVFAIL`, `EREFUSED`, `EBADRESP`, … in `code`, and with `EBADNAME` for a name that DNS
   * cannot have.
   */
  ask<T extends RecordType>(name: string, type: T, servers?: readonly NameServer[]): Promise<DnsAnswer<T>>;
}

/** Settings and dependencies of a DNS client. */
export interface DnsClientParts {
  /** `ip` or `ip:port`; empty for the system's. */
  servers: readonly string[];
  /** Gives numbers below 65,536, for the ids of queries. */
  randomNumber(): number;
  /** Milliseconds since some moment. */
  elapsed(): number;
  /** The time until the next server is asked, ms. */
  silentMs?: number;
  /** The time until a question fails, ms. */
  longestMs?: number;
  /** The file that names the system's servers, resolv.conf(5). */
  resolvConf?: string;
}

const SILENT_MS = 1_000;
const LONGEST_MS = 10_000;
/** How long a server is asked last once another one had to answer for it. */
const ASKED_LAST_MS = 60_000;
/** A server that answered a question within this time is up. */
const LATELY_MS = 10_000;
/** Times that a question goes to each server. */
const ROUNDS = 3;
/** Questions at once, and those of them that have met a silent server. One more ends the oldest. */
const MOST_OPEN = 512;
const MOST_SLOW = 64;
/** CNAME records followed for one question. */
const MOST_ALIASES = 16;
/** Failures for which a name may be the reason. */
const OF_NAMES = new Set(["ESERVFAIL", "EBADRESP"]);

const FORMAT_ERROR = 1;
const NAME_ERROR = 3;
const NOT_IMPLEMENTED = 4;
/** Names of response codes (RFC 1035 §4.1.1) that refuse a query. */
const REFUSALS = new Map([
  [FORMAT_ERROR, "FORMERR"],
  [2, "SERVFAIL"],
  [NOT_IMPLEMENTED, "NOTIMP"],
  [5, "REFUSED"],
]);

const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code });

/** Opens a client. Its timers are the system's, since they limit the wait for sockets. */
export function createDnsClient({
  servers,
  randomNumber,
  elapsed,
  silentMs = SILENT_MS,
  longestMs = LONGEST_MS,
  resolvConf = "/etc/resolv.conf",
}: DnsClientParts): DnsClient {
  const given = servers.map(readServer);
  const ownServers = given.length > 0 ? () => given : systemServers(resolvConf, elapsed);
  /** Until when a server is asked last, as `elapsed` counts. */
  const askedLast = new Map<string, number>();
  /** When a server last answered, as `elapsed` counts. */
  const answeredAt = new Map<string, number>();
  /** Each ends an open question without an answer; the oldest comes first. */
  const open = new Set<() => void>();
  const slow = new Set<() => void>();

  const nameServerKey = ({ host, port }: NameServer): string => `${host} ${port}`;

  function inOrder(all: readonly NameServer[]): NameServer[] {
    const isLast = (server: NameServer): boolean => (askedLast.get(nameServerKey(server)) ?? 0) > elapsed();
    return [...all.filter((server) => !isLast(server)), ...all.filter(isLast)];
  }

  /** Has a server asked last for a while that left a question to another one. `error`: undefined for a silent one. */
  function blame(server: NameServer, error?: unknown): void {
    const mayBeTheName = error === undefined || OF_NAMES.has((error as { code: string }).code);
    const isUp = elapsed() - (answeredAt.get(nameServerKey(server)) ?? Number.NEGATIVE_INFINITY) < LATELY_MS;
    if (!mayBeTheName || !isUp) askedLast.set(nameServerKey(server), elapsed() + ASKED_LAST_MS);
  }

  /** Asks the servers one after another, until one answers. The answer may lack what the aliases in it lead to. */
  function query(all: readonly NameServer[], name: WireName, type: RecordType, mostMs: number): Promise<Answer> {
    const order = inOrder(all);
    const exchanges = new Map<NameServer, AbortController>();
    const failures = new Map<NameServer, unknown>();
    const silent = new Set<NameServer>();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    let turn = 0;
    let nextTurn: ReturnType<typeof setTimeout> | undefined;

    const giveUp = () => {
      open.delete(giveUp);
      slow.delete(giveUp);
      reject(failure("ETIMEOUT", `no DNS server answers for ${formatDnsName(name)}`));
    };
    const limit = setTimeout(giveUp, mostMs);

    function askNext(): void {
      clearTimeout(nextTurn);
      if (failures.size === order.length)
        reject(failures.values().next().value ?? failure("ENOSERVER", "no DNS server"));
      while (turn < ROUNDS * order.length) {
        const server = order[turn % order.length] as NameServer;
        // RFC 6891 §7: some paths lose queries with EDNS, or their answers.
        const withEdns = turn++ < order.length;
        if (failures.has(server)) continue;
        nextTurn = setTimeout(() => {
          silent.add(server);
          enter(slow, MOST_SLOW, giveUp);
          askNext();
        }, silentMs);
        void tell(server, withEdns);
        return;
      }
    }

    async function tell(server: NameServer, withEdns: boolean): Promise<void> {
      // A server that gets the question again answers it again.
      exchanges.get(server)?.abort();
      const ending = new AbortController();
      exchanges.set(server, ending);
      try {
        const answer = await exchange(server, { name, type }, withEdns, ending.signal);
        silent.delete(server);
        for (const other of silent) blame(other);
        for (const [other, error] of failures) blame(other, error);
        answeredAt.set(nameServerKey(server), elapsed());
        askedLast.delete(nameServerKey(server));
        resolve(answer);
      } catch (error) {
        if (ending.signal.aborted) return;
        silent.delete(server);
        failures.set(server, error);
        askNext();
      }
    }

    enter(open, MOST_OPEN, giveUp);
    askNext();
    return promise.finally(() => {
      open.delete(giveUp);
      slow.delete(giveUp);
      clearTimeout(limit);
      clearTimeout(nextTurn);
      for (const exchange of exchanges.values()) exchange.abort();
    });
  }

  /** Asks one server, which has no time limit of its own. Rejects when it refuses or cannot be reached. */
  async function exchange(
    server: NameServer,
    { name, type }: { name: WireName; type: RecordType },
    withEdns: boolean,
    signal: AbortSignal,
  ): Promise<Answer> {
    const request = { name, octets: writeDnsQuery(randomNumber(), name, type, withEdns) };
    let answer = await overUdp(request, server, signal);
    if (answer.truncated) answer = await overTcp(request, server, signal);
    if (answer.truncated)
      throw failure("EBADRESP", `DNS cuts its answer for ${formatDnsName(name)} short over TCP, too`);
    const { rcode } = answer;
    // RFC 6891 §7: this server does not know EDNS.
    if (withEdns && (rcode === FORMAT_ERROR || rcode === NOT_IMPLEMENTED)) {
      return exchange(server, { name, type }, false, signal);
    }
    if (answer.refers)
      throw failure("EREFUSED", `DNS does not look up ${formatDnsName(name)}, which other servers know`);
    if (rcode === 0 || rcode === NAME_ERROR) return answer;
    const refusal = REFUSALS.get(rcode) ?? `RCODE${rcode}`;
    throw failure(`E${refusal}`, `DNS answers ${refusal} for ${formatDnsName(name)}`);
  }

  async function ask<T extends RecordType>(text: string, type: T, all = ownServers()): Promise<DnsAnswer<T>> {
    let name = toWireName(text);
    if (name === undefined) throw failure("EBADNAME", `${text.slice(0, 300)} is not a name that DNS can have`);
    let ttl = Number.POSITIVE_INFINITY;
    let authenticated = true;
    const begun = elapsed();
    for (let aliases = 0; ; ) {
      const asked: WireName = name;
      const leftMs = longestMs - (elapsed() - begun);
      if (leftMs <= 0) throw failure("ETIMEOUT", `DNS has not answered for ${formatDnsName(name)} in time`);
      const answer = await query(all, name, type, leftMs);
      authenticated &&= answer.authenticated;
      const aliasesIn = answer.records.filter((record) => record.type === TYPES.CNAME && type !== "CNAME");
      const aliasOf = new Map(aliasesIn.map((record) => [record.name, record]));
      for (let alias = aliasOf.get(name); alias !== undefined; alias = aliasOf.get(name)) {
        if (++aliases > MOST_ALIASES)
          throw failure("EBADRESP", `${text} leads to more than ${MOST_ALIASES} CNAME records`);
        const { start } = alias;
        name = readWell(() => aliasTarget(answer, start));
        ttl = Math.min(ttl, alias.ttl);
      }
      const own = answer.records.filter((record) => record.type === TYPES[type] && record.name === name);
      const isNoName = answer.rcode === NAME_ERROR;
      // RFC 1034 §4.3.2: a server may know no more than the alias.
      if (own.length === 0 && name !== asked && !isNoName && answer.absenceTtl === undefined) continue;
      const times = own.length > 0 ? own.map((record) => record.ttl) : [answer.absenceTtl];
      return {
        records: own.map((record) => readWell(() => readDnsRecordData(answer, record, type))),
        absence: own.length > 0 ? undefined : isNoName ? "name" : "type",
        name: formatDnsName(name),
        ttl: times.reduce(
          (least, time) => (least === undefined || time === undefined ? undefined : Math.min(least, time)),
          ttl,
        ),
        authenticated,
      };
    }
  }
  return { servers: ownServers, ask };
}

/** Adds a question, and ends the oldest one where there are more than `most`. */
function enter(questions: Set<() => void>, most: number, giveUp: () => void): void {
  questions.add(giveUp);
  if (questions.size > most) questions.values().next().value?.();
}

/** Reads `ip` or `ip:port`. */
function readServer(text: string): NameServer {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text) ?? [];
  return { host: bracketed ?? plain ?? text, port: Number(port ?? DNS_PORT) };
}

const DNS_PORT = 53;
/** The time until the file of the system's servers is read again. */
const READ_AGAIN_MS = 5_000;
/** The servers that resolv.conf(5) takes from the file, and the one that it assumes without any. */
const MOST_SYSTEM_SERVERS = 3;
const LOCAL_SERVER: NameServer = { host: "127.0.0.1", port: DNS_PORT };

/** Follows the file that names the system's servers. An unreadable one changes nothing. */
function systemServers(path: string, elapsed: () => number): () => readonly NameServer[] {
  let servers: readonly NameServer[] = [LOCAL_SERVER];
  let readAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (elapsed() - readAt < READ_AGAIN_MS) return servers;
    readAt = elapsed();
    try {
      const lines = readFileSync(path, "utf8").split("\n");
      const hosts = lines.flatMap((line) => /^[ \t]*nameserver[ \t]+(\S+)/.exec(line)?.[1] ?? []);
      const found = hosts.filter((host) => isIP(host.split("%", 1)[0] ?? "") !== 0).slice(0, MOST_SYSTEM_SERVERS);
      servers = found.length > 0 ? found.map((host) => ({ host, port: DNS_PORT })) : [LOCAL_SERVER];
    } catch {
      // It may be missing for a moment, while a program replaces it.
    }
    return servers;
  };
}

interface Request {
  name: WireName;
  octets: Buffer;
}

function overUdp({ name, octets }: Request, { host, port }: NameServer, signal: AbortSignal): Promise<Answer> {
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  const answered = new Promise<Answer>((resolve, reject) => {
    endWith(signal, reject);
    socket.on("error", (error) => reject(unreachable(host, error)));
    socket.on("message", (message) => {
      // Another host may have forged it, and the right answer may still come.
      if (isDnsAnswerTo(message, octets, name)) resolveWith(message, resolve, reject);
    });
    // A connected socket takes packets from that server only, and learns when nothing listens there. When there is no route, as
    // with IPv6 switched off, node gives the error to this callback, which its types do not show.
    const send = (error?: Error | null) => {
      if (error) reject(unreachable(host, error));
      else if (!signal.aborted) socket.send(octets);
    };
    socket.connect(port, host, send);
  });
  return answered.finally(() => socket.close());
}

function overTcp({ name, octets }: Request, { host, port }: NameServer, signal: AbortSignal): Promise<Answer> {
  const socket = connect({ host, port });
  const answered = new Promise<Answer>((resolve, reject) => {
    endWith(signal, reject);
    const chunks: Buffer[] = [];
    let size = 0;
    let end = Number.POSITIVE_INFINITY;
    socket.on("error", (error) => reject(unreachable(host, error)));
    socket.on("close", () => reject(failure("ECONNRESET", `the DNS server ${host} closed the connection`)));
    // RFC 1035 §4.2.2: the length stands before each message.
    socket.on("connect", () =>
      socket.write(Buffer.concat([Buffer.from([octets.length >> 8, octets.length & 255]), octets])),
    );
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (end === Number.POSITIVE_INFINITY && size >= 2) end = 2 + Buffer.concat(chunks).readUInt16BE();
      if (size < end) return;
      const message = Buffer.concat(chunks).subarray(2, end);
      if (isDnsAnswerTo(message, octets, name)) resolveWith(message, resolve, reject);
      else reject(failure("EBADRESP", `the DNS server ${host} answers another question`));
    });
  });
  return answered.finally(() => socket.destroy());
}

/** Rejects once the question has ended. */
function endWith(signal: AbortSignal, reject: (error: Error) => void): void {
  signal.addEventListener("abort", () => reject(failure("ECANCELLED", "the question has ended")));
}

function resolveWith(message: Buffer, resolve: (answer: Answer) => void, reject: (error: unknown) => void): void {
  try {
    resolve(readWell(() => readDnsAnswer(message)));
  } catch (error) {
    reject(error);
  }
}

/** Reads a part of an answer. @throws Error with `EBADRESP` in `code` for a malformed one */
function readWell<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw failure("EBADRESP", `the answer of DNS cannot be read: ${(error as Error).message}`);
  }
}

/** Gives an error of a socket a code, which some of Bun's lack. */
function unreachable(host: string, error: Error): Error {
  const { code = "ENETUNREACH" } = error as { code?: string };
  return failure(code, `the DNS server ${host} cannot be reached: ${error.message}`);
}
