/** Outbound mail: who still waits for it, and who may not be written to. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../lib/settings.ts";
import {
  type QueueEntryView,
  queueQuery,
  suppressionsQuery,
  WORKSPACE,
  workspaceApi,
} from "../../lib/settings-workspace.ts";
import { fullTime } from "../../lib/time.ts";
import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { LineForm } from "../../parts/line-form.tsx";
import { Failed, Skeleton } from "../../parts/notice.tsx";
import { Badge, Panel, SettingsPage } from "../../parts/settings.tsx";

export function OutboundPage() {
  return (
    <SettingsPage title="Outbound mail" intro="Mail that has not left yet, and addresses that get none from here.">
      <Queue />
      <Suppressions />
    </SettingsPage>
  );
}

function Queue() {
  const queue = useQuery(queueQuery);
  if (queue.isError) return <Failed error={queue.error} retry={() => queue.refetch()} />;
  if (!queue.data) return <Skeleton what="the queue" />;
  const { entries, more } = queue.data;
  return (
    <Panel title="Queue">
      {entries.length === 0 && <p className="text-sm text-muted">Nothing waits: all mail has left.</p>}
      <ul aria-label="Queue" className="divide-y divide-line">
        {entries.map((entry) => (
          <QueueRow key={entry.id} entry={entry} />
        ))}
      </ul>
      {more && <p className="mt-3 text-sm text-muted">There are more; these are the first {entries.length}.</p>}
    </Panel>
  );
}

function QueueRow({ entry }: { entry: QueueEntryView }) {
  const { id, recipient, field, state, attempts, attempting, nextAttemptAt, reply, mailbox } = entry;
  const retry = useChange(workspaceApi.retry, { key: WORKSPACE, told: "It is being tried again" });
  const cancel = useChange(workspaceApi.cancel, { key: WORKSPACE, told: "Given up" });
  return (
    <li className="flex items-center gap-3 py-3 first:pt-0 last:pb-0 max-md:flex-wrap">
      <div className="min-w-0 grow text-sm">
        <p className="flex flex-wrap items-center gap-2">
          <span className="font-medium break-all">{recipient}</span>
          {field !== "to" && <Badge tone="quiet">{field}</Badge>}
          <Badge tone={state === "held" ? "bad" : "quiet"}>{attempting ? "being tried" : state}</Badge>
        </p>
        <p className="mt-0.5 text-xs break-words text-muted">
          From {mailbox}, {attempts} {attempts === 1 ? "attempt" : "attempts"}
          {nextAttemptAt !== null && `, next ${fullTime(nextAttemptAt)}`}
          {reply !== null && `: ${reply}`}
        </p>
      </div>
      <Button
        aria-label={`Try again: ${recipient}`}
        disabled={attempting || retry.isPending}
        onClick={() => retry.mutate(id)}
      >
        Try again
      </Button>
      <Button
        kind="danger"
        aria-label={`Give up ${recipient}`}
        disabled={attempting || cancel.isPending}
        onClick={() =>
          confirm(`Give up ${recipient}? They do not get the message, and nobody is told.`) && cancel.mutate(id)
        }
      >
        Give up
      </Button>
    </li>
  );
}

function Suppressions() {
  const list = useQuery(suppressionsQuery);
  const add = useChange(workspaceApi.suppress, { key: WORKSPACE, told: "Added" });
  const remove = useChange(workspaceApi.unsuppress, { key: WORKSPACE, told: "It may be written to again" });
  if (list.isError) return <Failed error={list.error} retry={() => list.refetch()} />;
  if (!list.data) return <Skeleton what="the suppression list" />;
  const { suppressions } = list.data;
  return (
    <Panel title="Suppression list">
      <LineForm
        action="Add"
        primary
        busy={add.isPending}
        submit={(text, empty) => add.mutate({ address: text("address"), reason: text("reason") }, { onSuccess: empty })}
      >
        <Field label="Address" name="address" type="email" required />
        <Field label="Reason" name="reason" maxLength={500} required />
      </LineForm>
      {suppressions.length === 0 && <p className="mt-4 text-sm text-muted">Nobody is on it.</p>}
      <ul aria-label="Suppression list" className="mt-4 divide-y divide-line">
        {suppressions.map(({ address, reason, createdAt }) => (
          <li key={address} className="flex items-center gap-3 py-3 last:pb-0">
            <div className="min-w-0 grow text-sm">
              <p className="font-medium break-all">{address}</p>
              <p className="mt-0.5 text-xs break-words text-muted">
                {reason}, since {fullTime(createdAt)}
              </p>
            </div>
            <Button aria-label={`Remove ${address}`} disabled={remove.isPending} onClick={() => remove.mutate(address)}>
              Remove
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
