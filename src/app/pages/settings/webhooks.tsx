/** Webhook endpoints and their events. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { ChevronRight, Plus } from "lucide-react";
import { useChange } from "../../lib/settings.ts";
import { developerApi, EVENT_MEANING, WEBHOOKS, webhooksQuery } from "../../lib/settings-developers.ts";
import { ChoiceBoxes } from "../../parts/choice-boxes.tsx";
import { Field } from "../../parts/field.tsx";
import { FormDialog } from "../../parts/form-dialog.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Nothing, Panel, Rows, SettingsPage } from "../../parts/settings.tsx";

export function WebhooksPage() {
  const list = useQuery(webhooksQuery);
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="webhooks" />;
  const webhooks = list.data;
  return (
    <SettingsPage
      title="Webhooks"
      intro={
        <>
          A signed POST to a URL of yours whenever something happens to mail here. How to check the signature stands in
          the{" "}
          <a href="/api/docs#signatures" className="text-accent underline underline-offset-2">
            API reference
          </a>
          .
        </>
      }
      action={<NewWebhook />}
    >
      <Panel title="Endpoints">
        {webhooks.length === 0 && <Nothing>There is none yet.</Nothing>}
        <Rows label="Endpoints">
          {webhooks.map(({ id, url, events: told, enabled, exhausted }) => (
            <li key={id} className="relative flex items-center gap-3 hover:bg-hover">
              <div className="min-w-0 grow">
                <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
                  <Link
                    to="/settings/webhooks/$id"
                    params={{ id }}
                    className="font-medium break-all after:absolute after:inset-0"
                  >
                    {url}
                  </Link>
                  {!enabled && <Badge tone="bad">disabled</Badge>}
                  {enabled && exhausted > 0 && <Badge tone="warn">failing</Badge>}
                </p>
                <p className="text-sm text-muted">{told.join(", ")}</p>
              </div>
              <ChevronRight size={16} className="shrink-0 text-muted" aria-hidden />
            </li>
          ))}
        </Rows>
      </Panel>
    </SettingsPage>
  );
}

function NewWebhook() {
  const navigate = useNavigate();
  const add = useChange(developerApi.addWebhook, { key: WEBHOOKS, told: "Endpoint added", atForm: true });
  return (
    <FormDialog
      label={
        <>
          <Plus size={16} aria-hidden /> Add an endpoint
        </>
      }
      title="Add an endpoint"
      action="Add endpoint"
      sending={add}
      submit={({ text, all }) =>
        add.mutate(
          { url: text("url"), events: all("events") },
          { onSuccess: ({ id }) => void navigate({ to: "/settings/webhooks/$id", params: { id } }) },
        )
      }
    >
      <Field
        label="URL"
        name="url"
        type="url"
        placeholder="https://example.com/hooks/mail"
        hint="Reachable from the internet; https is advised."
        required
      />
      <ChoiceBoxes legend="Tell it of" name="events" choices={Object.keys(EVENT_MEANING)} meaning={EVENT_MEANING} />
    </FormDialog>
  );
}
