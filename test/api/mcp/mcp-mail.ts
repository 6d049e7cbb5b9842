/** Answers of operations for the tests of rendering, and the checks that hold for every result. */
import { expect } from "bun:test";

import { type Answers, RENDERERS as RENDERED } from "../../../src/api/mcp/render.ts";
import type { RenderArguments, RenderContext, Rendered } from "../../../src/api/mcp/result.ts";
import type { AttachmentView, MessageSummaryView, MessageView, ThreadView } from "../../../src/mailbox/state/views.ts";
import { packText, readHtml } from "../../../src/message/reading.ts";
import { visibleTextForModel } from "../../../src/message/visible.ts";

const ANN = { email: "ann@remote.example", name: "Ann" };
const BEN = { email: "ben@example.test" };
const DATE = "2026-11-21T15:02:11.000Z";

/** Stands in every value of mail, and must not occur outside a fence. */
export const MARK = "¶";

export const message = (fields: Partial<MessageView> = {}): MessageView => ({
  id: "msg_1",
  threadId: "thr_1",
  mailboxId: "mbx_1",
  direction: "inbound",
  messageId: "<1@remote.example>",
  from: ANN,
  to: [BEN],
  cc: [],
  subject: "Lunch",
  date: DATE,
  read: true,
  text: "Shall we?",
  attachments: [],
  auth: { spf: "pass", dkim: "pass", dmarc: "fail" },
  ...fields,
});

export const thread = (fields: Partial<ThreadView> = {}): ThreadView => ({
  id: "thr_1",
  mailboxId: "mbx_1",
  mailbox: "ben@example.test",
  receivedOn: "ben@example.test",
  subject: "Lunch",
  snippet: "Shall we?",
  from: ANN,
  participants: [ANN, BEN],
  folder: "inbox",
  unread: true,
  starred: false,
  labels: [],
  lastMessageAt: DATE,
  hasAttachments: false,
  messageCount: 1,
  ...fields,
});

export const summary = (fields: Partial<MessageSummaryView> = {}): MessageSummaryView => ({
  id: "msg_1",
  threadId: "thr_1",
  mailbox: "ben@example.test",
  folder: "inbox",
  direction: "inbound",
  from: ANN,
  to: [BEN],
  subject: "Lunch",
  snippet: "Shall we?",
  bodyText: "Shall we? The whole of it.",
  date: DATE,
  read: false,
  ...fields,
});

export const attachment = (fields: Partial<AttachmentView> = {}): AttachmentView => ({
  id: "att_1",
  filename: "plan.pdf",
  contentType: "application/pdf",
  size: 12_345,
  inline: false,
  url: "/api/v1/attachments/att_1",
  ...fields,
});

/** Gives the visible parts of messages with the given HTML. */
export const htmlOf = (source: (message: MessageView) => string | undefined): RenderContext["html"] => ({
  text: async (message) => visibleTextForModel(message.text, source(message)),
  async visible(message) {
    const html = source(message);
    return html === undefined ? undefined : readHtml({ kind: "visible", html: packText(html) });
  },
  ofFile: async (html) => readHtml({ kind: "text", html }),
});

export function context(fields: Partial<RenderContext> = {}): RenderContext {
  let drawn = 0;
  return {
    nonce: () => `0a1b2c3d4e5f${(drawn++).toString(16).padStart(4, "0")}`,
    baseUrl: "https://mail.example.test",
    html: htmlOf(() => undefined),
    ...fields,
  };
}

/** A result as clients get it. */
export interface Shown {
  text: string;
  structured: Record<string, unknown>;
  askAgain?: { limit: number };
}

export const parse = (rendered: Rendered): Shown => JSON.parse(JSON.stringify(rendered));

type Renderers = {
  [Name in keyof Answers]: (answer: Answers[Name], args: RenderArguments, context: RenderContext) => Promise<Shown>;
};

export const RENDERERS = Object.fromEntries(
  Object.entries(RENDERED).map(([name, render]) => [
    name,
    async (answer: never, args: RenderArguments, context: RenderContext) => parse(await render(answer, args, context)),
  ]),
) as Renderers;

/** Gives the body that a text shows of a message, or the content of a file: what follows the first empty line. */
export const bodyIn = (text: string): string => openFences(text).inside.replace(/^(?:.+\n)*\n/, "");

interface Fenced {
  outside: string;
  inside: string;
}

/** A line as a model may take it: NFKC, and some characters as those that they look like. */
const lookedAt = (line: string): string =>
  line
    .normalize("NFKC")
    .replace(/[ᐸ‹«《〈⟨❮˂←⮜⋘]/g, (mark) => (mark === "⋘" ? "<<<" : "<"))
    .replace(/[ᐳ›»》〉⟩❯˃→⮞⋙➤]/g, (mark) => (mark === "⋙" ? ">>>" : ">"))
    .replace(/[еЕ]/g, "e")
    .replace(/[аА]/g, "a")
    .replace(/[іІ]/g, "i")
    .replace(/[мМ]/g, "m")
    .replace(/ԁ/g, "d");

/** Separates a text by its fences, as a model is told to. Fails when a fence is wrong. */
export function openFences(text: string): Fenced {
  const outside: string[] = [];
  const inside: string[] = [];
  let nonce: string | undefined;
  for (const line of text.split("\n")) {
    const start = /^<<<mail ([0-9a-f]{16})(?: from=\S+)?(?: (?:spf|dkim|dmarc)=[a-z]+){0,3}$/.exec(line);
    if (nonce === undefined && start !== null) nonce = start[1];
    else if (nonce !== undefined && line === `>>>end ${nonce}`) nonce = undefined;
    else {
      expect(lookedAt(line)).not.toMatch(/<{2,}\s*mail\b|>{2,}\s*end\b/i);
      if (nonce !== undefined) expect(line).not.toContain(nonce);
      (nonce === undefined ? outside : inside).push(line);
    }
  }
  expect(nonce).toBeUndefined();
  return { outside: outside.join("\n"), inside: inside.join("\n") };
}

const UNSEEN = /[\u202A-\u202E\u2066-\u2069\u200B\u200E\u200F\u{E0000}-\u{E0FFF}\uFEFF]/u;

/** Checks the rules that hold for every result. */
export function expectSound({ text, structured }: Shown, maxChars: number): Fenced {
  expect(text.length).toBeLessThanOrEqual(maxChars);
  const json = JSON.stringify(structured);
  expect(json.length).toBeLessThanOrEqual(maxChars);
  for (const shown of [text, json]) {
    expect(shown).not.toMatch(UNSEEN);
    expect(shown.isWellFormed()).toBe(true);
  }
  expect(text.replaceAll("\n", "").replaceAll("\t", "")).not.toMatch(/\p{Cc}/u);
  const { text: again = text, ...given } = structured;
  expect(again).toBe(text);
  expect(JSON.stringify(given)).not.toMatch(new RegExp(`${MARK}|<{2,}\\s*mail\\b|>{2,}\\s*end\\b`, "i"));
  const fenced = openFences(text);
  expect(fenced.outside).not.toContain(MARK);
  return fenced;
}
