/** One-time passwords with the vectors of RFC 4226 and RFC 6238, and secrets for apps (RFC 4648). */
import { describe, expect, test } from "bun:test";
import {
  computeTotpCode,
  findMatchingTotpStep,
  readTotpSecret,
  toBase32,
  totpKeyUri,
  totpStepAt,
} from "../../src/access/totp.ts";

const SECRET = Buffer.from("12345678901234567890");

test("RFC 4226, appendix D", () => {
  const codes = ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"];
  expect(codes.map((_, counter) => computeTotpCode(SECRET, counter))).toEqual(codes);
});

test.each([
  [59, "94287082"],
  [1111111109, "07081804"],
  [1111111111, "14050471"],
  [1234567890, "89005924"],
  [2000000000, "69279037"],
  [20000000000, "65353130"],
])("RFC 6238, appendix B: at %d s", (seconds, code) => {
  expect(computeTotpCode(SECRET, totpStepAt(seconds * 1_000), 8)).toBe(code);
});

describe("a code", () => {
  const now = 1_111_111_109_000;
  const step = totpStepAt(now);

  test.each([
    [-2, undefined],
    [-1, step - 1],
    [0, step],
    [1, step + 1],
    [2, undefined],
  ])("%d steps aside", (aside, expected) => {
    expect(findMatchingTotpStep(SECRET, computeTotpCode(SECRET, step + aside), now)).toBe(expected as number);
  });

  test("of a step that is not later than the last one is invalid", () => {
    const code = computeTotpCode(SECRET, step);
    expect([step - 1, step, step + 1].map((after) => findMatchingTotpStep(SECRET, code, now, after))).toEqual([
      step,
      undefined,
      undefined,
    ]);
  });

  test.each(["", "00000", "0000000", "abcdef", "１２３４５６"])("%j is invalid", (text) => {
    expect(findMatchingTotpStep(SECRET, text, now)).toBeUndefined();
  });
});

describe("a secret", () => {
  test.each([
    ["", ""],
    ["f", "MY"],
    ["fo", "MZXQ"],
    ["foo", "MZXW6"],
    ["foob", "MZXW6YQ"],
    ["fooba", "MZXW6YTB"],
    ["foobar", "MZXW6YTBOI"],
  ])("RFC 4648 §10: %j", (text, base32) => {
    expect(toBase32(Buffer.from(text))).toBe(base32);
  });

  test("is read as shown, also in groups and lower case", () => {
    const text = toBase32(SECRET);
    for (const typed of [text, text.toLowerCase(), ` ${text.replace(/.{4}/g, "$& ")}`]) {
      expect(readTotpSecret(typed)).toEqual(new Uint8Array(SECRET));
    }
  });

  test.each(["", "MZXW6YTB", `${"A".repeat(31)}1`, "A".repeat(33), "A".repeat(26)])("%j is invalid", (text) => {
    expect(readTotpSecret(text)).toBeUndefined();
  });

  test("has a key URI for apps", () => {
    const uri = new URL(totpKeyUri("ABC", "ada+x@acme.test"));
    expect([uri.protocol, decodeURIComponent(uri.pathname), Object.fromEntries(uri.searchParams)]).toEqual([
      "otpauth:",
      expect.stringMatching(/Mailroom:ada\+x@acme\.test$/),
      { secret: "ABC", issuer: "Mailroom" },
    ]);
  });
});
