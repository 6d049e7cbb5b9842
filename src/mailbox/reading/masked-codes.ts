/**
 * Masks one-time codes and sign-in links for callers that may not read them (rules: Codes): in the answers of operations,
 * whatever these are, and in what a model is shown of a message beside its answer.
 *
 * Invariant: text that cannot be checked is not shown.
 */
import { type Caller, isKeyDeniedSignInCodes } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { type CodedPart, maskCodes, UNCHECKED_MASK } from "../../message/codes.ts";
import { CODED_HEAD_BYTES, isBinary } from "../../message/codes-file.ts";
import type { TypeParameters } from "../../message/content-type.ts";
import { countPartCharacters, unpackText } from "../../message/reading.ts";
import type { SeenText, VisibleHtml } from "../../message/visible.ts";
import type { Reader } from "../../store/core.ts";
import { statement } from "../../store/statement.ts";
import type { MailCore } from "../state/mail-core.ts";
import type { MessageView } from "../state/views.ts";
import type { MaskRows } from "./highlights.ts";
import { getRawMessage } from "./messages.ts";
import { readVisibleHtml, readVisibleText } from "./stored-html.ts";

/** Messages of a conversation, the latest, that say what its snippet and subject are about, and characters of each. */
const MOST_MESSAGES = 5;
const LONGEST_BEGINNING = 2_000;
/** Bytes of packed text that are unpacked for it. */
const LARGEST_PACKED = 20_000;

const beginnings = (where: "threads.id" | "messages.id") =>
  statement<{ subject: string; text: string; seen: Uint8Array | null }, [id: string]>(
    `SELECT messages.subject, substr(text, 1, ${LONGEST_BEGINNING}) AS text,
       iif(octet_length(seen_text) <= ${LARGEST_PACKED}, seen_text, NULL) AS seen
     FROM threads JOIN messages ON thread_seq = threads.seq JOIN message_bodies ON message_seq = messages.seq
     WHERE ${where} = ? ORDER BY messages.date DESC LIMIT ${MOST_MESSAGES}`,
  );

const statements = { ofThread: beginnings("threads.id"), ofMessage: beginnings("messages.id") };

/** Characters that are checked in this thread. */
const FEW = 16_000;
/** Characters of a text in which highlights are looked for. */
const LONGEST_SEARCHED = 32_000;
const searchedBeginning = (text: string): string =>
  text.length <= LONGEST_SEARCHED ? text : text.slice(0, LONGEST_SEARCHED).replace(/\S{1,100}$/, "");
/** Bytes of a file that is checked. */
const LARGEST_FILE = 32 * 1024 * 1024;

/**
 * Fields of answers that hold text of mail, wherever they are, also in arrays: recipients as text have names. Highlights
 * are made of masked text.
 */
const LONG = ["subject", "text", "bodyText", "seen", "html", "snippet"];
const SHORT: ReadonlySet<string> = new Set(["filename", "filenames", "name", "value", "to", "cc", "bcc"]);
const TEXTS: ReadonlySet<string> = new Set([...LONG, ...SHORT]);

interface Message {
  parts: readonly CodedPart[];
  known: readonly string[];
}

/** An object of an answer. */
type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

/** A place in an answer that holds text of mail. */
interface Place extends CodedPart {
  of: Fields;
  name: string;
}

/** The places below `value`, in order. `field`: the name of the array that `value` is. */
function placesIn(value: unknown, found: Place[] = [], field?: string): Place[] {
  if (!isFields(value)) return found;
  for (const [name, content] of Object.entries(value)) {
    const of = field ?? name;
    if (typeof content !== "string") {
      if (of !== "highlights") placesIn(content, found, Array.isArray(content) ? of : undefined);
    } else if (TEXTS.has(of) && (!SHORT.has(of) || /\p{N}|:\/\/|-/u.test(content))) {
      found.push({ of: value, name, content, html: of === "html" });
    }
  }
  return found;
}

/** The objects of an answer that are each about one conversation or message. */
function listAnswerItems(answer: Fields): Fields[] {
  const list = answer.thread === undefined ? (answer.threads ?? answer.messages) : undefined;
  return Array.isArray(list) ? list : [answer];
}

