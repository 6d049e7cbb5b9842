/**
 * Mail that the server writes by itself survives kill -9 at random points: each message that was taken is forwarded, and
 * what is recorded as delivered was sent once (rules: Forwarding).
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { settingsFor, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { run, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const ROUNDS = 3;
const LANES = 4;
/** Transactions that may be under way at once: what a crash can interrupt between the remote's word and our record. */
const CONNECTIONS = 5;
const OWNER = "owner@example.test";
const READER = "reader@remote.example";

test("kill -9 while mail is forwarded: nothing that was taken stays behind, and little goes twice", async () => {
  const remote = await startRemoteMx();
  const dns = await startDnsServer({
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
  });
  const place = { data: temporaryFolder(), env: { MAILROOM_DNS: dns.address } };
  await run(place, ["setup", "--domain", "example.test", "--email", OWNER, "--name", "Owner"]);
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, {
    ...WITHOUT_LIMITS,
    ...settingsFor(remote),
    "smtp.retrySeconds": "0.1,0.1,0.1,0.1,0.1,0.1",
    "rules.forwardOutside": "true",
  });
  const rules = [{ match: "subject:forwarded", actions: [{ type: "forward", to: READER }] }];
  expect((await run(place, ["rule", "set", OWNER, JSON.stringify(rules)])).exitCode).toBe(0);

  const taken: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const server = await serve(place);
    const enough = taken.length + 10 + Math.floor(Math.random() * 30);
    let killed: Promise<unknown> | undefined;
    const lane = async (number: number): Promise<void> => {
      const sender = mailer(server.mx);
      try {
        for (let i = 0; killed === undefined; i++) {
          const subject = `forwarded ${round}-${number}-${i}`;
          await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject }));
          taken.push(subject);
          if (taken.length >= enough) killed ??= server.kill("SIGKILL");
        }
      } finally {
        sender.close();
      }
    };
    await Promise.allSettled(Array.from({ length: LANES }, (_, number) => lane(number)));
    await killed;
  }
  expect(taken.length).toBeGreaterThanOrEqual(ROUNDS * 10);

  const server = await serve(place);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = (sql: string): number => (sqlite.query(sql).get() as { n: number }).n;
  // What was filed and not acknowledged goes out, too.
  const filed = count("SELECT count(*) AS n FROM messages WHERE subject LIKE 'forwarded %'");
  expect(filed).toBeGreaterThanOrEqual(taken.length);
  await until(
    () =>
      count("SELECT count(*) AS n FROM automatic_mail") === 0 &&
      count("SELECT count(*) AS n FROM queue_entries WHERE state <> 'delivered'") === 0,
  );
  expect(await server.kill("SIGTERM")).toBe(0);
  expect(count("SELECT count(*) AS n FROM outbound_messages WHERE automatic = 'forward'")).toBe(filed);
  expect(sqlite.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  sqlite.close();

  const subjects = remote.messages.map(({ content }) => /^Subject: Fwd: (.*?)\r$/m.exec(content)?.[1] ?? "");
  expect(taken.filter((subject) => !subjects.includes(subject))).toEqual([]);
  expect(subjects.length - new Set(subjects).size).toBeLessThanOrEqual(ROUNDS * CONNECTIONS);
}, 300_000);
