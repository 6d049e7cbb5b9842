/**
 * Web Push messages: encrypted for one browser (RFC 8291, RFC 8188), so that the push service reads nothing, and signed
 * by this server (RFC 8292). The only user of http_ece, by the author of these RFCs, which encrypts.
 */
import { createECDH, createPrivateKey, type ECDH, type KeyObject, sign } from "node:crypto";
import { encrypt } from "http_ece";

/** A key pair on P-256, in base64url: the point, uncompressed, and the scalar. */
export interface KeyPair {
  publicKey: string;
  privateKey: string;
}

/** Address and keys that a browser gives for messages to it. */
export interface PushTarget {
  endpoint: string;
  p256dh: string;
  auth: string;
}

const CURVE = "prime256v1";
const POINT_BYTES = 65;
const SECRET_BYTES = 16;
/** A token is valid for at most a day (RFC 8292 §2). */
const TOKEN_MS = 12 * 60 * 60_000;
/** How long a push service keeps a message for a browser that is off, seconds. */
const KEPT_SECONDS = 12 * 60 * 60;

export function makePushKeys(): KeyPair {
  const keys = createECDH(CURVE);
  return { publicKey: keys.generateKeys("base64url"), privateKey: keys.getPrivateKey("base64url") };
}

/** True if a message can be encrypted for these values of a browser. */
export function isPushTarget({ p256dh, auth }: Pick<PushTarget, "p256dh" | "auth">): boolean {
  const point = Buffer.from(p256dh, "base64url");
  if (point.length !== POINT_BYTES || Buffer.from(auth, "base64url").length !== SECRET_BYTES) return false;
  try {
    const keys = createECDH(CURVE);
    keys.generateKeys();
    keys.computeSecret(point);
    return true;
  } catch {
    return false;
  }
}

function importPrivateKey({ publicKey, privateKey }: KeyPair): KeyObject {
  const point = Buffer.from(publicKey, "base64url");
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString("base64url")) as [
    string,
    string,
  ];
  return createPrivateKey({ key: { kty: "EC", crv: "P-256", x, y, d: privateKey }, format: "jwk" });
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The value of Authorization (RFC 8292 §3). `contact`: a URL of whoever runs the server. `now`: epoch ms. */
function authorization(keys: KeyPair, endpoint: string, contact: string, now: number): string {
  const claims = { aud: new URL(endpoint).origin, exp: Math.floor((now + TOKEN_MS) / 1_000), sub: contact };
  const token = `${encoded({ typ: "JWT", alg: "ES256" })}.${encoded(claims)}`;
  const signature = sign("sha256", Buffer.from(token), { key: importPrivateKey(keys), dsaEncoding: "ieee-p1363" });
  return `vapid t=${token}.${signature.toString("base64url")}, k=${keys.publicKey}`;
}

/** The request that hands `payload`, at most some 3,900 bytes, to the push service of a browser. */
export function pushRequest(
  payload: Uint8Array,
  { endpoint, p256dh, auth }: PushTarget,
  { keys, contact, now }: { keys: KeyPair; contact: string; now: number },
): { method: "POST"; url: string; headers: Record<string, string>; body: Uint8Array<ArrayBuffer> } {
  // Another pair for each message (RFC 8291 §3.1).
  const once: ECDH = createECDH(CURVE);
  once.generateKeys();
  const body = encrypt(Buffer.from(payload), { version: "aes128gcm", dh: p256dh, authSecret: auth, privateKey: once });
  return {
    method: "POST",
    url: endpoint,
    headers: {
      authorization: authorization(keys, endpoint, contact, now),
      "content-encoding": "aes128gcm",
      "content-type": "application/octet-stream",
      ttl: String(KEPT_SECONDS),
      urgency: "normal",
    },
    body: new Uint8Array(body),
  };
}
