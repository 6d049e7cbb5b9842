/** Webhooks: the list of endpoints, and a page for each. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { EVENTS } from "../../../events/kinds.ts";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { AddDialog } from "../../parts/settings/add-dialog.tsx";
import { ItemPage } from "../../parts/settings/item-page.tsx";
import { ListPanel, RowList } from "../../parts/settings/row-list.tsx";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { Badge, CopyValue, ErrorLine, More, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Checkboxes, Field, Select } from "../../parts/ui/fields.tsx";
import { Form, LineForm } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import {
  type DeliveryView,
  eventChoices,
  WEBHOOKS,
  type WebhookView,
  webhookDeliveriesQuery,
  webhookQuery,
  webhookSecretQuery,
  webhooksQuery,
} from "./settings-developers.ts";

export function WebhooksPage() {
  const list = useQuery(webhooksQuery);
  if (!list.data) return <NotLoaded query={list} what="webhooks" />;
  const webhooks = list.data;
  return (
    <SettingsPage
      title="Webhooks"
      intro={
        <>
          A signed POST to a URL of yours whenever something happens to mail here. The{" "}
          <a href="/api/docs#signatures" className="text-accent underline underline-offset-2">
            API reference
          </a>{" "}
          says how to check the signature.
        </>
      }
      action={<NewWebhook />}
    >
      <ListPanel of={webhooks} title="Endpoints" empty="None yet.">
        {({ id, url, events, enabled, exhausted }) => (
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
              <p className="text-sm text-muted">{events.join(", ")}</p>
            </div>
            <ChevronRight size={16} className="shrink-0 text-muted" aria-hidden />
          </li>
        )}
      </ListPanel>
    </SettingsPage>
  );
}

function NewWebhook() {
  const navigate = useNavigate();
  const add = useChange(api.addWebhook, { key: WEBHOOKS, success: "Endpoint added", atForm: true });
  return (
    <AddDialog
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
      <Checkboxes legend="Events" name="events" choices={eventChoices()} meaning={EVENTS} />
    </AddDialog>
  );
}

interface Shown {
  webhook: WebhookView;
}

/** One endpoint: state, URL, events, secret, and the log of deliveries. */
export function WebhookPage() {
  const { id = "" } = useParams({ strict: false });
  const webhook = useQuery(webhookQuery(id));
  if (!webhook.data) return <NotLoaded query={webhook} what="the endpoint" />;
  return (
    <ItemPage list="/settings/webhooks" all="All endpoints" title="Webhook endpoint">
      <State webhook={webhook.data} />
      <DeliveryLog webhookId={id} />
      <Target webhook={webhook.data} />
      <Secret id={id} />
      <Removal webhook={webhook.data} />
    </ItemPage>
  );
}

function State({ webhook: { id, url, events, enabled, disabledAt, exhausted, createdAt } }: Shown) {
  const test = useChange(api.testWebhook, { key: WEBHOOKS, success: "Test sent", atForm: true });
  const change = useChange(api.updateWebhook, {
    key: WEBHOOKS,
    success: enabled ? "It gets no events until it is enabled" : "Endpoint enabled",
  });
  return (
    <Panel
      title={url}
      about={
        <span className="flex flex-wrap items-center gap-2">
          {enabled ? <Badge tone="good">active</Badge> : <Badge tone="bad">disabled</Badge>}
          {disabledAt === null ? `added ${fullTime(createdAt)}` : `since ${fullTime(disabledAt)}`}
          {exhausted > 0 && `, ${exhausted} deliveries in a row failed`}
        </span>
      }
      action={
        enabled ? (
          <ConfirmButton
            question="Pause this endpoint?"
            action="Pause it"
            consequences={
              <p>
                It gets no events until it is enabled again; events until then are never sent to it. Waiting deliveries
                fail.
              </p>
            }
            harmless
            disabled={change.isPending}
            run={() => change.mutate({ id, enabled: false })}
          >
            Pause…
          </ConfirmButton>
        ) : (
          <Button kind="primary" disabled={change.isPending} onClick={() => change.mutate({ id, enabled: true })}>
            Enable
          </Button>
        )
      }
    >
      <LineForm
        action="Send a test"
        primary
        sending={test}
        submit={({ text }) => test.mutate({ id, event: text("event") })}
      >
        <Select label="A signed sample of" name="event" choices={eventChoices(events)} defaultValue={events[0]} />
      </LineForm>
    </Panel>
  );
}

function Target({ webhook: { id, url, events } }: Shown) {
  const change = useChange(api.updateWebhook, { key: WEBHOOKS, success: "Saved", atForm: true });
  return (
    <Panel title="URL and events">
      <Form
        sending={change}
        submit={({ text, all }) => change.mutate({ id, url: text("url"), events: all("events") })}
        className="space-y-4"
      >
        <Field label="URL" name="url" type="url" defaultValue={url} hint="Waiting deliveries go there, too." required />
        <Checkboxes legend="Events" name="events" choices={eventChoices(events)} chosen={events} meaning={EVENTS} />
        <SaveRow action="Save" sending={change} kind="plain" />
      </Form>
    </Panel>
  );
}

/** Times for which the former secret stays valid, hours. */
const OVERLAPS = [
  { value: "24", text: "a day" },
  { value: "1", text: "an hour" },
  { value: "168", text: "a week" },
  { value: "0", text: "no time (others know it)" },
] as const;

