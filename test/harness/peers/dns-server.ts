/**
 * A DNS server that answers from a zone, over UDP and TCP, and clients of it: `zone` for a runtime in the process; a program finds
 * the server by MAILROOM_DNS. The zone is read at every question, so a test may change it.
 */
import { createSocket, type Socket } from "node:dgram";
import { createServer, type Server } from "node:net";
import { createDnsClient, type DnsClient } from "../../../src/base/dns-client.ts";
import { atEndOfFile } from "../end.ts";

/** The records of a name. Names have no final dot. `mx` may name "" for a null MX (RFC 7505). */
export interface Records {
  mx?: readonly (readonly [preference: number, exchange: string])[];
  a?: readonly string[];
  aaaa?: readonly string[];
  /** A text of any length is cut into strings of 255 bytes; a list names the strings of one record. */
  txt?: readonly (string | readonly string[])[];
  ns?: readonly string[];
  cname?: string;
  /** The target may be "" for a service that is not offered. */
  srv?: readonly (readonly [priority: number, weight: number, port: number, target: string])[];
  ptr?: readonly string[];
  tlsa?: readonly (readonly [usage: number, selector: number, matchingType: number, data: Uint8Array])[];
  /** The server marks its answers about the name as authenticated. */
  secure?: true;
  /** Seconds; 300 unless given. */
  ttl?: number;
  /** Types about which the server fails. */
  failing?: Partial<Record<Type, Failing>>;
}

export type Failing = "SERVFAIL" | "REFUSED" | "silence";

/** Records by name, in lower case. Other names do not exist. A name has no data for types that it lacks. */
export type Zone = Record<string, Records | Failing>;

/** Habits of real servers. */
export interface Habits {
  /** Fails at every question. */
  always?: Failing;
  /** Waits for this before it answers a question, such as `mx example.net`. */
  hold?: (question: string) => Promise<unknown> | undefined;
  /** Answers FORMERR to a query with EDNS, or nothing. */
  edns?: "FORMERR" | "silence";
  /** Bytes of the largest answer over UDP; 1,232 unless given. */
  udpBytes?: number;
  /** Points to earlier names instead of writing them again (RFC 1035 §4.1.4). */
  compresses?: true;
  /** Repeats the question, and names records, in the other case. */
  swapsCase?: true;
  /** Adds records nobody asked for: of another name to the answer, and to the additional section. */
  adds?: true;
  /** First sends answers with another id and to another question, as somebody who forges them. */
  forged?: true;
  /** Knows no more than the first of several aliases. */
  oneAlias?: true;
  /** Seconds that the SOA record of the zone allows absences to be kept, 60 unless given; none leaves the record out. */
  absence?: number | "none";
}

/** A zone with these records, whose values are written as in zone files. */
export function zoneOf(records: readonly { type: string; name: string; value: string }[]): Zone {
  const made: Record<string, { txt: string[]; mx: [number, string][] }> = {};
  for (const { type, name, value } of records) {
    made[name] ??= { txt: [], mx: [] };
    const [preference, exchange = ""] = value.split(" ");
    if (type === "TXT") made[name].txt.push(value);
    else if (type === "MX") made[name].mx.push([Number(preference), exchange]);
  }
  return made;
}

export type Type = "a" | "ns" | "cname" | "ptr" | "mx" | "txt" | "aaaa" | "srv" | "tlsa";

