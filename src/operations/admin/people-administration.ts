/** People of a workspace (rules: Administered people). admin/people.ts decides who may change whom. */
import * as developers from "../../admin/developers.ts";
import { lockUser, unlockUser } from "../../admin/locks.ts";
import * as people from "../../admin/people.ts";
import { hashNewPassword, ROLES, type UserEntry } from "../../admin/people.ts";
import { AppError } from "../../base/errors.ts";
import {
  dateTimeSchema,
  emailSchema,
  filledStringSchema,
  nullable,
  type Static,
  stringEnum,
  t,
} from "../../base/json-schema.ts";
import { toIsoTime } from "../../base/time.ts";
import { defineOperationCommand, type Shown } from "../command-line.ts";
import { defineAppOperation, defineOperation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { describeUserAgent } from "../person/session-in-app.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";
import { goesOn } from "./key-administration.ts";

const WHO_MAY = "Owners are made, changed and removed by owners, and nobody changes themselves (403).";

const Person = t.Object(
  {
    id: t.String(),
    email: emailSchema({ description: "The address they sign in with" }),
    name: t.String(),
    role: stringEnum(ROLES),
    canSignIn: t.Boolean({ description: "False while they have no password, or are locked" }),
    locked: t.Boolean({ description: "They are kept out until somebody unlocks them" }),
    invitedUntil: nullable(dateTimeSchema(), {
      description: "Until when their link to choose a password works; null without one",
    }),
    secondFactor: t.Boolean({ description: "Signing in takes a code beside the password" }),
    createdAt: dateTimeSchema(),
  },
  { $id: "Person" },
);

export type PersonView = Static<typeof Person>;

/** Presents a person. */
export const personView = ({ workspaceId: _, createdAt, invitedUntil, ...rest }: UserEntry): PersonView => ({
  ...rest,
  invitedUntil: invitedUntil === null ? null : toIsoTime(invitedUntil),
  createdAt: toIsoTime(createdAt),
});

/** A person as the command line shows them. */
export const describePersonForCommand = (
  { id, email: address, name, role, ...rest }: PersonView,
  { workspace }: Pick<Shown, "workspace">,
) => ({
  id,
  address,
  name,
  role,
  workspace,
  ...rest,
});

export const listPeople = defineOperation({
  name: "listPeople",
  group: "People",
  audience: "admin",
  method: "GET",
  path: "/people",
  scope: "admin",
  summary: "List the people of the workspace, oldest first",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ people: t.Array(Person), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "user list",
      summary: "List the people",
      columns: ["id", "address", "name", "role", "workspace"],
      sortBy: ["address"],
      document: describePersonForCommand,
    }),
  ],
  run({ caller: { workspaceId }, core }, { query }) {
    const rowPosition = ({ createdAt, id }: UserEntry) => ({ at: createdAt, id });
    const { page, nextCursor: next } = readListPage(
      { query: "people", rowPosition, read: (after, limit) => people.listUsers(core, workspaceId, { after, limit }) },
      query,
    );
    return { people: page.map(personView), nextCursor: next };
  },
});

const NEW_PERSON = {
  email: emailSchema({ description: "The address they sign in with" }),
  name: filledStringSchema(),
  role: stringEnum(ROLES),
  mailbox: t.Optional(
    t.Boolean({
      description:
        "Whether they get a mailbox at that address; true unless given. Without one, the address may be anywhere; beside other workspaces it has to be at a verified domain of this one",
    }),
  ),
};

const inviteTo = emailSchema({ description: "Where the link is mailed: an address that they can read already" });

const NewPerson = strictBody({
  ...NEW_PERSON,
  invite: t.Optional(t.Boolean({ description: "Mail them a link to choose a password; with inviteTo" })),
  inviteTo: t.Optional(inviteTo),
});

export const addPerson = defineOperation({
  name: "addPerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people",
  scope: "admin",
  summary: "Add a person, with a mailbox of their own",
  description: `Without a password they cannot sign in. With invite and inviteTo they are mailed a link to choose one, as by POST /people/{id}/invite; else somebody gives them one in the app or at the command line. ${WHO_MAY}`,
  body: NewPerson,
  checkBody({ invite = false, inviteTo }) {
    if (invite === (inviteTo !== undefined)) return;
    throw new AppError(
      "bad_request",
      invite
        ? "invite needs inviteTo: the address that the link is mailed to, since no answer has it"
        : "inviteTo is for invite: true, which has a link mailed there",
    );
  },
  example: {
    body: {
      email: "carla@example.com",
      name: "Carla Weber",
      role: "member",
      invite: true,
      inviteTo: "carla.weber@elsewhere.example",
    },
  },
  idempotent: true,
  success: 201,
  response: t.Object({
    ...Person.properties,
    mailboxId: t.Optional(t.String({ description: "Id of the mailbox that was made for them" })),
  }),
  errors: WRITE_ERRORS,
  run: (
    { act, core, requireConfirmed },
    { body: { email: address, name, role, mailbox: ownMailbox = true, inviteTo } },
  ) =>
    act((tx, { workspaceId, userId: by, keyId }) => {
      requireConfirmed(tx);
      const { userId, mailboxId } = people.addUser(
        core,
        tx,
        { workspaceId, email: address, name, role, ownMailbox },
        by,
      );
      if (inviteTo !== undefined) people.mailInvitation(core, tx, userId, { to: inviteTo, by, keyId });
      return {
        ...personView(people.getUserById(core, workspaceId, userId)),
        ...(mailboxId !== undefined && { mailboxId }),
      };
    }),
});

