/** Cut results: each says what was cut, and names the argument that gives the rest. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cutPiece } from "../../../src/api/mcp/budget.ts";
import { chooseDownloadForm } from "../../../src/api/mcp/render-download.ts";
import { DEFAULT_CHARS, type RenderArguments } from "../../../src/api/mcp/result.ts";
import type { MessageView } from "../../../src/mailbox/state/views.ts";
import { LEAST_CHARS, MOST_CHARS } from "../../../src/operations/tool.ts";
import { attachment, bodyIn, context, expectSound, htmlOf, message, RENDERERS, summary, thread } from "./mcp-mail.ts";

interface ShownMessage {
  textLength: number;
  nextOffset?: number;
  offset?: number;
}

/** Reads a message with get_message, piece by piece. */
async function readToTheEnd(one: MessageView, args: RenderArguments): Promise<string[]> {
  const pieces: string[] = [];
  for (let offset = 0; ; ) {
    const rendered = await RENDERERS.getMessage({ message: one }, { ...args, offset }, context());
    expectSound(rendered, args.maxChars ?? DEFAULT_CHARS);
    const shown = rendered.structured.message as ShownMessage;
    pieces.push(bodyIn(rendered.text));
    if (shown.nextOffset === undefined) {
      expect(rendered.text).not.toContain("Cut: characters");
      return pieces;
    }
    expect(rendered.text).toContain(`Cut: characters ${offset} to ${shown.nextOffset} of ${shown.textLength}`);
    expect(rendered.text).toContain(`offset ${shown.nextOffset}.`);
    expect(shown.nextOffset).toBeGreaterThan(offset);
    offset = shown.nextOffset;
  }
}

describe("pieces", () => {
  const unit = fc.constantFrom(
    "a",
    "word ",
    "\n",
    "👍",
    "\u0000",
    '"',
    "\\",
    "\u202E",
    "\uD83D",
    ">>>end ",
    "<<<mail",
    "   \n",
  );
  const texts = fc.array(unit, { maxLength: 200 }).map((units) => units.join(""));

  test("consecutive pieces make up the text, and each has room", () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 80 }), fc.integer({ min: 1, max: 120 }), (whole, text, json) => {
        let at = 0;
        while (at < whole.length) {
          const piece = cutPiece(whole, at, { text, json });
          expect(piece.start).toBe(at);
          expect(piece.end).toBeGreaterThan(at);
          if (Math.min(text, json) > 20) {
            expect(piece.shown.length).toBeLessThanOrEqual(text);
            expect(JSON.stringify(piece.shown).length - 2).toBeLessThanOrEqual(json);
          }
          // A surrogate pair stays together.
          if (piece.end < whole.length)
            expect(whole.slice(piece.end - 1, piece.end + 1)).not.toMatch(/^[\ud800-\udbff][\udc00-\udfff]$/);
          at = piece.end;
        }
      }),
      { numRuns: 500 },
    );
  });

  test("a piece ends after a line, else after a word, when one is near", () => {
    expect(cutPiece("one two\nthree four", 0, { text: 9, json: 99 }).shown).toBe("one two\n");
    expect(cutPiece("one two three four", 0, { text: 10, json: 99 }).shown).toBe("one two ");
    expect(cutPiece("onetwothreefour", 0, { text: 10, json: 99 }).shown).toBe("onetwothre");
  });

  test("an offset inside a surrogate pair starts before it, and one beyond the end is refused", () => {
    expect(cutPiece("a👍b", 2, { text: 9, json: 9 })).toMatchObject({ shown: "👍b", start: 1, end: 4 });
    expect(() => cutPiece("abc", 4, { text: 9, json: 9 })).toThrow("beyond the end: there are 3 characters");
  });
});

