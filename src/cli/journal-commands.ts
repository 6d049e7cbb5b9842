/** `mailroom key journal` and `mailroom key undo`: what a key did, and taking it back (rules: Journal, Undo). */
import type { JournalEntry, LeftReason, UndoReport } from "../admin/journal.ts";
import * as journal from "../admin/journal.ts";
import { AppError, UsageError } from "../base/errors.ts";
import { readTimeField, toIsoTime } from "../base/time.ts";
import { type Document, defineCommand } from "./command.ts";

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads a time in the past: 30m, 2h, 3d or 1w ago, or a date and time. Returns epoch ms. @throws UsageError */
export function readPastTimeOption(text: string, now: number): number {
  const [, count, unit = ""] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  if (count !== undefined) return Math.max(0, now - Number(count) * (UNITS[unit] as number));
  try {
    return readTimeField("--since", text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new UsageError(`--since is "${text}": give a time such as 2026-03-02T09:30:00Z, or 30m, 2h, 3d, 1w ago`);
  }
}

const SINCE = { value: "TIME", summary: "From then on: 30m, 2h, 3d or 1w ago, or 2026-03-02T09:30:00Z" } as const;

/** Entries read at once, and entries printed without --since. */
const PAGE = 500;
const LATEST = 100;

const entryDocument = ({ seq, at, kind, reads, ...entry }: JournalEntry) => ({
  id: String(seq),
  at: toIsoTime(at),
  kind,
  ...entry,
  ...(reads !== null && { reads }),
});

const keyJournal = defineCommand({
  name: "key journal",
  summary: "List what an API key did, newest first",
  arguments: { key: "ID" },
  options: { since: { ...SINCE, summary: `${SINCE.summary}; without it the latest ${LATEST}` } },
  columns: ["at", "kind", "operation", "outcome", "face", "client", "source", "reads", "changes", "recipients", "ids"],
  run({ opened, runtime }, { arguments: { key }, options }) {
    const { core } = opened;
    const { store } = core;
    const subject = journal.getJournalSubject(store.db, key);
    const since = options.since === undefined ? undefined : readPastTimeOption(options.since, runtime.now());
    if (since === undefined) return journal.listEntries(core, subject, { limit: LATEST }).entries.map(entryDocument);
    const documents: object[] = [];
    for (let behind: Parameters<typeof journal.listEntries>[2]["behind"]; ; ) {
      const { entries, next } = journal.listEntries(core, subject, { since, behind, limit: PAGE });
      documents.push(...entries.map(entryDocument));
      if (!next) return documents;
      behind = next;
    }
  },
});

const REASONS: Record<LeftReason, string> = {
  person: "a person changed or confirmed it since",
  key: "another key changed or confirmed it since",
  mail: "new mail brought the conversation back",
  server: "it was imported again since",
  deleted: "the conversation was deleted for good",
  out_of_reach: "out of reach",
  too_many_labels: "the conversation has too many labels",
};

const named = ({ field, label }: { field: string; label?: string }): string =>
  label === undefined ? field : `${field} "${label}"`;

const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

function describeUndo(document: Document): string {
  const { dryRun, threads, changes, fields, leftChanges, left, sent, ended, reachesBack } = document as Omit<
    UndoReport,
    "ended"
  > & { dryRun: boolean; ended: { mailboxes: number; latest: { id: string; address: string; expiresAt: string }[] } };
  const lines = [
    `${dryRun ? "Would take back" : "Took back"} ${counted(changes, "change")} of ${counted(threads, "conversation")}`,
    ...fields.map((one) => `  ${one.threadId}  ${named(one)}`),
    ...(changes > fields.length ? ["  …"] : []),
    ...(leftChanges > 0 ? [`Left ${counted(leftChanges, "change")}`] : []),
    ...left.map((one) => `  ${one.threadId}  ${named(one)}: ${REASONS[one.reason]}`),
    ...(leftChanges > left.length ? ["  …"] : []),
    ...(sent.messages > 0
      ? [
          `Sent, and not to be taken back: ${counted(sent.messages, "message")}, ${counted(sent.recipients, "recipient")}`,
        ]
      : []),
    ...sent.latest.map(({ at, ids }) => `  ${at}  ${ids[0]}`),
    ...(sent.messages > sent.latest.length ? ["  …"] : []),
    ...(ended.mailboxes > 0 ? [`Ended, and left so: ${counted(ended.mailboxes, "mailbox", "mailboxes")}`] : []),
    ...ended.latest.map(({ id, address, expiresAt }) => `  ${expiresAt}  ${address}  ${id}`),
    ...(ended.mailboxes > ended.latest.length ? ["  …"] : []),
    ...(reachesBack ? [] : ["The journal does not reach back so far: see retention.journalDays"]),
  ];
  return `${lines.join("\n")}\n`;
}

const undo = defineCommand({
  name: "key undo",
  summary: "Take back what an API key did to conversations; says what is left, and what was sent",
  arguments: { key: "ID" },
  options: {
    since: { ...SINCE, required: true },
    "dry-run": { summary: "Only say what would be taken back" },
  },
  text: describeUndo,
  async run({ opened, runtime }, { arguments: { key }, options }) {
    const { core } = opened;
    const { store } = core;
    const subject = journal.getJournalSubject(store.db, key);
    const since = readPastTimeOption(options.since, runtime.now());
    const dryRun = options["dry-run"];
    const { sent, ended, ...report } = await journal.takeBackKeyChanges(core, subject, since, { face: "cli", dryRun });
    return {
      id: key,
      ...report,
      since: toIsoTime(since),
      dryRun,
      sent: { ...sent, latest: sent.latest.map(({ at, ids, recipients }) => ({ at: toIsoTime(at), ids, recipients })) },
      ended: { ...ended, latest: ended.latest.map((one) => ({ ...one, expiresAt: toIsoTime(one.expiresAt) })) },
    };
  },
});

export const journalCommands = [keyJournal, undo];
