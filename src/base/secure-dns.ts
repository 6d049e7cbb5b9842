/**
 * A DNS client that tells whether the resolver has authenticated an answer (DNSSEC, RFC 4035 §3.2.3); node's resolver
 * does not. Only runtime.ts imports it.
 *
 * Invariant: an answer is taken only from the server that was asked, and only for the question that was asked.
 */
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import {
  type Answer,
  AUTHENTIC_DATA,
  type DecodedPacket,
  decode,
  encode,
  type Packet,
  type Question,
  RECURSION_DESIRED,
  streamDecode,
  streamEncode,
} from "dns-packet";

export type SecureType = "A" | "AAAA" | "MX" | "TLSA" | "TXT";

/** RFC 6698 §2.1 */
export interface Tlsa {
  usage: number;
  selector: number;
  matchingType: number;
  data: Uint8Array;
}

export interface SecureAnswer {
  /** The resolver has authenticated the whole answer, or the absence of records. */
  authenticated: boolean;
  /** The name that has the records: the one asked for, or the one its CNAME records lead to. Lower case. */
  name: string;
  /** Host names of MX records, lower case without a final dot; empty when there are none. */
  hosts: string[];
  tlsa: Tlsa[];
  /** TXT records, each joined from its strings. */
  texts: string[];
}

export interface NameServer {
  /** IP address. */
  host: string;
  port: number;
}

export interface SecureDns {
  readonly servers: readonly NameServer[];
  /** Asks one of the servers. Rejects with node's `ETIMEOUT`, `ESERVFAIL`, … in `code`. */
  ask(server: NameServer, name: string, type: SecureType): Promise<SecureAnswer>;
}

const ATTEMPTS = 2;
const ATTEMPT_MS = 5_000;
/** RFC 9715: answers of this size are not fragmented on the way. */
const UDP_BYTES = 1_232;
const EDNS = { type: "OPT", name: ".", udpPayloadSize: UDP_BYTES, flags: 0, options: [] } as unknown as Answer;
const NO_EDNS = new Set(["FORMERR", "NOTIMP"]);

/** dns-packet's types leave `rcode` out. */
const rcodeOf = (answer: DecodedPacket): string => (answer as DecodedPacket & { rcode: string }).rcode;

/**
 * `servers`: `ip` or `ip:port`. `randomNumber`: below 65,536, for the id of a query. `attemptMs`: the wait for one
 * answer.
 */
export function createSecureDns(
  servers: readonly string[],
  randomNumber: () => number,
  attemptMs = ATTEMPT_MS,
): SecureDns {
  async function exchange(server: NameServer, question: Question, withEdns: boolean): Promise<DecodedPacket> {
    const query: Packet = {
      type: "query",
      id: randomNumber(),
      // RFC 6840 §5.7: AD in a query asks for AD in the answer, without signatures.
      flags: RECURSION_DESIRED | AUTHENTIC_DATA,
      questions: [question],
      ...(withEdns && { additionals: [EDNS] }),
    };
    const answer = await overUdp(query, server, attemptMs);
    return answer.flag_tc ? await overTcp(query, server, attemptMs) : answer;
  }

  async function ask(server: NameServer, name: string, type: SecureType): Promise<SecureAnswer> {
    let withEdns = true;
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await exchange(server, { name, type }, withEdns);
        // RFC 6891 §7: this server does not know EDNS.
        if (withEdns && NO_EDNS.has(rcodeOf(answer))) withEdns = false;
        else return read(answer, name, type);
      } catch (error) {
        if ((error as { code?: string }).code !== "ETIMEOUT" || attempt >= ATTEMPTS) throw error;
        // RFC 6891 §7: some paths lose queries with EDNS, or their answers.
        withEdns = false;
      }
    }
  }
  return { servers: servers.map(nameServer), ask };
}

function nameServer(server: string): NameServer {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server) ?? [];
  return { host: bracketed ?? plain ?? server, port: Number(port ?? 53) };
}

const failed = (code: string, message: string): Error => Object.assign(new Error(message), { code });

/** True for an answer to this very query. */
function answers(answer: DecodedPacket, query: Packet): boolean {
  const [asked] = query.questions ?? [];
  const [repeated] = answer.questions ?? [];
  return (
    answer.type === "response" &&
    answer.id === query.id &&
    repeated?.type === asked?.type &&
    repeated?.name.toLowerCase() === asked?.name.toLowerCase()
  );
}

function overUdp(query: Packet, { host, port }: NameServer, ms: number): Promise<DecodedPacket> {
  const question = encode(query);
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  const answered = new Promise<DecodedPacket>((resolve, reject) => {
    const timer = setTimeout(() => reject(failed("ETIMEOUT", "no answer in time")), ms);
    socket.once("close", () => clearTimeout(timer));
    socket.once("error", reject);
    socket.on("message", (message) => {
      const answer = decoded(() => decode(message));
      // Another host may have forged it, and the right answer may still come.
      if (answer && answers(answer, query)) resolve(answer);
    });
    // A connected socket takes packets from that server only. When there is no route, as with IPv6 switched off, node gives
    // the error to this callback, which its types do not show.
    const send = (error?: Error | null) => (error ? reject(error) : socket.send(question));
    socket.connect(port, host, send);
  });
  return answered.finally(() => socket.close());
}

function overTcp(query: Packet, { host, port }: NameServer, ms: number): Promise<DecodedPacket> {
  const socket = connect({ host, port });
  const answered = new Promise<DecodedPacket>((resolve, reject) => {
    let received = Buffer.alloc(0);
    const timer = setTimeout(() => reject(failed("ETIMEOUT", "no answer in time")), ms);
    socket.once("error", reject);
    socket.once("close", () => {
      clearTimeout(timer);
      reject(failed("ECONNRESET", "the connection was closed"));
    });
    socket.once("connect", () => socket.write(streamEncode(query)));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE()) return;
      const answer = decoded(() => streamDecode(received) as DecodedPacket);
      if (answer && answers(answer, query)) resolve(answer);
      else reject(failed("EBADRESP", "the answer is to another question"));
    });
  });
  return answered.finally(() => socket.destroy());
}

function decoded(read: () => DecodedPacket): DecodedPacket | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** CNAME records followed for one answer. */
const MOST_ALIASES = 16;

function read(answer: DecodedPacket, asked: string, type: SecureType): SecureAnswer {
  const rcode = rcodeOf(answer);
  if (rcode !== "NOERROR" && rcode !== "NXDOMAIN") throw failed(`E${rcode}`, `DNS answers ${rcode} for ${asked}`);
  const records = answer.answers ?? [];
  let name = lower(asked);
  for (let step = 0; step < MOST_ALIASES; step++) {
    const alias = records.find((record) => record.type === "CNAME" && lower(record.name) === name);
    if (alias?.type !== "CNAME") break;
    name = lower(alias.data);
  }
  const own = records.filter((record) => lower(record.name) === name);
  return {
    authenticated: answer.flag_ad,
    name,
    hosts: own.flatMap((record) => (record.type === "MX" && type === "MX" ? lower(record.data.exchange) : [])),
    tlsa: own.flatMap((record) => {
      if (record.type !== "TLSA") return [];
      const { usage, selector, matchingType, certificate } = record.data;
      return { usage, selector, matchingType, data: certificate };
    }),
    texts: own.flatMap((record) => (record.type === "TXT" ? [record.data].flat().map(String).join("") : [])),
  };
}

const lower = (name: string): string => name.toLowerCase().replace(/\.$/, "");
