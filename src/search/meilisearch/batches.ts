/**
 * Builds the batches that are sent to Meilisearch: messages as currently stored, folded a few at a time so that other
 * requests get a turn. A message that the server refuses does not hold up the others.
 */
import type { Log } from "../../base/log.ts";
import type { Db } from "../../store/store.ts";
import { readStored, readStoredAfter, type StoredMessage } from "../stored.ts";
import { type Client, ServerError } from "./client.ts";
import { documentOf, type MessageDocument, markDocument } from "./documents.ts";
import type { Change } from "./feed-rows.ts";

/** Limits of one batch: messages, and characters of their words. */
export const BATCH = 2_000;
const BATCH_CHARACTERS = 8_000_000;
/** Messages read at once, and characters folded without yielding. */
const SLICE = 10;
const CHARACTERS_OF_A_TURN = 100_000;

const isRefusal = (error: unknown): boolean => error instanceof ServerError && error.trouble === "refused";
/** Waits until pending events are handled. */
export const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** The next stored messages after the one numbered `after`; `last` is the number to continue from, if there is more. */
export async function readNext(
  db: Db,
  after: number,
): Promise<{ documents: MessageDocument[]; last: number; more: boolean }> {
  const documents: MessageDocument[] = [];
  let last = after;
  let more = true;
  for (let characters = 0; more && documents.length < BATCH && characters < BATCH_CHARACTERS; ) {
    const slice = readStoredAfter(db, last, SLICE);
    const before = documents.length;
    characters += await addDocuments(documents, slice, BATCH_CHARACTERS - characters);
    more = slice.length === SLICE || documents.length - before < slice.length;
    last = documents.at(-1)?.id ?? last;
  }
  return { documents, last, more };
}

/** The current state of the changed messages, as far as one batch reaches. */
export async function readChanged(
  db: Db,
  changes: readonly Change[],
): Promise<{ through: number; sent: number[]; documents: MessageDocument[] }> {
  const documents: MessageDocument[] = [];
  const sent = new Set<number>();
  let through = 0;
  for (let i = 0, characters = 0; i < changes.length && characters < BATCH_CHARACTERS; i += SLICE) {
    const slice = changes.slice(i, i + SLICE);
    const seqs = [...new Set(slice.map(({ messageSeq }) => messageSeq))].filter((seq) => !sent.has(seq));
    const stored = readStored(db, seqs);
    const before = documents.length;
    characters += await addDocuments(documents, stored, BATCH_CHARACTERS - characters);
    const left = new Set(stored.slice(documents.length - before).map(({ seq }) => seq));
    for (const seq of seqs) if (!left.has(seq)) sent.add(seq);
    through = slice.at(-1)?.seq ?? through;
  }
  return { through, sent: [...sent], documents };
}

/** Adds messages until `room` characters are reached, at least one. Resolves with the number of characters. */
async function addDocuments(
  documents: MessageDocument[],
  messages: readonly StoredMessage[],
  room: number,
): Promise<number> {
  let characters = 0;
  let ofTurn = 0;
  for (const { foldInTurns, ...message } of messages) {
    const document = documentOf({ ...message, document: await foldInTurns(turn) });
    documents.push(document);
    const own = Object.values(document).reduce<number>((sum, field) => sum + `${field}`.length, 0);
    characters += own;
    ofTurn += own;
    if (characters >= room) break;
    if (ofTurn < CHARACTERS_OF_A_TURN) continue;
    await turn();
    ofTurn = 0;
  }
  await turn();
  return characters;
}

/**
 * Removes and adds documents, then sets the mark. Resolves with the messages that the server refused, of which the
 * index then has nothing.
 */
export async function writeBatch(
  server: Client,
  index: string,
  { removed, documents, mark }: { removed: readonly number[]; documents: readonly MessageDocument[]; mark: string },
  log: Pick<Log, "warn">,
): Promise<number[]> {
  const marking = markDocument(mark);
  try {
    await server.write(index, removed, [...documents, marking]);
    return [];
  } catch (error) {
    if (!isRefusal(error) || documents.length === 0) throw error;
    const refused = await addInHalves(server, index, documents, log);
    await server.write(index, [], [marking]);
    return refused;
  }
}

async function addInHalves(
  server: Client,
  index: string,
  documents: readonly MessageDocument[],
  log: Pick<Log, "warn">,
): Promise<number[]> {
  const half = Math.ceil(documents.length / 2);
  const refused: number[] = [];
  for (const some of [documents.slice(0, half), documents.slice(half)]) {
    try {
      if (some.length > 0) await server.write(index, [], some);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (some.length > 1) refused.push(...(await addInHalves(server, index, some, log)));
      else {
        const ids = some.map(({ id }) => id);
        refused.push(...ids);
        // Removes the outdated version.
        await server.write(index, ids, []);
        log.warn("Meilisearch refuses a message", { seq: ids[0], error });
      }
    }
  }
  return refused;
}
