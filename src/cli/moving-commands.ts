/** `mailroom workspace export|import|reopen|remove`: a workspace moves to another server. */
import { resolve } from "node:path";
import { version } from "../../package.json" with { type: "json" };
import * as workspaceAdmin from "../admin/workspace-admin.ts";
import { readAgeIdentities } from "../backup/age.ts";
import { exportWorkspace, reopenWorkspace } from "../moving/export-workspace.ts";
import { type Imported, importWorkspace } from "../moving/import-workspace.ts";
import { removeWorkspace } from "../moving/remove.ts";
import { type Document, defineCommand } from "./command.ts";
import { formatRecord, watchProgress } from "./output.ts";
import type { CommandContext } from "./run.ts";

/** Settings that differ from their defaults. */
const listChangedSettings = ({ opened }: CommandContext): Record<string, string> =>
  Object.fromEntries(
    opened.core.options.list().flatMap(({ name, value, default: usual }) => (value === usual ? [] : [[name, value]])),
  );

function describeImport(document: Document): string {
  const { rows: _, settings, withoutFactor, unverified, ...rest } = document as Imported & { settings: object };
  return [
    formatRecord(rest),
    ...withoutFactor.map((email) => `${email} needs a recovery code, or mailroom user totp ${email} --reset\n`),
    ...unverified.map((name) => `${name} takes and sends no mail here until mailroom domain verify ${name}\n`),
    ...Object.entries(settings).map(([name, value]) => `the other server has ${name} ${value}\n`),
  ].join("");
}

export const movingCommands = [
  defineCommand({
    name: "workspace export",
    summary:
      "Write a workspace with all that it has into a folder, from which workspace import makes it at another server",
    arguments: { name: "NAME" },
    options: {
      to: {
        value: "DIR",
        required: true,
        summary: "The folder; a later export of the same workspace adds what is new",
      },
      final: {
        summary: "End its service here first: nothing is taken or sent any more, and the other server may begin",
      },
      "seal-for": { value: "KEY", summary: "Take second factors along, encrypted for this public key of backup key" },
    },
    async run(context, { arguments: { name }, options }) {
      await context.prepareFolder(resolve(options.to));
      const { opened, io } = context;
      const { id, name: known } = workspaceAdmin.getWorkspaceByName(opened.core, name);
      const {
        rows,
        settings: _,
        ...exported
      } = await exportWorkspace(opened.core, {
        workspace: { id, name: known },
        folder: options.to,
        final: options.final,
        sealFor: options["seal-for"],
        settings: listChangedSettings(context),
        version,
        ...makeProgressCallbacks(context),
      });
      if (!exported.final) {
        io.writeStderr(
          "mailroom: this server goes on serving the workspace. To move it, import this export, then make the rest with --final and import that\n",
        );
      }
      const { workspace, ...document } = exported;
      return { ...document, id: workspace.id, name: workspace.name, exportId: exported.id, rows };
    },
  }),
  defineCommand({
    name: "workspace import",
    summary: "Make a workspace from an export; it is served once its final export is imported",
    arguments: { folder: "DIR" },
    options: { identity: { value: "FILE", summary: "Private key that opens the second factors of the export" } },
    text: describeImport,
    async run(context, { arguments: { folder }, options: { identity } }) {
      // Before root's rights are given up, with which root may have named a file.
      const identities = identity === undefined ? undefined : await readAgeIdentities(identity);
      const { opened, config, io } = context;
      const imported = await importWorkspace(opened.core, {
        data: config.data,
        folder,
        identities,
        ...makeProgressCallbacks(context),
      });
      if (!imported.served) {
        io.writeStderr(
          "mailroom: the workspace is not served here yet: the other server still serves it. Import its final export to begin\n",
        );
      }
      const here = listChangedSettings(context);
      const settings = Object.entries(imported.settings).filter(([name, value]) => here[name] !== value);
      return { ...imported, settings: Object.fromEntries(settings) };
    },
  }),
  defineCommand({
    name: "workspace reopen",
    summary: "Serve a workspace here again after its final export, which must not have been imported elsewhere",
    arguments: { name: "NAME" },
    run(
      {
        opened: {
          core: { store },
          core,
        },
      },
      { arguments: { name } },
    ) {
      const { id, name: known } = workspaceAdmin.getWorkspaceByName(core, name);
      store.transact((tx) => reopenWorkspace(tx, id));
      return { id, name: known, state: "active" };
    },
  }),
  defineCommand({
    name: "workspace remove",
    summary: "Remove a workspace that has left for another server, or whose import was given up, with all its mail",
    arguments: { name: "NAME" },
    async run({ opened: { core } }, { arguments: { name } }) {
      const { id, name: known } = workspaceAdmin.getWorkspaceByName(core, name);
      await removeWorkspace(core, id);
      return { id, name: known, removed: true };
    },
  }),
];

function makeProgressCallbacks(context: CommandContext) {
  const { isInterrupted, tell: onProgress } = watchProgress(context);
  return { isInterrupted, onProgress };
}
