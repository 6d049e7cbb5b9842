/**
 * Attacks from other projects in the real frame, in a real browser: no script runs, nothing loads, nothing leaves the
 * frame. Sanitised attacks do not even try. Unsanitised ones are stopped by the sandbox and the policy alone.
 */
import { afterAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { FRAME_SANDBOX } from "../../src/base/frames.ts";
import { FRAME_HEADERS } from "../../src/http/frame-responses.ts";
import { renderMessageDocument } from "../../src/message/frame.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { chromiumNote, chromiumPresent, openBrowser } from "../harness/clients/chromium.ts";
import { corpusJson, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";

/** Payloads in one frame, since a frame takes the browser some tenths of a second. */
const IN_A_FRAME = 25;
const NO_IMAGES = { attachment: () => "", remote: undefined };
const HTML = { "content-type": "text/html" };
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const SCRIPT_RAN = '<script>alert("ran")</script>';

/** Paths that only a message can have requested. */
let strays: string[] = [];
/** Documents of the open page, by number. */
let documents: { html: string; headers: Record<string, string>; sandbox: string }[] = [];

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/") {
      const frames = documents.map(({ sandbox }, n) => `<iframe sandbox="${sandbox}" src="/frame/${n}"></iframe>`);
      return new Response(`<!doctype html><title>Page</title><link rel="icon" href="data:,">${frames.join("")}`, {
        headers: { "content-type": "text/html" },
      });
    }
    if (pathname === "/image") return new Response(PNG, { headers: { "content-type": "image/png" } });
    if (!/^\/frame\/\d+$/.test(pathname)) strays.push(pathname);
    const found = pathname.startsWith("/frame/") ? documents[Number(pathname.slice(7))] : undefined;
    return found ? new Response(found.html, { headers: found.headers }) : new Response(null, { status: 404 });
  },
});
const origin = `http://127.0.0.1:${server.port}`;
afterAll(() => server.stop(true));

interface Seen {
  /** Requests on the network, except those for the page and its frames. */
  loaded: string[];
  /** Messages on the console. */
  said: string[];
  /** Windows, dialogs and downloads that opened, and frames that navigated away. */
  opened: string[];
}

