/**
 * How soon GET /changes answers beside much mail: without a cursor, with nothing new, with a hundred changes, with a whole
 * page of the oldest, and of one mailbox.
 *
 *   BENCH_MESSAGES=1000000 bun run bench changes        (100,000 unless it says otherwise)
 */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { serve } from "../harness/servers/process.ts";
import { ADDRESS, print, settled, timings } from "./figures.ts";
import { seededPlace } from "./seed.ts";

const MESSAGES = Number(process.env.BENCH_MESSAGES ?? 100_000);
const CHANGED = 100;

export async function changes(): Promise<void> {
  const { place, apiKey } = await seededPlace(MESSAGES);
  const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
  const server = await serve(place);
  await settled(sqlite);
  const api = apiClient(server.http, apiKey);
  const ask = async (query: string, count: number): Promise<{ next: string }> => {
    const { status, body } = await api.get<{ changes: unknown[]; next: string }>(`/api/ext/v1/changes${query}`);
    if (status === 200 && body.changes.length === count) return body;
    throw new Error(`/changes${query} answered ${status} with ${body.changes?.length} changes`);
  };
  const { next: before } = await ask("", 0);
  const ids = sqlite.query<{ id: string }, []>(`SELECT id FROM threads LIMIT ${CHANGED}`).all();
  const { status } = await api.patch("/api/ext/v1/threads", { ids: ids.map(({ id }) => id), starred: true });
  if (status !== 200) throw new Error(`PATCH /threads answered ${status}`);
  const { next: present } = await ask(`?after=${before}`, CHANGED);
  // The cursor before the first change, as it would be if it had been taken at that time.
  const oldest = Buffer.from(`1.0.${Date.now()}.0`).toString("base64url");
  for (const [what, query, count] of [
    ["no cursor", "", 0],
    ["nothing new", `?after=${present}`, 0],
    [`${CHANGED} changes`, `?after=${before}`, CHANGED],
    ["the oldest 500 changes", `?after=${oldest}`, 500],
    ["nothing new in a mailbox", `?after=${present}&mailbox=${ADDRESS}`, 0],
  ] as const) {
    const [middle, p99] = await timings(() => ask(query, count), 500);
    print({ figure: `/changes, ${what}, ${MESSAGES} messages, median`, value: middle, unit: "ms", toReach: "5" });
    print({ figure: `/changes, ${what}, ${MESSAGES} messages, p99`, value: p99, unit: "ms" });
  }
  sqlite.close();
  await server.kill("SIGTERM");
}
