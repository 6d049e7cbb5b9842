/**
 * The mailboxes of IMAP (RFC 9051 §5.1): the folders of the person's own mailbox at the top, those of other mailboxes in
 * their reach under `Shared/ADDRESS/`. For a person who wants that, each mailbox has its labels under `Labels/`; those with a `/`
 * are below one another.
 */
import type { Caller, Reach } from "../access/caller.ts";
import { chooseOwnMailbox, findReachableMailboxes } from "../access/caller.ts";
import { letOthersRun } from "../base/pause.ts";
import { findLabelWithFolder, listLabelsWithFolders, wantsLabelFolders } from "../mailbox/imap/label-folders.ts";
import type { Folder } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import { encodeUtf7 } from "./grammar.ts";

/** Folders in the order of LIST, with the attribute of RFC 6154. */
const FOLDERS: readonly (readonly [name: string, folder: Folder, use: string | undefined])[] = [
  ["INBOX", "inbox", undefined],
  ["Archive", "archive", "\\Archive"],
  ["Drafts", "drafts", "\\Drafts"],
  ["Junk", "spam", "\\Junk"],
  ["Sent", "sent", "\\Sent"],
  ["Trash", "trash", "\\Trash"],
];

export const SHARED = "Shared/";
const LABELS = "Labels";
/** Most labels of a mailbox that are mailboxes of their own. */
export const MOST_LISTED = 1_000;

/** A folder of a mailbox, or a label, under its name. */
export interface Named {
  name: string;
  /** Undefined for a label. */
  folder: Folder | undefined;
  /** The label as the mailbox spells it; absent for a folder. */
  label?: string;
  /** SPECIAL-USE. */
  use: string | undefined;
  reach: Reach;
}

/** A label below `Labels`: no name has control characters, or nothing between two `/`. */
const labelFolderName = (label: string): string =>
  label
    .replace(/\p{Cc}/gu, "_")
    .split("/")
    .map((part) => part || "_")
    .join("/");

