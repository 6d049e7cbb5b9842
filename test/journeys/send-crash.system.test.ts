/**
 * Mail that was answered 202 is sent although the process is killed at random points (rules: Arrival), and mail that a remote
 * accepted and we recorded is not sent again: both sides are counted.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { settingsFor, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const ROUNDS = 3;
const LANES = 8;
/** Transactions that may be under way at once: what a crash can interrupt between the remote's word and our record. */
const CONNECTIONS = 5;
const DELIVERED = "SELECT count(*) AS n FROM queue_entries WHERE state = 'delivered'";

test("kill -9 while sending: each accepted message arrives, and those recorded as delivered only once", async () => {
  const remote = await startRemoteMx();
  const dns = await startDnsServer({
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
  });
  const place = { data: temporaryFolder(), env: { MAILROOM_DNS: dns.address } };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    "owner@example.test",
    "--name",
    "Owner",
  );
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, {
    ...WITHOUT_LIMITS,
    ...settingsFor(remote),
    "smtp.retrySeconds": "0.1,0.1,0.1,0.1,0.1,0.1",
  });

  /** The Message-ID with which each message was answered, by the message's number. */
  const accepted = new Map<string, string>();
  for (let round = 0; round < ROUNDS; round++) {
    const server = await serve(place);
    const api = apiClient(server.http, apiKey);
    const killAfter = 20 + Math.floor(Math.random() * 60);
    const before = accepted.size;
    let killed: Promise<unknown> | undefined;
    const lane = async (number: number): Promise<void> => {
      for (let i = 0; killed === undefined; i++) {
        const n = `${round}-${number}-${i}`;
        const { status, body } = await api.post<{ messageId: string }>(
          "/send",
          { from: "owner@example.test", to: `reader-${n}@remote.example`, subject: `crash ${n}`, text: `body of ${n}` },
          { "Idempotency-Key": n },
        );
        expect(status).toBe(202);
        accepted.set(n, body.messageId);
        if (accepted.size - before >= killAfter) killed ??= server.kill("SIGKILL");
      }
    };
    const ended = await Promise.allSettled(Array.from({ length: LANES }, (_, number) => lane(number)));
    await killed;
    for (const end of ended) if (end.status === "rejected") expect(String(end.reason)).not.toContain("toBe");
  }
  expect(accepted.size).toBeGreaterThan(ROUNDS * 10);

  // Every key answers what it answered, or is free: the lanes' last requests may have been cut off before or after.
  const server = await serve(place);
  const api = apiClient(server.http, apiKey);
  for (const [n, messageId] of [...accepted].slice(-LANES)) {
    const { status, headers, body } = await api.post<{ messageId: string }>(
      "/send",
      { from: "owner@example.test", to: `reader-${n}@remote.example`, subject: `crash ${n}`, text: `body of ${n}` },
      { "Idempotency-Key": n },
    );
    expect([status, headers.get("idempotency-replayed"), body.messageId]).toEqual([202, "true", messageId]);
  }

  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = (sql: string): number => (sqlite.query(sql).get() as { n: number }).n;
  const stored = count("SELECT count(*) AS n FROM outbound_messages");
  const received = (): Map<string, number> => {
    const times = new Map<string, number>();
    for (const { to } of remote.messages) times.set(to[0] ?? "", (times.get(to[0] ?? "") ?? 0) + 1);
    return times;
  };
  // Whatever was stored, acknowledged or not, goes out.
  for (let wanted = stored; received().size < stored; wanted++) await remote.waitFor(wanted);
  // What a crash came between is sent once more, and recorded then.
  await until(() => count(DELIVERED) === stored);
  expect(await server.kill("SIGTERM")).toBe(0);

  const arrived = received();
  expect([...accepted.keys()].filter((n) => !arrived.has(`reader-${n}@remote.example`))).toEqual([]);
  const again = [...arrived.values()].reduce((sum, times) => sum + times - 1, 0);
  expect(again).toBeLessThanOrEqual(ROUNDS * CONNECTIONS);
  expect(count(DELIVERED)).toBe(stored);
  expect(count("SELECT count(*) AS n FROM events WHERE event = 'message.outbound'")).toBe(stored);
  expect(count("SELECT count(*) AS n FROM events WHERE event = 'message.delivered'")).toBe(stored);
  expect(count("SELECT count(*) AS n FROM messages WHERE kind = 'sent' AND delivered_at IS NOT NULL")).toBe(stored);
  expect(count("SELECT count(*) AS n FROM outbound_contents")).toBe(0);
  expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
}, 300_000);
