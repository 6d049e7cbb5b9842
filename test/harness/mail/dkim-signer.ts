/** Signs messages as other servers do (RFC 6376, relaxed/relaxed; RFC 8463), with nothing but node:crypto. */
import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { pick, relaxedBody, relaxedField } from "./dkim-verifier.ts";

export interface Signer {
  domain: string;
  selector: string;
  privateKey: KeyObject;
  /** The TXT record of `<selector>._domainkey.<domain>`. */
  record: string;
}

export function newSigner(domain: string, { bits, selector = "s" }: { bits?: number; selector?: string } = {}): Signer {
  const [{ privateKey, publicKey }, record] =
    bits === undefined
      ? [generateKeyPairSync("ed25519"), "v=DKIM1; k=ed25519; p="]
      : [generateKeyPairSync("rsa", { modulusLength: bits }), "v=DKIM1; k=rsa; p="];
  const der = publicKey.export({ type: "spki", format: "der" });
  // RFC 8410 §4: the structure ends with the bare key.
  const key = bits === undefined ? der.subarray(-32) : der;
  return { domain, selector, privateKey, record: record + key.toString("base64") };
}

const SIGNED = ["from", "to", "subject", "date", "message-id"];

/** Puts a signature on top of a message whose lines end with CRLF. `tags` adds or replaces tags. */
export function signed(
  message: string,
  { domain, selector, privateKey }: Signer,
  tags: Record<string, string | undefined> = {},
): string {
  const text = message.replaceAll(/\r?\n/g, "\r\n");
  const end = text.indexOf("\r\n\r\n");
  const body = relaxedBody(text.slice(end + 4));
  const covered = tags.l === undefined ? body : body.slice(0, Number(tags.l));
  const isRsa = privateKey.asymmetricKeyType === "rsa";
  const all = {
    v: "1",
    a: isRsa ? "rsa-sha256" : "ed25519-sha256",
    c: "relaxed/relaxed",
    d: domain,
    s: selector,
    h: SIGNED.join(":"),
    bh: createHash("sha256").update(covered, "latin1").digest("base64"),
    ...tags,
    b: "",
  };
  const field = `DKIM-Signature: ${Object.entries(all)
    .flatMap(([name, value]) => (value === undefined ? [] : `${name}=${value}`))
    .join("; ")}`;
  const fields = text.slice(0, end).split(/\r\n(?![ \t])/);
  const lines = [...pick(fields, (all.h ?? "").split(":")).map(relaxedField), relaxedField(field)];
  const data = Buffer.from(lines.join("\r\n"), "latin1");
  const signature = isRsa
    ? sign("sha256", data, privateKey)
    : sign(null, createHash("sha256").update(data).digest(), privateKey);
  return `${field}${signature.toString("base64")}\r\n${text}`;
}
