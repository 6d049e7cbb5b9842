/**
 * The operations as tools (rules: MCP), one tool for each operation. Its arguments are the operation's parameters,
 * query and body in one flat object, and the few that shape a result for a model. The descriptions stand in the
 * operations. A call of update_thread or draft_reply without `id` performs another operation.
 *
 * Invariant: a key always gets the same list, the tools that its scopes allow in the order of the operations.
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { type ObjectSchema, type Schema, t } from "../../base/json-schema.ts";
import { createDraft } from "../../operations/mail/draft-operations.ts";
import { updateThreads } from "../../operations/mail/thread-operations.ts";
import type { Operation } from "../../operations/operation.ts";
import { compileShapeCheck } from "../../operations/shape.ts";
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
type Advertised = { [name: string]: string | number | boolean | (string | boolean)[] | Advertised };

type AdvertisedObject = Advertised & { type: "object"; properties: Record<string, Advertised> };

export interface Tool {
  name: string;
  /** The operation after which the tool is called. */
  operation: Operation;
  /** The operation that a call with these arguments performs. */
  operationFor(given: Record<string, unknown>): Operation;
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

const parseAdvertisedType = (types: string): Advertised => {
  const [first = "", ...more] = types.split("|");
  return { type: more.length === 0 ? first : [first, ...more] };
};

function pick(from: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const name of names) if (Object.hasOwn(from, name)) picked[name] = from[name];
  return picked;
}

/** The operations that calls without `id` perform, and the argument that such a call must have. */
const WITHOUT_ID: Record<string, { operation: Operation; by: string } | undefined> = {
  updateThread: { operation: updateThreads, by: "ids" },
  draftReply: { operation: createDraft, by: "to" },
};

/** The kinds of ids, by the prefix of ours; `<` begins a Message-ID (RFC 5322 §3.6.4). */
const KINDS: Record<string, string> = {
  thr_: "the id of a conversation",
  msg_: "the id of a message",
  att_: "the id of an attachment",
  mbx_: "the id of a mailbox",
  evt_: "the id of an event",
  usr_: "the id of a person",
  dom_: "the id of a domain",
  key_: "the id of an API key",
  sup_: "the id of a suppression",
  whk_: "the id of a webhook",
  whd_: "the id of a webhook's delivery",
  wsp_: "the id of a workspace",
  "<": "a Message-ID",
};

/** The kinds that arguments take. That of `id` depends on the operation's path. */
const TAKES: Record<string, string> = {
  ids: "thr_",
  threadId: "thr_",
  before: "msg_",
  forward: "msg_",
  emailId: "msg_",
  attachmentId: "att_",
  mailbox: "mbx_",
  messageId: "<",
};
const ID_TAKES: Record<string, string> = { threads: "thr_", messages: "msg_", attachments: "att_" };

/** An id of ours, or a Message-ID, of at most LONGEST_ID characters. An address may begin like either. */
const LONGEST_ID = 1_000;
const ID = /^(?:([a-z]{3}_)[^@]*|(<)[^<>]+@[^<>]+>)$/;

/** Refuses the id of something else: "not found" would send a model looking for it. @throws AppError bad_request */
function requireKinds(given: object, idTakes?: string): void {
  for (const [argument, value] of Object.entries(given)) {
    const takes = argument === "id" ? idTakes : TAKES[argument];
    for (const id of takes === undefined ? [] : [value].flat()) {
      const [, ours, rfc] = (typeof id === "string" && id.length <= LONGEST_ID && ID.exec(id)) || [];
      const kind = ours ?? rfc;
      if (kind === undefined || kind === takes || KINDS[kind] === undefined) continue;
      const as = argument === "id" ? "" : ` as ${argument}`;
      throw new AppError("bad_request", `That is ${KINDS[kind]}: give ${KINDS[takes as string]}${as}, ${takes}…`);
    }
  }
}

/** Leaves out what some models write for an argument that they do not give. */
const withoutEmpty = (given: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== ""));

/** Leaves out the empty fields of an attachment, except the `text` of a file, which may be empty. */
function cleanAttachment(given: unknown): unknown {
  if (typeof given !== "object" || given === null) return given;
  const there = withoutEmpty(given);
  const isHandle = there.attachmentId !== undefined || there.emailId !== undefined;
  return !isHandle && (given as { text?: unknown }).text === "" ? { ...there, text: "" } : there;
}

