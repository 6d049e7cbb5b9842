/**
 * A lender: the process of a command that root runs which keeps root's rights (lending.ts). It reads what the command line
 * named, and makes the file that it named, whatever else the other process asks for. It parses nothing.
 */
import { resolve } from "node:path";
import { encodeChildMessage, hearParent, tellParent } from "../base/child-messages.ts";
import { AppError } from "../base/errors.ts";
import { systemRuntime } from "../base/runtime.ts";
import { readTokenFromCommand } from "../base/token-command.ts";
import { type NewFile, type OpenFile, OWN_FILES } from "../store/named-files.ts";
import type { Answer, Call, Calls, Named } from "./lending.ts";

type Asynchronous<C> = {
  [N in keyof C]: C[N] extends (...given: infer G) => infer R ? (...given: G) => Promise<R> : never;
};

const runtime = systemRuntime();

/** Answers the other process until it ends. */
export function runFileLender({ read = [], create, token }: Named): void {
  const files = new Map<number, OpenFile | NewFile>();
  let opened = 0;

  function keep(file: OpenFile | NewFile): number {
    files.set(++opened, file);
    return opened;
  }

  function take(number: number): OpenFile | NewFile {
    const file = files.get(number);
    if (!file) throw new Error("there is no such file");
    files.delete(number);
    return file;
  }

  const isBelow = (path: string, root: string): boolean => path.startsWith(root.endsWith("/") ? root : `${root}/`);

  /** @throws Error for a path that root did not name */
  function readable(path: string): string {
    const isNamed = resolve(path) === path && read.some((root) => path === root || isBelow(path, root));
    if (!isNamed) throw new Error(`${path} was not named`);
    return path;
  }

  const calls: Asynchronous<Calls> = {
    getFileKind: async (path) => OWN_FILES.getFileKind(readable(path)),
    list: async (path) => OWN_FILES.list(readable(path)),
    async open(path) {
      const file = await OWN_FILES.open(readable(path));
      const { size, modifiedAt } = file;
      return { file: keep(file), size, modifiedAt };
    },
    read: async (number, position, length) => (files.get(number) as OpenFile).read(position, length),
    close: async (number) => (take(number) as OpenFile).close(),
    async create(path) {
      if (path !== create) throw new Error(`${path} was not named`);
      return keep(await OWN_FILES.create(path));
    },
    write: async (number, bytes) => (files.get(number) as NewFile).write(bytes),
    keep: async (number) => (take(number) as NewFile).keep(),
    drop: async (number) => (take(number) as NewFile).drop(),
    async token() {
      if (token === undefined) throw new Error("no command was named");
      return readTokenFromCommand(token, runtime);
    },
  };

  async function answer({ id, name, given }: Call): Promise<Answer> {
    try {
      return { id, value: (await (calls[name] as (...given: unknown[]) => Promise<unknown>)(...given)) ?? null };
    } catch (error) {
      if (error instanceof AppError) return { id, error: error.message, refusal: error.code };
      const { message, code } = error as NodeJS.ErrnoException;
      return { id, error: message, ...(code !== undefined && { code }) };
    }
  }

  hearParent(async (call) => tellParent(encodeChildMessage(await answer(call as Call))));
}
