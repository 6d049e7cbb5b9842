/** The queue on the wire: relay, transport and outcomes together, with mail servers on real sockets. */
import { expect, test } from "bun:test";
import { createMemoryRoom } from "../../src/base/memory.ts";
import { createScheduler } from "../../src/base/scheduler.ts";
import { createRelay } from "../../src/outbound/relay.ts";
import { createTransport } from "../../src/outbound/transport.ts";
import { domains, events, workspaces } from "../../src/store/schema.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";
import {
  deliverTo,
  gate,
  OPPORTUNISTIC,
  type RemoteMx,
  type RemoteScript,
  startRemoteMx,
} from "../harness/peers/remote-mx.ts";
import { START } from "../harness/runtime.ts";
import { sendCore, testCore } from "../harness/servers/core.ts";
import { until } from "../harness/until.ts";
import { createQueue } from "./queue-rig.ts";

/** The MX of each domain named, on an address of its own, and a queue before them. */
async function createNet(scripts: Record<string, RemoteScript>) {
  const remotes = new Map<string, RemoteMx>();
  const description: Zone = {};
  for (const [i, [domain, script]] of Object.entries(scripts).entries()) {
    const port = [...remotes.values()][0]?.port ?? 0;
    const remote = await startRemoteMx({ ...script, host: `127.0.0.${i + 1}`, port });
    remotes.set(domain, remote);
    description[domain] = { mx: [[10, `mx.${domain}`]] };
    description[`mx.${domain}`] = { a: [remote.host] };
  }
  const given = sendCore(testCore({ dns: zone(description) }));
  const { store, runtime, options, log, lines } = given;
  const queue = createQueue(runtime, store);
  store.db.insert(workspaces).values({ id: "wsp_1", name: "One", createdAt: START }).run();
  const ours = { id: "dom_1", workspaceId: "wsp_1", name: "example.test", ownershipToken: "" };
  store.db
    .insert(domains)
    .values({ ...ours, verifiedAt: START, createdAt: START })
    .run();
  deliverTo({ port: [...remotes.values()][0]?.port }, { store, options });
  const scheduler = createScheduler(runtime, log);
  const hostname = "us.test";
  const core = {
    ...given,
    transport: createTransport({ runtime, hostname, options, tlsPolicies: OPPORTUNISTIC, log }),
    wake: (job: string) => queueMicrotask(() => scheduler.wake(job)),
  };
  const relay = createRelay(core, { hold: false, rooms: { here: createMemoryRoom(), away: createMemoryRoom() } });
  scheduler.add([relay.job]);
  const settled = async (): Promise<void> => {
    await scheduler.settled();
    await relay.idle();
  };
  return {
    ...queue,
    relay,
    lines,
    settled,
    until,
    remote(domain: string): RemoteMx {
      const found = remotes.get(domain);
      if (!found) throw new Error(`no server for ${domain}`);
      return found;
    },
    start: () => scheduler.start(),
    async advance(ms: number): Promise<void> {
      runtime.advanceTo(runtime.now() + ms);
      await settled();
    },
    states: () => queue.entries().map(({ recipient, state, attempts }) => `${recipient} ${state} ${attempts}`),
    delivered: () =>
      store.db
        .select()
        .from(events)
        .all()
        .map(({ event, data }) => [event, data.deliveredAt]),
  };
}

test("450, then 250 when it is due: delivered once, and announced once", async () => {
  const net = await createNet({
    "a.example": { rcpt: ({ attempt }) => (attempt === 1 ? "450 4.2.0 busy" : undefined) },
  });
  net.accept({ to: ["ann@a.example"] });
  net.start();
  await net.settled();
  expect([net.states(), net.delivered()]).toEqual([["ann@a.example waiting 1"], []]);
  await net.advance(59_999);
  expect(net.remote("a.example").messages).toEqual([]);
  await net.advance(1);
  expect(net.states()).toEqual(["ann@a.example delivered 2"]);
  expect(net.delivered()).toEqual([["message.delivered", new Date(START + 60_000).toISOString()]]);
  expect(net.remote("a.example").messages).toMatchObject([
    { from: "bounce+1@example.test", to: ["ann@a.example"], content: expect.stringMatching(/^message 1/) },
  ]);
  expect(net.lines.filter(({ level }) => level === "error")).toEqual([]);
  await net.relay.stop(1_000);
});

test("many messages to one server share its connections and arrive once; idle connections are closed", async () => {
  const net = await createNet({ "a.example": {} });
  for (let i = 0; i < 60; i++) net.accept({ to: [`r${i}@a.example`] });
  net.start();
  await net.settled();
  const remote = net.remote("a.example");
  expect(remote.messages.map(({ to }) => to[0]).sort()).toEqual(
    Array.from({ length: 60 }, (_, i) => `r${i}@a.example`).sort(),
  );
  expect(remote.connections).toBeLessThanOrEqual(5);
  await net.advance(4_000);
  await remote.idle();
  await net.relay.stop(1_000);
});

