/**
 * The messages of DNS (RFC 1035 §4): writes a query, and reads an answer. Servers that strangers choose write the answers.
 *
 * Invariants: the work on an answer has a bound, whatever its pointers and counts say. A text made of a name from the
 * wire has no control characters.
 */

/** The types of records that the appliance asks for, by their numbers. */
export const TYPES = { A: 1, NS: 2, CNAME: 5, PTR: 12, MX: 15, TXT: 16, AAAA: 28, SRV: 33, TLSA: 52 } as const;

export type RecordType = keyof typeof TYPES;

/** RFC 6698 §2.1 */
export interface Tlsa {
  usage: number;
  selector: number;
  matchingType: number;
  data: Uint8Array;
}

/** The data of one record, by type. Host names are in lower case without a final dot, and "" is the root. */
export interface RecordData {
  A: string;
  NS: string;
  CNAME: string;
  PTR: string;
  MX: { priority: number; exchange: string };
  /** Its strings joined (RFC 7208 §3.3), read as UTF-8. */
  TXT: string;
  AAAA: string;
  SRV: { priority: number; weight: number; port: number; target: string };
  TLSA: Tlsa;
}

/** A name as it stands in messages, uncompressed and in lower case, one character an octet. */
export type WireName = string;

/** A record of the answer section. */
export interface AnswerRecord {
  name: WireName;
  type: number;
  /** Seconds. */
  ttl: number;
  /** Where its data is in the message. */
  start: number;
  end: number;
}

export interface Answer {
  /** With the upper bits that EDNS adds (RFC 6891 §6.1.3). */
  rcode: number;
  truncated: boolean;
  /** The resolver has authenticated the answer (RFC 4035 §3.2.3). */
  authenticated: boolean;
  records: AnswerRecord[];
  /** Seconds that the absence of records holds (RFC 2308 §5); undefined when the answer does not tell. */
  absenceTtl: number | undefined;
  /** The answer names servers that know more (RFC 2308 §2.2.1): this one neither knows the records nor looks them up. */
  refers: boolean;
  octets: Buffer;
}

/** RFC 9715: answers of this size are not fragmented on the way. */
const UDP_BYTES = 1_232;
const LONGEST_LABEL = 63;
const LONGEST_NAME = 255;
/** Records of an answer. */
const MOST_RECORDS = 1_000;
/** Pointers followed for one name: its labels, at most, can each follow one. */
const MOST_POINTERS = 127;

const HEADER_BYTES = 12;
const IN = 1;
const SOA = 6;
const OPT = 41;
const RECURSION_DESIRED = 0x0100;
const AUTHENTIC_DATA = 0x0020;
const TRUNCATED = 0x0200;
const RESPONSE = 0x8000;

/** Lowers A to Z and nothing else (RFC 4343 §3). Octets of lengths are below "A". */
const lowerAscii = (octets: string): string => octets.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Writes a name. Dots divide labels, and every other character stands for itself. Undefined for one that cannot exist. */
export function toWireName(text: string): WireName | undefined {
  const labels = (text.endsWith(".") ? text.slice(0, -1) : text).split(".");
  // Each label takes two octets at least.
  if (labels.length > LONGEST_NAME / 2) return undefined;
  let name = "";
  for (const label of labels) {
    const octets = Buffer.from(label).toString("latin1");
    if (octets.length === 0 || octets.length > LONGEST_LABEL) return undefined;
    name += String.fromCharCode(octets.length) + octets;
  }
  return name.length < LONGEST_NAME ? lowerAscii(`${name}\0`) : undefined;
}

/** Shows a name as zone files do (RFC 1035 §5.1): unusual octets, and dots inside of labels, are escaped. */
export function formatDnsName(name: WireName): string {
  const labels: string[] = [];
  for (let at = 0; at < name.length - 1; at += 1 + name.charCodeAt(at)) {
    labels.push(name.slice(at + 1, at + 1 + name.charCodeAt(at)));
  }
  const escaped = (octet: string) =>
    /[.\\]/.test(octet) ? `\\${octet}` : `\\${String(octet.charCodeAt(0)).padStart(3, "0")}`;
  return labels.map((label) => label.replace(/[^!-~]|[.\\]/g, escaped)).join(".");
}

/** Writes a query. `withEdns`: offers longer answers over UDP (RFC 6891). */
export function writeDnsQuery(id: number, name: WireName, type: RecordType, withEdns: boolean): Buffer {
  const question = Buffer.from(name, "latin1");
  const query = Buffer.alloc(HEADER_BYTES + question.length + 4 + (withEdns ? 11 : 0));
  query.writeUInt16BE(id, 0);
  // RFC 6840 §5.7: AD in a query asks for AD in the answer, without signatures.
  query.writeUInt16BE(RECURSION_DESIRED | AUTHENTIC_DATA, 2);
  query.writeUInt16BE(1, 4);
  query.writeUInt16BE(withEdns ? 1 : 0, 10);
  question.copy(query, HEADER_BYTES);
  const afterName = HEADER_BYTES + question.length;
  query.writeUInt16BE(TYPES[type], afterName);
  query.writeUInt16BE(IN, afterName + 2);
  if (withEdns) {
    query.writeUInt16BE(OPT, afterName + 5);
    query.writeUInt16BE(UDP_BYTES, afterName + 7);
  }
  return query;
}

/**
 * Tells whether a message answers this very query, which asks about `name`. Some servers leave the question out when they refuse
 * a query that they do not understand.
 */
