/**
 * A tool call: the operation is performed as for REST (perform.ts), and its answer rendered for a model.
 *
 * Invariant: whatever goes wrong is a result that says what to do next, since a model sees results and nothing else.
 * Only a tool that does not exist is a fault of the protocol, which mcp.ts answers.
 */
import type { Caller } from "../../access/caller.ts";
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Download } from "../../operations/operation.ts";
import { type Perform, type Performed, type Performing, performerOf } from "../../operations/perform.ts";
import type { Store } from "../../store/store.ts";
import { createFailures } from "../failure.ts";
import { type Arrived, createArrivals } from "./arrivals.ts";
import { type Fields, objectOf, stringOf, write, writeLines } from "./json.ts";
import { RENDERERS } from "./render.ts";
import { wantsBytes } from "./render-download.ts";
import { renderError } from "./render-error.ts";
import type { RenderArguments, RenderContext, Rendered, RenderedDownload } from "./rendering.ts";
import { DEFAULT_CHARS } from "./rendering.ts";
import type { Arguments, Call, Tool } from "./tools.ts";
import type { Waiting } from "./waiting.ts";

/** Bytes beside the text of a result, base64. */
type Blob =
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource"; resource: { uri: string; mimeType: string; blob: string } };

export interface CallParts extends Performing {
  store: Pick<Store, "db">;
  waiting: Waiting;
  runtime: Pick<Runtime, "randomBytes">;
  /** Public origin. */
  baseUrl: string;
  log: Log;
}

type Render = (answer: unknown, args: RenderArguments, context: RenderContext) => Rendered | Promise<Rendered>;

const NONCE_BYTES = 8;

/** What models are shown as a picture; anything else that is not text is a resource. */
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

async function bytesOf({ content }: Download): Promise<Uint8Array> {
  if (content instanceof Uint8Array) return content;
  if (!(await content.exists())) throw new Error(`the blob ${content.name} is gone`);
  return content.bytes();
}

export function createCalls(parts: CallParts) {
  const { mailbox, runtime, baseUrl } = parts;
  const readFailure = createFailures(parts);
  const arrivals = createArrivals(parts);
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

  /** Bytes go to the renderer if they are text, beside what it renders if they are few, and nowhere if they are many. */
  async function renderDownload(
    render: Render,
    download: Download,
    { params, shaping }: Arguments,
    context: RenderContext,
  ): Promise<string> {
    const { filename, contentType, content } = download;
    const size = content instanceof Uint8Array ? content.byteLength : content.size;
    const kind = wantsBytes({ filename, contentType, size, maxChars: shaping.maxChars ?? DEFAULT_CHARS });
    const bytes = kind === "link" ? undefined : await bytesOf(download);
    const id = String(params.id);
    const answer: RenderedDownload = { id, filename, contentType, size, content: kind === "text" ? bytes : undefined };
    const rendered = await render(answer, shaping, context);
    if (kind !== "blob" || !bytes) return resultOf(rendered);
    const uri = `${baseUrl}/api/v1/attachments/${id}`;
    const blob: Blob = IMAGE.test(contentType)
      ? { type: "image", data: base64(bytes), mimeType: contentType }
      : { type: "resource", resource: { uri, mimeType: contentType, blob: base64(bytes) } };
    return resultOf(rendered, { blob });
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
          // Bodies as HTML are for renderers of pages; what a model reads is made from the source (RenderContext).
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
    // The one place where types are forgotten: the operation of that name answers what its renderer takes.
    const render = RENDERERS[tool.operation.name as keyof typeof RENDERERS] as Render;
    if (tool.operation.name === "getAttachment" || tool.operation.name === "getRawMessage") {
      return renderDownload(render, answer as Download, args, context);
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

  /** Performs a call: the fields of its CallToolResult, as JSON. Never rejects. */
  return async (tool: Tool, given: Record<string, unknown>, call: Call): Promise<string> => {
    try {
      if (call.refusal) throw call.refusal;
      return await perform(tool, given, call);
    } catch (error) {
      const { code, message, retryAfter } = readFailure(error, { tool: tool.name });
      const rendered = renderError({ code, message, retryAfter }, contextFor(call.caller));
      return `${resultOf(rendered)},"isError":true`;
    }
  };
}

const REPLAYED = "This is the answer to an earlier call with this idempotencyKey: nothing was done again.";

/** What a result has beside what was rendered. */
interface Beside {
  /** One more line of the text, unless it is empty. */
  note?: string;
  fields?: Fields;
  blob?: Blob;
}

/** The fields of a CallToolResult, as JSON. */
function resultOf({ text, structured }: Rendered, { note = "", fields, blob }: Beside = {}): string {
  const told = stringOf(note === "" ? text : writeLines(text, write(note)));
  const beside = blob ? `,${JSON.stringify(blob)}` : "";
  const structuredContent = objectOf(fields ? { ...structured, ...fields } : structured);
  return `"content":[{"type":"text","text":${told}}${beside}],"structuredContent":${structuredContent}`;
}
