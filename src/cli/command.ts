/**
 * What a command is: one description from which its arguments are read, its help is written and its wrong usage is
 * told. Wrong usage is a UsageError.
 */
import { parseArgs } from "node:util";
import { UsageError } from "../base/errors.ts";
import type { Session } from "./session.ts";

/** An argument: the label it has in the help, or the words it may be. */
type ArgumentSpec = string | readonly string[];

interface OptionSpec {
  /** What it takes: a label, or the words it may be. A flag takes nothing. */
  readonly value?: string | readonly string[];
  /** Several of the words, with commas between them. */
  readonly list?: true;
  readonly required?: true;
  readonly summary: string;
}

type Arguments = Readonly<Record<string, ArgumentSpec>>;
type Options = Readonly<Record<string, OptionSpec>>;

type ArgumentValues<A> = { readonly [K in keyof A]: A[K] extends readonly string[] ? A[K][number] : string };
type OptionValue<O> = O extends { value: infer V }
  ?
      | (V extends readonly string[] ? (O extends { list: true } ? V[number][] : V[number]) : string)
      | (O extends { required: true } ? never : undefined)
  : boolean;
type OptionValues<O> = { readonly [K in keyof O]: OptionValue<O[K]> };

/** What a command prints: one JSON document. */
export type Document = object;

interface Description<A extends Arguments, O extends Options> {
  /** One word or two: `domain add`. */
  readonly name: string;
  readonly summary: string;
  readonly arguments?: A;
  readonly options?: O;
  /** It takes any number of these after its arguments. */
  readonly rest?: string;
  /** For a list: the columns of its table. */
  readonly columns?: readonly string[];
  /** Without --json, when neither a table nor `name: value` lines will do. */
  text?(document: Document): string;
  /** @throws UsageError, AppError, ConfigError, FailedCheck */
  run(
    session: Session,
    given: { arguments: ArgumentValues<A>; options: OptionValues<O>; rest: readonly string[] },
  ): Document | Promise<Document | undefined>;
}

export type Command = Description<Arguments, Options>;

/** Keeps the types of a command's arguments and options together with its `run`, then lets go of them for the table. */
export function command<
  const A extends Arguments = Record<never, never>,
  const O extends Options = Record<never, never>,
>(description: Description<A, O>): Command {
  return description as unknown as Command;
}

/** Bad news that is an answer all the same: the document is printed, then the message on stderr; exit 1. */
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
  help: { summary: "Print this help" },
} as const satisfies Options;

const optionsOf = (described: Command): Options => ({ ...described.options, ...COMMON_OPTIONS });

function oneOf(what: string, words: readonly string[], text: string): string {
  if (words.includes(text)) return text;
  throw new UsageError(`${what} is "${text}": give ${words.length === 1 ? words[0] : `one of ${words.join(", ")}`}`);
}

function optionValue(name: string, { value, list }: OptionSpec, text: string): string | string[] {
  if (typeof value !== "object") return text;
  if (!list) return oneOf(`--${name}`, value, text);
  return text.split(",").map((word) => oneOf(`--${name}`, value, word.trim()));
}

export interface Invocation {
  arguments: Record<string, string>;
  options: Record<string, string | string[] | boolean | undefined>;
  rest: string[];
}

/** A negative number is a value, which parseArgs would take for options: it is marked by what no argument can hold. */
const MARK = "\0";
const markNumber = (word: string): string => (/^-\.?\d/.test(word) ? MARK + word : word);
const unmark = (word: string): string => word.replace(MARK, "");

/** Reads what follows the command's name. With `--help` nothing else has to be right. @throws UsageError */
export function parseInvocation(described: Command, argv: readonly string[]): Invocation {
  const specs = optionsOf(described);
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: argv.map(markNumber),
      allowPositionals: true,
      options: Object.fromEntries(
        Object.entries(specs).map(([name, spec]) => [name, { type: spec.value === undefined ? "boolean" : "string" }]),
      ),
    });
  } catch (error) {
    // Its first sentence says what is wrong; the rest is about programming with it.
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
    if (given === undefined) throw new UsageError(`${labelOf(spec)} is missing`);
    invocation.arguments[name] = typeof spec === "string" ? given : oneOf(`"${name}"`, spec, given);
  }
  for (const [name, spec] of Object.entries(specs)) {
    if (spec.required && options[name] === undefined) throw new UsageError(`--${name} is missing`);
  }
  return invocation;
}

const labelOf = (spec: ArgumentSpec): string => (typeof spec === "string" ? spec : spec.join("|"));

function optionLabel(name: string, { value, list }: OptionSpec): string {
  if (value === undefined) return `--${name}`;
  return `--${name} ${typeof value === "string" ? value : value.join(list ? "," : "|")}`;
}

/** The command on one line: `mailroom domain add DOMAIN [--workspace NAME]`. */
export function usageOf(described: Command): string {
  const parts = ["mailroom", described.name, ...Object.values(described.arguments ?? {}).map(labelOf)];
  if (described.rest !== undefined) parts.push(`${described.rest}…`);
  for (const [name, spec] of Object.entries(described.options ?? {})) {
    parts.push(spec.required ? optionLabel(name, spec) : `[${optionLabel(name, spec)}]`);
  }
  return parts.join(" ");
}

export function helpOf(described: Command): string {
  const options = Object.entries(optionsOf(described)).map(
    ([name, spec]) => [`  ${optionLabel(name, spec)}`, spec.summary] as const,
  );
  const width = Math.max(...options.map(([label]) => label.length));
  return [
    described.summary,
    "",
    `  ${usageOf(described)}`,
    "",
    ...options.map(([label, summary]) => `${label.padEnd(width)}  ${summary}`),
    "",
  ].join("\n");
}
