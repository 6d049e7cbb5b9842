/**
 * CREATE, DELETE and RENAME (RFC 9051 §6.3.4 to §6.3.6): of labels, for people whose mail apps see them as mailboxes. Everything
 * else is given.
 */
import {
  findLabelWithFolder,
  listLabelsWithFolders,
  makeLabelFolder,
  renameLabelFolder,
} from "../../mailbox/imap/label-folders.ts";
import { labelKey } from "../../mailbox/state/labels.ts";
import type { Parser } from "../grammar.ts";
import {
  findImapMailboxByName,
  findLabelPath,
  type LabelPath,
  listLabelFolders,
  MOST_LISTED,
} from "../mailbox-names.ts";
import { type ImapSession, Refused, requireValidLabel } from "../session.ts";

interface NamedLabelPath extends LabelPath {
  /** The name as the client sent it. */
  name: string;
}

/** The place that a name has below `Labels`. `makes`: a mailbox of that name. @throws Refused */
function labelPathIn(session: ImapSession, operation: string, sent: string, makes: boolean): NamedLabelPath {
  const caller = session.writer(operation);
  const { db } = session.core;
  const name = session.nameIn(sent);
  const path = findLabelPath(db, caller, name);
  if (!path) {
    const isThere = findImapMailboxByName(db, caller, name) !== undefined;
    if (makes === isThere) {
      throw isThere
        ? new Refused("There is such a mailbox", "ALREADYEXISTS")
        : new Refused("No such mailbox", "NONEXISTENT");
    }
    throw new Refused("The mailboxes are given: use labels", "CANNOT");
  }
  if (!path.reach.access.manage) throw new Refused("Your share of the mailbox lets you read it only", "NOPERM");
  return { ...path, name };
}

/** The label that a place is of, if there is one, and those that LIST shows below it: names are in any case. */
function labelsAt(session: ImapSession, path: NamedLabelPath): { own: string | undefined; below: string[] } {
  const { db } = session.core;
  const { name } = path;
  const own = findImapMailboxByName(db, session.caller("look"), name)?.label;
  const beside = listLabelFolders(db, path);
  const parts = (beside.find(({ label }) => label === own)?.name ?? name).split("/");
  const labelPathKey = (of: readonly string[]): string => labelKey([...of.slice(0, parts.length), ""].join("/"));
  const isBelow = (of: readonly string[]): boolean =>
    of.length > parts.length && labelPathKey(of) === labelPathKey(parts);
  return {
    own,
    below: beside.flatMap(({ name, label }) => (isBelow(name.split("/")) && label !== undefined ? label : [])),
  };
}

/** @throws Refused if no mailbox of that label can be made */
function requireFree(session: ImapSession, { reach, label }: LabelPath): void {
  requireValidLabel(label);
  if (label.split("/").some((part) => part.trim() !== part || part === "")) {
    throw new Refused("A name neither begins nor ends with a space, and is not empty", "CANNOT");
  }
  if (findLabelWithFolder(session.core.db, reach.mailbox.id, label) !== undefined) {
    throw new Refused("There is such a mailbox", "ALREADYEXISTS");
  }
}

export async function runImapCreate(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  // A `/` at the end says that others are to be below it.
  const name = parser.astring().replace(/\/$/, "");
  parser.end();
  const path = labelPathIn(session, "createLabel", name, true);
  const { reach, label } = path;
  const { core, folders } = session;
  const beside = listLabelsWithFolders(core.db, reach.mailbox.id, MOST_LISTED);
  if (label === "") throw new Refused("It is there", "ALREADYEXISTS");
  requireFree(session, path);
  if (beside.length >= MOST_LISTED) throw new Refused(`A mailbox shows ${MOST_LISTED} labels at most`, "LIMIT");
  const caller = session.caller("createLabel");
  await folders.opened(reach.mailbox.id, "inbox");
  await core.store.enqueue((tx) => makeLabelFolder(tx, caller, reach.mailbox.id, label, core.now()));
  const opened = await folders.opened(reach.mailbox.id, undefined, label);
  return `[MAILBOXID (${opened.objectId})] It is made`;
}

export async function runImapDelete(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const name = parser.astring();
  parser.end();
  const path = labelPathIn(session, "deleteLabel", name, false);
  const { own: label, below } = labelsAt(session, path);
  if (label === undefined) {
    const isAbove = below.length > 0;
    if (isAbove || path.label === "") throw new Refused("It is of no label itself", isAbove ? "HASCHILDREN" : "CANNOT");
    throw new Refused("No such mailbox", "NONEXISTENT");
  }
  const selected = session.view?.folder.present();
  if (selected?.label === label && selected.mailboxId === path.reach.mailbox.id) {
    session.view = undefined;
    await session.send("* OK [CLOSED] It was open");
  }
  await renameLabelFolder(session.core, session.caller("deleteLabel"), {
    mailboxId: path.reach.mailbox.id,
    label,
    to: undefined,
  });
  return "The label is gone";
}

/** Renames a label, with the labels below it. */
export async function runImapRename(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const old = parser.astring();
  parser.space();
  const other = parser.astring().replace(/\/$/, "");
  parser.end();
  const from = labelPathIn(session, "renameLabel", old, false);
  const to = labelPathIn(session, "renameLabel", other, true);
  const { db } = session.core;
  const { id } = from.reach.mailbox;
  if (id !== to.reach.mailbox.id || from.label === "" || to.label === "") {
    throw new Refused("A label stays in its mailbox", "CANNOT");
  }
  const { own, below } = labelsAt(session, from);
  const levels = from.label.split("/").length;
  const moved = [
    ...(own === undefined ? [] : [{ label: own, to: to.label }]),
    ...below.map((label) => ({ label, to: [to.label, ...label.split("/").slice(levels)].join("/") })),
  ];
  if (moved.length === 0) throw new Refused("No such mailbox", "NONEXISTENT");
  for (const one of moved) {
    // Written otherwise, it is the same label.
    const isSame = findLabelWithFolder(db, id, one.to) === one.label;
    if (!isSame || one.to === one.label) requireFree(session, { ...to, label: one.to });
  }
  for (const one of moved) {
    await renameLabelFolder(session.core, session.caller("renameLabel"), { mailboxId: id, ...one });
  }
  return "It has another name";
}
