/** The DNS records of a domain, each with buttons to copy it. */
import { CircleAlert, CircleCheck, CircleDashed } from "lucide-react";
import type { ReactNode } from "react";
import type { DomainView } from "../../pages/settings/settings-workspace.ts";
import { CopyValue, Rows } from "./settings-blocks.tsx";

const PURPOSES = {
  mx: "Brings mail here",
  spf: "Says who sends for the domain (SPF)",
  dkim: "Lets receivers check signatures (DKIM)",
  dmarc: "Says what becomes of mail that fails (DMARC)",
  ownership: "Shows that the domain is yours",
  "mta-sts": "Has senders insist on encryption (MTA-STS)",
  "tls-rpt": "Has senders report failed encryption (TLS-RPT)",
  "mail-apps": "Lets mail apps find their settings",
} as const;

const STATES = {
  found: { icon: CircleCheck, className: "text-accent", text: "found" },
  missing: { icon: CircleAlert, className: "text-danger", text: "missing" },
  unanswered: { icon: CircleDashed, className: "text-muted", text: "no answer" },
} as const;

/** `children`: rows after the records. */
export function DnsRecords({
  label,
  records,
  children,
}: {
  label: string;
  records: DomainView["records"];
  children?: ReactNode;
}) {
  return (
    <Rows label={label}>
      {records.map(({ type, name: at, value, purpose, state, optional }) => (
        <li key={`${purpose} ${at}`} className="space-y-2">
          <p className="flex items-start gap-x-3 text-sm">
            <span className="w-14 shrink-0 font-mono font-semibold">{type}</span>
            <span className="min-w-0 grow text-soft">
              {PURPOSES[purpose]}
              {optional && ", optional"}
            </span>
            {state !== undefined && <State of={state} />}
          </p>
          <div className="grid gap-2 md:grid-cols-2">
            <CopyValue label={`name of the ${purpose} record, ${at}`} value={at} />
            <CopyValue label={`value of the ${purpose} record, ${at}`} value={value} />
          </div>
        </li>
      ))}
      {children}
    </Rows>
  );
}

function State({ of }: { of: keyof typeof STATES }) {
  const { icon: Icon, className, text } = STATES[of];
  return (
    <span className={`inline-flex shrink-0 items-center gap-1.5 font-medium ${className}`}>
      <Icon size={15} aria-hidden />
      {text}
    </span>
  );
}
