/** Looks up the DNS records that a hosted domain needs, and compares them with what is published. */
import { readStsRecord } from "../authentication/mta-sts.ts";
import type { DnsResolver } from "../base/runtime.ts";

export interface DnsRecord {
  type: "MX" | "TXT" | "CNAME" | "SRV";
  name: string;
  /** The record's data as one string, even if a zone file must split it. */
  value: string;
  purpose: "mx" | "spf" | "dkim" | "dmarc" | "ownership" | "mta-sts" | "tls-rpt" | "mail-apps";
  /** The record is recommended; the domain works without it. */
  optional?: true;
}

export interface FoundRecord extends DnsRecord {
  /** `unanswered`: the query failed, so the record may or may not exist. */
  state: "found" | "missing" | "unanswered";
}

/** Reads the tags of a DKIM key record (RFC 6376 §3.2), without white space around and inside the values. */
function tagsOf(text: string): Map<string, string> {
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
      return published.some((text) => tagsOf(text).get("p") === tagsOf(record.value).get("p"));
  }
}

/**
 * Looks up what is published at the name: hosts of MX records, texts of TXT records, values of SRV records. Bun's resolver returns each string
 * of a TXT record as a record of its own, and a DKIM key is longer than one string, so all strings joined are a
 * candidate, too. Rejects with the resolver's error.
 */
export async function publishedAt(dns: DnsResolver, { type, name, value, purpose }: DnsRecord): Promise<string[]> {
  if (type === "CNAME") return (await leadsTo(dns, name, value)) ? [value] : [];
  if (type === "TXT") {
    const texts = (await dns.resolveTxt(name)).map((strings) => strings.join(""));
    return purpose === "dkim" && texts.length > 1 ? [...texts, texts.join("")] : texts;
  }
  if (type === "SRV") {
    return (await dns.resolveSrv(name)).map(
      ({ priority, weight, port, name: target }) => `${priority} ${weight} ${port} ${hostOf(target) || "."}`,
    );
  }
  return (await dns.resolveMx(name)).map((mx) => hostOf(mx.exchange));
}

/** A name as records have it, in lower case and without its final dot. */
const hostOf = (name: string): string => name.toLowerCase().replace(/\.$/, "");

/** Tells whether two names share an IPv4 address. */
async function leadsTo(dns: DnsResolver, name: string, target: string): Promise<boolean> {
  const [found, wanted] = await Promise.all([dns.resolve4(name), dns.resolve4(target)]);
  return found.some((address) => wanted.includes(address));
}

/** Codes of answers that the name, or that record of it, does not exist. */
const NOTHING_THERE = new Set(["ENOTFOUND", "ENODATA"]);

/** Looks all the records up at once. Never rejects. */
export function lookUp(dns: DnsResolver, records: readonly DnsRecord[]): Promise<FoundRecord[]> {
  return Promise.all(
    records.map(async (record): Promise<FoundRecord> => {
      try {
        return { ...record, state: satisfies(record, await publishedAt(dns, record)) ? "found" : "missing" };
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code ?? "";
        return { ...record, state: NOTHING_THERE.has(code) ? "missing" : "unanswered" };
      }
    }),
  );
}
