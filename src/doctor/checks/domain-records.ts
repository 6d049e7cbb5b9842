/** The DNS records of each domain: where its mail goes, and what shows others that mail from here is its own. */

import type { DnsRecord, FoundRecord } from "../../admin/dns.ts";
import type { DomainEntry } from "../../admin/domains.ts";
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
  ownership: "The domain cannot be verified without it",
  "mta-sts": "Other servers do not insist on TLS to this one without it",
  "tls-rpt": "Nobody tells of TLS that failed without it",
};

/** Of a name that several workspaces claim, the one that verified it, else the oldest: its records are what is to be there. */
export const checkDomains: Check = async (world) => {
  const names = Map.groupBy(world.domains.listDomains(), ({ name }) => name);
  return (await Promise.all([...names.values()].map(([first]) => (first ? look(world, first) : [])))).flat();
};

async function look({ domains }: World, { id, name, verifiedAt, takesMail }: DomainEntry) {
  const records = await domains.seeRecords(id);
  // What is optional and left out is as its owner wants it.
  const asked = records.filter(({ optional, state }) => !optional || state === "found");
  const byPurpose = Map.groupBy(asked, ({ purpose }) => purpose);
  // Once the domain is verified, its ownership has been shown.
  if (verifiedAt !== null) byPurpose.delete("ownership");
  const findings = [...byPurpose].map(([purpose, of]) => findingOf(purpose, name, of));
  return verifiedAt === null ? [unverified(name, takesMail), ...findings] : findings;
}

const unverified = (domain: string, takesMail: boolean): Finding => ({
  ...{ id: `verified:${domain}`, name: `${domain} is verified`, state: "warning" },
  detail: takesMail
    ? "it is not, and takes mail as before only until another workspace verifies it"
    : "it is not: no mail comes to it, and none can be sent from it",
  todo: `Publish the records that \`mailroom domain dns ${domain}\` prints, then run \`mailroom domain verify ${domain}\`.`,
});

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
