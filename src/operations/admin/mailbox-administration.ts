/** Mailboxes of a workspace, with their aliases, shares, quotas, pauses and expiry (rules: Administered mailboxes). */
import { requireUnrestrictedKey } from "../../access/caller.ts";
import { policyAllowsMailbox } from "../../access/policy.ts";
import * as mailboxAdmin from "../../admin/mailbox-admin.ts";
import * as people from "../../admin/people.ts";
import { GRANT_ACCESS, type MailboxEntry } from "../../admin/people.ts";
import * as removals from "../../admin/removals.ts";
import { quoteTypedText } from "../../admin/typed-names.ts";
import { AppError, UsageError } from "../../base/errors.ts";
import {
  dateTimeSchema,
  emailSchema,
  filledStringSchema,
  nullable,
  type Static,
  stringEnum,
  t,
} from "../../base/json-schema.ts";
import { readSize, SIZE_FORM } from "../../base/sizes.ts";
import { readTimeField, toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { normalizeAddress } from "../../message/address.ts";
import type { Core } from "../../store/core.ts";
import type { RowPosition } from "../../store/cursor.ts";
import type { Tx } from "../../store/store.ts";
import { defineOperationCommand, REASON, type Shown, sendingState } from "../command-line.ts";
import { type AdminContext, type Administrator, defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { getPersonByIdOrAddress, READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const EXPIRY =
  "From then on it takes no mail and sends none; its mail can be read for 30 days more, then it is deleted. null: it does not expire";

const AdminMailbox = t.Object(
  {
    id: t.String(),
    address: emailSchema(),
    name: t.String({ description: "Display name in the From of its mail" }),
    owner: nullable(emailSchema(), { description: "The person it belongs to; null if nobody owns it" }),
    ownerId: nullable(t.String(), { description: "Id of the owner" }),
    aliases: t.Array(emailSchema()),
    catchAlls: t.Array(t.String(), {
      description: "As *@domain: receives mail to any address of the domain that does not exist",
    }),
    grants: t.Array(t.Object({ user: emailSchema(), userId: t.String(), access: stringEnum(GRANT_ACCESS) }), {
      description: "People it is shared with",
    }),
    quotaBytes: nullable(t.Integer(), { description: "null: the setting storage.mailboxBytes" }),
    usedBytes: t.Integer(),
    pausedReason: nullable(t.String(), { description: "Why sending from it is paused; null while it may send" }),
    expiresAt: nullable(dateTimeSchema(), { description: EXPIRY }),
    removing: t.Boolean({
      description: "It is being removed: it has no address, and its mail is being deleted",
    }),
    lost: t.Boolean({
      description: "Another workspace has verified the domain of its address: its mail can only be read",
    }),
    createdAt: dateTimeSchema(),
  },
  { $id: "AdminMailbox" },
);

export type MailboxAdminView = Static<typeof AdminMailbox>;

/** Presents a mailbox. */
export const mailboxAdminView = ({
  workspaceId: _,
  expiresAt,
  createdAt,
  ...rest
}: MailboxEntry): MailboxAdminView => ({
  ...rest,
  expiresAt: toIsoTimeOrNull(expiresAt),
  createdAt: toIsoTime(createdAt),
});

/** A mailbox as the command line shows it. */
export function describeMailboxForCommand(mailbox: MailboxAdminView, { workspace }: Pick<Shown, "workspace">) {
  const { id, address, name, ownerId: _, grants, pausedReason, expiresAt, createdAt, ...rest } = mailbox;
  return {
    id,
    address,
    name,
    workspace,
    ...rest,
    grants: grants.map(({ user, access }) => ({ user, access })),
    ...sendingState({ pausedReason }),
    expiresAt,
    createdAt,
  };
}

/** Properties that the commands that change a mailbox have in common. */
const ofMailbox = { target: "mailbox", document: describeMailboxForCommand } as const;

const LARGEST_QUOTA = Number.MAX_SAFE_INTEGER;

function parseQuota(bytes: string): number | null {
  if (bytes === "default") return null;
  const quota = readSize(bytes);
  if (quota === undefined) throw new UsageError(`"${bytes}" is no quota: give ${SIZE_FORM}, or default`);
  return quota;
}

const Quota = t.Integer({ minimum: 0, maximum: LARGEST_QUOTA });
const Person = filledStringSchema({ description: "Id or address of a person of the workspace" });

/** Returns the id of a mailbox's owner, who is named by id or address. @throws AppError unprocessable */
function ownerNamed(core: Core, workspaceId: string, named: string): string {
  const address = normalizeAddress(named);
  const person = people.listUsers(core, workspaceId).find(({ id, email }) => id === named || email === address);
  if (!person) throw new AppError("unprocessable", `there is no user ${quoteTypedText(named)} in the workspace`);
  return person.id;
}

/** A mailbox that the caller's policy leaves. @throws AppError not_found */
export function getAdministeredMailbox(
  core: Core,
  { workspaceId, policy = {} }: Administrator,
  id: string,
): MailboxEntry {
  const mailbox = mailboxAdmin.getMailboxById(core, workspaceId, id);
  if (!policyAllowsMailbox(policy, mailbox)) throw new AppError("not_found", `there is no mailbox ${id}`);
  return mailbox;
}

/** Changes a mailbox of the caller's workspace and returns it as it is then. @throws AppError not_found */
const changing = (
  { act, core }: AdminContext,
  id: string,
  work: (tx: Tx, workspaceId: string, caller: Administrator) => void,
): MailboxAdminView =>
  act((tx, caller) => {
    const { workspaceId } = caller;
    getAdministeredMailbox(core, caller, id);
    work(tx, workspaceId, caller);
    return mailboxAdminView(mailboxAdmin.getMailboxById(core, workspaceId, id));
  });

/** How far ahead a key ends a mailbox at least, ms: its owner has time to object. */
const SOONEST_BY_KEY_MS = 24 * 3_600_000;

/** When a mailbox is to expire, as the caller gives it. @throws AppError bad_request if a key gives a time that is too soon */
function expiryBy({ core }: AdminContext, { keyId }: Administrator, text: string | null): number | null {
  const expiresAt = text === null ? null : readTimeField("expiresAt", text);
  if (keyId !== undefined && expiresAt !== null && expiresAt < core.now() + SOONEST_BY_KEY_MS) {
    throw new AppError(
      "bad_request",
      "expiresAt must be at least a day ahead when a key sets it: give a later time, or null",
    );
  }
  return expiresAt;
}

export const listWorkspaceMailboxes = defineOperation({
  name: "listWorkspaceMailboxes",
  group: "Mailboxes",
  audience: "admin",
  method: "GET",
  path: "/mailboxes",
  scope: "admin",
  summary: "List the mailboxes of the workspace, oldest first",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ mailboxes: t.Array(AdminMailbox), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "mailbox list",
      summary: "List the mailboxes",
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
      sortBy: ["address"],
      document: describeMailboxForCommand,
    }),
  ],
  run({ caller: { workspaceId, policy }, core }, { query }) {
    const rowPosition = ({ createdAt, id }: MailboxEntry) => ({ at: createdAt, id });
    const read = (after: RowPosition | undefined, limit: number): MailboxEntry[] =>
      policy?.mailboxes
        ? mailboxAdmin
            .listMailboxes(core, workspaceId, { after, limit: Number.MAX_SAFE_INTEGER })
            .filter((mailbox) => policyAllowsMailbox(policy, mailbox))
        : mailboxAdmin.listMailboxes(core, workspaceId, { after, limit });
    const { page, nextCursor: next } = readListPage({ query: "mailboxes", rowPosition, read }, query);
    return { mailboxes: page.map(mailboxAdminView), nextCursor: next };
  },
});

