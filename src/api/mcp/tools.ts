/**
 * The operations as tools (rules: MCP), one tool for each operation. Its arguments are the operation's parameters,
 * query and body in one flat object, and the few that shape a result for a model. The descriptions stand in the
 * operations.
 *
 * Invariant: a key always gets the same list, the tools that its scopes allow in the order of the operations.
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { type ObjectSchema, type Schema, t } from "../../operations/json-schema.ts";
import type { Operation } from "../../operations/operation.ts";
import { checkOf } from "../../operations/shape.ts";
import type { Scope } from "../../store/schema.ts";
import type { RenderArguments } from "./result.ts";

/** A call's arguments by their place. `params`, `query` and `body` are not checked yet. */
export interface Arguments {
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  body: Record<string, unknown> | undefined;
  /** The arguments that the operation itself does not take. */
  shaping: RenderArguments;
}

/** The caller of a tool, as of the request. */
export interface Call {
  request: Request;
  caller: Caller;
  /** Set when the call must be refused and not performed. */
  refusal?: AppError | undefined;
  /** Returns the caller as they are by now, after a call has waited. @throws AppError unauthorized */
  readmit(): Caller;
}

/** JSON Schema in tools/list. */
type Advertised = { [name: string]: string | number | boolean | string[] | Advertised };

type AdvertisedObject = Advertised & { type: "object"; properties: Record<string, Advertised> };

export interface Tool {
  name: string;
  operation: Operation;
  /** The tool in tools/list. */
  listed: {
    name: string;
    description: string;
    inputSchema: AdvertisedObject;
    outputSchema: AdvertisedObject;
    annotations: Record<string, boolean>;
  };
  /** @throws AppError bad_request */
  readArguments(given: Record<string, unknown>): Arguments;
}

const NO_SHAPING = t.Object({});

export const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/**
 * Gives the schema of an argument as a model needs it: without lengths and formats, which a refusal explains. An
 * argument that takes text or a list is shown as a list.
 */
function advertise(schema: Schema, description: string | undefined): Advertised {
  const list = schema.anyOf?.find((one: Schema) => one.type === "array") as Schema | undefined;
  const { type, enum: words, minimum, maximum, items } = list ?? schema;
  return {
    type,
    ...(words && { enum: words }),
    ...(minimum > 0 && { minimum }),
    ...(maximum < Number.MAX_SAFE_INTEGER && { maximum }),
    ...(items && { items: { type: items.type } }),
    ...(description !== undefined && { description }),
  };
}

const typeOf = (types: string): Advertised => {
  const [first = "", ...more] = types.split("|");
  return { type: more.length === 0 ? first : [first, ...more] };
};

function pick(from: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const name of names) if (Object.hasOwn(from, name)) picked[name] = from[name];
  return picked;
}

/** What ids with a prefix are of, by the paths that take them. */
const KINDS = [
  { path: "/threads/", prefix: "thr_", kind: "a conversation" },
  { path: "/messages/", prefix: "msg_", kind: "a message" },
  { path: "/attachments/", prefix: "att_", kind: "an attachment" },
];

/** @throws AppError bad_request for the id of something else: "not found" would send a model looking for it */
function requireKind({ path }: Operation, id: unknown): void {
  const given = typeof id === "string" ? KINDS.find(({ prefix }) => id.startsWith(prefix)) : undefined;
  const taken = KINDS.find((one) => path.startsWith(one.path));
  if (given === undefined || taken === undefined || given === taken) return;
  throw new AppError("bad_request", `That is the id of ${given.kind}: give that of ${taken.kind}, ${taken.prefix}…`);
}

function toolOf(operation: Operation): Tool {
  const { tool } = operation;
  if (!tool) throw new Error(`${operation.name} is no tool`);
  const { params, query, body } = operation;
  const { shaping = NO_SHAPING, without = [], about = {} } = tool;
  const checkShaping = checkOf(shaping);
  const namesOf = (schema: ObjectSchema | Schema | undefined): string[] =>
    Object.keys(schema?.properties ?? {}).filter((name) => !without.includes(name));
  const [inPath, inQuery, inBody] = [params, query, body].map(namesOf) as [string[], string[], string[]];
  const shapes = Object.keys(shaping.properties);
  const known = [...new Set([...inPath, ...inQuery, ...inBody, ...shapes])];
  const schemas: Record<string, Schema> = {
    ...params.properties,
    ...query.properties,
    ...body?.properties,
    ...shaping.properties,
  };
  const required = [params, query, body].flatMap((schema) => (schema?.required as string[] | undefined) ?? []);
  const name = toSnakeCase(operation.name);

  return {
    name,
    operation,
    listed: {
      name,
      description: tool.description,
      inputSchema: {
        type: "object",
        properties: Object.fromEntries(
          known.map((argument) => [argument, advertise(schemas[argument] as Schema, about[argument])]),
        ),
        ...(required.length > 0 && { required }),
        additionalProperties: false,
      },
      outputSchema: {
        type: "object",
        properties: Object.fromEntries(Object.entries(tool.result).map(([field, types]) => [field, typeOf(types)])),
      },
      annotations: tool.annotations,
    },
    readArguments(given) {
      const there: Record<string, unknown> = {};
      for (const argument of Object.keys(given)) {
        const value = given[argument];
        // Some models write null or nothing for an argument that they leave out. No argument here means either.
        if (value === null || value === "") continue;
        // REST ignores unknown parameters. A model that invents an argument believes that it works, so it is told.
        if (!known.includes(argument)) {
          throw new AppError(
            "bad_request",
            `${argument.slice(0, 80)} is no argument of ${name}: it takes ${known.join(", ")}`,
          );
        }
        there[argument] = value;
      }
      requireKind(operation, there.id);
      const shapingValues = pick(there, shapes);
      checkShaping(shapingValues);
      return {
        params: pick(there, inPath),
        query: pick(there, inQuery),
        body: body && pick(there, inBody),
        shaping: shapingValues,
      };
    },
  };
}

export function createTools(operations: readonly Operation[]) {
  const tools = operations.map(toolOf);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const lists = new Map<string, Tool["listed"][]>();
  return {
    find: (name: string): Tool | undefined => byName.get(name),
    /** Lists the tools for a key with these scopes. */
    listFor(scopes: ReadonlySet<Scope>): Tool["listed"][] {
      const key = [...scopes].sort().join();
      let list = lists.get(key);
      if (!list) {
        list = tools
          .filter(({ operation }) => [operation.scope].flat().some((scope) => scopes.has(scope)))
          .map(({ listed }) => listed);
        lists.set(key, list);
      }
      return list;
    },
  };
}
