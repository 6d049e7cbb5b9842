/**
 * Makes a message fit what SMTP carries: lines that end in CRLF (RFC 5321 §2.3.8) and have at most 998 octets (§4.5.3.1.6), and
 * where the next server takes no 8-bit content (RFC 6152) or header (RFC 6531), octets below 128.
 *
 * Bodies become quoted-printable or base64, header fields encoded words (RFC 2047) and extended parameters (RFC 2231), also
 * those of attached messages. All other octets stay: the result is the message with some of its ranges replaced.
 *
 * Invariants: each body decodes to the same octets, and what is signed or encrypted (RFC 1847, RFC 8551) is not touched. A part
 * that cannot be re-encoded without loss stays as it is. Linear in the size of the message (rules: What servers take).
 */
import { isAscii, isUtf8 } from "node:buffer";
import { buildHeaderValue } from "nodemailer/lib/mime-funcs";
import { envelopeAddress, readAddressEntries } from "./address.ts";
import { decodeUtf8OrIso2022Jp } from "./charset.ts";
import { encodeHeaderText, foldHeaderField, formatAddress, headerField } from "./compose.ts";
import { decodePartOctets, isDecodedWhole } from "./decode.ts";
import { base64Length, encodeBase64, encodeQuotedPrintable, quotedPrintableLength } from "./encode.ts";
import { decodeWords, findHeader, unfoldHeaderValue } from "./headers.ts";
import { type Part, parseHeaderValue, tryReadStructure, walkLeafParts } from "./structure.ts";
import { createCharsetGuesser, createFieldDecoder, type FieldDecoder } from "./undeclared.ts";

/** Extensions of SMTP with which the next server takes more than lines of ASCII. */
export interface Carriage {
  /** 8BITMIME. */
  eightBit: boolean;
  /** SMTPUTF8: header fields in UTF-8. */
  utf8: boolean;
}

/**
 * Extensions that are assumed of a server that is not known yet, so that a message changes only as much as every server needs.
 */
export const UNKNOWN_SERVER: Carriage = { eightBit: true, utf8: true };

const LONGEST_LINE = 998;
/** A header field with a longer word is given another form, or broken within the word. */
const LONGEST_WORD = 900;
/** Attached messages within attached messages that are looked into. */
const DEEPEST = 10;

const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;

/** Replaces the octets from `start` to before `end`. */
interface Edit {
  start: number;
  end: number;
  octets: Buffer;
}

/** The message as it fits; the same array if it does already. One that cannot be taken apart gets line ends alone. */
export async function recodeForTransport(message: Uint8Array, takes: Carriage): Promise<Uint8Array> {
  const bytes = withCrlf(message);
  return (await recodeMessage(bytes, takes, 0)) ?? (bytes.byteLength === message.byteLength ? message : bytes);
}

/** Turns bare CR and LF into line ends: SMTP allows them only together. */
export function withCrlf(bytes: Uint8Array): Buffer {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return hasBareLineEnd(buffer)
    ? Buffer.from(buffer.toString("latin1").replace(/\r\n?|\n/g, "\r\n"), "latin1")
    : buffer;
}

function hasBareLineEnd(bytes: Uint8Array): boolean {
  let previous = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if ((byte === LF) !== (previous === CR)) return true;
    previous = byte;
  }
  return previous === CR;
}

/** True if a message need not be taken apart. */
function fits(bytes: Buffer, { eightBit, utf8 }: Carriage): boolean {
  if (hasLongLine(bytes)) return false;
  return isAscii(bytes) || (eightBit && utf8 && isUtf8(headerOfMessage(bytes)));
}

const headerOfMessage = (bytes: Buffer): Buffer => {
  const end = bytes.indexOf("\r\n\r\n");
  return end < 0 ? bytes : bytes.subarray(0, end);
};

/** Makes a message fit; undefined if nothing changes. `depth`: number of attached messages around it. */
async function recodeMessage(bytes: Buffer, takes: Carriage, depth: number): Promise<Buffer | undefined> {
  if (fits(bytes, takes)) return undefined;
  const root = tryReadStructure(bytes);
  if (!root) return undefined;
  const work = new Recoding(bytes, takes, createFieldDecoder(root, createCharsetGuesser(bytes, root)), depth);
  await work.part(root, true);
  return work.result();
}

/** True for a part whose octets are signed or encrypted, so that no transport may change them. */
const isSealed = ({ type, contentType }: Part): boolean =>
  /^multipart\/(?:signed|encrypted)$/.test(contentType.value) ||
  /^application\/(?:x-)?pkcs7-(?:mime|signature)$/.test(type);

