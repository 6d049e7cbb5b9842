/**
 * Finds the charset of octets that the declared one does not fit, or for which none is declared: 8-bit header fields, and
 * texts of mailers that forget to say. The only user of jschardet.
 *
 * Header fields follow the charset that the message declares for its text. Otherwise jschardet guesses, once a message,
 * from a sample of a fixed size. Valid UTF-8, and text in the charset that it declares, cost nothing.
 */
import {
  decodeCharset,
  decodeMislabelledText,
  decodeNearUtf8,
  type Guess,
  guessWindows1252,
  isEightBitCharset,
} from "./charset.ts";
import { decodePartOctets } from "./decode.ts";
import { unfoldHeaderValue } from "./headers.ts";
import { type Part, parseHeaderValue, walkLeafParts } from "./structure.ts";

/** Charsets of mail, as jschardet calls them. Others, as of DOS and Macintosh, would win short samples by chance. */
const LATIN = ["windows-1250", "windows-1252", "windows-1254", "windows-1257", "windows-1258", "iso-8859-2"];
const OTHER_LETTERS =
  "windows-1251 windows-1253 windows-1255 windows-1256 iso-8859-5 iso-8859-7 koi8-r koi8-u cp866 cp874".split(" ");
const IDEOGRAPHS = ["cp932", "euc-jp", "cp949", "gb18030", "big5"];

/** Octets of the sample, and of each text that it is taken from. */
const LARGEST_SAMPLE = 1_000;
const LARGEST_SOURCE = 64 * 1024;
/** Octets that are letters in most charsets; fewer tell nothing, since windows-1252 is the most common one. */
const FEWEST_LETTERS = 3;

/** Guesses the charset of a message when first asked. */
export function createCharsetGuesser(buffer: Buffer, root: Part): Guess {
  let guessed: Promise<string> | undefined;
  return () => {
    guessed ??= guess(collectEightBitSample(buffer, root));
    return guessed;
  };
}

async function guess(sample: Buffer): Promise<string> {
  if (sample.filter((octet) => octet >= 0xc0).length < FEWEST_LETTERS) return guessWindows1252();
  const text = sample.toString("latin1");
  const isMixed = 2 * (text.match(BESIDE_ASCII)?.length ?? 0) > (text.match(RUN)?.length ?? 0);
  const candidates = [...LATIN, ...IDEOGRAPHS, ...(isMixed ? [] : OTHER_LETTERS)];
  const { detect } = await import("jschardet");
  return detect(sample, { detectEncodings: candidates }).encoding ?? guessWindows1252();
}

const RUN = /[\x80-\xff]+/g;
/** Words of other letters have none of ASCII among them. */
const BESIDE_ASCII = /(?<=[a-z])[\x80-\xff]+|(?<![\x80-\xff])[\x80-\xff]+(?=[a-z])/gi;

/** The words with 8-bit octets, of the header and of the texts. */
function collectEightBitSample(buffer: Buffer, root: Part): Buffer {
  const sources = root.header.fields.flatMap(({ octets }) => octets ?? []);
  let sample = "";
  function add(octets: Uint8Array): void {
    const pieces = Buffer.from(octets)
      .toString("latin1")
      .split(/[\r\n<>]+/);
    for (const piece of pieces) if (sample.length < LARGEST_SAMPLE && HIGH.test(piece)) sample += `${piece}\n`;
  }
  for (const octets of sources) add(octets);
  for (const part of walkLeafParts(root)) {
    if (sample.length >= LARGEST_SAMPLE) break;
    if (!part.type.startsWith("text/")) continue;
    const octets = decodePartOctets(buffer, { ...part, end: Math.min(part.end, part.start + LARGEST_SOURCE) });
    if (!fits(octets, declaredCharset(part))) add(octets);
  }
  return Buffer.from(sample.slice(0, LARGEST_SAMPLE), "latin1");
}

const HIGH = /[\x80-\xff]/;

const declaredCharset = ({ contentType }: Part): string => contentType.parameters.get("charset") ?? "";

function fits(octets: Uint8Array, charset: string): boolean {
  return decodeCharset(octets, charset)?.includes("\ufffd") === false;
}

/** Decodes a field that is not UTF-8, of the header of a part. */
export type FieldDecoder = (part: Part, octets: Uint8Array) => Promise<string>;

/**
 * Makes the decoder for the header fields of a message: in the charset that their own header declares, or the first that a part
 * declares, or the guessed one.
 */
export function createFieldDecoder(root: Part, guess: Guess): FieldDecoder {
  const declared = [...walkLeafParts(root)].map(declaredCharset).find(isEightBitCharset);
  return async (part, octets) => {
    const own = declaredCharset(part);
    const charset = isEightBitCharset(own) ? own : declared;
    const text = charset === undefined ? undefined : decodeCharset(octets, charset);
    return decodeNearUtf8(octets, 1 / 2) ?? (await decodeMislabelledText(octets, text, guess));
  };
}

/** Decodes the header fields of a message that are not UTF-8. */
export async function decodeFields(root: Part, guess: Guess): Promise<void> {
  const parts = [...walkParts(root)].filter(({ header }) => header.fields.some(({ octets }) => octets !== undefined));
  if (parts.length === 0) return;
  const decode = createFieldDecoder(root, guess);
  for (const part of parts) {
    // The type that it declares now: the fields may have another one.
    const { contentType } = part;
    for (const field of part.header.fields) {
      if (field.octets === undefined) continue;
      const text = unfoldHeaderValue(await decode({ ...part, contentType }, field.octets));
      // The values themselves tell the type and the boundary, which are ASCII.
      if (/^content-type$/i.test(field.name)) part.contentType = parseHeaderValue(text);
      else if (/^content-disposition$/i.test(field.name)) part.disposition = parseHeaderValue(text);
      else field.value = text;
    }
  }
}

function* walkParts(part: Part): Generator<Part> {
  yield part;
  for (const child of part.children) yield* walkParts(child);
}
