/** Messages with words planted in them, and the ways in which mailers, relays and attackers break messages. */
import { expect } from "bun:test";
import { withoutBcc } from "../../../src/message/headers.ts";
import { type ParsedMessage, parseMessage } from "../../../src/message/parse.ts";
import { readStructure, walkLeafParts } from "../../../src/message/structure.ts";

/** A word that is not base64, and its base64. */
const wordOf = (number: number) => `zqx.${String(number).padStart(8, "0")}`;
const encodedOf = (word: string) => Buffer.from(word).toString("base64");
const ANY_WORD = /zqx\.\d{8}/g;

/** Gives numbers below a bound. */
export type Choose = (below: number) => number;

function part(type: string, content: string, ...fields: string[]): string {
  return [`Content-Type: ${type}`, ...fields, "", content].join("\r\n");
}

function multipart(subtype: string, boundary: string, ...parts: string[]): string {
  const body = parts.map((one) => `--${boundary}\r\n${one}\r\n`).join("");
  return part(`multipart/${subtype}; boundary="${boundary}"`, `${body}--${boundary}--\r\n`);
}

const base64 = (content: Buffer | string) => Buffer.from(content).toString("base64").replace(/.{60}/g, "$&\r\n");
const BASE64 = "Content-Transfer-Encoding: base64";
const QUOTED = "Content-Transfer-Encoding: quoted-printable";

const plain = part("text/plain; charset=utf-8", "Good morning,\r\n\r\nsee below: it is there.\r\n  Yours");
const html = part("text/html; charset=us-ascii", "<p>Good morning,</p>\r\n\r\n<p>see below =\r\nthere</p>", QUOTED);
const flowed = part("text/plain; format=flowed", "Good \r\nmorning,\r\n\r\n> see below \r\n> there");
const file = part(
  'application/pdf; name="a.pdf"',
  base64("%PDF-1.4 ".repeat(40)),
  BASE64,
  "Content-Disposition: attachment",
);
const encoded = part("text/plain; charset=utf-8", base64("Good morning, see below. ".repeat(9)), BASE64);
const headed = (entity: string) =>
  `From: Ann <ann@example.test>\r\nTo: bob@example.test\r\nSubject: Hello\r\nMIME-Version: 1.0\r\n${entity}`;
const enclosed = part("message/rfc822", headed(multipart("mixed", "in", plain, file)));

export const SAMPLES = [
  plain,
  encoded,
  multipart("mixed", "b", plain, file),
  multipart("alternative", "b", plain, html),
  multipart("mixed", "b", multipart("alternative", "b2", flowed, html), file, plain),
  multipart("mixed", "b", multipart("related", "b", html, file), encoded),
  multipart("mixed", "out", enclosed, plain),
  multipart("digest", "b", `\r\n${headed(plain)}`, `\r\n${headed(plain)}`),
  multipart(
    "report",
    "b",
    plain,
    part("message/delivery-status", "Action: failed"),
    part("text/rfc822-headers", "A: b"),
  ),
].map((entity) => Buffer.from(headed(entity), "latin1"));

/** True for a message with an alternative that is left out on purpose (rules: Forms of mail). */
export const hasOtherForm = (bytes: Uint8Array): boolean =>
  /^content-type: *text\/enriched/im.test(Buffer.from(bytes).toString("latin1"));

/** Plants words in each part of a message, at the beginning and somewhere inside, at the start of lines. */
export function planted(bytes: Buffer, choose: Choose): string {
  let text = "";
  let position = 0;
  let number = 0;
  for (const leaf of walkLeafParts(readStructure(bytes))) {
    text += bytes.toString("latin1", position, leaf.start);
    position = leaf.end;
    const content = bytes.toString("latin1", leaf.start, leaf.end);
    const charset = leaf.contentType.parameters.get("charset") ?? "";
    if (/^(?:utf-?(?:16|7)|ucs)/i.test(charset)) {
      text += content;
      continue;
    }
    const encoding = leaf.header.fields.find(({ name }) => /^content-transfer-encoding$/i.test(name))?.value ?? "";
    const isEncoded = /^base64/i.test(encoding) && /^[\w+/=\s]*$/.test(content);
    if (isEncoded) {
      const decoded = Buffer.from(content, "base64");
      text += base64(Buffer.concat([Buffer.from(wordOf(++number)), decoded]));
      continue;
    }
    const lines = content.split(/(?<=\n)/);
    const inside = choose(lines.length);
    const [before, after] = [lines.slice(0, inside).join(""), lines.slice(inside).join("")];
    text += `${wordOf(++number)}\r\n${before}${wordOf(++number)}\r\n${after}`;
  }
  return text + bytes.toString("latin1", position);
}

