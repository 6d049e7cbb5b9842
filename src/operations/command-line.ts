/**
 * Descriptions of the commands that an operation of administration has at the command line: how arguments and options
 * become its input, and where the document that a command prints differs from the operation's answer. They stand in the
 * operation; cli/operation-command.ts makes the commands.
 */
import type { Endpoint } from "../admin/developers.ts";
import type { DomainEntry } from "../admin/domains.ts";
import type { Suppression } from "../admin/outbound.ts";
import type { MailboxEntry, UserEntry } from "../admin/people.ts";
import { UsageError } from "../base/errors.ts";

/** An argument: its label in the help, or the words that it may be. */
export type ArgumentSpec = string | readonly string[];

export interface OptionSpec {
  /** Value of the option: a label, or the words that it may be. A flag has none. */
  readonly value?: string | readonly string[];
  /** Takes several of the words, separated by commas. */
  readonly list?: true;
  readonly required?: true;
  readonly summary: string;
}

export type Arguments = Readonly<Record<string, ArgumentSpec>>;
export type Options = Readonly<Record<string, OptionSpec>>;

type OptionValue<O> = O extends { value: infer V }
  ?
      | (V extends readonly string[] ? (O extends { list: true } ? V[number][] : V[number]) : string)
      | (O extends { required: true } ? never : undefined)
  : boolean;

/** The arguments and options that a command was given, in the types that its definition says. */
export interface Given<A, O> {
  arguments: { readonly [K in keyof A]: A[K] extends readonly string[] ? A[K][number] : string };
  options: { readonly [K in keyof O]: OptionValue<O[K]> };
}

/** The kinds of things that the first argument of a command may name: by address or name, or by id. */
export interface Targets {
  mailbox: MailboxEntry;
  person: UserEntry;
  domain: DomainEntry;
  suppression: Suppression;
  webhook: Endpoint;
  recipient: { id: string; workspaceId: string };
}

/** Values that a document is made of, beside the answer. */
export interface Shown<Target = Targets[keyof Targets]> {
  /** Name of the workspace that the command worked in. */
  workspace: string;
  /** The thing that the first argument names, as it was before the command. */
  target: Target;
}

interface Description<A extends Arguments, O extends Options, K extends keyof Targets, I, T> {
  /** Two words: `suppression add`. */
  readonly name: string;
  /** The operation's summary unless given. */
  readonly summary?: string;
  readonly arguments?: A;
  /** `--workspace` is added, unless the target is named by id. */
  readonly options?: O;
  /** Columns of the table, for a list. */
  readonly columns?: readonly string[];
  /** Fields of the documents by which a list is sorted; null comes last. */
  readonly sortBy?: readonly string[];
  /** Kind of the thing that the first argument names. Its id becomes `params.id`, and the command works in its workspace. */
  readonly target?: K;
  /** The argument whose domain tells the workspace of something new, where there are several workspaces. */
  readonly workspaceBy?: keyof A;
  /** Input of the operation beside `params.id`. `limit` of a list is that of the whole. @throws UsageError, AppError */
  input?(given: Given<A, O>): Partial<I>;
  /** The document of an answer, or of one row of a list: the answer itself with `workspace` unless given. */
  document?(answer: T, shown: Shown<Targets[K]>): object;
}

/** A command, as lists hold it. `I`: the operation's input; `T`: its answer, or a row of it (RowOf). */
export type OperationCommand<I = unknown, T = unknown> = Description<Arguments, Options, keyof Targets, I, T>;

/** The part of an answer that one document shows: for a list in pages a row, else the answer. */
export type RowOf<T> = T extends { nextCursor: unknown }
  ? { [K in Exclude<keyof T, "nextCursor">]: T[K] extends readonly (infer Row)[] ? Row : never }[Exclude<
      keyof T,
      "nextCursor"
    >]
  : T;

/** Checks the types of a command's arguments, options and target against its functions. */
export function defineOperationCommand<
  const A extends Arguments = Record<never, never>,
  const O extends Options = Record<never, never>,
  K extends keyof Targets = never,
  I = unknown,
  T = unknown,
>(description: Description<A, O, K, I, T>): OperationCommand<I, T> {
  return description as never;
}

/** Option of the commands that pause. */
export const REASON = {
  reason: { value: "REASON", required: true, summary: "Why: who tries to send is told" },
} as const;

/** The sending state of a mailbox or workspace, with the reason of a pause. */
export const sendingState = ({ pausedReason }: { pausedReason: string | null }) => ({
  state: pausedReason === null ? "active" : "paused",
  paused: pausedReason,
});

/** Reads the number of an option. `what`: the right numbers, in words. @throws UsageError */
export function readNumberOption(
  option: string,
  text: string,
  isRight: (value: number) => boolean,
  what: string,
): number {
  const value = Number(text);
  if (text.trim() === "" || !isRight(value)) throw new UsageError(`--${option} is "${text}": give ${what}`);
  return value;
}