export const getPerson = defineOperation({
  name: "getPerson",
  group: "People",
  audience: "admin",
  method: "GET",
  path: "/people/:id",
  scope: "admin",
  summary: "Show a person",
  params: BY_ID,
  success: 200,
  response: Person,
  errors: READ_ERRORS,
  run: ({ caller: { workspaceId }, core }, { params: { id } }) => personView(people.getUserById(core, workspaceId, id)),
});

export const changePerson = defineOperation({
  name: "changePerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "PATCH",
  path: "/people/:id",
  scope: "admin",
  summary: "Change the name or the role of a person",
  description: `A workspace keeps an owner: the last one's role cannot be changed (409). ${WHO_MAY}`,
  params: BY_ID,
  body: strictBody(
    { name: t.Optional(filledStringSchema()), role: t.Optional(stringEnum(ROLES)) },
    { minProperties: 1 },
  ),
  example: { body: { role: "admin" } },
  success: 200,
  response: Person,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "user role",
      summary: "Change the role of a person",
      arguments: { address: "ADDRESS", role: ROLES },
      target: "person",
      input: ({ arguments: { role } }) => ({ body: { role } }),
      document: describePersonForCommand,
    }),
  ],
  run: ({ act, core, requireConfirmed }, { params: { id }, body: { name, role } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      if (name !== undefined) people.renameUser(tx, id, name, by);
      if (role !== undefined) people.setRole(tx, id, role, by);
      return personView(people.getUserById(core, workspaceId, id));
    }),
});

export const removePerson = defineOperation({
  name: "removePerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "DELETE",
  path: "/people/:id",
  scope: "admin",
  summary: "Remove a person, with their API keys and shares",
  description: `Their mailboxes stay, without an owner. The last owner cannot be removed (409). ${WHO_MAY}`,
  params: BY_ID,
  success: 200,
  response: Done,
  errors: WRITE_ERRORS,
  run: ({ act, core, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      people.removeUser(tx, id, by);
      return DONE;
    }),
});

export const invitePerson = defineOperation({
  name: "invitePerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people/:id/invite",
  scope: "admin",
  summary: "Mail a person a link to choose a password",
  description: `The link works once, for seven days, and ends the one before; no answer has it. Somebody who has a password chooses another one by it: their second factor stays, and once they have chosen, their sessions and app passwords end. Admins do that for members, owners for everybody. Of somebody who is locked: 409. More than 10 mails an hour for one person, or 500 in a workspace: 429. ${WHO_MAY}`,
  params: BY_ID,
  body: strictBody({ inviteTo }),
  example: { body: { inviteTo: "carla.weber@elsewhere.example" } },
  idempotent: true,
  success: 200,
  response: Person,
  errors: WRITE_ERRORS,
  run: ({ act, core, requireConfirmed }, { params: { id }, body: { inviteTo: to } }) =>
    act((tx, { workspaceId, userId: by, keyId }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      people.mailInvitation(core, tx, id, { to, by, keyId });
      return personView(people.getUserById(core, workspaceId, id));
    }),
});

const Named = t.Object({ id: t.String(), name: t.String() });

const LockedPerson = t.Object(
  {
    ...Person.properties,
    ended: t.Object(
      {
        sessions: t.Array(t.Object({ id: t.String(), browser: t.String() })),
        appPasswords: t.Array(Named),
        keys: t.Array(Named),
        grants: t.Array(Named, { description: "Programs that they let in; the id is that of the grant's key" }),
        forwarding: t.Array(
          t.Object({
            mailboxId: t.String(),
            mailbox: t.String({ description: "Its address" }),
            match: t.String({ description: "The query of the rule" }),
            to: t.Array(t.String()),
          }),
          { description: "Rules of their mailboxes that forwarded mail, and are turned off" },
        ),
      },
      { description: "What the lock ended" },
    ),
    goesOn,
  },
  { $id: "LockedPerson" },
);

