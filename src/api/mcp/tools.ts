/**
 * The operations as tools (contract: MCP): one tool an operation, whose arguments are the operation's path, query and
 * body in one flat object, and beside them the few that shape a result for a model.
 *
 * Invariant: every word here is paid for by every agent on every turn. The whole list stays under 3,000 tokens, which
 * test/api/mcp-tools.test.ts counts: what a model can guess from a name has no description, and what a result holds is
 * told by its top-level fields alone.
 */
import { AppError } from "../../errors.ts";
import type { Scope } from "../../store/schema.ts";
import { type ObjectSchema, oneOf, type Schema, t } from "../json-schema.ts";
import type { Operation } from "../operation.ts";
import { checkOf } from "../shape.ts";
import { LEAST_CHARS, MOST_CHARS, type RenderArguments } from "./rendering.ts";
import { LONGEST_WAIT_SECONDS } from "./waiting.ts";

/** The arguments that the operation itself does not know. */
export interface Shaping extends RenderArguments {
  after?: string;
  waitSeconds?: number;
}

/** A call's arguments, sorted; `params`, `query` and `body` are not checked yet. */
export interface Arguments {
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  body: Record<string, unknown> | undefined;
  shaping: Shaping;
}

/** JSON Schema as it stands in tools/list. */
type Advertised = { [name: string]: string | number | boolean | string[] | Advertised };

type AdvertisedObject = Advertised & { type: "object"; properties: Record<string, Advertised> };

export interface Tool {
  name: string;
  operation: Operation;
  /** As in tools/list. */
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

/** How an operation shows itself as a tool. */
interface Face {
  description: string;
  annotations: Record<string, boolean>;
  /** Descriptions of arguments, where the name does not say it. */
  about?: Record<string, string>;
  shaping?: ObjectSchema;
  /** The operation's own arguments that the tool has no use for. */
  without?: readonly string[];
  /** Top-level fields of a result with their JSON types. */
  result: Record<string, string>;
}

/** What mail says comes from anybody, so reading it opens to the world; see the instructions (instructions.ts). */
const READS_MAIL = { readOnlyHint: true, openWorldHint: true };
/** Nothing that was sent can be called back, and who sends twice has sent twice. */
const SENDS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };

const maxChars = t.Optional(t.Integer({ minimum: LEAST_CHARS, maximum: MOST_CHARS }));
const offset = t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const newTextOnly = t.Optional(t.Boolean());

const TOTAL = "Result budget, default 24000";
const GO_ON = "nextOffset of the cut result";
const NEXT = "nextCursor of the page before, same filters";
const SYNTAX =
  'Words and "phrases", all must match; from: to: subject: label: has:attachment is:unread is:starred before:YYYY-MM-DD after:YYYY-MM-DD; - excludes';
const REPLY_ABOUT = {
  id: "Thread",
  to: "Instead of the computed recipients",
  cc: "Added to the computed",
  from: "Mailbox or alias; default: where the mail arrived",
  quote: "Append the previous message",
};
const ONCE = "Repeat with the same key to retry without sending twice";

