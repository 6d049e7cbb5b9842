/** A session whose certificate must be valid, in a process that trusts the authority of the remote. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { makePair, startRemoteMx } from "../harness/peers/remote-mx.ts";

describe("a certificate that must be valid", () => {
  /**
   * Runs in a process of its own, which trusts the remote's certificate as an authority: a process reads authorities at its
   * start.
   */
  const PROGRAM = `
    import { openSmtpSession } from "${join(import.meta.dir, "../../src/smtp/client.ts")}";
    import { systemRuntime } from "${join(import.meta.dir, "../../src/base/runtime.ts")}";
    const [target] = process.argv.slice(1).map(JSON.parse);
    const log = { debug() {} };
    const world = { runtime: systemRuntime(), hostname: "us.test", log, signal: new AbortController().signal };
    const opening = openSmtpSession(target, world);
    await opening.then((session) => { session.close(); console.log("session"); }, ({ message }) => console.log(message));`;

  test.each([
    ["required", "smart.example.net", /^session$/],
    ["implicit", "smart.example.net", /^session$/],
    ["required", "other.example.net", /not match certificate/],
    ["implicit", "127.0.0.1", /not match certificate/],
  ] as const)("%s, is that of the host: %s", async (mode, host, outcome) => {
    const pair = await makePair("smart.example.net");
    const authority = join(temporaryFolder(), "authority.pem");
    await Bun.write(authority, pair.cert);
    const { host: address, port } = await startRemoteMx({ pair, starttls: true, implicitTls: mode === "implicit" });
    const target = { host, address, port, tls: { mode, verify: true, plainIfBroken: false } };
    const child = Bun.spawn([process.execPath, "-e", PROGRAM, JSON.stringify(target)], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: authority },
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect((await new Response(child.stdout).text()).trim()).toMatch(outcome);
  });
});
