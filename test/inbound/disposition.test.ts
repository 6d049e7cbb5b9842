import { expect, test } from "bun:test";
import { dispositionOf } from "../../src/inbound/data.ts";

/** The lot as a fraction of 65,536. */
const drawing = (lot: number) => ({ randomBytes: () => Uint8Array.of(lot >> 8, lot & 255) });

test.each([
  ["reject", 100, 65_535, "reject"],
  ["reject", 20, 13_107, "reject"],
  ["reject", 20, 13_108, "quarantine"],
  ["quarantine", 20, 0, "quarantine"],
  ["quarantine", 20, 65_535, "none"],
  ["quarantine", 0, 0, "none"],
  ["reject", 0, 0, "quarantine"],
  ["none", 0, 0, "none"],
] as const)("%s of %d %%, lot %d: %s", (policy, percent, lot, disposition) => {
  expect(dispositionOf({ policy, percent }, drawing(lot))).toBe(disposition);
});
