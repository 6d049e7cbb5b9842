/**
 * Messages of API keys that wait for a person: the list, the longest waiting first, beside the one that is open, whole
 * as it would go out. One or many at once are approved or rejected.
 */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { Check, CircleAlert, Hourglass, Menu as MenuIcon, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { api, Refusal } from "../lib/api-client.ts";
import { openSidebar } from "../lib/folders.ts";
import { formatCount } from "../lib/format.ts";
import type { WaitingView } from "../lib/mail-views.ts";
import { editHeldCopy } from "../lib/open-composers.ts";
import { approvalsQuery, refreshMail } from "../lib/queries.ts";
import { useShortcuts } from "../lib/shortcuts.ts";
import { fullTime, shortTime } from "../lib/time-format.ts";
import { toast } from "../lib/toast.ts";
import { HeldMessage } from "../parts/message/held-message.tsx";
import { Button, IconButton } from "../parts/ui/button.tsx";
import { Dialog } from "../parts/ui/dialog.tsx";
import { Field } from "../parts/ui/fields.tsx";
import { Failed, Notice, Skeleton } from "../parts/ui/notice.tsx";

/** Length limit of a reason, in characters. It equals the server's (operations/admin/hold-administration.ts). */
const LONGEST_REASON = 500;

type Decision = "approve" | "reject";

export function ApprovePage() {
  const { emailId: openId } = useParams({ strict: false });
  const nowOpen = useRef(openId);
  nowOpen.current = openId;
  const navigate = useNavigate();
  const list = useQuery(approvalsQuery);
  const waiting = list.data?.waiting ?? [];
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  /** Why messages were not sent or rejected, by their id. */
  const [refusals, setRefusals] = useState<ReadonlyMap<string, string>>(new Map());
  /** Messages that a dialog asks about. */
  const [asked, setAsked] = useState<{ decision: Decision; ids: readonly string[] }>();
  /** Progress of a decision. */
  const [busy, setBusy] = useState<{ done: number; of: number }>();
  /** Id of the message that the page has shown whole. */
  const [shown, setShown] = useState<string>();

  const selected = waiting.filter(({ id }) => chosen.has(id)).map(({ id }) => id);
  const index = waiting.findIndex(({ id }) => id === openId);
  const open = (id: string | undefined) =>
    void (id === undefined
      ? navigate({ to: "/approve" })
      : navigate({ to: "/approve/$emailId", params: { emailId: id } }));
  const step = (by: 1 | -1) => {
    const next = waiting[index < 0 ? 0 : index + by];
    if (next) open(next.id);
  };
  function toggle(id: string): void {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  }
  const chooseAll = () => setChosen(new Set(waiting.map(({ id }) => id)));
  const chooseNone = () => setChosen(new Set());

  useEffect(() => {
    document.title = "To approve · Mailroom";
  }, []);

  async function decide(decision: Decision, ids: readonly string[], reason = ""): Promise<void> {
    setAsked(undefined);
    const refused = new Map(refusals);
    const gone = new Set<string>();
    let later: string | undefined;
    for (const id of ids) {
      setBusy({ done: gone.size, of: ids.length });
      try {
        if (decision === "reject") await api.rejectHold({ id, ...(reason.trim() !== "" && { reason }) });
        else later = (await api.approveHold({ id })).sendAt;
        refused.delete(id);
        gone.add(id);
      } catch (error) {
        refused.set(id, (error as Error).message);
        // The others would fail alike.
        if (!(error instanceof Refusal) || error.status === 0 || error.status === 401) break;
      }
    }
    setBusy(undefined);
    setRefusals(refused);
    setChosen(new Set());
    tell(decision, { done: gone.size, of: ids.length, later });
    // The next one, unless the person went elsewhere meanwhile.
    if (openId !== undefined && gone.has(openId) && nowOpen.current === openId) {
      const next = waiting.find(({ id }, at) => !gone.has(id) && at > index);
      open((next ?? waiting.findLast(({ id }) => !gone.has(id)))?.id);
    }
    refreshMail();
  }

  /** Acts on the selected messages after a question, else on the open one once it was shown. */
  function begin(decision: Decision): void {
    if (busy) return;
    if (selected.length > 0) setAsked({ decision, ids: selected });
    else if (openId === undefined || shown !== openId) return;
    else if (decision === "reject") setAsked({ decision, ids: [openId] });
    else void decide(decision, [openId]);
  }
  const toOpen = openId !== undefined && shown === openId ? openId : undefined;
  useShortcuts({
    j: () => step(1),
    k: () => step(-1),
    u: () => open(undefined),
    x: () => openId !== undefined && index >= 0 && toggle(openId),
    "* a": chooseAll,
    "* n": chooseNone,
    // A key that is held down would approve what nobody has read.
    y: ({ repeat }) => !repeat && begin("approve"),
    n: () => begin("reject"),
    m: () => toOpen !== undefined && void editHeldCopy(toOpen),
  });

  return (
    <>
      <section
        aria-label="To approve"
        className={`flex w-full min-w-0 flex-col border-r border-line bg-panel lg:w-88 lg:shrink-0 print:hidden ${openId === undefined ? "" : "max-lg:hidden"}`}
      >
        <header className="border-b border-line px-3 pt-3 pb-2">
          <div className="flex items-center gap-1">
            <IconButton icon={MenuIcon} label="Folders" onClick={openSidebar} className="md:hidden" />
            <h1 className="min-w-0 truncate px-1 text-xl font-semibold tracking-tight">To approve</h1>
          </div>
          <p className="px-1 text-sm text-muted">Nothing here is sent until somebody approves it.</p>
        </header>
        {waiting.length > 0 && (
          <div className="flex min-h-12 flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
            <label className="flex items-center gap-2 text-sm max-md:min-h-8">
              <input
                type="checkbox"
                checked={selected.length === waiting.length}
                onChange={() => (selected.length === waiting.length ? chooseNone() : chooseAll())}
                className="size-3.5 accent-accent max-md:size-4"
              />
              {selected.length === 0 ? "Select all" : `${selected.length} selected`}
            </label>
            {selected.length > 0 && (
              <span className="ml-auto flex gap-2">
                <Button disabled={busy !== undefined} onClick={() => begin("approve")}>
                  Approve…
                </Button>
                <Button kind="danger" disabled={busy !== undefined} onClick={() => begin("reject")}>
                  Reject…
                </Button>
              </span>
            )}
          </div>
        )}
        <p role="status" className={busy && busy.of > 1 ? "px-4 py-1.5 text-sm text-muted" : "sr-only"}>
          {busy && busy.of > 1 && `${busy.done} of ${busy.of} done…`}
        </p>
        <div id="content" tabIndex={-1} className="min-h-0 grow overflow-y-auto outline-none">
          {list.isPending && <Skeleton what="what waits" />}
          {list.isError && waiting.length === 0 && <Failed error={list.error} retry={() => list.refetch()} />}
          {list.isSuccess && waiting.length === 0 && (
            <Notice icon={Check} title="Nothing to approve">
              Messages of API keys that need your approval appear here.
            </Notice>
          )}
          {waiting.length > 0 && (
            <ul aria-label="Waiting messages">
              {waiting.map((one) => (
                <Row
                  key={one.id}
                  of={one}
                  current={one.id === openId}
                  selected={chosen.has(one.id)}
                  refusal={refusals.get(one.id)}
                  select={() => toggle(one.id)}
                />
              ))}
            </ul>
          )}
          {list.data?.more && (
            <p className="p-4 text-center text-sm text-muted">
              These are the first {waiting.length}; more are waiting.
            </p>
          )}
        </div>
      </section>
      <div className={`min-w-0 grow ${openId === undefined ? "max-lg:hidden" : ""}`}>
        {openId === undefined ? (
          waiting.length > 0 && (
            <Notice icon={Hourglass} title="No message selected">
              <p className="max-md:hidden">
                <kbd>j</kbd> and <kbd>k</kbd> go through the list, <kbd>y</kbd> approves, <kbd>n</kbd> rejects.
              </p>
            </Notice>
          )
        ) : (
          <HeldMessage
            key={openId}
            id={openId}
            refusal={refusals.get(openId)}
            isBusy={busy !== undefined}
            approve={() => void decide("approve", [openId])}
            reject={() => setAsked({ decision: "reject", ids: [openId] })}
            onShown={() => setShown(openId)}
          />
        )}
      </div>
      <Dialog
        open={asked !== undefined}
        close={() => setAsked(undefined)}
        title={asked ? formatApprovalQuestion(asked.decision, asked.ids.length) : ""}
      >
        {asked && (
          <Question
            decision={asked.decision}
            about={waiting.filter(({ id }) => asked.ids.includes(id))}
            cancel={() => setAsked(undefined)}
            decide={(reason) => void decide(asked.decision, asked.ids, reason)}
          />
        )}
      </Dialog>
    </>
  );
}

const formatApprovalQuestion = (decision: Decision, count: number): string =>
  `${decision === "approve" ? "Approve" : "Reject"} ${count === 1 ? "this message" : formatCount(count, "message")}?`;

/** `later`: when an approved message is sent, if not now. The refusal of a single one stands beside it. */
function tell(decision: Decision, { done, of, later }: { done: number; of: number; later: string | undefined }): void {
  const did = decision === "approve" ? "Approved" : "Rejected";
  const failed = of - done;
  if (of > 1) {
    const text = `${did}: ${formatCount(done, "message")}`;
    toast(failed === 0 ? { text } : { text: `${text}. Not done: ${failed}; the list shows why`, tone: "danger" });
  } else if (failed === 0) toast({ text: later === undefined ? did : `${did}: it is sent ${fullTime(later)}` });
}

function Row({
  of: { id, subject, snippet, key, mailbox, since, sendAt },
  current,
  selected,
  refusal,
  select,
}: {
  of: WaitingView;
  current: boolean;
  selected: boolean;
  refusal: string | undefined;
  select: () => void;
}) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (current) row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const title = subject || "(no subject)";
  return (
    <li ref={row} className={`relative border-b border-line/70 ${selected ? "bg-chosen/60" : ""}`}>
      <label className="absolute top-0 bottom-0 left-0 z-10 flex w-9 cursor-pointer items-start justify-center pt-3.5 max-md:w-10">
        <input
          type="checkbox"
          aria-label={`Select ${title}`}
          checked={selected}
          onChange={select}
          className="size-3.5 accent-accent max-md:size-4"
        />
      </label>
      <Link
        to="/approve/$emailId"
        params={{ emailId: id }}
        aria-current={current || undefined}
        className={`block py-2.5 pr-4 pl-9 -outline-offset-2 max-md:pl-10 ${current ? "bg-chosen" : "hover:bg-hover"}`}
      >
        <span className="flex items-baseline gap-2">
          <span className="min-w-0 truncate font-medium">{title}</span>
          <time dateTime={since} title={fullTime(since)} className="ml-auto shrink-0 text-xs text-muted tabular-nums">
            {shortTime(since)}
          </time>
        </span>
        <span className="block truncate text-sm text-soft">
          {key === null ? "A deleted key" : `“${key}”`} from {mailbox}
        </span>
        <span className="block truncate text-sm text-muted">
          {sendAt !== null && `To be sent ${shortTime(sendAt)}. `}
          {snippet}
        </span>
        {refusal !== undefined && (
          <span className="mt-1 flex items-start gap-1.5 text-sm text-danger">
            <CircleAlert size={14} className="mt-0.5 shrink-0" aria-hidden />
            <span className="line-clamp-2 min-w-0">Not sent: {refusal}</span>
          </span>
        )}
      </Link>
    </li>
  );
}

