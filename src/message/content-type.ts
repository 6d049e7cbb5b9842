/**
 * The parameters of a Content-Type (RFC 2045 §5.1, RFC 2231), which a file keeps beside its media type, on arrival and when it
 * is sent (rules: Types of files).
 */
import { cleanText, decodeCharset, decodeUnlabelledText } from "./charset.ts";
import { parseHeaderValue } from "./structure.ts";

/** Decoded, in order, under names in lower case, each once. */
export type TypeParameters = (readonly [name: string, value: string])[];

/** Characters of names and values together, of those that are kept. */
const MOST_CHARACTERS = 1_000;

const TOKEN = /^[!#$%&'+.^_`|~0-9A-Za-z-]{1,80}$/;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,80}\/[a-z0-9!#$&^_.+-]{1,80}$/;

/** Parameters that say nothing of what is in a file: the name of a file stands beside, and only parts have a boundary. */
const NOT_KEPT: ReadonlySet<string> = new Set(["name", "filename", "boundary"]);

/** The parameters that are kept, of those of a parsed header value. Others, and those that are too long, are left out. */
export function readTypeParameters(given: ReadonlyMap<string, string>): TypeParameters {
  const kept: TypeParameters = [];
  let room = MOST_CHARACTERS;
  for (const name of new Set([...given.keys()].map((key) => key.split("*", 1)[0] ?? ""))) {
    if (NOT_KEPT.has(name) || !TOKEN.test(name)) continue;
    const value = readHeaderParameter(given, name);
    if (value === undefined || name.length + value.length > room) continue;
    room -= name.length + value.length;
    kept.push([
      name,
      cleanText(value)
        .replace(/\p{Cc}+/gu, " ")
        .trim(),
    ]);
  }
  return kept;
}

/** The media type that a program gives a file, and its parameters; that of any bytes for what is none. */
export function readContentType(text: string): { contentType: string; parameters: TypeParameters } {
  const { value, parameters } = parseHeaderValue(text);
  return MEDIA_TYPE.test(value)
    ? { contentType: value, parameters: readTypeParameters(parameters) }
    : { contentType: "application/octet-stream", parameters: [] };
}

/** Parameters as they follow a media type. */
export const formatTypeParameters = (parameters: TypeParameters): string =>
  parameters
    .map(([name, value]) => `; ${name}=${TOKEN.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`}`)
    .join("");

/** Those of the parameters that a header of HTTP can have, as they follow a media type. */
export const formatHttpParameters = (parameters: TypeParameters): string =>
  formatTypeParameters(parameters.filter(([name, value]) => TOKEN.test(name) && /^[ -~]*$/.test(value)));

/** The parameters of a text in UTF-8, whatever charset was given. */
export const withUtf8Charset = (parameters: TypeParameters): TypeParameters => [
  ...new Map([...parameters, ["charset", "utf-8"] as const]),
];

/** A parameter that may be split and encoded (RFC 2231 §3, §4); undefined if it is absent. */
export function readHeaderParameter(parameters: ReadonlyMap<string, string>, name: string): string | undefined {
  const whole = parameters.get(`${name}*`);
  const pieces = whole === undefined ? [] : [{ value: whole, isEncoded: true }];
  // Some mailers count from 1.
  const start = parameters.has(`${name}*0`) || parameters.has(`${name}*0*`) ? 0 : 1;
  for (let i = start; whole === undefined; i++) {
    const encoded = parameters.get(`${name}*${i}*`);
    const value = encoded ?? parameters.get(`${name}*${i}`);
    if (value === undefined) break;
    pieces.push({ value, isEncoded: encoded !== undefined });
  }
  const [first] = pieces;
  if (first === undefined) return parameters.get(name);
  const [, charset = "", value = first.value] = (first.isEncoded && /^([^']*)'[^']*'(.*)$/s.exec(first.value)) || [];
  const octets = [{ ...first, value }, ...pieces.slice(1)].map(({ value, isEncoded }) =>
    isEncoded ? decodePercent(value) : Buffer.from(value),
  );
  const joined = Buffer.concat(octets);
  return decodeCharset(joined, charset) ?? decodeUnlabelledText(joined);
}

const decodePercent = (value: string): Buffer =>
  Buffer.from(
    Buffer.from(value)
      .toString("latin1")
      .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  );
