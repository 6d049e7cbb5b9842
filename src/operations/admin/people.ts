/** People of a workspace (rules: Administered people). admin/people.ts decides who may change whom. */
import { hashPassword, ROLES, type UserEntry } from "../../admin/people.ts";
import { asCommand, type Shown } from "../command.ts";
import { filled, oneOf, type Static, t } from "../json-schema.ts";
import { appOperation, operation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, pageOf } from "../page.ts";
import { BY_ID, DONE, Done, dateTime, email, isoOf, strictBody } from "../schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const WHO_MAY = "Owners are made, changed and removed by owners, and nobody changes themselves (403).";

const Person = t.Object(
  {
    id: t.String(),
    email: email({ description: "The address they sign in with" }),
    name: t.String(),
    role: oneOf(ROLES),
    canSignIn: t.Boolean({ description: "False while they have no password" }),
    secondFactor: t.Boolean({ description: "Signing in takes a code beside the password" }),
    createdAt: dateTime(),
  },
  { $id: "Person" },
);

export type PersonView = Static<typeof Person>;

/** Presents a person. */
export const personView = ({ workspaceId: _, createdAt, ...rest }: UserEntry): PersonView => ({
  ...rest,
  createdAt: isoOf(createdAt),
});

/** A person as the command line shows them. */
export const personDocument = (
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

export const listPeople = operation({
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
    asCommand({
      name: "user list",
      summary: "List the people",
      columns: ["id", "address", "name", "role", "workspace"],
      sortBy: ["address"],
      document: personDocument,
    }),
  ],
  run({ caller: { workspaceId }, people }, { query }) {
    const positionOf = ({ createdAt, id }: UserEntry) => ({ at: createdAt, id });
    const { page, nextCursor: next } = pageOf(
      { query: "people", positionOf, read: (after, limit) => people.listUsers(workspaceId, { after, limit }) },
      query,
    );
    return { people: page.map(personView), nextCursor: next };
  },
});

const NewPerson = strictBody({
  email: email({ description: "The address they sign in with" }),
  name: filled(),
  role: oneOf(ROLES),
  mailbox: t.Optional(
    t.Boolean({
      description:
        "Whether they get a mailbox at that address; true unless given. Without one, the address may be anywhere; beside other workspaces it has to be at a verified domain of this one",
    }),
  ),
});

export const addPerson = operation({
  name: "addPerson",
  whole: true,
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people",
  scope: "admin",
  summary: "Add a person, with a mailbox of their own",
  description: `Without a password they cannot sign in until somebody gives them one in the app or at the command line. ${WHO_MAY}`,
  body: NewPerson,
  example: { body: { email: "carla@example.com", name: "Carla Weber", role: "member" } },
  idempotent: true,
  success: 201,
  response: t.Object({
    ...Person.properties,
    mailboxId: t.Optional(t.String({ description: "Id of the mailbox that was made for them" })),
  }),
  errors: WRITE_ERRORS,
  run: ({ act, people, requireConfirmed }, { body: { email: address, name, role, mailbox: ownMailbox = true } }) =>
    act((tx, { workspaceId, userId: by }) => {
      requireConfirmed(tx);
      const { userId, mailboxId } = people.addUser(tx, { workspaceId, email: address, name, role, ownMailbox }, by);
      return { ...personView(people.userIn(workspaceId, userId)), ...(mailboxId !== undefined && { mailboxId }) };
    }),
});

export const getPerson = operation({
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
  run: ({ caller: { workspaceId }, people }, { params: { id } }) => personView(people.userIn(workspaceId, id)),
});

export const changePerson = operation({
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
  body: strictBody({ name: t.Optional(filled()), role: t.Optional(oneOf(ROLES)) }, { minProperties: 1 }),
  example: { body: { role: "admin" } },
  success: 200,
  response: Person,
  errors: WRITE_ERRORS,
  commands: [
    asCommand({
      name: "user role",
      summary: "Change the role of a person",
      arguments: { address: "ADDRESS", role: ROLES },
      target: "person",
      input: ({ arguments: { role } }) => ({ body: { role } }),
      document: personDocument,
    }),
  ],
  run: ({ act, people, requireConfirmed }, { params: { id }, body: { name, role } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.userIn(workspaceId, id);
      requireConfirmed(tx);
      if (name !== undefined) people.renameUser(tx, id, name, by);
      if (role !== undefined) people.setRole(tx, id, role, by);
      return personView(people.userIn(workspaceId, id));
    }),
});

export const removePerson = operation({
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
  run: ({ act, people, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.userIn(workspaceId, id);
      requireConfirmed(tx);
      people.removeUser(tx, id, by);
      return DONE;
    }),
});

/** Passwords and second factors of others are for admins in the app, and the operator. */
export const addPersonWithPassword = appOperation({
  name: "addPersonWithPassword",
  audience: "admin",
  method: "POST",
  path: "/people/with-password",
  body: strictBody({ ...NewPerson.properties, password: t.String() }),
  success: 201,
  async run({ act, people, requireConfirmed }, { body: { password, mailbox: ownMailbox = true, ...given } }) {
    const passwordHash = await hashPassword(password);
    return act((tx, { workspaceId, userId: by }) => {
      requireConfirmed(tx);
      const { userId } = people.addUser(tx, { ...given, workspaceId, ownMailbox, passwordHash }, by);
      return personView(people.userIn(workspaceId, userId));
    });
  },
});

/** Ends the person's sessions and app passwords, and their API keys unless `keepKeys`. */
export const setPersonPassword = appOperation({
  name: "setPersonPassword",
  audience: "admin",
  method: "POST",
  path: "/people/:id/password",
  params: BY_ID,
  body: strictBody({ password: t.String(), keepKeys: t.Optional(t.Boolean()) }),
  async run({ act, caller, people, requireConfirmed }, { params: { id }, body: { password, keepKeys } }) {
    people.userIn(caller.workspaceId, id);
    const passwordHash = await hashPassword(password);
    return act((tx, { workspaceId, userId: by }) => {
      requireConfirmed(tx);
      people.userIn(workspaceId, id);
      people.replacePassword(tx, id, { passwordHash, keepKeys }, by);
      return personView(people.userIn(workspaceId, id));
    });
  },
});

/** Removes the second factor of a person who lost it. */
export const resetSecondFactor = appOperation({
  name: "resetSecondFactor",
  audience: "admin",
  method: "DELETE",
  path: "/people/:id/second-factor",
  params: BY_ID,
  run: ({ act, people, requireConfirmed }, { params: { id } }) =>
    act((tx, { workspaceId, userId: by }) => {
      people.userIn(workspaceId, id);
      requireConfirmed(tx);
      people.resetSecondFactor(tx, id, by);
    }),
});