class Recoding {
  readonly #bytes: Buffer;
  readonly #takes: Carriage;
  readonly #decodeField: FieldDecoder;
  readonly #depth: number;
  readonly #edits: Edit[] = [];
  /** Where parts lie, in order: what is between them are delimiters, preambles and epilogues. */
  readonly #covered: { start: number; end: number }[] = [];

  constructor(bytes: Buffer, takes: Carriage, decodeField: FieldDecoder, depth: number) {
    this.#bytes = bytes;
    this.#takes = takes;
    this.#decodeField = decodeField;
    this.#depth = depth;
  }

  /** The message with its edits; undefined if there is none. */
  result(): Buffer | undefined {
    this.#editBetween();
    if (this.#edits.length === 0) return undefined;
    this.#edits.sort((a, b) => a.start - b.start || a.end - b.end);
    const pieces: Buffer[] = [];
    let position = 0;
    for (const { start, end, octets } of this.#edits) {
      pieces.push(this.#bytes.subarray(position, start), octets);
      position = end;
    }
    return Buffer.concat([...pieces, this.#bytes.subarray(position)]);
  }

  /** Re-encodes a part. `isMessage`: it is the whole message. Resolves with true if it is all short lines of ASCII now. */
  async part(part: Part, isMessage = false): Promise<boolean> {
    const { header, start, end, children } = part;
    const fields = fieldsIn(this.#bytes, header.start, header.bodyStart);
    this.#covered.push({ start: header.start, end: header.bodyStart });
    const isHeaderPlain = await this.#editFields(part, fields);
    const edits = this.#edits.length;
    let isPlain = true;
    if (isSealed(part)) {
      isPlain = this.#keep(start, Math.max(...[...walkLeafParts(part)].map((leaf) => leaf.end)));
    } else if (children.length > 0) {
      for (const child of children) if (!(await this.#child(part, child))) isPlain = false;
      // A label of the whole is true of all its parts (RFC 2045 §6.4).
      const isOver = isPlain && this.#edits.length > edits && /^(?:8-?bit|binary)$/.test(claimedTransferEncoding(part));
      if (isOver) this.#label(part, fields, "7bit", isMessage);
    } else {
      const body = await this.#bodyOf(part);
      isPlain = body?.isPlain ?? this.#keep(start, end);
      if (body) {
        this.#covered.push({ start, end });
        this.#edits.push({ start, end, octets: body.octets });
        this.#label(part, fields, body.encoding, isMessage);
      }
    }
    return isHeaderPlain && isPlain;
  }

  async #child({ header }: Part, child: Part): Promise<boolean> {
    // A part whose own delimiter was forgotten shares the header of the multipart.
    return child.header.start === header.start ? this.#keep(child.start, child.end) : await this.part(child);
  }

  /** Leaves octets as they are. Returns true if they are short lines of ASCII. */
  #keep(start: number, end: number): boolean {
    this.#covered.push({ start, end });
    const octets = this.#bytes.subarray(start, end);
    return isAscii(octets) && !hasLongLine(octets);
  }

  /** Encodes the fields of a header that do not fit. Resolves with true if all of it is short lines of ASCII then. */
  async #editFields(part: Part, fields: readonly Field[]): Promise<boolean> {
    let isPlain = true;
    for (const { name, start, end } of fields) {
      // The label of the body is written when its encoding is known.
      if (name !== undefined && LABEL.test(name)) continue;
      const field = this.#bytes.subarray(start, end);
      const isLong = hasLongLine(field);
      if (!isLong && isAscii(field)) continue;
      const isWanted = isLong || !this.#takes.utf8 || !isUtf8(field);
      const encoded = isWanted && name !== undefined ? await this.#encodeField(part, name, field) : undefined;
      const isBetter = encoded !== undefined && (isLong || isAsciiText(encoded));
      if (isBetter) this.#edits.push({ start, end, octets: Buffer.from(`${encoded}\r\n`) });
      if (!isBetter || !isAsciiText(encoded)) isPlain = false;
    }
    return isPlain;
  }

  async #encodeField(part: Part, name: string, field: Buffer): Promise<string> {
    const octets = field.subarray(field.indexOf(":") + 1);
    const text = decodeUtf8OrIso2022Jp(octets) ?? (await this.#decodeField(part, octets));
    return encodedField(name, unfoldHeaderValue(text).replace(/\s{78,}/g, " "));
  }

  /** The body of a leaf in another encoding; undefined if it fits, or cannot be encoded. */
  async #bodyOf(part: Part): Promise<{ octets: Buffer; encoding: string; isPlain: boolean } | undefined> {
    const body = this.#bytes.subarray(part.start, part.end);
    if (!hasLongLine(body) && (this.#takes.eightBit || isAscii(body))) return undefined;
    const claimed = classifyTransferEncoding(part);
    // A multipart without a delimiter cannot be encoded (RFC 2045 §6.4).
    if (part.contentType.value.startsWith("multipart/") || claimed === "unknown") return undefined;
    if (isAttachedMessage(part)) {
      if (claimed !== "none" || this.#depth >= DEEPEST) return undefined;
      const octets = await recodeMessage(body, this.#takes, this.#depth + 1);
      if (!octets) return undefined;
      const isPlain = isAscii(octets) && !hasLongLine(octets);
      return { octets, encoding: isPlain ? "7bit" : "8bit", isPlain };
    }
    if (!isDecodedWhole(this.#bytes, part)) return undefined;
    const decoded = decodePartOctets(this.#bytes, part);
    // Base64 alone can end a line where the text has no line end.
    const needsLineEnd = this.#depth === 0 && part.end === this.#bytes.length;
    const isText = /^(?:text|message)\//.test(part.type) && (!needsLineEnd || decoded.at(-1) === LF);
    if (isText && quotedPrintableLength(decoded) <= base64Length(decoded.length)) {
      return { octets: encodeQuotedPrintable(decoded), encoding: "quoted-printable", isPlain: true };
    }
    const octets = Buffer.concat([encodeBase64(decoded), Buffer.from(needsLineEnd ? "\r\n" : "")]);
    return { octets, encoding: "base64", isPlain: true };
  }

  /** Writes the transfer encoding of a part into its header, and what a message with it needs besides. */
  #label(part: Part, fields: readonly Field[], encoding: string, isMessage: boolean): void {
    const { header, start, end, type } = part;
    const lines = [`Content-Transfer-Encoding: ${encoding}`];
    if (isMessage && findHeader(header.fields, "mime-version") === undefined) lines.unshift("MIME-Version: 1.0");
    const isUntyped = type === "text/plain" && findHeader(header.fields, "content-type") === undefined;
    if (isUntyped && isUtf8(this.#bytes.subarray(start, end))) lines.push("Content-Type: text/plain; charset=utf-8");
    const text = `${lines.join("\r\n")}\r\n`;
    // Of two labels readers might take either.
    const [first, ...others] = fields.filter(({ name }) => name !== undefined && LABEL.test(name));
    if (first) this.#edits.push({ start: first.start, end: first.end, octets: Buffer.from(text) });
    else {
      const last = fields.at(-1)?.end ?? header.start;
      // Without an empty line, the body would become part of the header.
      const hasEmptyLine = last < header.bodyStart;
      this.#edits.push({ start: last, end: last, octets: Buffer.from(hasEmptyLine ? text : `${text}\r\n`) });
    }
    for (const other of others) this.#edits.push({ start: other.start, end: other.end, octets: Buffer.alloc(0) });
  }

  /** Drops the lines of preambles and epilogues that do not fit: nobody reads them (RFC 2046 §5.1.1). */
  #editBetween(): void {
    let position = 0;
    for (const { start, end } of [...this.#covered, { start: this.#bytes.length, end: this.#bytes.length }]) {
      for (let line = position; line < start; ) {
        const found = this.#bytes.indexOf(LF, line);
        const next = found < 0 || found >= start ? start : found + 1;
        const octets = this.#bytes.subarray(line, next);
        const isDelimiter = octets[0] === 0x2d && octets[1] === 0x2d;
        const isUnfit = hasLongLine(octets) || !(this.#takes.eightBit || isAscii(octets));
        const last = this.#edits.at(-1);
        if (isUnfit && !isDelimiter) {
          // Of a million lines, one edit.
          if (last?.end === line && last.octets.length === 0) last.end = next;
          else this.#edits.push({ start: line, end: next, octets: Buffer.alloc(0) });
        }
        line = next;
      }
      position = Math.max(position, end);
    }
  }
}

/** A field of a header with its line end, or a line of which no field can be made, without a name. */
interface Field {
  name: string | undefined;
  start: number;
  end: number;
}

/** The fields of a header block up to its empty line. */
function fieldsIn(bytes: Buffer, start: number, end: number): Field[] {
  const fields: Field[] = [];
  for (let line = start; line < end; ) {
    const found = bytes.indexOf(LF, line);
    const next = found < 0 || found >= end ? end : found + 1;
    const isEmpty = bytes[line] === LF || (bytes[line] === CR && bytes[line + 1] === LF);
    if (isEmpty) break;
    const last = fields.at(-1);
    if (last && (bytes[line] === SPACE || bytes[line] === TAB)) last.end = next;
    else {
      const [, name] =
        /^([!-9;-~]{1,200})[ \t]*:/.exec(bytes.toString("latin1", line, Math.min(next, line + 300))) ?? [];
      fields.push({ name, start: line, end: next });
    }
    line = next;
  }
  return fields;
}

const isAttachedMessage = ({ type }: Part): boolean => type === "message/rfc822" || type === "message/news";

/** The transfer encoding that a leaf claims: `none` if its octets are as they are, also without a claim. */
function classifyTransferEncoding(part: Part): "none" | "base64" | "quoted-printable" | "unknown" {
  const claimed = claimedTransferEncoding(part);
  if (/^(?:7-?bit|8-?bit|binary|)$/.test(claimed)) return "none";
  return claimed === "base64" || claimed === "quoted-printable" ? claimed : "unknown";
}

const claimedTransferEncoding = ({ header }: Part): string =>
  parseHeaderValue(findHeader(header.fields, "content-transfer-encoding") ?? "").value;

const isAsciiText = (text: string): boolean => isAscii(Buffer.from(text));

function hasLongLine(octets: Buffer): boolean {
  let start = 0;
  while (octets.length - start > LONGEST_LINE) {
    const found = octets.indexOf(LF, start);
    const end = found < 0 ? octets.length : octets[found - 1] === CR ? found - 1 : found;
    if (end - start > LONGEST_LINE) return true;
    if (found < 0) return false;
    start = found + 1;
  }
  return false;
}

const LABEL = /^content-transfer-encoding$/i;
/** Fields in which encoded words mean nothing; an octet over 127 stays there. */
const FIXED =
  /^(?:(?:resent-)?(?:date|message-id)|in-reply-to|references|received|return-path|dkim-signature|arc-.*|authentication-results|mime-version|content-(?:id|transfer-encoding)|list-.*)$/i;
const WITH_PARAMETERS = /^content-(?:type|disposition)$/i;
/** Also those by which programs ask for receipts and direct answers. */
const WITH_ADDRESSES =
  /^(?:(?:resent-)?(?:from|sender|to|cc|bcc|reply-to)|(?:mail-followup|mail-reply|disposition-notification|return-receipt|errors)-to)$/i;
/** Fields that people read, in which a space between encoded words counts for nothing (RFC 2047 §5). */
const PROSE = /^(?:subject|comments|thread-topic|content-description)$/i;

/** A field as it can be carried, without the line break at its end; still not ASCII where no encoding fits. */
function encodedField(name: string, value: string): string {
  if (WITH_PARAMETERS.test(name)) return foldHeaderField(`${name}: ${encodedParameters(value)}`);
  // Identifiers, which some programs write without space between them.
  if (FIXED.test(name)) return foldHeaderField(`${name}: ${value.replaceAll("><", "> <")}`);
  if (WITH_ADDRESSES.test(name)) return foldHeaderField(`${name}: ${encodedAddresses(value)}`);
  const hasLongWord = value.split(" ").some(({ length }) => length > LONGEST_WORD);
  return PROSE.test(name) && hasLongWord
    ? foldHeaderField(`${name}: ${encodeHeaderText(decodeWords(value))}`)
    : headerField(name, value);
}

/** Keeps what is ASCII as it is written; an address without a form in ASCII stays. */
function encodedAddresses(value: string): string {
  const entries = [...readAddressEntries(value)];
  const [, group] = (entries.length === 0 && /^([^:;]*):/.exec(value)) || [];
  if (group !== undefined) return `${encodeHeaderText(decodeWords(group.trim()))}:;`;
  return entries
    .map(({ source, addresses }) =>
      isAsciiText(source) || addresses.length === 0
        ? source.trim()
        : addresses.map((one) => formatAddress({ ...one, email: envelopeAddress(one.email) ?? one.email })).join(", "),
    )
    .join(", ");
}

function encodedParameters(text: string): string {
  const { value, parameters } = parseHeaderValue(text);
  const written: string[] = [];
  const others: Record<string, string> = {};
  for (const [name, content] of parameters) {
    const isTwice = ["*", "*0", "*0*"].some((mark) => parameters.has(`${name}${mark}`));
    if (name.endsWith("*")) written.push(`${name}=${content}`);
    // Its words are those of the delimiters; a piece of a parameter is in ASCII.
    else if (name === "boundary" || name.includes("*")) written.push(`${name}=${JSON.stringify(content)}`);
    else if (!isTwice) others[name] = decodeWords(content);
  }
  return [buildHeaderValue({ value, params: others }), ...written].join("; ");
}
