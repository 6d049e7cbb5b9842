/** Forms of mail beside text and HTML with files (rules: Forms of mail). */
import { describe, expect, test } from "bun:test";
import { type ParsedMessage, parseMessage } from "../../src/message/parse.ts";

const parse = (text: string): Promise<ParsedMessage> => parseMessage(new Uint8Array(Buffer.from(text)));
const header = "From: ann@a.example\r\nMIME-Version: 1.0\r\n";

interface Entity {
  type: string;
  body?: string;
  /** Further lines of its header. */
  fields?: string[];
  parts?: Entity[];
}
let boundaries = 0;
function entity({ type, body = "", fields = [], parts }: Entity): string {
  if (parts === undefined) return [`Content-Type: ${type}`, ...fields, "", body].join("\r\n");
  const boundary = `b${++boundaries}`;
  const inner = parts.map((part) => `--${boundary}\r\n${entity(part)}\r\n`).join("");
  return `Content-Type: ${type}; boundary=${boundary}\r\n\r\n${inner}--${boundary}--\r\n`;
}
const parseEntity = (one: Entity) => parse(header + entity(one));
const files = ({ attachments }: ParsedMessage) =>
  attachments.map(({ filename, contentType }) => [filename, contentType]);

describe("alternatives", () => {
  const alternative = (...parts: Entity[]) =>
    parseEntity({
      type: "multipart/alternative",
      parts: [{ type: "text/plain", body: "Hi" }, ...parts, { type: "text/html", body: "<p>Hi</p>" }],
    });

  test.each<[what: string, part: Entity]>([
    ["AMP", { type: "text/x-amp-html", body: "<!doctype html><html amp4email>" }],
    ["AMP with a name", { type: "text/x-amp-html; name=amp.html", body: "<html amp4email>" }],
    ["for a watch", { type: "text/watch-html", body: "<b>Hi</b>" }],
    ["a reaction of Gmail", { type: "text/vnd.google.email-reaction+json", body: '{"emoji":"👍","version":1}' }],
    ["a reaction (RFC 9078)", { type: "text/plain", fields: ["Content-Disposition: reaction"], body: "👍" }],
    ["enriched text", { type: "text/enriched", body: "<bold>Hi</bold>" }],
    ["an unknown type", { type: "application/x-something", body: "Hi" }],
  ])("%s is neither shown nor attached", async (_, part) => {
    const message = await alternative(part);
    expect([message.text, message.html, message.attachments]).toEqual(["Hi", "<p>Hi</p>", []]);
  });

  test.each<[what: string, part: Entity, file: [string, string]]>([
    ["a calendar", { type: "text/calendar; method=REQUEST" }, ["attachment-1.ics", "text/calendar"]],
    ["a PDF", { type: "application/pdf" }, ["attachment-1.pdf", "application/pdf"]],
    ["an image", { type: "image/png" }, ["attachment-1.png", "image/png"]],
    ["a type that is broken", { type: "text/pla in; charset=utf-8" }, ["attachment-1.pla", "text/pla"]],
    ["a file by its name", { type: "application/x-cad; name=a.cad" }, ["a.cad", "application/x-cad"]],
    [
      "a file by its disposition",
      { type: "text/x-amp-html", fields: ["Content-Disposition: attachment; filename=a.html"] },
      ["a.html", "text/x-amp-html"],
    ],
  ])("%s stays an attachment", async (_, part, file) => {
    expect(files(await alternative(part))).toEqual([file]);
  });

  test("that Apple Mail makes keep the files between their texts", async () => {
    const message = await parseEntity({
      type: "multipart/alternative",
      parts: [
        { type: "text/plain", body: "One\r\n\r\nTwo" },
        {
          type: "multipart/mixed",
          parts: [
            { type: "text/html", body: "<p>One</p>" },
            { type: "application/pdf; name=a.pdf", fields: ["Content-Disposition: inline; filename=a.pdf"] },
            { type: "text/html", body: "<p>Two</p>" },
          ],
        },
      ],
    });
    expect(message.text).toBe("One\n\nTwo");
    expect(message.html).toBe("<p>One</p>\n<p>Two</p>");
    expect(files(message)).toEqual([["a.pdf", "application/pdf"]]);
  });

  test("without a text are attached, and a reaction alone is text", async () => {
    const amp = { type: "text/x-amp-html", body: "<html amp4email>" };
    expect(files(await parseEntity({ type: "multipart/alternative", parts: [amp] }))).toHaveLength(1);
    const reaction = { type: "text/plain; charset=utf-8", fields: ["Content-Disposition: reaction"], body: "👍" };
    expect((await parseEntity(reaction)).text).toBe("👍");
  });
});

describe("a calendar file", () => {
  const body = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n";
  test.each<[what: string, part: Entity]>([
    ["application/octet-stream", { type: "application/octet-stream; name=invite.ics", body }],
    ["application/octet-stream without a name", { type: "application/octet-stream", body: `\r\n${body}` }],
    ["text/plain without a name", { type: "text/plain; charset=utf-8", body: `\r\n${body}` }],
    ["text/plain", { type: "text/plain; name=invite.ics", body: `X\r\n${body}` }],
    [
      "application/x-any",
      { type: "application/x-any", fields: ["Content-Disposition: attachment; filename=a.txt"], body },
    ],
    ["application/ics", { type: "application/ics; name=invite.ics", body }],
  ])("that is declared as %s is one", async (_, part) => {
    const message = await parseEntity({ type: "multipart/mixed", parts: [{ type: "text/plain", body: "Hi" }, part] });
    expect(message.text).toBe("Hi");
    expect(message.attachments.map(({ contentType }) => contentType)).toEqual(["text/calendar"]);
  });

  test("is none by its name alone, nor is text that speaks of one", async () => {
    const file = { type: "application/octet-stream; name=a.ics", body: "x" };
    expect(files(await parseEntity({ type: "multipart/mixed", parts: [file] }))).toEqual([
      ["a.ics", "application/octet-stream"],
    ]);
    const talk = { type: "text/x-log; name=a.log", body: `See\r\n${body}` };
    expect(files(await parseEntity({ type: "multipart/mixed", parts: [talk] }))).toEqual([["a.log", "text/x-log"]]);
    expect((await parseEntity({ type: "text/plain", body })).text).toContain("BEGIN:VCALENDAR");
  });
});
