/**
 * The documents inside an iframe of the app that show a message, and in which the HTML of a draft is edited. Mail is
 * hostile, so there are three defences, and each suffices alone: sanitize.ts removes everything that runs or loads; the
 * sandbox, in the header of the response (http/frame-responses.ts) and on the iframe, forbids scripts, forms and navigation of
 * the app; the policy allows only inline styles and images from this server.
 *
 * The sandbox lets the document keep the app's origin, so that the app can measure its height (that of main), handle
 * its keys and read its links; with another origin, that would take a script inside the document. Mail gains nothing
 * from the origin: only a script could use it, and both the sandbox and the policy forbid scripts.
 *
 * Invariant: a request leaves the browser only for an image of ours, or for a link that the reader followed.
 */
import { BLOCKED_ATTRIBUTE, SOURCE_ATTRIBUTE } from "../base/frames.ts";
import { extractNewText, findQuotedHistory } from "./quoted-history.ts";
import { isForwardSubject } from "./subject.ts";
import { htmlOfText } from "./text.ts";

export interface FramedMessage {
  subject: string;
  text: string;
  /** Sanitised. If it is empty, the text is shown. */
  html?: string;
  attachments: readonly { id: string; contentId?: string }[];
  /** False: links lead nowhere, and tell where they would lead. Absent: they open. */
  links?: boolean;
}

interface ImageUrls {
  attachment(id: string): string;
  /** The URL for a remote image; undefined while remote images are blocked. */
  remote: ((url: string) => string | undefined) | undefined;
}

/** The app's URL for an attached image. */
export const attachmentPreviewUrl = (attachmentId: string): string => `/app/attachments/${attachmentId}/preview`;

/** The whole document of a message. */
export function renderMessageDocument(message: FramedMessage, images: ImageUrls): string {
  const { html, scheme } = inScheme(message.html ?? "");
  const body = html === "" ? bodyOfText(message) : bodyOfHtml(html, message, images);
  return formatFrameDocument(scheme, "", `<main>${body}</main>`);
}

/**
 * The document in which the HTML of a draft is edited. Only main is editable, which needs no script. Each image keeps
 * the URL that it has in the mail beside the one at which it is shown.
 */
export function editorDocument(draft: Omit<FramedMessage, "subject" | "text">): string {
  const { html = "", attachments } = draft;
  const { scheme } = inScheme(html);
  const attached = attachedTo(attachments);
  const body = new HTMLRewriter()
    .on("img", {
      element(element) {
        const src = element.getAttribute("src");
        if (src !== null) element.setAttribute(SOURCE_ATTRIBUTE, src);
        rewriteImage(element, attached, { attachment: attachmentPreviewUrl, remote: undefined });
      },
    })
    .transform(html);
  return formatFrameDocument(
    scheme,
    "html,body{height:100%}main{box-sizing:border-box;min-height:100%;padding:12px 16px;outline:none}",
    `<main contenteditable="true" role="textbox" aria-multiline="true" aria-label="Message">${body}</main>`,
  );
}

/** The document around `main`, in a colour scheme, with further styles. */
const formatFrameDocument = (scheme: string, style: string, main: string): string =>
  `<!doctype html><html lang="und"><head><meta charset="utf-8"><title>Message</title>` +
  `<style>:root{color-scheme:${scheme}}${STYLE}${style}</style></head><body dir="auto">${main}</body></html>`;

/** HTML with colours of its own is shown on white: half of such mail would be unreadable on a dark ground. */
const BRINGS_COLORS = /<[a-z][^>]*[\s";](?:bgcolor=|color[=:]|background(?:-color|-image)?:)/i;
const SHEET = /^<style>([^<]*)<\/style>/;
const DECLARED = /(?<![\w-])color-scheme:[^;}]*/g;

/**
 * HTML, and the colour scheme to show it in. Mail is dark in a dark window if its sheets have rules for that and it says so;
 * otherwise its rules for dark windows do not apply.
 */
function inScheme(html: string): { html: string; scheme: "light dark" | "only light" } {
  const sheet = SHEET.exec(html)?.[1] ?? "";
  const isDark =
    sheet.includes("prefers-color-scheme:dark") && sheet.match(DECLARED)?.some((one) => one.includes("dark"));
  if (isDark) return { html, scheme: "light dark" };
  const light = sheet
    .replaceAll("(prefers-color-scheme:dark)", "(max-width:0)")
    .replaceAll("(prefers-color-scheme:light)", "(min-width:0)")
    .replace(DECLARED, "color-scheme:only light");
  const isColored = /(?<![\w-])color:|background/.test(sheet) || BRINGS_COLORS.test(html);
  return {
    html: html.replace(SHEET, () => `<style>${light}</style>`),
    scheme: isColored ? "only light" : "light dark",
  };
}

