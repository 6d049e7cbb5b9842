/**
 * Following the events while a webhook is developed: each is read once its transaction has committed, and may be
 * posted as to an endpoint. Nothing is stored, so nothing is attempted again.
 */
import type { Runtime } from "../base/runtime.ts";
import { type Attempted, type AttemptOutcome, attemptWebhookDelivery, newWebhookSecret } from "../events/delivery.ts";
import type { EventName } from "../events/kinds.ts";
import { buildEventEnvelope, eventsSince, latestEvent, type StoredEvent } from "../events/outbox.ts";
import { readDestination } from "../net/destination.ts";
import { type HttpClientParts, openHttpClient } from "../net/http-client.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";

/** The operator chooses the receiver, at any address. */
const EVERYWHERE = ["0.0.0.0/0", "::/0"];
/** Events that are read at once. */
const PORTION = 100;

export interface HeardEvent extends StoredEvent {
  /** The body of a delivery. */
  body: string;
}

/** Posts events to one URL, signed with `secret`. */
export interface Forwarder {
  secret: string;
  /** Makes the one attempt, as to an endpoint. Never rejects. */
  forward(heard: HeardEvent): Promise<AttemptOutcome>;
  close(): void;
}

/** Gives a function that returns, at each call, some of the events since the call before; none when there are no more. */
export function followEvents(
  { db }: Pick<Store, "db">,
  wanted: { workspaceId: string | undefined; events: readonly EventName[] | undefined },
): () => HeardEvent[] | undefined {
  let seen = latestEvent(db);
  return () => {
    const found = eventsSince(db, seen, PORTION);
    if (found.length === 0) return undefined;
    seen = found.at(-1)?.seq ?? seen;
    return found
      .filter(({ workspaceId }) => wanted.workspaceId === undefined || workspaceId === wanted.workspaceId)
      .filter(({ event }) => wanted.events?.includes(event) ?? true)
      .map((event) => ({ ...event, body: buildEventEnvelope(event) }));
  };
}

/** @throws RefusedDestination for a URL that is none */
export function createEventForwarder(
  {
    options,
    runtime,
  }: { options: Pick<Options, "get">; runtime: HttpClientParts["runtime"] & Pick<Runtime, "randomBytes"> },
  url: string,
): Forwarder {
  readDestination(url, EVERYWHERE);
  const http = openHttpClient({ runtime, allow: () => EVERYWHERE });
  const secret = newWebhookSecret(runtime);
  const endpoint: Attempted["endpoint"] = { url, secret, previousSecret: null, previousUntil: null };
  return {
    secret,
    forward: ({ eventId, event, body }) =>
      attemptWebhookDelivery(
        { http, runtime },
        { delivery: { eventId, event, attempts: 0 }, endpoint, body },
        options.get("webhooks.timeoutSeconds") * 1_000,
      ),
    close: () => http.close(),
  };
}