/** The arguments of an operation by their place, and their schemas. */
function collectArguments({ params, query, body }: Operation, without: readonly string[]) {
  const listFieldNames = (schema: ObjectSchema | Schema | undefined): string[] =>
    Object.keys(schema?.properties ?? {}).filter((name) => !without.includes(name));
  const [inPath, inQuery, inBody] = [params, query, body].map(listFieldNames) as [string[], string[], string[]];
  return {
    names: [...inPath, ...inQuery, ...inBody],
    schemas: { ...params.properties, ...query.properties, ...body?.properties } as Record<string, Schema>,
    required: [params, query, body].flatMap((schema) => (schema?.required as string[] | undefined) ?? []),
    place: (given: Record<string, unknown>): Omit<Arguments, "shaping"> => ({
      params: pick(given, inPath),
      query: pick(given, inQuery),
      body: body && pick(given, inBody),
    }),
  };
}

function buildTool(ofRest: Operation): Tool {
  const { tool } = ofRest;
  if (!tool) throw new Error(`${ofRest.name} is no tool`);
  const operation: Operation = { ...ofRest, ...(tool.instead as Pick<Operation, "body" | "checkBody"> | undefined) };
  const { shaping = NO_SHAPING, without = [], about = {}, trueOnly = [] } = tool;
  const checkShaping = compileShapeCheck(shaping);
  const own = collectArguments(operation, without);
  const other = WITHOUT_ID[operation.name];
  const others = other && collectArguments(other.operation, without);
  const shapes = Object.keys(shaping.properties);
  const known = [...new Set([...own.names.slice(0, 1), ...(others?.names ?? []), ...own.names, ...shapes])];
  const schemas: Record<string, Schema> = { ...others?.schemas, ...own.schemas, ...shaping.properties };
  const required = other ? [] : own.required;
  const name = toSnakeCase(operation.name);
  const idTakes = ID_TAKES[operation.path.split("/")[1] ?? ""];
  const isOther = (given: Record<string, unknown>): boolean =>
    other !== undefined && withoutEmpty(given).id === undefined;

  function advertised(argument: string): Advertised {
    const shown = advertise(schemas[argument] as Schema, about[argument]);
    return trueOnly.includes(argument) ? { ...shown, enum: [true] } : shown;
  }

  /** @throws AppError bad_request for arguments that do not go together */
  function requireTogether(given: Record<string, unknown>): void {
    if (!other || !others) return;
    const withoutId = isOther(given);
    if (withoutId && given[other.by] === undefined) throw new AppError("bad_request", `Give id or ${other.by}`);
    const { names } = withoutId ? others : own;
    const odd = Object.keys(given).find((argument) => !names.includes(argument));
    if (odd === undefined) return;
    throw new AppError(
      "bad_request",
      withoutId ? `${odd} needs id` : `${odd} does not go with id: leave out one of them`,
    );
  }

  return {
    name,
    operation,
    operationFor: (given) => (other && isOther(given) ? other.operation : operation),
    listed: {
      name,
      description: tool.description,
      inputSchema: {
        type: "object",
        properties: Object.fromEntries(known.map((argument) => [argument, advertised(argument)])),
        ...(required.length > 0 && { required }),
        additionalProperties: false,
      },
      outputSchema: {
        type: "object",
        properties: Object.fromEntries(
          Object.entries(tool.result).map(([field, types]) => [field, parseAdvertisedType(types)]),
        ),
      },
      annotations: tool.annotations,
    },
    readArguments(given) {
      const there = withoutEmpty(given);
      for (const argument of Object.keys(there)) {
        // REST ignores unknown parameters. A model that invents an argument believes that it works, so it is told.
        if (!known.includes(argument)) {
          throw new AppError(
            "bad_request",
            `${argument.slice(0, 80)} is no argument of ${name}: it takes ${known.join(", ") || "none"}`,
          );
        }
        if (there[argument] === false && trueOnly.includes(argument)) {
          throw new AppError("bad_request", `${argument} takes true only: leave it out for all`);
        }
      }
      requireTogether(there);
      if (Array.isArray(there.attachments)) {
        there.attachments = there.attachments.map(cleanAttachment);
        for (const attachment of there.attachments as unknown[]) requireKinds(Object(attachment));
      }
      requireKinds(there, idTakes);
      const shapingValues = pick(there, shapes);
      checkShaping(shapingValues);
      return { ...(isOther(there) ? (others as typeof own) : own).place(there), shaping: shapingValues };
    },
  };
}

export function createTools(operations: readonly Operation[]) {
  const tools = operations.map(buildTool);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const lists = new Map<string, Tool["listed"][]>();
  return {
    all: tools,
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
