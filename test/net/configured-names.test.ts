/** Servers that the operator names: which address is connected to, and that name and certificate are the operator's. */
import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createConfiguredHostLookup, fetchByName } from "../../src/net/configured-names.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { type Habits, type Zone, zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const servers: Bun.Server<undefined>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.stop(true);
});

/** A server of 127.0.0.2 that tells what it was asked; without TLS unless there is a pair. */
function serve(tls?: { cert: string; key: string }): number {
  const server = Bun.serve({
    hostname: "127.0.0.2",
    port: 0,
    ...(tls && { tls }),
    fetch: async (request) =>
      Response.json([request.method, request.headers.get("host"), request.headers.get("x-more"), await request.text()]),
  });
  servers.push(server);
  return server.port ?? 0;
}

function setUp(description: Zone, hosts = "", habits?: Habits) {
  const hostsFile = join(temporaryFolder(), "hosts");
  writeFileSync(hostsFile, hosts);
  const dns = zone(description, habits);
  const addressesOf = createConfiguredHostLookup(fakeRuntime({ dns }), hostsFile);
  return { addressesOf, fetch: fetchByName(fetch, addressesOf), questions: dns.questions };
}

test("a request goes to the address that DNS gives, with the name in its Host field", async () => {
  const port = serve();
  const names = setUp({ "s3.test": { a: ["127.0.0.2"] } });
  const url = `http://s3.test:${port}/bucket/key?a=b`;
  const told = async (...asked: Parameters<typeof fetch>) => (await names.fetch(...asked)).json();
  expect(await told(url, { method: "PUT", body: "text", headers: { "x-more": "1" } })).toEqual([
    "PUT",
    `s3.test:${port}`,
    "1",
    "text",
  ]);
  const request = new Request(url, { method: "POST", body: "again", headers: { "x-more": "2" } });
  expect(await told(request, { redirect: "manual" })).toEqual(["POST", `s3.test:${port}`, "2", "again"]);
  expect(names.questions).toEqual(["a s3.test", "aaaa s3.test"]);
});

test("an address that takes no connection is followed by the next", async () => {
  const port = serve();
  const names = setUp({ "s3.test": { a: ["127.0.0.3", "127.0.0.2"] } });
  const request = new Request(`http://s3.test:${port}/`, { method: "POST", body: "again" });
  expect(await (await names.fetch(request)).json()).toEqual(["POST", `s3.test:${port}`, null, "again"]);
});

test("the certificate has to be for the name", async () => {
  const { pair, authority } = await makeChain("s3.test");
  const port = serve(pair);
  const names = setUp({ "s3.test": { a: ["127.0.0.2"] }, "other.test": { a: ["127.0.0.2"] } });
  const tls = { ca: [authority] };
  expect((await names.fetch(`https://s3.test:${port}/`, { tls })).status).toBe(200);
  await expect(names.fetch(`https://other.test:${port}/`, { tls })).rejects.toMatchObject({
    code: "ERR_TLS_CERT_ALTNAME_INVALID",
  });
  await expect(names.fetch(`https://s3.test:${port}/`)).rejects.toThrow();
});

test("the system's file of hosts goes before DNS", async () => {
  const hosts = ["# 127.0.0.9 s3.test", "127.0.0.2\tother S3.Test # here", "::2 s3.test", "nonsense s3.test"].join(
    "\n",
  );
  const names = setUp({ "s3.test": { a: ["192.0.2.1"] } }, hosts);
  expect(await names.addressesOf("S3.test.")).toEqual(["127.0.0.2", "::2"]);
  expect(await names.addressesOf("192.0.2.7")).toEqual(["192.0.2.7"]);
  expect(await names.addressesOf("localhost")).toEqual(["127.0.0.1", "::1"]);
  expect(names.questions).toEqual([]);
});

test("a name without addresses, and DNS that fails, are errors that say so", async () => {
  const names = setUp({ "none.test": {}, "broken.test": "SERVFAIL" });
  await expect(names.fetch("http://none.test/")).rejects.toThrow("none.test has no address");
  await expect(names.fetch("http://missing.test/")).rejects.toThrow("missing.test has no address");
  await expect(names.fetch("http://broken.test/")).rejects.toThrow("DNS gave no answer for broken.test (ESERVFAIL)");
});

test("a request that is ended does not wait for DNS", async () => {
  const names = setUp({}, "", { hold: () => new Promise(() => {}) });
  const ending = new AbortController();
  const asked = names.fetch("http://slow.test/", { signal: ending.signal });
  ending.abort(new Error("ended"));
  await expect(asked).rejects.toThrow("ended");
});
