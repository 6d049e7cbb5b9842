/** Signed messages of DNS: against what another program signed, and in the forms that keys are kept in. */
import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { encodeName, readMessage, readName } from "../../src/tls/dns-message.ts";
import { parseTsigKey, problemOfSignature, sign, type TsigKey } from "../../src/tls/tsig.ts";

const SECRET = Buffer.from("a secret of thirty-two bytes, so");
const BASE64 = SECRET.toString("base64");
const KEY: TsigKey = { name: "mailroom", algorithm: "hmac-sha256", secret: SECRET };
const TIME = 0x6b021743 * 1_000;

/** Questions for the SOA record of example.test as `kdig -y` of Knot DNS 3.2.6 signed them at TIME. */
const SIGNED = {
  "hmac-sha256":
    "164601200001000000000001076578616d706c6504746573740000060001086d61696c726f6f6d0000fa00ff00000000003d0b686d61632d7368613235360000006b021743012c0020a10079d83cdc2f368e76ea2afbe9bd0054a5afe22cd366a0726ef1f2823da710164600000000",
  "hmac-sha512":
    "d0bc01200001000000000001076578616d706c6504746573740000060001086d61696c726f6f6d0000fa00ff00000000005d0b686d61632d7368613531320000006b021743012c00402a50df509df9e4b52a36eeb284727be8f5de21cf98bb308bb95f52018ae310381bb9b1667750821264cafdbeeee59b1b96a3c1e8682fb662622e21133406a2e6d0bc00000000",
} as const;

/** A message of theirs without its signature. */
function unsigned(hex: string): Buffer {
  const bytes = Buffer.from(hex, "hex");
  const start = readMessage(bytes).additionals[0]?.start ?? 0;
  const message = Buffer.from(bytes.subarray(0, start));
  message.writeUInt16BE(0, 10);
  return message;
}

test.each(Object.entries(SIGNED))("%s: every byte is as another program signs it", (algorithm, hex) => {
  const key = { ...KEY, algorithm: algorithm as TsigKey["algorithm"] };
  expect(sign(unsigned(hex), key, TIME + 999).signed.toString("hex")).toBe(hex);
});

describe("an answer", () => {
  const request = sign(unsigned(SIGNED["hmac-sha256"]), KEY, TIME);
  /** Signed as an answer is: over the signature of the request, too. */
  function answerTo(mac: Buffer, now = TIME, key = KEY): Buffer {
    const message = unsigned(SIGNED["hmac-sha256"]);
    message[2] = 0x84;
    const { signed } = sign(message, key, now);
    const start = readMessage(signed).additionals[0]?.start ?? 0;
    const record = signed.subarray(start);
    const time = Buffer.alloc(6);
    time.writeUIntBE(now / 1_000, 0, 6);
    const variables = [encodeName(key.name), Buffer.from([0, 255, 0, 0, 0, 0]), encodeName(key.algorithm), time];
    const length = Buffer.from([0, mac.length]);
    const hmac = createHmac("sha256", key.secret);
    for (const part of [length, mac, message, ...variables, Buffer.from([1, 44, 0, 0, 0, 0])]) hmac.update(part);
    hmac.digest().copy(record, record.length - 32 - 6);
    return signed;
  }
  const problemOf = (bytes: Buffer, key = KEY, now = TIME) =>
    problemOfSignature(bytes, readMessage(bytes), { key, mac: request.mac, now });

  test("that is signed for this request is taken, within five minutes", () => {
    const answer = answerTo(request.mac);
    expect(problemOf(answer)).toBeUndefined();
    expect(problemOf(answer, KEY, TIME + 299_000)).toBeUndefined();
    expect(problemOf(answer, KEY, TIME + 301_000)).toMatch(/clock/);
  });

  test("is refused unsigned, changed, for another request, by another key or name", () => {
    const answer = answerTo(request.mac);
    expect(problemOf(unsigned(SIGNED["hmac-sha256"]))).toMatch(/not signed/);
    for (const at of [3, 14, answer.length - 20]) {
      const changed = Buffer.from(answer);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect([at, problemOf(changed)]).toEqual([at, expect.stringMatching(/wrong/)]);
    }
    expect(problemOf(answerTo(Buffer.alloc(32)))).toMatch(/wrong/);
    expect(problemOf(answer, { ...KEY, secret: Buffer.from("other") })).toMatch(/wrong/);
    expect(problemOf(answer, { ...KEY, name: "other" })).toMatch(/wrong/);
  });
});

describe("a key", () => {
  test.each([
    ["tsig-keygen's", `key "mailroom" {\n\talgorithm hmac-sha256;\n\tsecret "${BASE64}";\n};\n`],
    ["without quotes, in another order", `key Mailroom. { secret ${BASE64}; algorithm HMAC-SHA256; };`],
    ["keymgr's", `# hmac-sha256:mailroom:${BASE64}\nkey:\n  - id: mailroom\n`],
    ["one line", `hmac-sha256:mailroom.:${BASE64}\n`],
  ])("is read: %s", (_, text) => {
    expect(parseTsigKey(text)).toEqual({ ...KEY, secret: Buffer.from(SECRET) });
  });

  test.each([
    "",
    BASE64,
    `hmac-md5:mailroom:${BASE64}`,
    'key "mailroom" { algorithm hmac-sha256; };',
    `key "mailroom" { secret "${BASE64}"; };`,
    "hmac-sha256:mailroom:",
  ])("is none: %j", (text) => {
    expect(parseTsigKey(text)).toBeUndefined();
  });
});

describe("messages", () => {
  test("whatever the bytes are, reading them ends, with a RangeError or without", () => {
    const head = Buffer.from(SIGNED["hmac-sha256"], "hex");
    const read = (bytes: Buffer) => {
      try {
        readMessage(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
      }
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => read(Buffer.from(bytes))));
    fc.assert(
      fc.property(fc.nat(head.length - 1), fc.nat(255), (at, value) => {
        const damaged = Buffer.from(head);
        damaged[at] = value;
        read(damaged);
      }),
    );
  });

  test("names come back as they went, also by pointers, which lead back only", () => {
    const bytes = Buffer.concat([encodeName("Example.TEST."), Buffer.from([3, 119, 119, 119, 0xc0, 0])]);
    expect(readName(bytes, 0)).toEqual({ name: "example.test", end: 14 });
    expect(readName(bytes, 14)).toEqual({ name: "www.example.test", end: 20 });
    expect(readName(Buffer.from([0]), 0)).toEqual({ name: "", end: 1 });
    for (const loop of [
      [0xc0, 0],
      [1, 97, 0xc0, 0],
      [0xc0, 2, 0],
    ]) {
      expect(() => readName(Buffer.from(loop), 0)).toThrow(RangeError);
    }
    expect(() => encodeName(`${"a".repeat(64)}.test`)).toThrow(RangeError);
  });
});
