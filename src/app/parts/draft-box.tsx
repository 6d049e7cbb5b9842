/** A draft of a person or an agent, with all recipients and text, to be changed, sent or discarded. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Bot, Clock, TriangleAlert } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api, type DraftContent, type ThreadView } from "../lib/api.ts";
import { draftQuery, mailboxesQuery, refreshMail } from "../lib/queries.ts";
import { tellSent, undoSend } from "../lib/sent.ts";
import { fullTime } from "../lib/time.ts";
import { toast } from "../lib/toast.ts";
import { sendersOf, startOf } from "../lib/writing.ts";
import { Button } from "./button.tsx";
import { Composer } from "./composer.tsx";
import { Failed, Skeleton } from "./notice.tsx";

/** A draft on a page of its own. */
export function DraftBox({ thread, folder, left }: { thread: ThreadView; folder: string; left: () => void }) {
  const navigate = useNavigate();
  return (
    <section aria-label="Draft" className="flex flex-col rounded-xl border border-line bg-raised">
      <DraftEditor
        draftId={thread.id}
        showsAnswered
        left={left}
        moved={(draftId) =>
          void navigate({
            to: "/mail/$folder/$threadId",
            params: { folder, threadId: draftId },
            search: true,
            replace: true,
          })
        }
      />
    </section>
  );
}

export function DraftEditor({
  draftId,
  fresh = false,
  showsAnswered = false,
  left,
  moved,
}: {
  draftId: string;
  /** True: nobody has seen it yet, so it is discarded if it is closed without a change. */
  fresh?: boolean;
  showsAnswered?: boolean;
  /** Called when it was sent or discarded. */
  left: () => void;
  /** Called with the draft's new id. */
  moved?: (draftId: string) => void;
}) {
  const draft = useQuery(draftQuery(draftId));
  const client = useQueryClient();
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  // The editor stays mounted when the draft gets a new id; only the page's URL changes.
  const [openedAs] = useState(draftId);
  if (draft.isError) return <Failed error={draft.error} retry={() => draft.refetch()} />;
  if (!draft.data) return <Skeleton what="the draft" />;
  const { from, answers, dueAt, subject } = draft.data;
  if (dueAt !== null) return <Due draft={draft.data} dueAt={dueAt} />;
  const mailbox = mailboxes.find(({ address, aliases }) => address === from || aliases.includes(from));
  const own = answers === null ? sendersOf(mailboxes) : mailbox ? [mailbox.address, ...mailbox.aliases] : [];

  return (
    <>
      <DraftNotices draft={draft.data} showsAnswered={showsAnswered} />
      <Composer
        key={openedAs}
        start={startOf(draft.data, fresh)}
        senders={[...new Set([from, ...own])]}
        asksSubject={answers === null || subject === "" || showsAnswered}
        sent={(outcome) => {
          left();
          client.removeQueries({ queryKey: draftQuery(draftId).queryKey });
          tellSent(outcome);
        }}
        discarded={() => {
          client.removeQueries({ queryKey: draftQuery(draftId).queryKey });
          left();
        }}
        saved={({ draftId }) => {
          refreshMail([]);
          moved?.(draftId);
        }}
      />
    </>
  );
}

/** The agent that made it, the reason why it was not sent, and a link to the conversation that it replies to. */
function DraftNotices({ draft, showsAnswered }: { draft: DraftContent; showsAnswered: boolean }) {
  const { agent, refusal, answers } = draft;
  return (
    <>
      {refusal !== null && (
        <Strip icon={TriangleAlert}>
          <strong className="font-semibold">It was not sent.</strong> {refusal}
        </Strip>
      )}
      {agent !== null && (
        <Strip icon={Bot}>
          Drafted by an agent, with the API key “{agent.key}” of {agent.person}. Review it: nothing is sent until you
          send it.
        </Strip>
      )}
      {showsAnswered && answers !== null && (
        <p className="px-4 py-2 text-sm text-muted">
          <Link
            to="/mail/$folder/$threadId"
            params={{ folder: "all", threadId: answers }}
            search={true}
            className="underline"
          >
            Show what it answers
          </Link>
        </p>
      )}
    </>
  );
}

/** A draft that is scheduled and can be undone. */
function Due({ draft, dueAt }: { draft: DraftContent; dueAt: string }) {
  async function discard(): Promise<void> {
    if (!confirm("Discard this message? It is not sent then, and cannot be brought back.")) return;
    await api.discardDraft(draft.draftId).catch((error: Error) => toast({ text: error.message, tone: "danger" }));
    refreshMail();
  }
  return (
    <div className="p-4">
      <p className="flex items-center gap-2 text-sm">
        <Clock size={16} className="shrink-0 text-muted" aria-hidden />
        <span>
          “{draft.subject || "(no subject)"}” is to be sent {fullTime(dueAt)}.
        </span>
      </p>
      <div className="mt-3 flex gap-2">
        <Button onClick={() => void undoSend(draft.draftId)}>Undo and edit</Button>
        <Button kind="quiet" onClick={() => void discard()}>
          Discard
        </Button>
      </div>
    </div>
  );
}

function Strip({ icon: Icon, children }: { icon: typeof Bot; children: ReactNode }) {
  return (
    <p className="flex items-center gap-2.5 border-b border-line bg-notice px-4 py-2 text-sm first:rounded-t-xl">
      <Icon size={16} className="shrink-0" aria-hidden />
      <span>{children}</span>
    </p>
  );
}
