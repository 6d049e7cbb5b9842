/** Connections to MX hosts and to a smarthost: scripted remotes that listen on addresses of their own. */
import { describe, expect, test } from "bun:test";
import type { TlsPolicies } from "../../src/authentication/tls-policy.ts";
import { createLog } from "../../src/base/log.ts";
import { createTransport, readSmarthost } from "../../src/outbound/transport.ts";
import { DeliveryFailure, type DeliveryResult } from "../../src/smtp/delivery-result.ts";
import type { Options } from "../../src/store/settings.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import {
  gate,
  HANG_UP,
  OPPORTUNISTIC,
  type RemoteMx,
  type RemoteScript,
  startRemoteMx,
} from "../harness/peers/remote-mx.ts";
import { fakeRuntime } from "../harness/runtime.ts";

const LETTER = Buffer.from("Subject: Hi\r\n\r\nText\r\n");
const ACCEPTED = "accepted: 250 2.0.0 queued as 4711";

function createWay(
  description: Zone,
  {
    relay = "none",
    port = 25,
    allow = "none",
    tlsPolicies = OPPORTUNISTIC,
  }: { relay?: string; port?: number; allow?: "none" | string[]; tlsPolicies?: TlsPolicies } = {},
) {
  const runtime = fakeRuntime({ dns: zone(description) });
  const values: Record<string, unknown> = {
    "smtp.relay": relay,
    "smtp.outboundPort": port,
    "smtp.allowNetworks": allow,
  };
  const options = { get: (name: string) => values[name] } as Pick<Options, "get">;
  const lines: Record<string, unknown>[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line)));
  const transport = createTransport({ runtime, hostname: "us.test", options, tlsPolicies, log });
  return {
    transport,
    runtime,
    lines,
    description,
    set: (relay: string) => Object.assign(values, { "smtp.relay": relay }),
  };
}

/** Remotes on 127.0.0.1, .2, … and one port, which is another when a later address has it in use. */
async function startSideBySide(scripts: readonly RemoteScript[]): Promise<RemoteMx[]> {
  const remotes: RemoteMx[] = [];
  try {
    for (const [i, script] of scripts.entries()) {
      const port = remotes[0]?.port ?? 0;
      remotes.push(await startRemoteMx({ ...script, host: `127.0.0.${i + 1}`, port }));
    }
    return remotes;
  } catch (error) {
    await Promise.all(remotes.map((remote) => remote.close()));
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return startSideBySide(scripts);
  }
}

/** Remotes as MX hosts mx1, mx2, … of example.net, in that order. */
async function createNet(...scripts: RemoteScript[]) {
  const remotes = await startSideBySide(scripts);
  const description: Zone = {
    "example.net": { mx: remotes.map((_, i) => [10 * (i + 1), `mx${i + 1}.example.net`]) },
    ...Object.fromEntries(remotes.map(({ host }, i) => [`mx${i + 1}.example.net`, { a: [host] }])),
  };
  return { remotes, ...createWay(description, { port: remotes[0]?.port ?? 25, allow: ["127.0.0.0/8"] }) };
}

async function failureOf(attempt: Promise<unknown>): Promise<DeliveryResult> {
  const thrown = await attempt.then(
    () => new Error("there is a connection"),
    (error: unknown) => error,
  );
  if (thrown instanceof DeliveryFailure) return thrown.result;
  throw thrown;
}

const letterTo = (...recipients: string[]) => ({ reversePath: "bounce+1@us.test", recipients, content: LETTER });
const told = (results: DeliveryResult[]) => results.map(({ kind, reply }) => `${kind}: ${reply}`);

