/**
 * Results as JSON, put together of parts that are JSON already. What stands in the text and again in the structured
 * content is escaped once, which costs more than anything else about a long message; and what was written to be measured
 * is what is sent.
 *
 * Strings are added to each other, never joined or sliced: so they are copied once, when all is sent.
 */

import { isAscii } from "../../message/shown.ts";

/** Text of a result, as it stands between the quotes of a JSON string; `length` is its own, without the escapes. */
export interface Written {
  json: string;
  length: number;
}

export const write = (text: string): Written => ({ json: escapeText(text), length: text.length });

/** Characters of ASCII from which on it costs half as much to look for what is escaped, one after another. */
const LONG = 500;
const CONTROLS = "\\0-\\x08\\v-\\x1f";
/** What is escaped otherwise, but for surrogates. */
const HAS_CONTROLS = new RegExp(`[${CONTROLS}]`);

function escapeText(text: string): string {
  if (text.length < LONG || !isAscii(text) || HAS_CONTROLS.test(text)) return JSON.stringify(text).slice(1, -1);
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** The parts, each on lines of its own. */
export function writeLines(first: Written, ...rest: readonly Written[]): Written {
  let { json, length } = first;
  for (const part of rest) {
    json += `\\n${part.json}`;
    length += 1 + part.length;
  }
  return { json, length };
}

/** The string of a text. */
export const stringOf = ({ json }: Written): string => `"${json}"`;

/** The array of values that are JSON. */
export function arrayOf(values: readonly string[]): string {
  let json = "";
  for (const value of values) json += json === "" ? value : `,${value}`;
  return `[${json}]`;
}

/** Fields of an object, their values as JSON; those that are undefined are left out. */
export type Fields = Record<string, string | undefined>;

/** As they stand between the braces of the object. */
export function fieldsOf(fields: Fields): string {
  let json = "";
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (value !== undefined) json += `${json === "" ? "" : ","}"${name}":${value}`;
  }
  return json;
}

export const objectOf = (fields: Fields): string => `{${fieldsOf(fields)}}`;
