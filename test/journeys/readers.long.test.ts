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
  const load: ReadingLoad = {
    ...{ http: server.http, mxPort: server.mx.port, to: ADDRESS, keys, perSecond: PER_SECOND },
    ...{ seconds: SECONDS, message },
  };
  await readBesideMail({ ...load, seconds: WARM_UP_SECONDS });
  const later = WARM_UP_SECONDS * PER_SECOND;
  const { health, accepted, searches, refused, rate } = await readBesideMail({
    ...load,
    message: (n) => message(n + later),
  });
  const [usual] = quantiles(searches);
  expect({ refused, rate: rate > 0.95 * PER_SECOND }).toEqual({ refused: [], rate: true });
  expect(quantiles(health)[1]).toBeLessThan(50);
  expect(quantiles(accepted)[1]).toBeLessThan(250);
  expect(Math.max(...searches)).toBeLessThan(4 * usual);
}, 120_000);

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
