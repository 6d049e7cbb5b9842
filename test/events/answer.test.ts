/** Answers as receivers may send them, in whatever pieces they come. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Answer, endAnswer, newAnswer, readAnswer } from "../../src/events/answer.ts";

interface Read {
  status: number | undefined;
  fault: string | undefined;
  body: string;
  isCut: boolean;
  keepsAlive: boolean;
  /** It ended before the connection did, with it, or not at all. */
  ended: "itself" | "with the connection" | "no";
}

const textOf = ({ body, from, size }: Answer): string => body.toString("latin1", from, from + size);

function read(pieces: readonly Buffer[]): Read {
  const answer = newAnswer();
  for (const piece of pieces) {
    readAnswer(answer, piece);
    expect((answer.held?.length ?? 0) <= 1024 && answer.size <= 4096).toBeTrue();
  }
  const isOver = answer.step === "over";
  const ended = endAnswer(answer) ? (isOver ? "itself" : "with the connection") : "no";
  const { status, fault, isCut, keepsAlive } = answer;
  return { status, fault, body: textOf(answer), isCut, keepsAlive, ended };
}

const LINES = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${LINES}Transfer-Encoding: chunked\r\n\r\n`;
const whole = (body = "ok") => ({ status: 200, body, keepsAlive: true, ended: "itself" as const, fault: undefined });
const faulty = (fault: string, status?: number) => ({ fault, status, keepsAlive: false, ended: "itself" as const });
const unkept = (body = "ok") => ({ ...whole(body), keepsAlive: false });
const untilClose = (body = "ok") => ({ ...unkept(body), ended: "with the connection" as const });
const broken = (status?: number) => ({ status, fault: undefined, ended: "no" as const });
const MALFORMED = faulty("Malformed_HTTP_Response");
const BAD_LENGTH = faulty("InvalidContentLength");
const BAD_CHUNK = faulty("InvalidHTTPResponse", 200);
const LARGE = faulty("ResponseHeadersTooLarge");

const ANSWERS: [text: string, read: Partial<Read>][] = [
  [`${LINES}Content-Length: 2\r\n\r\nok`, whole()],
  [`${LINES}Content-Length: 0\r\n\r\n`, whole("")],
  [`${LINES}content-LENGTH:2\r\nX:\r\n\r\nok`, whole()],
  ["HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", whole()],
  ["HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", whole()],
  ["HTTP/1.1 200 OK\nContent-Length: 2\n\nok", whole()],
  [`${LINES}Content-Length: 2\r\nConnection: Keep-Alive\r\n\r\nok`, whole()],
  [`${LINES}X: a\rb\0c\xff\r\nContent-Length: 2\r\n\r\nok`, whole()],
  [`${LINES}Content-Length: 4\r\n\r\nok`, broken(200)],
  ["HTTP/1.1 200 OK\r\nContent-Len", broken()],
  ["", broken()],

  ["HTTP/1.1 204 No\r\n\r\n", { ...whole(""), status: 204 }],
  ["HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok", { ...unkept(""), status: 204 }],
  ["HTTP/1.1 304 No\r\nContent-Length: 2\r\n\r\n", { ...whole(""), status: 304 }],
  ["HTTP/1.1 205 No\r\nContent-Length: 0\r\n\r\n", { ...whole(""), status: 205 }],
  ["HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n", { ...whole(""), status: 99 }],

  ["HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", unkept()],
  ["HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", whole()],
  [`${LINES}Connection: x, Close\r\nContent-Length: 2\r\n\r\nok`, unkept()],
  [`${LINES}Content-Length: 2\r\n\r\nok${LINES}`, unkept()],
  [`${LINES}Content-Length: 2\r\n\r\nok\r\n`, unkept()],

  ["220 mail.example ESMTP\r\n", MALFORMED],
  ["\x4a\0\0", MALFORMED],
  ["\r\nHTTP/1.1 200 OK\r\n", MALFORMED],
  ["HTTP/2.0 200 OK\r\n", MALFORMED],
  ["http/1.1 200 OK\r\n", MALFORMED],
  ["HTTP/1.1  200 OK\r\n", MALFORMED],
  ["HTTP/1.1 2000 OK\r\n", MALFORMED],
  ["HTTP/1.1 20\r\n", MALFORMED],
  ["HTTP/1.10 200 OK\r\n", MALFORMED],
  ["HTTP/1.x 200 OK\r\n", MALFORMED],
  [`${LINES}X\r\n`, MALFORMED],
  [`${LINES}: x\r\n`, MALFORMED],
  [`${LINES}X: a\r\n b\r\n`, MALFORMED],
  [`${LINES} X: a\r\n`, MALFORMED],
  [`${LINES}Content-Length : 2\r\n`, MALFORMED],
  [`${LINES}Content\0Length: 2\r\n`, MALFORMED],

  ["HTTP/1.1 101 Now\r\nUpgrade: x\r\n\r\n", faulty("UnrequestedUpgrade")],
  [`HTTP/1.1 100 Go\r\nContent-Length: 9\r\n\r\nHTTP/1.1 103 Hint\n\n${LINES}Content-Length: 2\r\n\r\nok`, whole()],
  [`${"HTTP/1.1 102 Wait\r\n\r\n".repeat(1_001)}`, LARGE],

  [`${LINES}Content-Length: 2\r\nContent-Length: 2, 02\r\n\r\nok`, whole()],
  [`${LINES}Content-Length: 0\r\nContent-Length: 2\r\n\r\n`, BAD_LENGTH],
  [`${LINES}Content-Length: 2,3\r\n\r\n`, BAD_LENGTH],
  ...["", "+2", "-2", "0x2", "2 2", "2,", "2.0", "1e1", "9".repeat(17), "9".repeat(400)].map(
    (value): [string, Partial<Read>] => [`${LINES}Content-Length: ${value}\r\n\r\n`, BAD_LENGTH],
  ),
  [`${LINES}Content-Length: ${Number.MAX_SAFE_INTEGER}\r\n\r\nok`, broken(200)],

  [`${CHUNKED}2\r\nok\r\n0\r\n\r\n`, whole()],
  [`${CHUNKED}0\r\n\r\n`, whole("")],
  [`${CHUNKED}1;a="b;c"\r\no\r\n01 ;x\r\nk\r\n00\r\nX: y\nZ\r\n\r\n`, whole()],
  [`${CHUNKED}A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n`, whole("01234567890123456789a")],
  [`${LINES}Transfer-Encoding: gzip\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`, whole()],
  [`${LINES}Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n`, unkept()],
  ["HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", unkept()],
  [`${CHUNKED}2\r\nok\r\n0\r\n\r\n0`, unkept()],
  [`${CHUNKED}2\r\nok\r\n0\r\n`, broken(200)],
  [`${CHUNKED}2\r\nok`, broken(200)],
  ...["zz", "", ";a", "-1", "0x2", " 2", "2 ", "2 x", "f".repeat(14), "f".repeat(400)].map(
    (size): [string, Partial<Read>] => [`${CHUNKED}${size}\r\n`, BAD_CHUNK],
  ),
  [`${CHUNKED}2\nok\r\n`, BAD_CHUNK],
  [`${CHUNKED}2\r\nok\n`, BAD_CHUNK],
  [`${CHUNKED}2\r\nokay\r\n`, BAD_CHUNK],
  [`${CHUNKED}2;${"x".repeat(1_100)}\r\n`, BAD_CHUNK],
  [`${CHUNKED}1fffffffffffff\r\nok`, broken(200)],

  [`${LINES}\r\nok`, untilClose()],
  [`${LINES}Transfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nok`, untilClose()],
  [`${LINES}Transfer-Encoding: chunked, gzip\r\n\r\nok`, untilClose()],
  [`${LINES}Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok`, unkept()],
  [`${LINES}Transfer-Encoding: chunked, chunked\r\n\r\n`, faulty("UnsupportedTransferEncoding")],

  [`${LINES}X: ${"x".repeat(2_000)}\r\nContent-Length: 2\r\n\r\nok`, whole()],
  [`HTTP/1.1 200 ${"x".repeat(2_000)}\r\nContent-Length: 2\r\n\r\nok`, whole()],
  [`${LINES}Content-Length: ${"0".repeat(1_100)}2\r\n\r\nok`, LARGE],
  [`${LINES}${"x".repeat(1_100)}: x\r\n`, MALFORMED],
];

const named = (text: string): string => JSON.stringify(text.length > 90 ? `${text.slice(0, 90)}…` : text);

describe("in one piece, in two, and byte by byte, an answer is", () => {
  for (const [text, expected] of ANSWERS) {
    test(named(text), () => {
      const bytes = Buffer.from(text, "latin1");
      const found = read([bytes]);
      expect(found).toMatchObject(expected);
      const isSame = (pieces: readonly Buffer[]) => Bun.deepEquals(read(pieces), found);
      const step = Math.max(1, Math.floor(bytes.length / 2_500));
      for (let at = 1; at < bytes.length; at += step) {
        if (!isSame([bytes.subarray(0, at), bytes.subarray(at)])) throw new Error(`not the same when cut at ${at}`);
      }
      expect(isSame(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))).toBeTrue();
    });
  }
});

test("a head of 256 KiB is read, and none that is longer", () => {
  const begin = `${LINES}Content-Length: 2\r\nX: `;
  const headOf = (size: number) => Buffer.from(`${begin}${"x".repeat(size - begin.length - 4)}\r\n\r\nok`);
  const inPieces = (bytes: Buffer, size: number) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
  for (const size of [1_000_000, 65_536, 1_000]) {
    expect(read(inPieces(headOf(262_144), size))).toMatchObject(whole());
    expect(read(inPieces(headOf(262_145), size))).toMatchObject(LARGE);
    const trailers = Buffer.from(`${CHUNKED}0\r\n${"X: y\r\n".repeat(44_000)}\r\n`);
    expect(read(inPieces(trailers, size))).toMatchObject(faulty("ResponseHeadersTooLarge", 200));
  }
});

test("of a body 4 KiB are kept, whatever its length, and no more is read", () => {
  for (const size of [4_095, 4_096, 4_097, 100_000]) {
    const body = "x".repeat(size);
    const forms = [
      `${LINES}Content-Length: ${size}\r\n\r\n${body}`,
      `${LINES}\r\n${body}`,
      `${CHUNKED}${size.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ];
    for (const form of forms) {
      const bytes = Buffer.from(form);
      for (const cut of [1, 100, 4_096, 4_150, bytes.length]) {
        const found = read([bytes.subarray(0, cut), bytes.subarray(cut)]);
        expect(found).toMatchObject({ status: 200, body: body.slice(0, 4_096), isCut: size > 4_096 });
        if (size > 4_096) expect(found).toMatchObject({ keepsAlive: false, ended: "itself" });
      }
    }
  }
});