describe("get_message", () => {
  const words = Array.from({ length: 20_000 }, (_, index) => `w${index}${index % 9 === 0 ? "\n" : ""}`);

  for (const maxChars of [LEAST_CHARS, DEFAULT_CHARS, MOST_CHARS]) {
    test(`gives every word of a long text, in pieces of ${maxChars}`, async () => {
      const pieces = await readToTheEnd(message({ text: words.join(" ") }), { maxChars });
      expect(pieces.length).toBeGreaterThan(1);
      expect([...(pieces.join("").match(/\w+/g) ?? [])]).toEqual(words.map((word) => word.trim()));
    });
  }

  test("comes to the end of 5 MB of invisible characters", async () => {
    const pieces = await readToTheEnd(message({ text: `${"\u200B".repeat(5_000_000)}end` }), { maxChars: MOST_CHARS });
    expect(pieces.join("")).toBe("end");
  });

  test("a short message is not cut", async () => {
    const { text, structured } = await RENDERERS.getMessage({ message: message() }, {}, context());
    expect(text).not.toContain("Cut");
    expect(bodyIn(text)).toBe("Shall we?");
    expect(structured.message).toEqual({ id: "msg_1", threadId: "thr_1", textLength: 9 });
  });

  test("of 300 recipients, shows some, counts the others, and lists all when asked", async () => {
    const to = Array.from({ length: 300 }, (_, index) => ({
      email: `person${index}@remote.example`,
      name: `P ${index}`,
    }));
    const one = message({ to, text: "x".repeat(100_000) });
    const { text } = await RENDERERS.getMessage({ message: one }, {}, context());
    const shown = text.match(/person\d+@/g) ?? [];
    expect(shown.length).toBeGreaterThan(5);
    expect(text).toContain(`+${300 - shown.length} more`);
    expect(text).toContain(`Cut: ${300 - shown.length} more recipients; get_message with id msg_1 and list recipients`);

    const found: string[] = [];
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const args: RenderArguments = { list: "recipients", offset, maxChars: LEAST_CHARS };
      const rendered = await RENDERERS.getMessage({ message: one }, args, context());
      expectSound(rendered, LEAST_CHARS);
      found.push(...(rendered.text.match(/person\d+@remote.example/g) ?? []));
      offset = rendered.structured.nextOffset as number | undefined;
      expect(rendered.text.includes("Cut: ")).toBe(offset !== undefined);
    }
    expect(found).toEqual(to.map(({ email }) => email));
  });

  test("of many attachments, shows some, counts the others, and lists all when asked", async () => {
    const attachments = Array.from({ length: 200 }, (_, index) =>
      attachment({ id: `att_${index}`, filename: `f${index}.pdf` }),
    );
    const one = message({ attachments });
    const { structured, text } = await RENDERERS.getMessage({ message: one }, {}, context());
    const { attachments: shown } = structured.message as { attachments: unknown[] };
    expect(shown.length).toBeGreaterThan(20);
    expect(text.match(/^Attachment: att_\d+ "f\d+\.pdf" application\/pdf, 12345 bytes$/gm)).toHaveLength(shown.length);
    expect(text).toContain(
      `Cut: ${200 - shown.length} more attachments; get_message with id msg_1 and list attachments.`,
    );
    const list = await RENDERERS.getMessage({ message: one }, { list: "attachments", maxChars: MOST_CHARS }, context());
    expect(list.structured.attachments).toHaveLength(200);
  });

  test("leaves out the quoted history when asked, and says so", async () => {
    const text = "Yes.\n\nOn Tue, 1 Jul 2003 at 10:52, Ann <ann@remote.example> wrote:\n> old words\n";
    const whole = await RENDERERS.getMessage({ message: message({ text }) }, {}, context());
    expect(whole.text).toContain("old words");
    const { text: shown } = await RENDERERS.getMessage(
      { message: message({ text }) },
      { newTextOnly: true },
      context(),
    );
    expect(shown).not.toContain("old words");
    expect(shown).toContain(
      `Left out: ${text.length - 4} characters of quoted history; get_message with newTextOnly false`,
    );
    expect(bodyIn(shown)).toBe("Yes.");
  });

  test("leaves out hidden text, and says how much", async () => {
    const html = '<p>Hello</p><div style="visibility:hidden">obey</div>';
    const rendered = await RENDERERS.getMessage(
      { message: message({ text: "Hello obey" }) },
      {},
      context({ html: htmlOf(() => html) }),
    );
    expect(rendered.text).not.toContain("obey");
    expect(JSON.stringify(rendered.structured)).not.toContain("obey");
    expect(rendered.text).toContain("Left out: 4 characters that its reader does not see.");
  });

  test("gives the HTML when asked, safe and without its hidden parts", async () => {
    const html =
      '<p onclick="x()">Hello <a href="https://a.example/">you</a></p><p style="opacity:0">obey</p><script>y()</script>';
    const source = context({ html: htmlOf(() => html) });
    const { text } = await RENDERERS.getMessage({ message: message() }, { html: true }, source);
    expect(bodyIn(text)).toBe(
      '<p>Hello <a href="https://a.example/" target="_blank" rel="noopener noreferrer nofollow">you</a></p>',
    );
    expect(text).not.toContain("Shall we?");
    expect((await RENDERERS.getMessage({ message: message() }, { html: true }, context())).text).toContain(
      "The message has no HTML",
    );
  });
});

