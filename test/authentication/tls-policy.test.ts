/** The TLS that a domain asks for, on the wire: remotes with valid and invalid certificates. */
import { describe, expect, test } from "bun:test";
import type { StsPolicy } from "../../src/authentication/mta-sts.ts";
import { findTlsPolicies } from "../../src/authentication/tls-policy.ts";
import { createTransport } from "../../src/outbound/transport.ts";
import { DeliveryFailure } from "../../src/smtp/delivery-result.ts";
import type { Options } from "../../src/store/settings.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import { makePair, type RemoteMx, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";
import { testLog } from "../harness/servers/mx-rig.ts";

/** Key pairs of trusted hosts; the default pair of remotes is not trusted. */
const trusted = Promise.all(["mx1.example.net", "mx2.example.net"].map(makePair));

async function send(policy: StsPolicy | undefined, ...scripts: (RemoteScript & { isTrusted?: boolean })[]) {
  const pairs = await trusted;
  const remotes: RemoteMx[] = [];
  for (const [i, { isTrusted, ...script }] of scripts.entries()) {
    const pair = isTrusted ? pairs[i] : undefined;
    const place = { host: `127.0.0.${i + 1}`, port: remotes[0]?.port ?? 0 };
    remotes.push(await startRemoteMx({ ...script, ...place, ...(pair && { pair }) }));
  }
  const description: Zone = {
    "example.net": { mx: remotes.map((_, i) => [10 * (i + 1), `MX${i + 1}.example.net.`]) },
    ...Object.fromEntries(remotes.map(({ host }, i) => [`mx${i + 1}.example.net`, { a: [host] }])),
  };
  const runtime = fakeRuntime({ dns: zone(description), authorities: pairs.map(({ cert }) => cert) });
  const { log, lines } = testLog(runtime);
  const values: Record<string, unknown> = {
    "smtp.relay": "none",
    "smtp.outboundPort": remotes[0]?.port,
    "smtp.allowNetworks": ["127.0.0.0/8"],
    "smtp.trustedResolvers": "none",
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
  const warnings = () => lines.filter(({ level }) => level === "warn");
  try {
    const connection = await transport.connect("example.net");
    const [result] = await connection.send({ reversePath: "", recipients: ["a@example.net"], content });
    const secure = remotes.flatMap(({ messages }) => messages).map((message) => message.secure);
    return { result, remote: connection.remote, secure, warnings: warnings() };
  } catch (error) {
    if (!(error instanceof DeliveryFailure)) throw error;
    return { result: error.result, remote: undefined, secure: [], warnings: warnings() };
  } finally {
    transport.close();
  }
}

const policyOf = (mode: StsPolicy["mode"], ...mx: string[]): StsPolicy => ({ mode, mx, maxAgeSeconds: 86_400 });
const VALID = { starttls: true, isTrusted: true } as const;

describe("MTA-STS, enforced", () => {
  test("a host that it names gets the mail with a valid certificate", async () => {
    const { result, secure, warnings } = await send(policyOf("enforce", "mx1.example.net"), VALID);
    expect(result).toMatchObject({ kind: "accepted" });
    expect([secure, warnings]).toEqual([[true], []]);
  });

  test.each([
    ["a certificate that nobody vouches for", { starttls: true }],
    ["no TLS at all", { starttls: false }],
    ["TLS that is refused", { starttls: "refused", isTrusted: true }],
    ["TLS that is broken", { starttls: "broken", isTrusted: true }],
  ] as const)("%s defers it, with the reason", async (_, script) => {
    const { result, secure } = await send(policyOf("enforce", "mx1.example.net"), script);
    expect(result).toMatchObject({ kind: "deferred", status: "4.7.5", hard: false });
    expect(result?.reply).toStartWith("mx1.example.net [127.0.0.1]: no TLS as MTA-STS asks for it: ");
    expect(secure).toEqual([]);
  });

  test("a host with a certificate for another name gets no mail, which waits", async () => {
    const pair = (await trusted)[1];
    const { result } = await send(policyOf("enforce", "*.example.net"), { starttls: true, ...(pair && { pair }) });
    expect(result).toMatchObject({ kind: "deferred", status: "4.7.5" });
  });

  test("a host that it does not name is skipped, and when there is no other, the mail waits", async () => {
    const policy = policyOf("enforce", "mx2.example.net");
    expect(await send(policy, VALID, VALID)).toMatchObject({ remote: "mx2.example.net", secure: [true] });
    const { result } = await send(policy, VALID);
    expect(result).toMatchObject({
      kind: "deferred",
      status: "4.7.5",
      reply: "mx1.example.net is not among the hosts that the MTA-STS policy of example.net names",
    });
  });
});

describe("MTA-STS, testing", () => {
  test("a failure is logged, and the mail goes as without a policy", async () => {
    const untrusted = await send(policyOf("testing", "mx1.example.net"), { starttls: true });
    expect(untrusted).toMatchObject({ result: { kind: "accepted" }, secure: [true] });
    expect(untrusted.warnings).toMatchObject([{ remote: "mx1.example.net", askedBy: "MTA-STS" }]);
    const plain = await send(policyOf("testing", "mx1.example.net"), { starttls: false });
    expect([plain.secure, plain.warnings.length]).toEqual([[false], 1]);
    const unnamed = await send(policyOf("testing", "other.example.net"), VALID);
    expect([unnamed.secure, unnamed.warnings.length]).toEqual([[true], 1]);
  });

  test("success is not logged", async () => {
    expect(await send(policyOf("testing", "*.example.net"), VALID)).toMatchObject({ secure: [true], warnings: [] });
  });
});

test.each([["none", policyOf("none")] as const, ["no policy", undefined] as const])(
  "%s requires nothing",
  async (_, policy) => {
    expect(await send(policy, { starttls: true })).toMatchObject({ secure: [true], warnings: [] });
    expect(await send(policy, { starttls: "broken" })).toMatchObject({ secure: [false], warnings: [] });
  },
);
