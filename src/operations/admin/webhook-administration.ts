/**
 * Webhook endpoints of a workspace, and the log of their deliveries (rules: Webhook log, Resend, Recovering webhooks).
 */
import * as developers from "../../admin/developers.ts";
import {
  DEFAULT_OVERLAP_HOURS,
  DELIVERY_STATES,
  type Delivery,
  type Endpoint,
  EVENT_NAMES,
  LONGEST_OVERLAP_HOURS,
} from "../../admin/developers.ts";
import { AppError } from "../../base/errors.ts";
import { dateTimeSchema, filledStringSchema, nullable, type Static, stringEnum, t } from "../../base/json-schema.ts";
import { readTimeField, toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { defineOperationCommand, readNumberOption, type Shown } from "../command-line.ts";
import { defineAppOperation, defineOperation } from "../operation.ts";
import { createListReader, nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const eventNames = t.Array(stringEnum(EVENT_NAMES), { minItems: 1, maxItems: EVENT_NAMES.length });
const url = filledStringSchema({
  maxLength: 2_048,
  description: "https is advised; private, loopback and metadata addresses are refused",
});

const fields = {
  id: t.String(),
  url: t.String(),
  events: t.Array(stringEnum(EVENT_NAMES)),
  description: t.String({ description: "For people to read; may be empty" }),
  enabled: t.Boolean({ description: "false once too many deliveries in a row failed, or an admin switched it off" }),
  disabledAt: nullable(dateTimeSchema(), { description: "null while it is enabled" }),
  exhausted: t.Integer({ description: "Deliveries in a row that failed all their attempts" }),
  createdAt: dateTimeSchema(),
};
const Webhook = t.Object(fields, { $id: "Webhook" });

export type WebhookView = Static<typeof Webhook>;

const SECRET = "What deliveries are signed with: shown here once, and not in a replay";
const secret = t.Optional(t.String({ description: SECRET }));
const NewWebhook = t.Object({ ...fields, secret }, { $id: "NewWebhook" });

const toWebhookView = ({ id, events, description, state, disabledAt, exhausted, createdAt, ...endpoint }: Endpoint) =>
  ({
    id,
    url: endpoint.url,
    events: events as WebhookView["events"],
    description,
    enabled: state === "active",
    disabledAt: toIsoTimeOrNull(disabledAt),
    exhausted,
    createdAt: toIsoTime(createdAt),
  }) satisfies WebhookView;

/** An endpoint as the command line shows it, which gives it no description. */
function webhookDocument(webhook: Static<typeof NewWebhook>, { workspace }: Pick<Shown, "workspace">) {
  const { id, secret, url, events, description: _, enabled, ...rest } = webhook;
  const state = enabled ? "active" : "disabled";
  return { id, ...(secret !== undefined && { secret }), url, events, state, ...rest, workspace };
}

const LoggedDelivery = t.Object(
  {
    id: t.String(),
    event: t.String(),
    eventId: t.String({ description: "Retries and resends repeat it" }),
    test: t.Boolean({ description: "Sent by the test operation" }),
    state: stringEnum(DELIVERY_STATES),
    attempts: t.Integer({ description: "Attempts that have ended" }),
    attempting: t.Boolean({ description: "An attempt is under way" }),
    nextAttemptAt: nullable(dateTimeSchema(), { description: "null when none is planned, and during one" }),
    status: nullable(t.Integer(), { description: "HTTP status of the last response" }),
    response: nullable(t.String(), { description: "The start of its body" }),
    error: nullable(t.String(), { description: "Why the last attempt failed" }),
    createdAt: dateTimeSchema(),
    finishedAt: nullable(dateTimeSchema(), { description: "null until it is delivered or has failed" }),
  },
  { $id: "WebhookDelivery" },
);

export type DeliveryView = Static<typeof LoggedDelivery>;

/** A delivery as the log shows it. */
export const webhookDeliveryView = (delivery: Delivery): DeliveryView => {
  const { id, event, eventId, eventSeq, state, attempts, leased, dueAt, status, response, error } = delivery;
  return {
    id,
    event,
    eventId,
    test: eventSeq === null,
    state,
    attempts,
    attempting: leased,
    nextAttemptAt: leased ? null : toIsoTimeOrNull(dueAt),
    status,
    response,
    error,
    createdAt: toIsoTime(delivery.createdAt),
    finishedAt: toIsoTimeOrNull(delivery.finishedAt),
  };
};

const common = { group: "Webhooks", audience: "admin", scope: "admin", whole: ["codes"] } as const;

export const listWebhooks = defineOperation({
  ...common,
  name: "listWebhooks",
  method: "GET",
  path: "/webhooks",
  summary: "List the webhook endpoints, oldest first",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ webhooks: t.Array(Webhook), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook list",
      summary: "List the webhook endpoints",
      columns: ["id", "url", "events", "state", "exhausted", "workspace"],
      sortBy: ["createdAt"],
      document: webhookDocument,
    }),
  ],
  run({ caller: { workspaceId, policy }, core }, { query }) {
    const rowPosition = ({ createdAt, id }: Endpoint) => ({ at: createdAt, id });
    const read = createListReader(developers.listWebhooks(core, workspaceId, policy), rowPosition, "oldest first");
    const { page, nextCursor: next } = readListPage({ query: "webhooks", rowPosition, read }, query);
    return { webhooks: page.map(toWebhookView), nextCursor: next };
  },
});

