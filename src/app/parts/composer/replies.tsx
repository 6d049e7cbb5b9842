/**
 * The area below the messages of a conversation: answers that wait for approval, drafts that reply to it, agents' drafts
 * included, and the buttons to reply or forward. The server proposes the recipients (rules: Reply), and the person may change them.
 */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Bot, Clock, Forward, Hourglass, PencilLine, ReplyAll, Reply as ReplyIcon } from "lucide-react";
import { use, useState } from "react";
import { startOfReply } from "../../lib/draft-content.ts";
import type { DraftSummary, ThreadDetailView, ThreadView } from "../../lib/mail-views.ts";
import { forwardMessage, isSendingSoon, tellSent } from "../../lib/open-composers.ts";
import {
  approvalsQuery,
  mailboxesQuery,
  refreshMail,
  replyDefaultsQuery,
  replyDraftsQuery,
} from "../../lib/queries.ts";
import { ListContext } from "../../lib/selection.ts";
import { useShortcuts } from "../../lib/shortcuts.ts";
import { threadActions } from "../../lib/thread-actions.ts";
import { dayAndTime } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";
import { NotLoaded } from "../ui/notice.tsx";
import { Composer, DraftEditor, onEscape } from "./composer.tsx";

export function Replies({ detail: { thread, messages, permissions } }: { detail: ThreadDetailView }) {
  const { left } = use(ListContext);
  const mayArchive = permissions.manage && !["archive", "trash", "spam"].includes(thread.folder);
  const archive = mayArchive
    ? () => {
        const archived = threadActions.archiveQuietly([thread]);
        left();
        return () => void archived.then((undo) => undo());
      }
    : undefined;
  const { data: drafts = [] } = useQuery(replyDraftsQuery(thread.id));
  const { data: approvals } = useQuery(approvalsQuery);
  const held = approvals?.waiting.filter(({ answers }) => answers === thread.id) ?? [];
  const [replyingTo, setReplyingTo] = useState<"sender" | "all">();
  /** Id of the draft that the reply in the composer was saved as, so that it is not shown twice. */
  const [written, setWritten] = useState<string>();
  const newest = messages.at(-1);
  const forward = () => void (newest && forwardMessage(newest.id));
  useShortcuts({ r: () => setReplyingTo("sender"), a: () => setReplyingTo("all"), f: forward });
  function close(): void {
    setReplyingTo(undefined);
    setWritten(undefined);
    refreshMail([thread.id]);
  }

  return (
    <>
      {held.map(({ id, key, snippet }) => (
        <Link
          key={id}
          to="/approve/$emailId"
          params={{ emailId: id }}
          className="mt-3 flex items-center gap-3 rounded-xl border border-dashed border-line bg-raised px-4 py-3 text-sm hover:bg-hover print:hidden"
        >
          <Hourglass size={16} className="shrink-0 text-muted" aria-hidden />
          <span className="font-medium md:shrink-0">
            {key === null ? "An answer waits for approval" : `An answer of “${key}” waits for approval`}
          </span>
          <span className="min-w-0 truncate text-muted max-md:hidden">{snippet}</span>
        </Link>
      ))}
      {drafts
        .filter(({ draftId }) => replyingTo === undefined || draftId !== written)
        .map((draft) => (
          <ReplyDraft key={draft.draftId} draft={draft} archive={archive} />
        ))}
      {replyingTo ? (
        <ReplyBox
          key={replyingTo}
          thread={thread}
          all={replyingTo === "all"}
          archive={archive}
          close={close}
          saved={setWritten}
        />
      ) : (
        <div className="mt-4 flex flex-wrap gap-2 print:hidden">
          <Button onClick={() => setReplyingTo("sender")} title="Reply (r)">
            <ReplyIcon size={15} aria-hidden /> Reply
          </Button>
          <Button onClick={() => setReplyingTo("all")} title="Reply to all (a)">
            <ReplyAll size={15} aria-hidden /> Reply to all
          </Button>
          <Button onClick={forward} title="Forward (f)">
            <Forward size={15} aria-hidden /> Forward
          </Button>
        </div>
      )}
    </>
  );
}

/** Folded until it is opened to be edited. */
function ReplyDraft({ draft, archive }: { draft: DraftSummary; archive: (() => () => void) | undefined }) {
  const [open, setOpen] = useState(false);
  const { agent, dueAt, text } = draft;
  const Icon = dueAt !== null ? Clock : agent === null ? PencilLine : Bot;
  const what =
    dueAt !== null
      ? isSendingSoon(dueAt)
        ? "Sending…"
        : `Scheduled for ${dayAndTime(dueAt)}`
      : agent === null
        ? "Draft"
        : `Draft of “${agent.key}”`;
  return (
    <section
      aria-label={agent === null ? "Draft" : "Draft of an agent"}
      onKeyDown={onEscape(() => setOpen(false))}
      className="mt-3 flex flex-col rounded-xl border border-dashed border-line bg-raised"
    >
      {open ? (
        <DraftEditor
          draftId={draft.draftId}
          archive={archive}
          close={() => setOpen(false)}
          left={() => refreshMail()}
        />
      ) : (
        <button
          type="button"
          onClick={() => setOpen(true)}
          className="flex w-full items-center gap-3 rounded-xl px-4 py-3 text-left text-sm hover:bg-hover"
        >
          <Icon size={16} className="shrink-0 text-muted" aria-hidden />
          <span className="shrink-0 font-medium">{what}</span>
          <span dir="auto" className="min-w-0 grow truncate text-muted">
            {text}
          </span>
        </button>
      )}
    </section>
  );
}

function ReplyBox({
  thread,
  all,
  archive,
  close,
  saved,
}: {
  thread: ThreadView;
  all: boolean;
  archive: (() => () => void) | undefined;
  close: () => void;
  saved: (draftId: string) => void;
}) {
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const defaults = useQuery(replyDefaultsQuery(thread.id, all));
  const mailbox = mailboxes.find(({ id }) => id === thread.mailboxId);
  return (
    <section
      aria-label={all ? "Reply to all" : "Reply"}
      onKeyDown={onEscape(close)}
      className="mt-4 flex min-h-72 flex-col rounded-xl border border-line bg-raised"
    >
      {defaults.data ? (
        <Composer
          start={startOfReply(defaults.data, thread.id)}
          senders={[...new Set([defaults.data.from, thread.mailbox, ...(mailbox?.aliases ?? [])])]}
          asksSubject={false}
          sent={(outcome, archives) => {
            close();
            tellSent(outcome, archives ? archive?.() : undefined);
          }}
          mayArchive={archive !== undefined}
          close={close}
          discarded={close}
          saved={({ draftId }) => saved(draftId)}
        />
      ) : (
        <NotLoaded query={defaults} what="the reply" />
      )}
    </section>
  );
}
