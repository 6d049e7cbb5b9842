/**
 * The attachments of a request (rules: Attached files): files and messages that the caller can read, by their handles; text;
 * and files that came with the request, which lie in the spool.
 */
import { createHash } from "node:crypto";
import { type Caller, isKeyDeniedSignInCodes, requireScope } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { getMaskedRawMessage, maskDownload } from "../mailbox/reading/masked-codes.ts";
import { getMessage, getReusableAttachment, type StoredFile, storedFile } from "../mailbox/reading/messages.ts";
import { getOriginal } from "../mailbox/reading/served-octets.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readContentType, withUtf8Charset } from "../message/content-type.ts";
import { withoutBcc } from "../message/headers.ts";
import { defaultFilename, isAlternativeFileType, safeFilename } from "../message/parse.ts";
import { parseHeaderValue } from "../message/structure.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Spool, SpooledFile } from "../smtp/spool.ts";
import type { Reader } from "../store/core.ts";
import type { AttachmentRequest, DraftReplyArguments } from "./requests.ts";

/** A file that came with a request. */
export type UploadedFile = SpooledFile;

/** The name and type of a message that is attached as a file. */
export const MESSAGE_FILE: Pick<StoredFile, "filename" | "contentType" | "parameters"> = {
  filename: "forwarded.eml",
  contentType: "message/rfc822",
  parameters: [],
};

/** Puts files into the spool: see openSpool. */
export type FileKeeper = Pick<Spool, "keep">;

/** Name that stands for the content of the n-th file that came with a request. */
export const uploadName = (n: number): string => `upload:${n}`;

/** A file of a message that is being made. */
export interface OutgoingFile extends Omit<StoredFile, "blob"> {
  /** SHA-256 of its content, hex. */
  sha256: string;
  /** Makes its content durable. Returns the blob. */
  store(): Promise<string>;
}

/**
 * @throws AppError bad_request for an attachment that is none or more than one of the four, and for a type that no part of a
 * message can have
 */
export function requireWellFormedAttachments(attachments: readonly AttachmentRequest[]): void {
  for (const [i, attachment] of attachments.entries()) {
    const { attachmentId, emailId, filename, contentType = "", text, content, inline, contentId } = attachment;
    const { alternative = false } = attachment;
    const forms = [attachmentId, emailId, text, content].filter((form) => form !== undefined);
    if (forms.length !== 1) {
      throw new AppError(
        "bad_request",
        `attachments[${i}] must be one of attachmentId, emailId, text and content${forms.length === 0 ? "" : ", not several"}`,
      );
    }
    if (alternative && (filename || inline)) {
      throw new AppError("bad_request", `attachments[${i}] is an alternative, which has no filename and is not inline`);
    }
    if (/\p{Cc}/u.test(contentType)) {
      throw new AppError("bad_request", `contentType of attachments[${i}] has control characters`);
    }
    if ([...parseHeaderValue(contentType).parameters.keys()].some((name) => /^boundary(?:\*|$)/.test(name))) {
      throw new AppError("bad_request", `contentType of attachments[${i}] has a boundary, which the server makes`);
    }
    if (attachmentId === undefined && emailId === undefined && !filename && !alternative) {
      throw new AppError("bad_request", `attachments[${i}] needs a filename`);
    }
    if (inline && contentId === undefined && attachmentId === undefined) {
      throw new AppError(
        "bad_request",
        `attachments[${i}] is inline and needs a contentId, which cid: in the HTML names`,
      );
    }
  }
}

/** The scope that a message needs beside that of the operation: who puts stored mail into it has to be able to read. */
export function requireReadScopeForContent(
  caller: Caller,
  { attachments = [], forward, quote }: Pick<DraftReplyArguments, "attachments" | "forward" | "quote">,
): void {
  const isByHandle = ({ attachmentId, emailId }: AttachmentRequest) => (attachmentId ?? emailId) !== undefined;
  if (forward !== undefined || quote || attachments.some(isByHandle)) requireScope(caller, "read");
}

/**
 * Runs `read`. Throws unprocessable, in the same words, for content that does not exist and for content that the caller does
 * not reach.
 */
export function readReferencedContent<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") {
      throw new AppError("unprocessable", `There is no ${what} that this key can read`, { cause: error });
    }
    throw error;
  }
}

/**
 * The bytes of a message that is attached to another: its original without any Bcc, since those whom a copy reaches must not see it
 * (rules: Bcc); for a key that reads no codes its masked file. @throws AppError not_found
 */
export const readMessageToAttach = async (core: MailCore, caller: Caller, id: string): Promise<Uint8Array> =>
  withoutBcc(
    isKeyDeniedSignInCodes(caller)
      ? await getMaskedRawMessage(core, caller, id)
      : await (await getOriginal(core, caller, id)).read(),
  );

/** A file of a message as another message has it, under the name that readers are shown. */
export const toForwardedFile = (file: StoredFile): StoredFile => ({ ...file, unnamed: false, alternative: false });

/** Content that is in memory, as a file of a message that is being made. */
const describeContent = ({ blobs }: Reader, bytes: Uint8Array): Pick<OutgoingFile, "size" | "sha256" | "store"> => ({
  size: bytes.byteLength,
  sha256: createHash("sha256").update(bytes).digest("hex"),
  store: () => blobs.write(bytes),
});

