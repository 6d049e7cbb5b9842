/**
 * The shape of requests and answers, for REST and MCP alike: reads query text strictly, checks values against an
 * operation's schemas, and refuses with the name of the wrong field and the values that it takes.
 *
 * Elysia's own validation does not fit: it converts text ("1e1" becomes a number), takes one of two parameters with the
 * same name, quotes the wrong value of an answer, which may be mail, in its error, and would check the shape before the
 * scope.
 */
import { AppError } from "../base/errors.ts";
import { compileSchemaCheck, type Fault, type ObjectSchema, type Schema } from "../base/json-schema.ts";
import { A_TIME } from "../base/time.ts";
import { type AppOperation, isMediaType, type Operation } from "./operation.ts";

/** Writes " of …" with the bounds of a length, if there are any. */
function ofLength(least: number | undefined, most: number | undefined, what: string): string {
  if (most === undefined) return "";
  return least === undefined ? ` of at most ${most} ${what}` : ` of ${least} to ${most} ${what}`;
}

/** Describes the values of a schema, as the end of a sentence with "must be". */
function expectation(schema: Schema): string {
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(", ")}`;
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map(expectation).join(" or ");
  switch (schema.type) {
    case "null":
      return "null";
    case "boolean":
      return "true or false";
    case "integer":
      return `a whole number from ${schema.minimum} to ${schema.maximum}`;
    case "array":
      return `a list${ofLength(schema.minItems, schema.maxItems, "items")}${schema.uniqueItems ? ", each once" : ""}`;
    case "string":
      if (schema.format === "date-time") return A_TIME;
      return `text${ofLength(schema.minLength, schema.maxLength, "characters")}`;
    default:
      return "a JSON object";
  }
}

/** Writes a path as `labels[3]`. Cuts it, because the client chose the name of an unknown field. */
function formatFieldPath([name = "", ...rest]: string[]): string {
  const field = name + rest.map((part) => `[${part}]`).join("");
  return field.length > 80 ? `${field.slice(0, 80)}…` : field;
}

function toFaultError({ kind, path, schema }: Fault, root: Schema): AppError {
  const fields = Object.keys(root.properties ?? {}).join(", ");
  const field = formatFieldPath(path);
  switch (kind) {
    case "missing":
      return new AppError("bad_request", `${field} is required`);
    case "unknown":
      return new AppError("bad_request", `${field} is not a field of this request: it takes ${fields || "none"}`);
    case "empty":
      return new AppError("bad_request", `The body needs at least one of ${fields}`);
    case "wrong":
      return new AppError("bad_request", `${path.length === 0 ? "The body" : field} must be ${expectation(schema)}`);
  }
}

/** Compiles the check of a request's values against a schema. It throws AppError bad_request. */
export function compileShapeCheck(schema: Schema): (value: unknown) => void {
  const findFault = compileSchemaCheck(schema, "request");
  return (value) => {
    const fault = findFault(value);
    if (fault) throw toFaultError(fault, schema);
  };
}

/** A request's values, before they are checked. */
export interface Unchecked {
  params: unknown;
  query: unknown;
  body: unknown;
}

/** Compiles the check of a request for an operation. It throws AppError bad_request. */
export function compileInputCheck({
  params,
  query,
  body,
  checkBody,
}: Operation | AppOperation): (given: Unchecked) => void {
  const checkParams = compileShapeCheck(params);
  const checkQuery = compileShapeCheck(query);
  const checkShape = body && compileShapeCheck(body);
  return (given) => {
    checkParams(given.params);
    checkQuery(given.query);
    checkShape?.(given.body);
    checkBody?.(given.body);
  };
}

/** Compiles the check of answers: where and how one differs from the document; undefined when it does not. */
export function compileAnswerCheck({ response }: Operation): (answer: unknown) => string | undefined {
  if (isMediaType(response)) return () => undefined;
  const findFault = compileSchemaCheck(response, "answer");
  return (answer) => {
    const fault = findFault(answer);
    // The text never has the value, which may be mail.
    return fault && `/${fault.path.join("/")}: ${fault.message}`;
  };
}

const WHOLE_NUMBER = /^-?\d{1,15}$/;

function readText(text: string, { type }: Schema): unknown {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (type === "integer" && WHOLE_NUMBER.test(text)) return Number(text);
  // Other text stays as it is. The check refuses it when the schema is not a string.
  return text;
}

/**
 * Reads the values of a query string (without `?`), with the types of the schema. Leaves out parameters that the schema
 * does not have (rules: Parameters).
 * @throws AppError bad_request for a parameter given twice, since choosing one would be a guess
 */
export function readQueryParameters(text: string, schema: ObjectSchema): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  if (text === "") return values;
  const given = new URLSearchParams(text);
  for (const [name, type] of Object.entries(schema.properties)) {
    const [value, ...more] = given.getAll(name);
    if (more.length > 0) {
      throw new AppError("bad_request", `${name} is given ${more.length + 1} times: give it once`);
    }
    if (value !== undefined) values[name] = readText(value, type);
  }
  return values;
}
