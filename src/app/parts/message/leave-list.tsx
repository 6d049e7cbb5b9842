/** Leaving the mailing list of a received message. */
import { useState } from "react";
import { api } from "../../lib/api-client.ts";
import type { MessageView, UnsubscribeView } from "../../lib/mail-views.ts";
import { receivedDetailsQuery, useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";

/** Leaves the list by one press, or leads to its page after a question. */
export function Unsubscribe({ message: { id, from }, way }: { message: MessageView; way: UnsubscribeView }) {
  const [asking, setAsking] = useState(false);
  const leave = useChange(() => api.unsubscribe({ id }), { key: receivedDetailsQuery(id).queryKey, atForm: true });
  const { by, at, leftAt } = way;
  const isUnsubscribed =
    leave.data?.by === "post"
      ? `${leave.data.at} took it: you are unsubscribed.`
      : leave.data?.by === "mail"
        ? `A message to ${leave.data.at} asks to unsubscribe you.`
        : leftAt !== undefined && `You unsubscribed on ${fullTime(leftAt)}.`;
  return (
    <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 text-sm print:hidden">
      <Button disabled={leave.isPending} onClick={() => (by === "link" ? setAsking(true) : leave.mutate())}>
        {leave.isPending ? "Unsubscribing…" : isUnsubscribed ? "Unsubscribe again" : "Unsubscribe"}
      </Button>
      <p role="status" className={leave.isError ? "text-danger" : "text-muted"}>
        {leave.isError ? leave.error.message : isUnsubscribed}
      </p>
      <Dialog open={asking} close={() => setAsking(false)} title="Open the page of this list?">
        <div className="space-y-4 text-sm">
          <p className="text-soft">
            This list is left on its own page, which {from.email} named and which learns that you read this message:
          </p>
          <p className="rounded-lg bg-panel px-3 py-2 break-all">{at}</p>
          <div className="flex justify-end gap-2">
            <Button onClick={() => setAsking(false)}>Cancel</Button>
            <a
              href={at}
              target="_blank"
              rel="noopener noreferrer nofollow"
              onClick={() => setAsking(false)}
              className="inline-flex h-8 items-center rounded-md bg-accent px-3 text-sm font-medium text-on-accent hover:brightness-110 max-md:h-10"
            >
              Open it
            </a>
          </div>
        </div>
      </Dialog>
    </div>
  );
}
