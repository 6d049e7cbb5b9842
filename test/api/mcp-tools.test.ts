/** The list of tools: what it costs, what it promises, and that it leaves nothing of the operations out. */
import { expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { INSTRUCTIONS } from "../../src/api/mcp/instructions.ts";
import { createTools, type Tool } from "../../src/api/mcp/tools.ts";
import { MAIL_OPERATIONS } from "../../src/operations/operations.ts";
import { SCOPES, type Scope } from "../../src/store/schema.ts";

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

test("every agent pays for the list on every turn: at most 3,000 tokens, instructions at most 400", () => {
  expect(countTokens(JSON.stringify({ tools: all }))).toBeLessThanOrEqual(3_000);
  expect(countTokens(INSTRUCTIONS)).toBeLessThanOrEqual(400);
});

test("one tool an operation, in the operations' order, by the scopes of the key", () => {
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

test("annotations say what a call may do", () => {
  const of = (name: string) => named(name).annotations;
  for (const name of READ) expect(of(name).readOnlyHint).toBe(true);
  // Mail is what anybody wrote; the list of mailboxes is not.
  for (const name of READ) expect(of(name).openWorldHint).toBe(name !== "list_mailboxes");
  const sends = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };
  expect([of("send_email"), of("reply_to_thread")]).toEqual([sends, sends]);
  expect(of("draft_reply")).toEqual({ ...sends, destructiveHint: false, openWorldHint: false });
  expect(of("update_thread")).toEqual({ ...sends, idempotentHint: true, openWorldHint: false });
});

test("a tool takes what its operation takes, under the same names, and requires the same", () => {
  for (const operation of MAIL_OPERATIONS) {
    const tool = all[MAIL_OPERATIONS.indexOf(operation)] as Tool["listed"];
    const schemas = [operation.params, operation.query, operation.body].filter((schema) => schema !== undefined);
    const own = schemas.flatMap((schema) => Object.keys(schema.properties));
    const { properties, required = [], additionalProperties } = tool.inputSchema;
    const missing = own.filter((name) => !(name in properties));
    // A conversation is read as text; get_message has an argument of that name which chooses.
    expect([tool.name, missing]).toEqual([tool.name, tool.name === "get_thread" ? ["html"] : []]);
    expect(required).toEqual(schemas.flatMap((schema) => (schema.required as string[] | undefined) ?? []));
    expect(additionalProperties).toBe(false);
    expect(tool.outputSchema.type).toBe("object");
  }
});

test("arguments go where the operation expects them", () => {
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
  ["list_messages", { waitSeconds: 51 }, "waitSeconds must be a whole number from 0 to 50"],
  ["list_messages", { after: 7 }, "after must be text"],
])("%s refuses %p", (name, given, message) => {
  expect(() => toolNamed(name).readArguments(given)).toThrow(message);
});
