/** DANE on the wire: a DNS server that authenticates, and mail hosts with the certificates that its records name, or not. */
import { describe, expect, test } from "bun:test";
import { createHash, X509Certificate } from "node:crypto";
import { findDaneChainProblem } from "../../src/authentication/dane.ts";
import type { StsPolicy } from "../../src/authentication/mta-sts.ts";
import { findTlsPolicies } from "../../src/authentication/tls-policy.ts";
import { createDnsClient, type DnsClient } from "../../src/base/dns-client.ts";
import { createTransport } from "../../src/outbound/transport.ts";
import { DeliveryFailure } from "../../src/smtp/delivery-result.ts";
import type { Options } from "../../src/store/settings.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { type Records, randomNumber, startDnsServer, type Zone, zone } from "../harness/peers/dns-server.ts";
import { type RemoteMx, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";
import { testLog } from "../harness/servers/mx-rig.ts";

const HOST = "mx1.example.net";

const right = makeChain(HOST);
const chains = {
  right,
  otherName: makeChain("elsewhere.example"),
  ofDomain: makeChain("example.net"),
  expired: makeChain(HOST, new Date(START - 60_000)),
};

type Tlsa = NonNullable<Records["tlsa"]>[number];

/** Makes a record of a certificate, by selector and matching type. */
function record(usage: number, selector: number, matchingType: number, pem: string): Tlsa {
  const certificate = new X509Certificate(pem);
  const content = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: "spki", format: "der" });
  const algorithm = [undefined, "sha256", "sha512"][matchingType];
  const data = algorithm === undefined ? content : createHash(algorithm).update(content).digest();
  return [usage, selector, matchingType, data];
}

interface Given {
  chain?: keyof typeof chains;
  script?: RemoteScript;
  /** Records of the host; none by default. */
  tlsa?: readonly Tlsa[];
  /** Changes of the records. `at`: the name of the TLSA records. */
  change?: (zone: Zone, at: string) => void;
  trusted?: readonly string[] | "none";
  policy?: StsPolicy;
  /** The host that an untrusted resolver names for the domain's mail. */
  forgedMx?: string;
}

async function send({ chain = "right", script, tlsa, change, trusted = ["127.0.0.0/8"], policy, forgedMx }: Given) {
  const { pair } = await chains[chain];
  const remote: RemoteMx = await startRemoteMx({ starttls: true, pair, ...script });
  const at = `_${remote.port}._tcp.${HOST}`;
  const records: Zone = {
    "example.net": { mx: [[10, HOST]], secure: true },
    [HOST]: { a: [remote.host], secure: true },
    ...(tlsa && { [at]: { tlsa, secure: true } }),
  };
  change?.(records, at);
  const server = await startDnsServer(records);
  const dns = createDnsClient({ servers: [server.address], randomNumber, elapsed: () => 0 });
  // The trusted resolver is asked by its address, and others may have answered the question for the MX records.
  const others = zone(forgedMx === undefined ? records : { ...records, "example.net": { mx: [[10, forgedMx]] } });
  const asking: DnsClient = { ...dns, ask: (name, type, to) => (to ? dns : others).ask(name, type, to) };
  const runtime = fakeRuntime({ dns: asking, authorities: [(await right).authority] });
  const { log, lines } = testLog(runtime);
  const values: Record<string, unknown> = {
    "smtp.relay": "none",
    "smtp.outboundPort": remote.port,
    "smtp.allowNetworks": ["127.0.0.0/8"],
    "smtp.trustedResolvers": trusted,
  };
  const core = testCore();
  const options: Options = { ...core.options, get: (name) => values[name] as never };
  const stsPolicies = async () => policy;
  const tlsPolicies = {
    of: (domain: string) => findTlsPolicies({ ...core, options, runtime, now: runtime.now, log }, stsPolicies, domain),
    close() {},
  };
  const transport = createTransport({ runtime, hostname: "us.test", options, tlsPolicies, log });
  const content = Buffer.from("Subject: Hi\r\n\r\nText\r\n");
  const ended = () => ({
    ...{ secure: remote.messages.map((message) => message.secure), questions: server.questions, lines },
    servername: remote.messages[0]?.servername,
  });
  try {
    const connection = await transport.connect("example.net");
    const [result] = await connection.send({ reversePath: "", recipients: ["a@example.net"], content });
    return { result, ...ended() };
  } catch (error) {
    if (!(error instanceof DeliveryFailure)) throw error;
    return { result: error.result, ...ended() };
  } finally {
    transport.close();
    await server.close();
  }
}

