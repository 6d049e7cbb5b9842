/**
 * DNS from a zone: a UDP server for a program, which finds it by MAILROOM_DNS, and a resolver in the process for a fake runtime.
 * Both read the zone at every question, so a test may change it.
 */
import { createSocket, type Socket } from "node:dgram";
import { createServer, type Server } from "node:net";
import type { DnsResolver } from "../../src/base/runtime.ts";
import { canonicalAddress } from "../../src/net/ip.ts";

/** The records of a name. Names have no final dot. `mx` may name "" for a null MX (RFC 7505). */
export interface Records {
  mx?: readonly (readonly [preference: number, exchange: string])[];
  a?: readonly string[];
  aaaa?: readonly string[];
  /** Texts of any length; each is cut into strings of 255 bytes. */
  txt?: readonly string[];
  ns?: readonly string[];
  cname?: string;
  /** The target may be "" for a service that is not offered. */
  srv?: readonly (readonly [priority: number, weight: number, port: number, target: string])[];
  ptr?: readonly string[];
  tlsa?: readonly (readonly [usage: number, selector: number, matchingType: number, data: Uint8Array])[];
  /** The server marks its answers about the name as authenticated. */
  secure?: true;
}

/** Records by name, in lower case. Other names do not exist. A name has no data for types that it lacks. */
export type Zone = Record<string, Records | "SERVFAIL" | "silence">;

type Type = Exclude<keyof Records, "secure">;

const NUMBER_OF_TYPE: Record<Type, number> = {
  a: 1,
  ns: 2,
  cname: 5,
  ptr: 12,
  mx: 15,
  txt: 16,
  aaaa: 28,
  srv: 33,
  tlsa: 52,
};
const TYPE_OF_NUMBER = new Map(Object.entries(NUMBER_OF_TYPE).map(([type, number]) => [number, type as Type]));
const NAME_ERROR = 3;
const SERVER_FAILURE = 2;

type Found = { name: string; type: Type; value: unknown }[];

/** Answers a question, following CNAMEs. */
function lookUp(zone: Zone, asked: string, type: Type | undefined): Found | "NXDOMAIN" | "SERVFAIL" | "silence" {
  const found: Found = [];
  let name = asked.toLowerCase();
  for (let step = 0; step < 8; step++) {
    const records = zone[name];
    if (records === undefined) return "NXDOMAIN";
    if (typeof records === "string") return records;
    if (records.cname === undefined || type === "cname") {
      const values = type === undefined ? [] : type === "cname" ? [records.cname ?? []].flat() : (records[type] ?? []);
      return [...found, ...values.map((value) => ({ name, type: type as Type, value }))];
    }
    found.push({ name, type: "cname", value: records.cname });
    name = records.cname.toLowerCase();
  }
  return "SERVFAIL";
}

/** True when every name on the way is authenticated. */
function isSecure(zone: Zone, asked: string): boolean {
  let records = zone[asked.toLowerCase()];
  for (let step = 0; step < 8; step++) {
    if (typeof records !== "object" || !records.secure) return false;
    if (records.cname === undefined) return true;
    records = zone[records.cname.toLowerCase()];
  }
  return false;
}

/** Bytes of the largest answer over UDP. */
const UDP_BYTES = 1_232;
const AUTHENTIC_DATA = 0x20;
const TRUNCATED = 0x200;

/** Makes a resolver that answers from the zone. A silent name times out at once. */
export function zone(description: Zone): DnsResolver {
  function ask(type: Type) {
    return async (name: string): Promise<unknown[]> => {
      const found = lookUp(description, name, type);
      const values = typeof found === "string" ? [] : found.filter((record) => record.type === type);
      const codes = { NXDOMAIN: "ENOTFOUND", SERVFAIL: "ESERVFAIL", silence: "ETIMEOUT" } as const;
      const code = typeof found === "string" ? codes[found] : values.length === 0 ? "ENODATA" : undefined;
      if (code) throw Object.assign(new Error(`query ${type} ${code} ${name}`), { code });
      return values.map(({ value }) => value);
    };
  }
  const askMx = ask("mx");
  const askTxt = ask("txt");
  const askSrv = ask("srv");
  return {
    resolve4: ask("a"),
    resolve6: ask("aaaa"),
    resolveMx: async (name: string) =>
      (await askMx(name)).map((record) => {
        const [priority, exchange] = record as [number, string];
        return { priority, exchange };
      }),
    resolveTxt: async (name: string) => (await askTxt(name)).map((text) => stringsOf(text as string)),
    resolveSrv: async (name: string) =>
      (await askSrv(name)).map((record) => {
        const [priority, weight, port, target] = record as [number, number, number, string];
        return { priority, weight, port, name: target };
      }),
    resolveCname: ask("cname"),
    resolveNs: ask("ns"),
    resolvePtr: ask("ptr"),
  } as unknown as DnsResolver;
}

