/** LIST with its extensions (RFC 9051 §6.3.9, RFC 5258, RFC 5819), LSUB, SUBSCRIBE, NAMESPACE and STATUS. */
import { letOthersRun } from "../../base/pause.ts";
import type { ImapFolder } from "../../mailbox/imap/uids.ts";
import { encodeUtf7, Malformed, type Parser, quoteImapText } from "../grammar.ts";
import {
  buildPatternMatcher,
  findImapMailboxByName,
  listImapMailboxNames,
  listNamesWithoutMailbox,
  listParentNames,
  type Named,
  SHARED,
} from "../mailbox-names.ts";
import { type ImapSession, Refused } from "../session.ts";
import { PORTION } from "./expunge.ts";

/** Most patterns of one LIST. */
const MOST_PATTERNS = 10;
/** Names that are compared with patterns without a pause: some 10 ms, if these have many wildcards. */
const COMPARED = 20;
const STATUS_ITEMS = [
  ...["MESSAGES", "UIDNEXT", "UIDVALIDITY", "UNSEEN", "RECENT", "HIGHESTMODSEQ"],
  ...["SIZE", "DELETED", "DELETED-STORAGE", "MAILBOXID", "APPENDLIMIT"],
];

function statusItems(parser: Parser): string[] {
  const items = parser.list(() => {
    const given = parser.atom().toUpperCase();
    if (!STATUS_ITEMS.includes(given)) throw new Malformed(`unknown item ${given}`);
    return given;
  });
  return [...new Set(items)];
}

/** The octets of a folder (RFC 8438). */
async function sumFolderOctets({ octets }: ImapSession, folder: ImapFolder, userId: string): Promise<number> {
  const seqs = folder.numbered().map(({ seq }) => seq);
  let sum = 0;
  for (let next = 0; next < seqs.length; next += PORTION) {
    const portion = seqs.slice(next, next + PORTION);
    const known = await octets.known(portion, userId, "sizes");
    for (const seq of portion) sum += known.get(seq)?.size ?? (await octets.findMessageSize(seq, userId)) ?? 0;
    await letOthersRun();
  }
  return sum;
}

async function writeStatusResponse(session: ImapSession, one: Named, items: readonly string[]): Promise<string> {
  const { name, folder, label, reach } = one;
  const { core, folders } = session;
  const { userId } = session.caller("status");
  const row = await folders.opened(reach.mailbox.id, folder, label);
  const counts = items.includes("MESSAGES") || items.includes("UNSEEN") ? row.counts() : undefined;
  const values: string[] = [];
  for (const item of items) values.push(`${item} ${await readStatusItem(item)}`);
  return `* STATUS ${session.formatMailboxName(name)} (${values.join(" ")})`;

  function readStatusItem(item: string): string | number | Promise<number> {
    switch (item) {
      case "MESSAGES":
        return counts?.messages ?? 0;
      case "UNSEEN":
        return counts?.unseen ?? 0;
      case "UIDNEXT":
        return row.uidNext;
      case "UIDVALIDITY":
        return row.uidValidity;
      case "HIGHESTMODSEQ":
        return row.modseq;
      case "SIZE":
        return sumFolderOctets(session, row, userId);
      case "DELETED":
        return row.deleted().count;
      case "DELETED-STORAGE":
        // Elsewhere EXPUNGE moves to Trash, which frees nothing.
        return folder === "trash" || folder === "spam" ? row.deleted().bytes : 0;
      case "MAILBOXID":
        return `(${row.objectId})`;
      case "APPENDLIMIT":
        return core.options.get("smtp.maxMessageBytes");
      default:
        return 0;
    }
  }
}

export async function runImapStatus(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.space();
  const items = statusItems(parser);
  parser.end();
  if (items.includes("HIGHESTMODSEQ")) await session.enableCondstore();
  const found = findImapMailboxByName(session.core.db, session.caller("status"), name);
  if (!found) throw new Refused("No such mailbox", "NONEXISTENT");
  await session.send(await writeStatusResponse(session, found, items));
  return "STATUS completed";
}

/** The answer that lists a mailbox. `isAbove`: others are below it. */
export function formatListResponse(session: ImapSession, { name, use }: Named, isAbove: boolean): string {
  const attributes = [childrenAttribute(isAbove), "\\Subscribed", ...(use ? [use] : [])];
  return `* LIST (${attributes.join(" ")}) "/" ${session.formatMailboxName(name)}`;
}

const childrenAttribute = (isAbove: boolean): string => (isAbove ? "\\HasChildren" : "\\HasNoChildren");

const SELECTION = ["SUBSCRIBED", "REMOTE", "RECURSIVEMATCH", "SPECIAL-USE"];
const RETURNED = ["SUBSCRIBED", "CHILDREN", "SPECIAL-USE", "STATUS"];

