/**
 * Data that other servers and clients send on the wire takes time in proportion to its size, in our own readers and in those of
 * the packages, like mail in hostile-input.thorough.test.ts. A package that reads within a bound of its own needs no line here:
 * SMTP commands and replies (2,048 octets a line, 100 lines), TLS (16 KiB a certificate chain's record), PDFs (time and memory
 * of their process).
 */
import { describe, test } from "bun:test";
import { parser as parseImap } from "imapflow/lib/handler/imap-handler.js";
import { ImapStream } from "imapflow/lib/handler/imap-stream.js";
import { acceptedEncodings } from "../src/api/compression.ts";
import { readBodyWithFiles } from "../src/api/upload.ts";
import { readStsPolicy } from "../src/authentication/mta-sts.ts";
import { createChildMessageReader, decodeChildMessage, encodeChildMessage } from "../src/base/child-messages.ts";
import { readDnsAnswer, readDnsRecordData } from "../src/base/dns-message.ts";
import { openArchive } from "../src/documents/archive.ts";
import { createExtractedText } from "../src/documents/extracted-text.ts";
import { findRequestHead, readRequestHead } from "../src/http/framing.ts";
import { decodeUtf7, Parser } from "../src/imap/grammar.ts";
import { createImapCommandReader } from "../src/imap/lines.ts";
import { decodeCharset } from "../src/message/charset.ts";
import { openS3 } from "../src/net/s3.ts";
import { findRedirectTarget } from "../src/oauth/redirects.ts";
import { readClientHello } from "../src/tls/alpn-front.ts";
import { takeHeaderMarks } from "../src/transfer/marks.ts";
import { cpuTime, expectLinear } from "./harness/growth.ts";
import { zip } from "./harness/mail/documents.ts";
import { expectLinearText } from "./harness/mail/hostile-text.ts";
import { fakeRuntime } from "./harness/runtime.ts";

const LIMIT_MS = 120_000;

/** Reads what may be refused. */
async function attempt(read: () => unknown): Promise<void> {
  try {
    await read();
  } catch {}
}

async function imapResponses(text: string): Promise<void> {
  const line = text.replaceAll(/[\r\n]/g, " ");
  for (const response of [
    `* ${line}`,
    `* LIST (${line}) "/" "x"`,
    `* 1 FETCH (ENVELOPE (${line} X {1}`,
    `a OK [${line}]`,
  ]) {
    await attempt(() => parseImap(response, { literals: [] } as never));
  }
}

/** The octets as they come from a socket, in pieces. */
function imapStream(text: string): Promise<void> {
  const stream = new ImapStream({ logger: false } as never);
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.on("error", () => resolve());
  stream.on("end", () => resolve());
  stream.on("readable", () => {
    for (let item = stream.read(); item; item = stream.read()) item.next?.();
  });
  const octets = Buffer.from(`* ${text}\r\n`);
  for (let at = 0; at < octets.length; at += 512) stream.write(octets.subarray(at, at + 512));
  stream.end();
  return promise;
}

const limits = { command: 1_000_000, large: () => 0, takesLarge: () => false };

/** Commands of a mail app, in pieces. */
function imapCommands(text: string): void {
  const lines = createImapCommandReader(limits);
  const octets = Buffer.from(`a ${text}\r\n`, "latin1");
  for (let at = 0; at < octets.length; at += 512) {
    lines.push(octets.subarray(at, at + 512));
    while (lines.next());
  }
}

async function imapArguments(text: string): Promise<void> {
  const line = { text: text.replaceAll(/[\r\n]/g, " "), literals: new Map() };
  for (const read of ["searchKeys", "fetchItems", "sequenceSet", "flags", "astring", "pattern", "dateTime"] as const) {
    await attempt(() => new Parser(line)[read]());
    await attempt(() => new Parser({ ...line, text: `(${line.text}` })[read]());
    await attempt(() => new Parser({ ...line, text: `"${line.text}` })[read]());
  }
}