const NUMBER_OF_TYPE: Record<Type | "soa", number> = {
  a: 1,
  ns: 2,
  cname: 5,
  soa: 6,
  ptr: 12,
  mx: 15,
  txt: 16,
  aaaa: 28,
  srv: 33,
  tlsa: 52,
};
const TYPE_OF_NUMBER = new Map(Object.entries(NUMBER_OF_TYPE).map(([type, number]) => [number, type as Type]));
const CODES = { FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const USUAL_TTL = 300;
const USUAL_ABSENCE = 60;

type Found = { name: string; type: Type; value: unknown; ttl: number }[];

/** The records of an answer, or a failure. `code`: as in CODES, when it is not 0. */
type Reply = { found: Found; code?: keyof typeof CODES } | "silence";

const recordsAt = (zone: Zone, name: string): Records | Failing | undefined =>
  Object.hasOwn(zone, name) ? zone[name] : undefined;

const failed = (failing: Failing): Reply => (failing === "silence" ? failing : { found: [], code: failing });

/** Answers a question, following CNAMEs. */
function lookUp(zone: Zone, asked: string, type: Type | undefined, mostAliases = 40): Reply {
  const found: Found = [];
  let name = asked.toLowerCase();
  for (let step = 0; step < mostAliases; step++) {
    const records = recordsAt(zone, name);
    if (records === undefined) return { found, code: "NXDOMAIN" };
    if (typeof records === "string") return failed(records);
    const { ttl = USUAL_TTL, failing } = records;
    const failure = type && failing?.[type];
    if (failure) return failed(failure);
    if (records.cname === undefined || type === "cname") {
      const values = type === undefined ? [] : type === "cname" ? [records.cname ?? []].flat() : (records[type] ?? []);
      return { found: [...found, ...values.map((value) => ({ name, type: type as Type, value, ttl }))] };
    }
    found.push({ name, type: "cname", value: records.cname, ttl });
    name = records.cname.toLowerCase();
  }
  return { found };
}

/** True when every name on the way is authenticated. */
function isSecure(zone: Zone, asked: string): boolean {
  let records = recordsAt(zone, asked.toLowerCase());
  for (let step = 0; step < 8; step++) {
    if (typeof records !== "object" || !records.secure) return false;
    if (records.cname === undefined) return true;
    records = recordsAt(zone, records.cname.toLowerCase());
  }
  return false;
}

/** Bytes of the largest answer over UDP. */
const UDP_BYTES = 1_232;
const AUTHENTIC_DATA = 0x20;
const TRUNCATED = 0x200;

export interface DnsServer {
  /** `ip:port`, as MAILROOM_DNS takes it. */
  readonly address: string;
  /** The questions in order, such as `mx example.net`. */
  readonly questions: string[];
  close(): Promise<void>;
}

/** Gives the ids of queries. */
export const randomNumber = (): number => crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;

/** A client, and the questions that its server was asked, such as `mx example.net`. */
export type ZoneClient = DnsClient & { readonly questions: string[] };

const started = new Set<() => unknown>();
atEndOfFile(async () => {
  await Promise.all([...started].map((stop) => stop()));
});

/**
 * Makes a client of a server with this zone, which starts at the first question. A silent name fails within a moment. The server
 * stands for all servers of the test's world, whatever their addresses, and none of them is trusted for DANE.
 */
export function zone(description: Zone, habits: Habits = {}): ZoneClient {
  const questions: string[] = [];
  const elapsed = () => performance.now();
  let opening: Promise<{ usual: DnsClient; hasty: DnsClient }> | undefined;

  async function open() {
    const server = await startDnsServer(description, habits, questions);
    const stop = () => {
      opening = undefined;
      started.delete(stop);
      return server.close();
    };
    started.add(stop);
    const parts = { servers: [server.address], randomNumber, elapsed };
    const usual = createDnsClient(parts);
    return { usual, hasty: createDnsClient({ ...parts, silentMs: 5, longestMs: 20 }) };
  }

  return {
    questions,
    servers: () => [],
    async ask(name, type) {
      opening ??= open();
      const { usual, hasty } = await opening;
      const records = recordsAt(description, name.toLowerCase());
      const failing = typeof records === "object" ? records.failing?.[type.toLowerCase() as Type] : records;
      const isSilent = (habits.always ?? failing) === "silence";
      return (isSilent ? hasty : usual).ask(name, type);
    },
  };
}

/** Serves the zone over UDP and TCP on a free port of 127.0.0.1, until the process ends. */
export async function startDnsServer(
  description: Zone,
  habits: Habits = {},
  questions: string[] = [],
): Promise<DnsServer> {
  /** Undefined for no answer. */
  async function answerTo(query: Buffer, largest: number): Promise<Buffer | undefined> {
    const { name, type, end } = questionOf(query);
    const question = `${type ?? "other"} ${name}`;
    questions.push(question);
    await habits.hold?.(question);
    const hasEdns = query.readUInt16BE(10) > 0;
    if (hasEdns && habits.edns === "silence") return undefined;
    const knowsNoEdns = hasEdns && habits.edns === "FORMERR";
    const reply: Reply = knowsNoEdns
      ? { found: [], code: "FORMERR" }
      : habits.always
        ? failed(habits.always)
        : lookUp(description, name, type, habits.oneAlias ? 1 : undefined);
    if (reply === "silence") return undefined;
    const { found, code } = reply;
    const isCut = habits.oneAlias && found.length > 0;
    const isAbsent = !isCut && found.every((record) => record.type === "cname") && type !== "cname";
    const absence = habits.absence ?? USUAL_ABSENCE;
    const writer = messageWriter(query.subarray(0, end), habits);
    for (const record of habits.adds ? [...STRAYS, ...found] : found) writer.add(record);
    writer.nextSection();
    if (isAbsent && absence !== "none" && (code === undefined || code === "NXDOMAIN")) {
      writer.add({ name: "", type: "soa", value: absence, ttl: absence });
    }
    writer.nextSection();
    if (habits.adds) for (const record of STRAYS) writer.add(record);
    const flags = isSecure(description, name) ? AUTHENTIC_DATA : 0;
    const whole = writer.message(flags | (code === undefined ? 0 : CODES[code]));
    return whole.length <= largest ? whole : messageWriter(query.subarray(0, end), habits).message(flags | TRUNCATED);
  }

  const socket = createSocket("udp4");
  socket.on("message", async (query, { port, address }) => {
    const answer = await answerTo(query, habits.udpBytes ?? UDP_BYTES);
    if (!answer) return;
    if (habits.forged) for (const message of forgeries(answer)) socket.send(message, port, address);
    socket.send(answer, port, address);
  });
  // RFC 1035 §4.2.2: the length stands before each message.
  const server = createServer((connection) => {
    let buffered = Buffer.alloc(0);
    connection.on("error", () => connection.destroy());
    connection.on("data", async (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE()) {
        const end = 2 + buffered.readUInt16BE();
        const query = buffered.subarray(2, end);
        buffered = buffered.subarray(end);
        const answer = await answerTo(query, 65_535);
        const length = Buffer.alloc(2);
        length.writeUInt16BE(answer?.length ?? 0);
        if (answer) connection.write(Buffer.concat([length, answer]));
      }
    });
  });
  const port = await bindBoth(socket, server);
  let closing: Promise<void> | undefined;
  return {
    address: `127.0.0.1:${port}`,
    questions,
    close() {
      closing ??= new Promise((resolve) => {
        server.close();
        socket.close(() => resolve());
      });
      return closing;
    },
  };
}