/** The conversations whose messages the item does not have whole. */
function conversationsIn(item: Fields): string[] {
  const { thread = item, messages = [], message = item } = item as Record<string, Fields> & { messages?: Fields[] };
  const cut = [message, ...messages].find(({ truncated }) => truncated === true);
  if (typeof cut?.threadId === "string") return [cut.threadId];
  const isAlone = messages.length === 0 && typeof thread.messageCount === "number";
  return isAlone && typeof thread.id === "string" ? [thread.id] : [];
}

interface Download {
  /** The message that it belongs to. */
  emailId?: string;
  filename: string;
  contentType: string;
  parameters?: TypeParameters;
  content: Uint8Array | Bun.BunFile;
}

const isDownload = (answer: Fields): answer is Fields & Download =>
  answer.content instanceof Uint8Array || answer.content instanceof Blob;

/** A file that says that it was not checked. */
const unchecked = (): Uint8Array => Buffer.from(UNCHECKED_MASK);

/** The subjects and codes of messages whose views were masked, for what is read of them later. */
const readBefore = new WeakMap<object, { subject: string; codes: readonly string[] }>();

/** Masks each message on its own. @throws AppError server_error 503 */
async function mask(
  { parser }: MailCore,
  caller: Caller,
  messages: readonly Message[],
): Promise<ReturnType<typeof maskCodes>[]> {
  if (countPartCharacters(messages) <= FEW) return messages.map(({ parts, known }) => maskCodes(parts, known));
  return parser.read(caller.userId, { kind: "codes", messages }).catch((error) => {
    if (error instanceof AppError) throw error;
    return messages.map(({ parts }) => ({ contents: parts.map(() => UNCHECKED_MASK), codes: [] }));
  });
}

/** Masks a text or HTML that belongs to a message, if it is of one. */
async function maskOne(core: MailCore, caller: Caller, part: CodedPart, message: object = part): Promise<string> {
  const { subject = "", codes = [] } = readBefore.get(message) ?? {};
  const [result] = await mask(core, caller, [{ parts: [{ content: subject }, part], known: codes }]);
  return result?.contents[1] ?? UNCHECKED_MASK;
}

/** Subjects and beginnings of the texts of these messages, which tell whether numbers elsewhere are codes. */
const listMailBeginnings = ({ db }: Reader, name: "ofThread" | "ofMessage", id: string): CodedPart[] =>
  statements[name](db)
    .all(id)
    .flatMap(({ subject, text, seen }) => {
      const shown = seen === null ? "" : unpackText(seen).slice(0, LONGEST_BEGINNING);
      return [subject, text, shown].map((content) => ({ content }));
    });

async function maskItems(core: MailCore, caller: Caller, items: readonly Fields[]): Promise<void> {
  const work = items.map((item) => {
    const places = placesIn(item);
    const beginnings = conversationsIn(item).flatMap((id) => listMailBeginnings(core, "ofThread", id));
    // The subject comes first, or none.
    const subject = places.find(({ name }) => name === "subject");
    const others = places.filter((place) => place !== subject);
    return { item, places: [subject, ...others], parts: [subject ?? { content: "" }, ...others, ...beginnings] };
  });
  const masked = await mask(
    core,
    caller,
    work.map(({ parts }) => ({ parts: parts.map(({ content, html = false }) => ({ content, html })), known: [] })),
  );
  for (const [n, { item, places }] of work.entries()) {
    const { contents = [], codes = [] } = masked[n] ?? {};
    for (const [i, place] of places.entries()) if (place) place.of[place.name] = contents[i] ?? UNCHECKED_MASK;
    for (const view of [item, item.message, ...((item.messages as Fields[]) ?? [])]) {
      if (isFields(view)) readBefore.set(view, { subject: places[0]?.content ?? "", codes });
    }
  }
}

