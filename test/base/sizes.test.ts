import { expect, test } from "bun:test";
import { readSize } from "../../src/base/sizes.ts";

test.each([
  ["0", 0],
  ["1048576", 1_048_576],
  ["5GB", 5_000_000_000],
  ["1.5 GiB", 1_610_612_736],
  ["4.1GB", 4_100_000_000],
  ["20 MB", 20_000_000],
  ["20mib", 20_971_520],
  ["10kB", 10_000],
  ["10 KiB", 10_240],
  [" 7 ", 7],
  ["9007199254740991", Number.MAX_SAFE_INTEGER],
])("%j is a size", (text, bytes) => {
  expect(readSize(text)).toBe(bytes);
});

test.each([
  "",
  "-5",
  "GB",
  "5 TB",
  "5G",
  "1.5",
  "0.0001kB",
  "1e6",
  "5  GB",
  "0x10",
  "9007199254740992",
  "9".repeat(40),
  "5GB5",
])("%j is no size", (text) => {
  expect(readSize(text)).toBeUndefined();
});
