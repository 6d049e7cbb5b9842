/** Certificates with odd names, for clients that have to know whom they speak with: each takes those of the host, and no other. */
import { describe, expect, test } from "bun:test";
import { fetchStsPolicy } from "../../src/authentication/mta-sts.ts";
import { createLog } from "../../src/base/log.ts";
import { openHttpClient } from "../../src/net/http-client.ts";
import { openSmtpSession } from "../../src/smtp/client.ts";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { findImapAccountMessages } from "../../src/transfer/imap-account.ts";
import { makeChain, type Oddities } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { startImapServer } from "../harness/peers/imap-server.ts";
import { startRemoteMx } from "../harness/peers/remote-mx.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const HOST = "mta-sts.far.example";
const DAY_MS = 24 * 60 * 60_000;

/** Connects to a server with the pair, for `host`, and trusts the authority. Rejects where the certificate is refused. */
type Connect = (pair: KeyPair, authority: string, host: string) => Promise<unknown>;

function runtimeWith(authority: string) {
  return fakeRuntime({ dns: zone({ [HOST]: { a: ["127.0.0.1"] } }), authorities: [authority] });
}

const account = async (pair: KeyPair, authority: string, host: string, starttls: boolean): Promise<void> => {
  const { port } = await startImapServer({ pair, starttls });
  const request = {
    account: { host, port, user: "ada", password: "secret", implicitTls: !starttls },
    ...{ mostBytes: 1_000, isKnown: () => false, runtime: runtimeWith(authority) },
    log: { debug() {}, info() {}, warn() {}, error() {} } as never,
  };
  for await (const _ of findImapAccountMessages(request)) throw new Error("the folder is empty");
};

const clients: Record<string, Connect> = {
  "mail to a server that has to prove its name": async (pair, authority, host) => {
    const remote = await startRemoteMx({ starttls: true, pair });
    const runtime = runtimeWith(authority);
    const tls = { mode: "required", verify: true, plainIfBroken: false } as const;
    const target = { host, address: remote.host, port: remote.port, tls };
    const log = createLog("silent", runtime.now, () => {});
    (
      await openSmtpSession(target, { runtime, hostname: "us.test", log, signal: new AbortController().signal })
    ).close();
  },
  "a policy of MTA-STS": async (pair, authority, host) => {
    const headers = { "content-type": "text/plain" };
    const server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      tls: pair,
      fetch: () => new Response("x", { headers }),
    });
    const http = openHttpClient({ runtime: runtimeWith(authority), allow: () => ["127.0.0.0/8"] });
    try {
      await fetchStsPolicy(http, host.replace("mta-sts.", ""), server.port);
    } finally {
      http.close();
      await server.stop(true);
    }
  },
  "an account to import": (pair, authority, host) => account(pair, authority, host, false),
  "an account to import, over STARTTLS": (pair, authority, host) => account(pair, authority, host, true),
};

const named = (value: string, type: "dns" | "ip" | "url" = "dns"): Oddities => ({ names: [{ type, value }] });

/** Each with a subject that says something else. */
const OURS: [string, Oddities][] = [
  ["its name", named(HOST)],
  ["its name in capitals", named(HOST.toUpperCase())],
  ["a star for its first label", named("*.far.example")],
];
const OTHERS: [string, Oddities][] = [
  ["another name", named("other.example")],
  ["a star for two labels", named("*.example")],
  ["a star for all", named("*")],
  ["two stars", named("*.*.example")],
  ["a star inside", named("mta-sts.*.example")],
  ["its name before NUL", named(`${HOST}\0.other.example`)],
  ["its name behind a comma", named(`other.example, DNS:${HOST}`)],
  ["its name in a URL", named(`https://${HOST}/`, "url")],
  ["the address that it has", named("127.0.0.1", "ip")],
  ["its name, and no validity yet", { ...named(HOST), from: new Date(START + 3_000 * DAY_MS) }],
  ["its name, and a forged signature", { ...named(HOST), isForged: true }],
  ["its name, from nobody who may issue", { ...named(HOST), isOfNoAuthority: true }],
  ["its name, for clients", { ...named(HOST), isForClients: true }],
];

describe.each(Object.entries(clients))("%s", (_, connect) => {
  test.each(OURS)("takes a certificate with %s", async (_, oddities) => {
    const { pair, authority } = await makeChain("subject.example", undefined, oddities);
    await connect(pair, authority, HOST);
  });

  test.each(OTHERS)("refuses a certificate with %s", async (_, oddities) => {
    const { pair, authority } = await makeChain("subject.example", undefined, oddities);
    await expect(connect(pair, authority, HOST)).rejects.toThrow();
  });

  test("refuses one that has run out, and one of an authority that is not trusted", async () => {
    const late = await makeChain(HOST, new Date(START - 60_000));
    await expect(connect(late.pair, late.authority, HOST)).rejects.toThrow();
    const [right, other] = [await makeChain(HOST), await makeChain(HOST)];
    await expect(connect(right.pair, other.authority, HOST)).rejects.toThrow();
  });

  test("refuses its own name in the subject alone, where other names are given", async () => {
    const { pair, authority } = await makeChain(HOST, undefined, named("other.example"));
    await expect(connect(pair, authority, HOST)).rejects.toThrow();
  });
});

test.each(Object.entries(clients).filter(([name]) => !name.includes("MTA-STS")))(
  "%s: a host that is an address is proved by that address alone",
  async (_, connect) => {
    const { pair, authority } = await makeChain("subject.example", undefined, named("127.0.0.1", "ip"));
    await connect(pair, authority, "127.0.0.1");
    for (const oddities of [named("127.0.0.1"), named("127.0.0.2", "ip"), named("*")]) {
      const other = await makeChain("127.0.0.1", undefined, oddities);
      await expect(connect(other.pair, other.authority, "127.0.0.1")).rejects.toThrow();
    }
  },
);
