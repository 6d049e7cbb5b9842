/** The sections of the reference that are made of operations: the operations themselves, events, tools and schemas. */
import { makeSampleEventData } from "../../events/catalogue.ts";
import type { EventName } from "../../events/kinds.ts";
import { buildEventEnvelope } from "../../events/outbox.ts";
import type { Tool } from "../mcp/tools.ts";
import { Code, Fields, listSchemaRows, Prose, type Row, Snippets } from "./blocks.tsx";
import { exampleIdAt, makeExampleValue } from "./example.ts";
import {
  type ApiDocument,
  type Endpoint,
  formatOperationTitle,
  getSuccessResponse,
  listApiEndpoints,
  type Operation,
  type Parameter,
  resolveResponseRef,
  resolveSchemaRef,
  type Schema,
  schemaNameInRef,
} from "./openapi-document.ts";
import { exampleRequest, listPathPlaceholders, writeRequestSnippets } from "./snippets.ts";

const PLACES = [
  ["path", "In the path"],
  ["query", "Query"],
  ["header", "Headers"],
] as const;

const toParameterRow = ({ name, schema, required, description }: Parameter): Row => ({
  name,
  schema,
  required,
  description,
});

function Parameters({ of: { parameters = [] } }: { of: Operation }) {
  return PLACES.map(([place, label]) => {
    const rows = parameters.filter((one) => one.in === place).map(toParameterRow);
    return rows.length > 0 && <Fields key={place} label={label} rows={rows} given />;
  });
}

