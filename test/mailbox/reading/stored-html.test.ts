/** Results for HTML stored by an older version; HTML that cannot be read counts as hidden. */
import { expect, test } from "bun:test";
import { unavailable } from "../../../src/base/errors.ts";
import { getMessage } from "../../../src/mailbox/reading/messages.ts";
import {
  readVisibleText,
  renderDraftEditor,
  renderMessageFrame,
  renewSanitizedHtml,
} from "../../../src/mailbox/reading/stored-html.ts";
import type { MailCore } from "../../../src/mailbox/state/mail-core.ts";
import { type ReadHtml, type Reading, readHtmlInThisThread, unpackText } from "../../../src/message/reading.ts";
import { SANITIZER_VERSION } from "../../../src/message/sanitize.ts";
import { SEEN_VERSION } from "../../../src/message/visible.ts";
import { messageBodies } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const MAIL = [
  "From: carol@remote.example",
  "To: alice@example.test",
  "Subject: Both",
  "MIME-Version: 1.0",
  "Content-Type: multipart/alternative; boundary=x",
  "",
  "--x",
  "",
  "Hello secret",
  "--x",
  "Content-Type: text/html",
  "",
  "<p>Hello</p><p hidden>secret</p>",
  "--x--",
  "",
].join("\n");
const SEEN = { text: "Hello", hidden: 6, fromHtml: true };

/** Such a message as version 0 stored it, read by `read`; and the requests for it. */
async function old(read: ReadHtml = readHtmlInThisThread) {
  const world = createAlice();
  const { messageId, threadId } = await world.receive(MAIL);
  const { store } = world;
  store.db.update(messageBodies).set({ sanitizer: 0, seenVersion: 0, seenText: null, seenHidden: 0 }).run();
  const asked: Reading["kind"][] = [];
  const counted: ReadHtml = (source, ask) => {
    asked.push(ask.kind);
    expect(source).toBe(world.box);
    return read(source, ask);
  };
  const core: MailCore = { ...world.core, parser: { ...world.core.parser, read: counted } };
  const body = () => store.db.select().from(messageBodies).get();
  const view = () => getMessage(world.core, world.alice, messageId, { html: true });
  return { ...world, core, asked, body, view, messageId, threadId };
}

test("an old body is read once, and the result is stored", async () => {
  const { core, alice, view, body, asked } = await old();
  for (let time = 0; time < 3; time++) expect(await readVisibleText(core, alice, view())).toEqual(SEEN);
  expect(asked).toEqual(["body"]);
  const { seenText, ...kept } = body() ?? {};
  expect(kept).toMatchObject({ seenHidden: 6, seenVersion: SEEN_VERSION, sanitizer: SANITIZER_VERSION });
  expect(seenText && unpackText(seenText)).toBe("Hello");
  expect(view().html).toBe('<p>Hello</p><p hidden="hidden">secret</p>');
});

test("HTML of an older policy is replaced by its text until it is renewed", async () => {
  const { core, view, threadId, messageId, asked } = await old();
  expect(view().html).toBe('<div style="white-space:pre-wrap">Hello secret</div>');
  await renewSanitizedHtml(core, threadId);
  expect(view().html).toBe('<p>Hello</p><p hidden="hidden">secret</p>');
  await renewSanitizedHtml(core, messageId);
  expect(asked).toEqual(["body"]);
});

test("colours and sheets that an older policy threw away are served", async () => {
  const world = createAlice();
  const html = '<style>.a{color:#336699}</style><p class="a" style="background:#333333">Hello</p>';
  const { messageId } = await world.receive(MAIL.replace("<p>Hello</p><p hidden>secret</p>", html));
  const { core, store, alice } = world;
  const served = () => getMessage(core, alice, messageId, { html: true }).html;
  const now = served();
  store.db.update(messageBodies).set({ sanitizer: 2, seenVersion: 3, html: "<p>Hello</p>" }).run();
  await renewSanitizedHtml(core, messageId);
  expect(served()).toBe(now);
  expect(now).toMatch(
    /^<style>\.(m[a-p]{16}) \.\1-a\{color:#336699\}<\/style><div class="\1"><p style="background:#333333" class="\1-a">/,
  );
});

test("HTML that kills the worker is hidden permanently", async () => {
  const { core, alice, view, body, asked } = await old(() => Promise.reject(new Error("took longer than 10 s")));
  const hidden = { text: "", hidden: "Hello secret".length, fromHtml: true };
  expect(await readVisibleText(core, alice, view())).toEqual(hidden);
  expect(await readVisibleText(core, alice, view())).toEqual(hidden);
  expect(asked).toEqual(["body"]);
  expect(unpackText(body()?.html as Uint8Array)).toBe('<div style="white-space:pre-wrap">Hello secret</div>');
});

test("a busy worker refuses, and nothing is stored", async () => {
  const busy = unavailable("Too much mail waits to be processed; try again");
  const { core, alice, view, body } = await old(() => Promise.reject(busy));
  await expect(readVisibleText(core, alice, view())).rejects.toBe(busy);
  expect(body()?.seenVersion).toBe(0);
});

test("a draft that changes meanwhile keeps its new content", async () => {
  const it = await old(async (source, ask) => {
    const answer = await readHtmlInThisThread(source, ask);
    it.store.db
      .update(messageBodies)
      .set({ sanitizer: SANITIZER_VERSION, seenVersion: SEEN_VERSION, html: "new" })
      .run();
    return answer;
  });
  await readVisibleText(it.core, it.alice, it.view());
  expect(it.body()).toMatchObject({ html: "new", seenText: null, seenHidden: 0 });
});

/** Documents for frames, made by `read`; and the requests for them. */
function frames(read: ReadHtml = readHtmlInThisThread) {
  const { core, alice } = createAlice();
  const asked: Reading[] = [];
  const counted: ReadHtml = (source, ask) => {
    asked.push(ask);
    expect(source).toBe(alice.userId);
    return read(source, ask);
  };
  return { core: { ...core, parser: { ...core.parser, read: counted } }, alice, asked };
}

const FRAMED = {
  subject: "Both",
  text: "As text",
  html: '<p>As HTML</p><img src="https://x.example/?a=1&amp;b=2" />',
  attachments: [],
};

test("the documents of frames are made in the worker", async () => {
  const { core, alice, asked } = frames();
  expect(await renderMessageFrame(core, alice, FRAMED, { remote: false })).toContain(
    '<p>As HTML</p><img data-blocked="" />',
  );
  expect(await renderMessageFrame(core, alice, FRAMED, { remote: true })).toContain(
    '<img src="\u0000https://x.example/?a=1&amp;b=2\u0000" />',
  );
  expect(await renderDraftEditor(core, alice, FRAMED)).toContain("<p>As HTML</p><img data-source=");
  expect(asked.map(({ kind }) => kind)).toEqual(["frame", "frame", "editor"]);
});

test("a message whose HTML kills the worker is framed as text", async () => {
  const { core, alice } = frames(async (source, ask) => {
    if (ask.kind === "frame" && ask.message.html !== "") throw new Error("took longer than 10 s");
    return readHtmlInThisThread(source, ask);
  });
  expect(await renderMessageFrame(core, alice, FRAMED, { remote: false })).toContain("As text");
});