const STYLE = [
  "html{color:CanvasText;font:15px/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}",
  "body{margin:0}",
  // Hidden, so that floats and margins of mail count towards the height that the app measures.
  "main{padding:4px;overflow:auto hidden;overflow-wrap:break-word}",
  "img{max-width:100%}img:not([height]){height:auto}",
  // On a phone an image is shown narrower than its width attribute, and keeps its aspect ratio.
  "@media(max-width:600px){img[width][height]{height:auto}}",
  "pre{white-space:pre-wrap}",
  "blockquote{margin:0 0 0 .5em;padding-left:.75em;border-left:2px solid GrayText}",
  "a{color:LinkText}",
  "details>summary{cursor:pointer;width:fit-content;margin:.5em 0;padding:0 .6em;border:1px solid GrayText;",
  "border-radius:1em;font-size:13px;color:CanvasText}",
].join("");

/** Remote images per message: each needs a signed URL. */
const MOST_REMOTE = 1_000;

/** Characters shown of a plain message; a longer one can be downloaded. */
const LONGEST_TEXT = 1_000_000;

const OPENING = "<details><summary>Quoted text</summary>";
const CLOSING = "</details>";

function bodyOfHtml(html: string, { subject, attachments, links = true }: FramedMessage, images: ImageUrls): string {
  const history = isForwardSubject(subject) ? undefined : findQuotedHistory(html);
  const attached = attachedTo(attachments);
  const { attachment, remote } = images;
  let left = MOST_REMOTE;
  const bounded = { attachment, remote: remote && ((url: string) => (left-- > 0 ? remote(url) : undefined)) };
  let index = -1;
  const body = new HTMLRewriter()
    .on("*", {
      element(element) {
        index++;
        if (element.tagName === "img") rewriteImage(element, attached, bounded);
        if (element.tagName === "a" && !links) withdrawLink(element);
        if (index === history?.first) element.before(OPENING, { html: true });
        if (index === history?.parent) element.onEndTag((tag) => void tag.before(CLOSING, { html: true }));
      },
    })
    .transform(html);
  return history && history.parent === undefined ? body + CLOSING : body;
}

/** Attachment ids by content id. */
const attachedTo = (attachments: FramedMessage["attachments"]): ReadonlyMap<string, string> =>
  new Map(attachments.flatMap(({ id, contentId }) => (contentId ? [[contentId, id] as const] : [])));

/** Points an image at a URL of ours. A remote image that is blocked, or any other that is not attached, loses `src`. */
function rewriteImage(
  element: HTMLRewriterTypes.Element,
  attached: ReadonlyMap<string, string>,
  { attachment, remote }: ImageUrls,
): void {
  const src = unescapeHtmlAttribute(element.getAttribute("src") ?? "");
  if (/^data:/i.test(src)) return;
  const id = /^cid:/i.test(src) ? (attached.get(src.slice(4)) ?? attached.get(decode(src.slice(4)))) : undefined;
  const isRemote = /^https?:/i.test(src);
  const address = id !== undefined ? attachment(id) : isRemote ? remote?.(src) : undefined;
  // The rewriter escapes only quotes.
  if (address !== undefined) element.setAttribute("src", address.replaceAll("&", "&amp;").replaceAll("<", "&lt;"));
  else {
    element.removeAttribute("src");
    if (isRemote) element.setAttribute(BLOCKED_ATTRIBUTE, "");
  }
}

/** The rewriter gives and takes values as they are written in the HTML. */
function withdrawLink(element: HTMLRewriterTypes.Element): void {
  const href = element.getAttribute("href");
  element.removeAttribute("href");
  if (href !== null) element.setAttribute("title", href);
}

/** RFC 2392: the id in the URL may be percent-encoded. */
function decode(contentId: string): string {
  try {
    return decodeURIComponent(contentId);
  } catch {
    return contentId;
  }
}

/** The value of an attribute as the sanitiser wrote it. */
export const unescapeHtmlAttribute = (value: string): string =>
  value.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

function bodyOfText({ text: whole, subject, links = true }: FramedMessage): string {
  const text = whole.length > LONGEST_TEXT ? `${whole.slice(0, LONGEST_TEXT).toWellFormed()}…` : whole;
  const { text: recent, leftOut } = extractNewText(text, subject);
  const renderFrameText = (part: string): string => (links ? linked(htmlOfText(part)) : htmlOfText(part));
  if (leftOut === 0) return renderFrameText(text);
  return renderFrameText(recent) + OPENING + renderFrameText(text.slice(recent.length).trimStart()) + CLOSING;
}

/** Turns URLs in escaped text into links, without punctuation or a closing bracket at their end. */
const linked = (html: string): string =>
  html.replaceAll(
    /\bhttps?:\/\/(?:[^\s<>"'&]|&amp;){1,2000}(?<![.,;:!?)\]}])/gi,
    (url) => `<a href="${url}" target="_blank" rel="noopener noreferrer nofollow">${url}</a>`,
  );