/** The names that match one of the patterns, as they are or in modified UTF-7. @throws Ended */
async function matched(
  session: ImapSession,
  names: readonly string[],
  patterns: readonly string[],
): Promise<ReadonlySet<string>> {
  const matchers = patterns.map((pattern) => buildPatternMatcher(pattern));
  const found = new Set<string>();
  for (const [i, name] of names.entries()) {
    if (matchers.some((matches) => [...new Set([name, encodeUtf7(name)])].some(matches))) found.add(name);
    if (i % COMPARED !== 0) continue;
    await letOthersRun();
    session.present();
  }
  return found;
}

function option(parser: Parser, known: readonly string[]): string {
  const given = parser.atom().toUpperCase();
  if (!known.includes(given)) throw new Malformed(`unknown option ${given}`);
  return given;
}

/** RFC 5258, RFC 6154 §5.2: attributes are told whether they were asked for or not. */
export async function runImapList(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const hasSelection = parser.next("(");
  const selection = hasSelection ? parser.list(() => option(parser, SELECTION), { empty: true }) : [];
  if (hasSelection) parser.space();
  const reference = parser.astring();
  parser.space();
  const hasPatterns = parser.next("(");
  const patterns = hasPatterns ? parser.list(() => parser.pattern()) : [parser.pattern()];
  let items: string[] | undefined;
  const returns = parser.take(" RETURN ");
  if (returns) {
    parser.list(
      () => {
        if (option(parser, RETURNED) !== "STATUS") return;
        parser.space();
        items = statusItems(parser);
      },
      { empty: true },
    );
  }
  parser.end();
  const criteria = selection.filter((one) => one === "SUBSCRIBED" || one === "SPECIAL-USE");
  const isRecursive = selection.includes("RECURSIVEMATCH");
  if (isRecursive && criteria.length === 0) throw new Malformed("RECURSIVEMATCH needs another option");
  const isExtended = hasSelection || hasPatterns || returns;
  if (patterns[0] === "" && !isExtended) {
    await session.send('* LIST (\\Noselect) "/" ""');
    return "LIST completed";
  }
  if (patterns.length > MOST_PATTERNS) throw new Malformed("too many patterns");
  const { db } = session.core;
  const caller = session.caller("list");
  const all = await listImapMailboxNames(db, caller);
  const none = listNamesWithoutMailbox(db, caller, all);
  const wanted = patterns.filter((pattern) => pattern !== "").map((pattern) => reference + pattern);
  const matching = await matched(session, [...none, ...all.map(({ name }) => name)], wanted);
  const meets = ({ use }: Named): boolean => use !== undefined || !criteria.includes("SPECIAL-USE");
  const above = listParentNames(all);
  /** Names that have others below them that meet the criteria and that no pattern matches. */
  const hiding = isRecursive ? listParentNames(all.filter((one) => !matching.has(one.name) && meets(one))) : new Set();
  const info = (name: string): string =>
    hiding.has(name) ? ` ("CHILDINFO" (${criteria.map((one) => `"${one}"`).join(" ")}))` : "";
  for (const name of none) {
    // It meets no criterion itself.
    if (!matching.has(name) || (criteria.length > 0 && !hiding.has(name))) continue;
    // A level that is there, and not \NonExistent, which apps do not know that ask for RETURN (SPECIAL-USE).
    const attributes = `\\Noselect ${childrenAttribute(above.has(name))}`;
    await session.send(`* LIST (${attributes}) "/" ${session.formatMailboxName(name)}${info(name)}`);
    await letOthersRun();
  }
  for (const one of all) {
    if (!matching.has(one.name) || !(meets(one) || hiding.has(one.name))) continue;
    await session.send(formatListResponse(session, one, above.has(one.name)) + info(one.name));
    if (items && meets(one)) await session.send(await writeStatusResponse(session, one, items));
    await letOthersRun();
  }
  return "LIST completed";
}

export async function runImapLsub(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const reference = parser.astring();
  parser.space();
  const pattern = reference + parser.pattern();
  parser.end();
  const all = await listImapMailboxNames(session.core.db, session.caller("list"));
  const taken = new Set(all.map(({ name }) => name));
  // RFC 3501 §6.3.9: `%` finds who has subscribed children, too.
  const parents = pattern.includes("%") ? [...listParentNames(all)].filter((name) => !taken.has(name)) : [];
  for (const name of await matched(session, [...parents, ...taken], [pattern])) {
    await session.send(`* LSUB (${taken.has(name) ? "" : "\\Noselect"}) "/" ${session.formatMailboxName(name)}`);
    await letOthersRun();
  }
  return "LSUB completed";
}

/** Every mailbox is subscribed, and stays so. */
export function runImapSubscribe(session: ImapSession, parser: Parser, subscribes: boolean): string {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.end();
  const found = findImapMailboxByName(session.core.db, session.caller("subscribe"), name);
  if (subscribes && !found) throw new Refused("No such mailbox", "NONEXISTENT");
  if (!subscribes && found) throw new Refused("Every mailbox is subscribed", "CANNOT");
  return subscribes ? "It is subscribed" : "It was not subscribed";
}

export async function runImapNamespace(session: ImapSession, parser: Parser): Promise<string> {
  parser.end();
  await session.send(`* NAMESPACE (("" "/")) ((${quoteImapText(SHARED)} "/")) NIL`);
  return "NAMESPACE completed";
}
