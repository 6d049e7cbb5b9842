/**
 * Sending: how fast messages are accepted over the API, durably; how fast the queue hands them to a server that takes
 * everything, beside nodemailer doing the same; and what 100,000 waiting recipients cost.
 */
import { join } from "node:path";
import { SMTPServer } from "smtp-server";
import { type Place, run, type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, median, newPlace, print, residentMB } from "./figures.ts";
import { words } from "./generator.ts";
import { measureQueue, NOWHERE } from "./queue.ts";

const MESSAGES = 3_000;
const BYTES = 10_000;
const CONNECTIONS = 20;
/** Connections that the queue opens at most to one destination. */
const RELAY_CONNECTIONS = 5;

interface Sink {
  port: number;
  /** Resolves with recipients per second, from the first of `count` messages to the last. */
  take(count: number): Promise<number>;
  close(): void;
}

/** A server that takes mail and throws it away. */
async function openSink(): Promise<Sink> {
  let taken: () => void = () => {};
  const server = new SMTPServer({
    authOptional: true,
    disableReverseLookup: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    onData(stream, _session, done) {
      stream.resume();
      stream.on("end", () => {
        done();
        taken();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.server.address();
  return {
    port: typeof address === "object" && address ? address.port : 0,
    take: (count) =>
      new Promise((resolve) => {
        let first = 0;
        let n = 0;
        taken = () => {
          if (n++ === 0) first = performance.now();
          if (n === count) resolve((count - 1) / ((performance.now() - first) / 1_000));
        };
      }),
    close: () => server.close(),
  };
}

async function set(place: Place, name: string, value: string): Promise<void> {
  const { exitCode, stderr } = await run(place, ["settings", "set", name, value]);
  if (exitCode !== 0) throw new Error(stderr);
}

/** Sends `count` messages over the API on CONNECTIONS connections; returns how many were accepted per second. */
async function accept(server: Served, apiKey: string, seed: number, count: number): Promise<number> {
  const source = words(seed);
  const bodies = Array.from({ length: count }, (_, n) =>
    JSON.stringify({
      from: ADDRESS,
      to: `reader-${n}@sink.example`,
      subject: source.text(40),
      text: source.text(BYTES),
    }),
  );
  const started = performance.now();
  const lane = async (): Promise<void> => {
    for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) {
      const response = await fetch(`${server.http}/api/v1/send`, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
        body,
      });
      if (response.status !== 202) throw new Error(`/send answered ${response.status} ${await response.text()}`);
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
  return count / ((performance.now() - started) / 1_000);
}

/** nodemailer, pooled, in a process of its own. */
async function nodemailerRate(sink: Sink): Promise<number> {
  const rate = sink.take(MESSAGES);
  const child = Bun.spawn(
    [
      process.execPath,
      join(import.meta.dir, "nodemailer-client.ts"),
      ...[sink.port, MESSAGES, BYTES, RELAY_CONNECTIONS].map(String),
    ],
    { stdio: ["ignore", "ignore", "inherit"] },
  );
  const value = await rate;
  await child.exited;
  return value;
}

export async function sending(): Promise<void> {
  const sink = await openSink();
  const { place, apiKey } = await newPlace("sending");
  for (const [name, value] of [
    ["sending.mailboxPerHour", "1000000000"],
    ["sending.workspacePerHour", "1000000000"],
    ["sending.warmup", "off"],
    ["smtp.relay", NOWHERE],
    ["smtp.retrySeconds", new Array(100).fill("2").join()],
  ] as const) {
    await set(place, name, value);
  }

  let server = await serve(place);
  await accept(server, apiKey, 1, MESSAGES / 5);
  const rates: number[] = [];
  for (let seed = 2; seed < 5; seed++) rates.push(await accept(server, apiKey, seed, MESSAGES));
  print({
    figure: "accepted over /send, 10 kB, durable, 20 connections",
    value: median(rates),
    unit: "messages/s",
    toReach: "300",
  });
  const waiting = MESSAGES / 5 + 3 * MESSAGES;
  print({ figure: `resident with ${waiting} messages waiting`, value: residentMB(server.pid), unit: "MB" });
  await server.kill("SIGTERM");

  await set(place, "smtp.relay", `smtp://127.0.0.1:${sink.port}`);
  const relayed = sink.take(waiting);
  server = await serve(place);
  const rate = await relayed;
  print({
    figure: "relayed to one server, 10 kB, 5 connections",
    value: rate,
    unit: "recipients/s",
    floor: await nodemailerRate(sink),
    toReach: "0.7 of nodemailer pooled",
  });
  await server.kill("SIGTERM");
  sink.close();

  await measureQueue();
}
