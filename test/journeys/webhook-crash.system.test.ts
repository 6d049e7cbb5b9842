/**
 * Events are told although the process is killed between accepting mail and telling of it, and at random points while it tells
 * (rules: Arrival, Webhook delivery states): the receiver counts them.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startReceiver } from "../harness/peers/receiver.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const ROUNDS = 2;
const LANES = 6;
/** Attempts that may be under way or not yet recorded at once: what a crash can repeat. */
const REPEATED = 256;

test("kill -9 between acceptance and delivery: each accepted message is told of, and again only what a crash cut", async () => {
  const receiver = startReceiver();
  const place = { data: temporaryFolder() };
  await runJson(place, "setup", "--domain", "example.test", "--email", "owner@example.test", "--name", "Owner");
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  await run(place, ["settings", "set", "webhooks.allowNetworks", "127.0.0.0/8"]);
  await runJson(place, "webhook", "add", "--url", receiver.url, "--events", "message.inbound");

  const accepted = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const server = await serve(place);
    // In the first round nothing is told: what is accepted before the crash waits for the next process.
    receiver.answer = round === 0 ? () => new Promise(() => {}) : () => new Response("ok");
    const killAfter = 30 + Math.floor(Math.random() * 60);
    const before = accepted.size;
    let killed: Promise<unknown> | undefined;
    const lane = async (number: number): Promise<void> => {
      const sender = mailer(server.mx);
      try {
        for (let i = 0; killed === undefined; i++) {
          const subject = `crash ${round}-${number}-${i}`;
          await sender.send({ from: "a@remote.example", to: "owner@example.test" }, letter({ subject }));
          accepted.add(subject);
          if (accepted.size - before >= killAfter) killed ??= server.kill("SIGKILL");
        }
      } finally {
        sender.close();
      }
    };
    await Promise.allSettled(Array.from({ length: LANES }, (_, number) => lane(number)));
    await killed;
  }
  expect(accepted.size).toBeGreaterThan(ROUNDS * 20);

  receiver.answer = () => new Response("ok");
  const server = await serve(place);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const count = (sql: string): number => (sqlite.query(sql).get() as { n: number }).n;
  const happened = count("SELECT count(*) AS n FROM events");
  const undelivered = "SELECT count(*) AS n FROM webhook_deliveries WHERE state <> 'delivered'";
  const subjects = () => receiver.hooks.map(({ body }) => JSON.parse(body).data.subject as string);
  for (let wanted = receiver.hooks.length; new Set(subjects()).size < happened; wanted++)
    await receiver.waitFor(wanted);
  // What a crash came between is told once more, and recorded then.
  await until(() => count(undelivered) === 0);
  expect(await server.kill("SIGTERM")).toBe(0);

  expect([...accepted].filter((subject) => !subjects().includes(subject))).toEqual([]);
  const ids = receiver.hooks.map(({ headers }) => headers.get("x-service-delivery"));
  expect(new Set(ids).size).toBe(happened);
  expect(ids.length - happened).toBeLessThanOrEqual(ROUNDS * REPEATED);
  expect([count("SELECT count(*) AS n FROM webhook_deliveries"), count(undelivered)]).toEqual([happened, 0]);
}, 300_000);
