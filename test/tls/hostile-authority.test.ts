/** Answers that a certificate authority may give, and what becomes of the certificate in use and of what people are told. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { HOST, place } from "./acme-place.ts";
import { type FakeAuthority, startFakeAuthority } from "./fake-authority.ts";

const DAY_MS = 24 * 60 * 60_000;
const HOSTILE_TEXT = `no\r\n\u001b[2J\u0007\u202e${"x".repeat(5_000)}`;

const namesIn = ({ cert }: KeyPair) => new X509Certificate(cert).subjectAltName;

/** A server that has a certificate of the authority, and is to renew it. */
async function setUp() {
  let clock = Date.now;
  const authority = await startFakeAuthority(() => clock());
  const at = place({ ...authority, zone: {} });
  clock = at.runtime.now;
  const opened = await at.open();
  await opened.look();
  expect(namesIn(opened.current())).toBe(`DNS:${HOST}`);
  const first = opened.current();
  /** Lets the renewal come due. */
  const renew = async () => {
    at.runtime.advanceTo(at.runtime.now() + 70 * DAY_MS);
    await opened.look();
  };
  return { ...opened, at, authority, first, renew };
}

/** Reason of the last failure, as people read it. */
async function reasonAfter(change: (authority: FakeAuthority) => void): Promise<string> {
  const { authority, current, seen, first, renew, trouble, at } = await setUp();
  change(authority);
  await renew();
  expect(current()).toEqual(first);
  expect(seen).toHaveLength(1);
  const { reason = "", retryAt = 0 } = trouble() ?? {};
  expect(reason.length).toBeLessThanOrEqual(1_000);
  expect(reason).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(retryAt).toBeGreaterThan(at.runtime.now());
  expect(retryAt).toBeLessThan(at.runtime.now() + 8 * DAY_MS);
  for (const line of at.lines) expect(JSON.stringify(line).length).toBeLessThan(4_000);
  return reason;
}

describe("a certificate is not used", () => {
  test("that is for other names, or for some of those ordered", async () => {
    for (const names of [["bank.example.test"], ["*.example.test"], []]) {
      const reason = await reasonAfter(({ does }) => {
        does.sign = () => ({ names });
      });
      expect(reason).toBe(`the authority gave a certificate that is not for ${HOST}`);
    }
  });

  test("that has ended", async () => {
    const reason = await reasonAfter(({ does }) => {
      does.sign = () => ({ from: Date.now() - 9 * DAY_MS, until: Date.now() - DAY_MS });
    });
    expect(reason).toBe("the authority gave a certificate that has ended: is this machine's clock right?");
  });

  test("for the key of somebody else", async () => {
    const { pair } = await makeChain(HOST);
    const reason = await reasonAfter(({ does }) => {
      does.chain = () => pair.cert;
    });
    expect(reason).toContain("the key does not belong to the certificate");
  });

  test.each<[string, (cert: string) => string]>([
    ["of what is no certificate", (cert) => `${cert}\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----`],
    ["of a certificate that does not end", (cert) => `${cert}\n${"-----BEGIN CERTIFICATE-----\n".repeat(30_000)}`],
    ["of many certificates", (cert) => `${cert}\n`.repeat(50)],
    [
      "that begins with something else",
      (cert) => `-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${cert}`,
    ],
    ["of nothing", () => ""],
  ])("in a chain %s", async (_, chain) => {
    const begun = performance.now();
    const reason = await reasonAfter(({ does }) => {
      does.chain = chain;
    });
    expect(reason).toContain("the authority gave a certificate that is none");
    expect(performance.now() - begun).toBeLessThan(4_000);
  });
});

