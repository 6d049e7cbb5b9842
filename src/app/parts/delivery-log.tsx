/** Deliveries to a webhook endpoint, newest first, with state, response, and a button to send again. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../lib/settings.ts";
import { type DeliveryView, deliveriesQuery, developerApi, WEBHOOKS } from "../lib/settings-developers.ts";
import { fullTime } from "../lib/time.ts";
import { Button } from "./button.tsx";
import { Failed, Skeleton } from "./notice.tsx";
import { Badge, Nothing, Panel, Rows } from "./settings.tsx";

const TONES = { pending: "quiet", retrying: "warn", delivered: "good", failed: "bad" } as const;

export function DeliveryLog({ webhookId }: { webhookId: string }) {
  const log = useQuery(deliveriesQuery(webhookId));
  return (
    <Panel
      title="Deliveries"
      about="Newest first; finished ones are kept for 30 days unless the server says otherwise."
    >
      {log.isError && <Failed error={log.error} retry={() => log.refetch()} />}
      {log.isPending && <Skeleton what="deliveries" />}
      {log.data?.length === 0 && <Nothing>Nothing was sent to it yet.</Nothing>}
      <Rows label="Deliveries">
        {log.data?.map((delivery) => (
          <Entry key={delivery.id} of={delivery} webhookId={webhookId} />
        ))}
      </Rows>
    </Panel>
  );
}

/** The next step, in words; undefined when there is none. */
function nextOf({ attempting, nextAttemptAt }: DeliveryView): string | undefined {
  if (attempting) return "an attempt is under way";
  return nextAttemptAt === null ? undefined : `next attempt ${fullTime(nextAttemptAt)}`;
}

function Entry({ of, webhookId }: { of: DeliveryView; webhookId: string }) {
  const resend = useChange(developerApi.resend, { key: [...WEBHOOKS, webhookId], told: "It is sent again" });
  const { id, event, eventId, test, state, attempts, attempting, status, response, error, createdAt } = of;
  const facts = [
    status === null ? undefined : `HTTP ${status}`,
    attempts === 1 ? "1 attempt" : `${attempts} attempts`,
    nextOf(of),
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
        <details className="mt-1 text-sm">
          <summary className="inline-block text-accent">Answer and ids</summary>
          <p className="mt-1 break-words text-muted">Event {eventId}</p>
          <p className="break-words text-muted">Delivery {id}</p>
          <pre className="mt-2 rounded-md bg-code p-3 font-mono text-xs break-all whitespace-pre-wrap text-on-code">
            {response === null || response === "" ? "No answer was kept." : response}
          </pre>
        </details>
      </div>
      <Button
        onClick={() => resend.mutate({ webhookId, id })}
        disabled={resend.isPending || attempting}
        aria-label={`Resend ${event}`}
      >
        Resend
      </Button>
    </li>
  );
}
