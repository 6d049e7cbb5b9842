/** Authorities that give no certificate. */
import { describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { atEndOfTest, place } from "../harness/acme-place.ts";
import { makePair } from "../harness/remote-mx.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const certificateOf = ({ cert }: KeyPair): X509Certificate => new X509Certificate(cert);
const isSelfSigned = (pair: KeyPair): boolean => certificateOf(pair).verify(certificateOf(pair).publicKey);

describe("an authority that gives none", () => {
  test("and cannot be reached is waited for; mail flows on", async () => {
    const pair = await makePair("localhost");
    const at = place({ directory: "https://localhost:1/dir", authority: pair.cert });
    const { look, current, seen, trouble } = await at.open();
    await look();
    expect([seen, isSelfSigned(current())]).toEqual([[], true]);
    expect(trouble()).toMatchObject({ failures: 1 });
    expect(at.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  test.each([
    ["7200", 2 * HOUR_MS],
    ["60", 5 * MINUTE_MS],
  ])("says 429 with Retry-After %s, and is not asked before", async (after, atLeast) => {
    const pair = await makePair("localhost");
    let asked = 0;
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch({ url }) {
        const { origin, pathname } = new URL(url);
        asked++;
        if (pathname === "/dir") {
          return Response.json({
            newNonce: `${origin}/nonce`,
            newAccount: `${origin}/account`,
            newOrder: `${origin}/o`,
          });
        }
        if (pathname === "/nonce") return new Response(null, { headers: { "replay-nonce": "abc" } });
        const problem = { type: "urn:ietf:params:acme:error:rateLimited", detail: "too many orders" };
        return Response.json(problem, { status: 429, headers: { "retry-after": after } });
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert });
    const { look, trouble } = await at.open();
    const begin = at.runtime.now();
    await look();
    expect(trouble()?.reason).toBe("too many orders");
    const retryAt = trouble()?.retryAt ?? 0;
    expect(retryAt - begin).toBeGreaterThanOrEqual(atLeast);
    expect(retryAt - begin).toBeLessThanOrEqual(atLeast * 1.2);
    const once = asked;
    at.runtime.advanceTo(retryAt - 1);
    await look();
    expect(asked).toBe(once);
    at.runtime.advanceTo(retryAt);
    await look();
    expect(asked).toBeGreaterThan(once);
  });

  test("falls silent when it is to look for a proof, which is no name's fault", async () => {
    const pair = await makePair("localhost");
    const reached = Promise.withResolvers<void>();
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch({ url }) {
        const { origin, pathname } = new URL(url);
        const at = (path: string) => `${origin}/${path}`;
        const answers: Record<string, object> = {
          dir: { newNonce: at("nonce"), newAccount: at("account"), newOrder: at("order") },
          nonce: {},
          account: { status: "valid" },
          order: {
            status: "pending",
            identifiers: [],
            authorizations: [at("authorization")],
            finalize: at("finalize"),
          },
          authorization: {
            status: "pending",
            identifier: { type: "dns", value: "app.example.test" },
            challenges: [{ type: "http-01", status: "pending", url: at("challenge"), token: "token" }],
          },
        };
        const answer = answers[pathname.slice(1)];
        const headers = { "replay-nonce": "abc", location: url };
        if (answer) return Response.json(answer, { status: pathname === "/order" ? 201 : 200, headers });
        reached.resolve();
        return new Promise<Response>(() => {});
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert });
    at.ask(["app.example.test"]);
    const { look, trouble } = await at.open();
    const looked = look();
    await reached.promise;
    at.runtime.advanceTo(at.runtime.now() + 30_000);
    await looked;
    expect(trouble()?.reason).toBe("no complete answer within 30 seconds");
    expect(at.lines.find(({ level }) => level === "warn")).toMatchObject({ names: [] });
  });

  test("does not keep a server from stopping", async () => {
    const pair = await makePair("localhost");
    const reached = Promise.withResolvers<void>();
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch() {
        reached.resolve();
        return new Promise<Response>(() => {});
      },
    });
    atEndOfTest(() => void server.stop(true));
    const at = place({ directory: `https://localhost:${server.port}/dir`, authority: pair.cert });
    const { look, stop, trouble } = await at.open();
    const looked = look();
    await reached.promise;
    stop();
    await looked;
    expect(trouble()).toBeUndefined();
  });
});
