/** The parts of the reference that come from the OpenAPI document: operations, events, and the schemas they are made of. */

import type { EventName } from "../../events/outbox.ts";
import { envelope, sampleOf } from "../../events/payload.ts";
import { Code, Prose } from "./code.tsx";
import {
  type ApiDocument,
  answerBehind,
  type Endpoint,
  endpointsOf,
  nameOfRef,
  type Operation,
  type Parameter,
  type Schema,
  schemaBehind,
  successOf,
} from "./document.ts";
import { curlOf, exampleOf } from "./example.ts";
import { Fields, type Row, rowsOf } from "./fields.tsx";

const PLACES = [
  ["path", "In the path"],
  ["query", "Query"],
  ["header", "Headers"],
] as const;

const rowOf = ({ name, schema, required, description }: Parameter): Row => ({ name, schema, required, description });

function Parameters({ of: { parameters = [] } }: { of: Operation }) {
  return PLACES.map(([place, label]) => {
    const rows = parameters.filter((one) => one.in === place).map(rowOf);
    return rows.length > 0 && <Fields key={place} label={label} rows={rows} given />;
  });
}

function Answers({ document, of: { responses } }: { document: ApiDocument; of: Operation }) {
  return (
    <table className="answers">
      <caption>Answers</caption>
      <thead className="unseen">
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Meaning</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(responses).map(([status, answer]) => {
          const { description, content = {} } = answerBehind(document, answer);
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
                      <a href={`#${nameOfRef(schema.$ref)}`}>{nameOfRef(schema.$ref)}</a>
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
  const body = requestBody && schemaBehind(document, requestBody.content["application/json"].schema);
  const { status, answer } = successOf(operation);
  const schema = answer.content?.["application/json"]?.schema;
  const fields = schema && schema.$ref === undefined ? rowsOf(schema) : [];
  return (
    <section id={operationId} data-find={`${operationId} ${method} ${path} ${summary}`}>
      <div className="said">
        <h3>
          <a href={`#${operationId}`}>{summary}</a>
        </h3>
        <p className="address">
          <span className={`method ${method}`}>{method}</span> <code>{path}</code>
        </p>
        <p>
          <Prose>{description}</Prose>
        </p>
        <Parameters of={operation} />
        {body && <Fields label="Body, as JSON" rows={rowsOf(body)} given />}
        {fields.length > 0 && <Fields label="What comes back" rows={fields} />}
        <Answers document={document} of={operation} />
      </div>
      <div className="shown">
        <Code title="Request" language="shell" text={curlOf(document, endpoint)} />
        {schema && <Code title={status} language="json" text={JSON.stringify(exampleOf(document, schema), null, 2)} />}
      </div>
    </section>
  );
}

/** When the samples happened. */
const SAMPLED_AT = Date.UTC(2026, 2, 2, 9, 30);

function payloadOf(event: EventName): string {
  const data = JSON.stringify(sampleOf(event, SAMPLED_AT));
  const body = envelope({ eventId: "evt_01jn9x5w2b8k5e", event, createdAt: SAMPLED_AT, data });
  return JSON.stringify(JSON.parse(body), null, 2);
}

/** Of an event, with the headers of its delivery. */
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
        <Fields label="Body, as JSON" rows={rowsOf(schemaBehind(document, schema))} />
        <details>
          <summary>Headers of the delivery</summary>
          <Parameters of={post} />
        </details>
      </div>
      <div className="shown">
        <Code title="Body" language="json" text={payloadOf(event)} />
      </div>
    </section>
  );
}

type Schemas = ApiDocument["components"]["schemas"];

const bodyNameOf = ({ requestBody }: Operation): string =>
  nameOfRef(requestBody?.content["application/json"].schema.$ref ?? "");

/** What answers are made of; bodies of requests and of events stand where they are used. */
export function schemasOf(documents: readonly ApiDocument[]): [name: string, schema: Schema][] {
  const operations = documents.flatMap((document) => [
    ...endpointsOf(document).map(({ operation }) => operation),
    ...Object.values(document.webhooks ?? {}).map(({ post }) => post),
  ]);
  const bodies = new Set(operations.map(bodyNameOf));
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
        <Fields label={`Fields of ${name}`} rows={rowsOf(schema)} />
      </div>
    </section>
  );
}
