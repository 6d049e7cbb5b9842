/** The shape of requests that send or draft (rules: Send request, Reply request, Drafts). */
import { describe, expect, test } from "bun:test";
import { AppError } from "../../src/base/errors.ts";
import { startApi } from "../harness/servers/api-setup.ts";
import { fakeSending } from "../harness/servers/fake-sending.ts";

const FROM = "olga@example.test";
const TO = "zoe@remote.example";
const SEND = { from: FROM, to: TO, text: "Hello" };
const REPLY = { text: "Hello" };
const MIB = 1_048_576;

async function start() {
  const sending = fakeSending();
  const api = await startApi({ operations: sending.operations });
  const post = (path: string, body: unknown) =>
    api.ask(path, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
  return { ...api, sending, post };
}

describe("bad_request", () => {
  const CONTENT = "text or html is required, and must not be empty";
  const LIST = (name: string) => `${name} must be text or a list`;
  /** Fields of all three operations. */
  const common: [fields: object, says: string][] = [
    [{ text: undefined }, CONTENT],
    [{ text: "" }, CONTENT],
    [{ text: "", html: "" }, CONTENT],
    [{ text: 1 }, "text must be text"],
    [{ text: null }, "text must be text"],
    [{ text: ["a"] }, "text must be text"],
    [{ html: false }, "html must be text"],
    [{ subject: 7 }, "subject must be text of at most 10000 characters"],
    [{ subject: "x".repeat(10_001) }, "subject must be text of at most 10000 characters"],
    [{ from: null }, "from must be text"],
    [{ from: [FROM] }, "from must be text"],
    [{ to: 5 }, LIST("to")],
    [{ to: null }, LIST("to")],
    [{ to: {} }, LIST("to")],
    [{ to: [TO, 5] }, LIST("to")],
    [{ to: [[TO]] }, LIST("to")],
    [{ cc: null }, LIST("cc")],
    [{ bcc: { email: TO } }, LIST("bcc")],
    [{ bcc: [{ email: TO }] }, LIST("bcc")],
  ];
  const replies: [fields: object, says: string][] = [
    ...common,
    [{ replyAll: "true" }, "replyAll must be true or false"],
    [{ replyAll: null }, "replyAll must be true or false"],
    [{ quote: 1 }, "quote must be true or false"],
  ];
  const sends: [fields: object, says: string][] = [
    ...common,
    [{ from: undefined }, "from is required"],
    [{ to: undefined }, "to is required"],
    [{ from: "" }, "from is empty: give an address"],
    [{ from: "  " }, "from is empty: give an address"],
    [{ to: "" }, "to is empty: give an address"],
    [{ to: " , ," }, "to is empty: give an address"],
    [{ to: " ;;" }, "to is empty: give an address"],
    [{ to: [] }, "to is empty: give an address"],
    [{ to: ["", " "] }, "to is empty: give an address"],
  ];

  test.each([
    ["/send", SEND, sends],
    ["/threads/thr_1/reply", REPLY, replies],
    ["/threads/thr_1/draft", REPLY, replies],
  ] as const)("%s names the field and the values that it takes", async (path, body, table) => {
    const { post, sending } = await start();
    for (const [fields, says] of table) {
      const refused = await post(path, { ...body, ...fields });
      expect([fields, refused.status, refused.body]).toEqual([fields, 400, { error: says, code: "bad_request" }]);
    }
    for (const [text, says] of [
      ["", /empty/],
      ["{", /not valid JSON/],
      ["null", /must be a JSON object/],
      ["[]", /must be a JSON object/],
      ['"x"', /must be a JSON object/],
    ] as const) {
      const refused = await post(path, text);
      expect([text, refused.status, refused.body.code]).toEqual([text, 400, "bad_request"]);
      expect(refused.body.error).toMatch(says);
    }
    expect(sending.asked).toEqual([]);
  });
});

test("valid fields arrive unchanged, and unknown fields are ignored", async () => {
  const { post, sending } = await start();
  const whole = {
    ...SEND,
    html: "<p>Hello",
    subject: "Hi",
    cc: `a@x.test, B <b@x.test>`,
    bcc: ["c@x.test", "d@x.test"],
  };
  const reply = {
    html: "<p>Hello",
    replyAll: true,
    quote: false,
    from: FROM,
    to: [TO],
    cc: "",
    bcc: [],
    subject: "",
  };
  const table: [path: string, status: number, body: object, unknown?: object][] = [
    ["/send", 202, SEND],
    ["/send", 202, { ...whole, to: [TO, "Max <max@example.test>"] }],
    ["/send", 202, { ...SEND, text: " " }, { replyAll: "nonsense", quote: 1 }],
    ["/send", 202, { ...SEND, text: "", html: "<p>x" }],
    ["/send", 202, { ...SEND, subject: "x".repeat(10_000) }],
    ["/send", 202, { ...SEND, from: "no address at all", to: "nor here" }],
    ["/threads/thr_1/reply", 202, REPLY],
    ["/threads/thr_1/reply", 202, reply],
    ["/threads/thr_1/reply", 202, REPLY, { forward: [1], unknown: null }],
    ["/threads/thr_1/draft", 201, REPLY],
    ["/threads/thr_1/draft", 201, reply, { idempotencyKey: 7 }],
  ];
  for (const [path, status, body, unknown] of table) {
    const answer = await post(path, { ...body, ...unknown });
    expect([path, body, answer.status]).toEqual([path, body, status]);
    expect(answer.headers.get("content-type")).toStartWith("application/json");
    const [, , threadId, operation = "send"] = path.split("/");
    const caller = expect.objectContaining({ userId: "olga" });
    expect(sending.asked.pop() as object).toEqual({
      operation,
      caller,
      ...(threadId !== undefined && { threadId }),
      request: body,
    } as object);
  }
});

test("responses have their documented fields (rules: Send response, Draft response)", async () => {
  const { post } = await start();
  const sent = await post("/send", SEND);
  expect(sent.body).toEqual({
    ok: true,
    id: sent.body.messageId as string,
    messageId: expect.stringMatching(/^<.+@example\.test>$/) as unknown as string,
    emailId: expect.stringMatching(/^msg_/) as unknown as string,
    threadId: expect.stringMatching(/^thr_/) as unknown as string,
    mailboxId: "mbx_olga",
    from: FROM,
  });
  expect((await post("/threads/thr_7/draft", REPLY)).body).toEqual({
    ok: true,
    draftId: expect.stringMatching(/^thr_/) as unknown as string,
    replyToThreadId: "thr_7",
    from: FROM,
    to: "Zoe <zoe@remote.example>",
    cc: null,
    subject: "Re: x",
  });
});

describe("payload_too_large:", () => {
  test("content within the limit is accepted, however JSON escapes it", async () => {
    const { post, sending } = await start();
    for (const path of ["/send", "/threads/x/reply", "/threads/x/draft"]) {
      // JSON writes each byte of the text in six bytes.
      const escaped = `{"from":"${FROM}","to":"${TO}","html":"${"\\u0001".repeat(MIB)}"}`;
      expect([path, (await post(path, escaped)).status]).toEqual([path, path.endsWith("draft") ? 201 : 202]);
      expect(sending.asked.at(-1)).toMatchObject({ request: { html: "\u0001".repeat(MIB) } });
    }
  });

  test("a body far above the limit is refused unread", async () => {
    const { post, sending } = await start();
    for (const path of ["/send", "/threads/x/reply", "/threads/x/draft"]) {
      const refused = await post(path, { ...SEND, text: "x".repeat(8 * MIB) });
      expect([path, refused.status, refused.body.code]).toEqual([path, 413, "payload_too_large"]);
    }
    expect(sending.asked).toEqual([]);
  });
});

test.each([
  ["forbidden", 403, undefined],
  ["not_found", 404, undefined],
  ["payload_too_large", 413, undefined],
  ["unprocessable", 422, undefined],
  ["locked", 423, undefined],
  ["rate_limited", 429, 1799.2],
  ["upstream_failed", 502, undefined],
  ["insufficient_storage", 507, undefined],
] as const)("%s is %i, with the message that says what to change", async (code, status, retryAfter) => {
  const { post, sending } = await start();
  sending.beforeAccepting = () => {
    throw new AppError(code, "This is why", retryAfter === undefined ? {} : { retryAfter });
  };
  for (const path of ["/send", "/threads/x/reply", "/threads/x/draft"]) {
    const refused = await post(path, SEND);
    expect([path, refused.status, refused.body]).toEqual([path, status, { error: "This is why", code }]);
    expect(refused.headers.get("retry-after")).toBe(retryAfter === undefined ? null : "1800");
    expect(refused.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
  }
  expect(sending.accepted()).toBe(0);
});
