/** `mailroom import` and `mailroom export`: mail from files and accounts on other servers, and into an mbox file. */
import { resolve } from "node:path";
import * as people from "../admin/people.ts";
import { UsageError } from "../base/errors.ts";
import { hasMessageOfSize } from "../mailbox/filing/filing-rows.ts";
import { exportMailbox } from "../mailbox/filing/transfer.ts";
import type { NamedFiles } from "../store/named-files.ts";
import { exportMail } from "../transfer/export-mbox.ts";
import {
  createPacing,
  type ImportResult,
  importMail,
  LARGEST_MESSAGE,
  openImportParser,
  type Tally,
} from "../transfer/import-mail.ts";
import { createImportDestination } from "../transfer/placement.ts";
import { type FoundMessage, findMessagesInFiles, type KnownMessage, type NotFound } from "../transfer/sources.ts";
import { defineCommand, FailedCheck } from "./command.ts";
import { resolveCommandTarget } from "./operation-command.ts";
import { watchProgress } from "./output.ts";
import type { CommandContext } from "./run.ts";
import { WORKSPACE } from "./workspace-commands.ts";

/** Messages of the IMAP account at `url`. @throws UsageError, AppError */
async function* findRemote(
  { io, opened: { core }, readSecret, runtime, log }: CommandContext,
  url: string,
  {
    mailboxId,
    folders,
    stdin,
    token,
  }: {
    mailboxId: string;
    folders: readonly string[] | undefined;
    stdin: boolean;
    token: (() => Promise<string>) | undefined;
  },
): AsyncGenerator<FoundMessage | KnownMessage | NotFound> {
  // Loaded only when needed: few imports use it.
  const { findImapAccountMessages: findInAccount, readImapAccountUrl: readAccount } = await import(
    "../transfer/imap-account.ts"
  );
  const account = readAccount(url);
  if (!account) {
    // The URL is not quoted: a password in it would end up in logs.
    throw new UsageError("--imap takes imaps://USER@HOST, with %40 for an @ in the user, and no password");
  }
  if (stdin === (token !== undefined)) {
    throw new UsageError(
      "give the account's password on standard input, with --password-stdin, or a command that prints a token, with --token-command",
    );
  }
  io.writeStderr(`reading from ${account.host}\n`);
  yield* findInAccount({
    account: { ...account, ...(token ? { token } : { password: await readSecret() }) },
    ...(folders && { folders }),
    mostBytes: LARGEST_MESSAGE,
    isKnown: (messageId, size) => hasMessageOfSize(core.db, mailboxId, messageId, size),
    runtime,
    log,
  });
}

async function* findAll(
  paths: readonly string[],
  files: NamedFiles,
): AsyncGenerator<FoundMessage | KnownMessage | NotFound> {
  for (const path of paths) {
    try {
      yield* findMessagesInFiles(path, LARGEST_MESSAGE, files);
    } catch (error) {
      yield { path, reason: error instanceof Error ? error.message : String(error) };
    }
  }
}

const counts = ({ imported, skipped, failed }: Tally): string =>
  `${imported} imported, ${skipped} skipped, ${failed} failed`;

function describe(document: object): string {
  const { sources, ...result } = document as ImportResult;
  const failures = sources.flatMap(({ path, failures: of }) =>
    of.map(({ place, reason }) => `  ${place === path ? path : `${path}: ${place}`}: ${reason}\n`),
  );
  const perSource = sources.map(
    (source) => `${source.path} (${source.format}): ${counts({ ...source, sources: [] })}\n`,
  );
  return [...(sources.length > 1 ? perSource : []), ...failures, `${counts({ ...result, sources })}\n`].join("");
}

const WHY_STOPPED: Record<NonNullable<ImportResult["stopped"]>, (result: ImportResult) => string> = {
  interrupted: () => "interrupted; run it again to go on",
  unavailable: ({ reason }) => `the store takes no more (${reason}): see to its disk, and run it again to go on`,
  quota: () =>
    "the mailbox or its workspace is full: raise that with `mailroom mailbox quota` or `workspace limit`, and run it again to go on",
};

