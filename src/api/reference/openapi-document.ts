/** The parts of an OpenAPI document that the reference reads, and finding them. api/openapi.ts writes the document. */
export interface Schema {
  $ref?: string;
  /** Several in the arguments of tools. */
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: (string | boolean)[];
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

export interface ResponseObject {
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
  responses: Record<string, ResponseObject | Reference>;
}

export interface ApiDocument {
  info: { title: string; version: string; description: string };
  servers: [{ url: string }];
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, { post: Operation }>;
  components: { schemas: Record<string, Schema>; responses: Record<string, ResponseObject> };
}

/** An operation with its method and path. */
export interface Endpoint {
  /** The HTTP method in upper case. */
  method: string;
  path: string;
  operation: Operation;
}

export const listApiEndpoints = ({ paths }: ApiDocument): Endpoint[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

/** Turns `listThreads` into `List threads`. */
export function formatOperationTitle({ operationId }: Operation): string {
  const words = operationId.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Turns `#/components/schemas/Thread` into `Thread`. */
export const schemaNameInRef = (ref: string): string => ref.slice(ref.lastIndexOf("/") + 1);

/** Follows the reference of a schema, if it is one. @throws Error for a reference that leads nowhere */
export function resolveSchemaRef({ components }: ApiDocument, schema: Schema): Schema {
  if (schema.$ref === undefined) return schema;
  const found = components.schemas[schemaNameInRef(schema.$ref)];
  if (!found) throw new Error(`${schema.$ref} leads nowhere`);
  return found;
}

export function resolveResponseRef({ components }: ApiDocument, response: ResponseObject | Reference): ResponseObject {
  if (!("$ref" in response)) return response;
  const found = components.responses[schemaNameInRef(response.$ref)];
  if (!found) throw new Error(`${response.$ref} leads nowhere`);
  return found;
}

/** Finds the response of success, with its status. */
export function getSuccessResponse({ responses, operationId }: Operation): {
  status: string;
  response: ResponseObject;
} {
  const [status, response] = Object.entries(responses).find(([code]) => code.startsWith("2")) ?? [];
  if (status === undefined || !response || "$ref" in response) throw new Error(`${operationId} never succeeds`);
  return { status, response };
}
