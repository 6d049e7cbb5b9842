/**
 * Measures what a replica costs: servers without one, with one, and with one that acknowledgements wait for, take turns under
 * the same load. The server of the replica is on the same machine, and takes its share of the processors.
 */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { settle } from "../harness/data/settle.ts";
import { startS3, without } from "../harness/peers/s3.ts";
import { type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, cpuMs, median, newPlace, print, quantiles } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { pump } from "./smtp-load.ts";

const SIZE = 10_000;
const ROUNDS = 5;
const COUNT = 1_500;
const CONCURRENT = [1, 8, 32];
const PER_SECOND = 300;
const SECONDS = 20;
const SAMPLE_MS = 100;

interface Kind {
  name: string;
  server: Served;
  data: string;
  /** CPU of the server and of its Litestream. */
  cpu(): number;
}

async function start(name: string, settings?: Record<string, string>): Promise<Kind> {
  const { place } = await newPlace(`replica-${name}`);
  if (settings) {
    const s3 = await startS3(without("versitygw") === undefined ? "versitygw" : "moto");
    const url = s3.url.replace(s3.location.endpoint, s3.endpoint);
    place.env = { ...place.env, MAILROOM_REPLICA: url, ...s3.credentials };
    settle(place, settings);
  }
  const server = await serve(place);
  const cpu = () => {
    if (!settings) return cpuMs(server.pid);
    const { pid } = JSON.parse(readFileSync(join(place.data, "replica/process.json"), "utf8")) as { pid: number };
    return cpuMs(server.pid) + cpuMs(pid);
  };
  return { name, server, data: place.data, cpu };
}

let made = 100;

export async function replica(): Promise<void> {
  const none = await start("none");
  const local = await start("local", { "replica.ack": "local" });
  const acknowledged = await start("replica", { "replica.ack": "replica" });
  const kinds = [none, local, acknowledged];
  const loadOf = ({ server }: Kind) => ({
    port: server.mx.port,
    to: ADDRESS,
    message: messageMaker(made++, SIZE, ADDRESS),
  });

  for (const kind of kinds) await pump({ ...loadOf(kind), connections: 20, messages: COUNT / 3 });
  const rates = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]));
  const cpus = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]));
  let largestLog = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of kinds) {
      const used = kind.cpu();
      const look = setInterval(() => {
        if (kind !== none) largestLog = Math.max(largestLog, statSync(join(kind.data, "mailroom.db-wal")).size);
      }, SAMPLE_MS);
      rates.get(kind)?.push(await pump({ ...loadOf(kind), connections: 20, messages: COUNT }));
      clearInterval(look);
      cpus.get(kind)?.push((kind.cpu() - used) / COUNT);
    }
  }
  const floor = median(rates.get(none) ?? []);
  const floorCpu = median(cpus.get(none) ?? []);
  for (const kind of [local, acknowledged]) {
    print({
      figure: `ingest 10 kB, 20 connections, replica.ack=${kind.name}, beside none`,
      value: median(rates.get(kind) ?? []),
      unit: "messages/s",
      floor,
    });
    print({
      figure: `the same, CPU a message with Litestream's`,
      value: median(cpus.get(kind) ?? []),
      unit: "ms",
      floor: floorCpu,
    });
  }
  print({ figure: "largest write-ahead log meanwhile", value: largestLog / 1e6, unit: "MB" });

  for (const connections of CONCURRENT) {
    const messages = Math.min(COUNT, connections * 150);
    const found = new Map<Kind, { rate: number; ms: number[] }>();
    for (const kind of [none, acknowledged]) {
      const ms: number[] = [];
      const rate = await pump({ ...loadOf(kind), connections, messages, took: (one) => ms.push(one) });
      found.set(kind, { rate, ms });
    }
    const [bare, acked] = [found.get(none), found.get(acknowledged)];
    if (!bare || !acked) continue;
    print({
      figure: `replica.ack=replica, ${connections} connections`,
      value: acked.rate,
      unit: "messages/s",
      floor: bare.rate,
    });
    for (const [n, name] of ["median", "p99"].entries()) {
      const [value, floor] = [acked, bare].map(({ ms }) => quantiles(ms)[n] as number) as [number, number];
      print({ figure: `the same, from the last byte to 250, ${name}`, value, unit: "ms", floor });
    }
  }

  for (const kind of [local, acknowledged]) {
    const lags: number[] = [];
    const sample = setInterval(async () => {
      const metrics = await (await fetch(`${kind.server.http}/metrics`)).text();
      lags.push(Number(/^mailroom_replica_lag_seconds (\S+)/m.exec(metrics)?.[1]));
    }, SAMPLE_MS * 2);
    const rate = await pump({
      ...{ ...loadOf(kind), connections: 20, messages: PER_SECOND * SECONDS, perSecond: PER_SECOND },
    });
    clearInterval(sample);
    for (const [n, name] of ["median", "p99"].entries()) {
      const value = quantiles(lags)[n] as number;
      print({ figure: `lag at ${rate.toFixed(0)} messages/s, replica.ack=${kind.name}, ${name}`, value, unit: "s" });
    }
  }
  for (const { server } of kinds) await server.kill("SIGTERM");
}
