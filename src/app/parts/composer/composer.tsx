/**
 * Places where messages are written: drafts on a page or below a conversation, and the window over the page for a new message
 * or a draft. The form itself (composer-form.tsx) is loaded when it is first shown.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Bot, Maximize2, Minimize2, Minus, TriangleAlert, X } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import { blankComposerStart, buildComposerStart, listSenderAddresses } from "../../lib/draft-content.ts";
import { chosenMailbox } from "../../lib/folders.ts";
import { lazyPart } from "../../lib/lazy-part.tsx";
import type { DraftContent, MailboxView, ThreadView } from "../../lib/mail-views.ts";
import {
  type Composing,
  closeComposer,
  noteComposerSubject,
  noteSavedDraft,
  resizeComposer,
  tellSent,
  useMessageWindows,
} from "../../lib/open-composers.ts";
import { draftQuery, mailboxesQuery, refreshMail } from "../../lib/queries.ts";
import { Answered } from "../message/answered.tsx";
import { IconButton } from "../ui/button.tsx";
import { NotLoaded } from "../ui/notice.tsx";
import type { ComposerProps } from "./composer-form.tsx";

export const Composer = lazyPart<ComposerProps>(
  "the composer",
  async () => (await import("./composer-form.tsx")).Composer,
);

const ScheduledMessage = lazyPart(
  "the message",
  async () => (await import("../message/scheduled-message.tsx")).ScheduledMessage,
);

/** A draft on a page of its own. */
export function DraftBox({
  thread,
  folder,
  left,
}: {
  thread: ThreadView;
  folder: string;
  left: (to?: "list") => void;
}) {
  const navigate = useNavigate();
  const close = () => left("list");
  const { data: draft } = useQuery(draftQuery(thread.id));
  const answers = draft?.answers ?? null;
  return (
    <div className={answers === null ? "" : "grid items-start gap-x-6 gap-y-6 @2xl:grid-cols-2"}>
      <section
        aria-label="Draft"
        onKeyDown={onEscape(close)}
        className="flex min-w-0 flex-col rounded-xl border border-line bg-raised"
      >
        <DraftEditor
          draftId={thread.id}
          asksSubject
          close={close}
          left={() => left()}
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
      {answers !== null && <Answered threadId={answers} />}
    </div>
  );
}

