/** The list of tools: its cost in tokens, its annotations, and its arguments, which are those of the operations. */
import { expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { createTools, type Tool } from "../../../src/api/mcp/tools.ts";
import { INSTRUCTIONS } from "../../../src/api/mcp.ts";
import { MAIL_OPERATIONS } from "../../../src/operations/operations.ts";
import { SCOPES, type Scope } from "../../../src/store/schema.ts";

const tools = createTools(MAIL_OPERATIONS);
const listFor = (...scopes: Scope[]) => tools.listFor(new Set(scopes));
const all = listFor(...SCOPES);
const named = (name: string): Tool["listed"] => all.find((tool) => tool.name === name) as Tool["listed"];
const toolNamed = (name: string): Tool => tools.find(name) as Tool;

const READ = [
  "list_mailboxes",
  "list_threads",
  "get_thread",
  "list_messages",
  "get_message",
  "get_raw_message",
  "get_attachment",
  "search_mail",
];

test("the list has at most 3,000 tokens, which every agent pays on every turn, and the instructions at most 400", () => {
  expect(countTokens(JSON.stringify({ tools: all }))).toBeLessThanOrEqual(3_000);
  expect(countTokens(INSTRUCTIONS)).toBeLessThanOrEqual(400);
});

test("a key's list has a tool for each operation of its scopes, in the order of the operations", () => {
  const names = (list: Tool["listed"][]) => list.map(({ name }) => name);
  expect(names(all)).toEqual([
    "list_mailboxes",
    "list_threads",
    "get_thread",
    "update_thread",
    "reply_to_thread",
    "draft_reply",
    "list_messages",
    "get_message",
    "get_raw_message",
    "get_attachment",
    "search_mail",
    "send_email",
  ]);
  expect(names(listFor("read"))).toEqual(READ);
  expect(names(listFor("send"))).toEqual(["reply_to_thread", "send_email"]);
  expect(names(listFor("write"))).toEqual(["update_thread", "draft_reply"]);
  expect(listFor("write", "read")).toEqual(listFor("read", "write"));
});

test("annotations say if a tool reads, destroys, repeats safely, or meets the open world", () => {
  const of = (name: string) => named(name).annotations;
  for (const name of READ) expect(of(name).readOnlyHint).toBe(true);
  // Anybody may have written mail, but not the list of mailboxes.
  for (const name of READ) expect(of(name).openWorldHint).toBe(name !== "list_mailboxes");
  const sends = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };
  expect([of("send_email"), of("reply_to_thread")]).toEqual([sends, sends]);
  expect(of("draft_reply")).toEqual({ ...sends, destructiveHint: false, openWorldHint: false });
  expect(of("update_thread")).toEqual({ ...sends, idempotentHint: true, openWorldHint: false });
});

/** Arguments that a call without `id` takes beside those of a call with it. */
const WITHOUT_ID: Record<string, string[]> = {
  update_thread: ["ids"],
  draft_reply: ["idempotencyKey"],
};

/** Arguments that replies take over MCP alone. */
const MORE: Record<string, string[]> = {
  reply_to_thread: ["forward", "forwardAttachments"],
  draft_reply: ["forward", "forwardAttachments"],
};

test("a tool takes and requires the same arguments as its operation", () => {
  for (const operation of MAIL_OPERATIONS) {
    const tool = all[MAIL_OPERATIONS.indexOf(operation)] as Tool["listed"];
    const schemas = [operation.params, operation.query, operation.body].filter((schema) => schema !== undefined);
    const own = schemas.flatMap((schema) => Object.keys(schema.properties));
    const { properties, required = [], additionalProperties } = tool.inputSchema;
    const missing = own.filter((name) => !(name in properties));
    // get_thread always gives text. Only get_message lets the model choose.
    expect([tool.name, missing]).toEqual([tool.name, tool.name === "get_thread" ? ["html"] : []]);
    const more = WITHOUT_ID[tool.name];
    const needed = schemas.flatMap((schema) => (schema.required as string[] | undefined) ?? []);
    expect(required).toEqual(more ? [] : needed);
    const shaping = Object.keys(operation.tool?.shaping?.properties ?? {});
    const taken = [
      ...own.filter((one) => !missing.includes(one)),
      ...(more ?? []),
      ...(MORE[tool.name] ?? []),
      ...shaping,
    ];
    expect(Object.keys(properties).sort()).toEqual([...new Set(taken)].sort());
    expect(additionalProperties).toBe(false);
    expect(tool.outputSchema.type).toBe("object");
  }
});

test("arguments go to the parameters, query and body of the operation", () => {
  const args = toolNamed("reply_to_thread").readArguments({ id: "thr_1", text: "Yes", replyAll: true, to: null });
  expect(args).toEqual({ params: { id: "thr_1" }, query: {}, body: { text: "Yes", replyAll: true }, shaping: {} });
  const page = toolNamed("search_mail").readArguments({ q: "x", limit: 5, maxChars: 9000 });
  expect(page).toEqual({ params: {}, query: { q: "x", limit: 5 }, body: undefined, shaping: { maxChars: 9000 } });
});

test.each([
  ["list_mailboxes", { folder: "inbox" }, "folder is no argument of list_mailboxes: it takes offset"],
  ["list_messages", { query: "x" }, /^query is no argument of list_messages: it takes mailbox, folder, .*maxChars$/],
  ["get_thread", { id: "thr_1", html: true }, /^html is no argument of get_thread/],
  ["get_message", { id: "msg_1", maxChars: 1 }, "maxChars must be a whole number from 4000 to 100000"],
  ["get_message", { id: "msg_1", maxChars: "9000" }, "maxChars must be a whole number from 4000 to 100000"],
  ["get_message", { id: "msg_1", list: "headers" }, "list must be one of recipients, attachments"],
  ["get_message", { id: "msg_1", newTextOnly: 1 }, "newTextOnly must be true or false"],
  ["list_messages", { offset: -1 }, "offset must be a whole number from 0"],
  ["update_thread", { starred: true }, "Give id or ids"],
  ["update_thread", { id: "thr_1", ids: ["thr_2"] }, "ids does not go with id: leave out one of them"],
  ["draft_reply", { text: "x" }, "Give id or to"],
  ["draft_reply", { to: ["a@b.example"], replyAll: true }, "replyAll needs id"],
  ["draft_reply", { id: "thr_1", idempotencyKey: "k" }, "idempotencyKey does not go with id: leave out one of them"],
])("%s refuses %p", (name, given, message) => {
  expect(() => toolNamed(name).readArguments(given)).toThrow(message);
});