describe("ending one connection", () => {
  const REASON = "others wait";
  const DEFERRED = { kind: "deferred", reply: REASON };

  test.each(["hosts", "TLS policy"])("while DNS does not tell the %s of a domain", async (what) => {
    const unanswered = () => new Promise<never>(() => {});
    const tlsPolicies = what === "TLS policy" ? { of: unanswered, close: () => {} } : OPPORTUNISTIC;
    const { transport, runtime } = createWay({ "example.net": { a: ["127.0.0.1"] } }, { tlsPolicies });
    if (tlsPolicies === OPPORTUNISTIC) runtime.dns = zone({}, { hold: unanswered });
    const ending = new AbortController();
    const failure = failureOf(transport.connect("example.net", ending.signal));
    ending.abort(REASON);
    expect(await failure).toMatchObject(DEFERRED);
    expect(await failureOf(transport.connect("example.net", ending.signal))).toMatchObject(DEFERRED);
  });

  test("while a host has not greeted: no other host is tried", async () => {
    const silence = gate();
    const { transport, remotes } = await createNet({ greeting: silence.wait }, {});
    const ending = new AbortController();
    const failure = failureOf(transport.connect("example.net", ending.signal));
    await silence.reached;
    ending.abort(REASON);
    expect(await failure).toMatchObject(DEFERRED);
    await remotes[0]?.idle();
    expect(remotes[1]?.connections).toBe(0);
  });

  test.each(["mail", "rcpt", "data"] as const)("while it waits for the reply to %s", async (command) => {
    const silence = gate();
    const { transport, remotes } = await createNet({ [command]: silence.wait });
    const ending = new AbortController();
    const connection = await transport.connect("example.net", ending.signal);
    const sending = connection.send(letterTo("a@example.net"));
    await silence.reached;
    expect(connection.isTransmitting()).toBe(false);
    ending.abort(REASON);
    expect(told(await sending)).toEqual([`deferred: mx1.example.net [${remotes[0]?.host}]: ${REASON}`]);
    await remotes[0]?.idle();
  });

  test("a connection is transmitting from the first byte of a message to its reply, and not before the next message", async () => {
    const [first, second] = [gate(), gate()];
    const { transport } = await createNet({
      end: ({ address }) => (address === "a@example.net" ? first.wait() : undefined),
      mail: ({ attempt }) => (attempt === 2 ? second.wait() : undefined),
    });
    const connection = await transport.connect("example.net");
    const sending = connection.send(letterTo("a@example.net"));
    await first.reached;
    expect(connection.isTransmitting()).toBe(true);
    first.release();
    expect(told(await sending)).toEqual([ACCEPTED]);
    const next = connection.send(letterTo("b@example.net"));
    await second.reached;
    expect(connection.isTransmitting()).toBe(false);
    second.release();
    expect(told(await next)).toEqual([ACCEPTED]);
  });

  test("leaves the others alone", async () => {
    const silence = gate();
    const { transport } = await createNet({ mail: ({ attempt }) => (attempt === 1 ? silence.wait() : undefined) });
    const ending = new AbortController();
    const ended = await transport.connect("example.net", ending.signal);
    const other = await transport.connect("example.net", new AbortController().signal);
    const failing = ended.send(letterTo("a@example.net"));
    await silence.reached;
    ending.abort(REASON);
    await failing;
    expect(told(await other.send(letterTo("b@example.net")))).toEqual([ACCEPTED]);
  });
});

