/** `mailroom setup` and `mailroom workspace …`, and --workspace of the other commands. */
import * as domains from "../admin/domains.ts";
import type { Workspace } from "../admin/people.ts";
import { setUpFirstWorkspace } from "../admin/setup.ts";
import { readTypedDomain } from "../admin/typed-names.ts";
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { AppError, UsageError } from "../base/errors.ts";
import { type Runtime, randomToken } from "../base/runtime.ts";
import { readSize, SIZE_FORM } from "../base/sizes.ts";
import { toIsoTime } from "../base/time.ts";
import { REASON, sendingState } from "../operations/command-line.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import { defineCommand } from "./command.ts";
import type { CommandContext } from "./run.ts";

/** Option of commands that work on one workspace. */
export const WORKSPACE = {
  workspace: { value: "NAME", summary: "The workspace; may be left out when there is one" },
} as const;

/** Id of the named workspace; undefined, for all of them, without a name. @throws AppError not_found */
export function findWorkspaceId(context: CommandContext, name: string | undefined): string | undefined {
  return name === undefined ? undefined : workspaceAdmin.getWorkspaceByName(context.opened.core, name).id;
}

/**
 * Id of the workspace for something new: the named one, or the only one, or the one that has verified the domain of
 * `address`, or is the only one to claim it.
 * @throws UsageError when several remain, AppError not_found when there is none, server_error 503 when it moves to another
 * server
 */
export function chooseWorkspaceId(context: CommandContext, name: string | undefined, address = ""): string {
  const id = chosen(context, name, address);
  requireWorkspaceServed(context.opened.core.store.db, id);
  return id;
}

function chosen(context: CommandContext, name: string | undefined, address: string): string {
  const { core } = context.opened;
  if (name !== undefined) return workspaceAdmin.getWorkspaceByName(core, name).id;
  const [first, second] = workspaceAdmin.listWorkspaces(core);
  if (first === undefined) {
    throw new AppError("not_found", "there is no workspace yet: start with mailroom setup or workspace add");
  }
  if (second === undefined) return first.id;
  const domain = address.slice(address.lastIndexOf("@") + 1);
  const known = domain === "" ? [] : domains.listDomains(core).filter(({ name }) => name === readTypedDomain(domain));
  const [holder, other] = known;
  if (!holder || (other && holder.state !== "verified")) {
    throw new UsageError("there are several workspaces: name one with --workspace NAME");
  }
  return holder.workspaceId;
}

/** Names by id. */
export function workspaceNames(context: CommandContext): Map<string, string> {
  return new Map(workspaceAdmin.listWorkspaces(context.opened.core).map(({ id, name }) => [id, name]));
}

export const workspaceName = ({ opened }: CommandContext, id: string): string =>
  workspaceAdmin.getWorkspaceById(opened.core, id).name;

/** 119 random bits. */
const PASSWORD_LENGTH = 20;

export const randomPassword = (runtime: Pick<Runtime, "randomBytes">): string => randomToken(runtime, PASSWORD_LENGTH);

export const setup = defineCommand({
  name: "setup",
  summary: "Make the first workspace: domain, owner, mailbox, API key",
  options: {
    domain: { value: "DOMAIN", required: true, summary: "The domain that gets mail" },
    email: { value: "ADDRESS", required: true, summary: "Address of the owner, at that domain" },
    name: { value: "NAME", required: true, summary: "Name of the owner" },
    workspace: { value: "NAME", summary: "Name of the workspace; the domain if left out" },
    "password-stdin": { summary: "Read the owner's password from standard input; made up and printed if left out" },
  },
  async run(context, { options }) {
    const given = options["password-stdin"] ? await context.readSecret() : undefined;
    const password = given ?? randomPassword(context.runtime);
    const { domain, email, name, workspace } = options;
    const made = await setUpFirstWorkspace(
      { ...context.opened, ...context.opened.core },
      { domain, email, name, workspace, password },
    );
    const { workspaceId, userId, mailboxId, address, apiKey, dns } = made;
    return { workspaceId, userId, mailboxId, address, apiKey, ...(given === undefined && { password }), dns };
  },
});