describe("get_thread", () => {
  const detail = (messages: MessageView[]) => ({
    thread: thread({ messageCount: messages.length }),
    messages,
    permissions: { send: true, manage: false },
  });
  const numbered = (count: number, text: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => message({ id: `msg_${index}`, text: text(index) }));
  type Shown = { messages: (ShownMessage & { id: string })[]; older: number; nextBefore?: string };

  test("gives 2,000 messages from the newest on, each once, by before", async () => {
    const answer = detail(numbered(2_000, (index) => `number ${index}`));
    const found: string[] = [];
    for (let before: string | undefined; ; ) {
      const rendered = await RENDERERS.getThread(answer, { before, maxChars: MOST_CHARS }, context());
      expectSound(rendered, MOST_CHARS);
      const shown = rendered.structured as unknown as Shown;
      found.unshift(...shown.messages.map(({ id }) => id));
      expect(found.length + shown.older).toBe(2_000);
      before = shown.nextBefore;
      expect(rendered.text.includes("older messages; get_thread")).toBe(before !== undefined);
      if (before === undefined) break;
      expect(rendered.text).toContain(
        `Cut: ${shown.older} older messages; get_thread with id thr_1 and before ${before}`,
      );
    }
    expect(found).toEqual(answer.messages.map(({ id }) => id));
  });

  test("gives the newest long message the most room, and says how to get the rest of each", async () => {
    const answer = detail(numbered(10, () => "words ".repeat(5_000)));
    const rendered = await RENDERERS.getThread(answer, {}, context());
    expectSound(rendered, DEFAULT_CHARS);
    const { messages, older } = rendered.structured as unknown as Shown;
    expect(messages.length).toBeGreaterThan(3);
    expect(messages.length + older).toBe(10);
    expect(messages.at(-1)?.id).toBe("msg_9");
    expect(messages.at(-1)?.nextOffset).toBeGreaterThan(5_000);
    for (const { id, nextOffset, textLength } of messages) {
      expect(rendered.text).toContain(
        `characters 0 to ${nextOffset} of ${textLength}; go on with get_message, id ${id},`,
      );
    }
  });

  test("gives the oldest message all the remaining room", async () => {
    const long = message({ text: "words ".repeat(3_000) });
    for (const messages of [[long], [long, message({ id: "msg_2" })]]) {
      const { text } = await RENDERERS.getThread(detail(messages), {}, context());
      expect(text).toContain(`\n\n${long.text}\n>>>end`);
    }
  });

  test("stays in the budget wherever the last message ends", async () => {
    const answer = detail(numbered(60, (index) => "words ".repeat(30 + index)));
    for (let maxChars = LEAST_CHARS; maxChars < LEAST_CHARS + 900; maxChars += 7) {
      expectSound(await RENDERERS.getThread(answer, { maxChars }, context()), maxChars);
    }
  });

  test("leaves out the quoted history unless asked", async () => {
    const text = "Yes.\n\nOn Tue, 1 Jul 2003 at 10:52, Ann <ann@remote.example> wrote:\n> old words\n";
    const answer = detail([message({ text })]);
    const shown = await RENDERERS.getThread(answer, {}, context());
    expect(shown.text).not.toContain("old words");
    expect(shown.text).toContain("characters of quoted history");
    expect((await RENDERERS.getThread(answer, { newTextOnly: false }, context())).text).toContain("old words");
  });

  test("reads the HTML only of the messages that it shows", async () => {
    const asked: string[] = [];
    const htmlSource = ({ id }: MessageView) => {
      asked.push(id);
      return undefined;
    };
    const answer = detail(numbered(500, () => "words ".repeat(200)));
    const { structured } = await RENDERERS.getThread(answer, {}, context({ html: htmlOf(htmlSource) }));
    const shown = (structured as unknown as Shown).messages.length;
    expect(asked.length).toBeLessThanOrEqual(shown + 1);
  });

  test("says when the mailbox gave a message cut", async () => {
    const { text } = await RENDERERS.getThread(detail([message({ truncated: true })]), {}, context());
    expect(text).toContain("Cut: only its beginning; get_message with id msg_1 has the whole.");
  });

  test("refuses a before that is not a message of the conversation", async () => {
    await expect(RENDERERS.getThread(detail([message()]), { before: "msg_9" }, context())).rejects.toThrow(
      "before is not",
    );
  });
});

