/** The certificate that clients are shown: for whom it is, by whom, and how long it is good for. */
import { X509Certificate } from "node:crypto";
import type { ChallengeMode, Config } from "../../config.ts";
import { readAcmeTrouble } from "../../tls/acme.ts";
import type { Check, Finding, World } from "../check.ts";
import { reachedAt } from "./listeners.ts";

const DAY_MS = 86_400_000;
/** Certificates are renewed a third of their life before they end: one this old was not. */
const LATE_DAYS = 10;
const LAST_DAYS = 3;

export const checkCertificate: Check = async (world) => {
  const { config, system, serving } = world;
  const at = reachedAt(config.https) ?? reachedAt(config.submissions);
  if (!serving || !at) return [];
  const base = { id: "certificate", name: "Certificate" };
  try {
    const { certificate } = await system.greet(at.host, at.port, "certificate");
    if (certificate === undefined) return [{ ...base, state: "unknown", detail: "none was shown" }];
    return [{ ...base, ...(await judge(world, new X509Certificate(certificate))) }];
  } catch (error) {
    // That a listener does not answer is found by the check of listeners.
    return [{ ...base, state: "unknown", detail: error instanceof Error ? error.message : String(error) }];
  }
};

type Judgement = Omit<Finding, "id" | "name">;

async function judge({ config, runtime }: World, certificate: X509Certificate): Promise<Judgement> {
  const days = Math.floor((certificate.validToDate.getTime() - runtime.now()) / DAY_MS);
  const renew =
    config.tls.mode === "acme"
      ? `See in the server's log why it is not renewed (journalctl -u mailroom | grep -i certificate). ${needOf(config.tls.challenge, config.hostname)}`
      : config.tls.mode === "files"
        ? `Put a newer one into ${config.tls.cert}: it is taken up by itself.`
        : "Restart the server: it makes a newer one.";
  const until = certificate.validToDate.toISOString().slice(0, 10);
  if (days < LAST_DAYS) return { state: "bad", detail: `it is good until ${until} only`, todo: renew };
  if (certificate.checkHost(config.hostname) === undefined) {
    const todo = `Get one that names ${config.hostname}, or change MAILROOM_HOSTNAME.`;
    return { state: "bad", detail: `it is not for ${config.hostname}`, todo };
  }
  if (config.tls.mode === "acme") {
    const trouble = await judgeAuthority(config, config.tls.challenge, certificate);
    if (trouble) return trouble;
  }
  if (days < LATE_DAYS) return { state: "warning", detail: `it is good until ${until}`, todo: renew };
  if (config.tls.mode === "self-signed") {
    const todo =
      "Set MAILROOM_TLS=acme for one that browsers and mail apps trust, or files:CERT,KEY for one of your own.";
    return { state: "warning", detail: "it is self-signed: browsers and mail apps warn of it", todo };
  }
  return { state: "ok", detail: `it is good until ${until}` };
}

/** What keeps the authority from giving a certificate, or a later one; undefined when nothing does. */
async function judgeAuthority(
  { data, hostname }: Config,
  challenge: ChallengeMode,
  certificate: X509Certificate,
): Promise<Judgement | undefined> {
  const isOurs = certificate.verify(certificate.publicKey);
  const trouble = await readAcmeTrouble(data);
  if (!trouble) {
    const todo = "Look again in some minutes.";
    return isOurs ? { state: "warning", detail: "that of the authority is not there yet", todo } : undefined;
  }
  const again = new Date(trouble.retryAt).toISOString().slice(0, 16).replace("T", " ");
  return {
    state: isOurs ? "bad" : "warning",
    detail: `the authority gave ${isOurs ? "none" : "no other one"}: ${trouble.reason}`,
    todo: `${needOf(challenge, hostname)} It is tried again by itself, next at ${again} UTC.`,
  };
}

/** What the authority has to find to be convinced. */
function needOf(challenge: ChallengeMode, hostname: string): string {
  const { type } = challenge;
  if (type === "http") {
    return `Port 80 of ${hostname} must lead to MAILROOM_HTTP from everywhere; where it cannot, MAILROOM_ACME_CHALLENGE=tls-alpn needs port 443 alone.`;
  }
  if (type === "tls-alpn") {
    return `Port 443 of ${hostname} must lead to MAILROOM_HTTPS from everywhere, with no proxy that ends TLS on the way.`;
  }
  const record = `_acme-challenge.${hostname}`;
  if (type === "dns-hook") {
    return `${challenge.program} must publish ${record} (TXT) within minutes; run it by hand as the service's user: present ${record}. test`;
  }
  return `The server ${challenge.host} must let the key in ${challenge.keyFile} change ${record} (TXT), or where its CNAME leads.`;
}