const FIELDS = [
  "Content-Type: text/plain",
  "Content-Type: text/html; charset=utf-16",
  "Content-Type: text/plain; charset=utf-32",
  'Content-Type: text/plain; charset="utf-7"; format=flowed; delsp=yes',
  "Content-Type: multipart/mixed",
  "Content-Type: multipart/alternative; boundary=b",
  'Content-Type: multipart/related; boundary="b2',
  "Content-Type: multipart/mixed; boundary=",
  "Content-Type: message/rfc822",
  "Content-Type: message/partial; id=1; number=1; total=2",
  "Content-Type: ;;=",
  "Content-Type",
  "Content-Type:",
  "Content-Transfer-Encoding: base64",
  "Content-Transfer-Encoding: base64 (really)",
  "Content-Transfer-Encoding: quoted-printable",
  "Content-Transfer-Encoding: x-uuencode",
  "Content-Transfer-Encoding: binary; base64",
  "Content-Transfer-Encoding:",
  "Content-Disposition: attachment; filename=a.txt",
  "Content-Disposition: inline",
  "Bcc: eve@example.test",
];
const WHITE = ["", " ", "\t", "   \t ", "\v", "\0"];
const NOTE = "This is a multi-part message in MIME format.";

type Mutation = (lines: string[], choose: Choose, word: () => string) => void;

const pick = <T>(choose: Choose, list: readonly T[]): T => list[choose(list.length)] as T;
/** Chooses a line that matches, or any line if none does. */
function lineLike(lines: readonly string[], choose: Choose, pattern: RegExp): number {
  const found = [...lines.keys()].filter((number) => pattern.test(lines[number] ?? ""));
  return found.length > 0 ? pick(choose, found) : choose(lines.length);
}
const delimiter = (lines: readonly string[], choose: Choose) => lineLike(lines, choose, /^--\S/);
const blank = (lines: readonly string[], choose: Choose) => lineLike(lines, choose, /^\r?\n$/);
const mimeField = (lines: readonly string[], choose: Choose) => lineLike(lines, choose, /^content-/i);
const bodyOf = (line: string) => line.replace(/\r?\n$/, "");

/** The ways of breaking a message. Lines include their line breaks. */
const MUTATIONS: Record<string, Mutation> = {
  "drop a line": (lines, choose) => lines.splice(choose(lines.length), 1),
  "drop a blank line": (lines, choose) => lines.splice(blank(lines, choose), 1),
  "drop a delimiter": (lines, choose) => lines.splice(delimiter(lines, choose), 1),
  "drop a MIME field": (lines, choose) => lines.splice(mimeField(lines, choose), 1),
  "duplicate a line": (lines, choose) => {
    const number = choose(lines.length);
    lines.splice(number, 0, lines[number] ?? "");
  },
  "duplicate a delimiter elsewhere": (lines, choose) =>
    lines.splice(choose(lines.length), 0, lines[delimiter(lines, choose)] ?? ""),
  "duplicate a MIME field elsewhere": (lines, choose) =>
    lines.splice(choose(lines.length), 0, lines[mimeField(lines, choose)] ?? ""),
  "a line of white space": (lines, choose) => lines.splice(choose(lines.length), 0, `${pick(choose, WHITE)}\r\n`),
  "white space for a blank line": (lines, choose) => {
    lines[blank(lines, choose)] = `${pick(choose, WHITE)}\r\n`;
  },
  "white space behind a delimiter": (lines, choose) => {
    const number = delimiter(lines, choose);
    lines[number] = `${bodyOf(lines[number] ?? "")} \t\r\n`;
  },
  "another line break": (lines, choose) => {
    const number = choose(2) === 0 ? choose(lines.length) : blank(lines, choose);
    lines[number] = bodyOf(lines[number] ?? "") + pick(choose, ["\r", "\n", "\r\r\n", "\n\r"]);
  },
  "only LF": (lines) => lines.splice(0, lines.length, ...lines.map((line) => `${bodyOf(line)}\n`)),
  "only CR": (lines) => lines.splice(0, lines.length, ...lines.map((line) => `${bodyOf(line)}\r`)),
  NUL: (lines, choose) => {
    const number = choose(lines.length);
    const line = lines[number] ?? "";
    const at = choose(line.length + 1);
    lines[number] = `${line.slice(0, at)}\0${line.slice(at)}`;
  },
  truncate: (lines, choose) => {
    const kept = choose(lines.length);
    lines.splice(kept, lines.length, (lines[kept] ?? "").slice(0, choose(10)));
  },
  "move a delimiter": (lines, choose) => {
    const [line = ""] = lines.splice(delimiter(lines, choose), 1);
    lines.splice(choose(lines.length + 1), 0, line);
  },
  "rename a delimiter": (lines, choose) => {
    const number = delimiter(lines, choose);
    lines[number] = pick(choose, [
      "--other\r\n",
      "--b\r\n",
      "--b--\r\n",
      "--\r\n",
      `${bodyOf(lines[number] ?? "")}x\r\n`,
    ]);
  },
  "rename a boundary": (lines, choose) => {
    const number = lineLike(lines, choose, /boundary=/i);
    lines[number] = (lines[number] ?? "").replace(
      /boundary=[^\r\n;]*/i,
      pick(choose, ["boundary=b", "boundary=b2", "b=x"]),
    );
  },
  "one boundary for all": (lines) => {
    const named = [...new Set(lines.join("").match(/(?<=boundary="?)[^\s";]{1,60}/gi) ?? [])];
    const all = named.reduce((text, name) => text.replaceAll(name, "b"), lines.join(""));
    lines.splice(0, lines.length, ...all.split(/(?<=\n)/));
  },
  "a MIME field": (lines, choose) => lines.splice(choose(lines.length), 0, `${pick(choose, FIELDS)}\r\n`),
  "another MIME field": (lines, choose) => {
    lines[mimeField(lines, choose)] = `${pick(choose, FIELDS)}\r\n`;
  },
  "text anywhere": (lines, choose, word) => lines.splice(choose(lines.length + 1), 0, `${word()} and more\r\n`),
  preamble: (lines, _, word) =>
    lines.splice(
      Math.max(
        0,
        lines.findIndex((line) => line.startsWith("--")),
      ),
      0,
      `${word()} and more\r\n`,
    ),
  "a note and more": (lines, _, word) =>
    lines.splice(
      Math.max(
        0,
        lines.findIndex((line) => line.startsWith("--")),
      ),
      0,
      `${NOTE}\r\n${word()}\r\n`,
    ),
  epilogue: (lines, _, word) => lines.push("\r\n", `${word()} and more\r\n`),
  "text below a delimiter": (lines, choose, word) => lines.splice(delimiter(lines, choose) + 1, 0, `${word()}\r\n`),
  "text below a MIME field": (lines, choose, word) => lines.splice(mimeField(lines, choose) + 1, 0, `${word()}\r\n`),
  "text above a MIME field": (lines, choose, word) => lines.splice(mimeField(lines, choose), 0, `${word()}\r\n`),
  "a header-only part": (lines, choose) =>
    lines.splice(delimiter(lines, choose), 0, pick(choose, ["--b\r\n", "--b2\r\n"]), "Content-Type: text/plain\r\n"),
  "inside a message": (lines) => lines.unshift(...headed(part("message/rfc822", "")).split(/(?<=\n)/)),
  "inside a multipart": (lines, choose) => {
    lines.unshift(...headed(part("multipart/mixed; boundary=b", "--b\r\n")).split(/(?<=\n)/));
    if (choose(2) === 0) lines.push("--b--\r\n");
  },
};