const STRAYS: Found = [
  { name: "stray.example", type: "a", value: "192.0.2.66", ttl: 1 },
  { name: "stray.example", type: "txt", value: "v=spf1 +all", ttl: 1 },
  { name: "stray.example", type: "mx", value: [0, "stray.example"], ttl: 1 },
];

/** Answers of somebody who knows the address of the client, and neither the id nor the question. */
function forgeries(answer: Buffer): Buffer[] {
  const otherId = Buffer.from(answer);
  otherId.writeUInt16BE((answer.readUInt16BE() + 1) & 0xffff);
  const otherName = Buffer.from(answer);
  otherName[13] = "!".charCodeAt(0);
  const noResponse = Buffer.from(answer);
  noResponse.writeUInt16BE(answer.readUInt16BE(2) & 0x7fff, 2);
  return [otherId, otherName, noResponse, Buffer.from("nonsense")];
}

/** Finds a port that is free for both UDP and TCP. */
export async function bindBoth(socket: Socket, server: Server): Promise<number> {
  for (;;) {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as { port: number };
    const isBound = await new Promise<boolean>((resolve) => {
      socket.once("error", () => resolve(false));
      socket.bind(port, "127.0.0.1", () => resolve(true));
    });
    if (isBound) {
      socket.unref();
      server.unref();
      return port;
    }
    await new Promise((resolve) => server.close(resolve));
  }
}

function questionOf(query: Buffer): { name: string; type: Type | undefined; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.subarray(at + 1, at + 1 + length).toString());
    at += 1 + length;
  }
  return { name: labels.join("."), type: TYPE_OF_NUMBER.get(query.readUInt16BE(at + 1)), end: at + 5 };
}

const swapCase = (text: string): string =>
  text.replace(/[a-z]/gi, (letter) => (letter < "a" ? letter.toLowerCase() : letter.toUpperCase()));

