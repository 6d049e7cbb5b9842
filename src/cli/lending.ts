/**
 * Lends a command the files that root named on its command line. The command itself gives root's rights up (Io.actAsFolderOwner); a
 * child that keeps them (lender.ts) opens these files alone, and runs the command that root named for tokens.
 */
import { ownProgramCommand, startMessagingChild } from "../base/child-process.ts";
import { AppError, type ErrorCode } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { readTokenFromCommand } from "../base/token-command.ts";
import { type Entry, type Kind, type NamedFiles, OWN_FILES } from "../store/named-files.ts";

/** Absolute paths: what may be read, with all that is below it, and the file that may be made. */
export interface Named {
  read?: readonly string[];
  create?: string;
  /** A command that prints an access token. */
  token?: string | undefined;
}

export interface Lent extends NamedFiles {
  /** Runs the command. @throws Error */
  token(): Promise<string>;
}

/** Lends what this process may open. */
export const lendOwnFiles = ({ token = "" }: Named, runtime: Pick<Runtime, "setTimer">): Lent => ({
  ...OWN_FILES,
  token: () => readTokenFromCommand(token, runtime),
});

/** The first argument of a lender; the second is Named, as JSON. No command has such a name. */
const ARGUMENT = "lender:";

/** Reads what the command line allows this process to lend; undefined where the process is no lender. */
export const readFileLenderArgument = (argv: readonly string[]): Named | undefined =>
  argv[2] === ARGUMENT ? (JSON.parse(argv[3] ?? "{}") as Named) : undefined;

/** The calls, by name: with a path, or the number of an open file. */
export interface Calls {
  getFileKind(path: string): Kind;
  list(path: string): Entry[];
  open(path: string): { file: number; size: number; modifiedAt: number };
  read(file: number, position: number, length: number): Uint8Array;
  close(file: number): void;
  create(path: string): number;
  write(file: number, bytes: Uint8Array): void;
  keep(file: number): void;
  drop(file: number): void;
  token(): string;
}

export interface Call {
  id: number;
  name: keyof Calls;
  given: (string | number | Uint8Array)[];
}

export type Answer = { id: number } & ({ value: unknown } | { error: string; code?: string; refusal?: ErrorCode });

/** Starts the child, which has root's rights even if this process gives them up at once. */
export function startFileLender(named: Named): Lent {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;
  let over: Error | undefined;
  const child = startMessagingChild(
    "lender",
    [...ownProgramCommand({ changesUser: true }), ARGUMENT, JSON.stringify(named)],
    {
      heard(message) {
        const answer = message as Answer;
        const call = waiting.get(answer.id);
        waiting.delete(answer.id);
        if ("value" in answer) call?.resolve(answer.value);
        else call?.reject(makeAnswerError(answer));
      },
      ended(how) {
        over = new Error(`the process that opens root's files ended: ${how}`);
        for (const { reject } of waiting.values()) reject(over);
      },
    },
  );

  function call<N extends keyof Calls>(name: N, ...given: Parameters<Calls[N]>): Promise<ReturnType<Calls[N]>> {
    if (over) return Promise.reject(over);
    const answer = Promise.withResolvers<unknown>();
    const id = ++calls;
    waiting.set(id, answer);
    child.send({ id, name, given } satisfies Call);
    return answer.promise as Promise<ReturnType<Calls[N]>>;
  }

  return {
    token: () => call("token"),
    getFileKind: (path) => call("getFileKind", path),
    list: (path) => call("list", path),
    async open(path) {
      const { file, ...known } = await call("open", path);
      return {
        ...known,
        read: (position, length) => call("read", file, position, length),
        close: () => call("close", file),
      };
    },
    async create(path) {
      const file = await call("create", path);
      return {
        write: (bytes) => call("write", file, bytes),
        keep: () => call("keep", file),
        drop: () => call("drop", file),
      };
    },
  };
}

const makeAnswerError = ({ error, code, refusal }: Exclude<Answer, { value: unknown }>): Error =>
  refusal === undefined ? Object.assign(new Error(error), { code }) : new AppError(refusal, error);
