/** Domains: what their zones must say, to be copied, and whether the world sees it. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../lib/settings.ts";
import { type DomainView, domainsQuery, recordsQuery, WORKSPACE, workspaceApi } from "../../lib/settings-workspace.ts";
import { Button } from "../../parts/button.tsx";
import { DnsRecords } from "../../parts/dns-records.tsx";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Panel, SettingsPage } from "../../parts/settings.tsx";

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
      <DnsRecords label={`Records of ${name}`} records={records} />
    </Panel>
  );
}
