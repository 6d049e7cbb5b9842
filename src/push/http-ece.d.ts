/** http_ece comes without types. */
declare module "http_ece" {
  import type { ECDH } from "node:crypto";

  interface Parameters {
    version: "aes128gcm";
    /** The other side's public key, base64url. */
    dh?: string;
    /** Base64url. */
    authSecret: string;
    privateKey: ECDH;
    salt?: Buffer;
  }

  export function encrypt(buffer: Buffer, parameters: Parameters): Buffer;
}
