/** LIST with its extensions (RFC 9051 §6.3.9, RFC 5819), LSUB, NAMESPACE and STATUS. */
import { encodeUtf7, Malformed, type Parser, quoted } from "../grammar.ts";
import { matcherOf, type Named, named, namesFor, SHARED } from "../names.ts";
import { Refused, type Session } from "../session.ts";

const STATUS_ITEMS = ["MESSAGES", "UIDNEXT", "UIDVALIDITY", "UNSEEN", "RECENT", "HIGHESTMODSEQ"] as const;
type StatusItem = (typeof STATUS_ITEMS)[number];

const nameOf = (name: string): string => quoted(encodeUtf7(name));

function statusItems(parser: Parser): StatusItem[] {
  return parser.list(() => {
    const given = parser.atom().toUpperCase();
    const item = STATUS_ITEMS.find((known) => known === given);
    if (!item) throw new Malformed(`unknown item ${given}`);
    return item;
  });
}

async function statusOf(
  session: Session,
  { name, folder, reach }: Named,
  items: readonly StatusItem[],
): Promise<string> {
  const { uids } = session.parts.mailbox;
  const row = await uids.opened(reach.mailbox.id, folder);
  const { messages, unseen } = uids.counts(row);
  const values: Record<StatusItem, number> = {
    MESSAGES: messages,
    UIDNEXT: row.uidNext,
    UIDVALIDITY: row.uidValidity,
    UNSEEN: unseen,
    RECENT: 0,
    HIGHESTMODSEQ: row.modseq,
  };
  return `* STATUS ${nameOf(name)} (${items.map((item) => `${item} ${values[item]}`).join(" ")})`;
}

export async function status(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const name = parser.astring();
  parser.space();
  const items = statusItems(parser);
  parser.end();
  const found = named(session.parts.store.db, session.caller("status"), name);
  if (!found) throw new Refused("No such mailbox", "NONEXISTENT");
  await session.send(await statusOf(session, found, items));
  return "STATUS completed";
}

export async function list(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const hasSelection = parser.next("(");
  const selection = hasSelection ? parser.list(() => parser.atom().toUpperCase(), { empty: true }) : [];
  if (hasSelection) parser.space();
  const reference = parser.astring();
  parser.space();
  const patterns = parser.next("(") ? parser.list(() => parser.pattern()) : [parser.pattern()];
  let items: StatusItem[] | undefined;
  if (parser.take(" RETURN ")) {
    parser.list(
      () => {
        const option = parser.atom().toUpperCase();
        if (option !== "STATUS") return;
        parser.space();
        items = statusItems(parser);
      },
      { empty: true },
    );
  }
  parser.end();
  if (patterns.length === 1 && patterns[0] === "" && selection.length === 0) {
    await session.send('* LIST (\\Noselect) "/" ""');
    return "LIST completed";
  }
  const matchers = patterns.map((pattern) => matcherOf(reference + pattern));
  const isMatch = (name: string): boolean => matchers.some((matches) => matches(name));
  const all = namesFor(session.parts.store.db, session.caller("list"));
  const isSpecial = selection.includes("SPECIAL-USE");
  for (const parent of isSpecial ? [] : parentsOf(all)) {
    if (isMatch(parent)) await session.send(`* LIST (\\Noselect \\HasChildren) "/" ${nameOf(parent)}`);
  }
  for (const one of all) {
    if (!isMatch(one.name) || (isSpecial && !one.use)) continue;
    const attributes = ["\\HasNoChildren", "\\Subscribed", ...(one.use ? [one.use] : [])].join(" ");
    await session.send(`* LIST (${attributes}) "/" ${nameOf(one.name)}`);
    if (items) await session.send(await statusOf(session, one, items));
  }
  return "LIST completed";
}

/** `Shared` and `Shared/ADDRESS`. */
const parentsOf = (all: readonly Named[]): string[] => {
  const shared = all
    .filter(({ name }) => name.startsWith(SHARED))
    .map(({ name }) => name.slice(0, name.lastIndexOf("/")));
  return shared.length === 0 ? [] : [SHARED.slice(0, -1), ...new Set(shared)];
};

export async function lsub(session: Session, parser: Parser): Promise<string> {
  parser.space();
  const reference = parser.astring();
  parser.space();
  const matches = matcherOf(reference + parser.pattern());
  parser.end();
  for (const { name } of namesFor(session.parts.store.db, session.caller("list"))) {
    if (matches(name)) await session.send(`* LSUB () "/" ${nameOf(name)}`);
  }
  return "LSUB completed";
}

export async function namespace(session: Session, parser: Parser): Promise<string> {
  parser.end();
  await session.send(`* NAMESPACE (("" "/")) ((${quoted(SHARED)} "/")) NIL`);
  return "NAMESPACE completed";
}