describe("to MX hosts", () => {
  test("the most preferred one gets the mail", async () => {
    const { transport, remotes } = await createNet({}, {});
    expect(transport.groupsByMessage()).toBe(false);
    const connection = await transport.connect("example.net");
    expect(connection.remote).toBe("mx1.example.net");
    expect(await connection.send(letterTo("a@example.net"))).toMatchObject([
      { kind: "accepted", remote: "mx1.example.net" },
    ]);
    expect(connection.usable()).toBe(true);
    connection.close();
    await remotes[0]?.idle();
    expect(remotes.map(({ connections }) => connections)).toEqual([1, 0]);
  });

  test.each([
    ["greets with 5yz", { greeting: "554 5.7.1 no" }],
    ["greets with 4yz", { greeting: "421 4.3.2 busy" }],
    ["refuses EHLO", { ehlo: "550 5.7.1 no" }],
    ["hangs up", { greeting: HANG_UP }],
  ])("one that %s is skipped", async (_what, script) => {
    const { transport, remotes } = await createNet(script, {});
    const connection = await transport.connect("example.net");
    expect(connection.remote).toBe("mx2.example.net");
    expect(told(await connection.send(letterTo("a@example.net")))).toEqual([ACCEPTED]);
    expect(remotes[1]?.messages).toHaveLength(1);
  });

  test("one that does not listen, has no address or cannot be looked up is skipped", async () => {
    const { transport, remotes, description } = await createNet({}, {});
    await remotes[0]?.close();
    Object.assign(description, {
      "example.net": {
        mx: [
          [1, "none.example.net"],
          [2, "broken.example.net"],
          [3, "mx1.example.net"],
          [4, "mx2.example.net"],
        ],
      },
      "none.example.net": { txt: ["nothing"] },
      "broken.example.net": "SERVFAIL",
    });
    expect((await transport.connect("example.net")).remote).toBe("mx2.example.net");
  });

  test("one that does not reply is skipped", async () => {
    const silence = gate();
    const { transport, runtime } = await createNet({ greeting: silence.wait }, {});
    const connecting = transport.connect("example.net");
    await silence.reached;
    runtime.advanceTo(runtime.now() + 5 * 60_000);
    expect((await connecting).remote).toBe("mx2.example.net");
  });

  test("all addresses of a host come before the next host", async () => {
    const { transport, remotes, description } = await createNet({}, {}, {});
    await remotes[0]?.close();
    Object.assign(description, { "mx1.example.net": { a: ["127.0.0.1", "127.0.0.3"] } });
    const connection = await transport.connect("example.net");
    await connection.send(letterTo("a@example.net"));
    expect(connection.remote).toBe("mx1.example.net");
    expect(remotes.map(({ connections }) => connections)).toEqual([0, 0, 1]);
  });

  test("a refusal holds for all addresses of its host", async () => {
    const { transport, remotes, description } = await createNet({ greeting: "554 5.7.1 no" }, {}, {});
    Object.assign(description, { "mx1.example.net": { a: ["127.0.0.1", "127.0.0.3"] } });
    expect((await transport.connect("example.net")).remote).toBe("mx2.example.net");
    expect(remotes[2]?.connections).toBe(0);
  });

  test("a refusal by all of them is final, and not the address's fault", async () => {
    const { transport } = await createNet({ greeting: "554 5.7.1 not you" }, { greeting: "550 5.1.1 nor here" });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({
      kind: "refused",
      hard: false,
      code: 550,
      remote: "mx2.example.net",
    });
  });

  test.each([
    ["4yz", { greeting: "421 4.3.2 busy" }, "421 4.3.2 busy"],
    ["silence", { greeting: HANG_UP }, "mx2.example.net [127.0.0.2]: "],
  ])("a refusal by one and %s of another is temporary", async (_what, script, reply) => {
    const { transport } = await createNet({ greeting: "554 5.7.1 not you" }, script);
    const result = await failureOf(transport.connect("example.net"));
    expect(result).toMatchObject({ kind: "deferred", hard: false });
    expect(result.reply).toStartWith(reply);
  });

  test("when none has an address, the failure is final", async () => {
    const { transport } = createWay({ "example.net": { mx: [[10, "gone.example.net"]] } });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({
      kind: "refused",
      hard: false,
      status: "5.4.4",
    });
  });

  test("a failure in DNS is final or temporary, and no host is connected to", async () => {
    const { transport } = createWay({ "null.test": { mx: [[0, ""]] }, "broken.test": "SERVFAIL" });
    expect(await failureOf(transport.connect("gone.test"))).toMatchObject({
      kind: "refused",
      hard: true,
      status: "5.1.2",
    });
    expect(await failureOf(transport.connect("null.test"))).toMatchObject({
      kind: "refused",
      hard: true,
      status: "5.1.10",
    });
    expect(await failureOf(transport.connect("broken.test"))).toMatchObject({ kind: "deferred", hard: false });
  });

  test("eight addresses are tried, each once, and the failure is then temporary", async () => {
    const scripts = Array.from({ length: 9 }, () => ({ greeting: "554 5.7.1 not you" }));
    const { transport, remotes, description } = await createNet(...scripts);
    Object.assign(description, { "mx2.example.net": { a: ["127.0.0.1", "127.0.0.2"] } });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred", status: "4.7.1" });
    expect(remotes.map(({ connections }) => connections)).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 0]);
  });

  test.each([
    ["SERVFAIL", "ESERVFAIL"],
    [{ txt: ["nothing"] }, "has an address"],
  ])("at most sixteen hosts are looked up: %j is then temporary", async (records, said) => {
    const { transport, description } = await createNet({});
    const names = Array.from({ length: 40 }, (_, i) => `nowhere${i}.example.net`);
    const asked: string[] = [];
    Object.assign(description, { "example.net": { mx: names.map((name, i) => [i, name]) } });
    for (const name of names) {
      Object.defineProperty(description, name, {
        get() {
          asked.push(name);
          return records;
        },
      });
    }
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({
      kind: "deferred",
      reply: expect.stringContaining(said),
    });
    expect([...new Set(asked)]).toEqual(names.slice(0, 16));
  });

  test("TLS is used without verification, and given up where it is broken", async () => {
    for (const starttls of [true, "broken"] as const) {
      const { transport, remotes } = await createNet({ starttls });
      const connection = await transport.connect("example.net");
      await connection.send(letterTo("a@example.net"));
      expect(remotes[0]?.messages).toMatchObject([{ secure: starttls === true }]);
    }
  });
});

