/**
 * Performs a tool call: the operation as for REST (perform.ts), whose answer is rendered for a model.
 *
 * Invariant: every failure becomes a result that says what to do next, because a model sees results and nothing else.
 * Only an unknown tool is an error of the protocol (protocol.ts).
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { latestArrival } from "../../mailbox/reading/arrivals.ts";
import {
  getVisibleHtml,
  getVisibleText,
  maskDocumentForCaller,
  readHtmlFileText,
} from "../../mailbox/reading/masked-codes.ts";
import { commonType } from "../../message/decode.ts";
import type { Download, Operation } from "../../operations/operation.ts";
import { createPerformer, type OperationServices, type Perform, type Performed } from "../../operations/perform.ts";
import { LONGEST_WAIT_SECONDS } from "../../operations/tool.ts";
import { toClientError } from "../failure.ts";
import { clientLeavingSignal } from "../request.ts";
import type { Waiting } from "../waiting.ts";
import { createAttachmentTextReader } from "./document-pieces.ts";
import { RENDERERS, renderErrorForMcp } from "./render.ts";
import { chooseDownloadForm } from "./render-download.ts";
import {
  type Content,
  DEFAULT_CHARS,
  type RenderArguments,
  type RenderContext,
  type Rendered,
  type RenderedDownload,
  type Result,
} from "./result.ts";
import type { Arguments, Call, Tool } from "./tools.ts";

type Render = (answer: unknown, args: RenderArguments, context: RenderContext) => Rendered | Promise<Rendered>;

const NONCE_BYTES = 8;

/** Types that models see as a picture. Other files that are not text are resources. */
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

async function readDownloadBytes({ content }: Download): Promise<Uint8Array> {
  if (content instanceof Uint8Array) return content;
  if (!(await content.exists())) throw new Error(`the blob ${content.name} is gone`);
  return content.bytes();
}

