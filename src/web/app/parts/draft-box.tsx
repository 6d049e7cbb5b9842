/** A draft, somebody's own or an agent's: every recipient and every word of it, to be changed, sent, saved or discarded. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { api, type ThreadView } from "../lib/api.ts";
import { fullNameOf } from "../lib/people.ts";
import { draftQuery, mailboxesQuery, queryClient, refreshMail } from "../lib/queries.ts";
import { threadActions } from "../lib/thread-actions.ts";
import { toast } from "../lib/toast.ts";
import { Composer, type Written } from "./composer.tsx";
import { Failed, Skeleton } from "./notice.tsx";

export function DraftBox({ thread, folder, left }: { thread: ThreadView; folder: string; left: () => void }) {
  const draft = useQuery(draftQuery(thread.id));
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const navigate = useNavigate();
  if (draft.isError) return <Failed error={draft.error} retry={() => draft.refetch()} />;
  if (!draft.data) return <Skeleton what="the draft" />;
  const { from, to, cc, bcc, subject, text, answers } = draft.data;
  const mailbox = mailboxes.find(({ id }) => id === thread.mailboxId);

  async function send(written: Written): Promise<void> {
    await api.sendDraft(thread.id, written);
    toast({ text: "Sent" });
    left();
    refreshMail();
  }
  async function save(written: Written): Promise<void> {
    const { draftId } = await api.saveDraft(thread.id, written);
    toast({ text: "Saved" });
    refreshMail([]);
    queryClient.removeQueries({ queryKey: ["thread", thread.id] });
    await navigate({
      to: "/mail/$folder/$threadId",
      params: { folder, threadId: draftId },
      search: true,
      replace: true,
    });
  }
  function discard(): void {
    if (!confirm("Discard this draft? It cannot be brought back.")) return;
    void threadActions.deleteForGood([thread]);
    left();
  }

  return (
    <section aria-label="Draft" className="flex min-h-96 flex-col rounded-xl border border-line bg-raised">
      <p className="rounded-t-xl border-b border-line bg-notice px-4 py-2 text-sm">
        A draft: nothing is sent until you send it.{" "}
        {answers !== null && (
          <Link
            to="/mail/$folder/$threadId"
            params={{ folder: "all", threadId: answers }}
            search={true}
            className="underline"
          >
            Show what it answers
          </Link>
        )}
      </p>
      <Composer
        senders={[...new Set([from, thread.mailbox, ...(mailbox?.aliases ?? [])])]}
        initial={{
          from,
          to: to.map(fullNameOf).join(", "),
          cc: cc.map(fullNameOf).join(", "),
          bcc: bcc.map(fullNameOf).join(", "),
          subject,
          text,
        }}
        asksSubject
        send={send}
        save={save}
        discard={discard}
      />
    </section>
  );
}
