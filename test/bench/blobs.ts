/**
 * Attachments in S3 beside files, in pairs of one run: mail with a file of 100 kB as it comes in, many messages at once and
 * one alone, and its file as it is read. The server runs on the same machine and disk, so its share of both is in the figures.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { noS3, startS3, without } from "../harness/peers/s3.ts";
import { type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, cpuMs, median, newPlace, print, timingsInTurn } from "./figures.ts";
import { pump } from "./smtp-load.ts";

const BYTES = 100_000;
const ROUNDS = 7;
const MANY = 150;
const ALONE = 15;

let made = 0;

/** Each has a file of its own, which is not there yet. */
function message(): Buffer {
  const id = `${process.pid}.${made++}`;
  const file = crypto.getRandomValues(Buffer.alloc(60_000));
  const content = Buffer.concat([file, file]).subarray(0, BYTES).toString("base64");
  return Buffer.from(
    [
      "From: sender@remote.example",
      `To: ${ADDRESS}`,
      `Subject: file ${id}`,
      `Message-ID: <${id}@remote.example>`,
      "MIME-Version: 1.0",
      'Content-Type: multipart/mixed; boundary="b"',
      "",
      "--b",
      "Content-Type: text/plain",
      "",
      "See the file.",
      "--b",
      "Content-Type: application/octet-stream",
      'Content-Disposition: attachment; filename="data.bin"',
      "Content-Transfer-Encoding: base64",
      "",
      content.replace(/(.{76})/g, "$1\r\n"),
      "--b--",
      "",
    ].join("\r\n"),
  );
}

/** The URL of the newest message's file. */
async function newestFile({ http }: Served, apiKey: string): Promise<string> {
  const api = apiClient(http, apiKey);
  const { body } = await api.get<{ messages: { id: string }[] }>("/messages?limit=1");
  const one = await api.get<{ message: { attachments: { url: string }[] } }>(`/messages/${body.messages[0]?.id}`);
  return one.body.message.attachments[0]?.url ?? "";
}

export async function blobs(): Promise<void> {
  const missing = without("versitygw") ?? noS3;
  if (missing !== undefined) {
    console.log(`blobs: ${missing}`);
    return;
  }
  const s3 = await startS3("versitygw");
  const inFiles = await newPlace("blobs-files");
  const inS3 = await newPlace("blobs-s3");
  const url = s3.url.replace(/endpoint=[^&]*/, `endpoint=${s3.endpoint}`);
  const files = await serve(inFiles.place);
  const remote = await serve({ ...inS3.place, env: { ...inS3.place.env, MAILROOM_BLOBS: url, ...s3.credentials } });
  const servers = [files, remote] as const;

  async function turns(connections: number, messages: number) {
    const rates: [number, number][] = [];
    const cpu: [number, number][] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const rate: number[] = [];
      const used: number[] = [];
      for (const { mx, pid } of servers) {
        const contents = Array.from({ length: messages }, message);
        const before = cpuMs(pid);
        rate.push(
          await pump({ port: mx.port, to: ADDRESS, connections, messages, message: (n) => contents[n] as Buffer }),
        );
        used.push((cpuMs(pid) - before) / messages);
      }
      if (round === 0) continue;
      rates.push(rate as [number, number]);
      cpu.push(used as [number, number]);
    }
    return { rates, cpu };
  }
  const show = (figure: string, unit: string, pairs: readonly (readonly [files: number, s3: number])[]): void =>
    print({
      figure,
      unit,
      value: median(pairs.map(([, remote]) => remote)),
      floor: median(pairs.map(([files]) => files)),
    });

  const many = await turns(20, MANY);
  show("ingest with a file of 100 kB in S3, 20 connections; floor: in files", "messages/s", many.rates);
  const ratios = many.rates.map(([files, remote]) => remote / files).sort((a, b) => a - b);
  print({ figure: "the same, the least of the pairs' ratios", value: ratios[0] ?? 0, unit: "" });
  print({ figure: "the same, the median of them", value: median(ratios), unit: "" });
  print({ figure: "the same, the most of them", value: ratios.at(-1) ?? 0, unit: "" });
  show("the same, CPU a message", "ms", many.cpu);
  const alone = await turns(1, ALONE);
  show(
    "a message with such a file alone, until its 250",
    "ms",
    alone.rates.map(([files, remote]) => [1_000 / files, 1_000 / remote] as const),
  );

  const [file, copy] = [await newestFile(files, inFiles.apiKey), await newestFile(remote, inS3.apiKey)];
  const read = (server: Served, key: string, path: string) => async () =>
    (await fetch(new URL(path, server.http), { headers: { authorization: `Bearer ${key}` } })).arrayBuffer();
  const readCopy = read(remote, inS3.apiKey, copy);
  const cache = join(inS3.place.data, "blob-cache");
  const [asFile, cached, far] = await timingsInTurn(
    [
      read(files, inFiles.apiKey, file),
      readCopy,
      () => {
        for (let shard = 0; shard < 256; shard++) {
          rmSync(join(cache, shard.toString(16).padStart(2, "0")), { recursive: true, force: true });
        }
        return readCopy();
      },
    ],
    100,
    10,
  );
  print({
    figure: "a file of 100 kB read, from the cache; floor: a file",
    value: cached?.[0] ?? 0,
    unit: "ms",
    floor: asFile?.[0] ?? 0,
  });
  print({ figure: "the same, from S3", value: far?.[0] ?? 0, unit: "ms", floor: asFile?.[0] ?? 0 });
  await Promise.all(servers.map((server) => server.kill("SIGTERM")));
}
