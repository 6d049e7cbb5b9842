/**
 * Inquiries: questions to the database that take long, such as searches and counts. On a server, readers answer them, processes of
 * their own (workers/reader-pool.ts), so that mail and all else never wait for them. Commands and standbys answer in their own
 * thread.
 */
import type { Schema } from "../../base/json-schema.ts";
import type { SearchEngine, SearchIndex } from "../../search/engine.ts";
import type { Reader } from "../../store/core.ts";

/** The parts that answering an inquiry needs. A reader has no more than these. */
export interface MailReader extends Pick<Reader, "db" | "now"> {
  readonly engine: SearchIndex;
}

/**
 * A function by name that a reader runs on one state of the database, which has all that was committed before the inquiry was made.
 * base/child-messages.ts takes what it is given and what it answers.
 */
export interface Inquiry<Given, Answer> {
  readonly name: string;
  /** The schema of its answers. */
  readonly answer: Schema;
  /** @throws AppError, which whoever asks gets */
  read(reader: MailReader, given: Given): Answer | Promise<Answer>;
}

/** A person or key that asks, and has its turn beside others. */
export interface Asker {
  workspaceId: string;
  userId?: string;
  keyId?: string;
}

export interface Readers {
  /**
   * Resolves with the answer.
   * @throws AppError server_error 503 if it takes too long, too much waits, or the server stops; errors of the inquiry
   */
  ask<Given, Answer>(asker: Asker, inquiry: Inquiry<Given, Answer>, given: Given): Promise<Answer>;
}

/** Answers inquiries in this thread. */
export const readInThisThread = (reader: MailReader): Readers => ({
  ask: async (_, inquiry, given) => inquiry.read(reader, given),
});

/**
 * Makes an inquiry that uses the search index: to the readers, or in this thread where the index is an external server's, which no
 * reader can ask. @throws as `ask`
 */
export const askIndex = async <Given, Answer>(
  core: MailReader & { engine: SearchEngine; readers: Readers },
  asker: Asker,
  inquiry: Inquiry<Given, Answer>,
  given: Given,
): Promise<Answer> => (core.engine.isExternal() ? inquiry.read(core, given) : core.readers.ask(asker, inquiry, given));
