/** Endpoints of one workspace, events and their deliveries, on a real store. */
import { eq } from "drizzle-orm";
import { makeSampleEventData } from "../../src/events/catalogue.ts";
import type { AttemptOutcome } from "../../src/events/delivery.ts";
import { listEndpointDeliveries } from "../../src/events/delivery-log.ts";
import { recordWebhookAttempts } from "../../src/events/delivery-outcome.ts";
import { claimWebhookDeliveries, type Delivery, endpointsByDue, fanOut } from "../../src/events/delivery-queue.ts";
import { putEndpoint, requireEndpoint } from "../../src/events/endpoints.ts";
import { EVENT_NAMES, type EventName } from "../../src/events/kinds.ts";
import { emitEvent } from "../../src/events/outbox.ts";
import { type DeliveryState, webhookDeliveries, workspaces } from "../../src/store/schema.ts";
import type { Store } from "../../src/store/store.ts";
import { storeInMemory } from "../harness/data/database.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

export const LEASE = START + 60_000;
export const OK = { ok: true, status: 200, response: "ok", ms: 1 };
export const TERMS = { now: START, retrySeconds: [60], disableAfter: 15, timeoutMs: 10_000 };

/**
 * `wanted`: the events of the endpoints `whk_1`, `whk_2` and so on. Events are `evt_1` and so on. `store`: an empty one, by
 * default in memory.
 */
export function openDeliveries(
  endpoints = 2,
  wanted: readonly EventName[] = EVENT_NAMES,
  store: Store = storeInMemory(fakeRuntime()),
) {
  const workspaceId = "wsp_w";
  store.db.insert(workspaces).values({ id: workspaceId, name: "W", createdAt: START }).run();
  store.transact((tx) => {
    for (let i = 1; i <= endpoints; i++) {
      const url = `https://example.com/${i}`;
      putEndpoint(tx, { id: `whk_${i}`, workspaceId, url, events: wanted, secret: "whsec_", now: START });
    }
  });
  const runtime = fakeRuntime();
  const rowOf = (seq: number) => store.db.select().from(webhookDeliveries).where(eq(webhookDeliveries.seq, seq)).get();
  let [made, tests] = [0, 0];
  return {
    store,
    workspaceId,
    newId: () => `whd_${++tests}`,
    happen(count = 1, ...kinds: EventName[]) {
      store.transact((tx) => {
        for (let i = 0; i < count; i++) {
          const event = kinds[i % kinds.length] ?? "message.outbound";
          emitEvent(tx, {
            id: `evt_${++made}`,
            workspaceId,
            event,
            now: START,
            data: makeSampleEventData(event, START) as never,
          });
        }
      });
    },
    fan: (now = START) => store.transact((tx) => fanOut(tx, { ...runtime, now: () => now })),
    claim: (seq: number, count: number, now = START, until = LEASE): Delivery[] =>
      store.transact((tx) => claimWebhookDeliveries(tx, seq, count, now, until).flatMap((one) => rowOf(one) ?? [])),
    /** Records the results of attempts, at `now`. */
    end: (deliveries: readonly Delivery[], outcome: AttemptOutcome = OK, now = START) =>
      store.transact((tx) => {
        recordWebhookAttempts(
          tx,
          deliveries.map((delivery) => ({ delivery, outcome })),
          { ...TERMS, now },
        );
      }),
    log: (id: string, state?: DeliveryState) =>
      listEndpointDeliveries(store.db, requireEndpoint(store.db, id), state === undefined ? {} : { state }),
    due: (upTo = START) => [...endpointsByDue(store.db, upTo)].map(({ seq }) => seq),
    rows: () => store.db.select().from(webhookDeliveries).orderBy(webhookDeliveries.seq).all(),
  };
}
