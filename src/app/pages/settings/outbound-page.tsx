/** Outbound mail: the queue and the suppression list. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { ListPanel, RowList } from "../../parts/settings/row-list.tsx";
import { Badge, Facts, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Field } from "../../parts/ui/fields.tsx";
import { LineForm } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { type QueueEntryView, queueQuery, type SuppressionView, suppressionsQuery } from "./settings-workspace.ts";

export function OutboundPage() {
  return (
    <SettingsPage
      title="Outbound mail"
      intro="Mail that has not been delivered yet, and addresses that this workspace does not write to."
    >
      <Queue />
      <Suppressions />
    </SettingsPage>
  );
}

function Queue() {
  const queue = useQuery(queueQuery);
  if (!queue.data) return <NotLoaded query={queue} what="the queue" />;
  const { queue: entries, nextCursor } = queue.data;
  return (
    <ListPanel
      of={entries}
      title="Queue"
      about="One entry for each recipient. It is tried again less and less often, then returned to the sender."
      empty="The queue is empty."
      search={{
        label: "Find a recipient",
        text: ({ recipient, mailbox, reply, state }) => [recipient, mailbox, reply, state].join(" "),
      }}
      after={
        nextCursor !== null && (
          <p className="mt-3 text-sm text-muted">There are more; these are the first {entries.length}.</p>
        )
      }
    >
      {(entry) => <QueueRow key={entry.id} entry={entry} />}
    </ListPanel>
  );
}

function QueueRow({ entry }: { entry: QueueEntryView }) {
  const { id, recipient, field, state, attempts, attempting, nextAttemptAt, reply, mailbox } = entry;
  const retry = useChange(api.retryDelivery, { key: WORKSPACE, success: "Retrying now" });
  const cancel = useChange(api.cancelDelivery, { key: WORKSPACE, success: "Given up" });
  return (
    <li>
      <Facts
        title={
          <>
            <span>{recipient}</span>
            {field !== "to" && <Badge tone="quiet">{field}</Badge>}
            <Badge tone={state === "held" ? "warn" : "quiet"}>{attempting ? "being tried" : state}</Badge>
          </>
        }
        facts={
          <>
            From {mailbox}, {formatCount(attempts, "attempt")}
            {nextAttemptAt !== null && `, next ${fullTime(nextAttemptAt)}`}
            {reply !== null && <span className="mt-0.5 block text-soft">{reply}</span>}
          </>
        }
      >
        <Button
          aria-label={`Try again: ${recipient}`}
          disabled={attempting || retry.isPending}
          onClick={() => retry.mutate({ id })}
        >
          Try again
        </Button>
        <ConfirmButton
          question={`Give up ${recipient}?`}
          action="Give up"
          consequences={<p>They will not get the message, and nobody is told.</p>}
          aria-label={`Give up ${recipient}…`}
          disabled={attempting || cancel.isPending}
          run={() => cancel.mutate({ id })}
        >
          Give up…
        </ConfirmButton>
      </Facts>
    </li>
  );
}

function Suppressions() {
  const list = useQuery(suppressionsQuery);
  const add = useChange(api.addSuppression, { key: WORKSPACE, success: "Added", atForm: true });
  if (!list.data) return <NotLoaded query={list} what="the suppression list" />;
  const suppressions = list.data;
  return (
    <Panel
      title="Suppression list"
      about="A message to one of these addresses is refused. Hard bounces and complaints are added automatically."
    >
      <div className="mb-4">
        <LineForm
          action="Add"
          sending={add}
          submit={({ text, empty }) =>
            add.mutate({ address: text("address"), reason: text("reason") }, { onSuccess: empty })
          }
        >
          <Field label="Address" name="address" type="email" autoComplete="off" required />
          <Field label="Reason" name="reason" maxLength={500} autoComplete="off" required />
        </LineForm>
      </div>
      <RowList
        of={suppressions}
        label="Suppression list"
        empty="The list is empty."
        search={{ label: "Find an address", text: ({ address, reason }) => `${address} ${reason}` }}
      >
        {(entry) => <Suppression key={entry.id} {...entry} />}
      </RowList>
    </Panel>
  );
}

function Suppression({ id, address, reason, createdAt }: SuppressionView) {
  const remove = useChange(api.removeSuppression, { key: WORKSPACE, success: "Removed from the list" });
  return (
    <li>
      <Facts
        title={address}
        facts={
          <>
            {reason}, since {fullTime(createdAt)}
          </>
        }
      >
        <ConfirmButton
          question={`Write to ${address} again?`}
          action="Remove from the list"
          consequences={
            <p>Writing to an address that bounces or complains makes other mail from here less welcome there.</p>
          }
          harmless
          aria-label={`Remove ${address}…`}
          disabled={remove.isPending}
          run={() => remove.mutate({ id })}
        >
          Remove…
        </ConfirmButton>
      </Facts>
    </li>
  );
}