function Secret({ id }: { id: string }) {
  const [shown, setShown] = useState(false);
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0].value);
  const { data, error } = useQuery({ ...webhookSecretQuery(id), enabled: shown });
  const rotate = useChange(api.rotateWebhookSecret, { key: [...WEBHOOKS, id], success: "Secret replaced" });
  const hours = Number(overlap);
  return (
    <Panel title="Signing secret" about="The receiver checks signatures with it.">
      <ErrorLine error={error} />
      {shown && data && (
        <div className="mb-4 space-y-2">
          <CopyValue label="Signing secret" value={data.secret} />
          {data.previous && (
            <>
              <p className="text-sm text-muted">Until {fullTime(data.previous.until)} the former one is valid, too:</p>
              <CopyValue label="Former secret" value={data.previous.secret} />
            </>
          )}
        </div>
      )}
      <div className="flex flex-wrap items-end gap-3">
        <Button onClick={() => setShown(!shown)} aria-pressed={shown} className="h-9">
          {shown ? "Hide secret" : "Show secret"}
        </Button>
        <Select
          label="Keep the current secret valid for"
          choices={OVERLAPS}
          value={overlap}
          onChange={({ target }) => setOverlap(target.value)}
        />
        <ConfirmButton
          question="Make a new secret?"
          action="Make a new secret"
          consequences={
            <p>
              {hours === 0
                ? "The current secret stops working at once: until the receiver has the new one, it refuses every delivery."
                : `Both are valid for ${OVERLAPS.find(({ value }) => value === overlap)?.text}: give the receiver the new one in that time.`}
            </p>
          }
          harmless={hours > 0}
          disabled={rotate.isPending}
          run={() => rotate.mutate({ id, overlapHours: hours }, { onSuccess: () => setShown(true) })}
          className="h-9"
        >
          Rotate…
        </ConfirmButton>
      </div>
    </Panel>
  );
}

function Removal({ webhook: { id, url } }: Shown) {
  const navigate = useNavigate();
  const remove = useChange(api.removeWebhook, { key: [...WEBHOOKS, "list"], success: "Endpoint removed" });
  return (
    <Panel title="Remove this endpoint" about="With its secret and its log. It cannot be brought back.">
      <ConfirmButton
        question="Remove this endpoint?"
        action="Remove endpoint"
        consequences={
          <>
            <p className="break-all">{url} gets no more events, and waiting deliveries are not sent.</p>
            <p>Its log goes too.</p>
          </>
        }
        disabled={remove.isPending}
        run={() => remove.mutate({ id }, { onSuccess: () => void navigate({ to: "/settings/webhooks" }) })}
      >
        Remove endpoint…
      </ConfirmButton>
    </Panel>
  );
}

const TONES = { pending: "quiet", retrying: "warn", delivered: "good", failed: "bad" } as const;

/** Deliveries to an endpoint, newest first, with state, response, and a button to send again. */
function DeliveryLog({ webhookId }: { webhookId: string }) {
  const log = useQuery(webhookDeliveriesQuery(webhookId));
  return (
    <Panel
      title="Deliveries"
      about="Newest first; finished ones are kept for 30 days unless the server says otherwise."
    >
      {log.data ? (
        <RowList of={log.data} label="Deliveries" empty="No deliveries yet.">
          {(delivery) => <Entry key={delivery.id} of={delivery} webhookId={webhookId} />}
        </RowList>
      ) : (
        <NotLoaded query={log} what="deliveries" />
      )}
    </Panel>
  );
}

/** The next step, in words; undefined when there is none. */
function describeNextAttempt({ attempting, nextAttemptAt }: DeliveryView): string | undefined {
  if (attempting) return "an attempt is under way";
  return nextAttemptAt === null ? undefined : `next attempt ${fullTime(nextAttemptAt)}`;
}

function Entry({ of, webhookId }: { of: DeliveryView; webhookId: string }) {
  const resend = useChange(api.resendWebhookDelivery, { key: [...WEBHOOKS, webhookId], success: "Resending" });
  const { id, event, eventId, test, state, attempts, attempting, status, response, error, createdAt } = of;
  const facts = [
    status === null ? undefined : `HTTP ${status}`,
    formatCount(attempts, "attempt"),
    describeNextAttempt(of),
    fullTime(createdAt),
  ];
  return (
    <li className="flex items-start gap-3">
      <div className="min-w-0 grow text-sm">
        <p className="flex flex-wrap items-center gap-2">
          <Badge tone={TONES[state]}>{state}</Badge>
          <span className="font-medium">{event}</span>
          {test && <Badge tone="quiet">test</Badge>}
        </p>
        <p className="mt-1 text-sm text-muted">{facts.filter((fact) => fact !== undefined).join(" · ")}</p>
        {error !== null && <p className="mt-1 text-sm break-words text-danger">{error}</p>}
        <More title="Response and ids" className="mt-1">
          <p className="mt-1 break-words text-muted">Event {eventId}</p>
          <p className="break-words text-muted">Delivery {id}</p>
          <pre className="mt-2 rounded-md bg-code p-3 font-mono text-xs break-all whitespace-pre-wrap text-on-code">
            {response === null || response === "" ? "No response was kept." : response}
          </pre>
        </More>
      </div>
      <Button
        onClick={() => resend.mutate({ id: webhookId, delivery: id })}
        disabled={resend.isPending || attempting}
        aria-label={`Resend ${event}`}
      >
        Resend
      </Button>
    </li>
  );
}
