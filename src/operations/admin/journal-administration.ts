/** The deeds of API keys, and undoing them (rules: Journal, Undo). */
import type { JournalEntry, LeftReason, UndoReport } from "../../admin/journal.ts";
import * as journal from "../../admin/journal.ts";
import { dateTimeSchema, nullable, type Static, stringEnum, t } from "../../base/json-schema.ts";
import { readTimeField, toIsoTime } from "../../base/time.ts";
import { decodeRowCursor, encodeRowCursor } from "../../store/cursor.ts";
import { CHANGED_FIELDS, FACES, JOURNAL_KINDS, SETTLERS } from "../../store/schema.ts";
import { defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY } from "../paging.ts";
import { BY_ID, DEFAULT_LIMIT, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const Entry = t.Object(
  {
    id: t.String(),
    at: dateTimeSchema(),
    kind: stringEnum(JOURNAL_KINDS, { description: "`refused`: by the policy of the key" }),
    userId: nullable(t.String(), { description: "The person that the key acted for, or who took back what it did" }),
    operation: t.String({ description: "As documents name it; `undo`: somebody took back what the key did" }),
    face: nullable(stringEnum(FACES), { description: "How the request came" }),
    client: nullable(t.String(), { description: "The name that an MCP client gave itself" }),
    source: nullable(t.String(), { description: "The address that the request came from" }),
    ids: t.Array(t.String(), { description: "Conversations, messages and others, 200 at most" }),
    outcome: t.String({ description: "`ok`, `held`, or the code of the refusal" }),
    reads: nullable(t.Integer(), { description: "Reads of one operation within a minute, which are one entry" }),
    changes: t.Integer({ description: "Conversations that were changed" }),
    recipients: t.Integer({ description: "Recipients of a message that was accepted, scheduled or held" }),
    sent: t.Integer({ description: "Recipients to whom it went out" }),
  },
  { $id: "JournalEntry" },
);

export type JournalEntryView = Static<typeof Entry>;

const entryView = ({ seq, at, ...entry }: JournalEntry): JournalEntryView => ({
  id: String(seq),
  at: toIsoTime(at),
  ...entry,
});

const LEFT = [
  ...SETTLERS.filter((settler) => settler !== "undone"),
  "deleted",
  "out_of_reach",
  "too_many_labels",
] as const satisfies readonly LeftReason[];

const changed = {
  threadId: t.String(),
  field: stringEnum(CHANGED_FIELDS),
  label: t.Optional(t.String()),
};

const Undo = t.Object(
  {
    dryRun: t.Boolean({ description: "Nothing was taken back: this is what would be" }),
    since: dateTimeSchema(),
    reachesBack: t.Boolean({ description: "false: the journal is not kept for so long, so some may be missing" }),
    threads: t.Integer({ description: "Conversations of which something was taken back" }),
    changes: t.Integer({ description: "Fields of conversations that were taken back" }),
    fields: t.Array(t.Object(changed), { description: "The first of them" }),
    leftChanges: t.Integer({ description: "Fields that were left as they are" }),
    left: t.Array(
      t.Object({
        ...changed,
        reason: stringEnum(LEFT, { description: "Who changed or confirmed it since, or why it cannot be taken back" }),
      }),
      { description: "The first of them" },
    ),
    sent: t.Object(
      {
        messages: t.Integer(),
        recipients: t.Integer(),
        latest: t.Array(t.Object({ at: dateTimeSchema(), ids: t.Array(t.String()), recipients: t.Integer() })),
      },
      { description: "What was sent since, and cannot be taken back" },
    ),
    ended: t.Object(
      {
        mailboxes: t.Integer(),
        latest: t.Array(t.Object({ id: t.String(), address: t.String(), expiresAt: dateTimeSchema() }), {
          description: "The first of them",
        }),
      },
      { description: "Mailboxes that the key ended since; PATCH with `expiresAt: null` takes one back" },
    ),
  },
  { $id: "KeyUndo" },
);

export type UndoView = Static<typeof Undo>;

const undoView = ({ since, sent, ended, ...report }: UndoReport, dryRun: boolean): UndoView => ({
  ...report,
  dryRun,
  since: toIsoTime(since),
  sent: { ...sent, latest: sent.latest.map(({ at, ids, recipients }) => ({ at: toIsoTime(at), ids, recipients })) },
  ended: { ...ended, latest: ended.latest.map((one) => ({ ...one, expiresAt: toIsoTime(one.expiresAt) })) },
});

const common = { group: "API keys", audience: "admin", scope: "admin", whole: true } as const;

export const getKeyJournal = defineOperation({
  ...common,
  name: "getKeyJournal",
  method: "GET",
  path: "/keys/:id/journal",
  summary: "List what an API key did, newest first",
  description:
    "Never bodies, subjects, queries or Bcc. A page may have fewer entries than the limit, and another behind it.",
  params: BY_ID,
  query: t.Object({
    ...PAGE_QUERY,
    since: t.Optional(dateTimeSchema({ description: "From then on" })),
    kind: t.Optional(stringEnum(JOURNAL_KINDS)),
    outcome: t.Optional(t.String({ maxLength: 100, description: "As entries have it" })),
  }),
  success: 200,
  response: t.Object({ entries: t.Array(Entry), nextCursor }),
  errors: READ_ERRORS,
  run({ person, core }, { params: { id }, query: { since, kind, outcome, cursor, limit = DEFAULT_LIMIT } }) {
    const subject = journal.getJournalSubject(core.db, id, person(core.db));
    const asked = ["journal", id, since, kind, outcome];
    const after = cursor === undefined ? undefined : decodeRowCursor(cursor, asked);
    const { entries, next } = journal.listEntries(core, subject, {
      ...(since !== undefined && { since: readTimeField("since", since) }),
      behind: after && { at: after.at, seq: Number(after.id) },
      kinds: kind && [kind],
      outcome,
      limit,
    });
    return {
      entries: entries.map(entryView),
      nextCursor: next ? encodeRowCursor({ at: next.at, id: String(next.seq) }, asked) : null,
    };
  },
});

export const undoKey = defineOperation({
  ...common,
  name: "undoKey",
  method: "POST",
  path: "/keys/:id/undo",
  summary: "Take back what an API key did to conversations since a time",
  description:
    "Its moves, labels, stars, read marks and spam training, field by field, except what somebody else changed or confirmed after it. Safe to repeat.",
  params: BY_ID,
  body: strictBody({
    since: dateTimeSchema(),
    dryRun: t.Optional(t.Boolean({ description: "Only tell what would be taken back" })),
  }),
  example: { body: { since: "2026-01-02T09:30:00Z", dryRun: true } },
  idempotent: true,
  success: 200,
  response: Undo,
  errors: WRITE_ERRORS,
  async run({ act, person, core }, { params: { id }, body: { since, dryRun = false } }) {
    const subject = journal.getJournalSubject(core.db, id, person(core.db));
    const face = person(core.db).keyId === undefined ? "app" : "rest";
    const report = await journal.takeBackKeyChanges(core, subject, readTimeField("since", since), {
      person,
      face,
      dryRun,
    });
    return act(() => undoView(report, dryRun));
  },
});
