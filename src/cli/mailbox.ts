/** `mailroom mailbox …` */

import { GRANT_ACCESS, type MailboxEntry } from "../admin/people.ts";
import { UsageError } from "../base/errors.ts";
import { command } from "./command.ts";
import { isoOf } from "./output.ts";
import type { Session } from "./session.ts";
import { REASON, sendingState, WORKSPACE, workspaceFor, workspaceIdOf, workspaceNames } from "./workspace.ts";

function presenter(session: Session) {
  const names = workspaceNames(session);
  return ({
    id,
    address,
    name,
    workspaceId,
    ownerId: _,
    grants,
    pausedReason,
    expiresAt,
    createdAt,
    ...rest
  }: MailboxEntry) => ({
    id,
    address,
    name,
    workspace: names.get(workspaceId),
    ...rest,
    grants: grants.map(({ user, access }) => ({ user, access })),
    ...sendingState({ pausedReason }),
    expiresAt: isoOf(expiresAt),
    createdAt: isoOf(createdAt),
  });
}

const MAILBOX = { address: "ADDRESS" } as const;

function find(session: Session, address: string, workspace: string | undefined): MailboxEntry {
  return session.appliance.people.mailboxAt(address, workspaceIdOf(session, workspace));
}

/** The mailbox as it is now. */
function shown(session: Session, { id, workspaceId }: Pick<MailboxEntry, "id" | "workspaceId">) {
  return presenter(session)(session.appliance.people.mailboxIn(workspaceId, id));
}

export const mailboxCommands = [
  command({
    name: "mailbox add",
    summary: "Add a mailbox",
    arguments: MAILBOX,
    options: {
      name: { value: "NAME", required: true, summary: "What it is called" },
      owner: { value: "USER", summary: "Address of the user it belongs to; nobody's if left out" },
      ...WORKSPACE,
    },
    run(session, { arguments: { address }, options }) {
      const { store, people } = session.appliance;
      const workspaceId = workspaceFor(session, options.workspace, address);
      const ownerId = options.owner === undefined ? undefined : people.userAt(options.owner).id;
      const id = store.transact((tx) => people.addMailbox(tx, { workspaceId, address, name: options.name, ownerId }));
      return shown(session, { id, workspaceId });
    },
  }),
  command({
    name: "mailbox list",
    summary: "List the mailboxes",
    options: WORKSPACE,
    columns: [
      "id",
      "address",
      "name",
      "owner",
      "aliases",
      "catchAlls",
      "grants",
      "usedBytes",
      "state",
      "lost",
      "workspace",
    ],
    run: (session, { options }) =>
      session.appliance.people.listMailboxes(workspaceIdOf(session, options.workspace)).map(presenter(session)),
  }),
  command({
    name: "mailbox remove",
    summary: "Remove a mailbox and all its mail",
    arguments: MAILBOX,
    options: WORKSPACE,
    async run(session, { arguments: { address: given }, options }) {
      const { id, address } = find(session, given, options.workspace);
      await session.appliance.people.removeMailbox(id);
      return { id, address, removed: true };
    },
  }),
  command({
    name: "mailbox alias",
    summary: "Add an alias to a mailbox, or remove one; *@DOMAIN is a catch-all",
    arguments: { ...MAILBOX, action: ["add", "remove"], alias: "ALIAS" },
    options: WORKSPACE,
    run(session, { arguments: { address, action, alias }, options }) {
      const { store, people } = session.appliance;
      const mailbox = find(session, address, options.workspace);
      store.transact((tx) => {
        if (action === "add") people.addAlias(tx, mailbox.id, alias);
        else people.removeAlias(tx, mailbox.id, alias);
      });
      return shown(session, mailbox);
    },
  }),
  command({
    name: "mailbox grant",
    summary: "Share a mailbox with a user of its workspace, or change how it is shared",
    arguments: MAILBOX,
    options: {
      to: { value: "USER", required: true, summary: "Address of the user" },
      access: { value: GRANT_ACCESS, required: true, summary: "What they may do in it" },
      ...WORKSPACE,
    },
    run(session, { arguments: { address }, options }) {
      const { store, people } = session.appliance;
      const mailbox = find(session, address, options.workspace);
      const user = people.userAt(options.to);
      store.transact((tx) => people.grant(tx, mailbox.id, user.id, options.access));
      return shown(session, mailbox);
    },
  }),
  command({
    name: "mailbox revoke",
    summary: "End the sharing of a mailbox with a user",
    arguments: MAILBOX,
    options: { from: { value: "USER", required: true, summary: "Address of the user" }, ...WORKSPACE },
    run(session, { arguments: { address }, options }) {
      const { store, people } = session.appliance;
      const mailbox = find(session, address, options.workspace);
      const user = people.userAt(options.from);
      store.transact((tx) => people.revokeGrant(tx, mailbox.id, user.id));
      return shown(session, mailbox);
    },
  }),
  command({
    name: "mailbox quota",
    summary: "Set how many bytes a mailbox may keep; default follows the setting storage.mailboxBytes",
    arguments: { ...MAILBOX, bytes: "BYTES|default" },
    options: WORKSPACE,
    run(session, { arguments: { address, bytes }, options }) {
      const { store, people } = session.appliance;
      if (bytes !== "default" && !/^\d+$/.test(bytes)) {
        throw new UsageError(`"${bytes}" is no quota: give a whole number of bytes, or default`);
      }
      const mailbox = find(session, address, options.workspace);
      store.transact((tx) => people.setQuota(tx, mailbox.id, bytes === "default" ? null : Number(bytes)));
      return shown(session, mailbox);
    },
  }),
  command({
    name: "mailbox pause",
    summary: "Accept nothing for sending from a mailbox; what was accepted goes out",
    arguments: MAILBOX,
    options: { ...REASON, ...WORKSPACE },
    run(session, { arguments: { address }, options }) {
      const { store, people } = session.appliance;
      const mailbox = find(session, address, options.workspace);
      store.transact((tx) => people.pauseMailbox(tx, mailbox.id, options.reason));
      return shown(session, mailbox);
    },
  }),
  command({
    name: "mailbox resume",
    summary: "Accept mail for sending from a mailbox again",
    arguments: MAILBOX,
    options: WORKSPACE,
    run(session, { arguments: { address }, options }) {
      const { store, people } = session.appliance;
      const mailbox = find(session, address, options.workspace);
      store.transact((tx) => people.resumeMailbox(tx, mailbox.id));
      return shown(session, mailbox);
    },
  }),
];
