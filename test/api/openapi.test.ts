/** The OpenAPI document (rules: OpenAPI document): it agrees with the rules, and with the responses of the server. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describeApi } from "../../src/api/openapi.ts";
import { ADMIN_API, EXT_API, MAIL_API } from "../../src/api/surfaces.ts";
import { EVENT_NAMES } from "../../src/events/kinds.ts";
import { MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { faults, type JsonObject, nodesOf, resolve } from "../harness/clients/schema-validator.ts";
import { startApi } from "../harness/servers/api-setup.ts";
import { fakeSending } from "../harness/servers/fake-sending.ts";

const document = describeApi(MAIL_API, "https://mail.example.test") as JsonObject;
const paths = document.paths as Record<string, Record<string, JsonObject>>;
const schemas = (document.components as JsonObject).schemas as Record<string, JsonObject>;

const operationAt = (method: string, path: string): JsonObject => {
  const operation = paths[path]?.[method.toLowerCase()];
  if (!operation) throw new Error(`the document has no ${method} ${path}`);
  return operation;
};

test("the document is OpenAPI 3.1, in version 1.1.0, and consists of JSON values", () => {
  expect(document).toMatchObject({
    openapi: "3.1.0",
    info: { title: "Mailroom", version: "1.1.0" },
    servers: [{ url: "https://mail.example.test/api/v1" }],
    components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
  });
  expect(JSON.parse(JSON.stringify(document))).toEqual(document);
});

test.each([MAIL_API, EXT_API, ADMIN_API])(
  "$title: describes its groups of operations, and names its licence",
  (surface) => {
    const { info, tags } = describeApi(surface, "https://mail.example.test") as {
      info: JsonObject;
      tags: { name: string; description?: string }[];
    };
    expect(info.license).toEqual({ name: "MIT", identifier: "MIT" });
    expect(tags.map(({ name }) => name)).toEqual([...new Set(surface.operations.map(({ group }) => group))]);
    for (const { description = "" } of tags) expect(description).toMatch(/^[A-Z].*\w$/);
  },
);

test("no field of an object has a default, which some generators require then, and others always send", () => {
  const found = [MAIL_API, EXT_API, ADMIN_API].flatMap((surface) =>
    [...nodesOf(describeApi(surface, "https://mail.example.test") as JsonObject)]
      .flatMap(({ properties }) => Object.entries((properties ?? {}) as Record<string, JsonObject>))
      .filter(([, schema]) => schema.default !== undefined),
  );
  expect(found).toEqual([]);
});

test("no object says which fields it needs by anyOf, which generators skip", () => {
  const found = [MAIL_API, EXT_API, ADMIN_API].flatMap((surface) =>
    [...nodesOf(describeApi(surface, "https://mail.example.test") as JsonObject)].filter(
      ({ anyOf, type }) => anyOf !== undefined && type !== undefined,
    ),
  );
  expect(found).toEqual([]);
});

test("every reference leads to a component, and every component is referenced", () => {
  const references = new Set([...nodesOf(document)].flatMap(({ $ref }) => (typeof $ref === "string" ? [$ref] : [])));
  expect(references.size).toBeGreaterThan(15);
  for (const reference of references) expect(resolve(document, reference)).toBeObject();
  const components = Object.entries(document.components as Record<string, JsonObject>)
    .filter(([kind]) => kind !== "securitySchemes")
    .flatMap(([kind, named]) => Object.keys(named).map((name) => `#/components/${kind}/${name}`));
  expect(components.filter((name) => !references.has(name))).toEqual([]);
});

test("the document has the required fields of 3.1, and none of 3.0", () => {
  const names: string[] = [];
  for (const [path, methods] of Object.entries(paths)) {
    expect(path).toMatch(/^(\/(\w+|\{\w+\}))+$/);
    for (const [method, operation] of Object.entries(methods)) {
      expect(method).toMatch(/^(get|patch|post)$/);
      names.push(operation.operationId as string);
      const parameters = (operation.parameters ?? []) as JsonObject[];
      const inPath = parameters.filter((parameter) => parameter.in === "path");
      expect(inPath.map(({ name, required }) => [name, required])).toEqual(
        [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name as string, true]),
      );
      for (const { name, schema } of parameters)
        expect([name, schema]).toEqual([expect.any(String), expect.any(Object)]);
      for (const [status, answer] of Object.entries(operation.responses as JsonObject)) {
        expect(status).toMatch(/^([2-5]\d\d|default)$/);
        const { $ref } = answer as JsonObject;
        const response = typeof $ref === "string" ? resolve(document, $ref) : (answer as JsonObject);
        expect(response.description).toBeString();
        expect(Object.keys(response.headers as JsonObject)).toEqual(
          expect.arrayContaining([
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "RateLimit",
            "RateLimit-Policy",
            "X-Request-Id",
          ]),
        );
      }
    }
  }
  expect(new Set(names).size).toBe(names.length);
  const outdated = [...nodesOf(document)]
    .flatMap((node) => Object.keys(node))
    .filter((key) => /^(nullable|\$id)$/.test(key));
  expect(outdated).toEqual([]);
});

describe("the operations of the rules", () => {
  const LIST_FOLDERS = ["inbox", "sent", "drafts", "archive", "spam", "trash", "starred", "snoozed", "all"];
  const FOLDERS = LIST_FOLDERS.slice(0, 6);
  const string = { type: "string" };
  const filled = { type: "string", minLength: 1 };
  const boolean = { type: "boolean" };
  const limit = { type: "integer", minimum: 1, maximum: 100, default: 25 };
  const q = { type: "string", maxLength: 500 };
  const sort = { type: "string", enum: ["newest", "relevance"], default: "newest" };
  const html = { type: "boolean", default: true };
  const SENDING = [400, 401, 403, 404, 409, 413, 422, 423, 429, 502, 507];
  const table: [
    name: string,
    method: string,
    path: string,
    scope: string,
    query: Record<string, object>,
    refusals: number[],
  ][] = [
    ["listMailboxes", "GET", "/mailboxes", "read", {}, [401, 403, 404, 429]],
    [
      "listThreads",
      "GET",
      "/threads",
      "read",
      {
        mailbox: filled,
        // inbox is the default without q alone.
        folder: { type: "string", enum: LIST_FOLDERS },
        unread: boolean,
        label: string,
        hasAttachments: boolean,
        q,
        sort,
        cursor: filled,
        limit,
      },
      [400, 401, 403, 404, 429],
    ],
    ["getThread", "GET", "/threads/{id}", "read", { html }, [401, 403, 404, 429]],
    ["updateThread", "PATCH", "/threads/{id}", "write", {}, [400, 401, 403, 404, 422, 429]],
    [
      "listMessages",
      "GET",
      "/messages",
      "read",
      {
        mailbox: { type: "string", format: "email" },
        folder: { type: "string", enum: FOLDERS },
        direction: { type: "string", enum: ["inbound", "outbound"] },
        messageId: { type: "string", maxLength: 1_000 },
        threadId: { type: "string", maxLength: 100 },
        from: { type: "string", maxLength: 320 },
        after: { ...filled, maxLength: 100 },
        waitSeconds: { type: "integer", minimum: 0, maximum: 50 },
        limit,
      },
      [401, 403, 404, 429],
    ],
    ["getMessage", "GET", "/messages/{id}", "read", { html }, [401, 403, 404, 429]],
    ["getRawMessage", "GET", "/messages/{id}/raw", "read", {}, [401, 403, 404, 429]],
    ["getAttachment", "GET", "/attachments/{id}", "read", {}, [401, 403, 404, 429]],
    [
      "searchMail",
      "GET",
      "/search",
      "read",
      { q, mailbox: filled, folder: { type: "string", enum: LIST_FOLDERS }, sort, cursor: filled, limit },
      [400, 401, 403, 404, 429],
    ],
    ["replyToThread", "POST", "/threads/{id}/reply", "send", {}, SENDING],
    ["draftReply", "POST", "/threads/{id}/draft", "write", {}, [400, 401, 403, 404, 413, 422, 429]],
    ["sendEmail", "POST", "/send", "send", {}, SENDING],
  ];
  const SUCCESS: Record<string, string> = { replyToThread: "202", draftReply: "201", sendEmail: "202" };

  test("the document has these operations and no others", () => {
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.sort()).toEqual(table.map(([, method, path]) => `${method} ${path}`).sort());
  });

  test.each(table)("%s", (name, method, path, scope, query, refusals) => {
    const operation = operationAt(method, path);
    expect(operation).toMatchObject({
      operationId: name,
      security: [{ bearer: [scope] }],
      summary: expect.any(String),
    });
    const given = ((operation.parameters ?? []) as JsonObject[]).filter((parameter) => parameter.in === "query");
    expect(Object.fromEntries(given.map((parameter) => [parameter.name, parameter.schema]))).toEqual(query);
    expect(given.filter(({ required }) => required).map((parameter) => parameter.name)).toEqual(
      path === "/search" ? ["q"] : [],
    );
    expect(Object.keys(operation.responses as JsonObject)).toEqual(
      expect.arrayContaining([SUCCESS[name] ?? "200", "default", ...refusals.map(String)]),
    );
  });

  test("operations that send or draft list exactly their statuses", () => {
    for (const [name, method, path, , , refusals] of table.filter(([name]) => SUCCESS[name] !== undefined)) {
      const statuses = Object.keys(operationAt(method, path).responses as JsonObject);
      expect([name, statuses]).toEqual([name, [SUCCESS[name] as string, ...refusals.map(String), "default"]]);
    }
  });

  test("operations stand in their documented order", () => {
    expect(MAIL_OPERATIONS.map(({ name }) => name)).toEqual([
      "listMailboxes",
      "listThreads",
      "getThread",
      "updateThread",
      "replyToThread",
      "draftReply",
      "listMessages",
      "getMessage",
      "getRawMessage",
      "getAttachment",
      "searchMail",
      "sendEmail",
    ]);
  });

  test("sending and replying take an idempotency key and mark replays, drafting does not", () => {
    for (const [path, idempotent] of [
      ["/send", true],
      ["/threads/{id}/reply", true],
      ["/threads/{id}/draft", false],
    ] as const) {
      const { parameters = [], responses } = operationAt("POST", path) as {
        parameters?: JsonObject[];
        responses: Record<string, { headers: JsonObject }>;
      };
      const keys = parameters.filter((parameter) => parameter.in === "header");
      expect([path, keys]).toMatchObject([
        path,
        idempotent
          ? [
              {
                name: "Idempotency-Key",
                required: false,
                description: expect.stringMatching(/repeated/),
                schema: { type: "string", minLength: 1, maxLength: 255 },
              },
            ]
          : [],
      ]);
      const success = responses["202"] ?? responses["201"];
      expect([path, Object.hasOwn(success?.headers ?? {}, "Idempotency-Replayed")]).toEqual([path, idempotent]);
    }
    expect(resolve(document, "#/components/responses/Failure409")).toMatchObject({
      headers: { "Retry-After": { required: false } },
    });
  });

  test("the bodies of sending and drafting need text or html, and may have other fields", () => {
    const ADDRESSES = [{ type: "string" }, { type: "array", items: { type: "string" } }];
    for (const [path, name] of [
      ["/send", "SendRequest"],
      ["/threads/{id}/reply", "ReplyRequest"],
      ["/threads/{id}/draft", "DraftRequest"],
    ] as const) {
      expect(operationAt("POST", path).requestBody).toEqual({
        required: true,
        content: {
          "application/json": { schema: { $ref: `#/components/schemas/${name}` }, example: expect.any(Object) },
          "multipart/form-data": {
            schema: {
              type: "object",
              properties: {
                request: { $ref: `#/components/schemas/${name}` },
                files: {
                  type: "array",
                  items: { type: "string", format: "binary" },
                  description: expect.any(String),
                },
              },
              required: ["request"],
            },
            encoding: { request: { contentType: "application/json" } },
          },
        },
      });
      expect(schemas[name]).toMatchObject({
        properties: {
          from: { type: "string", format: "email" },
          to: { anyOf: ADDRESSES },
          cc: { anyOf: ADDRESSES },
          bcc: { anyOf: ADDRESSES },
          subject: { type: "string" },
          text: { type: "string" },
          html: { type: "string" },
        },
      });
      expect(schemas[name]).not.toHaveProperty("additionalProperties");
    }
    const flag = { type: "boolean", description: expect.any(String) };
    for (const name of ["ReplyRequest", "DraftRequest"]) {
      expect(schemas[name]).toMatchObject({ properties: { replyAll: flag, quote: flag } });
    }
  });

  test("the body of PATCH may have no other fields", () => {
    expect(operationAt("PATCH", "/threads/{id}").requestBody).toEqual({
      required: true,
      content: {
        "application/json": { schema: { $ref: "#/components/schemas/ThreadPatch" }, example: expect.any(Object) },
      },
    });
    expect(schemas.ThreadPatch).toMatchObject({
      additionalProperties: false,
      minProperties: 1,
      properties: {
        folder: { type: "string", enum: ["inbox", "archive", "trash", "spam"] },
        labels: { type: "array", maxItems: 20, items: { type: "string", maxLength: 60 } },
        addLabels: { type: "array", items: { type: "string", maxLength: 60 } },
        removeLabels: { type: "array", items: { type: "string" } },
      },
    });
  });
});

test("each resource and request has its documented fields, required and optional", () => {
  const rows = new Set<string>();
  for (const surface of [MAIL_API, EXT_API]) {
    const { components } = describeApi(surface, "https://mail.example.test") as { components: { schemas: JsonObject } };
    for (const [name, schema] of Object.entries(components.schemas)) {
      if (name.endsWith("Event")) continue;
      const { properties, required = [] } = schema as { properties: JsonObject; required?: string[] };
      const fields = Object.keys(properties).map((field) => `\`${field}${required.includes(field) ? "" : "?"}\``);
      rows.add(`| \`${name}\` | ${fields.join(", ")} |`);
    }
  }
  const [, section = ""] = readFileSync(join(import.meta.dir, "../../docs/rules.md"), "utf8").split(
    "\n### Resources\n",
  );
  const [text = ""] = section.split("\n#");
  expect([...text.matchAll(/^\| `.*$/gm)].map(([row]) => row).sort()).toEqual([...rows].sort());
});

test("each operation with a body has an example, and examples match their schemas", () => {
  const withoutExample = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ requestBody }) => (requestBody ? [(requestBody as { content: JsonObject }).content] : []))
    .filter((content) => !Object.hasOwn(content["application/json"] as JsonObject, "example"));
  const examples = [...nodesOf(document)].filter(
    ({ schema, example }) => schema !== undefined && example !== undefined,
  );
  expect(withoutExample).toEqual([]);
  expect(examples.length).toBeGreaterThan(8);
  expect(examples.flatMap(({ schema, example = null }) => faults(document, schema as JsonObject, example))).toEqual([]);
});

test("each event is described, and has all its fields", () => {
  const webhooks = document.webhooks as Record<string, { post: JsonObject }>;
  expect<string[]>(Object.keys(webhooks)).toEqual(EVENT_NAMES);
  for (const [event, { post }] of Object.entries(webhooks)) {
    const { $ref } = (post.requestBody as { content: { "application/json": { schema: { $ref: string } } } }).content[
      "application/json"
    ].schema;
    const { properties } = resolve(document, $ref) as { properties: { event: JsonObject; data: JsonObject } };
    expect(properties.event.enum).toEqual([event]);
    const { properties: fields, required } = properties.data as { properties: JsonObject; required: string[] };
    expect(Object.keys(fields).sort()).toEqual(required.sort());
    expect((post.parameters as JsonObject[]).map(({ name }) => name)).toContain("X-Service-Signature");
  }
});

test("the server gives the document without a key, and counts the source", async () => {
  const { ask, raw } = await startApi();
  const answer = await ask("/openapi.json", { headers: { authorization: "" } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toStartWith("application/json");
  expect(answer.headers.get("x-ratelimit-limit")).toBe("1000000");
  expect(answer.body).toEqual(describeApi(MAIL_API, "http://mail.example.test"));
  const head = await raw("HEAD /api/v1/openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  expect(head).toStartWith("HTTP/1.1 200");
});

describe("the tag of a document", () => {
  const PATHS = ["/api/v1/openapi.json", "/api/admin/v1/openapi.json"];

  test.each(PATHS)("answers whether it changed (%s)", async (path) => {
    const { ask } = await startApi();
    const open = (method: string, headers: Record<string, string> = {}) =>
      ask(path, { method, headers: { authorization: "", ...headers } });
    const first = await open("GET");
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^W\/"[\w-]{20,}"$/);
    expect(first.headers.get("cache-control")).toBe("no-cache");
    expect((await open("HEAD")).headers.get("etag")).toBe(etag);
    expect((await open("GET", { "accept-encoding": "gzip" })).headers.get("etag")).toBe(etag);

    for (const known of [etag, etag.slice(2), `"other", ${etag}`, `W/"x",${etag.slice(2)} , "y"`, "*"]) {
      for (const method of ["GET", "HEAD"]) {
        const { status, headers, text } = await open(method, { "if-none-match": known });
        expect([known, status, text]).toEqual([known, 304, ""]);
        const kept = ["etag", "cache-control", "vary"].map((name) => headers.get(name));
        expect(kept).toEqual([etag, "no-cache", "accept-encoding"]);
        expect(headers.get("x-ratelimit-limit")).toBe("1000000");
      }
    }
    for (const known of ['"other"', `${etag.slice(0, -2)}"`, etag.replaceAll('"', ""), "", "W/*"]) {
      const { status, body } = await open("GET", { "if-none-match": known });
      expect([known, status, body.openapi]).toEqual([known, 200, "3.1.0"]);
    }
  });

  test("differs from that of the other document", async () => {
    const { ask } = await startApi();
    const [mail, admin] = await Promise.all(PATHS.map((path) => ask(path)));
    expect(mail?.headers.get("etag")).not.toBe(admin?.headers.get("etag") as string);
  });
});

describe("responses of the server match the document", () => {
  const MAIL = `From: "Zoë" <zoe@remote.example>
To: olga@example.test, Max <max@example.test>
Cc: cc@remote.example
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Message-ID: <one@remote.example>
Date: Mon, 05 Jan 2026 08:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: multipart/related; boundary=r

--r
Content-Type: text/html; charset=utf-8

<p>Hello <img src="cid:pic"></p>
--r
Content-Type: image/png
Content-ID: <pic>
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--r--
--b
Content-Type: text/plain; name="notes.txt"
Content-Disposition: attachment; filename="notes.txt"

notes
--b--
`;
  const ODD = ["", "From: nobody at all\n\nhello", "From: <>\nTo: undisclosed-recipients:;\nSubject:\n\n"];

  test("of every operation, refusals included", async () => {
    const { ask, file } = await startApi({ operations: fakeSending().operations });
    const { messageId, threadId } = await file(MAIL);
    for (const odd of ODD) await file(odd);
    const detail = await ask(`/threads/${threadId}`);
    const [first] = detail.body.messages as { attachments: { id: string }[] }[];
    const attachment = first?.attachments[0]?.id;

    const hello = { from: "olga@example.test", to: "zoe@remote.example", text: "Hello" };
    const once = { text: "Hello", idempotencyKey: "once" };
    const requests: [method: string, template: string, path: string, status: number, body?: object][] = [
      ["GET", "/mailboxes", "/mailboxes", 200],
      ["GET", "/threads", "/threads", 200],
      ["GET", "/threads", "/threads?limit=1", 200],
      ["GET", "/threads", "/threads?limit=1000", 400],
      ["GET", "/threads", "/threads?mailbox=nobody@example.test", 404],
      ["GET", "/threads/{id}", `/threads/${threadId}`, 200],
      ["GET", "/threads/{id}", `/threads/${threadId}?html=false`, 200],
      ["GET", "/threads/{id}", "/threads/none", 404],
      ["PATCH", "/threads/{id}", `/threads/${threadId}`, 200, { labels: ["A"], starred: true, read: true }],
      ["PATCH", "/threads/{id}", `/threads/${threadId}`, 400, {}],
      ["GET", "/messages", "/messages", 200],
      ["GET", "/messages/{id}", `/messages/${messageId}`, 200],
      ["GET", "/messages/{id}", "/messages/none", 404],
      ["GET", "/messages/{id}/raw", `/messages/${messageId}/raw`, 200],
      ["GET", "/messages/{id}/raw", "/messages/none/raw", 404],
      ["GET", "/attachments/{id}", `/attachments/${attachment}`, 200],
      ["GET", "/attachments/{id}", "/attachments/none", 404],
      ["GET", "/search", "/search?q=hello", 200],
      ["GET", "/search", "/search?q=subjct:helo", 200],
      ["GET", "/search", "/search", 400],
      ["POST", "/send", "/send", 202, hello],
      ["POST", "/send", "/send", 400, {}],
      ["POST", "/threads/{id}/reply", `/threads/${threadId}/reply`, 202, once],
      ["POST", "/threads/{id}/reply", `/threads/${threadId}/reply`, 202, once],
      ["POST", "/threads/{id}/reply", `/threads/${threadId}/reply`, 422, { ...once, text: "Another" }],
      ["POST", "/threads/{id}/draft", `/threads/${threadId}/draft`, 201, { html: "<p>Hello</p>" }],
      ["POST", "/threads/{id}/draft", `/threads/${threadId}/draft`, 400, { html: "" }],
    ];
    for (const [method, template, path, status, body] of requests) {
      const answer = await ask(path, { method, body });
      expect([path, answer.status]).toEqual([path, status]);
      const documented = (operationAt(method, template).responses as JsonObject)[status] as JsonObject;
      const response = typeof documented.$ref === "string" ? resolve(document, documented.$ref) : documented;
      for (const [header, described] of Object.entries(response.headers as Record<string, JsonObject>)) {
        const { required } = "$ref" in described ? resolve(document, described.$ref as string) : described;
        if (required) expect(answer.headers.has(header)).toBeTrue();
      }
      const [[type, { schema }]] = Object.entries(response.content as object) as [[string, { schema: JsonObject }]];
      if (type !== "*/*") expect(answer.headers.get("content-type")).toStartWith(type);
      if (type === "application/json") {
        expect([path, faults(document, schema, answer.body as JsonObject)]).toEqual([path, []]);
      }
    }
    expect((await ask("/threads")).body.threads).toHaveLength(1 + ODD.length);
  });
});

test("the schema validator of the tests finds faults", () => {
  const schema = { $ref: "#/components/schemas/ThreadPatch" };
  expect(faults(document, schema, { read: true, labels: ["a"] })).toEqual([]);
  expect(faults(document, schema, {})).toHaveLength(1);
  expect(faults(document, schema, { colour: 1, folder: "sent", labels: ["x".repeat(61)], read: "yes" })).toHaveLength(
    4,
  );
  expect(faults(document, { $ref: "#/components/schemas/EmailAddress" }, { email: "none" })).toHaveLength(1);
  expect(() => faults(document, { pattern: "x" }, "x")).toThrow("pattern");
});
