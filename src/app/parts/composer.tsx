/**
 * Where messages are written: drafts on a page or below a conversation, and the window over the page for a new message
 * or a draft. The form itself (composer-form.tsx) is loaded when it is first shown.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Bot, Clock, TriangleAlert, X } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api, type DraftContent, type MailboxView, type ThreadView } from "../lib/api.ts";
import { type Composing, closeMessage, noteSaved, tellSent, undoSend, useComposing } from "../lib/compose.ts";
import { blank, sendersOf, startOf } from "../lib/draft-content.ts";
import { chosenMailbox } from "../lib/folders.ts";
import { lazyPart } from "../lib/lazy-part.tsx";
import { draftQuery, mailboxesQuery, refreshMail } from "../lib/queries.ts";
import { fullTime } from "../lib/time.ts";
import { toastFailure } from "../lib/toast.ts";
import { Button, IconButton } from "./button.tsx";
import type { ComposerProps } from "./composer-form.tsx";
import { NotLoaded } from "./notice.tsx";

export const Composer = lazyPart<ComposerProps>(
  "the composer",
  async () => (await import("./composer-form.tsx")).Composer,
);

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

/** A draft of a person or an agent, with all recipients and text, to be changed, sent or discarded. */
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
  if (!draft.data) return <NotLoaded query={draft} what="the draft" />;
  const { from, answers, dueAt, subject } = draft.data;
  function discarded(): void {
    client.removeQueries({ queryKey: draftQuery(draftId).queryKey });
    left();
  }
  if (dueAt !== null) return <Due draft={draft.data} dueAt={dueAt} discarded={discarded} />;
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
        discarded={discarded}
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
            Show the conversation that it replies to
          </Link>
        </p>
      )}
    </>
  );
}

/** A draft that is scheduled and can be undone. */
function Due({ draft, dueAt, discarded }: { draft: DraftContent; dueAt: string; discarded: () => void }) {
  async function discard(): Promise<void> {
    if (!confirm("Discard this message? It will not be sent, and cannot be brought back.")) return;
    try {
      await api.discardDraft(draft.draftId);
      discarded();
    } catch (error) {
      toastFailure(error);
    }
    refreshMail();
  }
  return (
    <div className="p-4">
      <p className="flex items-center gap-2 text-sm">
        <Clock size={16} className="shrink-0 text-muted" aria-hidden />
        <span>
          “{draft.subject || "(no subject)"}” will be sent {fullTime(dueAt)}.
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

/** The window over the page. Closing it keeps the draft. */
export function NewMessageWindow({ mailboxes }: { mailboxes: readonly MailboxView[] }) {
  const composing = useComposing();
  return composing && <MessageWindow key={composing.key} composing={composing} mailboxes={mailboxes} />;
}

function MessageWindow({ composing: latest, mailboxes }: { composing: Composing; mailboxes: readonly MailboxView[] }) {
  // A message that is saved stays in its composer while the window is mounted.
  const [composing] = useState(latest);
  const { draftId } = composing;
  const saved = (id: string) => noteSaved(composing.key, id);
  const { mailbox: asked } = useSearch({ strict: false });
  const senders = sendersOf(mailboxes);
  const shown = (composing.kind === "new" && composing.from) || chosenMailbox(mailboxes, asked)?.address;
  const from = senders.find((sender) => sender === shown) ?? senders[0] ?? "";
  const name = composing.kind === "new" && draftId === undefined ? "New message" : "Draft";

  return (
    <section
      aria-label={name}
      className="fixed right-5 bottom-0 z-30 flex h-[min(38rem,88vh)] w-[min(40rem,92vw)] flex-col rounded-t-xl border border-line bg-raised shadow-2xl max-md:inset-0 max-md:h-full max-md:w-full max-md:rounded-none"
    >
      <header className="flex items-center justify-between border-b border-line py-1 pr-1.5 pl-4">
        <h2 className="text-sm font-semibold">{name}</h2>
        <IconButton icon={X} label="Save and close" onClick={closeMessage} />
      </header>
      {draftId !== undefined ? (
        <DraftEditor
          draftId={draftId}
          fresh={composing.kind === "draft" && composing.fresh}
          left={closeMessage}
          moved={saved}
        />
      ) : (
        <Composer
          start={composing.kind === "unsaved" ? composing.start : blank(from)}
          senders={composing.kind === "unsaved" ? [...new Set([composing.start.fields.from, ...senders])] : senders}
          asksSubject
          sent={(outcome) => {
            closeMessage();
            tellSent(outcome);
          }}
          discarded={closeMessage}
          saved={(draft) => saved(draft.draftId)}
        />
      )}
    </section>
  );
}
