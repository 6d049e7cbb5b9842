/**
 * Warnings about a received message, for the person who reads it: what its sender's verdicts do not tell, because a deceiver has
 * domains, too (rules: Warnings). Everything that decides is here, and what is read of its HTML in message/deceptive-links.ts.
 */
import { type Caller, findReach, outOfReachError } from "../../access/caller.ts";
import { comparableAddress } from "../../access/policy.ts";
import { type EmailAddress, normalizeAddress, splitAddress } from "../../message/address.ts";
import type { DeceptiveLink } from "../../message/deceptive-links.ts";
import { mayBeLookalikeHost, readHost, registrableDomain } from "../../message/organization.ts";
import { foldText } from "../../search/fold.ts";
import type { AuthVerdicts } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { deceptiveLinks } from "../reading/stored-html.ts";
import { isOwnAddress, ownAddresses } from "../state/addresses.ts";
import type { MailCore } from "../state/mail-core.ts";

/** Hosts are in A-labels. */
export type Warning =
  /** The words of a link name another host than it leads to. */
  | { kind: "link"; said: string; leadsTo: string }
  /** The letters of a host that a link leads to, or of the sender's, may pose as another one. */
  | { kind: "lookalike"; host: string }
  /** Answers go to another organisation than the author's. */
  | { kind: "replyTo"; address: string }
  /** The name of the author is that of somebody in the workspace, and the address is none of theirs. */
  | { kind: "name"; name: string };

/** Names of a workspace that are compared, and characters of each. */
const MOST_NAMES = 10_000;
const LONGEST_NAME = 200;
/** Messages of a folder in which an author is looked for, the newest; who wrote so long before is no stranger. */
const MOST_LOOKED_AT = 1_000;
const STRANGER_MS = 30 * 86_400_000;

interface Row {
  mailboxId: string;
  workspaceId: string;
  date: number;
  from: string;
  replyTo: string;
  auth: string | null;
  headers: string;
}

const statements = {
  message: statement<Row, [id: string]>(
    `SELECT mailbox_id AS mailboxId, workspace_id AS workspaceId, date, "from", reply_to AS replyTo, auth, headers
     FROM messages JOIN message_bodies ON message_seq = messages.seq JOIN mailboxes ON mailboxes.id = mailbox_id
     WHERE messages.id = ? AND kind = 'received' AND received_on IS NOT NULL`,
  ),
  isVerified: statement<object, [name: string, workspaceId: string]>(
    "SELECT 1 FROM domains WHERE name = ? AND workspace_id = ? AND verified_at IS NOT NULL",
  ),
  isKnown: statement<object, [mailboxId: string, address: string]>(
    "SELECT 1 FROM known_recipients WHERE mailbox_id = ? AND address = ?",
  ),
  isPerson: statement<object, [email: string, workspaceId: string]>(
    "SELECT 1 FROM users WHERE email = ? AND workspace_id = ?",
  ),
  wroteBefore: statement<object, [mailboxId: string, folder: string, before: number, email: string]>(
    `SELECT 1 FROM (SELECT "from" FROM messages WHERE mailbox_id = ?1 AND folder = ?2 AND date < ?3 AND kind = 'received'
       ORDER BY date DESC LIMIT ${MOST_LOOKED_AT}) WHERE lower("from" ->> 'email') = ?4 LIMIT 1`,
  ),
  names: statement<{ name: string; isPerson: number }, [workspaceId: string]>(
    `SELECT substr(name, 1, ${LONGEST_NAME}) AS name, 1 AS isPerson FROM users WHERE workspace_id = ?1
     UNION ALL SELECT substr(name, 1, ${LONGEST_NAME}), 0 FROM mailboxes WHERE workspace_id = ?1 LIMIT ${MOST_NAMES}`,
  ),
};

/** Stored facts of a message from which its author and its answers are judged. */
interface Known extends Omit<Row, "from" | "replyTo" | "auth" | "headers"> {
  from: EmailAddress;
  replyTo: EmailAddress[];
  auth: AuthVerdicts | undefined;
  headers: [name: string, value: string][];
}

/**
 * Lists the warnings for the reader of a received message. The list is empty for a message that was sent, or that the server
 * wrote.
 * @throws AppError not_found, server_error 503
 */
export async function listMessageWarnings(core: MailCore, caller: Caller, id: string): Promise<Warning[]> {
  const { db } = core;
  const row = statements.message(db).get(id);
  if (!row) return [];
  if (!findReach(db, caller, row.mailboxId)) throw outOfReachError("message");
  const message: Known = {
    ...row,
    from: JSON.parse(row.from),
    replyTo: JSON.parse(row.replyTo),
    headers: JSON.parse(row.headers),
    auth: row.auth === null ? undefined : JSON.parse(row.auth),
  };
  const about = [...nameWarnings(db, message), ...replyWarnings(db, message), ...hostWarnings(message.from)];
  return [...about, ...linkWarnings(message, await deceptiveLinks(core, caller, id))];
}

