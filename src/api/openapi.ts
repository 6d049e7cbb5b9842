/**
 * Writes the OpenAPI 3.1 document of an API from its list of operations (rules: OpenAPI document), and for mail the
 * bodies that webhooks deliver (rules: Events).
 *
 * @elysiajs/openapi turns routes into paths and parameters. This file completes them: components (the plugin repeats
 * every schema where it is used), responses with bytes (the plugin calls them text/plain), headers, errors, and JSON as
 * the only type of a body. The plugin reads an Elysia application that serves nothing, since the routes of rest.ts have
 * no schemas: perform.ts checks requests.
 */
import { toOpenAPISchema } from "@elysiajs/openapi";
import { Elysia } from "elysia";
import { type ErrorCode, STATUS_OF_CODE } from "../base/errors.ts";
import { dateTimeSchema, type Schema, t } from "../base/json-schema.ts";
import { EVENT_DATA } from "../events/catalogue.ts";
import { EVENT_NAMES, EVENTS, type EventName } from "../events/kinds.ts";
import { isMediaType, type Operation } from "../operations/operation.ts";
import { Failure, IdempotencyKey } from "../operations/shared-schemas.ts";
import type { Surface } from "./surfaces.ts";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };

const MEANINGS: Record<number, string> = {
  400: "Malformed request: a missing or invalid field, a bad cursor, an unreadable body",
  401: "The key is missing, wrong or revoked, or its creator left the workspace",
  404: "There is no such thing, or this key does not reach it",
  409: "The request conflicts with the state of what it concerns, or one with the same idempotency key is running",
  422: "Valid, and cannot be acted on; or its idempotency key was used for another request",
  423: "Sending is paused for this mailbox or workspace; the message says why",
  429: "Too many requests, or a sending limit is reached: wait as long as Retry-After says",
  502: "The mail server did not accept the message; nothing was sent",
  507: "The mailbox is out of storage",
};

const COMPONENT_HEADERS: JsonObject = {
  RateLimit: { description: "Requests a minute for this key", required: true, schema: { type: "integer" } },
  RateRemaining: { description: "Requests left in this minute", required: true, schema: { type: "integer" } },
  ServiceLimit: {
    description:
      "What is left of the tighter rate, of this key or of its source address: r requests in the next t seconds (draft-ietf-httpapi-ratelimit-headers-11)",
    required: true,
    schema: { type: "string", examples: ['"key";r=117;t=42'] },
  },
  QuotaPolicy: {
    description: "The tighter rate: q requests in w seconds",
    required: true,
    schema: { type: "string", examples: ['"key";q=120;w=60'] },
  },
  RequestId: {
    description: "Id of this request, which the server's log has as `trace`",
    required: true,
    schema: { type: "string" },
  },
  RetryAfter: { description: "Seconds to wait", required: true, schema: { type: "integer", minimum: 1 } },
  Challenge: { description: "The scheme to authenticate with", required: true, schema: { type: "string" } },
};

const describeReplayed = ({ replayed }: Surface): JsonObject => ({
  description: replayed,
  required: false,
  schema: { type: "string", enum: ["true"] },
});

const ref = (kind: string, name: string): JsonObject => ({ $ref: `#/components/${kind}/${name}` });

/** Headers of every answer. */
const COMMON_HEADERS: JsonObject = {
  "X-RateLimit-Limit": ref("headers", "RateLimit"),
  "X-RateLimit-Remaining": ref("headers", "RateRemaining"),
  RateLimit: ref("headers", "ServiceLimit"),
  "RateLimit-Policy": ref("headers", "QuotaPolicy"),
  "X-Request-Id": ref("headers", "RequestId"),
};

/** Returns a value as JSON values: without the symbols of schemas, and without undefined properties. */
const plain = (value: object): JsonObject => JSON.parse(JSON.stringify(value));

const json = (schema: Json, example?: JsonObject): JsonObject => ({
  "application/json": { schema, ...(example && { example }) },
});

/** The content of a request with files beside its JSON body (RFC 7578). */
const formWith = (request: JsonObject): JsonObject => ({
  "multipart/form-data": {
    schema: {
      type: "object",
      properties: {
        request,
        files: {
          type: "array",
          items: { type: "string", format: "binary" },
          description: "Attached after those of request; parts of any name with a filename",
        },
      },
      required: ["request"],
    },
    encoding: { request: { contentType: "application/json" } },
  },
});

