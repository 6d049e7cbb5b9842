/** `mailroom webhook …` */

import { DEFAULT_OVERLAP_HOURS, DELIVERY_STATES, type Endpoint, EVENT_NAMES } from "../admin/developers.ts";
import { UsageError } from "../base/errors.ts";
import { deliveryView } from "../operations/admin/webhooks.ts";
import { command } from "./command.ts";
import { isoOf } from "./output.ts";
import type { Session } from "./session.ts";
import { WORKSPACE, workspaceFor, workspaceIdOf, workspaceNames } from "./workspace.ts";

const ENDPOINT = { id: "ID" } as const;

function presenter(session: Session) {
  const names = workspaceNames(session);
  return ({ id, url, events, state, exhausted, disabledAt, createdAt, workspaceId }: Endpoint) => ({
    id,
    url,
    events,
    state,
    exhausted,
    disabledAt: isoOf(disabledAt),
    workspace: names.get(workspaceId),
    createdAt: isoOf(createdAt),
  });
}

/** The secret, and during an overlap the previous one with its end. */
const secretsOf = ({ id, secret, previousSecret, previousUntil }: Endpoint, now: number) => ({
  id,
  secret,
  ...(previousUntil !== null && previousUntil > now && { previousSecret, previousUntil: isoOf(previousUntil) }),
});

/** @throws UsageError */
function numberOf(option: string, text: string, isRight: (value: number) => boolean, what: string): number {
  const value = Number(text);
  if (text.trim() === "" || !isRight(value)) throw new UsageError(`--${option} is "${text}": give ${what}`);
  return value;
}

export const webhookCommands = [
  command({
    name: "webhook add",
    summary: "Tell a URL of events; prints the secret that they are signed with",
    options: {
      url: { value: "URL", required: true, summary: "Where to; https is advised" },
      events: { value: EVENT_NAMES, list: true, required: true, summary: "What it is told of" },
      ...WORKSPACE,
    },
    run(session, { options: { url, events, workspace } }) {
      const { store, developers } = session.appliance;
      const workspaceId = workspaceFor(session, workspace);
      const endpoint = store.transact((tx) => developers.addWebhook(tx, { workspaceId, url, events }));
      const { id, ...rest } = presenter(session)(endpoint);
      return { id, secret: endpoint.secret, ...rest };
    },
  }),
  command({
    name: "webhook list",
    summary: "List the webhook endpoints",
    options: WORKSPACE,
    columns: ["id", "url", "events", "state", "exhausted", "workspace"],
    run: (session, { options }) =>
      session.appliance.developers.listWebhooks(workspaceIdOf(session, options.workspace)).map(presenter(session)),
  }),
  command({
    name: "webhook test",
    summary: "Send a signed sample event to an endpoint, once",
    arguments: ENDPOINT,
    options: { event: { value: EVENT_NAMES, summary: "Its kind; by default the first that the endpoint is told of" } },
    run({ appliance: { store, developers } }, { arguments: { id }, options }) {
      const test = store.transact((tx) => developers.testWebhook(tx, id, options.event));
      return { id: test.id, webhook: id, event: test.event, eventId: test.eventId, state: "pending" };
    },
  }),
  command({
    name: "webhook enable",
    summary: "Switch an endpoint on again that was disabled",
    arguments: ENDPOINT,
    run(session, { arguments: { id } }) {
      const { store, developers } = session.appliance;
      return presenter(session)(store.transact((tx) => developers.enableWebhook(tx, id)));
    },
  }),
  command({
    name: "webhook remove",
    summary: "Remove an endpoint with its deliveries",
    arguments: ENDPOINT,
    run({ appliance: { store, developers } }, { arguments: { id } }) {
      const { url } = developers.webhook(id);
      store.transact((tx) => developers.removeWebhook(tx, id));
      return { id, url, removed: true };
    },
  }),
  command({
    name: "webhook secret",
    summary: "Show the secret of an endpoint, or put a new one in its place",
    arguments: ENDPOINT,
    options: {
      rotate: { summary: "Make a new secret" },
      overlap: {
        value: "HOURS",
        summary: `How long the one before is good as well; ${DEFAULT_OVERLAP_HOURS} unless told, 0 for not at all`,
      },
    },
    run({ appliance: { store, developers }, runtime }, { arguments: { id }, options: { rotate, overlap } }) {
      if (!rotate && overlap !== undefined) throw new UsageError("--overlap goes with --rotate");
      if (!rotate) return secretsOf(developers.webhook(id), runtime.now());
      const isHours = (value: number) => value >= 0;
      const hours =
        overlap === undefined ? DEFAULT_OVERLAP_HOURS : numberOf("overlap", overlap, isHours, "a number of hours");
      return secretsOf(
        store.transact((tx) => developers.rotateWebhookSecret(tx, id, hours)),
        runtime.now(),
      );
    },
  }),
  command({
    name: "webhook deliveries",
    summary: "List the deliveries to an endpoint, newest first",
    arguments: ENDPOINT,
    options: {
      state: { value: DELIVERY_STATES, summary: "Only these" },
      limit: { value: "N", summary: "At most so many" },
    },
    columns: ["id", "event", "state", "attempts", "status", "error", "nextAttemptAt", "createdAt"],
    run({ appliance }, { arguments: { id }, options: { state, limit } }) {
      const isCount = (value: number) => Number.isInteger(value) && value > 0;
      const most = limit === undefined ? undefined : numberOf("limit", limit, isCount, "a whole number above 0");
      const filter = { ...(most !== undefined && { limit: most }), ...(state !== undefined && { state }) };
      return appliance.developers.listDeliveries(id, filter).map(deliveryView);
    },
  }),
  command({
    name: "webhook resend",
    summary: "Send a delivery once more, now, with the same payload and event id",
    arguments: { id: "DELIVERY" },
    run({ appliance: { store, developers } }, { arguments: { id } }) {
      return deliveryView(store.transact((tx) => developers.resendDelivery(tx, id)));
    },
  }),
];
