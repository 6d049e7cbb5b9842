/** Rules of mailboxes, and the times in which nobody reads them (rules: Mail rules, Out of office). */
import { requireScope, requireUnrestrictedKey } from "../../access/caller.ts";
import { PolicyRefusal, policyAllowsMailbox } from "../../access/policy.ts";
import { type Managed, replaceMailboxRules, viewMailboxRules } from "../../admin/change-rules.ts";
import * as mailboxAdmin from "../../admin/mailbox-admin.ts";
import { AppError, UsageError } from "../../base/errors.ts";
import { dateTimeSchema, filledStringSchema, nullable, type Static, t } from "../../base/json-schema.ts";
import { readTimeField, toIsoTime } from "../../base/time.ts";
import {
  type Absence,
  findAbsence,
  LONGEST_ABSENCE_SUBJECT,
  LONGEST_ABSENCE_TEXT,
  putAbsence,
} from "../../mailbox/filing/absences.ts";
import {
  GivenRule,
  listForwardAddresses,
  listRuleQueryNotes,
  MOST_RULES,
  RuleView,
} from "../../mailbox/filing/rules.ts";
import { countMatchingThreads } from "../../mailbox/reading/listing.ts";
import type { Tx } from "../../store/store.ts";
import { defineOperationCommand } from "../command-line.ts";
import { type AdminContext, type Administrator, defineOperation } from "../operation.ts";
import { BY_ID, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

export const GivenRules = strictBody({
  rules: t.Array(GivenRule, { maxItems: MOST_RULES, description: "All rules, in their order" }),
});

const Rules = t.Object({ rules: t.Array(RuleView) }, { $id: "MailRules" });

const Matches = t.Object({
  threads: t.Integer({ description: "Conversations outside trash and spam that the query finds, at most 1000" }),
  more: t.Boolean({ description: "There are more than 1000" }),
  notes: t.Optional(
    t.Array(t.String(), {
      description:
        "Terms that look like operators and were searched as text, or that are never true of mail that arrives",
    }),
  ),
});

const subject = t.String({ maxLength: LONGEST_ABSENCE_SUBJECT });
const absenceText = t.String({ maxLength: LONGEST_ABSENCE_TEXT });
const from = dateTimeSchema({ description: "When it begins" });
const until = dateTimeSchema({ description: "When it ends; a time to come" });

export const GivenAbsence = strictBody({
  from,
  until,
  subject: t.Optional(
    nullable(subject, { description: "Of the replies; `Auto:` and that of the message when left out" }),
  ),
  text: filledStringSchema({ maxLength: LONGEST_ABSENCE_TEXT, description: "Of the replies" }),
});

const NONE = "null: no absence is set";

export const AbsenceOfMailbox = t.Object(
  {
    from: nullable(from, { description: `When it begins; ${NONE}` }),
    until: nullable(until, { description: `When it ends; ${NONE}` }),
    subject: t.Optional(subject),
    text: nullable(absenceText, { description: `Of the replies; ${NONE}` }),
  },
  { $id: "Absence" },
);

export const absenceView = (absence: Absence | undefined): Static<typeof AbsenceOfMailbox> =>
  absence
    ? {
        from: toIsoTime(absence.startsAt),
        until: toIsoTime(absence.endsAt),
        ...(absence.subject !== null && { subject: absence.subject }),
        text: absence.text,
      }
    : { from: null, until: null, text: null };

/** @throws AppError bad_request */
export const readAbsence = ({ from, until, subject = null, text }: Static<typeof GivenAbsence>): Absence => ({
  startsAt: readTimeField("from", from),
  endsAt: readTimeField("until", until),
  subject,
  text,
});

/** A mailbox that the caller's policy leaves. @throws AppError not_found */
function managed({ core }: AdminContext, { workspaceId, policy = {} }: Administrator, id: string): Managed {
  const mailbox = mailboxAdmin.getMailboxById(core, workspaceId, id);
  if (!policyAllowsMailbox(policy, mailbox)) throw new AppError("not_found", `there is no mailbox ${id}`);
  return mailbox;
}

/**
 * A rule does as often as mail comes what its maker could do by hand, and tells what mail has. A key that is limited in
 * that makes none. @throws PolicyRefusal
 */
function requireMayMakeRules({ policy = {} }: Administrator, given: Static<typeof GivenRules>): void {
  requireUnrestrictedKey({ policy }, ["codes"]);
  if (policy.changesPerHour !== undefined) {
    throw new PolicyRefusal("forbidden", "The policy of this API key limits its changes, so it makes no rules");
  }
  if (listForwardAddresses(given.rules).length > 0) requireMaySend({ policy });
}

/** @throws PolicyRefusal for a key that may not send whatever it likes to anybody */
function requireMaySend({ policy = {} }: Pick<Administrator, "policy">): void {
  requireUnrestrictedKey({ policy }, ["recipients", "send"]);
  if (policy.recipientsPerDay === undefined) return;
  throw new PolicyRefusal(
    "forbidden",
    "The policy of this API key limits whom it sends to, so nothing is sent by itself",
  );
}

const toRuleChanger = ({ requireConfirmed }: AdminContext, { userId, keyId }: Administrator) => ({
  person: userId === undefined ? undefined : ({ userId, role: "admin" } as const),
  byKey: keyId !== undefined,
  requireConfirmed: (tx: Tx) => requireConfirmed(tx),
});

/** Reads the rules of a command. @throws UsageError */
function rulesIn(text: string): Static<typeof GivenRules> {
  try {
    return { rules: JSON.parse(text) };
  } catch {
    throw new UsageError(
      'the rules are no JSON: give a list, as [{"match": "from:ann", "actions": [{"type": "star"}]}]',
    );
  }
}

export const getRules = defineOperation({
  name: "getRules",
  group: "Mailboxes",
  audience: "admin",
  method: "GET",
  path: "/mailboxes/:id/rules",
  scope: "admin",
  summary: "List the rules of a mailbox, in their order",
  params: BY_ID,
  success: 200,
  response: Rules,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "rule show",
      summary: "Show the rules of a mailbox, in their order",
      arguments: { address: "ADDRESS" },
      target: "mailbox",
    }),
  ],
  run(context, { params: { id } }) {
    const { core, caller } = context;
    return {
      rules: viewMailboxRules({ options: core.options, now: core.now() }, core.db, managed(context, caller, id)),
    };
  },
});