describe("a reused connection", () => {
  test("that is found closed is opened anew, without losing an attempt", async () => {
    const { transport, remotes } = await createNet({
      mail: ({ attempt }) => (attempt === 2 ? "421 4.7.0 one message a connection" : undefined),
    });
    const connection = await transport.connect("example.net");
    for (const name of ["a", "b"]) {
      expect(told(await connection.send(letterTo(`${name}@example.net`)))).toEqual([ACCEPTED]);
    }
    expect(remotes[0]?.messages).toMatchObject([{ connection: 1 }, { connection: 2 }]);
    expect(connection.usable()).toBe(true);
  });

  test("may lead to another host then", async () => {
    const { transport, remotes } = await createNet({}, {});
    const connection = await transport.connect("example.net");
    await connection.send(letterTo("a@example.net"));
    await remotes[0]?.close();
    expect(await connection.send(letterTo("b@example.net"))).toMatchObject([
      { kind: "accepted", remote: "mx2.example.net" },
    ]);
    expect(connection.remote).toBe("mx2.example.net");
  });

  test("is deferred when no host can be reached any more", async () => {
    const { transport, remotes } = await createNet({});
    const connection = await transport.connect("example.net");
    await connection.send(letterTo("a@example.net"));
    await remotes[0]?.close();
    const results = await connection.send(letterTo("b@example.net", "c@example.net"));
    expect(results).toMatchObject([1, 2].map(() => ({ kind: "deferred", status: "4.4.1" })));
    expect(connection.usable()).toBe(false);
  });

  test("is not repeated once the message has been sent", async () => {
    const { transport, remotes } = await createNet({ end: ({ attempt }) => (attempt === 2 ? HANG_UP : undefined) });
    const connection = await transport.connect("example.net");
    await connection.send(letterTo("a@example.net"));
    expect(await connection.send(letterTo("a@example.net"))).toMatchObject([{ kind: "deferred", status: "4.4.2" }]);
    expect(remotes[0]?.connections).toBe(1);
  });

  test("unlike a new one, is opened anew: a new one defers at once", async () => {
    const { transport, remotes } = await createNet({ mail: "421 4.3.2 busy" });
    const connection = await transport.connect("example.net");
    expect(told(await connection.send(letterTo("a@example.net")))).toEqual(["deferred: 421 4.3.2 busy"]);
    expect(remotes[0]?.connections).toBe(1);
  });
});

test("closing ends connections and attempts, and prevents new ones", async () => {
  const silence = gate();
  const { transport, remotes } = await createNet({ end: silence.wait });
  const connection = await transport.connect("example.net");
  const sending = connection.send(letterTo("a@example.net"));
  await silence.reached;
  transport.close();
  expect(await sending).toMatchObject([{ kind: "deferred" }]);
  expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred" });
  await remotes[0]?.idle();
  expect(remotes[0]?.connections).toBe(1);
});

