/** Web Push messages: the example of RFC 8291, what a browser reads, and the signature of RFC 8292. */
import { describe, expect, test } from "bun:test";
import { createECDH, createPublicKey, verify } from "node:crypto";
import { isPushTarget, makePushKeys, pushRequest } from "../../src/push/encryption.ts";
import { decrypt, encrypt } from "./http-ece.ts";

const NOW = Date.parse("2026-01-05T09:00:00Z");

test("the example of RFC 8291, section 5", () => {
  const keys = createECDH("prime256v1");
  keys.setPrivateKey("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "base64url");
  const message = encrypt(Buffer.from("When I grow up, I want to be a watermelon"), {
    version: "aes128gcm",
    dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    authSecret: "BTBZMqHH6r4Tts7J_aSIgg",
    privateKey: keys,
    salt: Buffer.from("DGv6ra1nlYgDCS1FRnbzlw", "base64url"),
  });
  expect(message.toString("base64url")).toBe(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
  );
});

/** A browser's keys. */
function newBrowser() {
  const keys = createECDH("prime256v1");
  const p256dh = keys.generateKeys("base64url");
  const auth = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64url");
  return {
    p256dh,
    auth,
    read: (body: Uint8Array) =>
      decrypt(Buffer.from(body), { version: "aes128gcm", privateKey: keys, authSecret: auth }),
  };
}

describe("a request", () => {
  const server = makePushKeys();
  const browser = newBrowser();
  const request = (payload: string) =>
    pushRequest(
      Buffer.from(payload),
      { endpoint: "https://push.example:8443/one?two", ...browser },
      {
        keys: server,
        contact: "https://mail.example.test",
        now: NOW,
      },
    );

  test("is read by that browser alone, and is another one each time", () => {
    const one = request("Hello");
    expect(browser.read(one.body).toString()).toBe("Hello");
    expect(Buffer.from(request("Hello").body)).not.toEqual(Buffer.from(one.body));
    expect(() => newBrowser().read(one.body)).toThrow();
    expect(Buffer.from(one.body).includes("Hello")).toBe(false);
  });

  test("takes no more than a push service does", () => {
    expect(request("x".repeat(3_900)).body.length).toBeLessThanOrEqual(4_096);
  });

  test("is signed for the origin of the push service, for half a day", () => {
    const { headers, url, method } = request("Hello");
    expect([method, url]).toEqual(["POST", "https://push.example:8443/one?two"]);
    expect(headers).toMatchObject({ "content-encoding": "aes128gcm", ttl: "43200", urgency: "normal" });
    const [, token = "", key = ""] = /^vapid t=([^,]+), k=(.+)$/.exec(headers.authorization ?? "") ?? [];
    expect(key).toBe(server.publicKey);
    const [head = "", claims = "", signature = ""] = token.split(".");
    const read = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString());
    expect(read(head)).toEqual({ typ: "JWT", alg: "ES256" });
    expect(read(claims)).toEqual({
      aud: "https://push.example:8443",
      exp: NOW / 1_000 + 43_200,
      sub: "https://mail.example.test",
    });
    const point = Buffer.from(key, "base64url");
    const publicKey = createPublicKey({
      key: {
        kty: "EC",
        crv: "P-256",
        x: point.subarray(1, 33).toString("base64url"),
        y: point.subarray(33).toString("base64url"),
      },
      format: "jwk",
    });
    const given = { key: publicKey, dsaEncoding: "ieee-p1363" } as const;
    expect(verify("sha256", Buffer.from(`${head}.${claims}`), given, Buffer.from(signature, "base64url"))).toBe(true);
  });
});

test("values that are no keys are noticed", () => {
  const { p256dh, auth } = newBrowser();
  expect(isPushTarget({ p256dh, auth })).toBe(true);
  const offCurve = Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 1)]).toString("base64url");
  for (const bad of ["", "AAAA", offCurve, `${p256dh}AA`]) expect(isPushTarget({ p256dh: bad, auth })).toBe(false);
  for (const bad of ["", "AAAA", p256dh]) expect(isPushTarget({ p256dh, auth: bad })).toBe(false);
});
