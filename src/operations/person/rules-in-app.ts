/** Rules and absence of a mailbox, for the people who manage it. */
import { requireAccess, requireReach } from "../../access/caller.ts";
import { type Managed, replaceMailboxRules, viewMailboxRules } from "../../admin/change-rules.ts";
import { t } from "../../base/json-schema.ts";
import { findAbsence, putAbsence } from "../../mailbox/filing/absences.ts";
import { listRuleQueryNotes } from "../../mailbox/filing/rules.ts";
import { countMatchingThreads } from "../../mailbox/reading/listing.ts";
import type { Db } from "../../store/store.ts";
import { absenceView, GivenAbsence, GivenRules, readAbsence } from "../admin/rule-administration.ts";
import { defineAppOperation, type PersonContext } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

/** Bytes of the longest list of rules, as JSON may write it. */
const LARGEST_RULES = 1_048_576;

/** @throws AppError not_found, forbidden */
function managed({ caller }: Pick<PersonContext, "caller">, db: Db, id: string): Managed {
  const reach = requireReach(db, caller, id);
  requireAccess(reach, "manage");
  return reach.mailbox;
}

export const getOwnRules = defineAppOperation({
  name: "getOwnRules",
  audience: "person",
  method: "GET",
  path: "/mailboxes/:id/rules",
  params: BY_ID,
  run(context, { params: { id } }) {
    const { core } = context;
    const mailbox = managed(context, core.db, id);
    return {
      rules: viewMailboxRules({ options: core.options, now: core.now() }, core.db, mailbox),
      forwardOutside: core.options.get("rules.forwardOutside"),
    };
  },
});

export const setOwnRules = defineAppOperation({
  name: "setOwnRules",
  audience: "person",
  method: "PUT",
  path: "/mailboxes/:id/rules",
  params: BY_ID,
  body: GivenRules,
  largestBody: LARGEST_RULES,
  run(context, { params: { id }, body: { rules } }) {
    const { core, caller: person, requireConfirmed } = context;
    core.store.transact((tx) => {
      const mailbox = managed(context, tx, id);
      replaceMailboxRules({ options: core.options, now: core.now() }, tx, mailbox, rules, {
        person,
        byKey: false,
        requireConfirmed,
      });
    });
  },
});

/** Counts the conversations that a rule would have matched. */
export const testOwnRule = defineAppOperation({
  name: "testOwnRule",
  audience: "person",
  method: "GET",
  path: "/mailboxes/:id/rules/matches",
  params: BY_ID,
  query: t.Object({ match: t.String({ maxLength: 500 }) }),
  async run(context, { params: { id }, query: { match } }) {
    const { core, caller } = context;
    const mailboxId = managed(context, core.db, id).id;
    const notes = listRuleQueryNotes(match, core.now());
    return { ...(await countMatchingThreads(core, caller, { mailboxId, q: match })), notes };
  },
});

export const getOwnAbsence = defineAppOperation({
  name: "getOwnAbsence",
  audience: "person",
  method: "GET",
  path: "/mailboxes/:id/absence",
  params: BY_ID,
  run: (context, { params: { id } }) =>
    absenceView(findAbsence(context.core.db, managed(context, context.core.db, id).id)),
});

export const setOwnAbsence = defineAppOperation({
  name: "setOwnAbsence",
  audience: "person",
  method: "PUT",
  path: "/mailboxes/:id/absence",
  params: BY_ID,
  body: GivenAbsence,
  run(context, { params: { id }, body }) {
    const { core } = context;
    core.store.transact((tx) => putAbsence(tx, managed(context, tx, id).id, readAbsence(body), core.now()));
  },
});

export const endOwnAbsence = defineAppOperation({
  name: "endOwnAbsence",
  audience: "person",
  method: "DELETE",
  path: "/mailboxes/:id/absence",
  params: BY_ID,
  run(context, { params: { id } }) {
    const { core } = context;
    core.store.transact((tx) => putAbsence(tx, managed(context, tx, id).id, undefined, core.now()));
  },
});
