/** Webhook endpoints in settings, and the log of their deliveries (rules: Events, Webhook delivery states). */

import { type Delivery, type Developers, type Endpoint, EVENT_NAMES } from "../../admin/developers.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { DeliveryView, SecretView, WebhookListView, WebhookView } from "../developer-views.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, done, isoOf, workspaceOf } from "./asked.ts";

export interface WebhookParts {
  store: Pick<Store, "db" | "transact">;
  developers: Developers;
  runtime: { now(): number };
}

/** As much of the log as a page shows. */
const MOST_DELIVERIES = 100;

const readWebhook = bodyOf(t.Object({ url: t.String({ maxLength: 2_048 }), events: t.Array(t.String()) }));
const readChange = bodyOf(
  t.Object({
    url: t.Optional(t.String({ maxLength: 2_048 })),
    events: t.Optional(t.Array(t.String())),
    disabled: t.Optional(t.Boolean()),
  }),
);
const readTest = bodyOf(t.Object({ event: t.Optional(t.String()) }));
const readOverlap = bodyOf(t.Object({ overlapHours: t.Number() }));

const maybeIso = (ms: number | null): string | null => (ms === null ? null : isoOf(ms));

const webhookView = ({ id, url, events, state, exhausted, disabledAt, createdAt }: Endpoint): WebhookView => ({
  ...{ id, url, events, exhausted, disabled: state === "disabled" },
  disabledAt: maybeIso(disabledAt),
  createdAt: isoOf(createdAt),
});

const secretView = ({ secret, previousSecret, previousUntil }: Endpoint, now: number): SecretView => ({
  secret,
  ...(previousSecret !== null &&
    previousUntil !== null &&
    previousUntil > now && { previous: { secret: previousSecret, until: isoOf(previousUntil) } }),
});

const deliveryView = ({ id, event, eventId, eventSeq, state, attempts, leased, ...rest }: Delivery): DeliveryView => ({
  ...{ id, event, eventId, state, attempts, test: eventSeq === null, attempting: leased },
  nextAttemptAt: leased ? null : maybeIso(rest.dueAt),
  ...{ status: rest.status, response: rest.response, error: rest.error },
  createdAt: isoOf(rest.createdAt),
  finishedAt: maybeIso(rest.finishedAt),
});

export function webhookRoutes({ store, developers, runtime }: WebhookParts): Route[] {
  /** The endpoint of that address. @throws AppError not_found, also for one of another workspace */
  const endpointOf = (asked: Asked): Endpoint => developers.webhook(asked.params.id ?? "", workspaceOf(asked));

  return [
    {
      method: "GET",
      path: "/webhooks",
      run: (asked): WebhookListView => ({
        webhooks: developers.listWebhooks(workspaceOf(asked)).map(webhookView),
        events: EVENT_NAMES,
      }),
    },
    {
      // Body {url, events}.
      method: "POST",
      path: "/webhooks",
      async run(asked): Promise<WebhookView> {
        const given = await readWebhook(asked);
        const added = store.transact((tx) => {
          asked.requireConfirmed(tx);
          return developers.addWebhook(tx, { ...given, workspaceId: workspaceOf(asked) });
        });
        return webhookView(added);
      },
    },
    { method: "GET", path: "/webhooks/:id", run: (asked) => webhookView(endpointOf(asked)) },
    {
      // Body {url, events, disabled}, of which some may be missing.
      method: "PATCH",
      path: "/webhooks/:id",
      async run(asked): Promise<WebhookView> {
        const { disabled, ...target } = await readChange(asked);
        const { id, url } = endpointOf(asked);
        const changed = store.transact((tx) => {
          if (target.url !== undefined && target.url !== url) asked.requireConfirmed(tx);
          const endpoint = developers.changeWebhook(tx, id, target);
          if (disabled === undefined) return endpoint;
          return disabled ? developers.disableWebhook(tx, id) : developers.enableWebhook(tx, id);
        });
        return webhookView(changed);
      },
    },
    {
      method: "DELETE",
      path: "/webhooks/:id",
      run(asked) {
        store.transact((tx) => developers.removeWebhook(tx, endpointOf(asked).id));
        return done();
      },
    },
    {
      method: "GET",
      path: "/webhooks/:id/secret",
      run(asked): SecretView {
        const endpoint = endpointOf(asked);
        asked.requireConfirmed(store.db);
        return secretView(endpoint, runtime.now());
      },
    },
    {
      // Body {overlapHours}: how long the secret before is good as well.
      method: "POST",
      path: "/webhooks/:id/secret",
      async run(asked): Promise<SecretView> {
        const { overlapHours } = await readOverlap(asked);
        const rotated = store.transact((tx) => {
          const { id } = endpointOf(asked);
          asked.requireConfirmed(tx);
          return developers.rotateWebhookSecret(tx, id, overlapHours);
        });
        return secretView(rotated, runtime.now());
      },
    },
    {
      // Body {event}: the first that it is told of, if none is named.
      method: "POST",
      path: "/webhooks/:id/test",
      async run(asked) {
        const { event } = await readTest(asked);
        return store.transact((tx) => developers.testWebhook(tx, endpointOf(asked).id, event));
      },
    },
    {
      // Newest first.
      method: "GET",
      path: "/webhooks/:id/deliveries",
      run: (asked) => ({
        deliveries: developers.listDeliveries(endpointOf(asked).id, { limit: MOST_DELIVERIES }).map(deliveryView),
      }),
    },
    {
      method: "POST",
      path: "/deliveries/:id/resend",
      run: (asked) =>
        deliveryView(store.transact((tx) => developers.resendDelivery(tx, asked.params.id ?? "", workspaceOf(asked)))),
    },
  ];
}