/** A file without codes. @throws AppError server_error 503 */
export async function maskDownload(core: MailCore, caller: Caller, download: Download): Promise<Download> {
  const { emailId, filename, contentType, parameters = [], content } = download;
  const beginnings = emailId === undefined ? [] : listMailBeginnings(core, "ofMessage", emailId);
  const [named] = await mask(core, caller, [
    { parts: [{ content: "" }, { content: filename }, ...beginnings], known: [] },
  ]);
  const name = named?.contents[1] ?? UNCHECKED_MASK;
  const isFile = !(content instanceof Uint8Array);
  // A blob that is gone is told by whoever reads it.
  if (isFile && !(await content.exists())) return { ...download, filename: name };
  const head = isFile ? await content.slice(0, CODED_HEAD_BYTES).bytes() : content;
  if (isBinary(head)) return { ...download, filename: name };
  const bytes = isFile && content.size <= LARGEST_FILE ? await content.bytes() : content;
  if (!(bytes instanceof Uint8Array)) return { ...download, filename: name, content: unchecked() };
  const file = { filename, contentType, content: bytes };
  const masked = await core.parser.read(caller.userId, { kind: "file codes", file }).catch((error) => {
    if (error instanceof AppError) throw error;
    return unchecked();
  });
  if (!masked) return { ...download, filename: name };
  const renamed = parameters.map(([key, value]) => [key, key === "charset" ? "utf-8" : value] as const);
  return { ...download, filename: name, parameters: renamed, content: masked };
}

/** A message as the caller may read it: for a key that reads no codes it is masked in place. @throws AppError server_error 503 */
export async function maskMessageForCaller<T extends object>(core: MailCore, caller: Caller, message: T): Promise<T> {
  if (isKeyDeniedSignInCodes(caller)) await maskItems(core, caller, [message as Fields]);
  return message;
}

/** The file of a message as the caller, who reads no codes, is shown it. @throws AppError not_found, server_error 503 */
export async function getMaskedRawMessage(core: MailCore, caller: Caller, id: string): Promise<Uint8Array> {
  const raw = await getRawMessage(core, caller, id);
  const { content } = await maskDownload(core, caller, {
    filename: "",
    contentType: "message/rfc822",
    content: raw,
  });
  return content instanceof Uint8Array ? content : content.bytes();
}

const maskText = (core: MailCore, caller: Caller, text: string): Promise<string> =>
  maskOne(core, caller, { content: text });

/**
 * The answer of an operation for a caller that reads no codes; its objects are changed in place. @throws AppError
 * server_error 503
 */
export async function maskCodesInAnswer(core: MailCore, caller: Caller, answer: unknown): Promise<unknown> {
  if (!isFields(answer)) return answer;
  if (isDownload(answer)) return maskDownload(core, caller, answer);
  await maskItems(core, caller, listAnswerItems(answer));
  return answer;
}

/** Masks the messages that a search looks at to show where it matched, at the beginning of their texts. */
export const createSearchRowMasker =
  (core: MailCore, caller: Caller): MaskRows =>
  async (rows) => {
    const shortened = rows.map((row) => ({
      ...row,
      text: searchedBeginning(row.text),
      ...(row.seen !== undefined && { seen: searchedBeginning(row.seen) }),
    }));
    await maskItems(core, caller, shortened);
    return shortened;
  };

/** The text of a document, as the caller may read it. */
export const maskDocumentForCaller = async (core: MailCore, caller: Caller, text: string): Promise<string> =>
  isKeyDeniedSignInCodes(caller) ? maskText(core, caller, text) : text;

/** The visible text of a message, as the caller may read it; its whole text if the message is out of reach. */
export async function getVisibleText(
  core: MailCore,
  caller: Caller,
  message: Pick<MessageView, "id" | "text">,
): Promise<SeenText> {
  const seen = await readVisibleText(core, caller, message);
  return isKeyDeniedSignInCodes(caller)
    ? { ...seen, text: await maskOne(core, caller, { content: seen.text }, message) }
    : seen;
}

/** The sanitised, visible HTML of a message, as the caller may read it; undefined for a message out of reach. */
export async function getVisibleHtml(
  core: MailCore,
  caller: Caller,
  message: Pick<MessageView, "id">,
): Promise<Pick<VisibleHtml, "html" | "hidden"> | undefined> {
  const visible = await readVisibleHtml(core, caller, message);
  if (!visible || !isKeyDeniedSignInCodes(caller)) return visible;
  return { ...visible, html: await maskOne(core, caller, { content: visible.html, html: true }, message) };
}

/** The visible text of an HTML file, as the caller may read it. */
export async function readHtmlFileText(core: MailCore, caller: Caller, html: string): Promise<string> {
  const text = await core.parser.read(caller.userId, { kind: "text", html });
  return isKeyDeniedSignInCodes(caller) ? maskText(core, caller, text) : text;
}