/** An address as a name of one level, without wildcards. No two have the same. */
const addressToNode = (address: string): string =>
  address.replace(
    /[/%*]|=(?=[0-9A-Fa-f]{2})/g,
    (character) => `=${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** A mailbox in reach, and what its names begin with. */
interface Reached {
  reach: Reach;
  prefix: string;
}

/** The mailboxes that the caller sees; the person's own is the first. */
export function listVisibleMailboxes(db: Db, caller: Caller): Reached[] {
  const reached = [...findReachableMailboxes(db, caller).values()].filter(({ access }) => access.read);
  const own = chooseOwnMailbox(caller, reached);
  return (own ? [own, ...reached.filter((reach) => reach !== own)] : []).map((reach) => ({
    reach,
    prefix: reach === own ? "" : `${SHARED}${addressToNode(reach.mailbox.address)}/`,
  }));
}

/** Labels of a mailbox, as mailboxes of their own. */
export function listLabelFolders(db: Db, { reach, prefix }: Reached): Named[] {
  const byName = new Map<string, string>();
  for (const label of listLabelsWithFolders(db, reach.mailbox.id, MOST_LISTED)) {
    const name = labelFolderName(label);
    // Of labels with one name, the one that is written so has it.
    if (name === label || !byName.has(name)) byName.set(name, label);
  }
  return [...byName].map(([name, label]) => labelNamed(`${prefix}${LABELS}/${name}`, label, reach));
}

const labelNamed = (name: string, label: string, reach: Reach): Named => ({
  name,
  folder: undefined,
  label,
  use: undefined,
  reach,
});

// RFC 6154 §2: another one's Sent is not where the caller's mail goes.
const listStandardFolders = ({ reach, prefix }: Reached): Named[] =>
  FOLDERS.map(([name, folder, use]) => ({
    name: prefix + name,
    folder,
    use: prefix === "" ? use : undefined,
    reach,
  }));

/** All folders and labels that the caller sees. */
export async function listImapMailboxNames(db: Db, caller: Caller): Promise<Named[]> {
  const hasLabels = wantsLabelFolders(db, caller.userId);
  const all: Named[] = [];
  for (const one of listVisibleMailboxes(db, caller)) {
    all.push(...listStandardFolders(one), ...(hasLabels ? listLabelFolders(db, one) : []));
    await letOthersRun();
  }
  return all;
}

/** Whether others are below that. */
export const hasMailboxesBelow = (db: Db, { label, reach }: Named): boolean =>
  label !== undefined &&
  listLabelsWithFolders(db, reach.mailbox.id, MOST_LISTED).some((one) =>
    labelFolderName(one).startsWith(`${labelFolderName(label)}/`),
  );

/** The names above those. */
export const listParentNames = (all: readonly Pick<Named, "name">[]): Set<string> =>
  new Set(
    all.flatMap(({ name }) => name.split("/").flatMap((_, i, parts) => (i === 0 ? [] : parts.slice(0, i).join("/")))),
  );

/** The names that are of no mailbox: `Shared`, `Shared/ADDRESS`, `Labels`, and what labels have before a `/`. */
export function listNamesWithoutMailbox(db: Db, caller: Caller, all: readonly Named[]): string[] {
  const taken = new Set(all.map(({ name }) => name));
  const labels = wantsLabelFolders(db, caller.userId)
    ? listVisibleMailboxes(db, caller).map(({ prefix }) => prefix + LABELS)
    : [];
  return [...new Set([...listParentNames(all), ...labels])].filter((name) => !taken.has(name));
}

/** A place for a label below `Labels`. `label`: "" for `Labels` itself. */
export interface LabelPath extends Reached {
  label: string;
}

/** The label that a name would be of; undefined for one that is not below `Labels`, or of a person who has no labels there. */
export function findLabelPath(db: Db, caller: Caller, name: string): LabelPath | undefined {
  if (!wantsLabelFolders(db, caller.userId)) return undefined;
  for (const { reach, prefix } of listVisibleMailboxes(db, caller)) {
    const top = `${prefix}${LABELS}`;
    if (name === top || name.startsWith(`${top}/`)) return { reach, prefix, label: name.slice(top.length + 1) };
  }
  return undefined;
}

/** The mailbox of that name; INBOX, and labels, in any case. */
export function findImapMailboxByName(db: Db, caller: Caller, name: string): Named | undefined {
  const wanted = /^inbox$/i.test(name) ? "INBOX" : name;
  const folder = listVisibleMailboxes(db, caller)
    .flatMap(listStandardFolders)
    .find((one) => one.name === wanted || encodeUtf7(one.name) === wanted);
  const path = folder ? undefined : findLabelPath(db, caller, name);
  if (!path) return folder;
  const { id } = path.reach.mailbox;
  const label =
    findLabelWithFolder(db, id, path.label) ??
    listLabelsWithFolders(db, id, MOST_LISTED).find((one) => labelFolderName(one) === path.label);
  return label === undefined ? undefined : labelNamed(name, label, path.reach);
}

/** Most wildcards in a pattern, and its length, which bound what matching takes. */
const MOST_WILDCARDS = 10;
const LONGEST_PATTERN = 500;

/** Tells whether a name is of a pattern of LIST, in which `*` stands for anything and `%` for what has no `/`. */
export function buildPatternMatcher(pattern: string): (name: string) => boolean {
  const parts = pattern
    .replace(/^inbox(?=$|[*%])/i, "INBOX")
    .replace(/\*[*%]*/g, "*")
    .replace(/%+/g, "%")
    .split(/([*%])/);
  if (parts.length > 2 * MOST_WILDCARDS + 1 || pattern.length > LONGEST_PATTERN) return () => false;
  return (name) => {
    // Where in the name the parts so far may end.
    let ends = [0];
    for (const part of parts) {
      if (part !== "*" && part !== "%") {
        ends = ends.filter((at) => name.startsWith(part, at)).map((at) => at + part.length);
        continue;
      }
      const reached = new Set<number>();
      for (const at of ends) {
        for (let end = at; end <= name.length && !reached.has(end); end++) {
          reached.add(end);
          if (part === "%" && name[end] === "/") break;
        }
      }
      ends = [...reached];
    }
    return ends.includes(name.length);
  };
}