/** A draft of a person or an agent, with all recipients and text, to be changed, sent or discarded. */
export function DraftEditor({
  draftId,
  fresh = false,
  asksSubject = false,
  close,
  left,
  moved,
  titled,
  archive,
}: {
  draftId: string;
  /** True: nobody has seen it yet, so it is discarded if it is closed without a change. */
  fresh?: boolean;
  /** True: the subject can be changed, of a reply, too. */
  asksSubject?: boolean;
  /** Called when it is to be closed and saved. */
  close: () => void;
  /** Called when it was sent or discarded. */
  left: () => void;
  /** Called when the subject changes. */
  titled?: (subject: string) => void;
  /** Archives the conversation that it replies to, and returns what undoes that. */
  archive?: (() => () => void) | undefined;
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
  if (dueAt !== null) return <ScheduledMessage draft={draft.data} dueAt={dueAt} left={discarded} />;
  const mailbox = mailboxes.find(({ address, aliases }) => address === from || aliases.includes(from));
  const own = answers === null ? listSenderAddresses(mailboxes) : mailbox ? [mailbox.address, ...mailbox.aliases] : [];

  return (
    <>
      <DraftNotices draft={draft.data} />
      <Composer
        key={openedAs}
        start={buildComposerStart(draft.data, fresh)}
        senders={[...new Set([from, ...own])]}
        asksSubject={answers === null || subject === "" || asksSubject}
        sent={(outcome, archives) => {
          left();
          client.removeQueries({ queryKey: draftQuery(draftId).queryKey });
          tellSent(outcome, archives ? archive?.() : undefined);
        }}
        mayArchive={archive !== undefined}
        close={close}
        {...(titled && { titled })}
        discarded={discarded}
        saved={({ draftId }) => {
          refreshMail([]);
          moved?.(draftId);
        }}
      />
    </>
  );
}

/** The agent that made it, and the reason why it was not sent. */
function DraftNotices({ draft }: { draft: DraftContent }) {
  const { agent, refusal, added = [] } = draft;
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
      {added.map(({ name, value }) => (
        <Strip key={`${name} ${value}`} icon={TriangleAlert}>
          It also goes out with <span className="font-medium">{name}</span>:{" "}
          <bdi className="wrap-anywhere">{value}</bdi>
        </Strip>
      ))}
    </>
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

/** A handler of keys that calls `close` for Escape, except in a dialog or a menu that it closes. */
export const onEscape =
  (close: () => void) =>
  (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented || (event.target as Element).closest("dialog")) return;
    event.preventDefault();
    close();
  };

/** The windows over the page, the latest at the right. Closing one keeps its draft. */
export function MessageWindows({ mailboxes }: { mailboxes: readonly MailboxView[] }) {
  const windows = useMessageWindows();
  // Over text that a layer covers, checkers of contrast decide nothing.
  if (windows.length === 0) return null;
  return (
    <div className="pointer-events-none absolute inset-0 z-30 flex items-end justify-end gap-x-3 px-5 max-md:gap-x-0 max-md:px-0 print:hidden">
      {windows.map((composing) => (
        <MessageWindow key={composing.key} composing={composing} mailboxes={mailboxes} />
      ))}
    </div>
  );
}

const PLACES = {
  normal:
    "h-[min(38rem,88%)] w-[min(40rem,92vw)] shrink-0 rounded-t-xl max-md:absolute max-md:inset-0 max-md:h-full max-md:w-full max-md:rounded-none",
  minimised: "w-64 min-w-10 rounded-t-xl",
  large:
    "fixed inset-x-[max(1rem,calc(50vw-32rem))] inset-y-[4vh] z-40 rounded-xl shadow-[0_0_0_100vmax_rgb(0_0_0/0.4)] max-md:inset-0 max-md:rounded-none",
} as const;

function MessageWindow({ composing: latest, mailboxes }: { composing: Composing; mailboxes: readonly MailboxView[] }) {
  // A message that is saved stays in its composer while the window is mounted.
  const [composing] = useState(latest);
  const { key, draftId } = composing;
  const { size, subject } = latest;
  const saved = (id: string) => noteSavedDraft(key, id);
  const titled = (title: string) => noteComposerSubject(key, title);
  const close = () => closeComposer(key);
  const { mailbox: asked } = useSearch({ strict: false });
  const senders = listSenderAddresses(mailboxes);
  const shown = (composing.kind === "new" && composing.from) || chosenMailbox(mailboxes, asked)?.address;
  const from = senders.find((sender) => sender === shown) ?? senders[0] ?? "";
  const name = composing.kind === "new" && draftId === undefined ? "New message" : "Draft";
  const isMinimised = size === "minimised";

  return (
    <section
      aria-label={name}
      onKeyDown={onEscape(close)}
      className={`pointer-events-auto flex flex-col border border-line bg-raised shadow-2xl ${PLACES[size]}`}
    >
      <header className="flex items-center justify-between gap-2 border-b border-line py-1 pr-1.5 pl-4">
        <h2 className="min-w-0 grow text-sm font-semibold">
          <button
            type="button"
            title={isMinimised ? "Open" : "Minimise"}
            onClick={() => resizeComposer(key, isMinimised ? "normal" : "minimised")}
            className="block w-full truncate text-left"
          >
            <bdi>{subject || name}</bdi>
          </button>
        </h2>
        {!isMinimised && (
          <IconButton
            icon={Minus}
            label="Minimise"
            onClick={() => resizeComposer(key, "minimised")}
            className="max-md:size-9"
          />
        )}
        {!isMinimised && (
          <IconButton
            icon={size === "large" ? Minimize2 : Maximize2}
            label={size === "large" ? "Make smaller" : "Make larger"}
            onClick={() => resizeComposer(key, size === "large" ? "normal" : "large")}
            className="max-md:hidden"
          />
        )}
        <IconButton icon={X} label="Save and close" onClick={close} className="max-md:size-9" />
      </header>
      <div className={isMinimised ? "hidden" : "flex min-h-0 grow flex-col overflow-y-auto"}>
        {draftId !== undefined ? (
          <DraftEditor
            draftId={draftId}
            fresh={composing.kind === "draft" && composing.fresh}
            close={close}
            left={close}
            moved={saved}
            titled={titled}
          />
        ) : (
          <Composer
            start={
              composing.kind === "unsaved"
                ? composing.start
                : blankComposerStart(from, composing.kind === "new" ? composing.to : undefined)
            }
            senders={composing.kind === "unsaved" ? [...new Set([composing.start.fields.from, ...senders])] : senders}
            asksSubject
            sent={(outcome) => {
              close();
              tellSent(outcome);
            }}
            close={close}
            titled={titled}
            discarded={close}
            saved={(draft) => saved(draft.draftId)}
          />
        )}
      </div>
    </section>
  );
}
