/** Fifty readers with the costliest searches, beside 200 real messages a second, in a mailbox of 100,000 messages. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { runJson, serve } from "../harness/servers/process.ts";
import { ADDRESS, folder, print, quantiles } from "./figures.ts";
import { arrivingMail, type ReadingLoad, readBesideMail } from "./reading-load.ts";
import { MESSAGES, seededPlace } from "./seed.ts";

const READERS = 50;
const PER_SECOND = 200;
const SECONDS = 30;

export async function readers(): Promise<void> {
  const { place: seeded } = await seededPlace(MESSAGES);
  const place = { ...seeded, data: join(folder, "readers") };
  cpSync(seeded.data, place.data, { recursive: true });
  const keys: string[] = [];
  for (let n = 0; n < READERS; n++) {
    const named = ["--user", ADDRESS, "--name", `Reader ${n}`, "--scopes", "read"];
    keys.push((await runJson<{ key: string }>(place, "key", "create", ...named)).key);
  }
  Bun.spawnSync(["sync"]);
  // The senders' domains publish nothing.
  const dns = await startDnsServer({});
  const server = await serve({ ...place, env: { ...place.env, MAILROOM_DNS: dns.address } });
  const message = arrivingMail(ADDRESS);
  let made = 0;
  const load: ReadingLoad = {
    ...{ http: server.http, mxPort: server.mx.port, to: ADDRESS, keys, perSecond: PER_SECOND },
    ...{ seconds: SECONDS, message: () => message(made++) },
  };
  await readBesideMail({ ...load, seconds: SECONDS / 5 });
  for (const [beside, present] of [
    ["without readers", []],
    [`beside ${READERS} readers`, keys],
  ] as const) {
    const { health, accepted, searches, refused, rate } = await readBesideMail({ ...load, keys: present });
    const times: [figure: string, values: number[], toReach?: string][] = [
      ["/healthz", health, "p99 50"],
      ["250 of a message", accepted, "p99 250"],
      ["search", searches],
    ];
    for (const [figure, values, toReach] of times) {
      if (values.length === 0) continue;
      const [middle, p99] = quantiles(values);
      const rest = { unit: "ms", ...(toReach !== undefined && { toReach }) };
      print({ figure: `${figure} ${beside}, median`, value: middle, unit: "ms" });
      print({ figure: `${figure} ${beside}, p99`, value: p99, ...rest });
      print({ figure: `${figure} ${beside}, longest`, value: Math.max(...values), unit: "ms" });
    }
    print({ figure: `searches a second ${beside}`, value: searches.length / SECONDS, unit: "/s" });
    print({ figure: `searches refused ${beside}`, value: refused.length, unit: "" });
    print({ figure: `real mail that arrived ${beside}`, value: rate, unit: "messages/s", toReach: String(PER_SECOND) });
  }
  await server.kill("SIGTERM");
  await dns.close();
}
