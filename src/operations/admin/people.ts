/** People of a workspace (rules: Administered people). admin/people.ts decides who may change whom. */
import { ROLES, type UserEntry } from "../../admin/people.ts";
import { oneOf, type Static, t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, pageOf, readAmong } from "../page.ts";
import { dateTime, email } from "../schemas.ts";
import { BY_ID, bodyOf, DONE, Done, isoOf, READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const WHO_MAY = "Owners are made, changed and removed by owners, and nobody changes themselves (403).";

const Person = t.Object(
  {
    id: t.String(),
    email: email({ description: "What they sign in with" }),
    name: t.String(),
    role: oneOf(ROLES),
    canSignIn: t.Boolean({ description: "False without a password" }),
    secondFactor: t.Boolean({ description: "Whether their password alone lets nobody in" }),
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
  run({ caller: { workspaceId }, people }, { query }) {
    const positionOf = ({ createdAt, id }: UserEntry) => ({ at: createdAt, id });
    const read = readAmong(people.listUsers(workspaceId), positionOf, "oldest first");
    const { page, nextCursor: next } = pageOf({ query: "people", positionOf, read }, query);
    return { people: page.map(personView), nextCursor: next };
  },
});

export const addPerson = operation({
  name: "addPerson",
  group: "People",
  audience: "admin",
  method: "POST",
  path: "/people",
  scope: "admin",
  summary: "Add a person, with a mailbox of their own",
  description: `Without a password they cannot sign in until somebody gives them one in the app or at the command line. ${WHO_MAY}`,
  body: bodyOf({
    email: email({ description: "What they sign in with" }),
    name: t.String(),
    role: oneOf(ROLES),
    mailbox: t.Optional(
      t.Boolean({
        description:
          "Whether they get a mailbox at that address; true unless given. Without one, the address may be anywhere",
      }),
    ),
  }),
  example: { body: { email: "ben@example.com", name: "Ben Weber", role: "member" } },
  idempotent: true,
  success: 201,
  response: t.Object({
    ...Person.properties,
    mailboxId: t.Optional(t.String({ description: "Of the mailbox that was made for them" })),
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
  group: "People",
  audience: "admin",
  method: "PATCH",
  path: "/people/:id",
  scope: "admin",
  summary: "Change the name or the role of a person",
  description: `A workspace keeps an owner: the last one's role cannot be changed (409). ${WHO_MAY}`,
  params: BY_ID,
  body: bodyOf({ name: t.Optional(t.String()), role: t.Optional(oneOf(ROLES)) }, { minProperties: 1 }),
  example: { body: { role: "admin" } },
  success: 200,
  response: Person,
  errors: WRITE_ERRORS,
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
