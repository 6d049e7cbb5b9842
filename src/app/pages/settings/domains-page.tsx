/** Domains: their DNS records, to be copied, with the state of each in DNS. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { api } from "../../lib/api-client.ts";
import { domainWarning } from "../../lib/explanations.ts";
import { domainsQuery, useChange, WORKSPACE } from "../../lib/queries.ts";
import { toast } from "../../lib/toast.ts";
import { AddDialog } from "../../parts/settings/add-dialog.tsx";
import { DnsRecords } from "../../parts/settings/dns-records.tsx";
import { Badge, ErrorLine, Nothing, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Field } from "../../parts/ui/fields.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { type DomainView, dnsRecordsQuery } from "./settings-workspace.ts";

const STATES = { verified: "verified", unverified: "not verified", lost: "verified by another workspace" } as const;

export function DomainsPage() {
  const list = useQuery(domainsQuery);
  if (!list.data) return <NotLoaded query={list} what="domains" />;
  const domains = list.data;
  return (
    <SettingsPage
      title="Domains"
      intro="Put these records into the zone of the domain, where you bought it or run its DNS. Mail comes to verified domains and goes out from them; a domain belongs to the workspace that verifies it."
      action={<NewDomain />}
    >
      {domains.length === 0 && <Nothing>No domains yet. Add the domain that your addresses end in.</Nothing>}
      {domains.map((domain) => (
        <Domain key={domain.id} domain={domain} />
      ))}
    </SettingsPage>
  );
}

function NewDomain() {
  const add = useChange(api.addDomain, { key: WORKSPACE, success: "Domain added", atForm: true });
  return (
    <AddDialog
      title="Add a domain"
      action="Add domain"
      sending={add}
      submit={({ text }, done) => add.mutate({ name: text("name") }, { onSuccess: done })}
    >
      <Field
        label="Domain"
        name="name"
        placeholder="example.com"
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        hint="It gets its own keys to sign mail."
        required
      />
    </AddDialog>
  );
}

function Domain({ domain }: { domain: DomainView }) {
  const client = useQueryClient();
  const seen = useQuery(dnsRecordsQuery(domain.id));
  const verify = useChange(api.verifyDomain, { key: WORKSPACE });
  const remove = useChange(api.removeDomain, { key: WORKSPACE, success: "Domain removed" });
  const { id, name } = domain;
  const { state, records } = seen.data ?? domain;
  const warning = domainWarning(seen.data ?? domain);
  const missing = records.filter(({ state, optional }) => state === "missing" && !optional).length;
  const unanswered = records.filter(({ state }) => state === "unanswered").length;
  const askVerification = () =>
    verify.mutate(
      { id },
      {
        onSuccess: (verified) => {
          client.setQueryData(dnsRecordsQuery(id).queryKey, verified);
          if (verified.state !== "verified") {
            toast({ text: `${name} is not verified yet: its ownership and DKIM records are not in DNS` });
          } else toast({ text: `${name} is verified` });
        },
      },
    );
  return (
    <Panel
      title={name}
      about={
        <span className="flex flex-wrap items-center gap-2">
          <Badge tone={state === "verified" && missing === 0 ? "good" : "warn"}>
            {state === "verified" && missing > 0 ? "verified, records missing" : STATES[state]}
          </Badge>
          <span role="status">
            {seen.isFetching
              ? "Checking records…"
              : missing > 0
                ? `${missing} of ${records.length} records missing`
                : unanswered > 0
                  ? `DNS did not answer for ${unanswered} of ${records.length} records`
                  : seen.data && "All records found"}
          </span>
        </span>
      }
      action={
        <div className="flex flex-wrap gap-2">
          <Button aria-label={`Check again: ${name}`} disabled={seen.isFetching} onClick={() => void seen.refetch()}>
            <RotateCw size={15} aria-hidden className={seen.isFetching ? "motion-safe:animate-spin" : ""} />
            Check again
          </Button>
          {state === "unverified" && (
            <Button kind="primary" aria-label={`Verify ${name}`} disabled={verify.isPending} onClick={askVerification}>
              Verify
            </Button>
          )}
        </div>
      }
    >
      <ErrorLine error={seen.error} />
      {warning !== undefined && <p className="mb-3 text-sm">{warning}</p>}
      <DnsRecords label={`Records of ${name}`} records={records}>
        <li>
          <ConfirmButton
            question={`Remove ${name}?`}
            action="Remove domain"
            consequences={
              <>
                <p>
                  Its signing keys are deleted. If you add it again, it gets new keys, and you have to change its
                  records.
                </p>
                <p>
                  Mail to its addresses is refused from now on. Mailboxes and aliases at it have to be removed first.
                </p>
              </>
            }
            aria-label={`Remove domain ${name}…`}
            disabled={remove.isPending}
            run={() => remove.mutate({ id })}
          >
            Remove domain…
          </ConfirmButton>
        </li>
      </DnsRecords>
    </Panel>
  );
}
