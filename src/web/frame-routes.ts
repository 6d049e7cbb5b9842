/**
 * What came by mail, for the app to show: a message in its frame, its attached images and PDFs, and remote images. All
 * of it lies under CONTENT_PREFIX, apart from the app's own files and its API, and is answered to a signed-in caller
 * who reaches the message.
 */
import type { Caller } from "../access/caller.ts";
import { answerDownload, contentDisposition } from "../api/download.ts";
import { pathOf, queryOf } from "../api/target.ts";
import { AppError } from "../errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { AttachmentContent } from "../mailbox/views.ts";
import { FRAME_HEADERS, frameDocument } from "./frame.ts";
import { CONTENT_HEADERS, IMAGES_PATH, type ImageProxy, rasterTypeOf, SIGNATURE_BYTES } from "./images.ts";

/** Of the paths answered here: messages/{id}, which shows remote images with ?images=1; attachments/{id}; images. */
export const CONTENT_PREFIX = "/content/";

const PDF = "application/pdf";

export interface ContentParts {
  mailbox: Pick<Mailbox, "getMessage" | "getAttachment">;
  images: ImageProxy;
}

/** Answers a GET under CONTENT_PREFIX, for the person who is signed in. */
export type AnswerContent = (request: Request, caller: Caller) => Promise<Response>;

export function createContent({ mailbox, images }: ContentParts): AnswerContent {
  function frame(request: Request, caller: Caller, id: string): Response {
    const message = mailbox.getMessage(caller, id, { html: true });
    const isAsked = new URLSearchParams(queryOf(request.url)).get("images") === "1";
    const document = frameDocument(message, {
      attachment: (attachmentId) => `${CONTENT_PREFIX}attachments/${attachmentId}`,
      remote: isAsked ? (url) => images.addressOf(caller, url) : undefined,
    });
    return new Response(document, { headers: FRAME_HEADERS });
  }

  return async (request, caller) => {
    const path = pathOf(request.url);
    if (request.method !== "GET" && request.method !== "HEAD") return refuse(405, { allow: "GET, HEAD" });
    if (path === IMAGES_PATH) return images.answer(request, caller);
    const [kind, id = "", ...rest] = path.slice(CONTENT_PREFIX.length).split("/");
    try {
      if (rest.length > 0) return refuse(404);
      if (kind === "messages") return frame(request, caller, id);
      if (kind === "attachments") return await preview(mailbox.getAttachment(caller, id));
    } catch (error) {
      if (error instanceof AppError && error.status === 404) return refuse(404);
      throw error;
    }
    return refuse(404);
  };
}

const refuse = (status: number, headers: Record<string, string> = {}): Response =>
  new Response(status === 404 ? "There is no such content, or you do not reach it\n" : null, {
    status,
    headers: { ...CONTENT_HEADERS, "content-type": "text/plain", "cache-control": "no-store", ...headers },
  });

/** An attachment to look at, if its bytes are what a browser shows without running anything; else a download. */
async function preview(attachment: AttachmentContent): Promise<Response> {
  const { content, contentType, filename } = attachment;
  const type = typeOfShown(
    await content
      .slice(0, SIGNATURE_BYTES)
      .bytes()
      .catch(() => new Uint8Array()),
    contentType,
  );
  if (type === undefined) return answerDownload(attachment);
  return new Response(content, {
    headers: {
      ...CONTENT_HEADERS,
      // Chromium shows no PDF in a sandbox; its viewer, as Firefox's, runs in an origin of its own.
      ...(type === PDF && { "content-security-policy": PDF_POLICY }),
      "content-type": type,
      "content-disposition": contentDisposition("inline", filename),
      "cache-control": "private, max-age=3600",
    },
  });
}

const PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'";

function typeOfShown(start: Uint8Array, contentType: string): string | undefined {
  if (contentType.toLowerCase() === PDF)
    return new TextDecoder("latin1").decode(start).startsWith("%PDF-") ? PDF : undefined;
  return rasterTypeOf(start);
}