export const addMailbox = defineOperation({
  name: "addMailbox",
  whole: true,
  group: "Mailboxes",
  audience: "admin",
  method: "POST",
  path: "/mailboxes",
  scope: "admin",
  summary: "Make a mailbox",
  body: strictBody({
    address: emailSchema({ description: "At a domain of the workspace" }),
    name: filledStringSchema({ description: "Display name in the From of its mail" }),
    owner: t.Optional(
      nullable(Person, { description: "Id or address of the person it belongs to; nobody owns it when left out" }),
    ),
    aliases: t.Optional(
      t.Array(filledStringSchema(), { maxItems: 100, description: "Addresses, and *@domain for a catch-all" }),
    ),
    quotaBytes: t.Optional(nullable(Quota, { description: "null: the setting storage.mailboxBytes" })),
    expiresAt: t.Optional(
      nullable(dateTimeSchema(), { description: `A time to come, from a key at least a day ahead. ${EXPIRY}` }),
    ),
  }),
  example: { body: { address: "support@example.com", name: "Support", aliases: ["help@example.com"] } },
  idempotent: true,
  success: 201,
  response: AdminMailbox,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "mailbox add",
      summary: "Add a mailbox",
      arguments: { address: "ADDRESS" },
      options: {
        name: { value: "NAME", required: true, summary: "What it is called" },
        owner: { value: "USER", summary: "Address of the user it belongs to; nobody's if left out" },
      },
      workspaceBy: "address",
      input: ({ arguments: { address }, options: { name, owner } }) => ({
        body: { address, name, ...(owner !== undefined && { owner }) },
      }),
      document: describeMailboxForCommand,
    }),
  ],
  run(context, { body: { address, name, owner = null, aliases = [], quotaBytes = null, expiresAt: until = null } }) {
    const { act, core } = context;
    return act((tx, caller) => {
      const { workspaceId } = caller;
      const ownerId = owner === null ? undefined : ownerNamed(core, workspaceId, owner);
      const expiresAt = expiryBy(context, caller, until);
      const id = mailboxAdmin.addMailbox(core, tx, {
        workspaceId,
        address,
        name,
        ownerId,
        expiresAt,
        endedBy: caller.keyId,
      });
      for (const alias of aliases) mailboxAdmin.addAlias(core, tx, id, alias);
      if (quotaBytes !== null) mailboxAdmin.setQuota(tx, id, quotaBytes);
      return mailboxAdminView(mailboxAdmin.getMailboxById(core, workspaceId, id));
    });
  },
});