export const addWebhook = defineOperation({
  ...common,
  name: "addWebhook",
  method: "POST",
  path: "/webhooks",
  summary: "Tell a URL of events",
  body: strictBody({
    url,
    events: eventNames,
    description: t.Optional(t.String({ description: "For people to read, one line" })),
  }),
  example: { body: { url: "https://hooks.example.com/mail", events: ["message.inbound"] } },
  idempotent: true,
  secrets: ["secret"],
  success: 201,
  response: NewWebhook,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook add",
      summary: "Tell a URL of events; prints the secret that they are signed with",
      options: {
        url: { value: "URL", required: true, summary: "Where to; https is advised" },
        events: { value: EVENT_NAMES, list: true, required: true, summary: "What it is told of" },
      },
      input: ({ options: { url, events } }) => ({ body: { url, events: [...new Set(events)] } }),
      document: webhookDocument,
    }),
  ],
  run: ({ act, core, requireConfirmed }, { body }) =>
    act((tx, { workspaceId, policy, keyId: madeBy }) => {
      requireConfirmed(tx);
      const added = developers.addWebhook(core, tx, { ...body, workspaceId, madeBy }, policy);
      return { ...toWebhookView(added), secret: added.secret };
    }),
});

export const getWebhook = defineOperation({
  ...common,
  name: "getWebhook",
  method: "GET",
  path: "/webhooks/:id",
  summary: "Get a webhook endpoint",
  params: BY_ID,
  success: 200,
  response: Webhook,
  errors: READ_ERRORS,
  run: ({ caller, core }, { params: { id } }) => toWebhookView(developers.getWebhookEndpoint(core, id, caller)),
});

export const updateWebhook = defineOperation({
  ...common,
  name: "updateWebhook",
  method: "PATCH",
  path: "/webhooks/:id",
  summary: "Change a webhook endpoint, switch it off or on",
  description:
    "Another URL gets what is waiting as well. One that is disabled is told of nothing, and what waits for it fails; enabled again, it is told of what happens from then on.",
  params: BY_ID,
  body: strictBody(
    { url: t.Optional(url), events: t.Optional(eventNames), enabled: t.Optional(t.Boolean()) },
    { minProperties: 1 },
  ),
  example: { body: { enabled: true } },
  success: 200,
  response: Webhook,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook enable",
      summary: "Switch an endpoint on again that was disabled",
      arguments: { id: "ID" },
      target: "webhook",
      input: () => ({ body: { enabled: true } }),
      document: webhookDocument,
    }),
  ],
  run: ({ act, core, requireConfirmed }, { params: { id }, body: { enabled, ...target } }) =>
    act((tx, caller) => {
      const before = developers.getWebhookEndpoint(core, id, caller);
      if (target.url !== undefined && target.url !== before.url) requireConfirmed(tx);
      const changed = developers.changeWebhook(core, tx, id, { ...target, by: caller.keyId });
      if (enabled === undefined) return toWebhookView(changed);
      return toWebhookView(enabled ? developers.enableWebhook(tx, id) : developers.disableWebhook(core, tx, id));
    }),
});