describe("the setting smtp.relay", () => {
  const REQUIRED = { mode: "required", verify: true, plainIfBroken: false };
  const IMPLICIT = { mode: "implicit", verify: true, plainIfBroken: false };
  const OPPORTUNISTIC = { mode: "opportunistic", verify: false, plainIfBroken: true };
  const LOCAL_WITH_CREDENTIALS = { mode: "opportunistic", verify: false, plainIfBroken: false };

  test.each([
    ["smtp://relay.test", "relay.test", 25, undefined, OPPORTUNISTIC],
    ["smtps://relay.test.", "relay.test", 465, undefined, IMPLICIT],
    ["smtp://relay.test:2525/", "relay.test", 2525, undefined, OPPORTUNISTIC],
    ["smtp://user:pass@relay.test", "relay.test", 587, { user: "user", pass: "pass" }, REQUIRED],
    ["smtps://user:pass@relay.test", "relay.test", 465, { user: "user", pass: "pass" }, IMPLICIT],
    ["smtps://relay.test:8465", "relay.test", 8465, undefined, IMPLICIT],
    ["smtp://u%40us.test:p%3A%2F%C3%A9@relay.test:25", "relay.test", 25, { user: "u@us.test", pass: "p:/é" }, REQUIRED],
    ["smtp://user:100%@relay.test", "relay.test", 587, { user: "user", pass: "100%" }, REQUIRED],
    ["smtp://user:pass@127.0.0.1:2525", "127.0.0.1", 2525, { user: "user", pass: "pass" }, LOCAL_WITH_CREDENTIALS],
    ["smtp://user:pass@localhost:2525", "localhost", 2525, { user: "user", pass: "pass" }, LOCAL_WITH_CREDENTIALS],
    ["smtp://user:pass@[::1]:2525", "::1", 2525, { user: "user", pass: "pass" }, LOCAL_WITH_CREDENTIALS],
    ["smtps://user:pass@127.0.0.1", "127.0.0.1", 465, { user: "user", pass: "pass" }, { ...IMPLICIT, verify: false }],
    ["smtp://user:pass@127.0.0.1.test", "127.0.0.1.test", 587, { user: "user", pass: "pass" }, REQUIRED],
    ["smtp://[2001:db8::1]", "2001:db8::1", 25, undefined, OPPORTUNISTIC],
    ["smtp://Relay.Müller.test", "relay.xn--mller-kva.test", 25, undefined, OPPORTUNISTIC],
  ])("%s", (setting, host, port, credentials, tls) => {
    expect(readSmarthost(setting)).toEqual({ host, port, credentials, tls } as never);
  });
});

describe("to private addresses, which strangers name", () => {
  const at = (a: string[], aaaa?: string[]): Zone => ({
    "example.net": { mx: [[10, "mx.example.net"]] },
    "mx.example.net": { a, ...(aaaa && { aaaa }) },
  });
  const LEADS = "mx.example.net leads to";
  test.each<[what: string, zone: Zone, fault: string]>([
    ["loopback", at(["127.0.0.1"]), `${LEADS} a loopback address`],
    ["a private network", at(["10.0.0.1"]), `${LEADS} a private address`],
    ["a link", at(["169.254.1.1"]), `${LEADS} a link-local address`],
    ["a metadata service", at(["169.254.169.254"]), `${LEADS} a cloud metadata service`],
    ["a carrier's NAT", at(["100.64.0.1"]), `${LEADS} a shared address behind a carrier's NAT`],
    ["this host by zeros", at(["0.0.0.0"]), `${LEADS} the unspecified address`],
    ["this network", at(["0.1.2.3"]), `${LEADS} a reserved address`],
    ["multicast", at(["224.0.0.1"]), `${LEADS} a multicast address`],
    ["loopback over IPv6", at([], ["::1"]), `${LEADS} a loopback address`],
    ["a mapped address", at([], ["::ffff:127.0.0.1"]), `${LEADS} a loopback address`],
    ["a unique-local address", at([], ["fd12::1"]), `${LEADS} a unique-local address`],
    ["an address behind NAT64", at([], ["64:ff9b::7f00:1"]), `${LEADS} a loopback address`],
    ["an MX that is an address", { "example.net": { mx: [[10, "127.0.0.1"]] } }, "127.0.0.1 is a loopback address"],
    ["localhost", { "example.net": { mx: [[10, "localhost"]] } }, "localhost leads to a loopback address"],
    ["a domain without MX", { "example.net": { a: ["127.0.0.1"] } }, "example.net leads to a loopback address"],
  ])("%s: a temporary failure that names the setting, without a connection", async (_what, description, fault) => {
    const remote = await startRemoteMx();
    const { transport } = createWay(description, { port: remote.port });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({
      kind: "deferred",
      hard: false,
      status: "4.4.4",
      reply: `${fault}, which smtp.allowNetworks does not list`,
    });
    expect(remote.connections).toBe(0);
  });

  test("the others of its addresses and hosts are tried, and the listed ones", async () => {
    const { remotes, description } = await createNet({}, {});
    Object.assign(description, { "mx1.example.net": { a: ["127.0.0.1", "10.0.0.1"] } });
    const { transport } = createWay(description, { port: remotes[0]?.port ?? 25, allow: ["127.0.0.2/32"] });
    expect((await transport.connect("example.net")).remote).toBe("mx2.example.net");
    expect(remotes.map(({ connections }) => connections)).toEqual([0, 1]);
  });

  test("a metadata service cannot be listed", async () => {
    const { transport } = createWay(at(["169.254.169.254"]), { allow: ["0.0.0.0/0"] });
    expect((await failureOf(transport.connect("example.net"))).reply).toContain("a cloud metadata service");
  });

  test("a name that changes between two questions is connected to where it was checked", async () => {
    const { remotes, description, transport } = await createNet({}, {});
    const answers = [["127.0.0.2"], ["127.0.0.1"]];
    description["mx1.example.net"] = {
      get a() {
        return answers.shift() ?? [];
      },
    };
    await transport.connect("example.net");
    expect(remotes.map(({ connections }) => connections)).toEqual([0, 1]);
  });
});