/** Replaces each schema that has an `$id` by a reference, and puts the schema into `components` under that name. */
function extractComponents(value: Json, components: JsonObject): Json {
  if (Array.isArray(value)) return value.map((item) => extractComponents(item, components));
  if (typeof value !== "object" || value === null) return value;
  const { $id: name, ...rest } = value;
  const extracted = Object.fromEntries(
    Object.entries(rest).map(([key, part]) => [key, extractComponents(part, components)]),
  );
  if (typeof name !== "string") return extracted;
  components[name] = extracted;
  return ref("schemas", name);
}

/** Moves the description of a parameter from its schema to the parameter, where readers of the document look for it. */
function describeParameter(parameter: Json): JsonObject {
  const { schema, ...rest } = parameter as { schema: JsonObject };
  const { description, ...type } = schema;
  return { ...rest, ...(description !== undefined && { description }), schema: type };
}

const describeKeyHeader = ({ keyDescription: description }: Surface): JsonObject =>
  describeParameter({
    name: "Idempotency-Key",
    in: "header",
    required: false,
    schema: { ...plain(IdempotencyKey), ...(description !== undefined && { description }) },
  });

const OPTIONAL_RETRY_AFTER: JsonObject = { ...(COMPONENT_HEADERS.RetryAfter as JsonObject), required: false };

const nameOfFailure = (status: number): string => `Failure${status}`;

function describeFailure(status: number, meanings: Surface["meanings"]): JsonObject {
  const codes = (Object.keys(STATUS_OF_CODE) as ErrorCode[]).filter((code) => STATUS_OF_CODE[code] === status);
  return {
    description: `${meanings[status] ?? MEANINGS[status]} (${codes.join(", ")})`,
    headers: {
      ...COMMON_HEADERS,
      ...(status === 401 && { "WWW-Authenticate": ref("headers", "Challenge") }),
      ...(status === 429 && { "Retry-After": ref("headers", "RetryAfter") }),
      ...(status === 409 && { "Retry-After": OPTIONAL_RETRY_AFTER }),
    },
    content: json(plain(Failure)),
  };
}

const SERVER_FAILURE: JsonObject = {
  description:
    "server_error: a failure of the service, safe to retry. With 503 and Retry-After it is brief: keep the key and retry",
  headers: { ...COMMON_HEADERS, "Retry-After": OPTIONAL_RETRY_AFTER },
  content: json(plain(Failure)),
};

function describeSuccess(operation: Operation): JsonObject {
  const { response } = operation;
  const content = isMediaType(response)
    ? { [response.mediaType]: { schema: { type: "string", format: "binary" } } }
    : json(plain(response));
  return {
    description: isMediaType(response) ? response.description : operation.summary,
    headers: { ...COMMON_HEADERS, ...(operation.idempotent && { "Idempotency-Replayed": ref("headers", "Replayed") }) },
    content,
  };
}

/** Adds to the plugin's description of an operation (`made`) all that the plugin leaves out. */
function completeOperation(operation: Operation, made: JsonObject, surface: Surface): JsonObject {
  const { parameters: listed = [], requestBody: _, ...rest } = made as { parameters?: Json[]; requestBody?: Json };
  const { query = {}, body } = plain(operation.example ?? {}) as { query?: JsonObject; body?: JsonObject };
  const described = listed.map(describeParameter).map((parameter) => {
    const example = query[String(parameter.name)];
    return parameter.in === "query" && example !== undefined ? { ...parameter, example } : parameter;
  });
  const parameters = [...described, ...(operation.idempotent ? [describeKeyHeader(surface)] : [])];
  return {
    ...rest,
    ...(parameters.length > 0 && { parameters }),
    ...(operation.body && {
      requestBody: {
        required: !operation.bodyOptional,
        content: {
          ...json(plain(operation.body), body),
          ...(operation.takesFiles && formWith(plain(operation.body))),
        },
      },
    }),
    responses: {
      [operation.success]: describeSuccess(operation),
      ...Object.fromEntries(operation.errors.map((status) => [status, ref("responses", nameOfFailure(status))])),
      default: ref("responses", "ServerFailure"),
    },
    // OpenAPI 3.1, Security Requirement Object: for HTTP authentication, the list names the roles that a request needs.
    security: [operation.scope].flat().map((scope) => ({ bearer: [scope] })),
  };
}