export const lockPerson = defineOperation({
  name: "lockPerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people/:id/lock",
  scope: "admin",
  summary: "Lock a person out, at once",
  description: `They can no longer sign in. Their sessions, app passwords, API keys and grants end for good, open connections and waiting requests with them; so does their link to choose a password. Rules that forward mail of their mailboxes are turned off, and what those forwarded is given up where no server has it yet. What they scheduled is not sent; what their keys sent or scheduled waits for approval. Mail goes on arriving, and shares stay. goesOn lists what their keys made, and works still. For somebody who is locked already it ends what they have by now. The last owner cannot be locked, by whomever (409). ${WHO_MAY}`,
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: LockedPerson,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "user lock",
      summary:
        "Lock a person out, at once; sessions, app passwords, API keys, grants and forwarding end, and are listed",
      arguments: { address: "ADDRESS" },
      target: "person",
      document: describePersonForCommand,
    }),
  ],
  run: ({ act, core, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      const { sessions, ...ended } = lockUser(tx, id, core.now(), by);
      const made = [...ended.keys, ...ended.grants].flatMap((key) =>
        developers.listMadeByKey(core, tx, key.id, workspaceId),
      );
      return {
        ...personView(people.getUserById(core, workspaceId, id)),
        ended: {
          sessions: sessions.map(({ id, userAgent }) => ({ id, browser: describeUserAgent(userAgent) })),
          ...ended,
        },
        ...(made.length > 0 && { goesOn: [...new Map(made.map((one) => [one.id, one])).values()] }),
      };
    }),
});

export const unlockPerson = defineOperation({
  name: "unlockPerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people/:id/unlock",
  scope: "admin",
  summary: "Let a person who was locked sign in again",
  description: `With their password and second factor, as before. What the lock ended stays off: they make new app passwords and API keys, and turn their rules on. ${WHO_MAY}`,
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: Person,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "user unlock",
      summary: "Let a person who was locked sign in again; what the lock ended stays off",
      arguments: { address: "ADDRESS" },
      target: "person",
      document: describePersonForCommand,
    }),
  ],
  run: ({ act, core, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      unlockUser(tx, id, by);
      return personView(people.getUserById(core, workspaceId, id));
    }),
});

/** Shows a link to choose a password to the person who asks for it. */
export const makePasswordLink = defineAppOperation({
  name: "makePasswordLink",
  audience: "admin",
  method: "POST",
  path: "/people/:id/link",
  params: BY_ID,
  success: 201,
  run: ({ act, core, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      const { link, expiresAt } = people.inviteUser(core, tx, id, by);
      return { link, expiresAt: toIsoTime(expiresAt) };
    }),
});

/** Passwords and second factors of others are for admins in the app, and the operator. */
export const addPersonWithPassword = defineAppOperation({
  name: "addPersonWithPassword",
  audience: "admin",
  method: "POST",
  path: "/people/with-password",
  body: strictBody({ ...NEW_PERSON, password: t.String() }),
  success: 201,
  async run({ act, core, requireConfirmed }, { body: { password, mailbox: ownMailbox = true, ...given } }) {
    const passwordHash = await hashNewPassword(password);
    return act((tx, { workspaceId, userId: by }) => {
      requireConfirmed(tx);
      const { userId } = people.addUser(core, tx, { ...given, workspaceId, ownMailbox, passwordHash }, by);
      return personView(people.getUserById(core, workspaceId, userId));
    });
  },
});

/** Ends the person's sessions and app passwords, and their API keys unless `keepKeys`. */
export const setPersonPassword = defineAppOperation({
  name: "setPersonPassword",
  audience: "admin",
  method: "POST",
  path: "/people/:id/password",
  params: BY_ID,
  body: strictBody({ password: t.String(), keepKeys: t.Optional(t.Boolean()) }),
  async run({ act, caller, core, requireConfirmed }, { params: { id }, body: { password, keepKeys } }) {
    people.getUserById(core, caller.workspaceId, id);
    const passwordHash = await hashNewPassword(password);
    return act((tx, { workspaceId, userId: by }) => {
      requireConfirmed(tx);
      people.getUserById(core, workspaceId, id);
      people.replacePassword(core, tx, id, { passwordHash, keepKeys }, by);
      return personView(people.getUserById(core, workspaceId, id));
    });
  },
});

/** Removes the second factor of a person who lost it. */
export const resetSecondFactor = defineAppOperation({
  name: "resetSecondFactor",
  audience: "admin",
  method: "DELETE",
  path: "/people/:id/second-factor",
  params: BY_ID,
  run: ({ act, core, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.getUserById(core, workspaceId, id);
      requireConfirmed(tx);
      people.resetSecondFactor(core, tx, id, by);
    }),
});
