/** The system as the doctor sees it: real sockets. */
import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { createServer } from "node:tls";
import { operatingSystem } from "../../src/doctor/system.ts";
import { type KeyPair, selfSign } from "../../src/tls/pair.ts";

/** A certificate whose Base64 fills its last line. */
async function fullLines(): Promise<KeyPair> {
  for (let length = 1; ; length = (length % 60) + 1) {
    const serial = crypto.getRandomValues(new Uint8Array(16));
    const pair = await selfSign(`${"a".repeat(length)}.test`, Date.now() - 1_000, Date.now() + 1_000_000, serial);
    if (new X509Certificate(pair.cert).raw.toString("base64").length % 64 === 0) return pair;
  }
}

test("a certificate of any length is read whole", async () => {
  const pair = await fullLines();
  const server = createServer({ ...pair }, () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const { certificate = "" } = await operatingSystem.greet("127.0.0.1", port, "certificate");
  server.close();
  expect(new X509Certificate(certificate).fingerprint256).toBe(new X509Certificate(pair.cert).fingerprint256);
});
