/** Domains: what their zones must say, to be copied, and whether the world sees it. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../lib/settings.ts";
import { type DomainView, domainsQuery, recordsQuery, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, CopyValue, Panel, SettingsPage } from "../../parts/settings.tsx";

const PURPOSES = {
  mx: "Brings mail here",
  spf: "Says who sends for the domain (SPF)",
  dkim: "Lets receivers check signatures (DKIM)",
  dmarc: "Says what becomes of mail that fails (DMARC)",
  ownership: "Shows that the domain is yours",
} as const;

export function DomainsPage() {
  const list = useQuery(domainsQuery);
  const add = useChange(workspaceApi.addDomain, { key: WORKSPACE, told: "Domain added" });
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="domains" />;
  return (
    <SettingsPage
      title="Domains"
      intro="Put these records into the zone of the domain. Mail goes out from verified domains alone."
    >
      <Panel title="New domain">
        <LineForm
          action="Add domain"
          primary
          busy={add.isPending}
          submit={(text, empty) => add.mutate(text("name"), { onSuccess: empty })}
        >
          <Field label="Domain" name="name" placeholder="example.com" required />
        </LineForm>
      </Panel>
      {list.data.domains.map((domain) => (
        <Domain key={domain.id} domain={domain} />
      ))}
    </SettingsPage>
  );
}

const STATES = {
  found: { tone: "good", text: "found" },
  missing: { tone: "bad", text: "missing" },
  unanswered: { tone: "quiet", text: "no answer" },
} as const;

function Domain({ domain }: { domain: DomainView }) {
  const seen = useQuery(recordsQuery(domain.id));
  const remove = useChange(workspaceApi.removeDomain, { key: WORKSPACE, told: "Domain removed" });
  const { id, name, verifiedAt, records } = seen.data ?? domain;
  return (
    <Panel title={name}>
      <div className="mb-4 flex flex-wrap items-center gap-3">
        <Badge tone={verifiedAt === null ? "bad" : "good"}>{verifiedAt === null ? "not verified" : "verified"}</Badge>
        <span className="grow" />
        <Button
          aria-label={seen.isFetching ? undefined : `Look up records of ${name}`}
          disabled={seen.isFetching}
          onClick={() => seen.refetch()}
        >
          {seen.isFetching ? "Looking up…" : "Look up records"}
        </Button>
        <Button
          kind="danger"
          aria-label={`Remove ${name}`}
          disabled={remove.isPending}
          onClick={() => confirm(`Remove ${name} with its signing keys?`) && remove.mutate(id)}
        >
          Remove
        </Button>
      </div>
      {seen.isError && (
        <p role="alert" className="mb-3 text-sm text-danger">
          {seen.error.message}
        </p>
      )}
      <ul aria-label={`Records of ${name}`} className="divide-y divide-line">
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
    </Panel>
  );
}