async function upload(text: string): Promise<void> {
  for (const body of [
    text,
    `--b\r\n${text}`,
    `--b\r\nContent-Disposition: form-data; name="a${text}"\r\n\r\n${text}\r\n--b--`,
  ]) {
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const request = new Request("http://localhost/", { method: "POST", headers, body });
    const keep = async (content: AsyncIterable<Uint8Array>) => {
      for await (const _ of content);
      return { dispose: async () => {} } as never;
    };
    await attempt(() =>
      readBodyWithFiles(request, { largestFiles: 1e9, largestJson: 1e6, count() {}, countUpload() {}, keep } as never),
    );
  }
}

const readers: Record<string, (text: string) => unknown> = {
  "responses of an IMAP server (imapflow)": imapResponses,
  "octets of an IMAP server (imapflow)": imapStream,
  "arguments of a mail app's command": imapArguments,
  "names of folders in UTF-7": decodeUtf7,
  "marks of a message that is imported": (text) =>
    takeHeaderMarks(`X-Gmail-Labels: ${text}\nX-Keywords: ${text}\nStatus: ${text}\n`),
  "files of a form (busboy)": upload,
  "a policy of MTA-STS": (text) => attempt(() => readStsPolicy(`version: STSv1\nmode: enforce\n${text}\nmax_age: 1`)),
  "charsets that the platform lacks (iconv-lite)": (text) => {
    for (const charset of ["cp437", "cp850", "cp852", "cp866", "utf-7", "utf-32"])
      decodeCharset(Buffer.from(text), charset);
  },
  "messages of a parser": async (text) => {
    const read = createChildMessageReader(10_000_000, () => {});
    const stream = Buffer.concat([encodeChildMessage({ text, bytes: Buffer.from(text) }), Buffer.from(text)]);
    await attempt(() => {
      for (let at = 0; at < stream.length; at += 512) read(stream.subarray(at, at + 512));
    });
    await attempt(() => decodeChildMessage(Buffer.from(text)));
  },
};

/** Those whose input has a bound. */
const bounded: Record<string, { read: (text: string) => unknown; sizes: [number, number] }> = {
  "commands of a mail app": { sizes: [16_000, 64_000], read: imapCommands },
  "encodings that a client accepts (negotiator)": {
    sizes: [3_500, 14_000],
    read: (text) => {
      const value = text.replaceAll(/[^ -~]/g, " ");
      acceptedEncodings(new Request("http://localhost/", { headers: { "accept-encoding": value } }), ["zstd", "gzip"]);
    },
  },
  "heads of requests": {
    sizes: [3_500, 14_000],
    read: async (text) => {
      for (const head of [
        text,
        `GET / HTTP/1.1\r\nHost: a\r\nX: ${text.replaceAll(/[\r\n]/g, " ")}\r\n\r\n`,
        `GET / HTTP/1.1\r\n${text}`,
      ]) {
        const bytes = Buffer.from(head);
        await attempt(() => findRequestHead(bytes, 0));
        await attempt(() => readRequestHead(bytes, 0, bytes.length));
      }
    },
  },
  "hellos of TLS": {
    sizes: [4_000, 16_000],
    read: (text) => {
      const body = Buffer.from(text);
      const hello = Buffer.concat([Buffer.from([22, 3, 1, body.length >> 8, body.length & 255]), body]);
      readClientHello(hello);
      readClientHello(body);
    },
  },
  "redirect addresses of a program": {
    sizes: [4_000, 16_000],
    read: async (text) => {
      await attempt(() => findRedirectTarget(text));
      await attempt(() => findRedirectTarget(`https://${text}`));
    },
  },
};