/**
 * A file of the message `emailId`, for another message: for a key that reads no codes without them, so that it cannot send them to
 * where they are read (rules: Codes). @throws AppError server_error 503
 */
export async function reuseStoredFile(
  core: MailCore,
  caller: Caller,
  { file: stored, emailId }: { file: StoredFile; emailId: string },
): Promise<OutgoingFile> {
  const { blob, ...file } = toForwardedFile(stored);
  const reused = { ...file, sha256: blob, store: async () => blob };
  if (!isKeyDeniedSignInCodes(caller)) return reused;
  const { filename, contentType, parameters } = file;
  const download = { emailId, filename, contentType, parameters, content: await core.blobs.file(blob) };
  const masked = await maskDownload(core, caller, download);
  const named = { ...reused, filename: masked.filename };
  if (!(masked.content instanceof Uint8Array)) return named;
  return { ...named, parameters: masked.parameters ?? parameters, ...describeContent(core, masked.content) };
}

/** A file that consists of a text, in UTF-8. */
export const createTextFile = <F extends Pick<OutgoingFile, "parameters">>(reader: Reader, text: string, file: F) => ({
  ...file,
  parameters: withUtf8Charset(file.parameters),
  ...describeContent(reader, Buffer.from(text.toWellFormed())),
});

/**
 * Reads the attachments of a request, in order; `uploads`: the files that came with it. Calls `keep` for each file that
 * it puts into the spool, to be disposed of with the request.
 * @throws AppError payload_too_large, unprocessable, bad_request (a content that did not come with the request)
 */
export async function readAttachments(
  core: SendCore,
  caller: Caller,
  attachments: readonly AttachmentRequest[],
  uploads: UploadedFile[],
): Promise<OutgoingFile[]> {
  const { blobs, options, spool } = core;
  const files: OutgoingFile[] = [];
  const byName = new Map(uploads.map((spooledFile, n) => [uploadName(n), spooledFile]));

  const spooled = (spooledFile: UploadedFile) => ({
    size: spooledFile.size,
    sha256: spooledFile.sha256,
    store: () => blobs.adopt(spooledFile.path, spooledFile.sha256),
  });

  async function read(request: AttachmentRequest): Promise<OutgoingFile> {
    const { attachmentId, emailId, contentType = "", text, content, inline = false, contentId = null } = request;
    const given = { filename: "", unnamed: false, inline, contentId, alternative: false };
    if (attachmentId !== undefined) {
      const found = readReferencedContent(`attachment ${shortenId(attachmentId)}`, () =>
        getReusableAttachment(core, caller, attachmentId),
      );
      const file = await reuseStoredFile(core, caller, found);
      return { ...file, inline: request.inline ?? file.inline, contentId: request.contentId ?? file.contentId };
    }
    if (emailId !== undefined) {
      const message = readReferencedContent(`message ${shortenId(emailId)}`, () =>
        getMessage(core, caller, emailId, { html: false }),
      );
      const bytes = await readMessageToAttach(core, caller, message.id);
      const spooledFile = await spool.keep([bytes], () => {});
      uploads.push(spooledFile);
      return { ...given, ...MESSAGE_FILE, ...spooled(spooledFile) };
    }
    if (text !== undefined) {
      return createTextFile(core, text, { ...given, ...readContentType(contentType || "text/plain") });
    }
    const spooledFile = byName.get(content ?? "");
    if (spooledFile === undefined) {
      throw new AppError("bad_request", "content is not taken here: give attachmentId, emailId, or filename and text");
    }
    return { ...given, ...readContentType(contentType), ...spooled(spooledFile) };
  }

  for (const [i, request] of attachments.entries()) {
    const file = await read(request);
    const { alternative = false } = request;
    if (alternative && !isAlternativeFileType(file.contentType)) {
      throw new AppError("bad_request", `attachments[${i}] is no alternative: its type is ${file.contentType}`);
    }
    const filename =
      safeFilename(request.filename ?? "") || file.filename || defaultFilename(file.contentType, files.length);
    files.push({ ...file, filename, unnamed: alternative, alternative });
    requireFit(files, options.get("smtp.maxMessageBytes"));
  }
  return files;
}

/** Refuses early what cannot fit in base64. @throws AppError payload_too_large */
function requireFit(files: readonly Pick<StoredFile, "size">[], most: number): void {
  const bytes = files.reduce((sum, { size }) => sum + Math.ceil(size / 3) * 4, 0);
  if (bytes <= most) return;
  throw new AppError(
    "payload_too_large",
    `The attachments take ${bytes} bytes of a message, in base64; a message takes ${most} at most`,
  );
}

/** A stored file as a composition names it. */
export const compositionFile = (attachment: StoredFile) => {
  const { contentId, ...file } = storedFile(attachment);
  return { ...file, ...(contentId !== null && { contentId }) };
};

/** Makes the contents of files durable. */
export const storeFiles = (files: readonly OutgoingFile[]): Promise<StoredFile[]> =>
  Promise.all(files.map(async ({ store, sha256: _, ...file }) => ({ ...file, blob: await store() })));

/** An id from a request, for a refusal. */
const shortenId = (id: string): string => (id.length > 80 ? `${id.slice(0, 80).toWellFormed()}…` : id);
