import { expect, test } from "bun:test";
import { createLog, type LogFields } from "../../src/base/log.ts";

function logged(fields: LogFields, message = "hello", level: Parameters<typeof createLog>[0] = "info"): string[] {
  const lines: string[] = [];
  createLog(
    level,
    () => 0,
    (line) => lines.push(line),
  ).info(message, fields);
  return lines;
}

test("one JSON object a line, with time, level, message and fields", () => {
  expect(logged({ trace: "t1", size: 3, left: undefined, text: "two\nlines" })).toEqual([
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","message":"hello","trace":"t1","size":3,"text":"two\\nlines"}',
  ]);
});

test("lines below the level are not written", () => {
  expect(logged({}, "hello", "warn")).toEqual([]);
  expect(logged({}, "hello", "silent")).toEqual([]);
});

test("a child's lines carry its fields", () => {
  const lines: string[] = [];
  createLog(
    "info",
    () => 0,
    (line) => lines.push(line),
  )
    .child({ trace: "t1" })
    .child({ job: "sweep" })
    .warn("odd");
  expect(JSON.parse(lines[0] as string)).toMatchObject({ trace: "t1", job: "sweep", level: "warn" });
});

test("errors are logged whole: name, message, code, stack and cause", () => {
  const error = new Error("outer", { cause: Object.assign(new Error("inner"), { code: "EIO" }) });
  expect(JSON.parse(logged({ error })[0] as string).error).toMatchObject({
    name: "Error",
    message: "outer",
    stack: expect.stringContaining("log.test"),
    cause: { message: "inner", code: "EIO" },
  });
});

test.each([
  ["an API key in a field", { note: "used mr_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG here" }],
  ["a webhook secret", { note: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=" }],
  ["a bearer header", { headers: { authorization: "Bearer abcdef" } }],
  ["a password, nested", { user: { password: "0123456789abcdef" } }],
  ["a Bcc", { bcc: ["0123456789abcdef@example.test"] }],
  ["a private key in an error", { error: new Error("-----BEGIN PRIVATE KEY-----\n0123456789abcdef\n") }],
])("no line shows %s", (_, fields) => {
  const line = logged(fields as LogFields)[0] as string;
  expect(line).toContain("[redacted]");
  expect(line).not.toMatch(/0123456789abcdef|Bearer abc|MDEyMzQ1/);
});

test("a text that another server wrote is cut, in fields, errors and what is nested", () => {
  const long = "x".repeat(1_000_000);
  const error = new Error(long, { cause: new Error(long) });
  const [line = ""] = logged({ reason: long, error, answer: { message: long } }, long);
  expect(line.length).toBeLessThan(100_000);
  expect(JSON.parse(line).reason).toBe(`${"x".repeat(8_000)}…`);
});

test("a line acts on no terminal and turns nothing around, and reads as what was written", () => {
  const reason = "\u001b[2J \u009b2J \u0085 \u007f \u202enever\u202c \u2066x\u2069 \u200f é 漢";
  const [line = ""] = logged({ reason, answer: { message: reason } });
  expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(JSON.parse(line)).toMatchObject({ reason, answer: { message: reason } });
});
