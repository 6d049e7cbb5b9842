/**
 * Secrets that people copy by hand: recovery codes and app passwords. Groups of four unambiguous letters and digits,
 * five bits each; case and grouping of the input are ignored. They are fully random, so a fast hash suffices.
 */
import { createHash } from "node:crypto";
import { BASE32, base32, type Runtime } from "../base/runtime.ts";

/** A new secret of that many characters, as it is shown. */
export function newTypedSecret(runtime: Pick<Runtime, "randomBytes">, length: number): string {
  const text = base32(runtime.randomBytes(length));
  return (text.match(/.{1,4}/g) ?? []).join("-");
}

/** SHA-256, hex, of the typed secret; undefined for another length. */
export function hashOfTyped(text: string, length: number): string | undefined {
  const plain = text.toLowerCase().replace(/[\s-]/g, "").replace(/o/g, "0").replace(/[il]/g, "1");
  if (plain.length !== length || [...plain].some((letter) => !BASE32.includes(letter))) return undefined;
  return createHash("sha256").update(plain).digest("hex");
}
