/** Encodings of bytes as text that people type: the only file that imports @scure/base. */
export { base32nopad, bech32 } from "@scure/base";