const ofHost = async (...form: [number, number, number]) => record(...form, (await right).pair.cert);
const ofAuthority = async (...form: [number, number, number]) => record(...form, (await right).authority);
const NONSENSE: Tlsa = [3, 1, 1, Buffer.alloc(32, 1)];
const ACCEPTED = { result: { kind: "accepted" }, secure: [true] };
const DEFERRED = { result: { kind: "deferred", status: "4.7.5", hard: false }, secure: [] };

describe("a certificate that a record names", () => {
  test.each([
    [3, 0, 0],
    [3, 0, 1],
    [3, 0, 2],
    [3, 1, 0],
    [3, 1, 1],
    [3, 1, 2],
  ] as const)("gets the mail: %i %i %i", async (usage, selector, matchingType) => {
    const { servername, ...result } = await send({ tlsa: [await ofHost(usage, selector, matchingType)] });
    expect(result).toMatchObject(ACCEPTED);
    expect(servername).toBe(HOST);
  });

  test("may have any name and age, and one matching record among others is enough", async () => {
    for (const chain of ["otherName", "expired"] as const) {
      const tlsa = [NONSENSE, record(3, 1, 1, (await chains[chain]).pair.cert)];
      expect(await send({ chain, tlsa })).toMatchObject(ACCEPTED);
    }
  });

  test("is required: a host with another one gets no mail", async () => {
    const { result, secure } = await send({ tlsa: [NONSENSE] });
    expect({ result, secure }).toMatchObject(DEFERRED);
    expect(result?.reply).toBe(`${HOST} [127.0.0.1]: no TLS as DANE asks for it: no TLSA record is of its certificate`);
  });
});

describe("a trust anchor that a record names", () => {
  test.each([
    [2, 0, 0],
    [2, 0, 1],
    [2, 1, 1],
    [2, 1, 2],
  ] as const)("lets the mail go to a host that it vouches for: %i %i %i", async (usage, selector, matchingType) => {
    expect(await send({ tlsa: [await ofAuthority(usage, selector, matchingType)] })).toMatchObject(ACCEPTED);
  });

  test("may vouch for the domain instead of the host", async () => {
    const tlsa = [record(2, 0, 1, (await chains.ofDomain).authority)];
    expect(await send({ chain: "ofDomain", tlsa })).toMatchObject(ACCEPTED);
  });

  test.each(["otherName", "expired"] as const)("does not vouch for a host whose certificate is %s", async (chain) => {
    const tlsa = [record(2, 0, 1, (await chains[chain]).authority)];
    expect(await send({ chain, tlsa })).toMatchObject(DEFERRED);
  });

  test("vouches neither as the host's own certificate, nor for a chain of another anchor", async () => {
    expect(await send({ tlsa: [await ofHost(2, 0, 1)] })).toMatchObject(DEFERRED);
    expect(await send({ tlsa: [record(2, 0, 1, (await chains.otherName).authority)] })).toMatchObject(DEFERRED);
  });
});