export interface DnsServer {
  /** `ip:port`, as MAILROOM_DNS takes it. */
  readonly address: string;
  /** The questions in order, such as `mx example.net`. */
  readonly questions: string[];
  close(): Promise<void>;
}

/** Serves the zone over UDP and TCP on a free port of 127.0.0.1, until the process ends. */
export async function startDnsServer(description: Zone): Promise<DnsServer> {
  const questions: string[] = [];

  /** Undefined for no answer. */
  function answerTo(query: Buffer, largest: number): Buffer | undefined {
    const { name, type, end } = questionOf(query);
    questions.push(`${type ?? "other"} ${name}`);
    const found = lookUp(description, name, type);
    if (found === "silence") return undefined;
    const answers = typeof found === "string" ? [] : found.map(encodeRecord);
    const isTooLarge = Buffer.concat(answers).length > largest - end;
    const header = Buffer.alloc(12);
    query.copy(header, 0, 0, 2);
    const code = found === "NXDOMAIN" ? NAME_ERROR : found === "SERVFAIL" ? SERVER_FAILURE : 0;
    const flags = (isSecure(description, name) ? AUTHENTIC_DATA : 0) | (isTooLarge ? TRUNCATED : 0);
    // Response, authoritative, recursion desired and available.
    header.writeUInt16BE(0x8580 | flags | code, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(isTooLarge ? 0 : answers.length, 6);
    return Buffer.concat([header, query.subarray(12, end), ...(isTooLarge ? [] : answers)]);
  }

  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => {
    const answer = answerTo(query, UDP_BYTES);
    if (answer) socket.send(answer, port, address);
  });
  // RFC 1035 §4.2.2: the length stands before each message.
  const server = createServer((connection) => {
    let buffered = Buffer.alloc(0);
    connection.on("error", () => connection.destroy());
    connection.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE()) {
        const end = 2 + buffered.readUInt16BE();
        const answer = answerTo(buffered.subarray(2, end), 65_535);
        buffered = buffered.subarray(end);
        const length = Buffer.alloc(2);
        length.writeUInt16BE(answer?.length ?? 0);
        if (answer) connection.write(Buffer.concat([length, answer]));
      }
    });
  });
  const port = await bindBoth(socket, server);
  return {
    address: `127.0.0.1:${port}`,
    questions,
    close() {
      server.close();
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}

/** Finds a port that is free for both UDP and TCP. */
async function bindBoth(socket: Socket, server: Server): Promise<number> {
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
    labels.push(query.subarray(at + 1, at + 1 + length).toString("latin1"));
    at += 1 + length;
  }
  return { name: labels.join("."), type: TYPE_OF_NUMBER.get(query.readUInt16BE(at + 1)), end: at + 5 };
}

function encodeName(name: string): Buffer {
  const labels = name.split(".").filter((label) => label !== "");
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")])),
    Buffer.alloc(1),
  ]);
}

/** Writes a record (RFC 1035 §3.2.1), valid for 0 seconds. */
function encodeRecord({ name, type, value }: Found[number]): Buffer {
  const data = encodeData(type, value);
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(NUMBER_OF_TYPE[type], 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(name), fixed, data]);
}

function encodeData(type: Type, value: unknown): Buffer {
  if (type === "mx") {
    const [preference, exchange] = value as [number, string];
    const number = Buffer.alloc(2);
    number.writeUInt16BE(preference);
    return Buffer.concat([number, encodeName(exchange)]);
  }
  if (type === "srv") {
    const [priority, weight, port, target] = value as [number, number, number, string];
    const numbers = Buffer.alloc(6);
    for (const [i, number] of [priority, weight, port].entries()) numbers.writeUInt16BE(number, 2 * i);
    return Buffer.concat([numbers, encodeName(target)]);
  }
  if (type === "tlsa") {
    const [usage, selector, matchingType, data] = value as [number, number, number, Uint8Array];
    return Buffer.concat([Buffer.from([usage, selector, matchingType]), data]);
  }
  const text = value as string;
  if (type === "a") return Buffer.from(text.split(".").map(Number));
  if (type === "aaaa") return Buffer.from(groupsOf(text).flatMap((group) => [group >> 8, group & 255]));
  if (type !== "txt") return encodeName(text);
  const strings = stringsOf(text).map((part) => Buffer.from(part));
  return Buffer.concat(strings.map((part) => Buffer.concat([Buffer.from([part.length]), part])));
}

/** Writes a text record as strings of at most 255 bytes. The records of mail are ASCII. */
function stringsOf(text: string): string[] {
  return text.match(/[\s\S]{1,255}/g) ?? [""];
}

/** Gives the eight groups of an IPv6 address. */
function groupsOf(ip: string): number[] {
  return (canonicalAddress(ip) ?? "").split(":").map((group) => Number.parseInt(group, 16));
}