export const setRules = defineOperation({
  name: "setRules",
  group: "Mailboxes",
  audience: "admin",
  method: "PUT",
  path: "/mailboxes/:id/rules",
  scope: "admin",
  summary: "Replace the rules of a mailbox",
  description:
    "Every rule that matches arriving mail outside spam acts on it, in the transaction that files it. Of archive and trash, the first counts. An API key sets no rule that forwards outside the verified domains of the workspace.",
  params: BY_ID,
  body: GivenRules,
  example: {
    body: {
      rules: [
        { match: "from:news@example.org", actions: [{ type: "label", label: "News" }, { type: "archive" }] },
        { name: "Invoices", match: "subject:invoice has:attachment", actions: [{ type: "star" }] },
      ],
    },
  },
  success: 200,
  response: Rules,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "rule set",
      summary: "Replace the rules of a mailbox; RULES is a list in JSON",
      arguments: { address: "ADDRESS", list: "RULES" },
      target: "mailbox",
      input: ({ arguments: { list } }) => ({ body: rulesIn(list) }),
    }),
  ],
  run(context, { params: { id }, body }) {
    const { core } = context;
    return context.act((tx, caller) => {
      const mailbox = managed(context, caller, id);
      requireMayMakeRules(caller, body);
      const parts = { options: core.options, now: core.now() };
      replaceMailboxRules(parts, tx, mailbox, body.rules, toRuleChanger(context, caller));
      return { rules: viewMailboxRules(parts, tx, mailbox) };
    });
  },
});

