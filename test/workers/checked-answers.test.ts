/** Messages of parsers are checked before anything else sees them. */
import { describe, expect, test } from "bun:test";
import { checkParserMessage, checkStagedBlobs } from "../../src/workers/checked-answers.ts";

const BLOB = "0".repeat(64);
const question = { number: 1, name: "a.example", type: "TXT", stage: "evidence" };

describe("a message of a parser", () => {
  test.each<[string, unknown]>([
    ["that it is ready", { ready: true }],
    ["a question for a name", { id: 1, question }],
    ["a question for a signature", { id: 1, question: { number: 2, signer: 0, header: new Uint8Array([1]) } }],
    ["a failure", { id: 1, failure: { message: "no space", stack: undefined, code: "ENOSPC" } }],
    ["a result", { id: 1, result: { message: { subject: "x", attachments: [{ blob: BLOB }] }, staged: [] } }],
    ["that the result is in the file", { id: 1 }],
  ])("may be %s", (_, message) => {
    expect(checkParserMessage(message)).toEqual(message as never);
  });

  test.each<[string, unknown]>([
    ["no object", "ready"],
    ["nothing", undefined],
    ["a message without a number", { id: "1", result: {} }],
    ["a question of another type", { id: 1, question: { ...question, type: "AXFR" } }],
    ["a question for a name without end", { id: 1, question: { ...question, name: "a".repeat(2_000) } }],
    ["a question of another stage", { id: 1, question: { ...question, stage: "ever" } }],
    ["a question for the signature of nothing", { id: 1, question: { number: 2, signer: 0, header: "text" } }],
    ["a failure without words", { id: 1, failure: { message: 1 } }],
    ["a result with parts of its own", { id: 1, result: { sql: "DROP" } }],
    ["a failure with words in its code", { id: 1, failure: { message: "x", code: "any words" } }],
    ["a list of results", { id: 1, result: [] }],
    ["an attachment in another file", { id: 1, result: { message: { attachments: [{ blob: "../mailroom.db" }] } } }],
    [
      "octets in another file",
      { id: 1, result: { message: { attachments: [], octets: { skeleton: { blob: "../keys" } } } } },
    ],
    ["a content in another file", { id: 1, result: { content: { blob: "../keys", size: 1 } } }],
  ])("is never %s", (_, message) => {
    expect(() => checkParserMessage(message)).toThrow("a parser gave");
  });
});

test("what reaches the log of a failure is short, printable, and quotes no message", () => {
  const stack = `SyntaxError: secret words\n    at read (/$bunfs/root/main.js:1:2)\nmore secret words`;
  const failure = { message: `cannot write\u001b[2J\n${"x".repeat(1_000)}`, stack, code: "EIO" };
  const told = checkParserMessage({ id: 1, failure }) as { failure: { message: string; stack: string } };
  expect(told.failure.message).toMatch(/^cannot write \[2J x+$/);
  expect(told.failure.message.length).toBeLessThanOrEqual(300);
  expect(told.failure.stack).toBe("at read (/$bunfs/root/main.js:1:2)");
});

test("staged files lie in the stage of their job", () => {
  const staged = [{ name: BLOB, file: "/spool/1.staged/abc" }];
  expect(checkStagedBlobs({ staged }, "/spool/1.staged")).toEqual(staged);
  expect(checkStagedBlobs({}, "/spool/1.staged")).toEqual([]);
  for (const file of ["/etc/passwd", "/spool/1.staged/../2.staged/abc", "/spool/1.stagedother/abc"]) {
    expect(() => checkStagedBlobs({ staged: [{ name: BLOB, file }] }, "/spool/1.staged")).toThrow("another place");
  }
});
