/**
 * Responses that show the content of mail in the app: a message in its frame, its original, attached images, and remote images. Each
 * goes to a signed-in person who reaches the message, under a policy of its own. message/frame.ts makes the document,
 * in a worker, and explains why it is safe.
 */
import type { Caller } from "../access/caller.ts";
import { contentDisposition, downloadResponse, taggedDownloadResponse } from "../api/download.ts";
import { urlQuery } from "../api/request.ts";
import { markStreamedResponse } from "../api/unread-answers.ts";
import { FRAME_SANDBOX } from "../base/frames.ts";
import { getAttachment, getMessage, getMessageDetails } from "../mailbox/reading/messages.ts";
import { getOriginal } from "../mailbox/reading/served-octets.ts";
import { renderMessageFrame, renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { isImageSenderTrusted, receivedMessage } from "../mailbox/state/received.ts";
import type { AttachmentContent } from "../mailbox/state/views.ts";
import { unescapeHtmlAttribute } from "../message/frame.ts";
import { APP_ROUTES } from "../operations/app-routes.ts";
import { CONTENT_HEADERS, detectRasterType, type ImageProxy, SIGNATURE_BYTES } from "./images.ts";
import type { Route } from "./route.ts";

export const FRAME_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": [
    "default-src 'none'",
    "img-src 'self' data:",
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
    `sandbox ${FRAME_SANDBOX}`,
  ].join("; "),
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-dns-prefetch-control": "off",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** Replaces the URLs of remote images, which the document has between NULs, by those of `urlFor`. */
const withImageUrls = (document: string, urlFor: (url: string) => string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: mail has none (message/sanitize.ts)
  document.replace(/\u0000([^\u0000]*)\u0000/g, (_, url: string) =>
    urlFor(unescapeHtmlAttribute(url)).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;"),
  );

/**
 * `/messages/{id}/frame`, with remote images for `?images=1` and for senders that the person trusts, and without links in spam (rules: Links in spam);
 * `/messages/{id}/original`, a download; `/attachments/{id}/preview`, a download unless it is a
 * raster image; and `/images`, the URLs of remote images in the frame.
 */
export function messageFrameRoutes(core: MailCore, images: ImageProxy): Route[] {
  const { db } = core;
  async function frame(caller: Caller, id: string, query: string): Promise<Response> {
    await renewSanitizedHtml(core, id);
    const isAsked = new URLSearchParams(query).get("images") === "1";
    const message = getMessage(core, caller, id, { html: true });
    const links = getMessageDetails(core, caller, id).folder !== "spam";
    const sender = receivedMessage(db, caller, id)?.provenSender;
    const isTrusted = sender !== undefined && isImageSenderTrusted(db, caller.userId, sender);
    const document = await renderMessageFrame(core, caller, { ...message, links }, { remote: isAsked || isTrusted });
    return new Response(
      withImageUrls(document, (url) => images.urlFor(caller, url)),
      { headers: FRAME_HEADERS },
    );
  }

  return [
    {
      ...APP_ROUTES.showMessage,
      run: ({ request, params, session }) => frame(session.caller, params.id ?? "", urlQuery(request.url)),
    },
    {
      ...APP_ROUTES.downloadOriginal,
      run: async ({ request, params, session }) =>
        taggedDownloadResponse(await getOriginal(core, session.caller, params.id ?? ""), request),
    },
    {
      ...APP_ROUTES.showAttachment,
      run: async ({ params, session }) => preview(await getAttachment(core, session.caller, params.id ?? "")),
    },
    { method: "GET", path: "/images", run: ({ request, session }) => images.respond(request, session.caller) },
  ];
}

async function preview(attachment: AttachmentContent): Promise<Response> {
  const { content, filename } = attachment;
  // The type follows from the bytes, not from the message.
  const type = detectRasterType(await content.slice(0, SIGNATURE_BYTES).bytes());
  if (type === undefined) return downloadResponse(attachment);
  return markStreamedResponse(
    new Response(content, {
      headers: {
        ...CONTENT_HEADERS,
        "content-type": type,
        "content-disposition": contentDisposition("inline", filename),
        "cache-control": "private, max-age=3600",
      },
    }),
  );
}
