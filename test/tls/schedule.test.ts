/** When a certificate is asked for, whatever an authority says of it. */
import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { openAuthority } from "../../src/tls/authority.ts";
import { afterFailure, renewalTime } from "../../src/tls/schedule.ts";
import { selfSign } from "../../src/tls/x509.ts";
import { START } from "../harness/runtime.ts";

const DAY_MS = 24 * 60 * 60_000;
const MINUTE_MS = 60_000;

test("a window that the authority suggests is kept to, but not until it is too late", async () => {
  const { cert } = await selfSign("mail.example.test", START, START + 90 * DAY_MS, new Uint8Array(16));
  const from = new X509Certificate(cert).validFromDate.getTime();
  const at = (start: number, end: number) => (renewalTime(cert, { start, end, askAt: 0 }) - from) / DAY_MS;
  const early = at(START + 10 * DAY_MS, START + 12 * DAY_MS);
  expect(early).toBeGreaterThanOrEqual(10);
  expect(early).toBeLessThanOrEqual(12);
  for (const days of [89, 91, 4_000]) {
    const late = at(START + days * DAY_MS, START + (days + 1) * DAY_MS);
    expect(late).toBeGreaterThanOrEqual(90 * 0.8);
    expect(late).toBeLessThanOrEqual(90 * 0.85);
  }
});

test("an authority that asks for patience has it, for a week at most", () => {
  const wait = (askedFor: number) =>
    afterFailure(undefined, { now: START, reason: "", chance: 0, askedFor }).retryAt - START;
  expect(wait(START + 1_000)).toBe(5 * MINUTE_MS);
  expect(wait(START + 2 * DAY_MS)).toBe(2 * DAY_MS);
  expect(wait(START + 1_000 * DAY_MS)).toBe(7 * DAY_MS);
});

test.each([
  ["3600", 3_600_000],
  ["31536000", DAY_MS],
  [undefined, 6 * 3_600_000],
])("an authority that wants to be asked again after %p seconds is", async (retryAfter, expected) => {
  const window = { start: "2026-03-01T00:00:00Z", end: "2026-03-02T00:00:00Z" };
  const directory = "https://ca.test/dir";
  const authority = openAuthority({
    directory,
    runtime: { now: () => START },
    http: {
      within: (_, work) => work(new AbortController().signal),
      send: async ({ url }) =>
        url === directory
          ? Response.json({ renewalInfo: "https://ca.test/ari" })
          : Response.json({ suggestedWindow: window }, { headers: retryAfter ? { "retry-after": retryAfter } : {} }),
    },
  });
  expect(await authority.renewalWindow("id")).toEqual({
    start: Date.parse(window.start),
    end: Date.parse(window.end),
    askAt: START + expected,
  });
});
