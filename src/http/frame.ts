/** The answer with a document of message/frame.ts, which says why it is safe, and which a worker makes. */

import type { Caller } from "../access/caller.ts";
import { answerDownload, contentDisposition } from "../api/download.ts";
import { queryOf } from "../api/target.ts";
import { FRAME_SANDBOX } from "../base/frames.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { AttachmentContent } from "../mailbox/views.ts";
import { readValue } from "../message/frame.ts";
import { CONTENT_HEADERS, type ImageProxy, rasterTypeOf, SIGNATURE_BYTES } from "./images.ts";
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

/** A document whose remote images have their addresses between NULs, with what `addressOf` makes of these. */
const withAddresses = (document: string, addressOf: (url: string) => string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: mail has none (message/sanitize.ts)
  document.replace(/\u0000([^\u0000]*)\u0000/g, (_, url: string) =>
    addressOf(readValue(url)).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;"),
  );

/*
 * What came by mail, for the app to show: a message in its frame, attached images, and remote images. Everything
 * is answered to somebody signed in who reaches the message, under a policy of its own.
 */

export interface FrameParts {
  mailbox: Pick<Mailbox, "getMessage" | "getAttachment" | "renewHtml" | "frameOf">;
  images: ImageProxy;
}

/**
 * `/messages/{id}/frame`, with remote images if asked for with `?images=1`; `/attachments/{id}/preview`, a download when
 * the attachment is nothing to look at; and `/images`, to whose addresses the frame leads.
 */
export function frameRoutes({ mailbox, images }: FrameParts): Route[] {
  async function frame(caller: Caller, id: string, query: string): Promise<Response> {
    await mailbox.renewHtml(id);
    const isAsked = new URLSearchParams(query).get("images") === "1";
    const message = mailbox.getMessage(caller, id, { html: true });
    const document = await mailbox.frameOf(caller, message, { remote: isAsked });
    return new Response(
      withAddresses(document, (url) => images.addressOf(caller, url)),
      { headers: FRAME_HEADERS },
    );
  }

  return [
    {
      method: "GET",
      path: "/messages/:id/frame",
      run: ({ request, params, session }) => frame(session.caller, params.id ?? "", queryOf(request.url)),
    },
    {
      method: "GET",
      path: "/attachments/:id/preview",
      run: ({ params, session }) => preview(mailbox.getAttachment(session.caller, params.id ?? "")),
    },
    { method: "GET", path: "/images", run: ({ request, session }) => images.answer(request, session.caller) },
  ];
}

async function preview(attachment: AttachmentContent): Promise<Response> {
  const { content, filename } = attachment;
  // By what it is, not by what it says it is.
  const type = rasterTypeOf(await content.slice(0, SIGNATURE_BYTES).bytes());
  if (type === undefined) return answerDownload(attachment);
  return new Response(content, {
    headers: {
      ...CONTENT_HEADERS,
      "content-type": type,
      "content-disposition": contentDisposition("inline", filename),
      "cache-control": "private, max-age=3600",
    },
  });
}