export const testRule = defineOperation({
  name: "testRule",
  group: "Mailboxes",
  audience: "admin",
  method: "GET",
  path: "/mailboxes/:id/rules/matches",
  scope: "admin",
  summary: "Count the conversations of a mailbox that a query finds",
  description: "What a rule would have matched. An API key needs the scope read as well.",
  params: BY_ID,
  query: t.Object({ match: GivenRule.properties.match }),
  example: { query: { match: "from:news@example.org" } },
  success: 200,
  response: Matches,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "rule test",
      summary: "Count the conversations of a mailbox that a query finds",
      arguments: { address: "ADDRESS", match: "QUERY" },
      target: "mailbox",
      input: ({ arguments: { match } }) => ({ query: { match } }),
    }),
  ],
  async run(context, { params: { id }, query }) {
    const { caller, core, person } = context;
    if (caller.keyId !== undefined) requireScope(person(core.db), "read");
    requireUnrestrictedKey(caller, ["codes"]);
    const { id: mailboxId } = managed(context, caller, id);
    if (query.match.trim() === "") throw new AppError("bad_request", "match needs at least one character");
    const notes = listRuleQueryNotes(query.match, core.now());
    const count = await countMatchingThreads(core, caller, { mailboxId, q: query.match });
    return { ...count, ...(notes.length > 0 && { notes }) };
  },
});

export const getAbsence = defineOperation({
  name: "getAbsence",
  group: "Mailboxes",
  audience: "admin",
  method: "GET",
  path: "/mailboxes/:id/absence",
  scope: "admin",
  summary: "Show when a mailbox answers that nobody reads it",
  params: BY_ID,
  success: 200,
  response: AbsenceOfMailbox,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "absence show",
      arguments: { address: "ADDRESS" },
      target: "mailbox",
    }),
  ],
  run: (context, { params: { id } }) =>
    absenceView(findAbsence(context.core.db, managed(context, context.caller, id).id)),
});

const changingAbsence = (context: AdminContext, id: string, absence: Absence | undefined) =>
  context.act((tx, caller) => {
    const mailbox = managed(context, caller, id);
    if (absence) requireMaySend(caller);
    putAbsence(tx, mailbox.id, absence, context.core.now());
    return absenceView(findAbsence(tx, mailbox.id));
  });

export const setAbsence = defineOperation({
  name: "setAbsence",
  group: "Mailboxes",
  audience: "admin",
  method: "PUT",
  path: "/mailboxes/:id/absence",
  scope: "admin",
  summary: "Have a mailbox answer that nobody reads it",
  description: "People who write to it get one reply a week, from `from` until `until`.",
  params: BY_ID,
  body: GivenAbsence,
  example: {
    body: {
      from: "2027-07-01T00:00:00Z",
      until: "2027-07-15T00:00:00Z",
      text: "I am back on 15 July. Ben answers at ben@example.com.",
    },
  },
  success: 200,
  response: AbsenceOfMailbox,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "absence set",
      arguments: { address: "ADDRESS" },
      options: {
        from: { value: "TIME", required: true, summary: "When it begins, as 2027-07-01T00:00:00Z" },
        until: { value: "TIME", required: true, summary: "When it ends" },
        subject: { value: "SUBJECT", summary: "Of the replies" },
        text: { value: "TEXT", required: true, summary: "Of the replies" },
      },
      target: "mailbox",
      input: ({ options: { from, until, subject, text } }) => ({
        body: { from, until, text, ...(subject !== undefined && { subject }) },
      }),
    }),
  ],
  run: (context, { params: { id }, body }) => changingAbsence(context, id, readAbsence(body)),
});

export const endAbsence = defineOperation({
  name: "endAbsence",
  group: "Mailboxes",
  audience: "admin",
  method: "DELETE",
  path: "/mailboxes/:id/absence",
  scope: "admin",
  summary: "Have a mailbox no longer answer that nobody reads it",
  params: BY_ID,
  success: 200,
  response: AbsenceOfMailbox,
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "absence end",
      arguments: { address: "ADDRESS" },
      target: "mailbox",
    }),
  ],
  run: (context, { params: { id } }) => changingAbsence(context, id, undefined),
});
