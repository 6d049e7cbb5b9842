/** Starts parsers (parser.ts): child processes of this program that read what strangers sent. */
import { type MessagingChild, ownProgramCommand, startMessagingChild } from "../base/child-process.ts";

/** A parser as the pool sees it. `heard` and `ended`: as in startMessagingChild. */
export type StartParser = (events: { heard(message: unknown): void; ended(how: string): void }) => MessagingChild;

/** The only argument of a parser. No command has such a name. */
const ARGUMENT = "parser:";

/** True in a process that a server started as a parser. */
export const isParserProcess = (): boolean => process.argv[2] === ARGUMENT;

export const startParser: StartParser = (events) =>
  startMessagingChild("parser", [...ownProgramCommand(), ARGUMENT], events);
