/** The command line in this process: a data folder, and the output of commands. */
import { cpSync } from "node:fs";
import { type Runtime, systemRuntime } from "../../../src/base/runtime.ts";
import { runCommandLine } from "../../../src/cli/cli.ts";
import { lendOwnFiles } from "../../../src/cli/lending.ts";
import { newDataFolder } from "../data/database.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";

export interface Said {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface Terminal {
  readonly data: string;
  say(...argv: string[]): Promise<Said>;
  /** Runs a command with --json and returns the document. Fails when the command fails. */
  ask<T = Record<string, unknown>>(...argv: string[]): Promise<T>;
}

interface TerminalOptions {
  env?: Record<string, string>;
  /** MAILROOM_DATA */
  data?: string;
  stdin?: string;
  runtime?: Partial<Runtime>;
  interrupted?: Promise<void>;
  written?: (said: Omit<Said, "exitCode">) => void;
}

/**
 * `stdin` is the input of every command. `runtime` replaces parts of the runtime. `interrupted` resolves when SIGINT comes.
 * `written` is told what a command has written so far.
 */
export function openTerminal({
  env = {},
  stdin = "",
  runtime = {},
  data = temporaryFolder(),
  interrupted = Promise.resolve(),
  written = () => {},
}: TerminalOptions = {}): Terminal {
  async function say(...argv: string[]): Promise<Said> {
    let stdout = "";
    let stderr = "";
    const exitCode = await runCommandLine(argv, {
      env: { MAILROOM_DATA: data, MAILROOM_HOSTNAME: "mail.acme.test", ...env },
      readStdin: async () => stdin,
      writeStdout: async (text) => {
        stdout += text;
        written({ stdout, stderr });
      },
      writeStderr: (text) => {
        stderr += text;
        written({ stdout, stderr });
      },
      priority: () => "",
      runtime: (servers) => ({ ...systemRuntime(servers), ...runtime }),
      interrupted: () => interrupted,
      keepRunning() {},
      // The process of the tests stays who it is.
      actAsFolderOwner: () => undefined,
      prepareFolder: async () => {},
      lendFiles: (_, named) => lendOwnFiles(named, systemRuntime()),
    });
    return { exitCode, stdout, stderr };
  }
  return {
    data,
    say,
    async ask<T>(...argv: string[]) {
      const { exitCode, stdout, stderr } = await say(...argv, "--json");
      if (exitCode !== 0) throw new Error(`mailroom ${argv.join(" ")} exited ${exitCode}: ${stderr}`);
      return JSON.parse(stdout) as T;
    },
  };
}

export const SETUP = ["setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada"] as const;

/** The folder in which SETUP ran for this file. SETUP makes keys, which takes longer than most tests. */
let setUp: Promise<string> | undefined;
atEndOfFile(() => {
  setUp = undefined;
});

/** Makes a terminal with a copy of the data folder that SETUP leaves, the same for a whole file. */
export async function openSetUp(options: Omit<TerminalOptions, "data"> = {}): Promise<Terminal> {
  setUp ??= (async () => {
    const { data, ask } = openTerminal({ data: newDataFolder() });
    await ask(...SETUP);
    return data;
  })();
  const data = temporaryFolder();
  // SQLite makes the index of its log again.
  cpSync(await setUp, data, { recursive: true, filter: (path) => !path.endsWith("-shm") });
  return openTerminal({ ...options, data });
}