describe("time grows with the input", () => {
  for (const [name, read] of Object.entries(readers)) {
    test(name, () => expectLinearText(read), LIMIT_MS);
  }
  for (const [name, { read, sizes }] of Object.entries(bounded))
    test(name, () => expectLinearText(read, sizes), LIMIT_MS);

  /** Lists of keys and folders, which are not XML to us. */
  test(
    "lists of S3",
    async () => {
      let text = "";
      using server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(text) });
      const location = { bucket: "b", prefix: "", region: "r", accessKeyId: "a", secretAccessKey: "s" };
      const s3 = openS3({ ...location, endpoint: `http://127.0.0.1:${server.port}` }, fakeRuntime({ fetch }));
      const units = [
        "<Key>",
        "<Key>a</Key>",
        "<CommonPrefixes>",
        "<CommonPrefixes> ",
        "<CommonPrefixes>\n<Prefix>a/",
        "<",
        " ",
      ];
      await expectLinearText(
        async (body) => {
          text = body;
          await attempt(() => s3.list(""));
          await attempt(() => s3.folders(""));
        },
        [100_000, 400_000],
        units,
      );
    },
    LIMIT_MS,
  );

  describe("answers of DNS", () => {
    /** A header, no question, and records with this owner and this data. */
    function answer(
      records: readonly (readonly [owner: Buffer, type: number, data: Buffer])[],
      before = Buffer.alloc(0),
    ): Buffer {
      const header = Buffer.alloc(12);
      header.writeUInt16BE(0x8180, 2);
      header.writeUInt16BE(records.length, 6);
      return Buffer.concat([
        header,
        before,
        ...records.flatMap(([owner, type, data]) => {
          const fields = Buffer.alloc(10);
          fields.writeUInt16BE(type, 0);
          fields.writeUInt16BE(1, 2);
          fields.writeUInt16BE(data.length, 8);
          return [owner, fields, data];
        }),
      ]);
    }
    const ROOT = Buffer.from([0]);
    const TYPES = { TXT: 16, MX: 15, TLSA: 52, A: 1 } as const;
    const pointer = (to: number) => Buffer.from([0xc0 | (to >> 8), to & 255]);
    /** Names that lead from one to the next, in the data of the first record. */
    const chain = Buffer.concat(
      Array.from({ length: 127 }, (_, n) => (n === 0 ? ROOT : pointer(n === 1 ? 23 : 23 + 1 + 2 * (n - 2)))),
    );
    const shapes: Record<string, (size: number) => Buffer> = {
      "many records": (size) => answer(Array.from({ length: size }, () => [ROOT, TYPES.A, Buffer.from([1, 2, 3, 4])])),
      "many chains of pointers": (size) =>
        answer([
          [ROOT, TYPES.TXT, chain],
          ...Array.from(
            { length: size },
            () =>
              [pointer(23 + 1 + 2 * 125), TYPES.MX, Buffer.concat([ROOT, ROOT, pointer(23 + 1 + 2 * 125)])] as const,
          ),
        ]),
      "long names": (size) => {
        const name = Buffer.concat([...Array.from({ length: 120 }, () => Buffer.from([1, 0x80])), ROOT]);
        return answer(Array.from({ length: size / 4 }, () => [name, TYPES.MX, Buffer.concat([ROOT, ROOT, name])]));
      },
      "texts of many strings": (size) =>
        answer([[ROOT, TYPES.TXT, Buffer.concat(Array.from({ length: size * 30 }, () => Buffer.from([1, 0xff])))]]),
      "texts of no strings": (size) => answer([[ROOT, TYPES.TXT, Buffer.alloc(size * 60)]]),
    };
    for (const [name, make] of Object.entries(shapes)) {
      test(
        name,
        () =>
          expectLinear({
            make,
            sizes: [240, 960],
            atMost: 2.8,
            work: (message) =>
              cpuTime(async () => {
                const read = readDnsAnswer(message);
                for (const record of read.records) {
                  const [type] = Object.entries(TYPES).find(([, number]) => number === record.type) ?? [];
                  await attempt(() => readDnsRecordData(read, record, type as "TXT"));
                }
              }),
          }),
        LIMIT_MS,
      );
    }
  });

  test(
    "archives of many files (yauzl)",
    () =>
      expectLinear({
        make: (size) =>
          zip(Array.from({ length: size }, (_, n) => ({ name: `word/${"a/".repeat(20)}${n}.xml`, content: "<a/>" }))),
        sizes: [1_000, 4_000],
        atMost: 2.8,
        work: (bytes) =>
          cpuTime(() =>
            attempt(() =>
              openArchive(
                bytes,
                createExtractedText(() => 0),
              ),
            ),
          ),
      }),
    LIMIT_MS,
  );
});
