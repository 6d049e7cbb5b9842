/** Mail that trusted forwarders have changed and sealed (RFC 8617): their result that it passed DMARC counts. */
import { describe, expect, test } from "bun:test";
import { sealMessage } from "mailauth/lib/arc/index.js";
import { newSigner, type Signer } from "../harness/mail/dkim-signer.ts";
import { letter } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { START } from "../harness/runtime.ts";
import { authenticate } from "./authenticating.ts";

const list = newSigner("lists.example", { bits: 2_048 });
const relay = newSigner("mx.relay.example", { bits: 2_048 });
const dns = zone({
  "_dmarc.remote.example": { txt: ["v=DMARC1; p=reject"] },
  [`s._domainkey.${list.domain}`]: { txt: [list.record] },
  [`s._domainkey.${relay.domain}`]: { txt: [relay.record] },
});

const LETTER = letter({ subject: "[list] Hello" }).replaceAll("\n", "\r\n");

async function sealed(
  message: string,
  { domain, privateKey }: Signer,
  authResults: string,
  cv: "none" | "pass" = "none",
) {
  const seal = await sealMessage(Buffer.from(message), {
    signingDomain: domain,
    selector: "s",
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    authResults: `mx.${domain}; ${authResults}`,
    cv,
    signTime: new Date(START),
  });
  return seal.toString() + message;
}

const judged = (message: string, trustedForwarders: string[]) =>
  authenticate(message, dns, { ip: "203.0.113.9", reversePath: "list@lists.example", trustedForwarders });
const PASSED = "dmarc=pass header.from=remote.example";

describe("a message that fails DMARC", () => {
  test("is accepted from a trusted forwarder that saw it pass, and its verdict stays fail", async () => {
    const { verdicts, policy, results } = await judged(await sealed(LETTER, list, PASSED), [
      "other.example",
      "lists.example",
    ]);
    expect(verdicts).toEqual({ spf: "none", dkim: "none", dmarc: "fail" });
    expect(policy).toBe("none");
    expect(results).toMatch(/; arc=pass .*; dmarc=fail reason="forwarded by lists\.example, which saw it pass" /);
  });

  test.each<[string, () => Promise<string>, string[]]>([
    ["nobody is trusted", () => sealed(LETTER, list, PASSED), []],
    ["another is trusted", () => sealed(LETTER, list, PASSED), ["ists.example", "www.lists.example"]],
    ["it failed there too", () => sealed(LETTER, list, "dmarc=fail header.from=remote.example"), ["lists.example"]],
    ["it was not checked there", () => sealed(LETTER, list, "spf=pass"), ["lists.example"]],
    ["another From passed there", () => sealed(LETTER, list, "dmarc=pass header.from=example.org"), ["lists.example"]],
    [
      "its From was written to look as another",
      async () => {
        const disguised = LETTER.replace("carol@remote.example", "carol@re\u00admote.example");
        return Buffer.from(await sealed(disguised, list, "dmarc=pass")).toString("latin1");
      },
      ["lists.example"],
    ],
    ["it was changed since", async () => `${await sealed(LETTER, list, PASSED)}More.\r\n`, ["lists.example"]],
    [
      "what they said was changed",
      async () => (await sealed(LETTER, list, "dmarc=fail")).replaceAll("dmarc=fail", PASSED),
      ["lists.example"],
    ],
    [
      "the last forwarder is not trusted",
      async () => sealed(await sealed(LETTER, list, PASSED), relay, PASSED, "pass"),
      ["lists.example"],
    ],
    [
      "the one that saw it pass is not trusted",
      async () => sealed(await sealed(LETTER, list, PASSED), relay, "dmarc=fail", "pass"),
      ["relay.example"],
    ],
  ])("is not accepted where %s", async (_, make, trusted) => {
    expect(await judged(await make(), trusted)).toMatchObject({ verdicts: { dmarc: "fail" }, policy: "reject" });
  });

  test("is accepted when the first of two trusted forwarders saw it pass", async () => {
    const twice = await sealed(await sealed(LETTER, list, PASSED), relay, "dmarc=fail; arc=pass", "pass");
    const { policy, results } = await judged(twice, ["lists.example", "relay.example"]);
    expect(policy).toBe("none");
    expect(results).toContain("forwarded by lists.example");
  });
});

test("the seal of an untrusted forwarder is not checked", async () => {
  const message = await sealed(LETTER, relay, PASSED);
  const asked = dns.questions.length;
  await authenticate(message, dns, { trustedForwarders: ["lists.example"] });
  expect(dns.questions.slice(asked).filter((question) => question.includes("_domainkey"))).toEqual([]);
});
