/** Networks from which wanted mail came, over real sockets from several addresses of 127.0.0.0/8. */
import { expect, test } from "bun:test";
import { forgetNetworks, isKnownNetwork } from "../../src/inbound/known.ts";
import { knownNetworks } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { listenForMailbox } from "../harness/servers/mx-rig.ts";

const DAY = 24 * 60 * 60_000;

let count = 0;
const mail = (from: string): string =>
  `From: <${from}>\r\nSubject: Hello\r\nMessage-ID: <${++count}@remote.example>\r\n\r\nHow are you?`;

async function open() {
  const dns = zone({ "_dmarc.forged.example": { txt: ["v=DMARC1; p=quarantine"] } });
  const rig = await listenForMailbox({ runtime: fakeRuntime({ dns }) });
  return {
    ...rig,
    isKnown: (ip: string) => isKnownNetwork(rig.core, ip),
    rows: () => rig.store.db.select().from(knownNetworks).all(),
    async deliver(ip: string, from = "zoe@remote.example") {
      const client = await connectSmtp(rig.address, { from: ip });
      const { code } = await client.deliver({ to: "alice@example.test" }, mail(from));
      client.destroy();
      return code;
    },
  };
}

test("mail that is filed makes its network known, mail in spam does not", async () => {
  const { isKnown, deliver, rows } = await open();
  expect(isKnown("127.0.2.1")).toBe(false);
  expect(await deliver("127.0.2.1")).toBe(250);
  expect(["127.0.2.1", "127.0.2.9", "127.0.3.1"].map(isKnown)).toEqual([true, true, false]);
  expect(await deliver("127.0.3.1", "bank@forged.example")).toBe(250);
  expect(isKnown("127.0.3.1")).toBe(false);
  expect(rows()).toEqual([{ network: "127.0.2.0/24", wantedAt: START }]);
});

test("it is renewed once a day, and forgotten after a hundred days", async () => {
  const { core, isKnown, deliver, rows, runtime } = await open();
  const { runDue } = forgetNetworks(core);
  for (const [at, wantedAt] of [
    [0, 0],
    [DAY - 1, 0],
    [DAY, DAY],
  ] as const) {
    runtime.advanceTo(START + at);
    await deliver("127.0.2.1");
    expect(rows()).toMatchObject([{ wantedAt: START + wantedAt }]);
  }
  await runDue(START + 101 * DAY);
  expect(isKnown("127.0.2.1")).toBe(true);
  await runDue(START + 101 * DAY + 1);
  expect(isKnown("127.0.2.1")).toBe(false);
});

test("of too many, those are forgotten that were wanted least recently", async () => {
  const { core, store, rows } = await open();
  const networks = [3, 1, 2].map((day) => ({ network: `127.0.${day}.0/24`, wantedAt: START + day }));
  store.db.insert(knownNetworks).values(networks).run();
  await forgetNetworks(core, 2).runDue(START + DAY);
  expect(rows().map(({ network }) => network)).toEqual(["127.0.2.0/24", "127.0.3.0/24"]);
});