describe("through a smarthost", () => {
  const auth = { user: "us", pass: "right" };
  const MINUTE = 60_000;

  async function createSmarthost(script: RemoteScript, { user = "us", pass = "right" } = {}) {
    const remote = await startRemoteMx(script);
    const relay = (password: string) => `smtp://${user}:${password}@127.0.0.1:${remote.port}`;
    const way = createWay({}, { relay: script.auth ? relay(pass) : `smtp://127.0.0.1:${remote.port}` });
    return { remote, relay, ...way };
  }

  test("one connection takes the mail for all domains, and asks no DNS about them", async () => {
    const { transport, remote } = await createSmarthost({ auth });
    expect(transport.groupsByMessage()).toBe(true);
    const connection = await transport.connect("example.net");
    expect(told(await connection.send(letterTo("a@example.net", "b@elsewhere.test")))).toEqual([ACCEPTED, ACCEPTED]);
    expect(remote.messages).toMatchObject([{ to: ["a@example.net", "b@elsewhere.test"] }]);
    expect(await transport.refusal()).toBeUndefined();
    expect(remote.connections).toBe(1);
  });

  test("without credentials there is no refusal", async () => {
    const { transport, remote } = await createSmarthost({});
    expect(await transport.refusal()).toBeUndefined();
    expect(remote.connections).toBe(0);
    expect(told(await (await transport.connect("example.net")).send(letterTo("a@example.net")))).toEqual([ACCEPTED]);
  });

  test("its name is looked up as a host, not as a domain with MX records", async () => {
    const { remote } = await createSmarthost({});
    const { transport } = createWay(
      { "relay.test": { mx: [[10, "elsewhere.test"]], a: [remote.host] } },
      { relay: `smtp://relay.test:${remote.port}` },
    );
    expect((await transport.connect("example.net")).remote).toBe("relay.test");
  });

  test("wrong credentials are found out before mail is accepted, and remembered for a minute", async () => {
    const { transport, remote, runtime, lines } = await createSmarthost({ auth }, { pass: "wrong" });
    expect(await transport.refusal()).toBe("535 5.7.8 credentials are invalid");
    expect(await transport.refusal()).toBe("535 5.7.8 credentials are invalid");
    expect(remote.connections).toBe(1);
    remote.script({ auth: { user: "us", pass: "wrong" } });
    runtime.advanceTo(runtime.now() + MINUTE);
    expect(await transport.refusal()).toBeUndefined();
    expect(remote.connections).toBe(2);
    expect(JSON.stringify(lines)).not.toMatch(/wrong|right/);
  });

  test("its reply is forgotten when the clock is set back", async () => {
    const { transport, remote, runtime } = await createSmarthost({ auth }, { pass: "wrong" });
    expect(await transport.refusal()).toBeDefined();
    remote.script({ auth: { user: "us", pass: "wrong" } });
    runtime.advanceTo(runtime.now() - MINUTE);
    expect(await transport.refusal()).toBeUndefined();
  });

  test("concurrent checks ask the smarthost once", async () => {
    const { transport, remote } = await createSmarthost({ auth }, { pass: "wrong" });
    const refusals = await Promise.all([1, 2, 3].map(() => transport.refusal()));
    expect(refusals).toEqual([1, 2, 3].map(() => "535 5.7.8 credentials are invalid"));
    expect(remote.connections).toBe(1);
  });

  test("a changed setting forgets the reply of the smarthost before", async () => {
    const { transport, set, relay } = await createSmarthost({ auth }, { pass: "wrong" });
    expect(await transport.refusal()).toBeDefined();
    set(relay("right"));
    expect(await transport.refusal()).toBeUndefined();
    set(relay("wrong"));
    expect(await transport.refusal()).toBeDefined();
    set("none");
    expect(await transport.refusal()).toBeUndefined();
    expect(transport.groupsByMessage()).toBe(false);
  });

  test("a changed setting retires the connections to the smarthost before", async () => {
    const { transport, set } = await createSmarthost({ auth });
    const connection = await transport.connect("example.net");
    expect(connection.usable()).toBe(true);
    set("none");
    expect(connection.usable()).toBe(false);
  });

  test("credentials refused to the queue defer, and are known from then on", async () => {
    const { transport, remote } = await createSmarthost({ auth }, { pass: "wrong" });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({
      kind: "deferred",
      hard: false,
      reply: "535 5.7.8 credentials are invalid",
    });
    expect(await transport.refusal()).toBe("535 5.7.8 credentials are invalid");
    expect(remote.connections).toBe(1);
  });

  test.each([
    ["does not want us at all", { auth, greeting: "554 5.7.1 not you" }],
    ["is busy", { auth, greeting: "421 4.3.2 busy" }],
    ["hangs up", { auth, greeting: HANG_UP }],
  ] as [string, RemoteScript][])("one that %s defers and refuses no credentials", async (_what, script) => {
    const { transport, remote } = await createSmarthost(script);
    expect(await transport.refusal()).toBeUndefined();
    expect(await transport.refusal()).toBeUndefined();
    expect(remote.connections).toBe(1);
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred", hard: false });
  });

  test("one that does not reply holds up sending for seconds only", async () => {
    const silence = gate();
    const { transport, runtime, remote } = await createSmarthost({ auth, greeting: silence.wait });
    const first = transport.refusal();
    await silence.reached;
    runtime.advanceTo(runtime.now() + 10_000);
    expect(await first).toBeUndefined();
    transport.close();
    await remote.idle();
  });

  test("credentials are not sent to another machine without TLS", async () => {
    const remote = await startRemoteMx({ auth });
    const { transport } = createWay(
      { "relay.test": { a: [remote.host] } },
      { relay: `smtp://us:right@relay.test:${remote.port}` },
    );
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred", status: "4.7.5" });
    expect(await transport.refusal()).toBeUndefined();
    expect(remote.commands.filter((line) => /^(AUTH|MAIL)/.test(line))).toEqual([]);
  });

  test("credentials are not sent to a host with another's certificate", async () => {
    const remote = await startRemoteMx({ auth, starttls: true });
    const { transport } = createWay(
      { "relay.test": { a: [remote.host] } },
      { relay: `smtp://us:right@relay.test:${remote.port}` },
    );
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred", status: "4.7.5" });
    expect(remote.commands.filter((line) => /^(AUTH|MAIL)/.test(line))).toEqual([]);
  });

  test.each([{ starttls: true }, { implicitTls: true }])(
    "on this machine a self-signed certificate will do: %j",
    async (script) => {
      const remote = await startRemoteMx({ auth, ...script });
      const scheme = script.implicitTls ? "smtps" : "smtp";
      const { transport } = createWay({}, { relay: `${scheme}://us:right@127.0.0.1:${remote.port}` });
      await (await transport.connect("example.net")).send(letterTo("a@example.net"));
      expect(remote.messages).toMatchObject([{ secure: true }]);
    },
  );

  test("with credentials, mail waits when this machine offers TLS that is broken", async () => {
    const { transport, remote } = await createSmarthost({ auth, starttls: "broken" });
    expect(await failureOf(transport.connect("example.net"))).toMatchObject({ kind: "deferred", status: "4.7.5" });
    expect(remote.connections).toBe(1);
  });
});
