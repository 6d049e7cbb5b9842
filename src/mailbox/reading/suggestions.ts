/**
 * Suggestions: for a search without results, "did you mean", the query with misspelt operators and words corrected if
 * that has results for the caller; while somebody types an address, the people of a mailbox's latest conversations.
 *
 * Invariant: a suggested query finds something for the caller. Suggested words and people come from mail that the
 * caller reaches, and never from a Bcc, which is neither indexed nor among a conversation's participants.
 */
import { type Caller, type Seeker, toSeeker } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import { letOthersRun } from "../../base/pause.ts";
import { EmailAddress } from "../../message/message-schemas.ts";
import type { SearchScope } from "../../search/engine.ts";
import { foldText } from "../../search/fold.ts";
import { countWord, knownWords } from "../../search/fts5/fts5.ts";
import {
  boundedEditDistance,
  countAllowedTypos,
  isOfPeople,
  listLabelPositions,
  listQueryWords,
  listWordsOneTypoAway,
  parseQuery,
  type Query,
  type Replacement,
  replaceInQuery,
  type TextField,
  type WordPosition,
  withOperatorsCorrected,
} from "../../search/query.ts";
import { statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { labelKey } from "../state/labels.ts";
import type { MailCore } from "../state/mail-core.ts";
import { reachedMailbox } from "../state/mailboxes.ts";
import type { Inquiry, MailReader } from "../state/readers.ts";
import { newestThreads } from "./walk.ts";

/** Limits on the words of a query that are corrected and examined. */
const MOST_CORRECTED = 2;
const MOST_WORDS = 12;
/** Limits on the words tried in place of one, and on the queries tried in all. */
const MOST_NEAR = 4;
const MOST_TRIED = 6;
/** Conversations, in all mailboxes together, whose words are compared. */
const LATEST = 800;
/** Limits on people and characters per conversation. */
const MOST_PEOPLE = 20;
const LONGEST_TEXT = 1_000;
/** Conversations read, and words compared, before other requests get a turn. */
const READ_AT_ONCE = 50;
const COMPARED_AT_ONCE = 2_000;
/** Labels that are compared. */
const MOST_LABELS = 1_000;
/** Occurrences beyond which a word counts no further. */
const OFTEN = 100;

const wordsOfThreads = statement<{ subject: string; people: string }, [string]>(
  `SELECT subject, (
       SELECT group_concat(coalesce(value ->> 'name', '') || ' ' || (value ->> 'email'), ' ')
       FROM (SELECT value FROM json_each(participants) LIMIT ${MOST_PEOPLE})) AS people
     FROM threads WHERE seq IN (SELECT value FROM json_each(?))`,
);

const labels = statement<{ label: string }, [string]>(
  `SELECT DISTINCT label FROM mailbox_labels
     WHERE mailbox_id IN (SELECT value FROM json_each(?)) LIMIT ${MOST_LABELS}`,
);

const WORD = /[\p{L}\p{M}]{3,40}/gu;

/** A known word similar to a sought one. */
interface Near {
  /** The word as written, in lower case. */
  written: string;
  slips: number;
  times: number;
}

/** Occurrences of each word in the subjects, or the names and addresses, of the latest conversations in scope. */
async function latestWords(db: Db, field: TextField, { mailboxIds }: SearchScope): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  let read = 0;
  const limit = Math.ceil(LATEST / mailboxIds.length);
  for (const mailboxId of mailboxIds.slice(0, LATEST)) {
    const latest = JSON.stringify(newestThreads(db, mailboxId, limit));
    for (const { subject, people } of wordsOfThreads(db).all(latest)) {
      if (++read % READ_AT_ONCE === 0) await letOthersRun();
      const text = isOfPeople(field) ? people : field === "subject" ? subject : `${subject} ${people}`;
      for (const [word] of text.slice(0, LONGEST_TEXT).toLowerCase().matchAll(WORD)) {
        times.set(word, (times.get(word) ?? 0) + 1);
      }
    }
  }
  return times;
}

/** The words that the caller may have meant, likeliest first. */
async function nearWords(db: Db, { word, field }: WordPosition, scope: SearchScope): Promise<string[]> {
  const most = countAllowedTypos(word.length);
  const near = new Map<string, Near>();
  let compared = 0;
  for (const [written, times] of await latestWords(db, field, scope)) {
    if (++compared % COMPARED_AT_ONCE === 0) await letOthersRun();
    if (Math.abs(written.length - word.length) > most + 2) continue;
    const folded = foldText(written);
    const slips = boundedEditDistance(word, folded, most);
    if (slips > 0 && slips <= most && !folded.includes(" ")) near.set(folded, { written, slips, times });
  }
  for (const other of await knownWords(db, listWordsOneTypoAway(word), field, scope)) {
    const times = countWord(db, other, field, scope, OFTEN);
    near.set(other, { written: near.get(other)?.written ?? other, slips: 1, times });
  }
  return [...near.values()]
    .sort((a, b) => a.slips - b.slips || b.times - a.times)
    .slice(0, MOST_NEAR)
    .map(({ written }) => written);
}

async function unknownWords(db: Db, q: string, scope: SearchScope): Promise<WordPosition[]> {
  const unknown: WordPosition[] = [];
  for (const position of listQueryWords(q).slice(0, MOST_WORDS)) {
    if ((await knownWords(db, [position.word], position.field, scope)).length === 0) unknown.push(position);
  }
  return unknown;
}

