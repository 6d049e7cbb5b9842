/** A domain's demands on TLS, from the API to the wire: mail waits with its reason, and goes once it can go as demanded. */
import { expect, test } from "bun:test";
import { createDnsClient } from "../../src/base/dns-client.ts";
import { queueEntries } from "../../src/store/schema.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { randomNumber, startDnsServer, type Zone, zone } from "../harness/peers/dns-server.ts";
import { deliverTo, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { START } from "../harness/runtime.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const HOST = "mx.remote.example";
const MINUTE_MS = 60_000;

function setUp(description: Zone, { port }: { port: number }, world: Parameters<typeof boot>[2] = {}) {
  const booted = boot({}, zone(description), world);
  return booted.then((app) => {
    deliverTo({ port }, app.core);
    return app;
  });
}

async function send({ api, server }: Booted) {
  const letter = { from: "alice@example.test", to: "bob@remote.example", subject: "Plans", text: "Lunch?" };
  expect(await api.post("/send", letter)).toMatchObject({ status: 202 });
  await server.settled();
}

const waiting = ({ core }: Booted) =>
  core.store.db.select({ state: queueEntries.state, reply: queueEntries.reply }).from(queueEntries).all();

test("DANE: mail waits while a record names another certificate, and goes when it names the right one", async () => {
  const { pair } = await makeChain(HOST);
  const remote = await startRemoteMx({ starttls: true, pair });
  const at = `_${remote.port}._tcp.${HOST}`;
  const description: Zone = {
    "remote.example": { mx: [[10, HOST]], secure: true },
    [HOST]: { a: [remote.host], secure: true },
    [at]: { tlsa: [[3, 1, 1, Buffer.alloc(32, 1)]], secure: true },
  };
  const server = await startDnsServer(description);
  const dns = createDnsClient({ servers: [server.address], randomNumber, elapsed: () => 0 });
  const app = await setUp(description, remote, { dns });
  await send(app);
  expect(remote.messages).toEqual([]);
  expect(waiting(app)).toMatchObject([{ reply: expect.stringContaining("no TLS as DANE asks for it") }]);

  const certificate = new Bun.CryptoHasher("sha256").update(Buffer.from(pair.cert.split("-----")[2] ?? "", "base64"));
  description[at] = { tlsa: [[3, 0, 1, certificate.digest()]], secure: true };
  await app.advance(MINUTE_MS);
  expect(remote.messages).toMatchObject([{ to: ["bob@remote.example"], secure: true }]);
  await server.close();
});

test("MTA-STS: a policy in force has mail wait for a certificate that holds", async () => {
  const right = await makeChain(HOST);
  const remote = await startRemoteMx({ starttls: true });
  const description: Zone = {
    "remote.example": { mx: [[10, HOST]] },
    [HOST]: { a: [remote.host] },
    "_mta-sts.remote.example": { txt: ["v=STSv1; id=1"] },
  };
  const app = await setUp(description, remote, { authorities: [right.authority] });
  const day = 24 * 60 * MINUTE_MS;
  app.core.store.db.$client.run(
    `INSERT INTO mta_sts_policies VALUES ('remote.example', '1', 'enforce', '["${HOST}"]', 86400, ${START}, ${START + day})`,
  );
  await send(app);
  expect(remote.messages).toEqual([]);
  expect(waiting(app)).toMatchObject([{ reply: expect.stringContaining("no TLS as MTA-STS asks for it") }]);
  const mended = await startRemoteMx({ starttls: true, pair: right.pair, host: "127.0.0.8", port: remote.port });
  description[HOST] = { a: [mended.host] };
  await app.advance(MINUTE_MS);
  expect(mended.messages).toMatchObject([{ secure: true }]);
});

test("a policy that is said to lie at a private address is not fetched, and mail goes as without", async () => {
  const remote = await startRemoteMx({ starttls: true });
  const app = await setUp(
    {
      "remote.example": { mx: [[10, HOST]] },
      [HOST]: { a: [remote.host] },
      "_mta-sts.remote.example": { txt: ["v=STSv1; id=1"] },
      "mta-sts.remote.example": { a: ["127.0.0.1"] },
    },
    remote,
  );
  await send(app);
  expect(remote.messages).toMatchObject([{ secure: true }]);
  expect(app.lines.find(({ message }) => message === "an MTA-STS policy cannot be fetched")).toMatchObject({
    domain: "remote.example",
    reason: expect.stringContaining("only public addresses"),
  });
});