describe("records", () => {
  test.each(["refused", "broken", false] as const)("make the mail wait when STARTTLS is %p", async (starttls) => {
    expect(await send({ tlsa: [await ofHost(3, 1, 1)], script: { starttls } })).toMatchObject(DEFERRED);
  });

  test("that cannot be used require TLS, with any certificate", async () => {
    const unusable: Tlsa[] = [
      await ofHost(1, 1, 1),
      await ofAuthority(0, 0, 1),
      [3, 1, 1, Buffer.alloc(31)],
      [3, 2, 1, Buffer.alloc(32)],
      [3, 1, 3, Buffer.alloc(32)],
    ];
    expect(await send({ chain: "otherName", tlsa: unusable })).toMatchObject(ACCEPTED);
    expect(await send({ tlsa: unusable, script: { starttls: false } })).toMatchObject(DEFERRED);
    // Only a usable record counts.
    expect(await send({ tlsa: [...unusable, NONSENSE] })).toMatchObject(DEFERRED);
  });

  const insecure = (name: string) => (records: Zone, at: string) => {
    const found = records[name === "tlsa" ? at : name];
    if (typeof found === "object") delete found.secure;
  };
  test.each(["example.net", HOST, "tlsa"])("do not count while those of %s are not authenticated", async (name) => {
    const given = { tlsa: [NONSENSE], change: insecure(name) };
    expect(await send(given)).toMatchObject(ACCEPTED);
    expect(await send({ ...given, script: { starttls: "broken" } })).toMatchObject({ secure: [false] });
  });

  test("do not count from an untrusted resolver, which is not even asked", async () => {
    for (const trusted of ["none", ["192.0.2.0/24"]] as const) {
      const { questions, ...result } = await send({ tlsa: [NONSENSE], trusted });
      expect(result).toMatchObject(ACCEPTED);
      expect(questions).toEqual([]);
    }
  });

  test("hold also when another resolver names another host", async () => {
    const forged = (records: Zone) => {
      records["evil.example"] = { a: ["127.0.0.1"], secure: true };
    };
    const given = { change: forged, forgedMx: "evil.example" };
    const { result, secure } = await send({ ...given, tlsa: [await ofHost(3, 1, 1)] });
    expect({ result, secure }).toMatchObject(DEFERRED);
    expect(result?.reply).toBe(
      "evil.example is not among the hosts that the authenticated MX records of example.net name",
    );
    // Without records, the other host gets the mail.
    expect(await send(given)).toMatchObject(ACCEPTED);
  });

  test("that may exist and cannot be read make the mail wait", async () => {
    const { result, secure } = await send({
      change: (records, at) => {
        records[at] = "SERVFAIL";
      },
    });
    expect({ result, secure }).toMatchObject(DEFERRED);
    expect(result?.reply).toMatch(/^DNS gave no answer for _\d+\._tcp\.mx1\.example\.net TLSA \(ESERVFAIL\)/);
  });

  test("that do not exist require nothing", async () => {
    expect(await send({ script: { starttls: "broken" } })).toMatchObject({ secure: [false] });
  });

  test("are those of the name that an alias leads to, else of the alias", async () => {
    const aliased = (records: Zone, at: string) => {
      records["real.example.net"] = records[HOST] as Records;
      records[HOST] = { cname: "real.example.net", secure: true };
      records[at.replace(HOST, "real.example.net")] = records[at] as Records;
      records[at] = { tlsa: [NONSENSE], secure: true };
    };
    const { servername, ...result } = await send({ tlsa: [await ofHost(3, 1, 1)], change: aliased });
    expect(result).toMatchObject(ACCEPTED);
    expect(servername).toBe("real.example.net");
    const ofAlias = (records: Zone) => {
      records["open.example.net"] = { ...(records[HOST] as Records) };
      delete (records["open.example.net"] as Records).secure;
      records[HOST] = { cname: "open.example.net", secure: true };
    };
    expect(await send({ tlsa: [NONSENSE], change: ofAlias })).toMatchObject(DEFERRED);
  });

  test("count for a domain that is its own mail host", async () => {
    const withoutMx = (records: Zone, at: string) => {
      records["example.net"] = { a: ["127.0.0.1"], secure: true };
      records[at.replace(HOST, "example.net")] = { tlsa: [NONSENSE], secure: true };
    };
    expect(await send({ change: withoutMx })).toMatchObject(DEFERRED);
  });
});

