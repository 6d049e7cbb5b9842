/**
 * The machine of a server is lost under load, with its disk, at random moments, and its standby takes over. Counted on
 * both sides: what senders were told against what the API serves, and what the receiver got.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { settingsFor, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { type Place, run, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";
const LANES = 4;

/** Times at which mail was acknowledged, by subject (of `performance.now`). */
type Told = Map<string, number>;

/** Sends and receives until `over`. Resolves when all lanes have ended; a request that is cut off ends its lane. */
async function load(
  server: Served,
  apiKey: string,
  { received, sent }: Record<"received" | "sent", Told>,
  over: () => boolean,
): Promise<void> {
  const api = apiClient(server.http, apiKey);
  async function arrive(lane: number): Promise<void> {
    const sender = mailer(server.mx);
    try {
      for (let i = 0; !over(); i++) {
        const subject = `in ${lane} ${i}`;
        await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject }));
        received.set(subject, performance.now());
      }
    } finally {
      sender.close();
    }
  }
  async function leave(lane: number): Promise<void> {
    for (let i = 0; !over(); i++) {
      const subject = `out ${lane} ${i}`;
      const to = `reader-${lane}-${i}@remote.example`;
      const { status } = await api.post(
        "/send",
        { from: OWNER, to, subject, text: "Hello" },
        { "Idempotency-Key": subject },
      );
      if (status === 202) sent.set(subject, performance.now());
    }
  }
  const lanes = Array.from({ length: LANES }, (_, lane) => [arrive(lane), leave(lane)]).flat();
  await Promise.allSettled(lanes);
}

/** The subjects of a folder, over the API. */
async function subjectsIn(http: string, apiKey: string, folder: string): Promise<Set<string>> {
  const api = apiClient(http, apiKey);
  const found = new Set<string>();
  for (let cursor = ""; ; ) {
    const page = await api.get<{ threads: { subject: string }[]; nextCursor: string | null }>(
      `/threads?folder=${folder}&limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    for (const { subject } of page.body.threads) found.add(subject);
    if (page.body.nextCursor === null) return found;
    cursor = page.body.nextCursor;
  }
}

/** The recipients whose delivery is recorded in what the standby has. */
function recordedBy({ data }: Place): string[] {
  const [file = ""] = readdirSync(join(data, "standby")).filter((name) => name.endsWith(".db"));
  const sqlite = new Database(join(data, "standby", file), { readonly: true });
  sqlite.exec("PRAGMA busy_timeout = 5000");
  const rows = sqlite
    .query<{ recipient: string }, []>("SELECT recipient FROM queue_entries WHERE state = 'delivered'")
    .all();
  sqlite.close();
  return rows.map(({ recipient }) => recipient);
}

async function loseMachine(ack: "replica" | "local") {
  const remote = await startRemoteMx();
  const dns = await startDnsServer({
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
  });
  const s3 = await startS3();
  const one = await replicatedPlace(s3, {
    ...settingsFor(remote),
    "smtp.retrySeconds": "0.1,0.1,0.1,0.1,0.1,0.1",
    "replica.ack": ack,
  });
  const { apiKey } = one;
  Object.assign(one.env, { MAILROOM_DNS: dns.address });
  const first = await serve(one);
  const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
  const second = await start(two, "standby");
  const { code } = await runJson<{ code: string }>(one, "standby", "invite");
  await run(two, ["standby", "join", code]);

  const told = { received: new Map(), sent: new Map() } as Record<"received" | "sent", Told>;
  const { received, sent } = told;
  let isOver = false;
  const under = load(first, apiKey, told, () => isOver);
  const enough = 20 + Math.floor(Math.random() * 60);
  await until(() => received.size >= 10 && sent.size >= 10 && received.size + sent.size >= enough);
  const killedAt = performance.now();
  const killed = first.kill("SIGKILL");
  isOver = true;
  await killed;
  rmSync(one.data, { recursive: true, force: true });
  await under;
  const recorded = recordedBy(two);

  const promoted = await runJson<{ ready: Record<string, string>; waitedSeconds: number }>(two, "promote");
  const [host = "", port = ""] = promoted.ready.mx?.split(":") ?? [];
  const sender = mailer({ host, port: Number(port) });
  await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject: "after" }));
  const takesAfter = (performance.now() - killedAt) / 1_000;
  sender.close();

  const http = `http://${promoted.ready.http}`;
  const inbox = await subjectsIn(http, apiKey, "inbox");
  const outbox = await subjectsIn(http, apiKey, "sent");
  const missing = (told: Told, found: Set<string>): number[] =>
    [...told].filter(([subject]) => !found.has(subject)).map(([, at]) => (killedAt - at) / 1_000);
  const copies = new Map<string, number>();
  // Everything that the new server has goes out.
  const wanted = [...outbox].map((subject) => subject.replace(/^out (\d+) (\d+)$/, "reader-$1-$2@remote.example"));
  await until(() => {
    copies.clear();
    for (const { to } of remote.messages) copies.set(to[0] ?? "", (copies.get(to[0] ?? "") ?? 0) + 1);
    return wanted.every((address) => copies.has(address));
  });
  const database = new Database(join(two.data, "mailroom.db"), { readonly: true });
  await until(
    () =>
      database.query<{ n: number }, []>("SELECT count(*) AS n FROM queue_entries WHERE state <> 'delivered'").get()
        ?.n === 0,
  );
  const sound = database.query("PRAGMA integrity_check").get();
  database.close();
  await second.kill("SIGTERM");
  const result = {
    ack,
    received: received.size,
    sent: sent.size,
    lostReceived: missing(received, inbox),
    lostSent: missing(sent, outbox),
    recorded: recorded.length,
    recordedSentAgain: recorded.filter((address) => (copies.get(address) ?? 0) !== 1),
    sentAgain: [...copies.values()].filter((times) => times > 1).length,
    takesMailAfterSeconds: Math.round(takesAfter * 10) / 10,
    waitedForLease: promoted.waitedSeconds,
  };
  console.log(JSON.stringify(result));
  return { ...result, sound };
}

describe.skipIf(noReplica !== undefined)(
  `a machine that is lost${noReplica === undefined ? "" : ` (${noReplica})`}`,
  () => {
    for (const round of [1, 2, 3]) {
      test(`loses nothing that was acknowledged with replica.ack=replica (${round})`, async () => {
        const { lostReceived, lostSent, recordedSentAgain, sound, takesMailAfterSeconds } =
          await loseMachine("replica");
        expect({ lostReceived, lostSent, recordedSentAgain }).toEqual({
          lostReceived: [],
          lostSent: [],
          recordedSentAgain: [],
        });
        expect(sound).toEqual({ integrity_check: "ok" });
        expect(takesMailAfterSeconds).toBeLessThan(60);
      }, 240_000);
    }

    test("loses the last moment at most without it", async () => {
      const { lostReceived, lostSent, recordedSentAgain, sound } = await loseMachine("local");
      expect([...lostReceived, ...lostSent].filter((secondsBefore) => secondsBefore > 10)).toEqual([]);
      expect(recordedSentAgain).toEqual([]);
      expect(sound).toEqual({ integrity_check: "ok" });
    }, 240_000);
  },
);
