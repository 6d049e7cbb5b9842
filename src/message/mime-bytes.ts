/**
 * The bytes of a tree of MIME nodes, as MimeNode.build() gives them but at once: its streams take five times as long as
 * what they do for a message of ordinary size. test/message/mime-bytes.test.ts holds the two together.
 */
import { encode as encodeBase64, wrap as wrapBase64 } from "nodemailer/lib/base64";
import type MimeNode from "nodemailer/lib/mime-node";
import { encode as encodeQuotedPrintable, wrap as wrapQuotedPrintable } from "nodemailer/lib/qp";

/** Header and body of `node`, lines ended by CRLF where its content has them so. Content is text or octets. */
export function bytesOfNode(node: MimeNode): Buffer {
  const pieces = [...piecesOf(node)].map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece));
  const last = pieces.findLast(({ length }) => length > 0)?.at(-1);
  if (last !== LF) pieces.push(Buffer.from(last === CR ? "\n" : "\r\n"));
  return Buffer.concat(pieces);
}

const CR = 0x0d;
const LF = 0x0a;

function* piecesOf(node: MimeNode): Generator<string | Buffer> {
  yield `${node.buildHeaders()}\r\n\r\n`;
  yield* contentOf(node);
  if (!node.multipart) return;
  let before = "";
  for (const child of node.childNodes) {
    yield `${before}--${node.boundary}\r\n`;
    yield* piecesOf(child);
    before = "\r\n";
  }
  yield `\r\n--${node.boundary}--\r\n`;
}

/** Octets that are 76 columns of base64 a thousand times: a large attachment is never one string. */
const BASE64_SLICE = 57 * 1_000;

function* contentOf(node: MimeNode): Generator<string | Buffer> {
  const { content } = node;
  if (!content) return;
  if (typeof content !== "string" && !Buffer.isBuffer(content)) throw new Error("content is neither text nor octets");
  switch (node.getTransferEncoding()) {
    case "quoted-printable":
      yield wrapQuotedPrintable(encodeQuotedPrintable(content));
      return;
    case "base64": {
      const octets = typeof content === "string" ? Buffer.from(content) : content;
      for (let start = 0; start < octets.length; start += BASE64_SLICE) {
        if (start > 0) yield "\r\n";
        yield Buffer.from(wrapBase64(encodeBase64(octets.subarray(start, start + BASE64_SLICE))), "latin1");
      }
      return;
    }
    default:
      yield content;
  }
}
