/**
 * Fifty readers and arriving mail: neither waits for the other, no reader starves, and nothing is refused that one alone would
 * get. A reader that hangs is gone in time, and the write-ahead log is in the database after it.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { quantiles } from "../bench/figures.ts";
import { arrivingMail, type ReadingLoad, readBesideMail } from "../bench/reading-load.ts";
import { COMMON_WORD, seedMailbox } from "../bench/seed.ts";
import { apiClient } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { runJson, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const READERS = 50;
const PER_SECOND = 200;
const SECONDS = 20;
/** Growth of what the same mail takes alone, where a machine is too slow for the bounds, or busy. */
const GROWTH = 1.5;
/** The first messages after a start take longer: code is compiled. */
const WARM_UP_SECONDS = 6;
const MESSAGES = 20_000;
const ADDRESS = "ada@acme.test";
/** Pages of the log from which a thread writes them to the database (store/checkpoints.ts). */
const CHECKPOINT_PAGES = 8_000;

const place = { data: temporaryFolder() };
let server: Served;
let dns: Awaited<ReturnType<typeof startDnsServer>>;
let keys: string[];

beforeAll(async () => {
  const { mailboxId } = await runJson<{ mailboxId: string }>(
    ...([place, "setup", "--domain", "acme.test", "--email", ADDRESS, "--name", "Ada"] as const),
  );
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  keys = [];
  for (let n = 0; n < READERS; n++) {
    const named = ["--user", ADDRESS, "--name", `Reader ${n}`, "--scopes", "read"];
    keys.push((await runJson<{ key: string }>(place, "key", "create", ...named)).key);
  }
  const unlimited = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };
  settle(place, { ...unlimited, "storage.mailboxBytes": String(2 ** 40) });
  seedMailbox(place.data, mailboxId, MESSAGES);
  // The senders' domains publish nothing.
  dns = await startDnsServer({});
  server = await serve({ ...place, env: { MAILROOM_LOG: "warn", MAILROOM_DNS: dns.address } });
}, 180_000);

afterAll(async () => {
  await server.kill("SIGTERM");
  await dns.close();
});

test("fifty readers and 200 messages a second", async () => {
  const message = arrivingMail(ADDRESS);
  let made = 0;
  const load: ReadingLoad = {
    ...{ http: server.http, mxPort: server.mx.port, to: ADDRESS, keys, perSecond: PER_SECOND },
    ...{ seconds: SECONDS, message: () => message(made++) },
  };
  await readBesideMail({ ...load, seconds: WARM_UP_SECONDS });
  const alone = await readBesideMail({ ...load, keys: [] });
  const beside = await readBesideMail(load);
  const p99 = (times: number[]) => quantiles(times)[1];
  expect(beside.refused).toEqual([]);
  expect(beside.rate).toBeGreaterThan(alone.rate / GROWTH);
  expect(p99(beside.health)).toBeLessThan(Math.max(50, GROWTH * p99(alone.health)));
  expect(p99(beside.accepted)).toBeLessThan(Math.max(250, GROWTH * p99(alone.accepted)));
  expect(Math.max(...beside.searches)).toBeLessThan(4 * quantiles(beside.searches)[0]);
}, 180_000);

/** The readers that the server has. */
const readers = (): number[] =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, "latin1");
        return (
          new RegExp(`^PPid:\\s+${server.pid}$`, "m").test(status) &&
          readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").includes("reader:")
        );
      } catch {
        return false;
      }
    });

test("a reader that hangs is gone in 11 s, and the log is checkpointed after it", async () => {
  const api = apiClient(server.http, keys[0]);
  using sqlite = new Database(join(place.data, "mailroom.db"));
  const pages = () => sqlite.query<{ log: number; checkpointed: number }, []>("PRAGMA wal_checkpoint(NOOP)").get();
  const [reader = 0] = readers();
  const searching = api.get(`/search?q=${COMMON_WORD}`);
  process.kill(reader, "SIGSTOP");
  const stopped = performance.now();
  // Stopped before it was asked, perhaps after: then this one hangs.
  const hung = await Promise.all([searching, api.get(`/search?q=-${COMMON_WORD}`)]);
  await until(() => !readers().includes(reader));
  expect(performance.now() - stopped).toBeLessThan(11_000);
  expect(
    hung
      .map(({ status }) => status)
      .toSorted()
      .at(-1),
  ).toBe(503);
  expect((await api.get(`/search?q=${COMMON_WORD}`)).status).toBe(200);
  await until(() => {
    const { log, checkpointed } = pages() ?? { log: 0, checkpointed: 0 };
    return log - checkpointed < CHECKPOINT_PAGES;
  });
}, 60_000);
