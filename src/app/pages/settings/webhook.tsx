/** One webhook endpoint: state, URL, events, secret, and the log of deliveries. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import { useState } from "react";
import { useChange } from "../../lib/settings.ts";
import {
  developerApi,
  EVENT_MEANING,
  secretQuery,
  WEBHOOKS,
  type WebhookView,
  webhookQuery,
} from "../../lib/settings-developers.ts";
import { fullTime } from "../../lib/time.ts";
import { Button } from "../../parts/button.tsx";
import { ChoiceBoxes } from "../../parts/choice-boxes.tsx";
import { ConfirmButton } from "../../parts/confirm-button.tsx";
import { DeliveryLog } from "../../parts/delivery-log.tsx";
import { Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Select } from "../../parts/select.tsx";
import { Badge, CopyValue, Panel, SettingsPage } from "../../parts/settings.tsx";

interface Shown {
  webhook: WebhookView;
}

export function WebhookPage() {
  const { id = "" } = useParams({ strict: false });
  const webhook = useQuery(webhookQuery(id));
  if (webhook.isError) return <Failed error={webhook.error} retry={() => webhook.refetch()} />;
  if (!webhook.data) return <Skeleton what="the endpoint" />;
  return (
    <>
      <Link to="/settings/webhooks" className="mb-3 inline-flex items-center gap-1.5 text-sm text-soft hover:text-ink">
        <ArrowLeft size={15} aria-hidden /> All endpoints
      </Link>
      <SettingsPage title="Webhook endpoint">
        <State webhook={webhook.data} />
        <DeliveryLog webhookId={id} />
        <Target webhook={webhook.data} />
        <Secret id={id} />
        <Removal webhook={webhook.data} />
      </SettingsPage>
    </>
  );
}

function State({ webhook: { id, url, events, enabled, disabledAt, exhausted, createdAt } }: Shown) {
  const test = useChange(developerApi.testWebhook, { key: WEBHOOKS, told: "A test is on its way", atForm: true });
  const change = useChange(developerApi.changeWebhook, {
    key: WEBHOOKS,
    told: enabled ? "It is told of nothing until it is enabled" : "It is told again, from now on",
  });
  return (
    <Panel
      title={url}
      about={
        <span className="flex flex-wrap items-center gap-2">
          {enabled ? <Badge tone="good">active</Badge> : <Badge tone="bad">disabled</Badge>}
          {disabledAt === null ? `added ${fullTime(createdAt)}` : `since ${fullTime(disabledAt)}`}
          {exhausted > 0 && `, ${exhausted} in a row came to nothing`}
        </span>
      }
      action={
        enabled ? (
          <ConfirmButton
            question="Pause this endpoint?"
            deed="Pause it"
            told={
              <p>
                It is told of nothing until it is enabled again, not even afterwards of what happened meanwhile. What
                waits to be sent to it fails.
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
        <Select label="A signed sample of" name="event" choices={Object.keys(EVENT_MEANING)} defaultValue={events[0]} />
      </LineForm>
    </Panel>
  );
}

function Target({ webhook: { id, url, events } }: Shown) {
  const change = useChange(developerApi.changeWebhook, { key: WEBHOOKS, told: "Saved", atForm: true });
  return (
    <Panel title="Where, and what of">
      <Form
        sending={change}
        submit={({ text, all }) => change.mutate({ id, url: text("url"), events: all("events") })}
        className="space-y-4"
      >
        <Field label="URL" name="url" type="url" defaultValue={url} hint="What waits goes there as well." required />
        <ChoiceBoxes
          legend="Tell it of"
          name="events"
          choices={Object.keys(EVENT_MEANING)}
          chosen={events}
          meaning={EVENT_MEANING}
        />
        <Button type="submit" disabled={change.isPending}>
          Save
        </Button>
      </Form>
    </Panel>
  );
}

/** Times for which the former secret stays valid, hours. */
const OVERLAPS = [
  { value: "24", text: "a day" },
  { value: "1", text: "an hour" },
  { value: "168", text: "a week" },
  { value: "0", text: "no time: it is known to others" },
] as const;

function Secret({ id }: { id: string }) {
  const [shown, setShown] = useState(false);
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0].value);
  const { data, error } = useQuery({ ...secretQuery(id), enabled: shown });
  const rotate = useChange(developerApi.rotateSecret, { key: [...WEBHOOKS, id], told: "There is a new secret" });
  const hours = Number(overlap);
  return (
    <Panel title="Signing secret" about="What the receiver checks signatures with.">
      {error && (
        <p role="alert" className="mb-3 text-sm text-danger">
          {error.message}
        </p>
      )}
      {shown && data && (
        <div className="mb-4 space-y-2">
          <CopyValue label="Signing secret" value={data.secret} />
          {data.previous && (
            <>
              <p className="text-sm text-muted">
                Until {fullTime(data.previous.until)} the one before is good as well:
              </p>
              <CopyValue label="Secret before" value={data.previous.secret} />
            </>
          )}
        </div>
      )}
      <div className="flex flex-wrap items-end gap-3">
        <Button onClick={() => setShown(!shown)} aria-pressed={shown} className="h-9">
          {shown ? "Hide secret" : "Show secret"}
        </Button>
        <Select
          label="The present one stays good for"
          choices={OVERLAPS}
          value={overlap}
          onChange={({ target }) => setOverlap(target.value)}
        />
        <ConfirmButton
          question="Make a new secret?"
          deed="Make a new secret"
          told={
            <p>
              {hours === 0
                ? "The present one counts no more at once: until the receiver knows the new one, it refuses what it is sent."
                : `Both are good for ${OVERLAPS.find(({ value }) => value === overlap)?.text}: give the receiver the new one in that time.`}
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
  const remove = useChange(developerApi.removeWebhook, { key: [...WEBHOOKS, "list"], told: "Endpoint removed" });
  return (
    <Panel title="Remove this endpoint" about="With its secret and its log. It cannot be brought back.">
      <ConfirmButton
        question="Remove this endpoint?"
        deed="Remove endpoint"
        told={
          <>
            <p className="break-all">{url} is told of nothing more, and what waits is not sent.</p>
            <p>Its log goes too.</p>
          </>
        }
        disabled={remove.isPending}
        run={() => remove.mutate(id, { onSuccess: () => void navigate({ to: "/settings/webhooks" }) })}
      >
        Remove endpoint…
      </ConfirmButton>
    </Panel>
  );
}