/** Labels in the query that no conversation in scope has, each with similar labels in use. */
function unknownLabels(db: Db, q: string, { mailboxIds }: SearchScope) {
  const asked = listLabelPositions(q);
  if (asked.length === 0) return [];
  const inUse = labels(db)
    .all(JSON.stringify(mailboxIds))
    .map(({ label }) => ({ label, key: labelKey(label) }));
  const keys = new Set(inUse.map(({ key }) => key));
  return asked
    .map((position) => ({ ...position, key: labelKey(position.label) }))
    .filter(({ key }) => !keys.has(key))
    .map(({ label, key, start, end, quoted }) => ({
      start,
      end,
      near() {
        const most = countAllowedTypos(label.length);
        return inUse
          .map((known) => ({ written: known.label, slips: boundedEditDistance(key, known.key, most) }))
          .filter(({ written, slips }) => slips <= most && !/["“”„]/.test(written))
          .sort((a, b) => a.slips - b.slips)
          .slice(0, MOST_NEAR)
          .map(({ written }) => (quoted || !/\s/.test(written) ? written : `"${written}"`));
      },
    }));
}

/**
 * The query to suggest for `q`, which finds nothing. `findsQuery` resolves to true if the caller's search finds
 * anything with another query. `now`: see parseQuery.
 */
export async function suggestSearchQuery(
  db: Db,
  q: string,
  now: number,
  scope: SearchScope,
  findsQuery: (query: Query) => Promise<boolean>,
): Promise<string | undefined> {
  if (scope.mailboxIds.length === 0) return undefined;
  const finds = async (text: string): Promise<boolean> => {
    const query = readQuery(text, now);
    return query !== undefined && (await findsQuery(query));
  };
  const corrected = withOperatorsCorrected(q);
  if (corrected !== undefined && (await finds(corrected))) return corrected;
  const base = corrected ?? q;
  const positions = [
    ...unknownLabels(db, base, scope),
    ...(await unknownWords(db, base, scope)).map((position) => ({
      ...position,
      near: () => nearWords(db, position, scope),
    })),
  ];
  if (positions.length === 0 || positions.length > MOST_CORRECTED) return undefined;
  // Combines each choice for the first with each for the second, likelier ones first.
  let tries: { rank: number; replacements: Replacement[] }[] = [{ rank: 0, replacements: [] }];
  for (const { start, end, near } of positions) {
    const choices = await near();
    tries = tries.flatMap(({ rank, replacements }) =>
      choices.map((text, i) => ({ rank: rank + i, replacements: [...replacements, { start, end, text }] })),
    );
  }
  for (const { replacements } of tries.toSorted((a, b) => a.rank - b.rank).slice(0, MOST_TRIED)) {
    const tried = replaceInQuery(base, replacements);
    if (await finds(tried)) return tried;
  }
  return undefined;
}

/** Parses a query; undefined if it would be refused: a misread `before:` may lack a date. */
function readQuery(text: string, now: number): Query | undefined {
  try {
    return parseQuery(text, now);
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** Limits on the conversations and people that are examined while somebody types. */
const LATEST_OF_MAILBOX = 400;
const MOST_LOOKED_AT = 4_000;

/** Participants of conversations, in the order of the conversations, which SQLite keeps in a cross join. */
const peopleOfThreads = statement<EmailAddress & { name: string | null }, [string]>(
  `SELECT person.value ->> 'email' AS email, person.value ->> 'name' AS name
     FROM json_each(?) AS latest CROSS JOIN threads ON seq = latest.value CROSS JOIN json_each(participants) AS person
     LIMIT ${MOST_LOOKED_AT}`,
);

/** Removes case and accents for comparison. */
const plain = (text: string): string => text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();

/** `mailbox`: id or address; `limit`: of people. */
interface PeopleRequest {
  mailbox: string;
  text: string;
  limit: number;
}

const correspondents: Inquiry<PeopleRequest & { seeker: Seeker }, EmailAddress[]> = {
  name: "correspondents",
  answer: t.Array(EmailAddress),
  read: listCorrespondents,
};

/** The inquiries of this file, for readers. */
export const SUGGESTION_INQUIRIES = [correspondents];

/**
 * Finds people of the mail in a mailbox whose address, or a word of whose name, begins with a text; latest first. @throws AppError
 * not_found (mailbox), server_error 503
 */
export const findCorrespondents = (
  { readers }: MailCore,
  caller: Caller,
  request: PeopleRequest,
): Promise<EmailAddress[]> => readers.ask(caller, correspondents, { ...request, seeker: toSeeker(caller) });

function listCorrespondents(
  { db }: MailReader,
  { seeker, mailbox, text, limit }: PeopleRequest & { seeker: Seeker },
): EmailAddress[] {
  const mailboxId = reachedMailbox(db, seeker, mailbox);
  const begin = plain(text.trim());
  const found = new Map<string, EmailAddress>();
  const latest = JSON.stringify(newestThreads(db, mailboxId, LATEST_OF_MAILBOX));
  for (const { email, name } of peopleOfThreads(db).all(latest)) {
    const key = email.toLowerCase();
    const known = found.get(key);
    if (known) {
      if (known.name === undefined && name !== null) known.name = name;
      continue;
    }
    if (found.size >= limit) continue;
    const words = name === null ? [] : [plain(name), ...plain(name).split(/[^\p{L}\p{N}]+/u)];
    if ([key, ...words].some((word) => word.startsWith(begin)))
      found.set(key, { email, ...(name !== null && { name }) });
  }
  return [...found.values()];
}