export function broken(text: string, names: readonly string[], choose: Choose): Buffer {
  const lines = (text.endsWith("\n") ? text : `${text}\r\n`).split(/(?<=\n)/);
  let number = 50_000_000;
  // The cut comes last, so that no word is added to the cut line.
  const inOrder = [...names.filter((name) => name !== "truncate"), ...names.filter((name) => name === "truncate")];
  for (const name of inOrder) MUTATIONS[name]?.(lines, choose, () => wordOf(++number));
  return Buffer.from(lines.join(""), "latin1");
}

/** Finds the words in the bytes, plain or in base64. */
export function wordsIn(bytes: Buffer): Set<string> {
  const text = bytes.toString("latin1");
  const decoded = (text.match(/^[A-Za-z0-9+/]{16}/gm) ?? []).map((line) =>
    Buffer.from(line, "base64").toString("latin1"),
  );
  return new Set([...(text.match(ANY_WORD) ?? []), ...(decoded.join(" ").match(ANY_WORD) ?? [])]);
}

/** Collects all that a reader can reach: the shown text, the attachments, and the content of attached messages. */
async function reachable({ text, html = "", attachments }: ParsedMessage, depth = 0): Promise<string> {
  const pieces = [text, html];
  for (const { content, contentType } of attachments) {
    pieces.push(Buffer.from(content).toString("latin1"));
    if (depth < 5 && contentType.startsWith("message/"))
      pieces.push(await reachable(await parseMessage(content), depth + 1));
  }
  return pieces.join("\n");
}

export async function lostOf(bytes: Buffer): Promise<string[]> {
  const message = await parseMessage(bytes);
  const original = message.attachments.at(-1);
  if (message.problem !== undefined && original !== undefined && withoutBcc(bytes).length === original.content.length) {
    return [];
  }
  const found = await reachable(message);
  return [...wordsIn(bytes)].filter((word) => !found.includes(word) && !found.includes(encodedOf(word)));
}

/** Gives numbers that look random and follow from a seed. */
export function chooser(seed: number): Choose {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

export const NAMES = Object.keys(MUTATIONS);

/** Breaks every message in up to three ways per round, of which `from` is the first, and expects no word to be lost. */
export async function expectNothingLost(messages: readonly Buffer[], rounds: number, from = 0): Promise<void> {
  for (let round = from; round < from + rounds; round++) {
    for (const [index, bytes] of messages.entries()) {
      const seed = round * messages.length + index;
      const choose = chooser(seed * 7_919);
      choose(1);
      const names = [NAMES[seed % NAMES.length] as string];
      while (names.length < 3 && choose(2) === 0) names.push(pick(choose, NAMES));
      const result = broken(planted(bytes, choose), names, choose);
      expect({ seed, names, lost: await lostOf(result) }).toEqual({ seed, names, lost: [] });
    }
  }
}
