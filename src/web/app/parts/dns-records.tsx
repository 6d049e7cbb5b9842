/** The records of a domain, each to be copied into its zone. */
import type { DomainView } from "../lib/settings-workspace.ts";
import { Badge, CopyValue } from "./settings.tsx";

const PURPOSES = {
  mx: "Brings mail here",
  spf: "Says who sends for the domain (SPF)",
  dkim: "Lets receivers check signatures (DKIM)",
  dmarc: "Says what becomes of mail that fails (DMARC)",
  ownership: "Shows that the domain is yours",
} as const;
const STATES = {
  found: { tone: "good", text: "found" },
  missing: { tone: "bad", text: "missing" },
  unanswered: { tone: "quiet", text: "no answer" },
} as const;

export function DnsRecords({ label, records }: { label: string; records: DomainView["records"] }) {
  return (
    <ul aria-label={label} className="divide-y divide-line">
      {records.map(({ type, name: at, value, purpose, state }) => (
        <li key={`${purpose} ${at}`} className="space-y-2 py-4 first:pt-0 last:pb-0">
          <p className="flex flex-wrap items-center gap-2 text-sm">
            <span className="font-medium">{type}</span>
            <span className="text-muted">{PURPOSES[purpose]}</span>
            {state !== undefined && <Badge tone={STATES[state].tone}>{STATES[state].text}</Badge>}
          </p>
          <CopyValue label={`name of the ${purpose} record, ${at}`} value={at} />
          <CopyValue label={`value of the ${purpose} record, ${at}`} value={value} />
        </li>
      ))}
    </ul>
  );
}