/** Cuts `bytes` into pieces, none of them empty. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length)).filter(({ length }) => length > 0);
}

const places = fc.array(fc.nat(), { maxLength: 12 });

test("chunks come to the body they were made of", () => {
  const chunk = fc.record({
    data: fc.uint8Array({ minLength: 1, maxLength: 1_500 }),
    extension: fc.constantFrom("", ";a", ';a="b"', " ; a=b"),
    zeros: fc.nat(3),
    upper: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 6 }), fc.constantFrom("", "X: y\r\n"), places, (chunks, trailer, at) => {
      const parts = chunks.map(({ data, extension, zeros, upper }) => {
        const size = data.length.toString(16);
        const line = `${"0".repeat(zeros)}${upper ? size.toUpperCase() : size}${extension}\r\n`;
        return Buffer.concat([Buffer.from(line), data, Buffer.from("\r\n")]);
      });
      const bytes = Buffer.concat([Buffer.from(CHUNKED), ...parts, Buffer.from(`0\r\n${trailer}\r\n`)]);
      const body = Buffer.concat(chunks.map(({ data }) => data));
      const isCut = body.length > 4_096;
      expect(read(cut(bytes, at))).toEqual({
        ...{ status: 200, fault: undefined, body: body.toString("latin1", 0, 4_096), isCut },
        ...{ keepsAlive: !isCut, ended: "itself" },
      });
    }),
  );
});

test("whatever comes, it does no harm, and is the same in whatever pieces", () => {
  const words = [
    "HTTP/1.1 200 OK",
    "HTTP/1.0 100 ",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    " ",
    ":",
    ",",
    ";",
    "\0",
    "\xff",
    "x".repeat(1_200),
    "Content-Length: ",
    "Transfer-Encoding: ",
    "chunked",
    "Connection: close",
    "0",
    "2",
    "fff",
    "X: y",
    "\r\n0\r\n\r\n",
  ];
  const text = fc.array(fc.oneof(fc.constantFrom(...words), fc.string({ unit: "binary-ascii", maxLength: 3 })));
  const begin = fc.constantFrom("", LINES, CHUNKED, `${LINES}Content-Length: 5\r\n\r\n`);
  fc.assert(
    fc.property(begin, text, places, (start, rest, at) => {
      const bytes = Buffer.from(start + rest.join(""), "latin1");
      expect(read(cut(bytes, at))).toEqual(read([bytes]));
      read([Buffer.from(rest.join(""), "utf16le")]);
    }),
    { numRuns: 2_000 },
  );
});