test("never more than 5 connections at once, and a slow server delays no other", async () => {
  const stuck = gate();
  const net = await createNet({
    "slow.example": { end: ({ address }) => (address === "first@slow.example" ? undefined : stuck.wait()) },
    "fast.example": {},
  });
  for (const name of ["first", ...Array.from({ length: 20 }, (_, i) => `r${i}`)])
    net.accept({ to: [`${name}@slow.example`] });
  for (let i = 0; i < 20; i++) net.accept({ to: [`r${i}@fast.example`] });
  net.start();
  await net.remote("fast.example").waitFor(20);
  await stuck.reached;
  expect(net.remote("slow.example").open).toBeLessThanOrEqual(5);
  expect(net.remote("slow.example").messages).toHaveLength(1);
  stuck.release();
  await net.settled();
  expect(net.remote("slow.example").messages).toHaveLength(21);
  expect(net.remote("slow.example").connections).toBeLessThanOrEqual(5);
  await net.relay.stop(1_000);
});

const pits = (count: number, script: RemoteScript): Record<string, RemoteScript> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`pit${String(i).padStart(2, "0")}.example`, script]));

test("sixty servers that send a line a minute instead of a greeting hold up others for seconds, and have 5 minutes", async () => {
  const net = await createNet({ ...pits(60, { greeting: () => "220-not yet" }), "well.example": {} });
  for (const domain of Object.keys(pits(60, {}))) net.accept({ to: [`ann@${domain}`] });
  net.accept({ to: ["bob@well.example"] });
  net.start();
  const first = net.remote("pit00.example");
  await net.until(() => first.connections === 1 && net.remote("pit49.example").connections === 1);
  net.runtime.advanceTo(START + 5_000);
  await net.remote("well.example").waitFor(1);
  for (let minute = 1; minute < 5; minute++) {
    net.runtime.advanceTo(START + minute * 60_000);
    first.say("220-not yet");
  }
  expect(first.open).toBe(1);
  net.runtime.advanceTo(START + 300_000);
  await first.idle();
  await net.until(() => net.states()[0] === "ann@pit00.example waiting 1");
  await net.relay.stop(0);
});

test("sixty servers that take the message without a reply hold up others for seconds, and get it once", async () => {
  const stuck = gate();
  const net = await createNet({ ...pits(60, { end: () => stuck.wait() }), "well.example": {} });
  for (const domain of Object.keys(pits(60, {}))) net.accept({ to: [`ann@${domain}`] });
  net.accept({ to: ["bob@well.example"] });
  net.start();
  const heard = (count: number) =>
    Object.keys(pits(60, {})).filter((domain) => net.remote(domain).commands.includes("DATA")).length === count;
  await net.until(() => heard(50));
  net.runtime.advanceTo(START + 5_000);
  await net.remote("well.example").waitFor(1);
  await net.until(() => heard(60));
  for (let minute = 1; minute < 9; minute++) net.runtime.advanceTo(START + minute * 60_000);
  stuck.release();
  await net.settled();
  for (const domain of Object.keys(pits(60, {}))) expect(net.remote(domain).messages).toHaveLength(1);
  expect(new Set(net.entries().map(({ state }) => state))).toEqual(new Set(["delivered"]));
  await net.relay.stop(0);
});

test("when more servers wait than may, in any phase, one without the message is cut for another", async () => {
  const waits = { wait: () => new Promise<undefined>(() => {}) };
  const net = await createNet({
    ...pits(160, { ehlo: waits.wait }),
    "well.example": {},
  });
  for (const domain of Object.keys(pits(160, {}))) net.accept({ to: [`ann@${domain}`] });
  net.start();
  const open = () => Object.keys(pits(160, {})).filter((domain) => net.remote(domain).open === 1).length;
  for (const [i, count] of [50, 100, 150].entries()) {
    await net.until(() => open() === count);
    net.runtime.advanceTo(START + (i + 1) * 5_000);
  }
  net.runtime.advanceTo(START + 30_000);
  await net.until(() => net.entries().filter(({ attempts }) => attempts === 1).length === 10);
  const cut = net.entries().find(({ attempts }) => attempts === 1);
  expect(cut).toMatchObject({ state: "waiting", reply: "no answer in time while other mail waited" });
  await net.relay.stop(0);
});

test("stopping cuts a server that does not reply: its recipients wait, due at once, and no attempt is counted", async () => {
  const stuck = gate();
  const net = await createNet({ "slow.example": { end: stuck.wait } });
  net.accept({ to: ["ann@slow.example"] });
  net.start();
  await stuck.reached;
  await net.relay.stop(0);
  expect(net.entries()).toMatchObject([{ state: "waiting", leased: false, attempts: 0, dueAt: START }]);
  await net.remote("slow.example").idle();
});