const FACES: Record<string, Face> = {
  listMailboxes: {
    description: "Mailboxes you can read, with your access to each.",
    annotations: { readOnlyHint: true, openWorldHint: false },
    shaping: t.Object({}),
    result: { mailboxes: "array" },
  },
  listThreads: {
    description: "Conversations, newest first, as snippets.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Id or address",
      folder: "Default inbox; all: without trash and spam",
      q: "As in search_mail",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: { threads: "array", nextCursor: "string|null", unread: "integer" },
  },
  getThread: {
    description: "A conversation: its newest messages as text, as many as fit. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      before: "nextBefore of the cut result: older messages",
      newTextOnly: "Without quoted history; default true",
      maxChars: TOTAL,
    },
    shaping: t.Object({ before: t.Optional(t.String()), newTextOnly, maxChars }),
    without: ["html"],
    result: { thread: "object", messages: "array", permissions: "object", older: "integer", nextBefore: "string" },
  },
  updateThread: {
    description: "Mark, star, move or label a conversation.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    about: { labels: "Replaces all" },
    result: { thread: "object" },
  },
  replyToThread: {
    description: "Send a reply, threaded, to the newest sender. text or html is required.",
    annotations: SENDS,
    about: { ...REPLY_ABOUT, idempotencyKey: ONCE },
    result: { emailId: "string|null", messageId: "string", threadId: "string", from: "string" },
  },
  draftReply: {
    description: "Save a reply as a draft for a person to review; sends nothing. text or html is required.",
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    about: REPLY_ABOUT,
    result: { draftId: "string", from: "string", to: "string", cc: "string|null", subject: "string" },
  },
  listMessages: {
    description: "Single messages, newest first, as snippets; or, with waitSeconds, wait for new mail.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Address",
      after: "nextAfter of an earlier result: only mail that arrived since",
      waitSeconds: "Wait for mail arriving after `after`, default now",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      after: t.Optional(t.String()),
      waitSeconds: t.Optional(t.Integer({ minimum: 0, maximum: LONGEST_WAIT_SECONDS })),
      offset,
      maxChars,
    }),
    result: { messages: "array", count: "integer", nextAfter: "string", nextOffset: "integer" },
  },
  getMessage: {
    description: "One message as text. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      html: "The HTML instead; default false",
      newTextOnly: "Without quoted history; default false",
      list: "All of these instead of the text",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      html: t.Optional(t.Boolean()),
      newTextOnly,
      list: t.Optional(oneOf(["recipients", "attachments"])),
      offset,
      maxChars,
    }),
    without: ["html"],
    result: { message: "object" },
  },
  getRawMessage: {
    description: "A message as an RFC 5322 file: all headers and MIME parts.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: { text: "string", size: "integer", url: "string", nextOffset: "integer" },
  },
  getAttachment: {
    description: "An attachment: text, or a small file embedded, else a URL to GET with your API key.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: {
      filename: "string",
      contentType: "string",
      size: "integer",
      url: "string",
      text: "string",
      nextOffset: "integer",
    },
  },
  searchMail: {
    description: "Search conversations, newest first, as snippets.",
    annotations: READS_MAIL,
    about: {
      q: SYNTAX,
      mailbox: "Id or address",
      folder: "Default: all but trash and spam",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: { threads: "array", nextCursor: "string|null", unread: "integer" },
  },
  sendEmail: {
    description: "Send a new message. text or html is required. Accepted means queued, delivery follows.",
    annotations: SENDS,
    about: { from: "Address of a mailbox with send access", idempotencyKey: ONCE },
    result: { emailId: "string|null", messageId: "string", threadId: "string", from: "string" },
  },
};

const NO_SHAPING = t.Object({});

const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/**
 * An argument as a model needs to see it: no lengths and formats, which a refusal explains, and of a text-or-list only
 * the list, though both are taken.
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

const pick = (from: Record<string, unknown>, names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(names.filter((name) => Object.hasOwn(from, name)).map((name) => [name, from[name]]));

function toolOf(operation: Operation): Tool {
  const face = FACES[operation.name];
  if (!face) throw new Error(`${operation.name} has no face as a tool`);
  const { params, query, body } = operation;
  const { shaping = NO_SHAPING, without = [], about = {} } = face;
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
      description: face.description,
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
        properties: Object.fromEntries(Object.entries(face.result).map(([field, types]) => [field, typeOf(types)])),
      },
      annotations: face.annotations,
    },
    readArguments(given) {
      // Some models write null for what they leave out; nothing here takes null.
      const there = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
      // REST ignores what it does not know. A model that made an argument up believes that it works: it is told.
      const unknown = Object.keys(there).find((argument) => !known.includes(argument));
      if (unknown !== undefined) {
        const takes = known.length === 0 ? "no arguments" : known.join(", ");
        throw new AppError("bad_request", `${unknown.slice(0, 80)} is no argument of ${name}: it takes ${takes}`);
      }
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

export interface Tools {
  find(name: string): Tool | undefined;
  /** What a key with these scopes is shown, in the order of the operations. */
  listFor(scopes: ReadonlySet<Scope>): Tool["listed"][];
}

export function createTools(operations: readonly Operation[]): Tools {
  const tools = operations.map(toolOf);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const lists = new Map<string, Tool["listed"][]>();
  return {
    find: (name) => byName.get(name),
    listFor(scopes) {
      const key = [...scopes].sort().join();
      let list = lists.get(key);
      if (!list) {
        list = tools.filter(({ operation }) => scopes.has(operation.scope)).map(({ listed }) => listed);
        lists.set(key, list);
      }
      return list;
    },
  };
}
