/** API keys of a workspace (rules: Keys over the API). */
import type { Caller } from "../../access/caller.ts";
import type { KeyRecord } from "../../admin/developers.ts";
import { AppError } from "../../base/errors.ts";
import { SCOPES } from "../../store/schema.ts";
import { asCommand, type Shown } from "../command.ts";
import { filled, oneOf, type Static, t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { nextCursor, PAGE_QUERY, pageOf, readAmong } from "../page.ts";
import { BY_ID, DONE, Done, dateTime, email, isoOf, maybeIsoOf, nullable, strictBody } from "../schemas.ts";
import { personNamed, READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const fields = {
  id: t.String(),
  name: t.String(),
  userId: t.String({ description: "The person it acts for" }),
  user: email({ description: "Their sign-in name" }),
  scopes: t.Array(oneOf(SCOPES)),
  hint: t.String({ description: "The first characters of the key" }),
  createdAt: dateTime(),
  lastUsedAt: nullable(dateTime(), { description: "To the minute; null if it was never used" }),
  revokedAt: nullable(dateTime(), { description: "null while it is valid" }),
};
const ApiKey = t.Object(fields, { $id: "ApiKey" });
const NewApiKey = t.Object(
  { ...fields, key: t.Optional(t.String({ description: "The key itself: shown here once, and not in a replay" })) },
  { $id: "NewApiKey" },
);

export type KeyView = Static<typeof ApiKey>;

const shown = (record: KeyRecord): KeyView => {
  const { id, name, userId, userEmail: user, scopes, hint, createdAt, lastUsedAt, revokedAt } = record;
  return {
    id,
    name,
    userId,
    user,
    scopes,
    hint,
    createdAt: isoOf(createdAt),
    lastUsedAt: maybeIsoOf(lastUsedAt),
    revokedAt: maybeIsoOf(revokedAt),
  };
};

/** A key as the command line shows it. */
const keyDocument = ({ id, name, user, scopes, hint, ...rest }: KeyView, { workspace }: Shown) => ({
  id,
  name,
  user,
  scopes,
  hint,
  state: rest.revokedAt === null ? "active" : "revoked",
  ...rest,
  workspace,
});

const positionOf = ({ createdAt, id }: KeyRecord) => ({ at: createdAt, id });

/** @throws AppError forbidden unless the key is the caller's own, or of somebody whom they administer */
function requireMayChange({ userId, role }: Caller, { userId: holderId, userRole }: KeyRecord): void {
  if (holderId === userId || role === "owner" || userRole === "member") return;
  throw new AppError("forbidden", "That takes an owner: an admin changes their own keys and those of members");
}

const common = { group: "API keys", audience: "admin", scope: "admin" } as const;

export const listKeys = operation({
  ...common,
  name: "listKeys",
  method: "GET",
  path: "/keys",
  summary: "List the API keys, newest first, revoked ones too",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ keys: t.Array(ApiKey), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    asCommand({
      name: "key list",
      summary: "List the API keys",
      columns: ["id", "name", "user", "scopes", "hint", "state", "lastUsedAt", "workspace"],
      document: keyDocument,
    }),
  ],
  run({ caller: { workspaceId }, developers }, { query }) {
    const read = readAmong(developers.listKeys(workspaceId), positionOf, "newest first");
    const { page, nextCursor: next } = pageOf({ query: "keys", positionOf, read }, query);
    return { keys: page.map(shown), nextCursor: next };
  },
});

export const createKey = operation({
  ...common,
  name: "createKey",
  method: "POST",
  path: "/keys",
  summary: "Create an API key",
  description:
    "It acts for yourself or for a member, and its scopes are at most those of the key that asks. `admin` is for yourself alone.",
  body: strictBody({
    name: filled({ maxLength: 120 }),
    scopes: t.Array(oneOf(SCOPES), { minItems: 1, maxItems: SCOPES.length }),
    user: t.Optional(filled({ description: "Id or address of the person it acts for; yourself when left out" })),
  }),
  example: { body: { name: "Invoices", scopes: ["read"] } },
  idempotent: true,
  secrets: ["key"],
  success: 201,
  response: NewApiKey,
  errors: WRITE_ERRORS,
  run: ({ act, person, developers, people, requireConfirmed }, { body: { name, scopes, user } }) =>
    act((tx) => {
      const caller = person(tx);
      requireConfirmed(tx);
      const { workspaceId } = caller;
      const holder = personNamed(people, workspaceId, user ?? caller.userId);
      const isOwn = holder.id === caller.userId;
      if (!isOwn && holder.role !== "member") {
        throw new AppError("forbidden", "A key acts for yourself or for a member: others create their own");
      }
      const beyond = scopes.find((scope) => !caller.scopes.has(scope) || (scope === "admin" && !isOwn));
      if (beyond !== undefined) {
        throw new AppError("forbidden", `You cannot give this key the scope "${beyond}"`);
      }
      const { id, key } = developers.createKey(tx, { userId: holder.id, name, scopes }, { byAdmin: !isOwn });
      return { ...shown(developers.keyOf(tx, id, workspaceId)), key };
    }),
});

export const getKey = operation({
  ...common,
  name: "getKey",
  method: "GET",
  path: "/keys/:id",
  summary: "Get an API key, without the key itself",
  params: BY_ID,
  success: 200,
  response: ApiKey,
  errors: READ_ERRORS,
  run: ({ caller: { workspaceId }, store, developers }, { params: { id } }) =>
    shown(developers.keyOf(store.db, id, workspaceId)),
});

export const renameKey = operation({
  ...common,
  name: "renameKey",
  method: "PATCH",
  path: "/keys/:id",
  summary: "Rename an API key",
  params: BY_ID,
  body: strictBody({ name: filled({ maxLength: 120 }) }),
  example: { body: { name: "Invoices, read only" } },
  success: 200,
  response: ApiKey,
  errors: WRITE_ERRORS,
  run: ({ act, person, developers }, { params: { id }, body: { name } }) =>
    act((tx) => {
      const caller = person(tx);
      requireMayChange(caller, developers.keyOf(tx, id, caller.workspaceId));
      developers.renameKey(tx, id, caller.workspaceId, name);
      return shown(developers.keyOf(tx, id, caller.workspaceId));
    }),
});

export const revokeKey = operation({
  ...common,
  name: "revokeKey",
  method: "DELETE",
  path: "/keys/:id",
  summary: "Revoke an API key, at once and for good",
  params: BY_ID,
  success: 200,
  response: Done,
  errors: READ_ERRORS,
  run: ({ act, person, developers }, { params: { id } }) =>
    act((tx) => {
      const caller = person(tx);
      requireMayChange(caller, developers.keyOf(tx, id, caller.workspaceId));
      developers.revokeKey(tx, id, caller.workspaceId);
      return DONE;
    }),
});