describe("beside MTA-STS", () => {
  const enforce: StsPolicy = { mode: "enforce", mx: ["other.example.net"], maxAgeSeconds: 86_400 };

  test("DANE goes first, whether it lets the mail go or not", async () => {
    expect(await send({ tlsa: [await ofHost(3, 1, 1)], policy: enforce })).toMatchObject(ACCEPTED);
    const policy: StsPolicy = { ...enforce, mx: [HOST] };
    expect(await send({ policy })).toMatchObject(ACCEPTED);
    expect(await send({ tlsa: [NONSENSE], policy })).toMatchObject(DEFERRED);
  });

  test("without records, the policy counts", async () => {
    expect(await send({ policy: enforce })).toMatchObject(DEFERRED);
  });
});

test("a chain with an unknown kind of key matches no record", () => {
  const [own, authority] = [ED25519_BY_ED448, ED448].map((pem) => new X509Certificate(pem));
  if (!own || !authority) throw new Error("there are two");
  const now = own.validFromDate.getTime() + 86_400_000;
  for (const [usage, selector] of [
    [2, 0],
    [2, 1],
    [3, 0],
  ] as const) {
    const records = [{ usage, selector, matchingType: 1, data: new Uint8Array(32) }];
    expect(findDaneChainProblem([own, authority], { records, names: ["mx.test"], now })).toBe(
      "no TLSA record is of its certificate",
    );
  }
  const records = [{ usage: 3, selector: 1, matchingType: 1, data: new Uint8Array(32) }];
  expect(findDaneChainProblem([authority], { records, names: ["ca"], now })).toBe(
    "no TLSA record is of its certificate",
  );
});

const ED448 = `-----BEGIN CERTIFICATE-----
MIIBezCB/KADAgECAhRnf5Mww8AZ614ZB0sb5C1sOnqMLjAFBgMrZXEwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTIxMjA1MDA1WhgPMjEyNjEwMjgyMDUwMDVaMA0xCzAJ
BgNVBAMMAmNhMEMwBQYDK2VxAzoAvG8olFrjGrLKfYl+XsPe2RX1/jZxtwjzYXxV
QLP1LxMGbPqjnawtza5x6A08yOhNPF9odBeolI8Ao1MwUTAdBgNVHQ4EFgQU23W9
MzwS4MbMgYRT/TcQzNMtyZIwHwYDVR0jBBgwFoAU23W9MzwS4MbMgYRT/TcQzNMt
yZIwDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXEDcwDAX2T+3QQHePVt+NRilmahloFf
7GsAc1DCvGO530brTkFx7k/pohMunOIR7CB7kGdnm5/1QQ1HJIA2jCTj/SsLE5f3
oKB8bl09apwDujCqwO1yFm/YBZRw5YW/h/84VEtOmXQI5CiYPTYGSAWFM+RbFAA=
-----END CERTIFICATE-----`;
const ED25519_BY_ED448 = `-----BEGIN CERTIFICATE-----
MIIBDTCBjgIUX99EGlACSeIJnd0PIf5EEQ8hMHQwBQYDK2VxMA0xCzAJBgNVBAMM
AmNhMCAXDTI2MTEyMTIwNTAwNVoYDzIxMjYxMDI4MjA1MDA1WjASMRAwDgYDVQQD
DAdteC50ZXN0MCowBQYDK2VwAyEAKjP45+wjYe6R4m/6PehPc9iSZ9SDensVRRqs
+FqfI8swBQYDK2VxA3MAiPrYXXs8C2jvDM/vRtECCvqVxdL7Qlhj+0eeu4/4O0OY
hEZ1YA1PybkngPzaerY3Sg4UDUHd05IAMyPdeFPF+LCf3eVgW7/0MbgUaur9gDXd
iGbuVsXtD4OXcO+vWRdlGPiyjmkNcycxDX0TXse5mzcA
-----END CERTIFICATE-----`;