export const importCommand = defineCommand({
  name: "import",
  summary:
    "Import mail from mbox files, Maildirs, .eml files, folders and archives (.zip, .tgz) of them, or an IMAP account; mail that is there already is skipped",
  rest: "PATH",
  options: {
    mailbox: { value: "ADDRESS", required: true, summary: "The mailbox to import into" },
    folder: {
      value: ["inbox", "archive"],
      summary: "For mail whose folder is not known; the inbox if left out",
    },
    read: { summary: "Count all of it as read" },
    imap: { value: "imaps://USER@HOST", summary: "Import from this account instead of files" },
    "password-stdin": { summary: "Read the account's password from standard input" },
    "token-command": {
      value: "CMD",
      summary: "Sign in with the access token that this command prints (OAUTHBEARER, XOAUTH2), in place of a password",
    },
    folders: { value: "NAME,…", summary: "Of the account, only these folders" },
    ...WORKSPACE,
  },
  text: describe,
  async run(context, { options, rest }) {
    if ((rest.length === 0) === (options.imap === undefined)) {
      throw new UsageError("name what to import: paths, or an account with --imap");
    }
    const paths = rest.map((path) => resolve(path));
    const files = context.lendFiles({ read: paths, token: options["token-command"] });
    const { opened, runtime } = context;
    const { core } = opened;
    const placing = { folder: options.folder ?? "inbox", read: options.read } as const;
    const entry = resolveCommandTarget("mailbox", context, options.mailbox, options.workspace);
    const destination = createImportDestination(core, entry, people.listUsers(core, entry.workspaceId), placing);
    const messages =
      options.imap === undefined
        ? findAll(paths, files)
        : findRemote(context, options.imap, {
            mailboxId: entry.id,
            folders: options.folders?.split(","),
            stdin: options["password-stdin"],
            token: options["token-command"] === undefined ? undefined : files.token,
          });
    const parser = openImportParser(core);
    const { isInterrupted, tell } = watchProgress(context);
    const pacing = createPacing(core, isInterrupted);
    const startedAt = runtime.now();
    let result: ImportResult;
    try {
      result = await importMail(
        { core, parser, pacing },
        {
          messages,
          destination,
          isInterrupted,
          onProgress: (tally) =>
            tell(() => {
              const rate = Math.round(((tally.imported + tally.skipped) * 1_000) / (runtime.now() - startedAt));
              return `${counts(tally)}, ${rate} a second`;
            }),
        },
      );
    } finally {
      parser.stop();
    }
    const document = { mailbox: destination.address, ...result };
    if (result.stopped) throw new FailedCheck(WHY_STOPPED[result.stopped](result), document);
    if (result.failed > 0) throw new FailedCheck(`${result.failed} could not be imported`, document);
    return document;
  },
});

export const exportCommand = defineCommand({
  name: "export",
  summary: "Write a mailbox into an mbox file, from which mailroom import makes the same mailbox",
  options: {
    mailbox: { value: "ADDRESS", required: true, summary: "The mailbox" },
    to: { value: "FILE.mbox", required: true, summary: "The file, which must not exist" },
    ...WORKSPACE,
  },
  async run(context, { options }) {
    const path = resolve(options.to);
    const files = context.lendFiles({ create: path });
    const { core } = context.opened;
    const entry = resolveCommandTarget("mailbox", context, options.mailbox, options.workspace);
    const { isInterrupted, tell } = watchProgress(context);
    const exported = await exportMail(exportMailbox(core, entry.id), await files.create(path), {
      isInterrupted,
      onProgress: (messages) => tell(() => `${messages} exported`),
    });
    if (!exported) throw new Error("interrupted: no file was written");
    const { lost, ...rest } = exported;
    const document = { mailbox: entry.address, to: path, ...rest };
    if (lost.length === 0) return document;
    const without = lost.length === 1 ? "1 message" : `${lost.length} messages`;
    throw new FailedCheck(
      `the file was written, without ${without} whose octets or attachments are damaged or missing; mailroom doctor names the files`,
      { ...document, lost },
    );
  },
});
