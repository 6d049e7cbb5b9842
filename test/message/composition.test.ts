/** The bytes of outgoing messages, read by postal-mime, which shares no code with this project. */
import { describe, expect, test } from "bun:test";
import PostalMime from "postal-mime";
import { type Composition, composeBytes } from "../../src/message/composition.ts";

/** Each blob contains its own name. */
const readBlob = async (name: string) => new TextEncoder().encode(name);

const read = async (letter: Omit<Composition, "id" | "headers">) => {
  const bytes = await composeBytes({ id: "boundary", headers: [["From", "alice@example.test"]], ...letter }, readBlob);
  const { text, html, attachments } = await PostalMime.parse(bytes);
  return { text: text?.trimEnd(), html: html?.trimEnd(), attachments: attachments.length };
};
const quoted = { from: { email: "carol@remote.example" }, date: 0, text: "Lunch?", html: "<p>Lunch?</p>" };

describe("an outgoing message with", () => {
  for (const [what, letter, text, html] of [
    ["text", { text: "Hi" }, "Hi", undefined],
    ["HTML", { html: "<p>Hi <b>you</b></p>" }, "Hi you", "<p>Hi <b>you</b></p>"],
    ["text and HTML", { text: "Hi", html: "<p>You</p>" }, "Hi", "<p>You</p>"],
    ["HTML and an empty text", { text: "", html: "<p>You</p>" }, "You", "<p>You</p>"],
    ["text and an empty HTML", { text: "Hi", html: "" }, "Hi", undefined],
    ["unsafe HTML", { html: "<p>Hi</p><script>x()</script>" }, "Hi", "<p>Hi</p>"],
    [
      "text, quoting",
      { text: "Yes", quoted },
      "Yes\n\nOn Thu, 1 Jan 1970 at 00:00 UTC, carol@remote.example wrote:\n> Lunch?",
      undefined,
    ],
  ] as const) {
    test(what, async () => {
      expect(await read(letter)).toEqual({ text, html, attachments: 0 });
    });
  }

  test("HTML, quoting", async () => {
    const { text, html } = await read({ html: "<p>Yes</p>", quoted });
    expect(text).toMatch(/^Yes\n\nOn .* wrote:\n> Lunch\?$/);
    expect(html).toMatch(
      /^<p>Yes<\/p>[\s\S]*wrote:[\s\S]*<blockquote[^>]*>[\s\S]*<p>Lunch\?<\/p>[\s\S]*<\/blockquote>$/,
    );
  });
});

test("contains its attachments, inline if its HTML shows them", async () => {
  const file = (filename: string, blob: string, more = {}) => ({
    filename,
    blob,
    size: blob.length,
    contentType: "text/csv",
    inline: false,
    ...more,
  });
  const pic = file("pic.png", "PIC", { contentType: "image/png", inline: true, contentId: "pic@x" });
  const files = [pic, file("Zahlen – März.csv", "a,b")];
  const letter = { id: "boundary", headers: [["From", "alice@example.test"]] as const, files };
  const { attachments } = await PostalMime.parse(
    await composeBytes({ ...letter, html: '<p>See <img src="cid:pic@x"></p>' }, readBlob),
  );
  const said = attachments.map(({ filename, mimeType, disposition, contentId, content }) => [
    filename,
    mimeType,
    disposition,
    contentId,
    new TextDecoder().decode(content as ArrayBuffer),
  ]);
  expect(said).toEqual([
    ["pic.png", "image/png", "inline", "<pic@x>", "PIC"],
    ["Zahlen – März.csv", "text/csv", "attachment", undefined, "a,b"],
  ]);
});
