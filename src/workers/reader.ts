/**
 * A reader: a process of reader-pool.ts that answers inquiries to the database, one after the other. It cannot write there, has no
 * environment, and parses nothing that strangers sent. It reports ready once it can answer; from then on, its time for an answer
 * and its memory are limited.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { encodeChildMessage, hearParent, tellParent } from "../base/child-messages.ts";
import { AppError } from "../base/errors.ts";
import { MESSAGE_INQUIRIES } from "../mailbox/imap/message-search.ts";
import { LIST_INQUIRIES } from "../mailbox/reading/listing.ts";
import { SUGGESTION_INQUIRIES } from "../mailbox/reading/suggestions.ts";
import type { Inquiry } from "../mailbox/state/readers.ts";
import { createFts5Index } from "../search/fts5/fts5.ts";
import { openReaderDatabase, type ReaderDatabase } from "../store/reader-database.ts";
import { asUnavailable } from "../store/store.ts";
import { LARGEST_MESSAGE } from "./jobs.ts";
import type { FromReader, ToReader } from "./reader-messages.ts";
import { readerDatabaseFile } from "./reader-process.ts";

const inquiries = new Map(
  ([...LIST_INQUIRIES, ...MESSAGE_INQUIRIES, ...SUGGESTION_INQUIRIES] as readonly Inquiry<unknown, unknown>[]).map(
    (inquiry) => [inquiry.name, inquiry],
  ),
);

const say = (message: FromReader): void => tellParent(encodeChildMessage(message));

function serve({ db, atOnce }: ReaderDatabase): void {
  const engine = createFts5Index(db);

  async function answer({ id, name, given, now, reply }: ToReader): Promise<void> {
    try {
      const inquiry = inquiries.get(name);
      if (!inquiry) throw new Error(`there is no inquiry ${name}`);
      const found = await atOnce(() => inquiry.read({ db, now: () => now, engine }, given));
      const answer = encodeChildMessage({ id, answer: found } satisfies FromReader);
      if (answer.byteLength <= LARGEST_MESSAGE) {
        tellParent(answer);
        return;
      }
      // A server that starts beside a command empties the folder.
      await mkdir(dirname(reply), { recursive: true, mode: 0o700 });
      await writeFile(reply, answer, { mode: 0o600 });
      say({ id });
    } catch (thrown) {
      const error = asUnavailable(thrown);
      if (error instanceof AppError) {
        const { code, message, status, retryAfter } = error;
        say({ id, refusal: { code, message, status, ...(retryAfter !== undefined && { retryAfter }) } });
      } else {
        const { message, stack = "" } = error as Error;
        say({ id, failure: { message, stack } });
      }
    }
  }

  hearParent((message) => void answer(message as ToReader));
  say({ ready: true });
}

serve(openReaderDatabase(readerDatabaseFile() ?? ""));
