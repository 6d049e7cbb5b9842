/**
 * A workspace leaves while its programs send: what was answered 202 is sent once, by the old server or by the new one, both of
 * which run. Counted at the remote.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { startDnsServer, type Zone, zoneOf } from "../harness/peers/dns-server.ts";
import { settingsFor, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const LANES = 6;
/** Messages accepted before the workspace leaves. */
const BEFORE = 60;

test("each accepted message arrives once", async () => {
  let hasLeft = false;
  // Slow enough for some to be under way at any moment; what the first lane sends waits until the workspace has left.
  const remote = await startRemoteMx({
    rcpt: ({ address }) => (hasLeft || !address.startsWith("reader-0-") ? undefined : "450 4.2.0 later"),
    end: () => Bun.sleep(40).then(() => undefined),
  });
  const zone: Zone = {
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
  };
  const dns = await startDnsServer(zone);
  const places = ["old", "new"].map(() => ({ data: temporaryFolder(), env: { MAILROOM_DNS: dns.address } }));
  const [old, target] = places as [(typeof places)[number], (typeof places)[number]];
  const made = ["--domain", "example.test", "--email", "owner@example.test", "--name", "Owner", "--workspace", "W"];
  const { apiKey } = await runJson<{ apiKey: string }>(old, "setup", ...made);
  // The records stay where they are, and prove the domain at either server.
  Object.assign(zone, zoneOf(await runJson<Parameters<typeof zoneOf>[0]>(old, "domain", "dns", "example.test")));
  await run(old, ["domain", "verify", "example.test"]);
  await runJson(target, "workspace", "add", "Here already");
  for (const place of places) {
    settle(place, {
      ...WITHOUT_LIMITS,
      "smtp.retrySeconds": Array.from({ length: 200 }, () => 1).join(","),
      ...settingsFor(remote),
    });
  }
  const servers = await Promise.all(places.map((place) => serve(place)));
  const [first, second] = servers as [(typeof servers)[number], (typeof servers)[number]];

  const accepted: string[] = [];
  const api = apiClient(first.http, apiKey);
  async function lane(number: number): Promise<void> {
    for (let i = 0; ; i++) {
      const to = `reader-${number}-${i}@remote.example`;
      const { status } = await api.post("/send", { from: "owner@example.test", to, subject: to, text: to });
      if (status === 503) return;
      expect(status).toBe(202);
      accepted.push(to);
    }
  }
  const lanes = Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  await until(() => accepted.length >= BEFORE);
  const folder = join(temporaryFolder(), "export");
  await runJson(old, "workspace", "export", "W", "--to", folder, "--final");
  await lanes;
  hasLeft = true;
  const before = remote.messages.length;
  expect(before).toBeLessThan(accepted.length);
  expect(await runJson<object>(target, "workspace", "import", folder)).toMatchObject({ served: true });

  const live = new Database(join(target.data, "mailroom.db"), { readonly: true });
  const waiting = live.query("SELECT count(*) AS n FROM queue_entries WHERE state <> 'delivered'");
  await until(() => (waiting.get() as { n: number }).n === 0);
  live.close();
  await Promise.all([first.kill("SIGTERM"), second.kill("SIGTERM")]);
  expect(remote.messages.map(({ to }) => to[0] ?? "").sort()).toEqual(accepted.sort());
}, 120_000);
