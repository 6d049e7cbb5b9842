/** Opaque S/MIME (rules: Forms of mail). */
import { describe, expect, test } from "bun:test";
import { deflateSync } from "node:zlib";
import fc from "fast-check";
import { composeMessage } from "../../src/message/compose.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { readCms } from "../../src/message/smime.ts";
import { compressedCms, element, emptyCms, encryptedCms, signedCms, type Way } from "../harness/mail/cms.ts";
import { withoutSources } from "../harness/mail/parsed.ts";

const MOST = 1024 * 1024;
const ENTITY = Buffer.from(
  [
    "Content-Type: multipart/mixed; boundary=q",
    "",
    "--q",
    "Content-Type: text/plain; charset=utf-8",
    "",
    "Grüße",
    "--q",
    "Content-Type: application/pdf; name=a.pdf",
    "",
    "%PDF",
    "--q--",
    "",
  ].join("\r\n"),
);

const mail = (cms: Buffer, type = "application/pkcs7-mime; smime-type=signed-data; name=smime.p7m") =>
  parseMessage(
    Buffer.concat([
      Buffer.from(`From: ann@a.example\r\nSubject: Hi\r\nContent-Type: ${type}\r\n`),
      Buffer.from(`Content-Transfer-Encoding: base64\r\n\r\n${cms.toString("base64")}\r\n`),
    ]),
  );

describe("a signed message", () => {
  test.each<Way>(["der", "ber"])("is shown as what was signed, written as %s", async (way) => {
    for (const type of [
      "application/pkcs7-mime",
      "application/x-pkcs7-mime",
      "application/octet-stream; name=smime.p7m",
    ]) {
      const { text, subject, attachments, problem } = await mail(signedCms(ENTITY, way), type);
      expect([text, subject, problem]).toEqual(["Grüße", "Hi", undefined]);
      expect(attachments.map(({ filename, content }) => [filename, Buffer.from(content).toString()])).toEqual([
        ["a.pdf", "%PDF"],
      ]);
    }
  });

  test("may be signed twice, compressed, or text without a header", async () => {
    const header = Buffer.from("Content-Type: application/pkcs7-mime; name=smime.p7m\r\n\r\n");
    expect((await mail(signedCms(Buffer.concat([header, signedCms(ENTITY)])))).text).toBe("Grüße");
    expect((await mail(compressedCms(deflateSync(ENTITY)))).text).toBe("Grüße");
    expect((await mail(signedCms(Buffer.from("Hello\r\n")))).text).toBe("Hello");
  });

  test("with text outside the parts is attached whole, too", async () => {
    const { problem, attachments } = await mail(signedCms(Buffer.concat([ENTITY, Buffer.from("Transfer the money")])));
    expect(problem).toBeDefined();
    expect(attachments.at(-1)?.filename).toBe("original.eml");
  });
});

describe("an encrypted message", () => {
  test.each(["2a864886f70d010703", "2a864886f70d010706", "2a864886f70d0109100117"])(
    "is a sentence and one attachment: %s",
    async (type) => {
      for (const declared of [
        "application/pkcs7-mime; smime-type=enveloped-data",
        "application/x-pkcs7-mime; name=smime.p7m",
      ]) {
        const message = await mail(encryptedCms(type), declared);
        const { text, html, attachments } = message;
        expect(text).toBe("This message is encrypted with S/MIME. Read it in a mail app that has the key.");
        expect(html).toBeUndefined();
        expect(attachments.map(({ filename, content }) => [filename, Buffer.from(content).toString("hex")])).toEqual([
          ["smime.p7m", encryptedCms(type).toString("hex")],
        ]);
        const again = await parseMessage(composeMessage({ id: "m", ...message }));
        expect([again.text, withoutSources(again).attachments]).toEqual([text, withoutSources(message).attachments]);
      }
    },
  );

  test.each(["encrypted", "mixed"])(
    "of OpenPGP in multipart/%s is a sentence and one attachment",
    async (multipart) => {
      const lines = [
        "From: ann@a.example",
        `Content-Type: multipart/${multipart}; protocol="application/pgp-encrypted"; boundary=b`,
        "",
        "--b",
        "Content-Type: application/pgp-encrypted",
        "",
        "Version: 1",
        "--b",
        "Content-Type: application/octet-stream; name=encrypted.asc",
        "",
        "-----BEGIN PGP MESSAGE-----",
        "--b--",
      ];
      const { text, attachments, problem } = await parseMessage(Buffer.from(lines.join("\r\n")));
      expect(text).toBe("This message is encrypted with OpenPGP. Read it in a mail app that has the key.");
      expect([attachments.map(({ filename }) => filename), problem]).toEqual([["encrypted.asc"], undefined]);
    },
  );
});

describe("stays an attachment:", () => {
  test.each<[what: string, cms: Buffer, type: string]>([
    ["a signed file", signedCms(Buffer.from("%PDF-1.7 \0\x01")), "application/pkcs7-mime; name=contract.pdf.p7m"],
    ["what is broken", signedCms(ENTITY).subarray(0, 60), "application/pkcs7-mime; name=smime.p7m"],
    ["what holds no data", signedCms(ENTITY, "der", "2a864886f70d01090f01"), "application/pkcs7-mime; name=smime.p7m"],
    ["certificates alone", emptyCms(), "application/pkcs7-mime; smime-type=certs-only; name=smime.p7c"],
    ["a bomb", compressedCms(deflateSync(Buffer.alloc(8 * MOST))), "application/pkcs7-mime; name=smime.p7z"],
  ])("%s", async (_, cms, type) => {
    const { text, attachments } = await mail(cms, type);
    const files = attachments.map(({ content }) => Buffer.from(content).toString("hex"));
    expect([text, files]).toEqual(["", [cms.toString("hex")]]);
  });
});

describe("readCms", () => {
  test("returns for any octets", () => {
    const whole = signedCms(ENTITY, "ber");
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length), (at, octet, length) => {
        const broken = Buffer.from(whole);
        broken[at] = octet;
        readCms(broken.subarray(0, length), MOST);
      }),
    );
    fc.assert(fc.property(fc.uint8Array(), (octets) => void readCms(Buffer.from(octets), MOST)));
  });

  test("bounds the depth", () => {
    let nested = element(0x04, Buffer.from("x"));
    for (let depth = 0; depth < 10_000; depth++) nested = Buffer.concat([Buffer.from([0x24, 0x80]), nested]);
    expect(readCms(nested, MOST)).toBeUndefined();
  });
});
