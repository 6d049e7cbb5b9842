/**
 * Performs a tool call: the operation as for REST (perform.ts), whose answer is rendered for a model.
 *
 * Invariant: every failure becomes a result that says what to do next, because a model sees results and nothing else.
 * Only an unknown tool is an error of the protocol (protocol.ts).
 */
import type { Caller } from "../../access/caller.ts";
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { ReadDocument } from "../../documents/kind.ts";
import type { Download } from "../../operations/operation.ts";
import { type OperationServices, type Perform, type Performed, performerOf } from "../../operations/perform.ts";
import { createFailureReader } from "../failure.ts";
import type { Arrivals, Arrived } from "./arrivals.ts";
import { createDocuments } from "./documents.ts";
import { RENDERERS, renderError } from "./render.ts";
import { wantsBytes } from "./render-download.ts";
import {
  DEFAULT_CHARS,
  type Fields,
  objectOf,
  type RenderArguments,
  type RenderContext,
  type Rendered,
  type RenderedDownload,
  stringOf,
  write,
  writeLines,
} from "./result.ts";
import type { Arguments, Call, Tool } from "./tools.ts";

/** A file beside the text of a result, in base64. */
type Embedded =
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource"; resource: { uri: string; mimeType: string; blob: string } };

type Render = (answer: unknown, args: RenderArguments, context: RenderContext) => Rendered | Promise<Rendered>;

const NONCE_BYTES = 8;

/** Types that models see as a picture. Other files that are not text are resources. */
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

async function bytesOf({ content }: Download): Promise<Uint8Array> {
  if (content instanceof Uint8Array) return content;
  if (!(await content.exists())) throw new Error(`the blob ${content.name} is gone`);
  return content.bytes();
}

/** `baseUrl`: public origin. */
export function createCalls(
  parts: OperationServices & {
    arrivals: Arrivals;
    readDocument: ReadDocument;
    runtime: Pick<Runtime, "now" | "randomBytes">;
    baseUrl: string;
    log: Log;
  },
) {
  const { mailbox, arrivals, runtime, baseUrl } = parts;
  const textOfDocument = createDocuments(parts);
  const readFailure = createFailureReader(parts);
  const performers = new Map<string, Perform>();

  function performerFor({ operation }: Tool): Perform {
    let perform = performers.get(operation.name);
    if (!perform) {
      perform = performerOf(operation, parts);
      performers.set(operation.name, perform);
    }
    return perform;
  }

  const contextFor = (caller: Caller): RenderContext => ({
    nonce: () => runtime.randomBytes(NONCE_BYTES).toHex(),
    baseUrl,
    html: {
      text: (message) => mailbox.getSeen(caller, message),
      visible: (message) => mailbox.getVisibleHtml(caller, message),
      ofFile: (html) => mailbox.textOfFile(caller, html),
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
  ): Promise<string> {
    const context = contextFor(caller);
    const { filename, contentType, content } = download;
    const size = content instanceof Uint8Array ? content.byteLength : content.size;
    const document = await textOfDocument(caller, download);
    const kind = wantsBytes({ filename, contentType, size, document, maxChars: shaping.maxChars ?? DEFAULT_CHARS });
    const bytes = kind === "text" || kind === "blob" ? await bytesOf(download) : undefined;
    const id = String(params.id);
    const shown = kind === "text" ? bytes : undefined;
    const answer: RenderedDownload = { id, filename, contentType, size, document, content: shown };
    const rendered = await render(answer, shaping, context);
    if (kind !== "blob" || !bytes) return resultOf(rendered);
    const uri = `${baseUrl}/api/v1/attachments/${id}`;
    const embedded: Embedded = IMAGE.test(contentType)
      ? { type: "image", data: base64(bytes), mimeType: contentType }
      : { type: "resource", resource: { uri, mimeType: contentType, blob: base64(bytes) } };
    return resultOf(rendered, { embedded });
  }

  async function perform(tool: Tool, given: Record<string, unknown>, call: Call): Promise<string> {
    const { caller } = call;
    const performer = performerFor(tool);
    const read: { args?: Arguments } = {};
    const ask = (limit?: number): Promise<Performed> =>
      performer(caller, () => {
        const args = tool.readArguments(given);
        read.args = args;
        return {
          params: args.params,
          // The sanitised HTML is for browsers. RenderContext gives a model the visible part of the source.
          query: {
            ...args.query,
            ...(tool.operation.query.properties.html && { html: false }),
            ...(limit && { limit }),
          },
          body: args.body,
        };
      });

    const from = tool.operation.name === "listMessages" ? arrivals.position() : 0;
    const { answer, replayed } = await ask();
    const args = read.args as Arguments;
    const context = contextFor(caller);
    // The cast is right because each operation answers what the renderer of its name takes.
    const render = RENDERERS[tool.operation.name as keyof typeof RENDERERS] as Render;
    if (tool.operation.name === "getAttachment" || tool.operation.name === "getRawMessage") {
      return renderDownload(render, answer as Download, args, caller);
    }
    if (tool.operation.name === "listMessages") {
      let arrived = await arrivals.read(answer as Arrived["answer"], args, from, call);
      let rendered = await render(arrived.answer, args.shaping, context);
      while (rendered.askAgain && arrived.again) {
        arrived = arrived.again(rendered.askAgain.limit);
        rendered = await render(arrived.answer, args.shaping, context);
      }
      const { nextAfter, note } = arrived;
      return resultOf(rendered, { note, fields: { nextAfter: JSON.stringify(nextAfter) } });
    }
    let rendered = await render(answer, args.shaping, context);
    if (rendered.askAgain) {
      const again = await ask(rendered.askAgain.limit);
      rendered = await render(again.answer, args.shaping, context);
    }
    return resultOf(rendered, replayed ? { note: REPLAYED, fields: { replayed: "true" } } : {});
  }

  /** Performs a call. Returns the fields of its CallToolResult, as JSON. Never rejects. */
  return async (tool: Tool, given: Record<string, unknown>, call: Call): Promise<string> => {
    try {
      if (call.refusal) throw call.refusal;
      return await perform(tool, given, call);
    } catch (error) {
      const { code, message, retryAfter } = readFailure(error, call.request, { tool: tool.name });
      const rendered = renderError({ code, message, retryAfter }, contextFor(call.caller));
      return `${resultOf(rendered)},"isError":true`;
    }
  };
}

const REPLAYED = "This is the answer to an earlier call with this idempotencyKey: nothing was done again.";

/**
 * Writes the fields of a CallToolResult, as JSON. `note` is one more line of the text; `fields` are more structured
 * content.
 */
function resultOf(
  { text, structured }: Rendered,
  { note = "", fields, embedded }: { note?: string; fields?: Fields; embedded?: Embedded } = {},
): string {
  const told = stringOf(note === "" ? text : writeLines(text, write(note)));
  const beside = embedded ? `,${JSON.stringify(embedded)}` : "";
  const structuredContent = objectOf(fields ? { ...structured, ...fields } : structured);
  return `"content":[{"type":"text","text":${told}}${beside}],"structuredContent":${structuredContent}`;
}
