import { expect, test } from "bun:test";
import { maskCodesInFile } from "../../src/message/codes-file.ts";
import { composeMessage } from "../../src/message/compose.ts";
import { parseMessage } from "../../src/message/parse.ts";

const SECRET = "482913";
const TOKEN = "abc123def456";
const LINK = `https://a.example/login?token=${TOKEN}`;
const SAID = `Your code is ${SECRET}. Or sign in: ${LINK}`;

const fileOf = (content: string | Uint8Array, contentType: string, filename = "a") =>
  maskCodesInFile({ filename, contentType, content: typeof content === "string" ? Buffer.from(content) : content });

const textOf = async (...given: Parameters<typeof fileOf>) => Buffer.from((await fileOf(...given)) ?? []).toString();

const MASKED = "Your code is [code hidden]. Or sign in: [link hidden]";

test.each([
  ["plain text", SAID, "text/plain", MASKED],
  ["text of an unknown type", SAID, "application/octet-stream", MASKED],
  ["UTF-16", Buffer.from(`\ufeff${SAID}`, "utf16le"), "application/octet-stream", MASKED],
  ["Latin-1", Buffer.from(`é ${SAID}`, "latin1"), "text/plain", `é ${MASKED}`],
  ["JSON", JSON.stringify({ text: SAID }), "application/json", JSON.stringify({ text: MASKED })],
  ["HTML", `<p>Your code</p><b>${SECRET}</b>`, "text/html", "<p>Your code</p><b>[code hidden]</b>"],
  ["HTML by its beginning", `<html><b>Your code</b>: ${SECRET}`, "x/y", "<html><b>Your code</b>: [code hidden]"],
  [
    "a calendar, whose lines are folded",
    `BEGIN:VCALENDAR\r\nDESCRIPTION:Sign in at https://a.example/login?to\r\n ken=${TOKEN}\r\nEND:VCALENDAR`,
    "text/calendar",
    "BEGIN:VCALENDAR\r\nDESCRIPTION:Sign in at [link hidden]\r\nEND:VCALENDAR",
  ],
] as const)("%s", async (_, content, type, masked) => {
  expect(await textOf(content, type)).toBe(masked);
});

test("files of other kinds, and without codes, stay", async () => {
  expect(await fileOf("Hello 482913", "text/plain")).toBeUndefined();
  expect(await fileOf(`PK\u0003\u0004\0${SAID}`, "application/zip")).toBeUndefined();
  expect(await fileOf(`%PDF-1.7 ${SAID}`, "application/pdf")).toBeUndefined();
  expect(await fileOf(Buffer.from([0xff, 0xd8, ...Buffer.from(SAID)]), "image/jpeg")).toBeUndefined();
});

const attachment = (content: Uint8Array | string, contentType: string, filename: string) => ({
  filename,
  contentType,
  content: Buffer.from(content),
  inline: false,
});
const image = Buffer.from([0x89, 0x50, 0, 1, 2, 3, 255]);

/** `id`: distinct of messages inside each other. */
const message = (id: string, more: ReturnType<typeof attachment>[] = []) =>
  composeMessage({
    id,
    headers: [
      ["From", `"${SECRET} is your code" <no-reply@a.example>`],
      ["Subject", `${SECRET} is your code, Zoë`],
      ["X-Login-Code", SECRET],
      ["List-Unsubscribe", "<https://a.example/unsubscribe?token=abc>"],
      ["Message-ID", "<482914@a.example>"],
    ],
    text: `Grüße!\n\n${SAID}`,
    html: `<p>Code: <b>${SECRET}</b></p><a href="${LINK}">Sign in</a>`,
    attachments: [
      attachment(image, "image/png", "a.png"),
      attachment(SAID, "text/plain", `code ${SECRET}.txt`),
      attachment(SAID, "application/octet-stream", "b.bin"),
      ...more,
    ],
  });

/** Everything that a reader of the message can find in it. */
async function readAll(bytes: Uint8Array): Promise<string> {
  const { attachments, ...parsed } = await parseMessage(bytes);
  const files = await Promise.all(
    attachments.map(async ({ content, filename, contentType }) =>
      contentType === "message/rfc822" ? readAll(content) : `${filename} ${Buffer.from(content).toString("latin1")}`,
    ),
  );
  return [JSON.stringify(parsed), ...files].join("\n");
}

test("a message is masked in its fields, texts, names and files, and in messages attached to it", async () => {
  const whole = message("msg_1", [
    attachment(message("msg_2"), "message/rfc822", "x.eml"),
    attachment(message("msg_3"), "x/y", "renamed.bin"),
  ]);
  expect(await readAll(whole)).toContain(SECRET);
  for (const [type, name] of [
    ["message/rfc822", "a.eml"],
    ["application/octet-stream", "a.bin"],
  ] as const) {
    const masked = (await fileOf(whole, type, name)) ?? Buffer.from("");
    const read = await readAll(masked);
    expect(read).not.toContain(SECRET);
    expect(read).not.toContain(TOKEN);
    const parsed = await parseMessage(masked);
    expect(parsed.problem).toBeUndefined();
    expect(parsed.subject).toBe("[code hidden] is your code, Zoë");
    expect(parsed.from).toEqual({ email: "no-reply@a.example", name: "[code hidden] is your code" });
    expect(parsed.text).toBe(`Grüße!\n\n${MASKED}`);
    expect(parsed.html).toBe('<p>Code: <b>[code hidden]</b></p><a href="[link hidden]">Sign in</a>');
    expect(parsed.messageId).toBe("<482914@a.example>");
    expect(parsed.attachments.map(({ filename }) => filename)).toEqual([
      "a.png",
      "code [code hidden].txt",
      "b.bin",
      "x.eml",
      "renamed.bin",
    ]);
    expect(parsed.attachments[0]?.content).toEqual(new Uint8Array(image));
    // Nothing is left to mask.
    expect(await fileOf(masked, type, name)).toBeUndefined();
  }
});

test("messages that lie too deep inside each other are hidden", async () => {
  let whole = message("msg_inner");
  for (let depth = 0; depth < 12; depth++) {
    whole = composeMessage({
      id: `msg_${depth}`,
      headers: [["Subject", "x"]],
      text: "x",
      attachments: [attachment(whole, "message/rfc822", "x.eml")],
    });
  }
  const masked = Buffer.from((await fileOf(whole, "message/rfc822")) ?? []).toString("latin1");
  expect(masked).not.toContain(SECRET);
  expect(masked).toContain("too long to be checked");
});
