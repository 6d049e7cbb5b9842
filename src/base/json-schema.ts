/**
 * JSON Schema as values, types and compiled checks. The only file that knows TypeBox. (Elysia's own `t` takes strings
 * for integers.) A resource or request is said once, as a schema: its type is `Static` of that, under the same name. A
 * schema with `$id` is a component of the OpenAPI document, under that name.
 *
 * The checks differ from TypeBox in three ways. They ignore `format`, because mail whose sender has no valid address must
 * stay readable, except for the times of a request. They let what is `filled` be empty, because its operation refuses that
 * in better words. And `maxLength` counts characters (RFC 8259 §8.2), not UTF-16 units.
 */
import {
  FormatRegistry,
  Kind,
  type Static,
  type TObject,
  type TProperties,
  type TSchema,
  Type,
  TypeRegistry,
} from "@sinclair/typebox";
import { TypeCompiler } from "@sinclair/typebox/compiler";
import { type ValueError, ValueErrorType } from "@sinclair/typebox/errors";
import { parseTime } from "./time.ts";

export { Type as t };
export type Schema = TSchema;
export type Fields = TProperties;
export type ObjectSchema<F extends Fields = Fields> = TObject<F>;
export type { Static };

/** The type of a request. A field that may be left out may also be undefined. */
export type Given<S extends Schema, T = Static<S>> = {
  [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K];
};

const ONE_OF = "OneOf";
TypeRegistry.Set<{ enum: readonly string[] }>(ONE_OF, (schema, value) => schema.enum.includes(value as string));

/** Makes the schema of a string that is one of the words. */
export const stringEnum = <const T extends string>(
  words: readonly T[],
  options: { description?: string; default?: T } = {},
) => Type.Unsafe<T>({ [Kind]: ONE_OF, type: "string", enum: words, ...options });

const DATE_TIME = "date-time";
FormatRegistry.Set(DATE_TIME, (text) => parseTime(text) !== undefined);

const FILLED = Symbol("filled");

/** Makes the schema of text that its operation refuses when it is empty. */
export const filledStringSchema = (options: { maxLength?: number; description?: string } = {}) =>
  Type.String({ minLength: 1, ...options, ...{ [FILLED]: true } });

/** Makes the schema of a list that its operation refuses when it is empty. */
export const filledListSchema = <T extends TSchema>(items: T) =>
  Type.Array(items, { minItems: 1, ...{ [FILLED]: true } });

export const emailSchema = (options: { description?: string } = {}) => Type.String({ format: "email", ...options });
export const dateTimeSchema = (options: { description?: string } = {}) =>
  Type.String({ format: DATE_TIME, ...options });
export const nullable = <T extends TSchema>(schema: T, options: { description: string }) =>
  Type.Union([schema, Type.Null()], options);

/** Makes the schema of a boolean that is true wherever it is given. */
export const alwaysTrue = (options: { description?: string } = {}) => Type.Unsafe<true>(Type.Boolean(options));

/** The first part of a value that a schema does not allow. */
export interface Fault {
  kind: "missing" | "unknown" | "empty" | "wrong";
  /** Names and indexes from the root to the wrong part. */
  path: string[];
  /** The schema of that part. */
  schema: Schema;
  /** TypeBox's message. It does not quote the value. */
  message: string;
}

/** Where the values of a schema come from. */
type Source = "request" | "answer";

/** Copies a schema without what the checks leave to others. */
function checkedPart<T>(schema: T, source: Source): T {
  if (Array.isArray(schema)) return schema.map((part) => checkedPart(part, source)) as T;
  if (typeof schema !== "object" || schema === null) return schema;
  const unchecked = FILLED in schema ? ["minLength", "minItems"] : [];
  const copy: Record<string | symbol, unknown> = {};
  for (const key of Reflect.ownKeys(schema)) {
    const value = (schema as Record<string | symbol, unknown>)[key];
    const isUnchecked = unchecked.includes(String(key)) || (key === "format" && isUncheckedFormat(value, source));
    if (!isUnchecked) copy[key] = checkedPart(value, source);
  }
  return copy as T;
}

/** A field of that name has an object. */
const isUncheckedFormat = (value: unknown, source: Source): boolean =>
  typeof value === "string" && (source === "answer" || value !== DATE_TIME);

const KIND_OF_FAULT: Partial<Record<ValueErrorType, Fault["kind"]>> = {
  [ValueErrorType.ObjectRequiredProperty]: "missing",
  [ValueErrorType.ObjectAdditionalProperties]: "unknown",
  [ValueErrorType.ObjectMinProperties]: "empty",
};

const isShortEnough = ({ type, schema, value }: ValueError): boolean =>
  type === ValueErrorType.StringMaxLength && [...(value as string)].length <= schema.maxLength;

type Check = (value: unknown) => Fault | undefined;

/** Schemas are constants, so each is compiled once, when it first checks a value. */
const compiled = { request: new WeakMap<Schema, Check>(), answer: new WeakMap<Schema, Check>() };

/** Gives the check of a schema. It returns undefined for a value that the schema allows. */
export function compileSchemaCheck(schema: Schema, source: Source): Check {
  return (value) => (compiled[source].get(schema) ?? compileCheck(schema, source))(value);
}

function compileCheck(schema: Schema, source: Source): Check {
  const typeCheck = TypeCompiler.Compile(checkedPart(schema, source));
  const check: Check = (value) => {
    if (typeCheck.Check(value)) return undefined;
    for (const error of typeCheck.Errors(value)) {
      if (isShortEnough(error)) continue;
      const [, ...path] = error.path.split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
      return { kind: KIND_OF_FAULT[error.type] ?? "wrong", path, schema: error.schema, message: error.message };
    }
    return undefined;
  };
  compiled[source].set(schema, check);
  return check;
}
