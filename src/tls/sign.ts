/**
 * Signs a file with the certificate of the server (CMS, RFC 5652), so that devices show who made it. The only file that
 * knows @peculiar/asn1-*. It loads the packages on first use, as pair.ts does.
 */
import { createHash, createPrivateKey, sign, X509Certificate } from "node:crypto";
import type { KeyPair } from "./pair.ts";

const SHA_256 = "2.16.840.1.101.3.4.2.1";
/** Signature algorithms by type of key (RFC 3370 §3.2, RFC 5754 §3.3). */
const SIGNATURES = {
  rsa: { algorithm: "1.2.840.113549.1.1.1", parameters: Uint8Array.of(5, 0).buffer },
  ec: { algorithm: "1.2.840.10045.4.3.2" },
} as const;

const signingKeyType = ({ key }: KeyPair): string => createPrivateKey(key).asymmetricKeyType ?? "";

/** Tells whether the pair signs what devices can check: its key is RSA or EC, and an authority issued it. */
export function canKeyPairSignFiles(pair: KeyPair): boolean {
  const certificate = new X509Certificate(pair.cert);
  return signingKeyType(pair) in SIGNATURES && !certificate.verify(certificate.publicKey);
}

/** Signs with a pair that `signs`. Returns the content, the signature and the chain of the certificate, as DER. */
export async function signFile(content: Uint8Array, pair: KeyPair, now: number): Promise<Uint8Array<ArrayBuffer>> {
  const [cms, { AsnConvert, AsnObjectIdentifierConverter, OctetString }, { Certificate }] = await Promise.all([
    import("@peculiar/asn1-cms"),
    import("@peculiar/asn1-schema"),
    import("@peculiar/asn1-x509"),
  ]);
  const pems = pair.cert.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  const certificates = pems.map((pem) => AsnConvert.parse(new X509Certificate(pem).raw, Certificate));
  const [{ tbsCertificate: signer }] = certificates as [InstanceType<typeof Certificate>];
  const attribute = (attrType: string, value: ArrayBuffer) => new cms.Attribute({ attrType, attrValues: [value] });
  const digest = createHash("sha256").update(content).digest();
  // In the order of DER, by their lengths.
  const signedAttrs = [
    attribute(cms.id_contentType, AsnObjectIdentifierConverter.toASN(cms.id_data).toBER()),
    attribute(cms.id_signingTime, AsnConvert.serialize(new cms.SigningTime(new Date(now)))),
    attribute(cms.id_messageDigest, AsnConvert.serialize(new OctetString(digest))),
  ];
  const digestAlgorithm = new cms.DigestAlgorithmIdentifier({ algorithm: SHA_256 });
  const signerInfo = new cms.SignerInfo({
    version: cms.CMSVersion.v1,
    sid: new cms.SignerIdentifier({
      issuerAndSerialNumber: new cms.IssuerAndSerialNumber({
        issuer: signer.issuer,
        serialNumber: signer.serialNumber,
      }),
    }),
    digestAlgorithm,
    signedAttrs,
    signatureAlgorithm: new cms.SignatureAlgorithmIdentifier(
      SIGNATURES[signingKeyType(pair) as keyof typeof SIGNATURES],
    ),
    signature: new OctetString(
      sign("sha256", encodeDerSet(signedAttrs.map((one) => AsnConvert.serialize(one))), pair.key),
    ),
  });
  const signed = new cms.SignedData({
    version: cms.CMSVersion.v1,
    digestAlgorithms: new cms.DigestAlgorithmIdentifiers([digestAlgorithm]),
    encapContentInfo: new cms.EncapsulatedContentInfo({
      eContentType: cms.id_data,
      eContent: new cms.EncapsulatedContent({ single: new OctetString(content) }),
    }),
    certificates: new cms.CertificateSet(
      certificates.map((certificate) => new cms.CertificateChoices({ certificate })),
    ),
    signerInfos: new cms.SignerInfos([signerInfo]),
  });
  const whole = new cms.ContentInfo({ contentType: cms.id_signedData, content: AsnConvert.serialize(signed) });
  return new Uint8Array(AsnConvert.serialize(whole));
}

/** Encodes less than 128 bytes, in the order of DER, as a set: what a signature of attributes signs (RFC 5652 §5.4). */
function encodeDerSet(encoded: readonly ArrayBuffer[]): Uint8Array {
  const bytes = Buffer.concat(encoded.map((one) => new Uint8Array(one)));
  return Buffer.concat([Uint8Array.of(0x31, bytes.length), bytes]);
}
