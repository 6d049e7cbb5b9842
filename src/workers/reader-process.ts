/** Starts readers (reader.ts): child processes of this program that ask the database. */
import { type MessagingChild, ownProgramCommand, startMessagingChild } from "../base/child-process.ts";

/** A reader of the database `file` as the pool sees it. `heard` and `ended`: as in startMessagingChild. */
export type StartReader = (
  file: string,
  events: { heard(message: unknown): void; ended(how: string): void },
) => MessagingChild;

/** The first argument of a reader. No command has such a name. */
const ARGUMENT = "reader:";

/** The database of this process, if a server started it as a reader. */
export const readerDatabaseFile = (): string | undefined =>
  process.argv[2] === ARGUMENT ? process.argv[3] : undefined;

export const startReader: StartReader = (file, events) =>
  startMessagingChild("reader", [...ownProgramCommand(), ARGUMENT, file], events);
