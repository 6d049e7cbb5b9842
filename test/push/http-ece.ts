/** http_ece for tests: it comes without types, and those of the server are declared for its one importer. */
import type { ECDH } from "node:crypto";
import { createRequire } from "node:module";

interface Parameters {
  version: "aes128gcm";
  dh?: string;
  authSecret: string;
  privateKey: ECDH;
  salt?: Buffer;
}
type Code = (buffer: Buffer, parameters: Parameters) => Buffer;

export const { decrypt, encrypt } = createRequire(import.meta.url)("http_ece") as { decrypt: Code; encrypt: Code };
