/** The commands that are projections of operations (operations/command-line.ts), and how they find what an argument names. */
import * as developers from "../admin/developers.ts";
import * as domains from "../admin/domains.ts";
import * as mailboxAdmin from "../admin/mailbox-admin.ts";
import * as outbound from "../admin/outbound.ts";
import * as people from "../admin/people.ts";
import { readTypedAddress } from "../admin/typed-names.ts";
import { AppError, UsageError } from "../base/errors.ts";
import type { OperationCommand, Targets } from "../operations/command-line.ts";
import { isMediaType, type Operation } from "../operations/operation.ts";
import { ADMIN_OPERATIONS } from "../operations/operations.ts";
import { performAsOperator } from "../operations/perform.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import type { Command, Document } from "./command.ts";
import type { CommandContext } from "./run.ts";
import { chooseWorkspaceId, findWorkspaceId, WORKSPACE, workspaceNames } from "./workspace-commands.ts";

/** More rows than any list has. */
const ALL = 1_000_000_000;

type Find<K extends keyof Targets> = (context: CommandContext, named: string, workspaceId?: string) => Targets[K];

const FIND: { readonly [K in keyof Targets]: Find<K> } = {
  mailbox: ({ opened }, address, workspaceId) => mailboxAdmin.getMailboxByAddress(opened.core, address, workspaceId),
  person: ({ opened }, address, workspaceId) => people.getUserByAddress(opened.core, address, workspaceId),
  domain: ({ opened }, name, workspaceId) => domains.getDomainByName(opened.core, name, workspaceId),
  suppression({ opened }, text, workspaceId) {
    const address = readTypedAddress(text);
    const [entry, another] = outbound
      .listSuppressions(opened.core, workspaceId)
      .filter((known) => known.address === address);
    if (!entry) throw new AppError("not_found", `${address} is not suppressed`);
    if (another) throw new UsageError(`several workspaces suppress ${address}: name one with --workspace NAME`);
    return entry;
  },
  webhook: ({ opened }, id) => developers.getWebhookEndpoint(opened.core, id),
  recipient: ({ opened }, id) => outbound.getQueueEntry(opened.core, id),
};

/** Named by an id, which says the workspace. */
const BY_ID: ReadonlySet<keyof Targets | undefined> = new Set(["webhook", "recipient"] as const);

/**
 * Finds what an argument names, in the named workspace or in all.
 * @throws AppError not_found, bad_request; conflict or UsageError when several workspaces have one; server_error 503 for one of
 * a workspace that moves to another server
 */
export const resolveCommandTarget = <K extends keyof Targets>(
  kind: K,
  context: CommandContext,
  named: string,
  workspace: string | undefined,
): Targets[K] => {
  const found = FIND[kind](context, named, findWorkspaceId(context, workspace));
  requireWorkspaceServed(context.opened.core.store.db, found.workspaceId);
  return found;
};

/** Compares two documents by a field, as text; null comes last. */
function compare(a: object, b: object, field: string): number {
  const [one, other] = [a, b].map((document) => (document as Record<string, unknown>)[field] ?? null);
  if (one === other) return 0;
  if (one === null || other === null) return one === null ? 1 : -1;
  return String(one) < String(other) ? -1 : 1;
}

function buildOperationCommand(operation: Operation, described: OperationCommand): Command {
  const { name, summary = operation.summary, arguments: expected = {}, columns, target: kind } = described;
  const { workspaceBy, sortBy = [] } = described;
  const isList = !isMediaType(operation.response) && "nextCursor" in operation.response.properties;

  async function run(context: CommandContext, given: Parameters<Command["run"]>[1]): Promise<Document> {
    const { opened } = context;
    const words = given.arguments as Record<string, string>;
    const { workspace: named } = given.options as { workspace?: string };
    const input: { query?: { limit?: number } } = { ...described.input?.(given) };
    const { limit = ALL, ...query } = input.query ?? {};
    const target = kind && resolveCommandTarget(kind, context, Object.values(words)[0] as string, named);
    const asked = { ...input, query, ...(target && { params: { id: target.id } }) };
    const names = workspaceNames(context);

    const performIn = (workspaceId: string, most?: number): Promise<unknown> =>
      performAsOperator(operation, opened.core, workspaceId, asked, most);
    function buildAnswerDocument(workspaceId: string, answer: unknown): object {
      const workspace = names.get(workspaceId) as string;
      if (!described.document) return { ...(answer as object), workspace };
      return described.document(answer, { workspace, target: target as Targets[keyof Targets] });
    }

    if (!isList) {
      const workspaceId = target?.workspaceId ?? chooseWorkspaceId(context, named, workspaceBy && words[workspaceBy]);
      return buildAnswerDocument(workspaceId, await performIn(workspaceId));
    }
    const only = target?.workspaceId ?? findWorkspaceId(context, named);
    const documents: object[] = [];
    for (const workspaceId of only === undefined ? names.keys() : [only]) {
      const { nextCursor: _, ...list } = (await performIn(workspaceId, limit)) as { nextCursor: unknown };
      const rows = Object.values<unknown[]>(list).flat();
      documents.push(...rows.map((row) => buildAnswerDocument(workspaceId, row)));
    }
    return documents.sort((a, b) => sortBy.reduce((order, field) => order || compare(a, b, field), 0));
  }

  const options = { ...described.options, ...(!BY_ID.has(kind) && WORKSPACE) };
  return {
    name,
    summary,
    arguments: expected,
    options,
    ...(columns && { columns }),
    ...(isList && { lists: true }),
    run,
  };
}

/** All of them, in the order of the operations. */
export const OPERATION_COMMANDS: readonly Command[] = ADMIN_OPERATIONS.flatMap((operation) =>
  (operation.commands ?? []).map((described) => buildOperationCommand(operation, described)),
);
