/** A message that is sent later: whole, with every recipient and its time, which can be changed. */
import { Clock } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api } from "../../lib/api-client.ts";
import { buildComposerStart } from "../../lib/draft-content.ts";
import { formatHeaderAddress } from "../../lib/format.ts";
import type { DraftContent } from "../../lib/mail-views.ts";
import { isSendingSoon, tellSent } from "../../lib/open-composers.ts";
import { draftQuery, queryClient, refreshMail } from "../../lib/queries.ts";
import { dayAndTime } from "../../lib/time-format.ts";
import { toastFailure } from "../../lib/toast.ts";
import { SendTime } from "../composer/composer-fields.tsx";
import { Button } from "../ui/button.tsx";
import { MessageBody } from "./message-card.tsx";

export function ScheduledMessage({
  draft,
  dueAt,
  left,
}: {
  draft: DraftContent;
  dueAt: string;
  /** Called when it is no longer scheduled as before. */
  left: () => void;
}) {
  const [choosing, setChoosing] = useState(false);
  const [busy, setBusy] = useState(false);
  const { draftId, emailId, from, to, cc, bcc, subject, text, attachments, added = [] } = draft;

  async function act(work: () => Promise<void>): Promise<void> {
    setBusy(true);
    try {
      await work();
    } catch (error) {
      toastFailure(error);
    } finally {
      setBusy(false);
      refreshMail();
    }
  }
  /** Sends it now, or at another time. If that is refused, it is a draft again. */
  const send = (at?: Date) =>
    act(async () => {
      await api.undoSend({ id: draftId });
      const { fields } = buildComposerStart(draft, false);
      const outcome = await api.sendOpenedDraft({
        id: draftId,
        ...fields,
        revision: draft.revision,
        attachments: attachments.map(({ id }) => id),
        at: at?.toISOString(),
      });
      left();
      tellSent(outcome);
    });
  const edit = () =>
    act(async () => {
      await api.undoSend({ id: draftId });
      await queryClient.invalidateQueries({ queryKey: draftQuery(draftId).queryKey });
    });
  const discard = () =>
    act(async () => {
      if (!confirm("Discard this message? It will not be sent, and cannot be brought back.")) return;
      await api.discardDraft({ id: draftId });
      left();
    });

  return (
    <div className="p-4">
      <p role="status" className="mb-3 flex items-center gap-2 rounded-lg bg-notice px-3 py-2 text-sm">
        <Clock size={16} className="shrink-0" aria-hidden />
        {isSendingSoon(dueAt) ? "Sending…" : `It is sent ${dayAndTime(dueAt)}.`}
      </p>
      <div className="mb-4 flex flex-wrap gap-2">
        <Button disabled={busy} onClick={() => void edit()}>
          Cancel and edit
        </Button>
        {!isSendingSoon(dueAt) && (
          <>
            <Button disabled={busy} onClick={() => setChoosing(true)}>
              Change time
            </Button>
            <Button disabled={busy} onClick={() => void send()}>
              Send now
            </Button>
          </>
        )}
        <Button kind="quiet" disabled={busy} onClick={() => void discard()}>
          Discard
        </Button>
      </div>
      <dl className="mb-4 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1 border-b border-line pb-3 text-sm">
        <Line field="From">{from}</Line>
        {to.length > 0 && <Line field="To">{to.map(formatHeaderAddress).join(", ")}</Line>}
        {cc.length > 0 && <Line field="Cc">{cc.map(formatHeaderAddress).join(", ")}</Line>}
        {bcc.length > 0 && <Line field="Bcc">{bcc.map(formatHeaderAddress).join(", ")}</Line>}
        <Line field="Subject">{subject || "(no subject)"}</Line>
        {added.map(({ name, value }) => (
          <Line key={`${name} ${value}`} field={name}>
            {value}
          </Line>
        ))}
      </dl>
      <MessageBody message={{ id: emailId, from: { email: from }, text }} attachments={attachments} />
      <SendTime open={choosing} close={() => setChoosing(false)} choose={(at) => void send(at)} />
    </div>
  );
}

/** A field of a message that goes out. */
export const Line = ({ field, children }: { field: string; children: ReactNode }) => (
  <>
    <dt className="text-muted">{field}</dt>
    <dd dir="auto" className="min-w-0 wrap-anywhere">
      {children}
    </dd>
  </>
);
