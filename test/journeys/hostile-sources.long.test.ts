/**
 * A machine of 768 MB beside sixteen sources of the worst mail that is known, each message from another network, while a program
 * reads the document that unpacks to gigabytes: all honest mail is taken, the kernel kills nothing, and soon after the last hostile
 * message nothing of it is left.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { layeredBomb, letterWith } from "../harness/mail/documents.ts";
import { CLASSES_BY_RULES, HOSTILE_HTML } from "../harness/mail/hostile-html.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";
import { type LimitedPlace, setUpLimited } from "./limited-server.ts";
import { limitNote } from "./memory-limit.ts";

const MB = 1024 * 1024;
const MEMORY = 768 * MB;
/** In use afterwards, without the cache of files. */
const AFTERWARDS = 250 * MB;
const ADDRESS = "ada@acme.test";
const MINUTE = 60_000;
const SECONDS = 60;
const HOSTILE = 16;
const HONEST = 8;
/** More than the server keeps texts of. */
const DOCUMENTS = 12;
/** For one honest message, with all its attempts. An SMTP client has ten minutes (RFC 5321 §4.5.3.2.6). */
const LONGEST_MS = 30_000;

const head = (from: string, more: readonly string[] = []): string =>
  [`From: <${from}>`, `To: <${ADDRESS}>`, "Subject: Worst", "MIME-Version: 1.0", ...more, ""].join("\r\n");