describe("lists", () => {
  const threads = Array.from({ length: 100 }, (_, index) => thread({ id: `thr_${index}`, snippet: "s".repeat(200) }));
  const messages = Array.from({ length: 100 }, (_, index) => summary({ id: `msg_${index}`, snippet: "s".repeat(200) }));

  test("list_threads names the limit whose cursor follows the last conversation shown", async () => {
    const page = { threads, nextCursor: "cursor", unread: 1 };
    const { askAgain, text, structured } = await RENDERERS.listThreads(page, {}, context());
    const limit = askAgain?.limit ?? 0;
    expect(limit).toBeGreaterThan(10);
    expect(structured.threads).toHaveLength(limit);
    expect(structured.nextCursor).toBeNull();
    expect(text).toContain(`Cut: ${100 - limit} of these 100 conversations`);
    const again = await RENDERERS.listThreads({ ...page, threads: threads.slice(0, limit) }, {}, context());
    expect(again.askAgain).toBeUndefined();
    expect(again.structured.nextCursor).toBe("cursor");
    expect(again.text).toContain("More: list_threads with the same arguments and cursor cursor");
  });

  test("list_mailboxes continues at an offset and gives each mailbox once", async () => {
    const mailboxes = Array.from({ length: 300 }, (_, index) => ({
      id: `mbx_${index}`,
      address: `box${index}@example.test`,
      displayName: `Box ${index}`,
      aliases: [`alias${index}@example.test`],
      source: "admin" as const,
      access: { read: true, send: true, manage: true },
      unread: 0,
    }));
    const found: string[] = [];
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const rendered = await RENDERERS.listMailboxes({ mailboxes }, { offset }, context());
      expectSound(rendered, DEFAULT_CHARS);
      found.push(...(rendered.structured.mailboxes as { id: string }[]).map(({ id }) => id));
      offset = rendered.structured.nextOffset as number | undefined;
      if (offset !== undefined) expect(rendered.text).toContain(`Go on with list_mailboxes, offset ${offset}.`);
    }
    expect(found).toEqual(mailboxes.map(({ id }) => id));
  });

  test("list_messages continues at an offset and gives each message once, without a body", async () => {
    const found: string[] = [];
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const rendered = await RENDERERS.listMessages({ messages, count: 100 }, { offset, maxChars: 6_000 }, context());
      expectSound(rendered, 6_000);
      expect(rendered.text + JSON.stringify(rendered.structured)).not.toContain("The whole of it");
      found.push(...(rendered.structured.messages as { id: string }[]).map(({ id }) => id));
      offset = rendered.structured.nextOffset as number | undefined;
      if (offset !== undefined) expect(rendered.text).toContain(`the same arguments and offset ${offset}.`);
    }
    expect(found).toEqual(messages.map(({ id }) => id));
  });
});

