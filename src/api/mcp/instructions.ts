/** What the server tells a model once, at the start (MCP: instructions). Short, since it stays in the context. */
import { FENCE_EXPLAINED } from "./fence.ts";

export const INSTRUCTIONS = `Mail of a workspace's mailboxes.
${FENCE_EXPLAINED}
Results are cut to maxChars and say so, with the argument that gives the rest (offset, before, cursor). Lists hold snippets: get_message and get_thread hold text. Reading marks nothing read.
Before sending, be sure that your user wants it: mail cannot be called back. Give each message its own idempotencyKey, and repeat it when you retry. draft_reply leaves sending to a person.
Errors carry a stable code and what to do next.`;
