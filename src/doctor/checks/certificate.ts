/** The certificate that clients are shown: for whom it is, by whom, and how long it is good for. */
import { X509Certificate } from "node:crypto";
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
    return [{ ...base, ...judge(world, new X509Certificate(certificate)) }];
  } catch (error) {
    // That a listener does not answer is found by the check of listeners.
    return [{ ...base, state: "unknown", detail: error instanceof Error ? error.message : String(error) }];
  }
};

function judge({ config, runtime }: World, certificate: X509Certificate): Omit<Finding, "id" | "name"> {
  const days = Math.floor((certificate.validToDate.getTime() - runtime.now()) / DAY_MS);
  const renew =
    config.tls.mode === "acme"
      ? "See in the server's log why it is not renewed (journalctl -u mailroom | grep -i certificate); port 80 must be reachable from outside."
      : config.tls.mode === "files"
        ? `Put a newer one into ${config.tls.cert}: it is taken up by itself.`
        : "Restart the server: it makes a newer one.";
  const until = certificate.validToDate.toISOString().slice(0, 10);
  if (days < LAST_DAYS) return { state: "bad", detail: `it is good until ${until} only`, todo: renew };
  if (certificate.checkHost(config.hostname) === undefined) {
    const todo = `Get one that names ${config.hostname}, or change MAILROOM_HOSTNAME.`;
    return { state: "bad", detail: `it is not for ${config.hostname}`, todo };
  }
  if (days < LATE_DAYS) return { state: "warning", detail: `it is good until ${until}`, todo: renew };
  if (config.tls.mode === "self-signed") {
    const todo =
      "Set MAILROOM_TLS=acme for one that browsers and mail apps trust, or files:CERT,KEY for one of your own.";
    return { state: "warning", detail: "it is self-signed: browsers and mail apps warn of it", todo };
  }
  return { state: "ok", detail: `it is good until ${until}` };
}