/** The headers of a delivery (rules: Webhook headers), with those of Standard Webhooks. */
const EVENT_HEADERS: [name: string, type: string, description: string][] = [
  ["X-Service-Event", "string", "Name of the event"],
  ["X-Service-Delivery", "string", "Id of the event, as in the body"],
  ["X-Service-Attempt", "integer", "1 on the first try"],
  ["X-Service-Timestamp", "integer", "Unix seconds when this attempt was signed"],
  [
    "X-Service-Signature",
    "string",
    "t=<unix>,v1=<hex>: HMAC-SHA256 of `<t>.<raw body>`, keyed with the endpoint's secret. Compare in constant time; refuse a t more than 5 minutes from your clock",
  ],
  ["webhook-id", "string", "Standard Webhooks: id of the event"],
  ["webhook-timestamp", "string", "Standard Webhooks: unix seconds"],
  ["webhook-signature", "string", "Standard Webhooks: v1,<base64>, two of them while the secret is being rotated"],
];

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Turns `message.inbound` into `MessageInbound`. */
const toSchemaName = (event: EventName): string => event.split(".").map(capitalized).join("");

/** The schema of the body that delivers an event. */
const eventSchema = (event: EventName): Schema =>
  t.Object(
    {
      id: t.String({ description: "Of the event: retries and resends repeat it. Act on each id once" }),
      event: t.Unsafe<EventName>({ type: "string", enum: [event] }),
      createdAt: dateTimeSchema(),
      data: EVENT_DATA[event],
    },
    { $id: `${toSchemaName(event)}Event` },
  );

function describeEvent(event: EventName): JsonObject {
  return {
    post: {
      operationId: `on${toSchemaName(event)}`,
      summary: capitalized(EVENTS[event]),
      description:
        "Sent to the endpoints of the workspace that chose it. At least once, in any order: act on each id once.",
      parameters: EVENT_HEADERS.map(([name, type, description]) => ({
        name,
        in: "header",
        required: true,
        description,
        schema: { type },
      })),
      requestBody: { required: true, content: json(plain(eventSchema(event))) },
      responses: {
        "2XX": { description: "Within 10 seconds: delivered" },
        default: { description: "Anything else, a redirect too: tried again, 7 times in all over about 21 hours" },
      },
      security: [],
    },
  };
}

/** Gives an application with the routes and their schemas, for the plugin to read. */
function buildDocumentedRoutes(operations: readonly Operation[]): Elysia {
  const app = new Elysia({ precompile: false });
  for (const { name, group, method, path, scope, summary, description, params, query } of operations) {
    const schema: { params?: Schema; query?: Schema } = {};
    if (Object.keys(params.properties).length > 0) schema.params = params;
    if (Object.keys(query.properties).length > 0) schema.query = query;
    app.route(method, path, () => undefined, {
      ...schema,
      detail: {
        operationId: name,
        tags: [group],
        summary,
        description: [
          description,
          `Needs the scope ${[scope]
            .flat()
            .map((name) => `\`${name}\``)
            .join(" or ")}.`,
        ]
          .filter(Boolean)
          .join(" "),
      },
    } as object);
  }
  return app;
}

/** Describes an API whose server has the public origin `baseUrl`. */
export function describeApi(surface: Surface, baseUrl: string): JsonObject {
  const { operations, groups, prefix, title, version, description, describesEvents, meanings } = surface;
  const made = toOpenAPISchema(buildDocumentedRoutes(operations), undefined, undefined, undefined, "3.1.0");
  const paths = plain(made.paths as object) as Record<string, JsonObject>;
  const schemas: JsonObject = {};
  const completed: JsonObject = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:(\w+)/g, "{$1}");
    const method = operation.method.toLowerCase();
    completed[path] = {
      ...(completed[path] as JsonObject | undefined),
      [method]: completeOperation(operation, paths[path]?.[method] as JsonObject, surface),
    };
  }
  const statuses = [...new Set(operations.flatMap(({ errors }) => errors))].sort();
  const responses: JsonObject = { ServerFailure: SERVER_FAILURE };
  const tags = [...new Set(operations.map(({ group }) => group))].map((name) => ({
    name,
    description: groups[name] ?? "",
  }));
  for (const status of statuses) responses[nameOfFailure(status)] = describeFailure(status, meanings);

  return {
    openapi: "3.1.0",
    info: { title, version, description, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: baseUrl + prefix }],
    tags,
    security: [{ bearer: [] }],
    paths: extractComponents(plain(completed), schemas),
    ...(describesEvents && {
      webhooks: extractComponents(
        Object.fromEntries(EVENT_NAMES.map((event) => [event, describeEvent(event)])),
        schemas,
      ),
    }),
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "A workspace API key, beginning with mr_" },
      },
      headers: { ...COMPONENT_HEADERS, Replayed: describeReplayed(surface) },
      responses: extractComponents(plain(responses), schemas),
      schemas,
    },
  };
}
