/**
 * The shape of requests and answers: reads query text strictly, checks values against an operation's schemas, and says
 * in a refusal which field is wrong and what it takes. The same for REST and MCP.
 *
 * Why not Elysia's own validation: it coerces ("1e1" is a number to it), takes one of two equal parameters, quotes the
 * offending value, mail included, in the error for a wrong answer, and would check the shape before the scope.
 */
import { AppError } from "../base/errors.ts";
import { compile, type Fault, type ObjectSchema, type Schema } from "./json-schema.ts";
import { isMediaType, type Operation } from "./operation.ts";

/** Where a value stands in the request. */
type Place = "params" | "query" | "body";

/** The checks of one operation. */
export interface Shape {
  /** @throws AppError bad_request */
  checkInput(place: Place, value: unknown): void;
  /** Where and how the answer of `run` differs from what the document says; undefined when it does not. */
  faultOfAnswer(answer: unknown): string | undefined;
}

/** " of …" for the bounds of a length, as far as there are any. */
function ofLength(least: number | undefined, most: number | undefined, what: string): string {
  if (most === undefined) return "";
  return least === undefined ? ` of at most ${most} ${what}` : ` of ${least} to ${most} ${what}`;
}

/** What a value of the schema is, as "must be" goes on. */
function expectation(schema: Schema): string {
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(", ")}`;
  // A union; what an object must have besides its fields is no part of what it is.
  if (Array.isArray(schema.anyOf) && schema.type === undefined) return schema.anyOf.map(expectation).join(" or ");
  switch (schema.type) {
    case "null":
      return "null";
    case "boolean":
      return "true or false";
    case "integer":
      return `a whole number from ${schema.minimum} to ${schema.maximum}`;
    case "array":
      return `a list${ofLength(schema.minItems, schema.maxItems, "items")}`;
    case "string":
      return `text${ofLength(schema.minLength, schema.maxLength, "characters")}`;
    default:
      return "a JSON object";
  }
}

/** `labels[3]`. Cut, since an unknown field is named as the client named it. */
function fieldOf([name = "", ...rest]: string[]): string {
  const field = name + rest.map((part) => `[${part}]`).join("");
  return field.length > 80 ? `${field.slice(0, 80)}…` : field;
}

function refusalOf({ kind, path, schema }: Fault, root: Schema): AppError {
  const fields = Object.keys(root.properties ?? {}).join(", ");
  const field = fieldOf(path);
  switch (kind) {
    case "missing":
      return new AppError("bad_request", `${field} is required`);
    case "unknown":
      return new AppError("bad_request", `${field} is not a field of this request: it takes ${fields}`);
    case "empty":
      return new AppError("bad_request", `The body needs at least one of ${fields}`);
    case "wrong":
      return new AppError("bad_request", `${path.length === 0 ? "The body" : field} must be ${expectation(schema)}`);
  }
}

/** Compiles the check of values against a schema. It throws AppError bad_request. */
export function checkOf(schema: Schema): (value: unknown) => void {
  const faultOf = compile(schema);
  return (value) => {
    const fault = faultOf(value);
    if (fault) throw refusalOf(fault, schema);
  };
}

export function shapeOf(operation: Operation): Shape {
  const places = {
    params: checkOf(operation.params),
    query: checkOf(operation.query),
    body: operation.body && checkOf(operation.body),
  };
  const faultOf = isMediaType(operation.response) ? undefined : compile(operation.response);

  return {
    checkInput: (place, value) => places[place]?.(value),
    faultOfAnswer(answer) {
      const fault = faultOf?.(answer);
      // Never the value itself: it is somebody's mail.
      return fault && `/${fault.path.join("/")}: ${fault.message}`;
    },
  };
}

const WHOLE_NUMBER = /^-?\d{1,15}$/;

function readText(text: string, { type }: Schema): unknown {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (type === "integer" && WHOLE_NUMBER.test(text)) return Number(text);
  // As it is, for the check to refuse if it must be something else.
  return text;
}

/**
 * The values of a query string (without `?`) as the schema types them; parameters that the schema does not know are left
 * out (rules: Parameters). @throws AppError bad_request for one given twice: either would be a guess.
 */
export function readQuery(text: string, schema: ObjectSchema): Record<string, unknown> {
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
