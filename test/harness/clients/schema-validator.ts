/**
 * Checks values against the schemas of an OpenAPI 3.1 document, with formats, independently of the server. It knows the keywords
 * that the document uses and throws for others, so that no part of a schema goes unchecked.
 */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

const FORMATS: Record<string, RegExp> = {
  email: /^[^\s@]+@[^\s@]+$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
};

const ANNOTATIONS = new Set(["description", "default"]);

export function resolve(document: JsonObject, reference: string): JsonObject {
  let value: Json | undefined = document;
  for (const part of reference.replace(/^#\//, "").split("/")) value = (value as JsonObject | undefined)?.[part];
  if (value === undefined) throw new Error(`${reference} leads nowhere`);
  return value as JsonObject;
}

const typeOf = (value: Json): string[] => {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  return Number.isInteger(value) ? ["integer", "number"] : [typeof value];
};

/** Lists the faults of a value, each with its place. */
export function faults(document: JsonObject, schema: JsonObject, value: Json, at = ""): string[] {
  const inner = (part: Json, of: Json, name: string | number) =>
    faults(document, part as JsonObject, of, `${at}/${name}`);
  const object = typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  const text = typeof value === "string" ? value : undefined;
  const found: string[] = [];
  const must = (holds: boolean, what: string) => {
    if (!holds) found.push(`${at || "/"}: ${what}`);
  };
  for (const [keyword, setting] of Object.entries(schema)) {
    if (ANNOTATIONS.has(keyword)) continue;
    switch (keyword) {
      case "$ref":
        found.push(...faults(document, resolve(document, setting as string), value, at));
        break;
      case "anyOf":
        must(
          (setting as Json[]).some((part) => faults(document, part as JsonObject, value, at).length === 0),
          "is none of anyOf",
        );
        break;
      case "type":
        must(
          typeOf(value).some((type) => [setting].flat().includes(type)),
          `must be ${setting}`,
        );
        break;
      case "enum":
        must((setting as Json[]).includes(value), `must be one of ${setting}`);
        break;
      case "required":
        for (const name of setting as string[]) if (object) must(Object.hasOwn(object, name), `lacks ${name}`);
        break;
      case "properties":
        for (const [name, part] of Object.entries(setting as JsonObject)) {
          if (object && Object.hasOwn(object, name)) found.push(...inner(part, object[name] as Json, name));
        }
        break;
      case "additionalProperties":
        for (const name of Object.keys(object ?? {})) {
          if (Object.hasOwn(schema.properties as JsonObject, name)) continue;
          if (setting === false) must(false, `has ${name}`);
          else found.push(...inner(setting, object?.[name] as Json, name));
        }
        break;
      case "minProperties":
        if (object) must(Object.keys(object).length >= (setting as number), "has too few properties");
        break;
      case "items":
        if (Array.isArray(value)) value.forEach((item, i) => void found.push(...inner(setting, item, i)));
        break;
      case "minItems":
        if (Array.isArray(value)) must(value.length >= (setting as number), "has too few items");
        break;
      case "maxItems":
        if (Array.isArray(value)) must(value.length <= (setting as number), "has too many items");
        break;
      case "minLength":
        if (text !== undefined) must([...text].length >= (setting as number), "is too short");
        break;
      case "maxLength":
        if (text !== undefined) must([...text].length <= (setting as number), "is too long");
        break;
      case "minimum":
        if (typeof value === "number") must(value >= (setting as number), "is too small");
        break;
      case "maximum":
        if (typeof value === "number") must(value <= (setting as number), "is too large");
        break;
      case "format": {
        const format = FORMATS[setting as string];
        if (!format && setting !== "binary") throw new Error(`the format ${setting} is not known`);
        if (text !== undefined && format) must(format.test(text), `is no ${setting}`);
        break;
      }
      default:
        throw new Error(`the keyword ${keyword} at ${at || "/"} is not known`);
    }
  }
  return found;
}

/** Yields all objects in a document, with the document itself. */
export function* nodesOf(value: Json): Generator<JsonObject> {
  if (Array.isArray(value)) for (const item of value) yield* nodesOf(item);
  else if (typeof value === "object" && value !== null) {
    yield value;
    for (const part of Object.values(value)) yield* nodesOf(part);
  }
}
