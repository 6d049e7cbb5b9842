/**
 * The description of a command, from which this module parses its arguments, writes its help and refuses wrong usage
 * (UsageError).
 */
import { parseArgs } from "node:util";
import { UsageError } from "../base/errors.ts";
import type { ArgumentSpec, Arguments, Given, OptionSpec, Options } from "../operations/command-line.ts";
import type { CommandContext } from "./run.ts";

/** The result of a command, one JSON document. */
export type Document = object;

interface Description<A extends Arguments, O extends Options> {
  /** One word or two: `domain add`. */
  readonly name: string;
  readonly summary: string;
  readonly arguments?: A;
  readonly options?: O;
  /** Label of further arguments, any number of them. */
  readonly rest?: string;
  /** Columns of the table, for a list. */
  readonly columns?: readonly string[];
  /** Root runs it as root: it binds low ports, or takes care of links itself. Other commands: see Io.actAsFolderOwner. */
  readonly staysRoot?: true;
  /** Lists what is there. In a data folder that is not there yet, it finds nothing, and makes nothing. */
  readonly lists?: true;
  /** Output without --json, where neither a table nor `name: value` lines fit. */
  text?(document: Document): string;
  /** @throws UsageError, AppError, ConfigError, FailedCheck */
  run(
    context: CommandContext,
    given: Given<A, O> & { rest: readonly string[] },
  ): Document | Promise<Document | undefined>;
}

export type Command = Description<Arguments, Options>;

/** Checks the types of a command's arguments and options against its `run`. */
export function defineCommand<
  const A extends Arguments = Record<never, never>,
  const O extends Options = Record<never, never>,
>(description: Description<A, O>): Command {
  return description as unknown as Command;
}

/** A result that is bad news: the command prints its document, then the message on stderr, and exits with 1. */
export class FailedCheck extends Error {
  override readonly name = "FailedCheck";
  readonly document: Document;

  constructor(message: string, document: Document) {
    super(message);
    this.document = document;
  }
}

const COMMON_OPTIONS = {
  json: { summary: "Print one JSON document" },
  help: { summary: "Print this help; -h too" },
} as const satisfies Options;

const allCommandOptions = (described: Command): Options => ({ ...described.options, ...COMMON_OPTIONS });

function readChoice(what: string, words: readonly string[], text: string): string {
  if (words.includes(text)) return text;
  throw new UsageError(`${what} is "${text}": give ${words.length === 1 ? words[0] : `one of ${words.join(", ")}`}`);
}

function optionValue(name: string, { value, list }: OptionSpec, text: string): string | string[] {
  if (typeof value !== "object") return text;
  if (!list) return readChoice(`--${name}`, value, text);
  return text.split(",").map((word) => readChoice(`--${name}`, value, word.trim()));
}

export interface Invocation {
  arguments: Record<string, string>;
  options: Record<string, string | string[] | boolean | undefined>;
  rest: string[];
}

/** parseArgs takes negative numbers for options, so they are marked with a character that no argument can have. */
const MARK = "\0";
const markNumber = (word: string): string => (/^-\.?\d/.test(word) ? MARK + word : word);
const unmark = (word: string): string => word.replace(MARK, "");

/** Parses the arguments after the command's name. With `--help` the others need not be valid. @throws UsageError */
export function parseInvocation(described: Command, argv: readonly string[]): Invocation {
  const specs = allCommandOptions(described);
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: argv.map(markNumber),
      allowPositionals: true,
      options: Object.fromEntries(
        Object.entries(specs).map(([name, spec]) => [
          name,
          { type: spec.value === undefined ? "boolean" : "string", ...(name === "help" && { short: "h" }) },
        ]),
      ),
    });
  } catch (error) {
    // The first sentence names the mistake; the rest is for programmers.
    throw new UsageError(error instanceof Error ? unmark(error.message.split(/[.\n]/)[0] as string) : String(error));
  }
  const options: Invocation["options"] = {};
  for (const [name, spec] of Object.entries(specs)) {
    const given = parsed.values[name];
    options[name] = typeof given === "string" ? optionValue(name, spec, unmark(given)) : (given as boolean | undefined);
    if (spec.value === undefined) options[name] ??= false;
  }
  const invocation: Invocation = { arguments: {}, options, rest: [] };
  if (options.help) return invocation;

  const expected = Object.entries(described.arguments ?? {});
  const positionals = parsed.positionals.map(unmark);
  invocation.rest = positionals.slice(expected.length);
  if (described.rest === undefined && invocation.rest.length > 0) {
    throw new UsageError(`"${invocation.rest[0]}" is one argument too many`);
  }
  for (const [index, [name, spec]] of expected.entries()) {
    const given = positionals[index];
    if (given === undefined) throw new UsageError(`${argumentLabel(spec)} is missing`);
    invocation.arguments[name] = typeof spec === "string" ? given : readChoice(`"${name}"`, spec, given);
  }
  for (const [name, spec] of Object.entries(specs)) {
    if (spec.required && options[name] === undefined) throw new UsageError(`--${name} is missing`);
  }
  return invocation;
}

const argumentLabel = (spec: ArgumentSpec): string => (typeof spec === "string" ? spec : spec.join("|"));

function optionLabel(name: string, { value, list }: OptionSpec): string {
  if (value === undefined) return `--${name}`;
  return `--${name} ${typeof value === "string" ? value : value.join(list ? "," : "|")}`;
}

/** The command on one line: `mailroom domain add DOMAIN [--workspace NAME]`. */
export function formatCommandUsage(described: Command): string {
  const parts = ["mailroom", described.name, ...Object.values(described.arguments ?? {}).map(argumentLabel)];
  if (described.rest !== undefined) parts.push(`${described.rest}…`);
  for (const [name, spec] of Object.entries(described.options ?? {})) {
    parts.push(spec.required ? optionLabel(name, spec) : `[${optionLabel(name, spec)}]`);
  }
  return parts.join(" ");
}

export function formatCommandHelp(described: Command): string {
  const options = Object.entries(allCommandOptions(described)).map(
    ([name, spec]) => [`  ${optionLabel(name, spec)}`, spec.summary] as const,
  );
  const width = Math.max(...options.map(([label]) => label.length));
  return [
    described.summary,
    "",
    `  ${formatCommandUsage(described)}`,
    "",
    ...options.map(([label, summary]) => `${label.padEnd(width)}  ${summary}`),
    "",
  ].join("\n");
}