const readEmailHost = (email: string): string | undefined => readHost(splitAddress(email).domain);
const organizationAt = (email: string): string | undefined => {
  const host = readEmailHost(email);
  return host === undefined ? undefined : registrableDomain(host);
};

/** Whom the mailbox has written to, or heard from long before, and who is of the workspace. */
function isAcquainted(db: Db, { mailboxId, workspaceId, date }: Known, email: string): boolean {
  const address = comparableAddress(email);
  const normalized = normalizeAddress(email);
  if (address === undefined || normalized === undefined) return false;
  return (
    statements.isVerified(db).get(splitAddress(normalized).domain, workspaceId) !== null ||
    isOwnAddress(ownAddresses(db, mailboxId), email) ||
    statements.isKnown(db).get(mailboxId, address) !== null ||
    statements.isPerson(db).get(normalized, workspaceId) !== null ||
    ["inbox", "archive"].some(
      (folder) => statements.wroteBefore(db).get(mailboxId, folder, date - STRANGER_MS, email.toLowerCase()) !== null,
    )
  );
}

function nameWarnings(db: Db, message: Known): Warning[] {
  const { from, workspaceId } = message;
  const words = splitNameWords(from.name ?? "");
  if (words.length === 0) return [];
  const has = new Set(words);
  const isTheirs = ({ name, isPerson }: { name: string; isPerson: number }): boolean => {
    const theirs = splitNameWords(name);
    // A single word may be anybody's name; that of a mailbox, as "Support", is.
    if (theirs.length < 2)
      return isPerson === 1 && theirs.length === 1 && words.length === 1 && has.has(theirs[0] ?? "");
    return theirs.every((word) => has.has(word));
  };
  const found = statements.names(db).all(workspaceId).find(isTheirs);
  return found && !isAcquainted(db, message, from.email) ? [{ kind: "name", name: found.name }] : [];
}

/** Cyrillic and Greek letters, small, that look like Latin ones. */
const LIKE_LATIN = new Map(
  [..."аaеeоoрpсcуyхxіiјjѕsһhԁdԛqԝwкkмmтtвbнhαaοoρpνvυuκkιiτtηn".matchAll(/(.)(.)/gu)].map(
    ([, like = "", letter = ""]) => [like, letter],
  ),
);
const BEYOND_LATIN = /[\u0370-\u052f]/g;

/** The words of a name, in one spelling. */
const splitNameWords = (name: string): string[] =>
  foldText(name.slice(0, LONGEST_NAME))
    .replace(BEYOND_LATIN, (letter) => LIKE_LATIN.get(letter) ?? letter)
    .split(" ")
    .filter((word) => word !== "");

function replyWarnings(db: Db, message: Known): Warning[] {
  const { from, replyTo, headers, auth } = message;
  const author = organizationAt(from.email);
  const lists = listsIn(headers);
  if (author === undefined || lists.has(author)) return [];
  const elsewhere = replyTo.find(({ email }) => {
    const organization = organizationAt(email);
    if (organization === author) return false;
    // The list that carries the message answers for itself, unless the message is forged.
    if (organization !== undefined && lists.has(organization) && auth?.dmarc !== "fail") return false;
    return !isAcquainted(db, message, email);
  });
  return elsewhere ? [{ kind: "replyTo", address: elsewhere.email }] : [];
}

/** Characters of a field that are read. */
const LONGEST_FIELD = 1_000;

/** The organisations of the mailing list that a message came by (RFC 2369, RFC 2919). */
function listsIn(headers: Known["headers"]): Set<string> {
  const hosts = headers.flatMap(([name, value]) => {
    const text = value.slice(0, LONGEST_FIELD);
    if (/^list-id$/i.test(name)) return /<([^<>\s]+)>/.exec(text)?.[1] ?? [];
    if (/^list-post$/i.test(name)) return /<mailto:[^<>\s@]+@([^<>\s?]+)/i.exec(text)?.[1] ?? [];
    return [];
  });
  return new Set(hosts.flatMap((written) => readHost(written) ?? []).map(registrableDomain));
}

function hostWarnings({ email }: EmailAddress): Warning[] {
  const host = readEmailHost(email);
  return host !== undefined && mayBeLookalikeHost(host) ? [{ kind: "lookalike", host }] : [];
}

/** An author whose domain is proven may name it, and count the clicks elsewhere. */
function linkWarnings({ from, auth }: Known, links: readonly DeceptiveLink[]): Warning[] {
  const proven = auth?.dmarc === "pass" ? organizationAt(from.email) : undefined;
  return links.flatMap(({ said, leadsTo }): Warning[] => {
    if (said === undefined) return [{ kind: "lookalike", host: leadsTo }];
    return registrableDomain(said) === proven ? [] : [{ kind: "link", said, leadsTo }];
  });
}