function Responses({ document, of: { responses } }: { document: ApiDocument; of: Operation }) {
  return (
    <table className="answers">
      <caption>Responses</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(responses).map(([status, response]) => {
          const { description, content = {} } = resolveResponseRef(document, response);
          const [[type, { schema }] = ["", { schema: {} as Schema }]] = Object.entries(content);
          return (
            <tr key={status}>
              <th scope="row">
                <code>{status === "default" ? "5xx" : status}</code>
              </th>
              <td>
                {description}
                {status.startsWith("2") && (
                  <p>
                    {schema.$ref === undefined ? (
                      schema.format === "binary" && <code>{type}</code>
                    ) : (
                      <a href={`#${schemaNameInRef(schema.$ref)}`}>{schemaNameInRef(schema.$ref)}</a>
                    )}
                  </p>
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

export function OperationSection({ document, endpoint }: { document: ApiDocument; endpoint: Endpoint }) {
  const { method, path, operation } = endpoint;
  const { operationId, summary, description, requestBody } = operation;
  const body = requestBody && resolveSchemaRef(document, requestBody.content["application/json"].schema);
  const { status, response } = getSuccessResponse(operation);
  const schema = response.content?.["application/json"]?.schema;
  const fields = schema && schema.$ref === undefined ? listSchemaRows(schema) : [];
  return (
    <section
      id={operationId}
      data-find={`${operationId} ${formatOperationTitle(operation)} ${method} ${path} ${summary}`}
    >
      <div className="said">
        <h3>
          <a href={`#${operationId}`}>{summary}</a>
        </h3>
        <p className="address">
          <span className={`method ${method}`}>{method}</span> <code>{path}</code> <small>{operationId}</small>
        </p>
        <p>
          <Prose>{description}</Prose>
        </p>
        <Parameters of={operation} />
        {body && <Fields label="Body, as JSON" rows={listSchemaRows(body)} given />}
        {fields.length > 0 && <Fields label="Response, as JSON" rows={fields} />}
        <Responses document={document} of={operation} />
      </div>
      <div className="shown" {...buildTrialData(document, endpoint)}>
        <Snippets of={operationId} what="Request" snippets={writeRequestSnippets(document, endpoint)} />
        {schema && (
          <Code
            title={`Response ${status}`}
            language="json"
            text={JSON.stringify(makeExampleValue(document, schema), null, 2)}
          />
        )}
      </div>
    </section>
  );
}

/** A value in the address of a request, for which the page's script has a field. */
interface TrialField {
  name: string;
  in: "path" | "query";
  required: boolean;
  /** An example; that of a path is a placeholder. */
  example: string;
  choices?: readonly string[];
}

/** Builds the data with which the page's script lets the reader try the operation (app/reference/browser.ts). */
function buildTrialData(document: ApiDocument, endpoint: Endpoint): Record<`data-${string}`, string | undefined> {
  const { method, path, operation } = endpoint;
  const { body } = exampleRequest(document, endpoint);
  const placeholders = listPathPlaceholders(path);
  const fields = (operation.parameters ?? []).flatMap(
    ({ in: place, name, required, example, schema }): TrialField[] => {
      if (place === "header") return [];
      const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : undefined);
      return [
        {
          name,
          in: place,
          required,
          example: place === "path" ? (placeholders[name] ?? name) : String(example ?? ""),
          ...(choices && { choices: choices.map(String) }),
        },
      ];
    },
  );
  return {
    "data-method": method,
    "data-path": new URL(document.servers[0].url).pathname + path,
    "data-fields": JSON.stringify(fields),
    "data-body": body === undefined ? undefined : JSON.stringify(body, null, 2),
  };
}

/** The time of the sample events. */
const SAMPLED_AT = Date.UTC(2026, 2, 2, 9, 30);

function makeSamplePayload(event: EventName): string {
  const data = JSON.stringify(makeSampleEventData(event, SAMPLED_AT));
  const body = buildEventEnvelope({ eventId: "evt_01jn9x5w2b8k5e", event, createdAt: SAMPLED_AT, data });
  return JSON.stringify(JSON.parse(body), null, 2);
}

/** Shows an event, with the headers of its delivery. */
export function EventSection({ document, event }: { document: ApiDocument; event: EventName }) {
  const { post } = document.webhooks?.[event] ?? {};
  if (!post?.requestBody) throw new Error(`the document has no webhook ${event}`);
  const { schema } = post.requestBody.content["application/json"];
  return (
    <section id={post.operationId} data-find={`${event} ${post.summary}`}>
      <div className="said">
        <h3>
          <a href={`#${post.operationId}`}>
            <code>{event}</code>
          </a>
        </h3>
        <p>{post.summary}.</p>
        <Fields label="Body, as JSON" rows={listSchemaRows(resolveSchemaRef(document, schema))} />
        <details>
          <summary>Headers of the delivery</summary>
          <Parameters of={post} />
        </details>
      </div>
      <div className="shown">
        <Code title="Body" language="json" text={makeSamplePayload(event)} />
      </div>
    </section>
  );
}

/** Arguments with which a model may call a tool: those of the operation's example. */
function makeExampleArguments({ operation: { path, example = {} }, listed }: Tool): Record<string, unknown> {
  const { query, body } = example as { query?: object; body?: object };
  const known = Object.keys(listed.inputSchema.properties);
  const given = { ...(known.includes("id") && { id: exampleIdAt(path) }), ...query, ...body };
  return Object.fromEntries(Object.entries(given).filter(([name]) => known.includes(name)));
}

/** Shows a tool of the MCP server. */
export function ToolSection({ tool }: { tool: Tool }) {
  const { name, description, inputSchema, outputSchema } = tool.listed;
  const call = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name, arguments: makeExampleArguments(tool) },
  };
  const inputs = listSchemaRows(inputSchema as Schema);
  return (
    <section id={name} data-find={`${name} tool MCP`}>
      <div className="said">
        <h3>
          <a href={`#${name}`}>
            <code>{name}</code>
          </a>
        </h3>
        <p>{description}</p>
        <p>
          The tool of <a href={`#${tool.operation.name}`}>{tool.operation.summary}</a>, for keys with the scope{" "}
          <code>{[tool.operation.scope].flat().join(" or ")}</code>.
        </p>
        {inputs.length > 0 && <Fields label="Arguments" rows={inputs} given />}
        <Fields label="Structured content" rows={listSchemaRows(outputSchema as Schema)} given />
      </div>
      <div className="shown">
        <Code title="Call" language="json" text={JSON.stringify(call, null, 2)} />
      </div>
    </section>
  );
}

type Schemas = ApiDocument["components"]["schemas"];

const requestBodyName = ({ requestBody }: Operation): string =>
  schemaNameInRef(requestBody?.content["application/json"].schema.$ref ?? "");

/** Gives the schemas of responses by name. The bodies of requests and events stand in their own sections. */
export function listResponseSchemas(documents: readonly ApiDocument[]): [name: string, schema: Schema][] {
  const operations = documents.flatMap((document) => [
    ...listApiEndpoints(document).map(({ operation }) => operation),
    ...Object.values(document.webhooks ?? {}).map(({ post }) => post),
  ]);
  const bodies = new Set(operations.map(requestBodyName));
  return Object.entries(Object.assign({}, ...documents.map(({ components }) => components.schemas)) as Schemas)
    .filter(([name]) => !bodies.has(name))
    .sort(([a], [b]) => a.localeCompare(b));
}

export function SchemaSection({ name, schema }: { name: string; schema: Schema }) {
  return (
    <section id={name} data-find={name}>
      <div className="said">
        <h3>
          <a href={`#${name}`}>{name}</a>
        </h3>
        <Fields label={`Fields of ${name}`} rows={listSchemaRows(schema)} />
      </div>
    </section>
  );
}
