/** The DNS records of each domain: where its mail goes, and what shows others that mail from here is its own. */
import type { DnsRecord, FoundRecord } from "../../settings/dns.ts";
import type { Check, Finding, World } from "../check.ts";

const NAMES: Record<DnsRecord["purpose"], string> = {
  mx: "MX",
  spf: "SPF",
  dkim: "DKIM",
  dmarc: "DMARC",
  ownership: "Ownership",
  "mta-sts": "MTA-STS",
  "tls-rpt": "TLS reports",
};

const WHY: Record<DnsRecord["purpose"], string> = {
  mx: "Mail for the domain does not come here without it",
  spf: "Mail from the domain is taken for spam without it",
  dkim: "Mail from the domain is taken for forged without it",
  dmarc: "Large providers refuse mail of a domain without it",
  ownership: "The domain cannot send without it",
  "mta-sts": "Other servers do not insist on TLS to this one without it",
  "tls-rpt": "Nobody tells of TLS that failed without it",
};

export const checkDomains: Check = async (world) => {
  const domains = world.domains.listDomains();
  return (await Promise.all(domains.map((domain) => look(world, domain)))).flat();
};

async function look(
  { domains }: World,
  { id, name, verifiedAt }: { id: string; name: string; verifiedAt: number | null },
) {
  const records = await domains.seeRecords(id);
  // What is optional and left out is as its owner wants it.
  const asked = records.filter(({ optional, state }) => !optional || state === "found");
  const byPurpose = Map.groupBy(asked, ({ purpose }) => purpose);
  // Once the domain is verified, its ownership has been shown.
  if (verifiedAt !== null) byPurpose.delete("ownership");
  return [...byPurpose].map(([purpose, of]) => findingOf(purpose, name, of));
}

function findingOf(purpose: DnsRecord["purpose"], domain: string, records: readonly FoundRecord[]): Finding {
  const base = { id: `${purpose}:${domain}`, name: `${NAMES[purpose]} of ${domain}` };
  const missing = records.filter(({ state }) => state === "missing");
  if (missing.length > 0) {
    const publish = missing.map(({ type, name, value }) => `${name} ${type} ${value}`).join("; ");
    return {
      ...base,
      state: "bad",
      detail: "it is not published as it should be",
      todo: `${WHY[purpose]}. Publish: ${publish}`,
    };
  }
  if (records.some(({ state }) => state === "unanswered"))
    return { ...base, state: "unknown", detail: "DNS does not answer" };
  return { ...base, state: "ok", detail: "it is published" };
}
