/** The advice of the doctor and of `certificates renew` fits the reason. */
import { expect, test } from "bun:test";
import type { ChallengeMode } from "../../src/config.ts";
import { adviceOnCertificateTrouble } from "../../src/tls/advice.ts";

const HTTP: ChallengeMode = { type: "http" };
const ALPN: ChallengeMode = { type: "tls-alpn" };
const HOOK: ChallengeMode = { type: "dns-hook", program: "/etc/mailroom/hook" };
const LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory";

test.each([
  ["rateLimited", HTTP, /^Wait: /],
  ["dns", HTTP, /^Publish an A record .* of mail\.example\.test/],
  ["dns", HOOK, /^\/etc\/mailroom\/hook must publish _acme-challenge\.mail\.example\.test/],
  ["connection", HTTP, /A and AAAA record .* Port 80 of mail\.example\.test/],
  ["connection", ALPN, /A and AAAA record .* Port 443 of mail\.example\.test/],
  ["unauthorized", HTTP, /^Something else answers .* Port 80/],
  ["unauthorized", HOOK, /^\/etc\/mailroom\/hook must publish/],
  ["caa", HTTP, /CAA record .* 0 issue "letsencrypt\.org"/],
  ["rejectedIdentifier", HTTP, /choose another name \(MAILROOM_HOSTNAME, /],
  ["invalidContact", HTTP, /MAILROOM_ACME_EMAIL/],
  ["externalAccountRequired", HTTP, /MAILROOM_ACME_DIRECTORY/],
  ["away", HTTP, /^See that this machine reaches https:\/\/acme-v02/],
  ["serverInternal", HTTP, /the authority itself is down/],
  ["clock", HTTP, /timedatectl/],
  ["somethingNew", HTTP, /^Port 80/],
  [undefined, ALPN, /^Port 443/],
] as const)("after %s by %j", (type, challenge, advice) => {
  expect(
    adviceOnCertificateTrouble({ type }, { directory: LETS_ENCRYPT, challenge, host: "mail.example.test" }),
  ).toMatch(advice);
});

test("a CAA record for an authority that is not known names its maker", () => {
  const asking = { directory: "https://ca.example.net/dir", challenge: HTTP, host: "mail.example.test" };
  expect(adviceOnCertificateTrouble({ type: "caa" }, asking)).toContain(
    "0 issue and the domain that the maker of ca.example.net names",
  );
});
