/**
 * The command line: the table of commands, and the function that runs one. Only results go to stdout; errors go to stderr
 * as `mailroom: …`. Exit codes: 0 done, 1 refused or failed, 2 wrong usage or a bad environment,
 * 3 another server has taken over.
 */
import { AppError, ConfigError, Fenced, isUnavailable, UsageError } from "../base/errors.ts";
import { build, version as number } from "../base/version.ts";
import { giveUpDiskReserve } from "../store/reserve.ts";
import { asUnavailable } from "../store/store.ts";
import { domainCommands, mailboxCommands, queueCommands, webhookCommands } from "./administration.ts";
import { backupCommands } from "./backup.ts";
import { blobsMove } from "./blobs-command.ts";
import { certificatesRenew } from "./certificates-command.ts";
import {
  type Command,
  type Document,
  defineCommand,
  FailedCheck,
  formatCommandHelp,
  formatCommandUsage,
  type Invocation,
  parseInvocation,
} from "./command.ts";
import { doctor, trace } from "./diagnosis.ts";
import { keyCommands } from "./key.ts";
import { listen } from "./listen.ts";
import { movingCommands } from "./moving-commands.ts";
import { OPERATION_COMMANDS } from "./operation-command.ts";
import { renderCommandOutput, withoutTerminalControls } from "./output.ts";
import { reindex } from "./reindex.ts";
import { type Io, openCommandContext } from "./run.ts";
import { serve } from "./serve-command.ts";
import { settingsCommands } from "./settings-commands.ts";
import { standby, standbyCommands } from "./standby-commands.ts";
import { suggestNearestWord } from "./suggest.ts";
import { exportCommand, importCommand } from "./transfer-commands.ts";
import { userCommands } from "./user.ts";
import { setup, workspaceCommands } from "./workspace-commands.ts";

const version = defineCommand({
  name: "version",
  summary: "Print the version",
  text: () => `${number}+${build}\n`,
  run: () => ({ id: "mailroom", version: number, build }),
});

/** The verbs that help lists first; `remove` comes last. */
const FIRST = ["add", "create", "list"];

function commandRank({ name }: Command): number {
  const verb = name.split(" ")[1] ?? "";
  if (verb === "remove") return FIRST.length + 1;
  return FIRST.includes(verb) ? FIRST.indexOf(verb) : FIRST.length;
}

/** The commands about something: those that are operations, and those made by hand. */
const about = (noun: string, byHand: readonly Command[] = []): Command[] =>
  [...OPERATION_COMMANDS.filter(({ name }) => name.startsWith(`${noun} `)), ...byHand].sort(
    (a, b) => commandRank(a) - commandRank(b),
  );

const GROUPS: Readonly<Record<string, readonly Command[]>> = {
  "To begin with": [setup, serve],
  "People and their mail": [
    ...workspaceCommands,
    ...movingCommands,
    ...about("domain", domainCommands),
    ...about("user", userCommands),
    ...about("mailbox", mailboxCommands),
    ...about("rule"),
    ...about("absence"),
  ],
  "Programs and agents": [...about("key", keyCommands), ...about("webhook", webhookCommands), listen],
  "Mail that leaves": [...about("suppression"), ...about("queue", queueCommands)],
  "The server": [...settingsCommands, doctor, certificatesRenew, trace, reindex, blobsMove, version],
  "Another machine": standbyCommands,
  "Copies of the mail": [...backupCommands, importCommand, exportCommand],
};

const COMMANDS = Object.values(GROUPS).flat();

const EXAMPLES = [
  'setup --domain example.com --email you@example.com --name "Your Name"',
  "user add ben@example.com --name Ben --role member",
  "key create --user you@example.com --name Agent --scopes read,write",
  "key list --json",
  "help key create",
];

const formatCommandLines = (commands: readonly Command[], width: number): string[] =>
  commands.map(({ name, summary }) => `  mailroom ${name.padEnd(width)}  ${summary}`);

const longestNameWidth = (commands: readonly Command[]): number => Math.max(...commands.map(({ name }) => name.length));

function overview(commands: readonly Command[]): string {
  const listed =
    commands === COMMANDS
      ? Object.entries(GROUPS).flatMap(([title, group]) => [
          `${title}:`,
          ...formatCommandLines(group, longestNameWidth(COMMANDS)),
          "",
        ])
      : [...formatCommandLines(commands, longestNameWidth(commands)), ""];
  const examples = commands === COMMANDS ? ["Examples:", ...EXAMPLES.map((line) => `  mailroom ${line}`), ""] : [];
  return [
    "Mailroom, a mail server for code, AI agents and the people beside them.",
    "",
    ...listed,
    ...examples,
    "mailroom help COMMAND says what a command takes. --json prints one JSON document.",
    "",
  ].join("\n");
}

const LEADING = new Set(["--json", "--help", "-h"]);

