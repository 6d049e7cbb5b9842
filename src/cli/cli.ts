/**
 * The command line: the table of commands, and running one of them. Results go to stdout and nothing else does; errors
 * go to stderr as `mailroom: …`. Exit 0 when done, 1 when refused or failed, 2 for wrong usage or a bad environment.
 */
import { AppError, ConfigError, UsageError } from "../errors.ts";
import { type Command, FailedCheck, helpOf, parseInvocation, usageOf } from "./command.ts";
import { domainCommands } from "./domain.ts";
import { keyCommands } from "./key.ts";
import { mailboxCommands } from "./mailbox.ts";
import { render } from "./output.ts";
import { serve } from "./serve.ts";
import { type Io, openSession } from "./session.ts";
import { settingsCommands } from "./settings.ts";
import { setup } from "./setup.ts";
import { userCommands } from "./user.ts";
import { version } from "./version.ts";
import { workspaceCommands } from "./workspace.ts";

const COMMANDS: readonly Command[] = [
  serve,
  setup,
  ...workspaceCommands,
  ...domainCommands,
  ...userCommands,
  ...mailboxCommands,
  ...keyCommands,
  ...settingsCommands,
  version,
];

function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((described) => described.name.length));
  return [
    "Mailroom, a mail server for code, AI agents and the people beside them.",
    "",
    ...commands.map((described) => `  mailroom ${described.name.padEnd(width)}  ${described.summary}`),
    "",
    "mailroom COMMAND --help says what a command takes. --json prints one JSON document.",
    "",
  ].join("\n");
}

/** The words before the first option that is not common to all commands name the command. */
function findCommand(argv: readonly string[]): { described: Command; rest: string[] } | { group: readonly Command[] } {
  const leading = argv.findIndex((word) => word !== "--json" && word !== "--help");
  const start = leading < 0 ? argv.length : leading;
  const [first = "", second] = argv.slice(start);
  for (const described of COMMANDS) {
    const words = described.name.split(" ");
    if (words[0] !== first || (words[1] !== undefined && words[1] !== second)) continue;
    return { described, rest: [...argv.slice(0, start), ...argv.slice(start + words.length)] };
  }
  const group = COMMANDS.filter((described) => described.name.startsWith(`${first} `));
  if (first === "" || first === "help") return { group: COMMANDS };
  if (group.length === 0) throw new UsageError(`there is no command "${first}"`);
  if (second !== undefined && !second.startsWith("-")) throw new UsageError(`there is no command "${first} ${second}"`);
  return { group };
}

/** What to tell of an error. What is not a refusal is a fault of ours: its cause says more than the statement it broke. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const foreseen = error instanceof AppError || error instanceof ConfigError || error instanceof FailedCheck;
  return foreseen || !(error.cause instanceof Error) ? error.message : error.cause.message;
}

/** Runs the command that `argv` (without program and script) asks for; resolves to the exit code. Never rejects. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const complain = (message: string): void => io.writeStderr(`mailroom: ${message}\n`);
  let described: Command | undefined;
  try {
    const found = findCommand(argv);
    if ("group" in found) {
      if (argv.includes("--help") || argv.includes("help")) await io.writeStdout(overview(found.group));
      else throw new UsageError(`name a command:\n${overview(found.group)}`);
      return 0;
    }
    described = found.described;
    const invocation = parseInvocation(described, found.rest);
    if (invocation.options.help) {
      await io.writeStdout(helpOf(described));
      return 0;
    }
    const json = invocation.options.json === true;
    const session = openSession(io, { serving: described === serve });
    try {
      const document = await described.run(session, invocation as Parameters<Command["run"]>[1]);
      if (document !== undefined) await io.writeStdout(render(described, document, json));
      return 0;
    } catch (error) {
      if (error instanceof FailedCheck) await io.writeStdout(render(described, error.document, json));
      throw error;
    } finally {
      await session.close();
    }
  } catch (error) {
    complain(messageOf(error));
    if (!(error instanceof UsageError)) return 1;
    if (described) io.writeStderr(`usage: ${usageOf(described)}\n`);
    return 2;
  }
}
