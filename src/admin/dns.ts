/** Looks up the DNS records that a hosted domain needs, and compares them with what is published. */
import { readStsRecord } from "../authentication/mta-sts.ts";
import { alwaysTrue, type Static, stringEnum, t } from "../base/json-schema.ts";
import type { DnsClient } from "../base/runtime.ts";

/** A record of a domain. `value`: its data as one string, even if a zone file must split it. */
export const DnsRecord = t.Object({
  type: stringEnum(["MX", "TXT", "CNAME", "SRV"]),
  name: t.String(),
  value: t.String(),
  purpose: stringEnum(["mx", "spf", "dkim", "dmarc", "ownership", "mta-sts", "tls-rpt", "mail-apps"]),
  optional: t.Optional(alwaysTrue({ description: "Recommended, not required" })),
});
export type DnsRecord = Static<typeof DnsRecord>;

export interface FoundRecord extends DnsRecord {
  /** `unanswered`: the query failed, so the record may or may not exist. */
  state: "found" | "missing" | "unanswered";
}

/** Reads the tags of a DKIM key record (RFC 6376 §3.2), without white space around and inside the values. */
function parseDkimTags(text: string): Map<string, string> {
  return new Map(
    text.split(";").map((tag) => {
      const [name = "", ...value] = tag.split("=");
      return [name.trim(), value.join("=").replace(/\s+/g, "")];
    }),
  );
}

/** The port and target of an SRV record: how apps choose between several is their owner's choice. Other values as they are. */
const withoutWeight = (value: string): string => value.replace(/^\d+ \d+ /, "");

/**
 * Tells whether the published records serve the purpose of the record. The owner words the SPF and DMARC policies, so
 * any single one will do (RFC 7208 §4.5 and RFC 7489 §6.6.3 treat several as none).
 */
function satisfies(record: DnsRecord, published: readonly string[]): boolean {
  switch (record.purpose) {
    case "mx":
      return published.includes(record.value.replace(/^\d+ /, ""));
    case "ownership":
      return published.includes(record.value);
    case "spf":
      return published.filter((text) => /^v=spf1( |$)/i.test(text)).length === 1;
    case "dmarc":
      return published.filter((text) => /^v=DMARC1\s*(;|$)/.test(text)).length === 1;
    case "mta-sts":
      // The TXT record holds the id of the policy, the CNAME record its host.
      return record.type === "TXT"
        ? readStsRecord(published) === readStsRecord([record.value])
        : published.includes(record.value);
    case "mail-apps":
      return published.some((found) => withoutWeight(found) === withoutWeight(record.value));
    case "tls-rpt":
      return published.filter((text) => /^v=TLSRPTv1\s*;/.test(text)).length === 1;
    case "dkim":
      return published.some((text) => parseDkimTags(text).get("p") === parseDkimTags(record.value).get("p"));
  }
}

/** Looks up what is published at the name: hosts of MX records, texts of TXT records, values of SRV records. Rejects when DNS fails. */
export async function lookUpDnsValues(
  dns: DnsClient,
  { type, name, value }: Pick<DnsRecord, "type" | "name" | "value">,
): Promise<string[]> {
  switch (type) {
    case "CNAME":
      return (await leadsTo(dns, name, value)) ? [value] : [];
    case "TXT":
      return (await dns.ask(name, "TXT")).records;
    case "SRV": {
      const { records } = await dns.ask(name, "SRV");
      return records.map(({ priority, weight, port, target }) => `${priority} ${weight} ${port} ${target || "."}`);
    }
    case "MX":
      return (await dns.ask(name, "MX")).records.map(({ exchange }) => exchange);
  }
}

/** Tells whether two names share an IPv4 address. */
async function leadsTo(dns: DnsClient, name: string, target: string): Promise<boolean> {
  const [found, wanted] = await Promise.all([dns.ask(name, "A"), dns.ask(target, "A")]);
  return found.records.some((address) => wanted.records.includes(address));
}

/** Looks all the records up at once. Never rejects. */
export function lookUpDnsRecords(dns: DnsClient, records: readonly DnsRecord[]): Promise<FoundRecord[]> {
  return Promise.all(
    records.map(async (record): Promise<FoundRecord> => {
      try {
        return { ...record, state: satisfies(record, await lookUpDnsValues(dns, record)) ? "found" : "missing" };
      } catch {
        return { ...record, state: "unanswered" };
      }
    }),
  );
}
