/** The thread of imported-hash.ts: posts the hash of a password. */
import { sha512Crypt } from "./sha512-crypt.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<{ password: string; hash: string }>) => {
  self.postMessage(sha512Crypt(data.password, data.hash));
};