export function isDnsAnswerTo(message: Buffer, query: Buffer, name: WireName): boolean {
  if (message.length < HEADER_BYTES || message.readUInt16BE(0) !== query.readUInt16BE(0)) return false;
  const flags = message.readUInt16BE(2);
  if ((flags & RESPONSE) === 0) return false;
  const questions = message.readUInt16BE(4);
  if (questions === 0) return (flags & 0xf) !== 0;
  const end = HEADER_BYTES + name.length + 4;
  const readRawQuestion = (packet: Buffer) => lowerAscii(packet.toString("latin1", HEADER_BYTES, end));
  return questions === 1 && message.length >= end && readRawQuestion(message) === readRawQuestion(query);
}

/** Reads a message that isDnsAnswerTo took. @throws Error for one that is malformed or beyond the bounds */
export function readDnsAnswer(message: Buffer): Answer {
  const flags = message.readUInt16BE(2);
  const endOfAnswers = message.readUInt16BE(6);
  const endOfAuthorities = endOfAnswers + message.readUInt16BE(8);
  const count = endOfAuthorities + message.readUInt16BE(10);
  if (count > MOST_RECORDS) throw new Error("the answer has too many records");
  const answer: Answer = {
    rcode: flags & 0xf,
    truncated: (flags & TRUNCATED) !== 0,
    authenticated: (flags & AUTHENTIC_DATA) !== 0,
    records: [],
    absenceTtl: undefined,
    refers: false,
    octets: message,
  };
  // What comes after is asked for again over TCP, and may be cut anywhere.
  if (answer.truncated) return answer;
  let namesServers = false;
  let at = message.readUInt16BE(4) === 0 ? HEADER_BYTES : readName(message, HEADER_BYTES).end + 4;
  for (let n = 0; n < count; n++) {
    const owner = readName(message, at);
    const type = message.readUInt16BE(owner.end);
    const isInternet = message.readUInt16BE(owner.end + 2) === IN;
    const ttl = message.readUInt32BE(owner.end + 4);
    const start = owner.end + 10;
    at = start + message.readUInt16BE(owner.end + 8);
    if (at > message.length) throw new Error("a record is cut short");
    // RFC 2181 §8: a TTL with its highest bit set counts as 0.
    const record = { name: owner.name, type, ttl: ttl < 2 ** 31 ? ttl : 0, start, end: at };
    if (n >= endOfAuthorities) {
      if (type === OPT) answer.rcode |= (ttl >>> 24) << 4;
    } else if (!isInternet) continue;
    else if (n < endOfAnswers) answer.records.push(record);
    else if (type === SOA) answer.absenceTtl = Math.min(record.ttl, message.readUInt32BE(at - 4));
    else if (type === TYPES.NS) namesServers = true;
  }
  answer.refers = namesServers && answer.records.length === 0 && answer.absenceTtl === undefined;
  return answer;
}

/** Reads a name, which may continue at earlier places (RFC 1035 §4.1.4). `end`: where what follows it begins. */
function readName(message: Buffer, start: number): { name: WireName; end: number } {
  let name = "";
  let at = start;
  let end: number | undefined;
  for (let pointers = 0; ; ) {
    const length = message.readUInt8(at);
    if (length >= 0xc0) {
      end ??= at + 2;
      at = message.readUInt16BE(at) & 0x3fff;
      if (++pointers > MOST_POINTERS) throw new Error("a name has too many pointers");
    } else if (length > LONGEST_LABEL) throw new Error("a name has a label of an unknown kind");
    else {
      if (at + 1 + length > message.length) throw new Error("a name is cut short");
      name += message.toString("latin1", at, at + 1 + length);
      if (name.length > LONGEST_NAME) throw new Error("a name is too long");
      at += 1 + length;
      if (length === 0) return { name: lowerAscii(name), end: end ?? at };
    }
  }
}

/** Returns the name that a CNAME record, whose data is at `start`, leads to. @throws Error for malformed data */
export const aliasTarget = ({ octets }: Answer, start: number): WireName => readName(octets, start).name;

/** Reads the data of a record of the type. @throws Error for malformed data */
export function readDnsRecordData<T extends RecordType>(answer: Answer, record: AnswerRecord, type: T): RecordData[T] {
  const data = answer.octets.subarray(record.start, record.end);
  const hostAt = (offset: number): string => formatDnsName(readName(answer.octets, record.start + offset).name);
  const readers: { [Type in RecordType]: () => RecordData[Type] } = {
    A: () => readAddress(data, 4),
    AAAA: () => readAddress(data, 16),
    CNAME: () => hostAt(0),
    NS: () => hostAt(0),
    PTR: () => hostAt(0),
    MX: () => ({ priority: data.readUInt16BE(0), exchange: hostAt(2) }),
    SRV: () => ({
      priority: data.readUInt16BE(0),
      weight: data.readUInt16BE(2),
      port: data.readUInt16BE(4),
      target: hostAt(6),
    }),
    TLSA: () => ({
      usage: data.readUInt8(0),
      selector: data.readUInt8(1),
      matchingType: data.readUInt8(2),
      data: data.subarray(3),
    }),
    TXT: () => readText(data),
  };
  return readers[type]();
}

function readAddress(data: Buffer, length: 4 | 16): string {
  if (data.length !== length) throw new Error("an address has the wrong length");
  if (length === 4) return data.join(".");
  const groups = Array.from({ length: 8 }, (_, n) => data.readUInt16BE(2 * n).toString(16));
  // Shortens it as RFC 5952 says.
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

/** Joins the strings of a TXT record. */
function readText(data: Buffer): string {
  const strings: Buffer[] = [];
  for (let at = 0; at < data.length; ) {
    const end = at + 1 + data.readUInt8(at);
    if (end > data.length) throw new Error("a string is cut short");
    strings.push(data.subarray(at + 1, end));
    at = end;
  }
  return Buffer.concat(strings).toString();
}
