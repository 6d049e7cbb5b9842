/** The deeds of an API key, with filters, and an undo that first tells what it would take back. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { groupUndoneByThread, journalSentence, listReasonsNotUndone } from "../../lib/journal-words.ts";
import { threadQuery, useChange } from "../../lib/queries.ts";
import { fullTime, hoursAgo, toLocalTimeInput } from "../../lib/time-format.ts";
import {
  type JournalEntryView,
  type JournalFilters,
  journalQuery,
  KEYS,
  type KeyView,
  type UndoView,
} from "../../pages/settings/settings-developers.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Field, Select } from "../ui/fields.tsx";
import { NotLoaded } from "../ui/notice.tsx";
import { RowList } from "./row-list.tsx";
import { Badge, ErrorLine, Panel } from "./settings-blocks.tsx";

const KINDS = [
  { value: "", text: "Everything" },
  { value: "changed", text: "Changes" },
  { value: "sent", text: "Sending" },
  { value: "refused", text: "Refused by its policy" },
  { value: "read", text: "Reading" },
];
const OUTCOMES = [
  { value: "", text: "Any outcome" },
  { value: "ok", text: "Done" },
  { value: "held", text: "Waits for approval" },
  { value: "forbidden", text: "Not allowed" },
  { value: "rate_limited", text: "Over a limit" },
];
/** Values are hours. */
const TIMES = [
  { value: "", text: "Any time" },
  { value: "1", text: "In the last hour" },
  { value: "24", text: "In the last day" },
  { value: "168", text: "In the last week" },
];

/** How requests come, where that is worth telling. */
const FACES: Partial<Record<NonNullable<JournalEntryView["face"]>, string>> = {
  mcp: "over MCP",
  smtp: "from a mail app",
  schedule: "at the scheduled time",
  app: "in the app",
  cli: "at the command line",
};

/** Conversations, and messages, that the dialog names. */
const MOST_NAMED = 10;

export function KeyJournal({ of: key }: { of: KeyView }) {
  const [filters, setFilters] = useState<JournalFilters>({});
  const [hours, setHours] = useState("");
  /** The time from which on the dialog takes back. */
  const [since, setSince] = useState<string>();
  const list = useInfiniteQuery(journalQuery(key.id, filters));
  const entries = list.data?.pages.flatMap((page) => page.entries) ?? [];
  const filter = (part: Partial<JournalFilters>) => setFilters({ ...filters, ...part });
  return (
    <Panel
      title="Journal"
      about="What the key did, newest first. It contains no text of mail, no subjects and no search terms."
    >
      <UndoSince begin={setSince} />
      <div className="mt-5 mb-4 flex flex-wrap gap-3">
        <Select
          label="What"
          choices={KINDS}
          value={filters.kind ?? ""}
          onChange={({ target: { value } }) =>
            filter({ kind: value === "" ? undefined : (value as JournalEntryView["kind"]) })
          }
        />
        <Select
          label="Outcome"
          choices={OUTCOMES}
          value={filters.outcome ?? ""}
          onChange={({ target: { value } }) => filter({ outcome: value === "" ? undefined : value })}
        />
        <Select
          label="When"
          choices={TIMES}
          value={hours}
          onChange={({ target: { value } }) => {
            setHours(value);
            filter({ since: value === "" ? undefined : hoursAgo(Number(value)) });
          }}
        />
      </div>
      {list.data === undefined && <NotLoaded query={list} what="the journal" />}
      <RowList of={entries} label="Journal" empty={list.isSuccess && "No entries."}>
        {(entry) => <Entry key={entry.id} of={entry} undo={() => setSince(entry.at)} />}
      </RowList>
      {list.hasNextPage && (
        <Button
          kind="quiet"
          className="mt-3"
          disabled={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
        >
          {list.isFetchingNextPage ? "Loading…" : "Show more"}
        </Button>
      )}
      <Dialog open={since !== undefined} close={() => setSince(undefined)} title={`Undo what ${key.name} did`} wide>
        {since !== undefined && <Undo id={key.id} since={since} close={() => setSince(undefined)} />}
      </Dialog>
    </Panel>
  );
}

/** Asks from which time on to take back. */
function UndoSince({ begin }: { begin: (since: string) => void }) {
  const [text, setText] = useState(() => toLocalTimeInput(hoursAgo(1)));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        begin(new Date(text).toISOString());
      }}
      className="flex flex-wrap items-start gap-3"
    >
      <Field
        label="Undo everything since"
        type="datetime-local"
        value={text}
        onChange={({ target: { value } }) => setText(value)}
        required
        hint="You see a preview first."
      />
      <Button type="submit" className="h-9 md:mt-6 max-md:h-11 max-md:w-full">
        Undo…
      </Button>
    </form>
  );
}

