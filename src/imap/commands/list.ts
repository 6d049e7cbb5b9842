/** LIST with its extensions (RFC 9051 §6.3.9, RFC 5258, RFC 5819), LSUB, SUBSCRIBE, NAMESPACE and STATUS. */
import { letOthersRun } from "../../base/pause.ts";
import type { ImapFolder } from "../../mailbox/uids.ts";
import { encodeUtf7, Malformed, type Parser, quoted } from "../grammar.ts";
import { mailboxIdOf, matcherOf, type Named, named, namesAbove, namesFor, namesOfNone, SHARED } from "../names.ts";
import { Refused, type Session } from "../session.ts";
import { PORTION } from "./expunge.ts";

/** Of one LIST. */
const MOST_PATTERNS = 100;
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

/** The octets of a folder (RFC 8438), which are frozen where they were not. */
async function sizeOf({ parts: { mailbox } }: Session, { id }: ImapFolder, userId: string): Promise<number> {
  const seqs = mailbox.uids.numbered(id).map(({ seq }) => seq);
  let sum = 0;
  for (let next = 0; next < seqs.length; next += PORTION) {
    const portion = seqs.slice(next, next + PORTION);
    const known = mailbox.octets.known(portion, userId);
    for (const seq of portion) sum += known.get(seq)?.size ?? (await mailbox.octets.sizeOf(seq, userId)) ?? 0;
    await letOthersRun();
  }
  return sum;
}

async function statusOf(session: Session, one: Named, items: readonly string[]): Promise<string> {
  const { name, folder, label, reach } = one;
  const { mailbox, options } = session.parts;
  const { uids } = mailbox;
  const { userId } = session.caller("status");
  const row = await uids.opened(reach.mailbox.id, folder, label);
  const values: string[] = [];
  for (const item of items) values.push(`${item} ${await itemOf(item)}`);
  return `* STATUS ${session.nameOf(name)} (${values.join(" ")})`;

  function itemOf(item: string): string | number | Promise<number> {
    switch (item) {
      case "MESSAGES":
        return uids.counts(row).messages;
      case "UNSEEN":
        return uids.counts(row).unseen;
      case "UIDNEXT":
        return row.uidNext;
      case "UIDVALIDITY":
        return row.uidValidity;
      case "HIGHESTMODSEQ":
        return row.modseq;
      case "SIZE":
        return sizeOf(session, row, userId);
      case "DELETED":
        return uids.deleted(row).count;
      case "DELETED-STORAGE":
        // Elsewhere EXPUNGE moves to Trash, which frees nothing.
        return folder === "trash" || folder === "spam" ? uids.deleted(row).bytes : 0;
      case "MAILBOXID":
        return `(${mailboxIdOf(row)})`;
      case "APPENDLIMIT":
        return options.get("smtp.maxMessageBytes");
      default:
        return 0;
    }
  }
}

export async function status(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.space();
  const items = statusItems(parser);
  parser.end();
  if (items.includes("HIGHESTMODSEQ")) await session.enableCondstore();
  const found = named(session.parts.store.db, session.caller("status"), name);
  if (!found) throw new Refused("No such mailbox", "NONEXISTENT");
  await session.send(await statusOf(session, found, items));
  return "STATUS completed";
}

/** The answer that lists a mailbox. `above`: the names that have others below them. */
export function listed(session: Session, { name, use }: Named, above: ReadonlySet<string>): string {
  const attributes = [childrenOf(name, above), "\\Subscribed", ...(use ? [use] : [])];
  return `* LIST (${attributes.join(" ")}) "/" ${session.nameOf(name)}`;
}

const childrenOf = (name: string, above: ReadonlySet<string>): string =>
  above.has(name) ? "\\HasChildren" : "\\HasNoChildren";

const SELECTION = ["SUBSCRIBED", "REMOTE", "RECURSIVEMATCH", "SPECIAL-USE"];
const RETURNED = ["SUBSCRIBED", "CHILDREN", "SPECIAL-USE", "STATUS"];

/** Tells whether a name, also in modified UTF-7, is of a pattern. */
function matching(patterns: readonly string[]): (name: string) => boolean {
  const matchers = patterns.map((pattern) => matcherOf(pattern));
  return (name) => [name, encodeUtf7(name)].some((one) => matchers.some((matches) => matches(one)));
}

function option(parser: Parser, known: readonly string[]): string {
  const given = parser.atom().toUpperCase();
  if (!known.includes(given)) throw new Malformed(`unknown option ${given}`);
  return given;
}

/** RFC 5258, RFC 6154 §5.2: attributes are told whether they were asked for or not. */
export async function list(session: Session, parser: Parser): Promise<string> {
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
  const isMatch = matching(patterns.filter((pattern) => pattern !== "").map((pattern) => reference + pattern));
  const { db } = session.parts.store;
  const caller = session.caller("list");
  const all = namesFor(db, caller);
  const meets = ({ use }: Named): boolean => use !== undefined || !criteria.includes("SPECIAL-USE");
  const above = namesAbove(all);
  /** With others below that meet the criteria, and that no pattern has. */
  const hiding = isRecursive ? namesAbove(all.filter((one) => !isMatch(one.name) && meets(one))) : new Set();
  const info = (name: string): string =>
    hiding.has(name) ? ` ("CHILDINFO" (${criteria.map((one) => `"${one}"`).join(" ")}))` : "";
  for (const name of namesOfNone(db, caller, all).filter(isMatch)) {
    // It meets no criterion itself.
    if (criteria.length > 0 && !hiding.has(name)) continue;
    // A level that is there, and not \NonExistent, which apps do not know that ask for RETURN (SPECIAL-USE).
    await session.send(`* LIST (\\Noselect ${childrenOf(name, above)}) "/" ${session.nameOf(name)}${info(name)}`);
  }
  for (const one of all) {
    if (!isMatch(one.name) || !(meets(one) || hiding.has(one.name))) continue;
    await session.send(listed(session, one, above) + info(one.name));
    if (items && meets(one)) await session.send(await statusOf(session, one, items));
    await letOthersRun();
  }
  return "LIST completed";
}

export async function lsub(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const reference = parser.astring();
  parser.space();
  const pattern = reference + parser.pattern();
  parser.end();
  const isMatch = matching([pattern]);
  const all = namesFor(session.parts.store.db, session.caller("list"));
  const taken = new Set(all.map(({ name }) => name));
  // RFC 3501 §6.3.9: `%` finds who has subscribed children, too.
  const parents = pattern.includes("%") ? [...namesAbove(all)].filter((name) => !taken.has(name) && isMatch(name)) : [];
  for (const parent of parents) await session.send(`* LSUB (\\Noselect) "/" ${session.nameOf(parent)}`);
  for (const { name } of all) {
    if (isMatch(name)) await session.send(`* LSUB () "/" ${session.nameOf(name)}`);
  }
  return "LSUB completed";
}

/** Every mailbox is subscribed, and stays so. */
export function subscribe(session: Session, parser: Parser, subscribes: boolean): string {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.end();
  const found = named(session.parts.store.db, session.caller("subscribe"), name);
  if (subscribes && !found) throw new Refused("No such mailbox", "NONEXISTENT");
  if (!subscribes && found) throw new Refused("Every mailbox is subscribed", "CANNOT");
  return subscribes ? "It is subscribed" : "It was not subscribed";
}

export async function namespace(session: Session, parser: Parser): Promise<string> {
  parser.end();
  await session.send(`* NAMESPACE (("" "/")) ((${quoted(SHARED)} "/")) NIL`);
  return "NAMESPACE completed";
}