/** Writes an answer (RFC 1035 §4.1) that begins with the header and question of `asked`. */
function messageWriter(asked: Buffer, { compresses, swapsCase }: Habits) {
  const header = asked.subarray(0, 12);
  const question = asked.subarray(12);
  const letters = swapsCase ? swapCase(question.toString("latin1", 0, question.length - 4)) : undefined;
  const parts = [
    letters === undefined ? question : Buffer.concat([Buffer.from(letters, "latin1"), question.subarray(-4)]),
  ];
  const counts = [0, 0, 0];
  const places = new Map<string, number>();
  let section = 0;
  let size = 12 + question.length;
  place(questionOf(asked).name, 12);

  /** Remembers where a name, and all that it ends with, was written. */
  function place(name: string, at: number): void {
    const labels = name.split(".").filter((label) => label !== "");
    for (const [n, label] of labels.entries()) {
      const rest = labels.slice(n).join(".").toLowerCase();
      if (!places.has(rest)) places.set(rest, at);
      at += 1 + Buffer.byteLength(label);
    }
  }

  /** Writes a name that will begin at a place in the message. */
  function encodeName(name: string, at: number): Buffer {
    const labels = name.split(".").filter((label) => label !== "");
    const written: Buffer[] = [];
    for (let n = 0; n < labels.length; n++) {
      const known = compresses && places.get(labels.slice(n).join(".").toLowerCase());
      if (known) {
        place(labels.slice(0, n).join("."), at);
        return Buffer.concat([...written, Buffer.from([0xc0 | (known >> 8), known & 255])]);
      }
      const label = Buffer.from(swapsCase ? swapCase(labels[n] ?? "") : (labels[n] ?? ""));
      written.push(Buffer.from([label.length]), label);
    }
    if (compresses) place(name, at);
    return Buffer.concat([...written, Buffer.alloc(1)]);
  }

  function encodeData(type: Type | "soa", value: unknown, at: number): Buffer {
    const numbers = (...given: number[]) => Buffer.from(given.flatMap((number) => [number >> 8, number & 255]));
    switch (type) {
      case "mx": {
        const [preference, exchange] = value as [number, string];
        return Buffer.concat([numbers(preference), encodeName(exchange, at + 2)]);
      }
      case "srv": {
        const [priority, weight, port, target] = value as [number, number, number, string];
        return Buffer.concat([numbers(priority, weight, port), encodeName(target, at + 6)]);
      }
      case "tlsa": {
        const [usage, selector, matchingType, data] = value as [number, number, number, Uint8Array];
        return Buffer.concat([Buffer.from([usage, selector, matchingType]), data]);
      }
      case "soa": {
        // Primary server, mail address; serial number, refresh, retry, expiry; how long absences may be kept.
        const times = Buffer.alloc(20);
        times.writeUInt32BE(value as number, 16);
        return Buffer.concat([Buffer.alloc(2), times]);
      }
      case "a":
        return Buffer.from((value as string).split(".").map(Number));
      case "aaaa":
        return numbers(...groupsOf(value as string));
      case "txt": {
        const strings = stringsOf(value as string | readonly string[]);
        return Buffer.concat(strings.flatMap((string) => [Buffer.from([string.length]), string]));
      }
      default:
        return encodeName(value as string, at);
    }
  }

  return {
    add({ name, type, value, ttl }: Omit<Found[number], "type"> & { type: Type | "soa" }): void {
      const owner = encodeName(name, size);
      const data = encodeData(type, value, size + owner.length + 10);
      const fixed = Buffer.alloc(10);
      fixed.writeUInt16BE(NUMBER_OF_TYPE[type], 0);
      fixed.writeUInt16BE(1, 2);
      fixed.writeUInt32BE(ttl, 4);
      fixed.writeUInt16BE(data.length, 8);
      parts.push(owner, fixed, data);
      size += owner.length + fixed.length + data.length;
      counts[section] = (counts[section] ?? 0) + 1;
    },
    nextSection(): void {
      section++;
    },
    message(flags: number): Buffer {
      const written = Buffer.alloc(12);
      header.copy(written, 0, 0, 2);
      // Response, authoritative, recursion desired and available.
      written.writeUInt16BE(0x8580 | flags, 2);
      written.writeUInt16BE(1, 4);
      for (const [n, count] of counts.entries()) written.writeUInt16BE(count, 6 + 2 * n);
      return Buffer.concat([written, ...parts]);
    },
  };
}

/** The strings of a text record: those given, or as many of 255 bytes as the text takes. */
function stringsOf(text: string | readonly string[]): Buffer[] {
  if (typeof text !== "string") {
    const strings = text.map((string) => Buffer.from(string));
    if (strings.some(({ length }) => length > 255)) throw new Error("a string of a TXT record has 255 bytes at most");
    return strings;
  }
  const bytes = Buffer.from(text);
  const count = Math.max(1, Math.ceil(bytes.length / 255));
  return Array.from({ length: count }, (_, n) => bytes.subarray(255 * n, 255 * (n + 1)));
}

/** Gives the eight groups of an IPv6 address. */
function groupsOf(ip: string): number[] {
  // Shortened, and without dots.
  const [first = "", second] = new URL(`http://[${ip}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const [head, tail] = [groups(first), groups(second ?? "")];
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => 0), ...tail];
}
