/** Messages of 25 MB in shapes that take a lot of memory. */
import { randomBytes } from "node:crypto";
import { words } from "../../bench/generator.ts";

/** Less than the largest message that is taken, by the header. */
const BYTES = 26_000_000;
/** Octets that base64 turns into BYTES. */
const OCTETS = Math.floor(BYTES * 0.72);

const lines = (text: string): string => text.replace(/(.{60,72}) /g, "$1\r\n");
const base64 = (octets: Buffer): string => octets.toString("base64").replace(/(.{76})/g, "$1\r\n");

function part(type: string, encoding: string, content: string, name?: string): string {
  const disposition = name === undefined ? "" : `Content-Disposition: attachment; filename="${name}"\r\n`;
  return `Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n${disposition}\r\n${content}\r\n`;
}
const file = (name: string, octets: number): string =>
  part("application/octet-stream", "base64", base64(randomBytes(octets)), name);
const multipart = (parts: readonly string[]): string =>
  `Content-Type: multipart/mixed; boundary="b1"\r\n\r\n${parts.map((each) => `--b1\r\n${each}`).join("")}--b1--\r\n`;

const TEXT = "text/plain; charset=utf-8";
const HTML = "text/html; charset=utf-8";
const prose = (bytes: number): string => words(3).text(bytes).slice(0, bytes);

/** Makers of large messages, by name. Each makes the fields that describe the content, and the content. */
export const LARGE_MAIL: Readonly<Record<string, () => string>> = {
  "one attachment": () => multipart([part(TEXT, "7bit", "Attached."), file("a.bin", OCTETS)]),
  "900 attachments": () =>
    multipart(Array.from({ length: 900 }, (_, n) => file(`${n}.bin`, Math.floor((0.99 * OCTETS) / 900)))),
  "900 texts": () => multipart(Array.from({ length: 900 }, () => part(TEXT, "7bit", lines(prose(BYTES / 950))))),
  "one text": () => part(TEXT, "7bit", lines(prose(0.98 * BYTES))),
  "one text in base64": () => part(TEXT, "base64", base64(Buffer.from(prose(OCTETS)))),
  "one HTML part": () => part(HTML, "7bit", lines(prose(0.85 * BYTES)).replace(/.+/g, "<p>$&</p>")),
  "one HTML part in base64, a tag a word": () =>
    part(HTML, "base64", base64(Buffer.from(prose(OCTETS).replaceAll(" ", "<br>").slice(0, OCTETS)))),
};