describe("a refusal", () => {
  const refused = (problem: unknown) => (authority: FakeAuthority) => {
    authority.does.answer = (path) => (path === "order" ? Response.json(problem, { status: 403 }) : undefined);
  };

  test.each<[string, unknown]>([
    ["whose text acts on a terminal and has no end", { detail: HOSTILE_TEXT }],
    ["whose type is no text", { type: 7, detail: ["no"] }],
    ["of lists in lists", { type: [], detail: {}, subproblems: [null, 1, { identifier: { value: {} } }] }],
    ["whose parts are no list", { type: "rejectedIdentifier", detail: "no", subproblems: "x", identifier: "y" }],
    ["that is null", null],
    [
      "that names ten thousand others",
      {
        detail: "no",
        subproblems: Array.from({ length: 10_000 }, (_, n) => ({ identifier: { type: "dns", value: `${n}.example` } })),
      },
    ],
    ["that names what is no name", { detail: "no", identifier: { value: HOSTILE_TEXT } }],
  ])("%s is told in one short line", async (_, problem) => {
    expect(await reasonAfter(refused(problem))).toMatch(/^(?:no|HTTP status 403)/);
  });

  test("inside of an authorization is told likewise", async () => {
    const reason = await reasonAfter(({ does }) => {
      does.answer = (path, at) => {
        const identifier = { type: "dns", value: HOST };
        const challenge = { type: "http-01", url: at("challenge"), token: "token" };
        if (path === "order") {
          return {
            status: "pending",
            identifiers: [identifier],
            authorizations: [at("authorization")],
            finalize: at("finalize"),
          };
        }
        if (path === "authorization")
          return { status: "pending", identifier, challenges: [{ ...challenge, status: "pending" }] };
        if (path === "challenge") return { ...challenge, status: "invalid", error: { detail: HOSTILE_TEXT } };
        return undefined;
      };
    });
    expect(reason).toStartWith(`${HOST}: no`);
  });
});

describe("an order", () => {
  test("with more authorizations than names is left alone", async () => {
    let asked: string[] = [];
    const reason = await reasonAfter((authority) => {
      asked = authority.asked;
      authority.does.answer = (path, at) =>
        path === "order"
          ? {
              status: "pending",
              identifiers: [{ type: "dns", value: HOST }],
              authorizations: Array.from({ length: 10_000 }, (_, n) => at(`authorization/${n}`)),
              finalize: at("finalize"),
            }
          : undefined;
    });
    expect(reason).toBe("the authority asks for proofs of names that were not ordered");
    expect(asked.filter((path) => path.startsWith("authorization"))).toEqual([]);
  });

  test("whose token is no token gets no proof", async () => {
    const reason = await reasonAfter(({ does }) => {
      does.answer = (path, at) => {
        const identifier = { type: "dns", value: HOST };
        if (path === "order") {
          return {
            status: "pending",
            identifiers: [identifier],
            authorizations: [at("authorization")],
            finalize: at("finalize"),
          };
        }
        if (path !== "authorization") return undefined;
        const token = "<script>alert(1)</script>";
        return {
          status: "pending",
          identifier,
          challenges: [{ type: "http-01", status: "pending", url: at("challenge"), token }],
        };
      };
    });
    expect(reason).toBe(`${HOST}: the authority gave a token that is none`);
  });
});

test("a window that is always over has a certificate renewed a few times a day at most", async () => {
  const { authority, look, at, current, first } = await setUp();
  authority.does.answer = (path) =>
    path.startsWith("window")
      ? { suggestedWindow: { start: "2020-01-01T00:00:00Z", end: "2020-01-02T00:00:00Z" } }
      : undefined;
  const orders = authority.orders.length;
  const until = at.runtime.now() + DAY_MS;
  for (let next = await look(); next < until; next = await look()) at.runtime.advanceTo(next);
  expect(current()).not.toEqual(first);
  expect(authority.orders.length - orders).toBeGreaterThan(0);
  expect(authority.orders.length - orders).toBeLessThanOrEqual(5);
});

test.each(["0", "-1", "99999999999999999999", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "x"])(
  "beside Retry-After %s, the window is asked for once a minute at most, and once a day at least",
  async (after) => {
    const { authority, look, at } = await setUp();
    authority.does.answer = (path) =>
      path.startsWith("window")
        ? Response.json(
            { suggestedWindow: { start: "2040-01-01T00:00:00Z", end: "2040-01-02T00:00:00Z" } },
            { headers: { "retry-after": after } },
          )
        : undefined;
    const count = () => authority.asked.filter((path) => path.startsWith("window")).length;
    for (let minutes = 0; minutes < 10; minutes++) {
      at.runtime.advanceTo(await look());
    }
    expect(count()).toBeLessThanOrEqual(11);
    const before = count();
    at.runtime.advanceTo(at.runtime.now() + DAY_MS);
    await look();
    expect(count()).toBe(before + 1);
  },
);