async function openPage(): Promise<{ page: Page; seen: Seen }> {
  const context = await (await openBrowser()).newContext();
  const page = await context.newPage();
  const seen: Seen = { loaded: [], said: [], opened: [] };
  page.on("console", (message) => seen.said.push(message.text()));
  page.on("pageerror", (error) => seen.said.push(error.message));
  page.on("dialog", (dialog) => {
    seen.opened.push(`dialog ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("download", (download) => seen.opened.push(`download ${download.url()}`));
  context.on("page", (opened) => seen.opened.push(`window ${opened.url()}`));
  page.on("framenavigated", (frame) => {
    const url = frame.url();
    if (url !== `${origin}/` && !url.startsWith(`${origin}/frame/`)) seen.opened.push(`frame at ${url}`);
  });
  return { page, seen };
}

/** Fires the events that a reader might cause, in every element of every frame. */
async function provoke(page: Page, frames: number): Promise<void> {
  const provoked = await page.evaluate(() => {
    const kinds = [
      "mouseover",
      "mousemove",
      "mousedown",
      "mouseup",
      "focus",
      "blur",
      "keydown",
      "load",
      "error",
      "toggle",
    ];
    const frames = [...document.querySelectorAll("iframe")];
    return frames.filter(({ contentDocument }) => {
      for (const element of contentDocument?.querySelectorAll("*") ?? []) {
        for (const kind of [...kinds, "animationstart", "scroll", "submit", "pointerover"]) {
          element.dispatchEvent(new Event(kind, { bubbles: true, cancelable: true }));
        }
      }
      return contentDocument?.body !== null;
    }).length;
  });
  expect(provoked).toBe(frames);
}

/** Shows documents in frames of one page, provokes them, and returns the observations. */
async function render(bodies: typeof documents): Promise<Seen> {
  const { foreign } = await openBrowser();
  foreign.length = 0;
  strays = [];
  documents = bodies;
  const { page, seen } = await openPage();
  await page.goto(`${origin}/`);
  await provoke(page, bodies.length);
  await page.context().close();
  return { ...seen, loaded: [...strays, ...foreign.filter((line) => !OF_CHROMIUM.test(line))] };
}

/** Chromium itself makes this request for forms that it finds. */
const OF_CHROMIUM = /^CONNECT content-autofill\.googleapis\.com:443 /;

const framed = (html: string) => ({
  html: renderMessageDocument({ subject: "", text: "", html, attachments: [] }, NO_IMAGES),
  headers: FRAME_HEADERS,
  sandbox: FRAME_SANDBOX,
});

/** The payloads unsanitised, in the place of the sanitised HTML. */
const unsanitised = (payloads: readonly string[]) => {
  const shell = framed("");
  return { ...shell, html: shell.html.replace("<main>", () => `<main>${payloads.join(ENDS)}`) };
};

/** Stands between payloads, so that none swallows the next. */
const ENDS = `-->'">${"script style title textarea noscript template svg math select xmp iframe noembed noframes object table"
  .split(" ")
  .map((tag) => `</${tag}>`)
  .join("")}`;

/** Groups payloads by frame. A payload that turns the rest of its document into text is alone. */
function inFrames(payloads: readonly string[]): string[][] {
  const [greedy = [], others = []] = [true, false].map((is) =>
    payloads.filter((one) => /<plaintext/i.test(one) === is),
  );
  const groups = greedy.map((one) => [one]);
  for (let from = 0; from < others.length; from += IN_A_FRAME) groups.push(others.slice(from, from + IN_A_FRAME));
  return groups;
}

/** Collects every string of a JSON value, since payloads are spread over several fields. */
function stringsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(stringsIn) : [];
}

const payloads = !corpusPresent
  ? []
  : [
      ...(corpusJson("dompurify/expect.json") as { payload: string }[]).map(({ payload }) => payload),
      ...stringsIn(corpusJson("h5sc/items.json")).filter((text) => text.includes("<")),
    ];

describe.skipIf(!chromiumPresent)(`in Chromium${chromiumNote}`, () => {
  test("the test detects a running script and a loaded image", async () => {
    const html = `${SCRIPT_RAN}<img src="http://elsewhere.example/a"><img src="/b">`;
    const seen = await render([{ html, headers: HTML, sandbox: `${FRAME_SANDBOX} allow-scripts` }]);
    expect(seen.said.join()).toContain("alert()");
    expect(seen.loaded.sort()).toEqual(["/b", "GET http://elsewhere.example/a HTTP/1.1"]);
  });

  test("the sandbox alone stops a script, in header or frame, and so does the policy alone", async () => {
    const [sandbox = "", policy = ""] = [/sandbox.*/, /^.*(?=; sandbox)/].map(
      (part) => part.exec(FRAME_HEADERS["content-security-policy"])?.[0],
    );
    const loose = `${FRAME_SANDBOX} allow-scripts`;
    const seen = await render([
      { html: SCRIPT_RAN, headers: HTML, sandbox: FRAME_SANDBOX },
      { html: SCRIPT_RAN, headers: { ...HTML, "content-security-policy": sandbox }, sandbox: loose },
      { html: SCRIPT_RAN, headers: { ...HTML, "content-security-policy": policy }, sandbox: loose },
    ]);
    expect(
      seen.said.filter((text) => /^(?:Blocked script execution|Executing inline script violates)/.test(text)),
    ).toHaveLength(3);
    expect(seen.said.join()).not.toContain("alert()");
    expect(seen.opened).toEqual([]);
  });

  test.skipIf(!corpusPresent)(
    `sanitised attacks are quiet${corpusNote}`,
    async () => {
      expect(payloads.length).toBeGreaterThan(350);
      expect(
        await render(inFrames(payloads).map((group) => framed(group.map((payload) => sanitizeHtml(payload)).join("")))),
      ).toEqual({
        loaded: [],
        said: [],
        opened: [],
      });
    },
    120_000,
  );

  test.skipIf(!corpusPresent)(
    `attacks that no sanitiser saw are held${corpusNote}`,
    async () => {
      const seen = await render(inFrames(payloads).map(unsanitised));
      // The attacks were in the document and tried.
      expect(seen.said.filter((text) => text.startsWith("Blocked script execution")).length).toBeGreaterThan(100);
      expect(seen.said.join()).not.toContain("alert()");
      // Relative URLs are images of this server. Blocked frames stay empty.
      expect(seen.loaded.filter((path) => !path.startsWith("/"))).toEqual([]);
      expect(seen.opened.filter((what) => !/^frame at (?:about:|chrome-error:)/.test(what))).toEqual([]);
    },
    120_000,
  );

  test("a message is shown with attached images, folded history, links that open elsewhere, and its full height", async () => {
    const { foreign } = await openBrowser();
    const quotation = `<blockquote style="border-left:1px solid">${"<p>Old</p>".repeat(50)}</blockquote>`;
    const html = sanitizeHtml(
      `<a href="http://elsewhere.example/a">Link</a><img src="cid:logo"><img src="http://elsewhere.example/b.png">${quotation}`,
    );
    const letter = { subject: "Re: Hello", text: "", html, attachments: [{ id: "att_1", contentId: "logo" }] };
    const shell = framed("");
    documents = [{ ...shell, html: renderMessageDocument(letter, { attachment: () => "/image", remote: undefined }) }];
    foreign.length = 0;
    const { page, seen } = await openPage();
    await page.goto(`${origin}/`);
    const measure = () =>
      page.evaluate(() => {
        const shown = document.querySelector("iframe")?.contentDocument;
        const height = shown?.querySelector("main")?.offsetHeight ?? 0;
        return { height, images: [...(shown?.images ?? [])].map(({ naturalWidth }) => naturalWidth) };
      });
    const before = await measure();
    expect(before.images).toEqual([1, 0]);
    await page.frameLocator("iframe").locator("summary").click();
    expect((await measure()).height).toBeGreaterThan(before.height + 500);
    expect([seen.said, foreign]).toEqual([[], []]);

    const opened = page.context().waitForEvent("page");
    await page.frameLocator("iframe").getByText("Link").click();
    const elsewhere = await opened;
    await elsewhere.waitForLoadState();
    expect(foreign).toEqual(["GET http://elsewhere.example/a HTTP/1.1"]);
    expect(page.url()).toBe(`${origin}/`);
    await page.context().close();
  });
});