function Entry({ of: entry, undo }: { of: JournalEntryView; undo: () => void }) {
  const { at, kind, outcome, face, client, source, ids, operation } = entry;
  const way = [fullTime(at), face && FACES[face], client && `by ${client}`, source];
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1">
      <div className="min-w-0 grow basis-64">
        <p className="flex flex-wrap items-center gap-2">
          <span className="wrap-anywhere">{journalSentence(entry)}</span>
          {kind === "refused" && <Badge tone="bad">refused</Badge>}
          {outcome === "held" && <Badge tone="warn">held</Badge>}
        </p>
        <p className="text-sm text-muted wrap-anywhere">{way.filter((part) => part).join(", ")}</p>
        {ids.length > 0 && (
          <details className="text-sm text-muted">
            <summary className="w-fit">{formatCount(ids.length, "id")}</summary>
            <ul className="mt-1 flex flex-wrap gap-x-3 font-mono text-xs">
              {ids.map((id) => (
                <li key={id}>{id.startsWith("thr_") ? <ThreadLink id={id}>{id}</ThreadLink> : id}</li>
              ))}
            </ul>
          </details>
        )}
      </div>
      {kind === "changed" && operation !== "undo" && (
        <Button kind="quiet" aria-label={`Undo from here on, ${fullTime(at)}…`} onClick={undo}>
          Undo from here…
        </Button>
      )}
    </li>
  );
}

const ThreadLink = ({ id, children }: { id: string; children: string }) => (
  <Link
    to="/mail/$folder/$threadId"
    params={{ folder: "all", threadId: id }}
    search={{}}
    className="underline underline-offset-2"
  >
    {children}
  </Link>
);

/** Tells what would be taken back and what not, then takes it back and tells what was. */
function Undo({ id, since, close }: { id: string; since: string; close: () => void }) {
  const plan = useQuery({
    queryKey: ["undo", id, since],
    queryFn: () => api.undoKey({ id, since, dryRun: true }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  const undo = useChange(() => api.undoKey({ id, since }), { key: KEYS, atForm: true });
  const report = undo.data ?? plan.data;
  if (!report) return <NotLoaded query={plan} what="what can be undone" />;
  return (
    <div className="space-y-4 text-sm">
      <Report of={report} />
      <ErrorLine error={undo.error} className="" />
      <div className="flex justify-end gap-2">
        <Button onClick={close}>{report.dryRun ? "Cancel" : "Close"}</Button>
        {report.dryRun && (
          <Button
            kind="primary"
            disabled={undo.isPending || report.changes === 0}
            onClick={() => undo.mutate(undefined)}
          >
            {undo.isPending ? "Undoing…" : `Undo ${formatCount(report.changes, "change")}`}
          </Button>
        )}
      </div>
    </div>
  );
}

function Report({ of: report }: { of: UndoView }) {
  const { dryRun, since, reachesBack, threads, changes, leftChanges, sent, ended } = report;
  return (
    <>
      <section aria-label={dryRun ? "Will be undone" : "Undone"}>
        <p role="status" className="font-medium">
          {dryRun ? "Will be undone" : "Undone"}: {formatCount(changes, "change")} of{" "}
          {formatCount(threads, "conversation")} since {fullTime(since)}
        </p>
        {!reachesBack && <p>The journal does not go back that far: earlier changes stay.</p>}
        <ul className="mt-1 list-disc pl-5">
          {groupUndoneByThread(report.fields)
            .slice(0, MOST_NAMED)
            .map(([threadId, fields]) => (
              <li key={threadId} className="wrap-anywhere">
                <ThreadName id={threadId} />: {fields.join(", ")}
              </li>
            ))}
        </ul>
        {threads > MOST_NAMED && <p className="mt-1">and {formatCount(threads - MOST_NAMED, "more", "more")}</p>}
      </section>
      {leftChanges > 0 && (
        <section aria-label="Not undone">
          <p className="font-medium">Not undone</p>
          <ul className="mt-1 list-disc pl-5">
            {listReasonsNotUndone(report).map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </section>
      )}
      {sent.messages > 0 && (
        <section aria-label="Sent" className="rounded-lg bg-notice px-4 py-3">
          <p className="font-medium">
            Already sent, which cannot be undone: {formatCount(sent.messages, "message")} to{" "}
            {formatCount(sent.recipients, "recipient")}
          </p>
          <ul className="mt-1 list-disc pl-5">
            {sent.latest.slice(0, MOST_NAMED).map(({ at, ids, recipients }) => (
              <li key={`${at} ${ids.join(" ")}`}>
                {fullTime(at)}, to {formatCount(recipients, "recipient")}
              </li>
            ))}
          </ul>
        </section>
      )}
      {ended.mailboxes > 0 && (
        <section aria-label="Ended mailboxes" className="rounded-lg bg-notice px-4 py-3">
          <p className="font-medium">
            Ended, which an owner or admin takes back: {formatCount(ended.mailboxes, "mailbox", "mailboxes")}
          </p>
          <ul className="mt-1 list-disc pl-5">
            {ended.latest.slice(0, MOST_NAMED).map(({ id, address, expiresAt }) => (
              <li key={id} className="wrap-anywhere">
                {address}, {fullTime(expiresAt)}
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** The subject of a conversation, once it is known, as a link. */
function ThreadName({ id }: { id: string }) {
  const { data } = useQuery(threadQuery(id));
  return <ThreadLink id={id}>{data === undefined ? id : data.thread.subject || "(no subject)"}</ThreadLink>;
}