export const getMailbox = defineOperation({
  name: "getMailbox",
  group: "Mailboxes",
  audience: "admin",
  method: "GET",
  path: "/mailboxes/:id",
  scope: "admin",
  summary: "Show a mailbox",
  params: BY_ID,
  success: 200,
  response: AdminMailbox,
  errors: READ_ERRORS,
  run: ({ caller, core }, { params: { id } }) => mailboxAdminView(getAdministeredMailbox(core, caller, id)),
});

export const changeMailbox = defineOperation({
  name: "changeMailbox",
  group: "Mailboxes",
  audience: "admin",
  method: "PATCH",
  path: "/mailboxes/:id",
  scope: "admin",
  summary: "Change a mailbox: its name, owner, quota, pause or expiry",
  params: BY_ID,
  body: strictBody(
    {
      name: t.Optional(filledStringSchema()),
      owner: t.Optional(
        nullable(Person, { description: "Id or address of a person of the workspace; null: nobody owns it" }),
      ),
      quotaBytes: t.Optional(nullable(Quota, { description: "null: the setting storage.mailboxBytes" })),
      pausedReason: t.Optional(
        nullable(filledStringSchema(), { description: "Pauses sending from it and says why; null: it may send again" }),
      ),
      expiresAt: t.Optional(
        nullable(dateTimeSchema(), { description: `A time to come, from a key at least a day ahead. ${EXPIRY}` }),
      ),
    },
    { minProperties: 1 },
  ),
  example: { body: { expiresAt: "2027-01-31T17:00:00Z" } },
  success: 200,
  response: AdminMailbox,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "mailbox quota",
      summary: "Set how many bytes a mailbox may keep; default follows the setting storage.mailboxBytes",
      arguments: { address: "ADDRESS", bytes: "SIZE|default" },
      ...ofMailbox,
      input: ({ arguments: { bytes } }) => ({ body: { quotaBytes: parseQuota(bytes) } }),
    }),
    defineOperationCommand({
      name: "mailbox pause",
      summary: "Accept nothing for sending from a mailbox; what was accepted goes out",
      arguments: { address: "ADDRESS" },
      options: REASON,
      ...ofMailbox,
      input: ({ options: { reason } }) => ({ body: { pausedReason: reason } }),
    }),
    defineOperationCommand({
      name: "mailbox resume",
      summary: "Accept mail for sending from a mailbox again",
      arguments: { address: "ADDRESS" },
      ...ofMailbox,
      input: () => ({ body: { pausedReason: null } }),
    }),
  ],
  run: (context, { params: { id }, body: { name, owner, quotaBytes, pausedReason, expiresAt } }) =>
    changing(context, id, (tx, workspaceId, changer) => {
      const { caller, core, requireConfirmed } = context;
      if (name !== undefined) mailboxAdmin.renameMailbox(tx, id, name);
      if (owner !== undefined) {
        // As with a share, somebody gets all of its mail.
        requireUnrestrictedKey(caller);
        requireConfirmed(tx);
        mailboxAdmin.assignMailbox(tx, id, owner === null ? null : ownerNamed(core, workspaceId, owner));
      }
      if (quotaBytes !== undefined) mailboxAdmin.setQuota(tx, id, quotaBytes);
      if (expiresAt !== undefined)
        mailboxAdmin.setExpiry(core, tx, id, expiryBy(context, changer, expiresAt), changer.keyId);
      if (pausedReason === null) mailboxAdmin.resumeMailbox(tx, id);
      else if (pausedReason !== undefined) mailboxAdmin.pauseMailbox(tx, id, pausedReason);
    }),
});

