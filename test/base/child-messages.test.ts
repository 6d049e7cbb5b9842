/** Messages between the server and its children: what comes out is what went in, and nothing else is taken. */
import { describe, expect, test } from "bun:test";
import { createChildMessageReader, decodeChildMessage, encodeChildMessage } from "../../src/base/child-messages.ts";

const LONG = "é\u{1f600} ".repeat(5_000);
const values: Record<string, unknown> = {
  "plain values": { a: [1, -1.5, true, null, "text"], b: { c: {} } },
  bytes: { bytes: new Uint8Array([0, 1, 255]), list: [new Uint8Array(0), { deep: new Uint8Array(70_000).fill(7) }] },
  "long texts": { text: LONG, list: [["Subject", LONG], [LONG]], both: new Uint8Array([1]) },
  "texts that are no Unicode": { text: `${"x".repeat(2_000)}\ud800`, short: "\udfff" },
  maps: {
    root: {
      parameters: new Map([
        ["charset", "utf-8"],
        ["__proto__", LONG],
      ]),
      children: [{ of: new Map() }],
    },
  },
  "names of their own": JSON.parse(`{"__proto__": {"a": "${"b".repeat(2_000)}"}, "constructor": "c"}`),
};

test.each(Object.entries(values))("%s come out as they went in", (_, value) => {
  const before = structuredClone(value);
  expect(decodeChildMessage(encodeChildMessage(value))).toEqual(value);
  expect(value).toEqual(before);
});

test("what is undefined is left out", () => {
  expect(decodeChildMessage(encodeChildMessage({ a: undefined, b: 1 }))).toStrictEqual({ b: 1 });
});

test("bytes are copies, which keep nothing else in memory", () => {
  const message = encodeChildMessage({ bytes: new Uint8Array([1, 2]) });
  const { bytes } = decodeChildMessage(message) as { bytes: Uint8Array };
  message.fill(0);
  expect([...bytes, bytes.buffer.byteLength]).toEqual([1, 2, 2]);
});

/** A message of this JSON, and bytes behind it. */
function raw(json: string, bytes = "", says = json.length): Buffer {
  const message = Buffer.from(`12345678${json}${bytes}`, "latin1");
  message.writeUInt32LE(message.length - 4, 0);
  message.writeUInt32LE(says, 4);
  return message;
}

test.each<[string, Buffer]>([
  ["nothing", Buffer.alloc(0)],
  ["another length", Buffer.concat([raw("[1,[]]"), Buffer.alloc(1)])],
  ["no JSON", raw("[1,[]")],
  ["no pair", raw("7")],
  ["JSON beyond its end", raw("[1,[]]", "", 1_000)],
  ["JSON of five megabytes", raw(`[1,[${" ".repeat(5 * 1024 * 1024)}]]`)],
  ["bytes beyond its end", raw('[null,[[["a"],5]]]', "abc")],
  ["fewer bytes than none", raw('[{"a":null},[[["a"],-5]]]')],
  ["bytes in a place of something else", raw('[{"a":1},[[["a"],1]]]', "x")],
  ["bytes in a place that is not there", raw('[{},[[["a","b"],1]]]', "x")],
  ["bytes in what all objects share", raw('[{},[[["__proto__","polluted"],1]]]', "x")],
  ["a map that is none", raw('[{"a":null},[[["a"],2,2]]]', "{}")],
  ["a map of something else", raw('[{"a":null},[[["a"],11,2]]]', '[["a",[1]]]')],
  ["a place that is none", raw("[{},[5]]")],
])("%s is no message", (_, message) => {
  expect(() => decodeChildMessage(message)).toThrow();
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

describe("a stream", () => {
  const messages = [{ a: 1 }, { text: LONG }, { bytes: new Uint8Array([1, 2, 3]) }, { b: 2 }];
  const stream = Buffer.concat(messages.map(encodeChildMessage));

  test.each([1, 3, 7, 1_000, 100_000])("is cut into its messages, in chunks of %d bytes", (size) => {
    const heard: unknown[] = [];
    const read = createChildMessageReader(100_000, (value) => heard.push(value));
    for (let at = 0; at < stream.length; at += size) read(stream.subarray(at, at + size));
    expect(heard).toEqual(messages);
  });

  test("with a message that is longer than it may be is refused before that is taken in", () => {
    const read = createChildMessageReader(1_000, () => {});
    read(encodeChildMessage({ a: 1 }));
    const start = Buffer.alloc(4);
    start.writeUInt32LE(997, 0);
    expect(() => read(start)).toThrow("too much at once");
  });
});
