/** Changes of a mailbox's rules, and who may have them forward mail out of the workspace (rules: Mail rules). */
import { and, eq, inArray, isNull } from "drizzle-orm";
import { type AccessChange, addAccessNotice } from "../access/access-notices.ts";
import { type Caller, isPersonLocked } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import {
  type GivenRule,
  isOutsideWorkspaceDomains,
  listForwardAddresses,
  listRuleQueryNotes,
  mayForwardTo,
  normalizeGivenRules,
  putRules,
  type RuleView,
  readMailboxRules,
} from "../mailbox/filing/rules.ts";
import { routeWithin } from "../mailbox/state/addresses.ts";
import { mailboxes, users } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Db, Tx } from "../store/store.ts";

interface RulesParts {
  options: Pick<Options, "get">;
  /** Epoch ms. */
  now: number;
}

/** A mailbox that somebody manages. */
export interface Managed {
  id: string;
  address: string;
  workspaceId: string;
}

/** The person who changes rules, by a key or in the app; none for the operator. */
export interface Changer {
  person?: Pick<Caller, "userId" | "role"> | undefined;
  byKey: boolean;
  /** @throws AppError forbidden unless they have just proved that it is them */
  requireConfirmed(tx: Tx): void;
}

/**
 * Replaces the rules of a mailbox. Only a person sets rules that forward out of the workspace, after proving who they are, and
 * the mailbox's owner is told. @throws AppError bad_request, forbidden, unprocessable
 */
export function replaceMailboxRules(
  { options, now }: RulesParts,
  tx: Tx,
  { id, address, workspaceId }: Managed,
  given: readonly GivenRule[],
  changer: Changer,
): void {
  const rules = normalizeGivenRules(given, now);
  for (const to of listForwardAddresses(rules)) {
    const route = routeWithin(tx, workspaceId, to);
    if (route.kind === "mailbox" && route.mailboxId === id) {
      throw new AppError("bad_request", `a rule would forward to ${to}, which leads to this mailbox`);
    }
  }
  const before = readMailboxRules(tx, id);
  if (Bun.deepEquals(before, rules)) return;
  const outside = [
    ...new Set(listForwardAddresses(rules).filter((to) => isOutsideWorkspaceDomains(tx, workspaceId, to))),
  ];
  if (outside.length > 0) {
    if (changer.byKey) {
      throw new AppError(
        "forbidden",
        `An API key cannot set rules that forward out of the workspace (${outside.join(", ")}): set them in the app`,
      );
    }
    if (!options.get("rules.forwardOutside")) {
      throw new AppError(
        "unprocessable",
        `Rules may forward within the verified domains of the workspace only, and not to ${outside.join(", ")}, until the operator sets rules.forwardOutside`,
      );
    }
    changer.requireConfirmed(tx);
    tellOwner(tx, { id, address, workspaceId }, outside, changer, now);
  }
  putRules(tx, id, rules);
}

function tellOwner(tx: Tx, mailbox: Managed, outside: readonly string[], { person }: Changer, now: number): void {
  const owner = tx.select({ id: mailboxes.ownerId }).from(mailboxes).where(eq(mailboxes.id, mailbox.id)).get()?.id;
  const notified = owner && !isPersonLocked(tx, owner) ? [owner] : listAdminIds(tx, mailbox.workspaceId);
  const detail = JSON.stringify({ mailbox: mailbox.address, to: outside });
  for (const userId of notified) {
    const doneBy = doneFor(userId, person);
    addAccessNotice(tx, { userId, change: "forwarding", doneBy, appPasswords: 0, keys: 0, createdAt: now, detail });
  }
}

function doneFor(userId: string, person: Changer["person"]): AccessChange["doneBy"] {
  if (!person) return "operator";
  if (person.userId === userId) return "self";
  return person.role === "member" ? "share" : "admin";
}

const listAdminIds = (db: Db, workspaceId: string): string[] =>
  db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.workspaceId, workspaceId), inArray(users.role, ["owner", "admin"]), isNull(users.lockedAt)))
    .all()
    .map(({ id }) => id);

/** The rules of a mailbox, with what does not work as it is written. */
export function viewMailboxRules({ options, now }: RulesParts, db: Db, { id, workspaceId }: Managed): RuleView[] {
  return readMailboxRules(db, id).map((rule) => {
    const notes = listRuleQueryNotes(rule.match, now);
    const actions = rule.actions.map((action) =>
      action.to === undefined || mayForwardTo(db, options, workspaceId, action.to)
        ? action
        : { ...action, stopped: "The setting rules.forwardOutside is off, and the address is outside the workspace" },
    );
    return { ...rule, actions, ...(notes.length > 0 && { notes }) };
  });
}
