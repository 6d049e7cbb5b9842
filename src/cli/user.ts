/** `mailroom user …`: what is for the operator alone. */
import * as erasure from "../admin/erasure.ts";
import * as people from "../admin/people.ts";
import { hashNewPassword, ROLES, readImportedHash } from "../admin/people.ts";
import { UsageError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { describePersonForCommand, personView } from "../operations/admin/people-administration.ts";
import { defineCommand, FailedCheck } from "./command.ts";
import { resolveCommandTarget } from "./operation-command.ts";
import type { CommandContext } from "./run.ts";
import { chooseWorkspaceId, randomPassword, WORKSPACE, workspaceName } from "./workspace-commands.ts";

const USER = { address: "ADDRESS" } as const;

async function readPasswordHash(
  { readSecret }: Pick<CommandContext, "readSecret">,
  given: { "password-stdin": boolean; "password-hash"?: string | undefined },
): Promise<string | undefined> {
  const isHash = given["password-hash"] !== undefined;
  if (isHash && given["password-stdin"]) throw new UsageError("give --password-stdin or --password-hash, not both");
  if (isHash) return readImportedHash(await readSecret());
  return given["password-stdin"] ? hashNewPassword(await readSecret()) : undefined;
}

export const userCommands = [
  defineCommand({
    name: "user add",
    summary: "Add a person, with a mailbox of their own at that address",
    arguments: USER,
    options: {
      name: { value: "NAME", required: true, summary: "What they are called" },
      role: { value: ROLES, required: true, summary: "What they may do" },
      "password-stdin": {
        summary: "Read their password from standard input; without one, user invite makes a link to choose it",
      },
      "password-hash": {
        value: ["-"],
        summary:
          "Read the hash that another mail server has of it from standard input: Dovecot's SHA512-CRYPT, BLF-CRYPT or ARGON2ID",
      },
      "no-mailbox": { summary: "Make no mailbox; the address may then be anywhere" },
      ...WORKSPACE,
    },
    async run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const workspaceId = chooseWorkspaceId(context, options.workspace, address);
      const passwordHash = await readPasswordHash(context, options);
      const { userId, mailboxId } = store.transact((tx) =>
        people.addUser(core, tx, {
          workspaceId,
          email: address,
          name: options.name,
          role: options.role,
          passwordHash,
          ownMailbox: !options["no-mailbox"],
        }),
      );
      const person = personView(people.getUserById(core, workspaceId, userId));
      const shown = describePersonForCommand(person, { workspace: workspaceName(context, workspaceId) });
      return { ...shown, ...(mailboxId !== undefined && { mailboxId }) };
    },
  }),
  defineCommand({
    name: "user password",
    summary: "Give a person another password; they are signed out, and their app passwords and API keys end",
    arguments: USER,
    options: {
      "password-stdin": { summary: "Read it from standard input; made up and printed if left out" },
      "keep-keys": { summary: "Their API keys go on" },
      ...WORKSPACE,
    },
    async run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const { id, email } = resolveCommandTarget("person", context, address, options.workspace);
      const given = options["password-stdin"] ? await context.readSecret() : undefined;
      const password = given ?? randomPassword(context.runtime);
      const passwordHash = await hashNewPassword(password);
      const keepKeys = options["keep-keys"];
      const ended = store.transact((tx) => people.replacePassword(core, tx, id, { passwordHash, keepKeys }));
      return { id, address: email, ...(given === undefined && { password }), ended };
    },
  }),
  defineCommand({
    name: "user invite",
    summary: "Make a link by which a person chooses a password, once and within seven days; it is printed",
    arguments: USER,
    options: WORKSPACE,
    run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const { id, email } = resolveCommandTarget("person", context, address, options.workspace);
      const { link, expiresAt } = store.transact((tx) => people.inviteUser(core, tx, id));
      return { id, address: email, link, expiresAt: toIsoTime(expiresAt) };
    },
  }),
  defineCommand({
    name: "user totp",
    summary: "Tell whether a person has a second factor; remove one that is lost",
    arguments: USER,
    options: {
      reset: {
        summary:
          "Remove it: their password alone signs them in again, they are signed out, and their app passwords end",
      },
      ...WORKSPACE,
    },
    run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const { id } = resolveCommandTarget("person", context, address, options.workspace);
      if (options.reset) store.transact((tx) => people.resetSecondFactor(core, tx, id));
      const { email, secondFactor } = people.getUserByAddress(core, address);
      return { id, address: email, secondFactor };
    },
  }),
  defineCommand({
    name: "user remove",
    summary: "Remove a person with their API keys; their mailboxes stay, without an owner, unless they are erased",
    arguments: USER,
    options: {
      erase: { summary: "Delete their mailboxes and all that is kept of them as well, for good" },
      compact: {
        summary: "With --erase: write the database anew, so that no unused part of it holds a trace; the server waits",
      },
      yes: { summary: "With --erase: do it; without, it is said what would be deleted" },
      ...WORKSPACE,
    },
    async run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const { id, email } = resolveCommandTarget("person", context, address, options.workspace);
      if (options.erase) {
        if (options.yes) return { id, address: email, erased: true, ...(await erasure.erasePerson(core, id, options)) };
        const survey = { id, address: email, erased: false, ...erasure.previewErasure(core, id) };
        throw new FailedCheck("nothing was deleted: to delete this for good, give --yes as well", survey);
      }
      store.transact((tx) => people.removeUser(tx, id));
      return { id, address: email, removed: true };
    },
  }),
];