/** Asks before messages are rejected, or many are approved. */
function Question({
  decision,
  about,
  cancel,
  decide,
}: {
  decision: Decision;
  about: readonly WaitingView[];
  cancel: () => void;
  decide: (reason: string) => void;
}) {
  const [reason, setReason] = useState("");
  const rejects = decision === "reject";
  return (
    <form
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        decide(reason);
      }}
    >
      {about.length > 1 && (
        <ul aria-label="Messages" className="max-h-48 list-disc overflow-y-auto pl-5 text-sm text-soft">
          {about.map(({ id, subject }) => (
            <li key={id} className="wrap-anywhere">
              {subject || "(no subject)"}
            </li>
          ))}
        </ul>
      )}
      <p className="text-sm text-soft">
        {rejects
          ? "It will not be sent, and is deleted after 30 days."
          : "Each is sent as it is, even if you have not read it."}
      </p>
      {rejects && (
        <Field
          label="Reason (optional; the program sees it)"
          value={reason}
          maxLength={LONGEST_REASON}
          onChange={(event) => setReason(event.target.value)}
          autoComplete="off"
        />
      )}
      <div className="flex justify-end gap-2 pt-1">
        <Button onClick={cancel}>
          <X size={15} aria-hidden /> Cancel
        </Button>
        <Button kind={rejects ? "destroy" : "primary"} type="submit">
          {rejects ? "Reject" : "Approve"} {about.length > 1 && formatCount(about.length, "message")}
        </Button>
      </div>
    </form>
  );
}