/** The command's name is made of the first words after leading options. */
function findCommand(argv: readonly string[]): { described: Command; rest: string[] } | { group: readonly Command[] } {
  const leading = argv.findIndex((word) => !LEADING.has(word));
  const start = leading < 0 ? argv.length : leading;
  const [first = "", second] = argv.slice(start);
  if (first === "--version") return { described: version, rest: argv.toSpliced(start, 1) };
  if (first === "help") return findCommand([...argv.toSpliced(start, 1), "--help"]);
  for (const described of COMMANDS) {
    const words = described.name.split(" ");
    if (words[0] !== first || (words[1] !== undefined && words[1] !== second)) continue;
    return { described, rest: [...argv.slice(0, start), ...argv.slice(start + words.length)] };
  }
  if (first === "") return { group: COMMANDS };
  const group = COMMANDS.filter((described) => described.name.startsWith(`${first} `));
  const verb = second?.startsWith("-") ? undefined : second;
  if (group.length > 0 && verb === undefined) return { group };
  throw new UsageError(unknownCommand(first, verb));
}

function unknownCommand(noun: string, verb = ""): string {
  const words = COMMANDS.map(({ name }) => name.split(" "));
  const nouns = [...new Set(words.map(([first = ""]) => first))];
  if (nouns.includes(noun)) {
    const verbs = words.flatMap(([first, second = ""]) => (first === noun ? second : []));
    return `there is no command "${noun} ${verb}"${meaning(suggestNearestWord(verb, verbs), noun)}`;
  }
  const names = words.map((parts) => parts.join(" "));
  return `there is no command "${noun}"${meaning(suggestNearestWord(`${noun} ${verb}`, names) ?? suggestNearestWord(noun, nouns))}`;
}

/** `meant`: a command, or the verb of one about `noun`. */
function meaning(meant: string | undefined, noun?: string): string {
  const about = noun === undefined ? "" : `${noun} `;
  return meant === undefined ? `: see mailroom ${about}--help` : `: did you mean "${about}${meant}"?`;
}

const EXPECTED = [AppError, ConfigError, UsageError, FailedCheck, Fenced];

/** The message for people. Of unexpected errors only the first line: a failed query's next lines have its values. */
function formatErrorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // The cause, such as a full disk, helps the operator.
  if (isUnavailable(error) && error.cause instanceof Error) return `${error.message} (${error.cause.message})`;
  if (EXPECTED.some((kind) => error instanceof kind)) return error.message;
  const line = error.message.split("\n")[0] ?? "";
  const cause = error.cause instanceof Error ? error.cause.message : "";
  return line.includes(cause) ? line : `${line} (${cause})`;
}

/** Runs the command that `argv` (without program and script) asks for. Resolves to the exit code; never rejects. */
export async function runCommandLine(argv: readonly string[], io: Io): Promise<number> {
  let reading: Command | undefined;
  try {
    const found = findCommand(argv);
    if ("group" in found) {
      const asked = argv.some((word) => word === "--help" || word === "-h" || word === "help");
      if (!asked) throw new UsageError(`name a command:\n${overview(found.group)}`);
      await io.writeStdout(overview(found.group));
      return 0;
    }
    const { described, rest } = found;
    reading = described;
    const invocation = parseInvocation(described, rest);
    reading = undefined;
    if (invocation.options.help) {
      await io.writeStdout(formatCommandHelp(described));
      return 0;
    }
    await perform(described, invocation, io);
    return 0;
  } catch (error) {
    io.writeStderr(`${io.priority("error")}mailroom: ${withoutTerminalControls(formatErrorMessage(error))}\n`);
    if (reading) io.writeStderr(`usage: ${formatCommandUsage(reading)}\n`);
    if (error instanceof Fenced && error.isFinal) return 3;
    return error instanceof UsageError ? 2 : 1;
  }
}

/** Says who may not open what, where root named it and the command runs as another user. */
function explained(error: unknown, user: string): unknown {
  const { code, path } = error as NodeJS.ErrnoException;
  if ((code !== "EACCES" && code !== "EPERM") || path === undefined) return error;
  return new Error(
    `${path} is closed to ${user}, as whom root runs this command: name a place that ${user} can reach, or open it to ${user} (chown, chmod)`,
    { cause: error },
  );
}

async function perform(described: Command, invocation: Invocation, io: Io): Promise<void> {
  const print = (document: Document): Promise<void> =>
    io.writeStdout(renderCommandOutput(described, document, invocation.options.json === true));
  const context = openCommandContext(io, {
    serving: described === serve || described === standby,
    staysRoot: described.staysRoot,
    lists: described.lists,
    isDemo: described === serve && invocation.options.demo === true,
  });
  try {
    const document = await described.run(context, invocation as Parameters<Command["run"]>[1]);
    if (document !== undefined) await print(document);
    return;
  } catch (error) {
    if (error instanceof FailedCheck) await print(error.document);
    const makesRoom = ![serve, standby, importCommand].includes(described);
    const given = makesRoom && isUnavailable(asUnavailable(error)) ? giveUpDiskReserve(context.config.data) : undefined;
    if (given === undefined) throw context.user === undefined ? error : explained(error, context.user);
    io.writeStderr(
      `mailroom: the disk is full: ${Math.ceil(given / 1_000_000)} MB that were kept for this are given up\n`,
    );
  } finally {
    context.close();
  }
  await perform(described, invocation, io);
}