const present = ({ opened }: CommandContext, workspace: Workspace) => ({
  id: workspace.id,
  name: workspace.name,
  ...sendingState(workspace),
  ...workspaceAdmin.getWorkspaceUse(opened.core, workspace.id),
  mostMailboxes: workspace.mostMailboxes,
  mostBytes: workspace.mostBytes,
  ...(workspace.moving && { state: workspace.moving === "out" ? "moved" : "arriving" }),
  createdAt: toIsoTime(workspace.createdAt),
});

/** The workspace as it is now. */
const readWorkspaceDocument = (context: CommandContext, name: string) =>
  present(context, workspaceAdmin.getWorkspaceByName(context.opened.core, name));

/** @throws UsageError for what is no limit */
function readLimitOption(
  option: string,
  text: string,
  read: (text: string) => number | undefined,
  form: string,
): number | null {
  if (text === "off") return null;
  const limit = read(text);
  if (limit !== undefined) return limit;
  throw new UsageError(`--${option} ${text}: give ${form}, or off`);
}

const readCount = (text: string): number | undefined =>
  /^\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;

export const workspaceCommands = [
  defineCommand({
    name: "workspace add",
    summary: "Add a workspace",
    arguments: { name: "NAME" },
    run(context, { arguments: { name } }) {
      const { core } = context.opened;
      const { store } = core;
      return present(
        context,
        store.transact((tx) => workspaceAdmin.addWorkspace(core, tx, name)),
      );
    },
  }),
  defineCommand({
    name: "workspace list",
    lists: true,
    summary: "List the workspaces",
    columns: ["id", "name", "state", "paused", "mailboxes", "mostMailboxes", "usedBytes", "mostBytes", "createdAt"],
    run: (context) =>
      workspaceAdmin.listWorkspaces(context.opened.core).map((workspace) => present(context, workspace)),
  }),
  defineCommand({
    name: "workspace pause",
    summary: "Accept nothing for sending from any mailbox of a workspace; what was accepted goes out",
    arguments: { name: "NAME" },
    options: REASON,
    run(context, { arguments: { name }, options: { reason } }) {
      const { core } = context.opened;
      const { store } = core;
      const { id } = workspaceAdmin.getWorkspaceByName(core, name);
      store.transact((tx) => workspaceAdmin.pauseWorkspace(tx, id, reason));
      return readWorkspaceDocument(context, name);
    },
  }),
  defineCommand({
    name: "workspace resume",
    summary: "Accept mail for sending from a workspace again",
    arguments: { name: "NAME" },
    run(context, { arguments: { name } }) {
      const { core } = context.opened;
      const { store } = core;
      const { id } = workspaceAdmin.getWorkspaceByName(core, name);
      store.transact((tx) => workspaceAdmin.resumeWorkspace(tx, id));
      return readWorkspaceDocument(context, name);
    },
  }),
  defineCommand({
    name: "workspace limit",
    summary:
      "Limit the mailboxes and the bytes of mail that a workspace may have; what it has stays. Without options, show them",
    arguments: { name: "NAME" },
    options: {
      mailboxes: { value: "N", summary: "Mailboxes at most; off for as many as it likes" },
      bytes: {
        value: "SIZE",
        summary: "Bytes of mail in all its mailboxes at most, as 50GB; off for as many as they may have",
      },
    },
    run(context, { arguments: { name }, options: { mailboxes, bytes } }) {
      const { core } = context.opened;
      const { store } = core;
      const { id } = workspaceAdmin.getWorkspaceByName(core, name);
      const limits = {
        ...(mailboxes !== undefined && {
          mostMailboxes: readLimitOption("mailboxes", mailboxes, readCount, "a whole number"),
        }),
        ...(bytes !== undefined && { mostBytes: readLimitOption("bytes", bytes, readSize, SIZE_FORM) }),
      };
      if (Object.keys(limits).length > 0) store.transact((tx) => workspaceAdmin.setWorkspaceLimits(tx, id, limits));
      return readWorkspaceDocument(context, name);
    },
  }),
];
