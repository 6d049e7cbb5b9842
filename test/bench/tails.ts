/**
 * How long lists and searches take while mail arrives steadily, in a mailbox of 100,000 messages, beside the same while none
 * arrives. A request is sent when its time has come, whether earlier ones were answered or not, so that a pause of the server
 * counts for every request that falls into it.
 */
import { Database } from "bun:sqlite";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { labelledNote, labelledPresent, readLabelled } from "../harness/mail/labelled-mail.ts";
import { startDnsServer } from "../harness/peers/dns-server.ts";
import { serve } from "../harness/servers/process.ts";
import { ADDRESS, folder, print, quantiles, settled, written } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { COMMON_WORD, MESSAGES, RARE_WORD, seededPlace } from "./seed.ts";
import { pump } from "./smtp-load.ts";

const PER_SECOND = 200;
const SECONDS = 60;
/** No divisor of the time between two messages, so that requests meet every phase of a filing. */
const REQUEST_MS = 17;
const CONNECTIONS = 20;

/** Labelled mail in an even mix of its kinds, each message with a Message-ID of its own. */
function labelledMaker(): (n: number) => Buffer {
  const all = [...readLabelled()].map(({ bytes }) => Buffer.from(bytes).toString("latin1"));
  return (n) => {
    // A prime, so that every message has its turn.
    const text = (all[(n * 2_003) % all.length] ?? "").replace(/^From .*\n/, "").replace(/\r?\n/g, "\r\n");
    const headers = text.slice(0, text.indexOf("\r\n\r\n")).replace(/^Message-ID:.*(\r\n[ \t].*)*\r\n/gim, "");
    const message = `Message-ID: <tails.${n}@remote.example>\r\n${headers}${text.slice(text.indexOf("\r\n\r\n"))}`;
    return Buffer.from(message.replace(/^\./gm, ".."), "latin1");
  };
}

export async function tails(): Promise<void> {
  const { place: seeded, apiKey } = await seededPlace(MESSAGES);
  const place = { ...seeded, data: join(folder, "tails") };
  cpSync(seeded.data, place.data, { recursive: true });
  // Or the first checkpoint would wait until the copy is on the disk.
  Bun.spawnSync(["sync"]);
  // The senders' domains publish nothing.
  const dns = await startDnsServer({});
  const server = await serve({ ...place, env: { ...place.env, MAILROOM_DNS: dns.address } });
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  await settled(sqlite);
  sqlite.close();
  const api = apiClient(server.http, apiKey);
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const { status, body } = await api.get(path);
    if (status !== 200) throw new Error(`${path} answered ${status} ${JSON.stringify(body)}`);
    return body;
  };
  const thread = ((await get("/search?q=subject:longthread")).threads as { id: string }[])[0]?.id;
  const asks: Readonly<Record<string, (n: number) => string>> = {
    "first page of /threads": () => "/threads?limit=25",
    "thread of 50 messages": () => `/threads/${thread}`,
    "/search, common word": (n) => `/search?q=${written(COMMON_WORD, n)}`,
    "/search, rare word": (n) => `/search?q=${written(RARE_WORD, n)}`,
  };

  /** Asks for each in turn for some time; returns the p99 of each, ms. */
  async function ask(seconds: number): Promise<number[]> {
    const kinds = Object.values(asks);
    const taken: number[][] = kinds.map(() => []);
    const requests: Promise<unknown>[] = [];
    const began = performance.now();
    for (let n = 0; n * REQUEST_MS < seconds * 1_000; n++) {
      const path = kinds[n % kinds.length]?.(n) ?? "";
      await Bun.sleep(Math.max(0, began + n * REQUEST_MS - performance.now()));
      const sent = performance.now();
      requests.push(get(path).then(() => taken[n % kinds.length]?.push(performance.now() - sent)));
    }
    await Promise.all(requests);
    return taken.map((times) => quantiles(times)[1]);
  }

  const loads: [label: string, message: (n: number) => Buffer][] = [["10 kB", messageMaker(17, 10_000, ADDRESS)]];
  if (labelledPresent) loads.push(["real mail", labelledMaker()]);
  else console.error(`real mail is not measured${labelledNote}`);
  await ask(5);
  const idle = await ask(SECONDS / 2);
  for (const [label, make] of loads) {
    const messages = PER_SECOND * SECONDS;
    // Made beforehand: what is measured is the server.
    const made = Array.from({ length: messages }, (_, n) => make(n));
    const load = pump({
      ...{ port: server.mx.port, to: ADDRESS, connections: CONNECTIONS, messages, perSecond: PER_SECOND },
      message: (n) => made[n] as Buffer,
    });
    const busy = await ask(SECONDS);
    const rate = await load;
    for (const [i, kind] of Object.keys(asks).entries()) {
      print({
        figure: `${kind}, p99 while ${PER_SECOND} × ${label} a second arrive`,
        value: busy[i] as number,
        unit: "ms",
        floor: idle[i] as number,
        toReach: "25",
      });
    }
    print({ figure: `${label} that arrived meanwhile`, value: rate, unit: "messages/s", toReach: String(PER_SECOND) });
  }
  await server.kill("SIGTERM");
  await dns.close();
}