export const removeWebhook = defineOperation({
  ...common,
  name: "removeWebhook",
  method: "DELETE",
  path: "/webhooks/:id",
  summary: "Remove a webhook endpoint with its deliveries",
  params: BY_ID,
  success: 200,
  response: Done,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook remove",
      summary: "Remove an endpoint with its deliveries",
      arguments: { id: "ID" },
      target: "webhook",
      document: (_, { target: { id, url } }) => ({ id, url, removed: true }),
    }),
  ],
  run: ({ act, core }, { params: { id } }) =>
    act((tx, caller) => {
      developers.removeWebhook(core, tx, developers.getWebhookEndpoint(core, id, caller).id);
      return DONE;
    }),
});

export const testWebhook = defineOperation({
  ...common,
  name: "testWebhook",
  method: "POST",
  path: "/webhooks/:id/test",
  summary: "Send a signed sample event, once",
  params: BY_ID,
  body: strictBody({
    event: t.Optional(
      stringEnum(EVENT_NAMES, { description: "When left out: the first event that the endpoint gets" }),
    ),
  }),
  bodyOptional: true,
  idempotent: true,
  success: 202,
  response: t.Object({
    id: t.String({ description: "Id of the delivery" }),
    event: stringEnum(EVENT_NAMES),
    eventId: t.String(),
    state: stringEnum(["pending"]),
  }),
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook test",
      summary: "Send a signed sample event to an endpoint, once",
      arguments: { id: "ID" },
      options: {
        event: { value: EVENT_NAMES, summary: "Its kind; by default the first that the endpoint is told of" },
      },
      target: "webhook",
      input: ({ options: { event } }) => ({ body: event === undefined ? {} : { event } }),
      document: ({ id, ...rest }: { id: string }, { target }) => ({ id, webhook: target.id, ...rest }),
    }),
  ],
  run: ({ act, core }, { params, body: { event } }) =>
    act((tx, caller) => {
      const webhook = developers.getWebhookEndpoint(core, params.id, caller);
      const test = developers.testWebhook(core, tx, webhook.id, event);
      return { id: test.id, event: test.event, eventId: test.eventId, state: "pending" as const };
    }),
});

export const rotateWebhookSecret = defineOperation({
  ...common,
  name: "rotateWebhookSecret",
  method: "POST",
  path: "/webhooks/:id/secret",
  summary: "Make a new secret",
  description:
    "For `overlapHours` deliveries are signed with the secret before as well; with 0 with the new one alone.",
  params: BY_ID,
  body: strictBody({
    overlapHours: t.Optional(
      t.Number({
        minimum: 0,
        maximum: LONGEST_OVERLAP_HOURS,
        description: `${DEFAULT_OVERLAP_HOURS} unless given`,
      }),
    ),
  }),
  bodyOptional: true,
  idempotent: true,
  secrets: ["secret"],
  success: 200,
  response: t.Object({
    id: t.String(),
    secret,
    previousUntil: nullable(dateTimeSchema(), { description: "The previous secret is valid until then, too" }),
  }),
  errors: WRITE_ERRORS,
  run: ({ act, core, requireConfirmed }, { params, body: { overlapHours = DEFAULT_OVERLAP_HOURS } }) =>
    act((tx, caller) => {
      const { id } = developers.getWebhookEndpoint(core, params.id, caller);
      requireConfirmed(tx);
      const rotated = developers.rotateWebhookSecret(core, tx, id, overlapHours);
      return { id, secret: rotated.secret, previousUntil: toIsoTimeOrNull(rotated.previousUntil) };
    }),
});

const readDeliveryLimit = (limit: string): number =>
  readNumberOption("limit", limit, (value) => Number.isInteger(value) && value > 0, "a whole number above 0");

