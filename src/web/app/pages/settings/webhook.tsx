/** One webhook endpoint: its state, its secret, and the log of what was sent to it. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import { useState } from "react";
import { useChange } from "../../lib/settings.ts";
import { developerApi, secretQuery, WEBHOOKS, type WebhookView, webhookQuery } from "../../lib/settings-developers.ts";
import { fullTime } from "../../lib/time.ts";
import { Button } from "../../parts/button.tsx";
import { DeliveryLog } from "../../parts/delivery-log.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, CopyValue, Panel, SettingsPage } from "../../parts/settings.tsx";

/** How long the secret before stays good, hours. */
const OVERLAP_HOURS = 24;

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
        <Endpoint of={webhook.data} />
        <Secret id={id} />
        <DeliveryLog webhookId={id} />
      </SettingsPage>
    </>
  );
}

function Endpoint({ of: { id, url, events, disabled, disabledAt, exhausted, createdAt } }: { of: WebhookView }) {
  const navigate = useNavigate();
  const test = useChange(developerApi.testWebhook, { key: WEBHOOKS, told: "A test is on its way" });
  const enable = useChange(developerApi.enableWebhook, { key: WEBHOOKS, told: "Endpoint enabled" });
  const remove = useChange(developerApi.removeWebhook, { key: [...WEBHOOKS, "list"], told: "Endpoint removed" });
  function confirmRemoval(): void {
    if (!confirm(`Remove ${url} with its log? It cannot be brought back.`)) return;
    remove.mutate(id, { onSuccess: () => void navigate({ to: "/settings/webhooks" }) });
  }
  return (
    <Panel title={url}>
      <p className="flex flex-wrap items-center gap-2 text-sm">
        {disabled ? <Badge tone="bad">disabled</Badge> : <Badge tone="good">active</Badge>}
        <span className="text-muted">
          {disabledAt === null ? `added ${fullTime(createdAt)}` : `since ${fullTime(disabledAt)}`}
          {exhausted > 0 && `, ${exhausted} in a row came to nothing`}
        </span>
      </p>
      <p className="mt-2 text-sm text-soft">Told of {events.join(", ")}</p>
      <div className="mt-4 flex flex-wrap gap-2">
        <Button kind="primary" onClick={() => test.mutate(id)} disabled={test.isPending}>
          Send a test
        </Button>
        {disabled && (
          <Button onClick={() => enable.mutate(id)} disabled={enable.isPending}>
            Enable
          </Button>
        )}
        <Button kind="danger" onClick={confirmRemoval} disabled={remove.isPending}>
          Remove
        </Button>
      </div>
    </Panel>
  );
}

function Secret({ id }: { id: string }) {
  const [shown, setShown] = useState(false);
  const { data, error } = useQuery({ ...secretQuery(id), enabled: shown });
  const rotate = useChange(developerApi.rotateSecret, { key: [...WEBHOOKS, id], told: "There is a new secret" });
  function confirmRotation(overlapHours: number): void {
    const before =
      overlapHours === 0 ? "The present one counts no more at once." : `Both are good for ${overlapHours} hours.`;
    if (!confirm(`Make a new secret? ${before}`)) return;
    rotate.mutate({ id, overlapHours }, { onSuccess: () => setShown(true) });
  }
  return (
    <Panel title="Signing secret">
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
      <div className="flex flex-wrap gap-2">
        <Button onClick={() => setShown(!shown)} aria-pressed={shown}>
          {shown ? "Hide secret" : "Show secret"}
        </Button>
        <Button onClick={() => confirmRotation(OVERLAP_HOURS)} disabled={rotate.isPending}>
          Rotate, both good for a day
        </Button>
        <Button kind="danger" onClick={() => confirmRotation(0)} disabled={rotate.isPending}>
          Replace at once
        </Button>
      </div>
    </Panel>
  );
}
