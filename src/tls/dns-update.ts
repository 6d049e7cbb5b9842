/**
 * Records changed at a DNS server by dynamic update (RFC 2136), signed (tsig.ts), over TCP.
 *
 * Invariant: a change counts only if the server said so under our key.
 */
import { connect, isIP } from "node:net";
import type { Runtime } from "../base/runtime.ts";
import type { DnsRecords } from "./dns-challenge.ts";
import { CLASS, encodeMessage, encodeRecord, number, type ReadMessage, readMessage, TYPE } from "./dns-message.ts";
import { problemOfSignature, sign, type TsigKey } from "./tsig.ts";

export interface DnsUpdateParts {
  /** Host name or IP address of the server that takes updates. */
  host: string;
  port: number;
  key: TsigKey;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes" | "dns">;
}

const ANSWER_MS = 15_000;
const TTL_SECONDS = 60;
const UPDATE = 5 << 11;
const RESPONSE = 0x8000;
const AUTHORITATIVE = 0x0400;
const OPCODE = 0x7800;
/** RFC 2136 §2.2 */
const RCODES = [
  ...["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"],
  ...["YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"],
] as const;

const rcodeOf = ({ flags }: ReadMessage): string => RCODES[flags & 15] ?? `RCODE ${flags & 15}`;

export function openDnsUpdate({ host, port, key, runtime }: DnsUpdateParts): DnsRecords {
  const { dns } = runtime;
  const stopped = new AbortController();
  const newId = () => Buffer.from(runtime.randomBytes(2)).readUInt16BE();
  const failure = (reason: string) => new Error(`DNS server ${host}: ${reason}`);

  async function addressOf(): Promise<string> {
    if (isIP(host) !== 0) return host;
    const answers = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
    const [address] = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (address === undefined) throw failure("it has no address");
    return address;
  }

  /** What the server answers to `message`. */
  async function exchange(message: Buffer): Promise<Buffer> {
    const socket = connect({ host: await addressOf(), port });
    const answered = Promise.withResolvers<Buffer>();
    const cancelTimer = runtime.setTimer(() => answered.reject(failure("no answer in time")), ANSWER_MS);
    const stop = () => answered.reject(failure("this server is stopping"));
    stopped.signal.addEventListener("abort", stop);
    let received = Buffer.alloc(0);
    socket.once("error", ({ message }) => answered.reject(failure(message)));
    socket.once("close", () => answered.reject(failure("it closed the connection")));
    // RFC 1035 §4.2.2: each message after its length.
    socket.once("connect", () => socket.write(Buffer.concat([number(2, message.length), message])));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const end = received.length < 2 ? Number.POSITIVE_INFINITY : 2 + received.readUInt16BE();
      if (received.length >= end) answered.resolve(received.subarray(2, end));
    });
    try {
      return await answered.promise;
    } finally {
      cancelTimer();
      stopped.signal.removeEventListener("abort", stop);
      socket.destroy();
    }
  }

  /** What `take` makes of an answer. */
  function sense<T>(take: () => T | undefined): T {
    try {
      const taken = take();
      if (taken !== undefined) return taken;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    throw failure("its answer makes no sense");
  }

  const read = (bytes: Buffer, asked: Buffer): ReadMessage =>
    sense(() => {
      const message = readMessage(bytes);
      const isAnswer = (message.flags & (RESPONSE | OPCODE)) === (RESPONSE | (asked.readUInt16BE(2) & OPCODE));
      return isAnswer && message.id === asked.readUInt16BE() ? message : undefined;
    });

  /** The zone of the server's that a name is in. */
  async function zoneOf(name: string): Promise<string> {
    for (let zone = name; zone !== ""; zone = zone.replace(/^[^.]*\.?/, "")) {
      const question = encodeMessage({ id: newId(), flags: 0, question: { name: zone, type: TYPE.SOA } });
      const { flags, answers } = read(await exchange(question), question);
      if (flags & AUTHORITATIVE && answers.some((record) => record.type === TYPE.SOA && record.name === zone))
        return zone;
    }
    throw failure(`it has no zone that ${name} is in`);
  }

  async function update(name: string, change: { class: number; ttl: number; value: string }): Promise<void> {
    const text = Buffer.from(change.value, "latin1");
    const data = Buffer.concat([number(1, text.length), text]);
    const changes = [encodeRecord({ name, type: TYPE.TXT, class: change.class, ttl: change.ttl, data })];
    const question = { name: await zoneOf(name), type: TYPE.SOA };
    const now = runtime.now();
    const { signed, mac } = sign(encodeMessage({ id: newId(), flags: UPDATE, question, changes }), key, now);
    const bytes = await exchange(signed);
    const answer = read(bytes, signed);
    const problem = sense(() => problemOfSignature(bytes, answer, { key, mac, now: runtime.now() }) ?? "");
    const rcode = rcodeOf(answer);
    if (rcode !== "NOERROR") throw failure(`it refuses to change ${name} (${rcode})${problem && `: ${problem}`}`);
    if (problem !== "") throw failure(problem);
  }

  return {
    add: (name, value) => update(name, { class: CLASS.IN, ttl: TTL_SECONDS, value }),
    // RFC 2136 §2.5.4: this very record.
    remove: (name, value) => update(name, { class: CLASS.NONE, ttl: 0, value }),
    stop: () => stopped.abort(),
  };
}
