/**
 * Checks what parsers say before anything else sees it. A parser read what strangers sent, so its answers are taken for values
 * of the form that a parser gives, and for nothing that leads to files other than its own.
 */
import { findStackFrames, printable } from "../base/child-process.ts";
import type { DnsQuestion, FromParser, Prepared } from "./jobs.ts";

/** RFC 1035 §3.1 allows 253 characters; escapes may lengthen a name fourfold. */
const LONGEST_NAME = 1_024;
const TYPES: ReadonlySet<string> = new Set<DnsQuestion["type"]>(["TXT", "A", "AAAA", "MX", "PTR", "CNAME"]);
const STAGES: ReadonlySet<string> = new Set<DnsQuestion["stage"]>(["evidence", "policy"]);
const RESULTS: ReadonlySet<string> = new Set<keyof Prepared>([
  "message",
  "authentication",
  "staged",
  "content",
  "octets",
  "kept",
  "read",
  "document",
  "invitation",
]);
const BLOB = /^[0-9a-f]{64}$/;
const CODE = /^[A-Z0-9_]{1,60}$/;
/** Characters of the message of an error, and of its stack. */
const LONGEST_ERROR = 300;
const LONGEST_STACK = 4_000;

function fail(what: string): never {
  throw new Error(`a parser gave ${what}`);
}

type Plain = Record<string, unknown>;

const isPlain = (value: unknown): value is Plain =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

const isText = (value: unknown, longest: number): value is string =>
  typeof value === "string" && value.length <= longest;

function isQuestion(question: unknown): boolean {
  if (!isPlain(question) || !Number.isSafeInteger(question.number)) return false;
  const { name, type, stage, signer, header } = question;
  if (signer !== undefined) return Number.isSafeInteger(signer) && header instanceof Uint8Array;
  return isText(name, LONGEST_NAME) && TYPES.has(type as string) && STAGES.has(stage as string);
}

/** A message of a parser. @throws Error for any other value */
export function checkParserMessage(message: unknown): FromParser {
  if (!isPlain(message)) fail("no message");
  if (message.ready === true) return { ready: true };
  if (!Number.isSafeInteger(message.id)) fail("a message without a number");
  if ("question" in message) {
    if (!isQuestion(message.question)) fail("no question");
  } else if ("failure" in message) {
    const { message: text, stack, code } = isPlain(message.failure) ? message.failure : fail("no failure");
    if (typeof text !== "string" || (code !== undefined && !(typeof code === "string" && CODE.test(code)))) {
      fail("no failure");
    }
    // Both reach the log.
    const frames = typeof stack === "string" ? findStackFrames(stack.slice(0, LONGEST_STACK)) : undefined;
    const failure = { message: printable(text.slice(0, LONGEST_ERROR)), stack: frames, code };
    return { id: message.id as number, failure };
  } else if (message.result !== undefined) checkParserResult(message.result);
  return message as unknown as FromParser;
}

/** The result of a job. @throws Error for any other value */
export function checkParserResult(result: unknown): Prepared {
  if (!isPlain(result) || Object.keys(result).some((name) => !RESULTS.has(name))) fail("no result");
  const { message, content, kept = message?.octets } = result as Prepared;
  const files = message?.attachments ?? [];
  if (!files.every(({ blob }) => BLOB.test(blob))) fail("an attachment without a name");
  const { skeleton } = kept ?? {};
  if (skeleton && "blob" in skeleton && !BLOB.test(skeleton.blob)) fail("octets without a name");
  if (content && "blob" in content && !BLOB.test(content.blob)) fail("a content without a name");
  return result as Prepared;
}

/** The blobs that a job has staged. @throws Error if one has no blob's name, or its file does not lie in the stage */
export function checkStagedBlobs({ staged = [] }: Prepared, stage: string): Required<Prepared>["staged"] {
  const isOwn = (file: string): boolean => file.startsWith(`${stage}/`) && !file.slice(stage.length + 1).includes("/");
  if (!staged.every(({ name, file }) => BLOB.test(name) && isOwn(file))) fail("a file of another place");
  return staged;
}
