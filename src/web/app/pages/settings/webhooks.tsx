/** Webhook endpoints: who is told of which events. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { useChange } from "../../lib/settings.ts";
import { developerApi, WEBHOOKS, webhooksQuery } from "../../lib/settings-developers.ts";
import { Button } from "../../parts/button.tsx";
import { ChoiceBoxes } from "../../parts/choice-boxes.tsx";
import { Field } from "../../parts/field.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Panel, SettingsPage } from "../../parts/settings.tsx";

export function WebhooksPage() {
  const list = useQuery(webhooksQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="webhooks" />;
  const { webhooks, events } = list.data;
  return (
    <SettingsPage title="Webhooks" intro="A signed POST to a URL of yours whenever something happens to mail here.">
      <Panel title="Endpoints">
        {webhooks.length === 0 && <p className="text-sm text-muted">There is none yet.</p>}
        <ul aria-label="Endpoints" className="divide-y divide-line">
          {webhooks.map(({ id, url, events: told, disabled }) => (
            <li key={id} className="py-3 text-sm first:pt-0 last:pb-0">
              <p className="flex flex-wrap items-center gap-2">
                <Link
                  to="/settings/webhooks/$id"
                  params={{ id }}
                  className="font-medium break-all text-accent underline underline-offset-2"
                >
                  {url}
                </Link>
                {disabled && <Badge tone="bad">disabled</Badge>}
              </p>
              <p className="mt-0.5 text-xs text-muted">{told.join(", ")}</p>
            </li>
          ))}
        </ul>
      </Panel>
      <NewWebhook events={events} />
    </SettingsPage>
  );
}

function NewWebhook({ events }: { events: readonly string[] }) {
  const navigate = useNavigate();
  const add = useChange(developerApi.addWebhook, { key: WEBHOOKS, told: "Endpoint added" });
  function submit(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    add.mutate(
      { url: String(given.get("url")), events: given.getAll("events").map(String) },
      { onSuccess: ({ id }) => void navigate({ to: "/settings/webhooks/$id", params: { id } }) },
    );
  }
  return (
    <Panel title="New endpoint">
      <form onSubmit={submit} className="space-y-3">
        <Field label="URL" name="url" type="url" placeholder="https://example.com/hooks/mail" required />
        <ChoiceBoxes legend="Tell it of" name="events" choices={events} />
        <Button kind="primary" type="submit" disabled={add.isPending}>
          Add endpoint
        </Button>
      </form>
    </Panel>
  );
}
