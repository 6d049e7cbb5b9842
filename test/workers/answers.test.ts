/** What parsers say is checked before anything else sees it. */
import { describe, expect, test } from "bun:test";
import { readMessage, readResult, readStaged, weigh } from "../../src/workers/answers.ts";

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
    expect(readMessage(message)).toEqual(message as never);
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
    ["a result with a function's place", { id: 1, result: { message: new Date() } }],
    ["an attachment in another file", { id: 1, result: { message: { attachments: [{ blob: "../mailroom.db" }] } } }],
    ["a content in another file", { id: 1, result: { content: { blob: "../keys", size: 1 } } }],
  ])("is never %s", (_, message) => {
    expect(() => readMessage(message)).toThrow("a parser gave");
  });
});

test("a result that nests without end, or has values without end, is none", () => {
  let nested: unknown = 1;
  for (let depth = 0; depth < 1_000; depth++) nested = [nested];
  expect(() => readResult({ message: nested })).toThrow("too many values");
  expect(() => readResult({ message: Array.from({ length: 2_000_000 }, () => 0) })).toThrow("too many values");
});

test("staged files lie in the stage of their job", () => {
  const staged = [{ name: BLOB, file: "/spool/1.staged/abc" }];
  expect(readStaged({ staged }, "/spool/1.staged")).toEqual(staged);
  expect(readStaged({}, "/spool/1.staged")).toEqual([]);
  for (const file of ["/etc/passwd", "/spool/1.staged/../2.staged/abc", "/spool/1.stagedother/abc"]) {
    expect(() => readStaged({ staged: [{ name: BLOB, file }] }, "/spool/1.staged")).toThrow("another place");
  }
});

test("a value weighs its characters and bytes", () => {
  expect(weigh({ a: "four", b: [new Uint8Array(3), new Map([["k", "v"]])], c: null, d: 12 })).toBe(9);
});