export const removeMailbox = defineOperation({
  name: "removeMailbox",
  whole: true,
  group: "Mailboxes",
  audience: "admin",
  method: "DELETE",
  path: "/mailboxes/:id",
  scope: "admin",
  summary: "End a mailbox",
  description:
    "From now on it takes no mail and sends none, as one that has expired. Its mail can be read for 30 days more, then the server deletes it; until then PATCH with `expiresAt: null` takes the mailbox back. A person removes it for good in the web app.",
  params: BY_ID,
  success: 200,
  response: Done,
  errors: READ_ERRORS,
  run({ act, core, caller: { keyId } }, { params: { id } }) {
    const answer = act((tx, { workspaceId }) => {
      mailboxAdmin.getMailboxById(core, workspaceId, id);
      if (keyId === undefined) removals.beginMailboxRemoval(tx, id);
      else mailboxAdmin.expireMailbox(core, tx, id, keyId);
      return DONE;
    });
    // A key deletes nothing for good.
    if (keyId !== undefined) return answer;
    // The server finishes a removal that is cut short, within the hour (admin/removals.ts).
    removals
      .finishMailboxRemoval(core, id)
      .catch((error) => core.log.warn("the removal of a mailbox was cut short", { mailboxId: id, error }));
    return answer;
  },
});

export const addAlias = defineOperation({
  name: "addAlias",
  whole: true,
  group: "Mailboxes",
  audience: "admin",
  method: "POST",
  path: "/mailboxes/:id/aliases",
  scope: "admin",
  summary: "Add an alias to a mailbox",
  description: "`*@domain` receives mail to any address of the domain that does not exist.",
  params: BY_ID,
  body: strictBody({ alias: filledStringSchema({ description: "An address, or *@domain" }) }),
  example: { body: { alias: "sales@example.com" } },
  idempotent: true,
  success: 201,
  response: AdminMailbox,
  errors: WRITE_ERRORS,
  run: (context, { params: { id }, body: { alias } }) =>
    changing(context, id, (tx) => void mailboxAdmin.addAlias(context.core, tx, id, alias)),
});

export const removeAlias = defineOperation({
  name: "removeAlias",
  group: "Mailboxes",
  audience: "admin",
  method: "DELETE",
  path: "/mailboxes/:id/aliases/:alias",
  scope: "admin",
  summary: "Take an alias from a mailbox",
  params: t.Object({
    id: filledStringSchema(),
    alias: filledStringSchema({ description: "The address, or *@domain" }),
  }),
  success: 200,
  response: Done,
  errors: WRITE_ERRORS,
  run(context, { params: { id, alias } }) {
    changing(context, id, (tx) => mailboxAdmin.removeAlias(tx, id, alias));
    return DONE;
  },
});

export const addGrant = defineOperation({
  name: "addGrant",
  whole: true,
  group: "Mailboxes",
  audience: "admin",
  method: "POST",
  path: "/mailboxes/:id/grants",
  scope: "admin",
  summary: "Share a mailbox with a person, or change how it is shared",
  description: "`view`: may read. `send`: may also send from it. `full`: may also move, star and label its mail.",
  params: BY_ID,
  body: strictBody({ user: Person, access: stringEnum(GRANT_ACCESS) }),
  example: { body: { user: "ben@example.com", access: "send" } },
  idempotent: true,
  success: 201,
  response: AdminMailbox,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "mailbox grant",
      summary: "Share a mailbox with a user of its workspace, or change how it is shared",
      arguments: { address: "ADDRESS" },
      options: {
        to: { value: "USER", required: true, summary: "Address of the user" },
        access: { value: GRANT_ACCESS, required: true, summary: "What they may do in it" },
      },
      ...ofMailbox,
      input: ({ options: { to, access } }) => ({ body: { user: to, access } }),
    }),
  ],
  run: (context, { params: { id }, body: { user, access } }) =>
    changing(context, id, (tx, workspaceId) => {
      const { id: userId } = getPersonByIdOrAddress(context.core, workspaceId, user);
      context.requireConfirmed(tx);
      mailboxAdmin.grantMailboxAccess(tx, id, userId, access);
    }),
});

export const removeGrant = defineOperation({
  name: "removeGrant",
  group: "Mailboxes",
  audience: "admin",
  method: "DELETE",
  path: "/mailboxes/:id/grants/:userId",
  scope: "admin",
  summary: "End the sharing of a mailbox with a person",
  params: t.Object({ id: filledStringSchema(), userId: Person }),
  success: 200,
  response: Done,
  errors: READ_ERRORS,
  run(context, { params: { id, userId } }) {
    const { core } = context;
    changing(context, id, (tx, workspaceId) =>
      mailboxAdmin.revokeMailboxAccess(tx, id, getPersonByIdOrAddress(core, workspaceId, userId).id),
    );
    return DONE;
  },
});
