/**
 * Secrets that people copy by hand: recovery codes and app passwords. Groups of four letters and digits, none of which is
 * taken for another, with five bits each; what is typed is read whatever its case and however it is grouped. They are random
 * through and through, so a quick hash keeps them.
 */
import { createHash } from "node:crypto";
import { BASE32, base32, type Runtime } from "../base/runtime.ts";

/** A new one of so many characters, as it is shown. */
export function newTypedSecret(runtime: Pick<Runtime, "randomBytes">, length: number): string {
  const text = base32(runtime.randomBytes(length));
  return (text.match(/.{1,4}/g) ?? []).join("-");
}

/** SHA-256, hex, of the secret that was typed; undefined when it is none of that length. */
export function hashOfTyped(text: string, length: number): string | undefined {
  const plain = text.toLowerCase().replace(/[\s-]/g, "").replace(/o/g, "0").replace(/[il]/g, "1");
  if (plain.length !== length || [...plain].some((letter) => !BASE32.includes(letter))) return undefined;
  return createHash("sha256").update(plain).digest("hex");
}
