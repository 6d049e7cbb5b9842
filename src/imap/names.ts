/**
 * The mailboxes of IMAP (RFC 9051 §5.1): the folders of the person's own mailbox at the top, those of other mailboxes in
 * their reach under `Shared/ADDRESS/`.
 */
import type { Caller, Reach } from "../access/caller.ts";
import { ownAmong, reachOf } from "../access/caller.ts";
import type { Folder } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import { encodeUtf7 } from "./grammar.ts";

/** In the order of LIST; the attribute of RFC 6154. */
const FOLDERS: readonly (readonly [name: string, folder: Folder, use: string | undefined])[] = [
  ["INBOX", "inbox", undefined],
  ["Archive", "archive", "\\Archive"],
  ["Drafts", "drafts", "\\Drafts"],
  ["Junk", "spam", "\\Junk"],
  ["Sent", "sent", "\\Sent"],
  ["Trash", "trash", "\\Trash"],
];

export const SHARED = "Shared/";

/** A folder of a mailbox, under its name. */
export interface Named {
  name: string;
  folder: Folder;
  /** SPECIAL-USE. */
  use: string | undefined;
  reach: Reach;
}

/** MAILBOXID of RFC 8474: stays when a mailbox gets another address. */
export const mailboxIdOf = ({ reach, folder }: Named): string => `${reach.mailbox.id}_${folder}`;

/** An address as a name of one level, without wildcards. No two have the same. */
const nodeOf = (address: string): string =>
  address.replace(
    /[/%*]|=(?=[0-9A-Fa-f]{2})/g,
    (character) => `=${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** All mailboxes that the caller sees. */
export function namesFor(db: Db, caller: Caller): Named[] {
  const reached = [...reachOf(db, caller).values()].filter(({ access }) => access.read);
  const own = ownAmong(caller, reached);
  return (own ? [own, ...reached.filter((reach) => reach !== own)] : []).flatMap((reach) => {
    const prefix = reach === own ? "" : `${SHARED}${nodeOf(reach.mailbox.address)}/`;
    // RFC 6154 §2: another one's Sent is not where the caller's mail goes.
    return FOLDERS.map(([name, folder, use]) => ({
      name: prefix + name,
      folder,
      use: reach === own ? use : undefined,
      reach,
    }));
  });
}

/** The mailbox of that name; INBOX in any case. */
export const named = (db: Db, caller: Caller, name: string): Named | undefined => {
  const wanted = /^inbox$/i.test(name) ? "INBOX" : name;
  return namesFor(db, caller).find((one) => one.name === wanted || encodeUtf7(one.name) === wanted);
};

/** Most wildcards in a pattern, and its length, which bound what matching takes. */
const MOST_WILDCARDS = 10;
const LONGEST_PATTERN = 500;

/** Tells whether a name is of a pattern of LIST, in which `*` stands for anything and `%` for what has no `/`. */
export function matcherOf(pattern: string): (name: string) => boolean {
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