export const listWebhookDeliveries = defineOperation({
  ...common,
  name: "listWebhookDeliveries",
  method: "GET",
  path: "/webhooks/:id/deliveries",
  summary: "List the deliveries to a webhook endpoint, newest first",
  params: BY_ID,
  query: t.Object({ state: t.Optional(stringEnum(DELIVERY_STATES)), ...PAGE_QUERY }),
  example: { query: { state: "failed" } },
  success: 200,
  response: t.Object({ deliveries: t.Array(LoggedDelivery), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "webhook deliveries",
      summary: "List the deliveries to an endpoint, newest first",
      arguments: { id: "ID" },
      options: {
        state: { value: DELIVERY_STATES, summary: "Only those in this state" },
        limit: { value: "N", summary: "At most this many" },
      },
      columns: ["id", "event", "state", "attempts", "status", "error", "nextAttemptAt", "createdAt"],
      target: "webhook",
      input: ({ options: { state, limit } }) => ({
        query: { ...(state && { state }), ...(limit !== undefined && { limit: readDeliveryLimit(limit) }) },
      }),
      document: (delivery: object) => delivery,
    }),
  ],
  run({ caller, core }, { params, query: { state, ...asked } }) {
    const { id } = developers.getWebhookEndpoint(core, params.id, caller);
    const list = {
      query: ["deliveries", id, state],
      rowPosition: ({ createdAt, seq }: Delivery) => ({ at: createdAt, id: String(seq) }),
      read: (after: { id: string } | undefined, limit: number) =>
        developers.listDeliveries(core, id, { ...(state && { state }), before: after && Number(after.id), limit }),
    };
    const { page, nextCursor: next } = readListPage(list, asked);
    return { deliveries: page.map(webhookDeliveryView), nextCursor: next };
  },
});

export const resendWebhookDelivery = defineOperation({
  ...common,
  name: "resendWebhookDelivery",
  method: "POST",
  path: "/webhooks/:id/deliveries/:delivery/resend",
  summary: "Send a delivery once more, now, with the same payload and event id",
  params: t.Object({ id: filledStringSchema(), delivery: filledStringSchema() }),
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 202,
  response: LoggedDelivery,
  errors: WRITE_ERRORS,
  run: ({ act, core }, { params: { id, delivery } }) =>
    act((tx, caller) => {
      const { workspaceId } = caller;
      const { seq } = developers.getWebhookEndpoint(core, id, caller);
      const resent = developers.resendDelivery(core, tx, delivery, workspaceId);
      if (resent.endpointSeq !== seq) throw new AppError("not_found", `there is no webhook delivery ${delivery}`);
      return webhookDeliveryView(resent);
    }),
});

export const recoverWebhook = defineOperation({
  ...common,
  name: "recoverWebhook",
  method: "POST",
  path: "/webhooks/:id/recover",
  summary: "Send everything again that failed since a time",
  params: BY_ID,
  body: strictBody({ since: dateTimeSchema({ description: "Deliveries that failed then or later are sent again" }) }),
  example: { body: { since: "2026-03-02T09:30:00Z" } },
  idempotent: true,
  success: 202,
  response: t.Object({ resent: t.Integer({ description: "Number of deliveries" }) }),
  errors: WRITE_ERRORS,
  async run({ act, requireAdministers, caller, core }, { params, body }) {
    const since = readTimeField("since", body.since);
    const { id } = developers.getWebhookEndpoint(core, params.id, caller);
    const resent = await developers.recoverWebhook(core, id, since, requireAdministers);
    return act(() => ({ resent }));
  },
});

/**
 * Shows the secret that an endpoint's deliveries are signed with, to a person who proved that it is them (rules: Keys
 * and secrets are shown once).
 */
export const revealWebhookSecret = defineAppOperation({
  name: "revealWebhookSecret",
  audience: "admin",
  method: "GET",
  path: "/webhooks/:id/secret",
  params: BY_ID,
  run({ caller, core, requireConfirmed }, { params: { id } }) {
    const { secret, previousSecret, previousUntil } = developers.getWebhookEndpoint(core, id, caller);
    requireConfirmed(core.db);
    const isRotating = previousSecret !== null && previousUntil !== null && previousUntil > core.now();
    return { secret, ...(isRotating && { previous: { secret: previousSecret, until: toIsoTime(previousUntil) } }) };
  },
});
