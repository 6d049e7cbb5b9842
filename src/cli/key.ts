/** `mailroom key …`: API keys of anybody, with what they are restricted to, for the operator. */
import { readFileSync } from "node:fs";
import * as developers from "../admin/developers.ts";
import { type KeyRecord, type Policy, SCOPES } from "../admin/developers.ts";
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { AppError, UsageError } from "../base/errors.ts";
import { describeKeyForCommand, keyView, readKeyPolicy } from "../operations/admin/key-administration.ts";
import { defineCommand } from "./command.ts";
import { journalCommands } from "./journal-commands.ts";
import { resolveCommandTarget } from "./operation-command.ts";
import type { CommandContext } from "./run.ts";
import { findWorkspaceId, WORKSPACE, workspaceName } from "./workspace-commands.ts";

const POLICY = { value: "FILE|JSON", summary: "What it is restricted to, as JSON or in a file" } as const;

/** Reads `--policy`. @throws UsageError for text that is no JSON; AppError bad_request for another policy */
function readPolicyOption(given: string): Policy {
  const isJson = given.trimStart().startsWith("{");
  let text = given;
  let value: unknown;
  try {
    if (!isJson) text = readFileSync(given, "utf8");
    value = JSON.parse(text);
  } catch (error) {
    const what = error instanceof SyntaxError ? "is no JSON" : "cannot be read";
    throw new UsageError(`--policy ${isJson ? "" : `${given} `}${what}: give a JSON object, or a file that has one`);
  }
  return readKeyPolicy(value);
}

/** A key of any workspace, or of the named one. @throws AppError not_found */
function keyNamed(context: CommandContext, id: string, workspace?: string): { key: KeyRecord; workspaceId: string } {
  const { core } = context.opened;
  const only = findWorkspaceId(context, workspace);
  for (const workspaceId of only === undefined
    ? workspaceAdmin.listWorkspaces(core).map((known) => known.id)
    : [only]) {
    const key = developers.listKeys(core, workspaceId).find((known) => known.id === id);
    if (key) return { key, workspaceId };
  }
  throw new AppError("not_found", `there is no key ${id}`);
}

/** Changes a key, and shows it. */
function change(
  context: CommandContext,
  id: string,
  workspace: string | undefined,
  set: { name?: string; policy?: Policy; paused?: boolean },
) {
  const { core } = context.opened;
  const { store } = core;
  const { workspaceId } = keyNamed(context, id, workspace);
  const key = store.transact((tx) => {
    const { policy } = set;
    developers.changeKey(core, tx, id, workspaceId, {
      ...set,
      ...(policy && { policy: developers.readPolicy(tx, { workspaceId }, policy) }),
    });
    return developers.getKeyRecord(tx, id, workspaceId);
  });
  return describeKeyForCommand(keyView(key), { workspace: workspaceName(context, workspaceId) });
}

const pausing = (name: "key pause" | "key resume", summary: string, all: string) =>
  defineCommand({
    name,
    summary,
    rest: "ID",
    options: { all: { summary: all }, ...WORKSPACE },
    run(context, { rest: [id, ...more], options: { all, workspace } }) {
      const paused = name === "key pause";
      if (more.length > 0 || (id === undefined) !== all) throw new UsageError("give the ID of a key, or --all");
      if (id !== undefined) return change(context, id, workspace, { paused });
      const { core } = context.opened;
      const { store } = core;
      const only = findWorkspaceId(context, workspace);
      const workspaces = workspaceAdmin.listWorkspaces(core).filter((known) => only === undefined || known.id === only);
      store.transact((tx) => {
        for (const known of workspaces) developers.pauseAllKeys(core, tx, known.id, paused);
      });
      return { all: true, paused, workspaces: workspaces.map((known) => known.name) };
    },
  });

export const keyCommands = [
  defineCommand({
    name: "key create",
    summary: "Create an API key that acts for a person; it is shown once",
    options: {
      user: { value: "ADDRESS", required: true, summary: "The person it acts for" },
      name: { value: "NAME", required: true, summary: "What it is called" },
      scopes: { value: SCOPES, list: true, required: true, summary: "What it may do" },
      policy: POLICY,
      ...WORKSPACE,
    },
    run(context, { options }) {
      // Before root's rights are given up, with which root may have named a file.
      const given = options.policy === undefined ? {} : readPolicyOption(options.policy);
      const { core } = context.opened;
      const { store } = core;
      const user = resolveCommandTarget("person", context, options.user, options.workspace);
      const { name, scopes } = options;
      const { id, key, policy } = store.transact((tx) => {
        const policy = developers.readPolicy(tx, user, given);
        return { ...developers.createKey(core, tx, { userId: user.id, name, scopes, policy }), policy };
      });
      return { id, key, name, user: user.email, scopes, ...(options.policy !== undefined && { policy }) };
    },
  }),
  defineCommand({
    name: "key update",
    summary: "Rename an API key, or change what it is restricted to",
    arguments: { id: "ID" },
    options: { name: { value: "NAME", summary: "What it is called" }, policy: POLICY, ...WORKSPACE },
    run(context, { arguments: { id }, options: { name, policy, workspace } }) {
      if (name === undefined && policy === undefined) throw new UsageError("give --name or --policy");
      return change(context, id, workspace, {
        ...(name !== undefined && { name }),
        ...(policy !== undefined && { policy: readPolicyOption(policy) }),
      });
    },
  }),
  pausing("key pause", "Pause an API key: it answers 403 to everything", "All keys, also those made later"),
  pausing("key resume", "Let a paused API key go on", "Those that are not paused by themselves"),
  defineCommand({
    name: "key revoke",
    summary: "Revoke an API key",
    arguments: { id: "ID" },
    options: WORKSPACE,
    run(context, { arguments: { id }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const workspaceId = findWorkspaceId(context, options.workspace);
      const goesOn = store.transact((tx) => {
        developers.revokeKey(core, tx, id, workspaceId);
        return developers.listMadeByKey(core, tx, id, workspaceId);
      });
      return { id, state: "revoked", ...(goesOn.length > 0 && { goesOn }) };
    },
  }),
  ...journalCommands,
];