export function createToolCalls(parts: OperationServices & { waiting: Pick<Waiting, "of"> }) {
  const { core, waiting } = parts;
  const { parser, runtime, site } = core;
  const { baseUrl } = site;
  const textOfDocument = createAttachmentTextReader({ readDocument: parser.readDocument, runtime });
  const performers = new Map<string, Perform>();

  function performerFor(operation: Operation): Perform {
    let perform = performers.get(operation.name);
    if (!perform) {
      perform = createPerformer(operation, parts);
      performers.set(operation.name, perform);
    }
    return perform;
  }

  const contextFor = (caller: Caller): RenderContext => ({
    nonce: () => runtime.randomBytes(NONCE_BYTES).toHex(),
    baseUrl,
    html: {
      text: (message) => getVisibleText(core, caller, message),
      visible: (message) => getVisibleHtml(core, caller, message),
      ofFile: (html) => readHtmlFileText(core, caller, html),
    },
  });

  /**
   * Gives text, and the text of a document, to the renderer, embeds another small file beside the result, and does not
   * read a large one.
   */
  async function renderDownload(
    render: Render,
    download: Download,
    { params, shaping }: Arguments,
    caller: Caller,
  ): Promise<Result> {
    const context = contextFor(caller);
    const { filename, contentType, content } = download;
    const size = content instanceof Uint8Array ? content.byteLength : content.size;
    const extracted = await textOfDocument(caller, download);
    const document =
      extracted && "text" in extracted
        ? { ...extracted, text: await maskDocumentForCaller(core, caller, extracted.text) }
        : extracted;
    const kind = chooseDownloadForm({
      filename,
      contentType,
      size,
      document,
      maxChars: shaping.maxChars ?? DEFAULT_CHARS,
    });
    const bytes = kind === "text" || kind === "blob" ? await readDownloadBytes(download) : undefined;
    const id = String(params.id);
    const shown = kind === "text" ? bytes : undefined;
    const answer: RenderedDownload = { id, filename, contentType, size, document, content: shown };
    const rendered = await render(answer, shaping, context);
    if (kind !== "blob" || !bytes) return makeToolResult(rendered);
    const uri = `${baseUrl}/api/v1/attachments/${id}`;
    const { content: rendering, ...result } = makeToolResult(rendered);
    const embedded: Content = IMAGE.test(contentType)
      ? { type: "image", data: base64(bytes), mimeType: contentType }
      : { type: "resource", resource: { uri, mimeType: commonType(contentType), blob: base64(bytes) } };
    return { ...result, content: [...rendering, embedded] };
  }

  async function perform(tool: Tool, given: Record<string, unknown>, call: Call): Promise<Result> {
    const { caller, request, readmit } = call;
    const operation = tool.operationFor(given);
    const performer = performerFor(operation);
    const wait = waiting.of({ caller, signal: clientLeavingSignal(request), readmit });
    const read: { args?: Arguments } = {};
    const ask = (instead: Record<string, unknown> = {}): Promise<Performed> =>
      performer(
        caller,
        () => {
          const args = tool.readArguments(given);
          read.args = args;
          return {
            params: args.params,
            // The sanitised HTML is for browsers. RenderContext gives a model the visible part of the source.
            query: { ...args.query, ...(operation.query.properties.html && { html: false }), ...instead },
            body: args.body,
          };
        },
        { wait },
      );

    const isList = operation.name === "listMessages";
    // To read the same arrivals again: those after this position.
    const before = isList ? latestArrival(core) : "";
    const { answer, replayed } = await ask();
    const args = read.args as Arguments;
    const context = contextFor(caller);
    // The cast is right because each operation answers what the renderer of its name takes.
    const render = RENDERERS[operation.name as keyof typeof RENDERERS] as Render;
    if (operation.name === "getAttachment" || operation.name === "getRawMessage") {
      return renderDownload(render, answer as Download, args, caller);
    }
    const { after, waitSeconds } = args.query;
    const isFollowing = isList && (after !== undefined || waitSeconds !== undefined);
    let [shown, rendered] = [answer, await render(answer, args.shaping, context)];
    // A plain list of messages goes on at an offset instead.
    while (rendered.askAgain && (isFollowing || !isList)) {
      const { limit } = rendered.askAgain;
      const again = await ask({ limit, ...(isFollowing && { after: after ?? before, waitSeconds: 0 }) });
      shown = again.answer;
      rendered = await render(shown, args.shaping, context);
      if (!isFollowing) break;
    }
    if (isList) return makeToolResult(rendered, followed(shown as Followed, args, isFollowing));
    return makeToolResult(rendered, replayed ? { note: REPLAYED, fields: { replayed: true } } : {});
  }

  /** Performs a call. Never rejects. */
  return async (tool: Tool, given: Record<string, unknown>, call: Call): Promise<Result> => {
    try {
      if (call.refusal) throw call.refusal;
      return await perform(tool, given, call);
    } catch (error) {
      const { code, message, retryAfter } = toClientError(core, error, call.request, { tool: tool.name });
      const rendered = renderErrorForMcp({ code, message, retryAfter }, contextFor(call.caller));
      return { ...makeToolResult(rendered), isError: true };
    }
  };
}

interface Followed {
  count: number;
  nextAfter: string;
}

/** Tells a model how to follow the mail that arrives. @throws AppError bad_request */
function followed({ count, nextAfter }: Followed, { shaping: { offset = 0 } }: Arguments, isFollowing: boolean): More {
  if (offset > 0) {
    if (!isFollowing) return {};
    throw new AppError("bad_request", "offset does not go with after or waitSeconds: pass nextAfter");
  }
  const note = isFollowing
    ? `${count === 0 ? "No new mail so far. " : ""}For mail after this: after: "${nextAfter}".`
    : `To wait for newer mail: after: "${nextAfter}", waitSeconds: ${LONGEST_WAIT_SECONDS}.`;
  return { note, fields: { nextAfter } };
}

const REPLAYED = "This is the answer to an earlier call with this idempotencyKey: nothing was done again.";

/** Additions to a rendered result: one more line of the text, and more structured content. */
interface More {
  note?: string;
  fields?: Record<string, unknown>;
}

const makeToolResult = ({ text, structured }: Rendered, { note, fields }: More = {}): Result => ({
  content: [{ type: "text", text: note === undefined ? text : `${text}\n${note}` }],
  structuredContent: { ...structured, ...fields },
});