const html = (body: string): string => `Content-Type: text/html\r\n\r\n${body.replace(/.{900}/g, "$&\r\n")}`;
const nested = (depth: number): string => {
  const open = (n: number) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}\r\n`;
  return `${Array.from({ length: depth }, (_, n) => open(n)).join("")}\r\nx`;
};
const boundaries = `Content-Type: multipart/mixed; boundary=b\r\n\r\n${"--b\r\n\r\n".repeat(200_000)}`;
const report = gzipSync(Buffer.alloc(256 * MB, "<record>"), { level: 1 })
  .toString("base64")
  .replace(/.{76}/g, "$&\r\n");

/** Headers and body of the worst mail that is known. */
const WORST: readonly string[] = [
  `DKIM-Signature: v=1; a=rsa-sha256; d=far.example; s=s; bh=AAAA; h=from; b=${" ".repeat(100_000)}x\r\n\r\nHello`,
  `${`DKIM-Signature: v=1; a=rsa-sha256; d=far.example; s=s; bh=AAAA; h=from;${" ".repeat(3_000)}b=AAAA\r\n`.repeat(30)}\r\nHello`,
  `Received: ${"(".repeat(30_000)}\r\nReferences: ${"<a".repeat(30_000)}\r\n\r\nHello`,
  nested(2_000),
  boundaries,
  html(CLASSES_BY_RULES),
  html(`<style>${".a,".repeat(10_000)}.b{display:none}</style>${"<p class=a>x</p>".repeat(3_000)}`),
  ...["nested @media", "rules inside each other", "selectors in selectors", "elements"].map((kind) =>
    html(HOSTILE_HTML[kind]?.(20_000) ?? ""),
  ),
  `Content-Type: application/gzip; name=far.example!acme.test!1!2.xml.gz\r\nContent-Transfer-Encoding: base64\r\n\r\n${report}`,
  letterWith(ADDRESS, [["a.pdf", "application/pdf", layeredBomb()]])
    .replace(/^(?:.*\n){6}/, "")
    .replaceAll("\n", "\r\n"),
];

const figuresOf = (pid: number) => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? [];
    return { parent: Number(fields[1]), ms: (Number(fields[11]) + Number(fields[12])) * 10 };
  } catch {
    return { parent: 0, ms: 0 };
  }
};
const parsersOf = (server: number): number[] =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && figuresOf(pid).parent === server);

describe.skipIf(limitNote !== "")(`a machine of 768 MB${limitNote}`, () => {
  let machine: LimitedPlace;
  let server: Served;
  beforeAll(async () => {
    const dns = await startDnsServer({});
    machine = await setUpLimited(MEMORY, ADDRESS, { MAILROOM_DNS: dns.address });
    server = await serve(machine.place);
  }, 2 * MINUTE);
  afterAll(async () => {
    expect(await server.kill("SIGTERM")).toBe(0);
  });

  let networks = 0;
  /** An address in a network that nothing came from. */
  const newAddress = (): string => `127.${100 + Math.floor(networks / 250)}.${networks++ % 250}.7`;

  async function hand(ip: string, from: string, message: string): Promise<number> {
    const client = await connectSmtp(server.mx, { from: ip });
    try {
      return (await client.deliver({ from, to: ADDRESS }, message)).code;
    } finally {
      client.destroy();
    }
  }

  /** Tries again, as servers do, what is refused for now. Resolves with the time that it took, ms. */
  async function insist(ip: string, from: string, message: string): Promise<number> {
    const began = performance.now();
    for (;;) {
      const code = await hand(ip, from, message).catch(() => 421);
      if (code === 250) return performance.now() - began;
      expect([421, 451, 452]).toContain(code);
      if (performance.now() - began > 5 * MINUTE) throw new Error(`refused for five minutes: ${code}`);
    }
  }

  test(
    "takes honest mail beside sixteen changing hostile sources, and has nothing of theirs two seconds later",
    async () => {
      const honest = (n: number) => `${head(`zoe@near${n}.example`).replace("Worst", "Fine")}\r\nHello ${n}`;
      // Half of the honest senders are known.
      for (let n = 0; n < HONEST; n += 2) await insist(`127.${10 + n}.1.1`, `zoe@near${n}.example`, honest(n));
      const files = Array.from({ length: DOCUMENTS }, (_, n): [string, string, Uint8Array] => [
        `${n}.pdf`,
        "application/pdf",
        Buffer.concat([layeredBomb(), Buffer.from(`% ${n}`)]),
      ]);
      const letter = letterWith(ADDRESS, files)
        .replace(/^Date:.*\n/m, "")
        .replaceAll("\n", "\r\n");
      expect(await hand(newAddress(), "x@far.example", letter)).toBe(250);
      const mcp = await connectMcp(server.http, machine.apiKey);
      const { messages } = (await mcp.call("list_messages", { direction: "inbound", limit: 1 })).structured;
      const { structured } = await mcp.call("get_message", { id: messages[0].id, list: "attachments" });
      const bombs: { id: string }[] = structured.attachments;
      expect(bombs).toHaveLength(DOCUMENTS);

      const end = performance.now() + SECONDS * 1_000;
      const isOver = () => performance.now() > end;
      const answers = new Map<number, number>();
      const hostile = Array.from({ length: HOSTILE }, async (_, n) => {
        for (let i = n; !isOver(); i++) {
          const code = await hand(
            newAddress(),
            "x@far.example",
            `${head("x@far.example")}${WORST[i % WORST.length]}`,
          ).catch(() => 0);
          answers.set(code, (answers.get(code) ?? 0) + 1);
        }
      });
      const outcomes = new Map<string, number>();
      let read = 0;
      const reading = (async () => {
        for (; !isOver(); read++) {
          const { text } = await mcp.call("get_attachment", { id: bombs[read % DOCUMENTS]?.id });
          const [outcome = text] = /the document took too (?:much memory|long)/.exec(text) ?? [];
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        }
      })();
      const took: number[][] = await Promise.all(
        Array.from({ length: HONEST }, async (_, n) => {
          const times: number[] = [];
          while (!isOver()) times.push(await insist(`127.${10 + n}.1.1`, `zoe@near${n}.example`, honest(n)));
          return times;
        }),
      );
      await Promise.all([...hostile, reading]);
      const last = performance.now();
      await mcp.close();

      // Quiet: for a tenth of a second, no parser has used any of the processor.
      const cpu = () => parsersOf(server.pid).reduce((sum, pid) => sum + figuresOf(pid).ms, 0);
      let [before, since] = [cpu(), performance.now()];
      await until(() => {
        const now = cpu();
        if (now !== before) [before, since] = [now, performance.now()];
        return performance.now() - since > 100;
      });
      const quietAfter = Math.round(since - last);
      const figures = (times: readonly number[]) => {
        const sorted = times.toSorted((a, b) => a - b);
        return {
          messages: times.length,
          median: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
          most: Math.round(sorted.at(-1) ?? 0),
        };
      };
      const known = figures(took.filter((_, n) => n % 2 === 0).flat());
      const strangers = figures(took.filter((_, n) => n % 2 === 1).flat());
      console.log(
        JSON.stringify({
          known,
          strangers,
          hostile: Object.fromEntries(answers),
          documents: Object.fromEntries(outcomes),
          quietAfter,
        }),
      );

      expect(machine.limit.kills()).toBe(0);
      expect([...outcomes.keys()].filter((outcome) => !/took too|try again/.test(outcome))).toEqual([]);
      expect(Math.max(known.most, strangers.most)).toBeLessThan(LONGEST_MS);
      expect(Math.min(...took.map(({ length }) => length))).toBeGreaterThan(0);
      expect(quietAfter).toBeLessThan(2_000);
      await until(() => machine.limit.used() < AFTERWARDS);
    },
    10 * MINUTE,
  );
});
