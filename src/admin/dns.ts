/** The DNS records of a domain of ours, and whether the world sees them. */
import { readStsRecord } from "../authentication/mta-sts.ts";
import type { DnsResolver } from "../base/runtime.ts";

export interface DnsRecord {
  type: "MX" | "TXT" | "CNAME";
  name: string;
  /** As it stands in the zone; one string, however a zone file has to split it. */
  value: string;
  purpose: "mx" | "spf" | "dkim" | "dmarc" | "ownership" | "mta-sts" | "tls-rpt";
  /** Good to have; nothing is wrong without it. */
  optional?: true;
}

export interface FoundRecord extends DnsRecord {
  /** `unanswered`: the question failed, which tells nothing about the record. */
  state: "found" | "missing" | "unanswered";
}

/** The tags of a DKIM key record (RFC 6376 §3.2), white space around and inside the values removed. */
function tagsOf(text: string): Map<string, string> {
  return new Map(
    text.split(";").map((tag) => {
      const [name = "", ...value] = tag.split("=");
      return [name.trim(), value.join("=").replace(/\s+/g, "")];
    }),
  );
}

/**
 * Whether what is published does what the record asks. SPF and DMARC policies are the owner's to word, so any single one
 * will do (RFC 7208 §4.5 and RFC 7489 §6.6.3 take several for none).
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
      // The id of the policy, or the host it is at.
      return record.type === "TXT"
        ? readStsRecord(published) === readStsRecord([record.value])
        : published.includes(record.value);
    case "tls-rpt":
      return published.filter((text) => /^v=TLSRPTv1\s*;/.test(text)).length === 1;
    case "dkim":
      return published.some((text) => tagsOf(text).get("p") === tagsOf(record.value).get("p"));
  }
}

/**
 * What is published at the name: hosts of MX records, texts of TXT records. Bun's resolver gives each string of a text
 * as a record of its own, so what they make together is a candidate too: a key is longer than a string can be. Rejects
 * with what the resolver says.
 */
export async function publishedAt(dns: DnsResolver, { type, name, value, purpose }: DnsRecord): Promise<string[]> {
  if (type === "CNAME") return (await leadsTo(dns, name, value)) ? [value] : [];
  if (type === "TXT") {
    const texts = (await dns.resolveTxt(name)).map((strings) => strings.join(""));
    return purpose === "dkim" && texts.length > 1 ? [...texts, texts.join("")] : texts;
  }
  return (await dns.resolveMx(name)).map((mx) => mx.exchange.toLowerCase().replace(/\.$/, ""));
}

/** Whether a name leads where another does, by whichever records. */
async function leadsTo(dns: DnsResolver, name: string, target: string): Promise<boolean> {
  const [found, wanted] = await Promise.all([dns.resolve4(name), dns.resolve4(target)]);
  return found.some((address) => wanted.includes(address));
}

/** No such name, or no such record at it. */
const NOTHING_THERE = new Set(["ENOTFOUND", "ENODATA"]);

/** Asks for all the records at once. Never rejects. */
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
