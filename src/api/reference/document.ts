/** The parts of the OpenAPI document that the reference reads (api/openapi.ts writes it), and looking them up. */

export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  enum?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  anyOf?: Schema[];
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
}

interface Reference {
  $ref: string;
}

export interface Answer {
  description: string;
  content?: Record<string, { schema: Schema }>;
}

export interface Operation {
  operationId: string;
  tags?: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: { content: { "application/json": { schema: Schema; example?: unknown } } };
  responses: Record<string, Answer | Reference>;
}

export interface ApiDocument {
  info: { title: string; version: string; description: string };
  servers: [{ url: string }];
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, { post: Operation }>;
  components: { schemas: Record<string, Schema>; responses: Record<string, Answer> };
}

/** An operation and where it is. */
export interface Endpoint {
  /** In upper case. */
  method: string;
  path: string;
  operation: Operation;
}

export const endpointsOf = ({ paths }: ApiDocument): Endpoint[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

/** `Thread` of `#/components/schemas/Thread`. */
export const nameOfRef = (ref: string): string => ref.slice(ref.lastIndexOf("/") + 1);

/** The schema itself, which may stand elsewhere under a name. @throws Error for a reference that leads nowhere */
export function schemaBehind({ components }: ApiDocument, schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const found = components.schemas[nameOfRef(schema.$ref)];
  if (!found) throw new Error(`${schema.$ref} leads nowhere`);
  return found;
}

export function answerBehind({ components }: ApiDocument, answer: Answer | Reference): Answer {
  if (!("$ref" in answer)) return answer;
  const found = components.responses[nameOfRef(answer.$ref)];
  if (!found) throw new Error(`${answer.$ref} leads nowhere`);
  return found;
}

/** The answer of success, with its status. */
export function successOf({ responses, operationId }: Operation): { status: string; answer: Answer } {
  const [status, answer] = Object.entries(responses).find(([code]) => code.startsWith("2")) ?? [];
  if (status === undefined || !answer || "$ref" in answer) throw new Error(`${operationId} never succeeds`);
  return { status, answer };
}