describe("files", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const file = (fields: { filename?: string; contentType?: string; content?: Uint8Array; size?: number }) => {
    const { filename = "f", contentType = "text/plain", content } = fields;
    return { id: "att_1", filename, contentType, size: fields.size ?? content?.length ?? 0, content };
  };

  const kinds: [contentType: string, filename: string, size: number, wants: string][] = [
    ["text/plain", "a", 20_000_000, "text"],
    ["image/svg+xml", "a.svg", 5_000, "text"],
    ["application/octet-stream", "a.svg", 5_000, "text"],
    ["text/csv", "a.csv", 10, "text"],
    ["text/calendar", "a.ics", 10, "text"],
    ["application/json", "a", 10, "text"],
    ["application/ld+json", "a", 10, "text"],
    ["image/svg+xml", "a", 10, "text"],
    ["message/rfc822", "a.eml", 10, "text"],
    ["application/octet-stream", "notes.MD", 10, "text"],
    ["application/octet-stream", "a.exe", 10, "blob"],
    ["application/pdf", "a.txt", 10, "blob"],
    ["application/pdf", "a.pdf", 17_999, "blob"],
    ["application/pdf", "a.pdf", 18_001, "link"],
    ["text/plain", "a", 30_000_000, "link"],
  ];
  for (const [contentType, filename, size, wants] of kinds) {
    test(`${contentType} ${filename} of ${size} bytes: ${wants}`, () => {
      expect(chooseDownloadForm({ contentType, filename, size }) as string).toBe(wants);
    });
  }

  test("a link says how to download the file", async () => {
    const rendered = await RENDERERS.getAttachment(
      file({ contentType: "application/pdf", size: 5_000_000 }),
      {},
      context(),
    );
    expect(rendered.text).toContain(
      'curl -H "Authorization: Bearer $KEY" -o FILE https://mail.example.test/api/v1/attachments/att_1',
    );
    expect(rendered.structured).toMatchObject({
      url: "https://mail.example.test/api/v1/attachments/att_1",
      size: 5_000_000,
    });
  });

  test("text is given in pieces, to its end", async () => {
    const whole = Array.from({ length: 9_000 }, (_, index) => `line ${index}\n`).join("");
    let read = "";
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const rendered = await RENDERERS.getAttachment(file({ content: bytes(whole) }), { offset }, context());
      expectSound(rendered, DEFAULT_CHARS);
      read += bodyIn(rendered.text);
      offset = rendered.structured.nextOffset as number | undefined;
    }
    expect(read).toBe(whole);
  });

  test("text is decoded by its charset, and HTML shows its visible text", async () => {
    const textOf = async (contentType: string, content: Uint8Array) =>
      bodyIn((await RENDERERS.getAttachment(file({ contentType, content }), {}, context())).text);
    expect(await textOf("text/plain", Buffer.from("Grüße", "latin1"))).toBe("Grüße");
    expect(await textOf("text/plain", Buffer.from("\uFEFFGrüße", "utf16le"))).toBe("Grüße");
    for (const type of ["text/html", "application/xhtml+xml"]) {
      expect(await textOf(type, bytes("<p>Hello</p><p hidden>obey</p>"))).toBe("Hello");
    }
  });

  test("a file that claims to be text and is not is a link", async () => {
    const { text } = await RENDERERS.getAttachment(file({ content: new Uint8Array(50_000) }), {}, context());
    expect(text).toContain(
      "Cut: it is no text, and its bytes have no room in maxChars. Download it with the same key:\ncurl",
    );
    const { text: large } = await RENDERERS.getAttachment(file({ size: 26 * 1024 * 1024 }), {}, context());
    expect(large).toContain("Cut: a file over 25 MB is not read. Download it with the same key:\ncurl");
  });

  test("a raw message is shown as text", async () => {
    const raw = {
      id: "msg_1",
      filename: "msg_1.eml",
      contentType: "message/rfc822",
      content: bytes("Subject: x\r\n\r\nbody"),
    };
    const { structured, text } = await RENDERERS.getRawMessage({ ...raw, size: raw.content.length }, {}, context());
    expect(bodyIn(text)).toBe("Subject: x\n\nbody");
    expect(structured).toMatchObject({
      url: "https://mail.example.test/api/v1/messages/msg_1/raw",
    });
  });
});
