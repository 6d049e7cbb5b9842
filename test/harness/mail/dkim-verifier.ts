/**
 * Verifies DKIM signatures (RFC 6376, relaxed/relaxed; RFC 8463) with node:crypto alone, so that it shares no code with the
 * signing.
 */
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto";

export interface VerifiedSignature {
  tags: Record<string, string>;
  /** Names in h=, lower case, in order. */
  signed: string[];
  /** True when the hash of the body and the signature are both right. */
  valid: boolean;
}

/** `publicKeyOf` returns the p= of the key record at a name, undefined when there is none. */
export function verifyDkim(
  message: Uint8Array,
  publicKeyOf: (selector: string, domain: string) => string | undefined,
): VerifiedSignature[] {
  const text = Buffer.from(message).toString("latin1");
  const end = text.indexOf("\r\n\r\n");
  const fields = text.slice(0, end).split(/\r\n(?![ \t])/);
  const body = text.slice(end + 4);
  return fields
    .filter((field) => /^dkim-signature:/i.test(field))
    .map((field) => {
      const tags = tagsOf(field.slice(field.indexOf(":") + 1));
      const signed = (tags.h ?? "").split(":").map((name) => name.trim().toLowerCase());
      const key = publicKeyOf(tags.s ?? "", tags.d ?? "");
      const bodyHash = createHash("sha256").update(relaxedBody(body), "latin1").digest("base64");
      const withoutB = field.replace(/([;\s]b=)[^;]*/, "$1");
      const data = Buffer.from(
        [...pick(fields, signed).map(relaxedField), relaxedField(withoutB)].join("\r\n"),
        "latin1",
      );
      const signature = Buffer.from((tags.b ?? "").replace(/\s/g, ""), "base64");
      const valid =
        key !== undefined &&
        tags.c === "relaxed/relaxed" &&
        tags.bh === bodyHash &&
        (tags.a === "rsa-sha256"
          ? verify("sha256", data, rsaKey(key), signature)
          : // RFC 8463 §3: Ed25519 signs the hash.
            verify(null, createHash("sha256").update(data).digest(), ed25519Key(key), signature));
      return { tags, signed, valid };
    });
}

function tagsOf(value: string): Record<string, string> {
  const tags: Record<string, string> = {};
  for (const tag of value.split(";")) {
    const at = tag.indexOf("=");
    if (at > 0)
      tags[tag.slice(0, at).trim()] = tag
        .slice(at + 1)
        .replace(/\r\n/g, "")
        .trim();
  }
  return tags;
}

/** RFC 6376 §5.4.2: fields with the same name count from the last one on, and a name without a field gives nothing. */
export function pick(fields: readonly string[], names: readonly string[]): string[] {
  const left = fields.filter((field) => !/^dkim-signature:/i.test(field));
  return names.flatMap((name) => {
    const at = left.findLastIndex((field) => field.slice(0, field.indexOf(":")).trim().toLowerCase() === name);
    return at < 0 ? [] : left.splice(at, 1);
  });
}

/** RFC 6376 §3.4.2. */
export function relaxedField(field: string): string {
  const at = field.indexOf(":");
  const value = field
    .slice(at + 1)
    .replace(/\r\n/g, "")
    .replace(/[ \t]+/g, " ")
    .trim();
  return `${field.slice(0, at).trim().toLowerCase()}:${value}`;
}

/** RFC 6376 §3.4.4. */
export function relaxedBody(body: string): string {
  const lines = body.split("\r\n").map((line) => line.replace(/[ \t]+/g, " ").replace(/ $/, ""));
  while (lines.at(-1) === "") lines.pop();
  return lines.map((line) => `${line}\r\n`).join("");
}

const rsaKey = (p: string): KeyObject =>
  createPublicKey({ key: Buffer.from(p, "base64"), format: "der", type: "spki" });

/** RFC 8410 §4: the SubjectPublicKeyInfo of the bare key. */
const ed25519Key = (p: string): KeyObject =>
  createPublicKey({
    key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(p, "base64")]),
    format: "der",
    type: "spki",
  });
