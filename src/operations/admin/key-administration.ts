/** API keys of a workspace (rules: Keys over the API). */
import type { Caller } from "../../access/caller.ts";
import { getAllKeysPausedSince, mayDescendFromKey } from "../../access/credentials.ts";
import type { KeyRecord } from "../../admin/developers.ts";
import * as developers from "../../admin/developers.ts";
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
import { readTimeField, toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { OTHERWISE, SCOPES, type Scope, SEND_MODES, type Policy as StoredPolicy } from "../../store/schema.ts";
import type { Db } from "../../store/store.ts";
import { defineOperationCommand, type Shown } from "../command-line.ts";
import { defineAppOperation, defineOperation } from "../operation.ts";
import { createListReader, nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { compileShapeCheck } from "../shape.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { getPersonByIdOrAddress, READ_ERRORS, WRITE_ERRORS } from "./common.ts";

/** Limits on the lists and counts of a policy. */
const MOST_ENTRIES = 1_000;
const MOST_COUNTED = 1_000_000;

export const KeyPolicy = t.Object(
  {
    mailboxes: t.Optional(
      t.Array(filledStringSchema(), {
        maxItems: MOST_ENTRIES,
        description: "Ids or addresses; others do not exist for the key",
      }),
    ),
    recipients: t.Optional(
      t.Array(filledStringSchema(), {
        maxItems: MOST_ENTRIES,
        description:
          "Whom it may write to: addresses, `@domain`, `thread` (who took part in the conversation), `workspace` (its verified domains), `known` (whom the mailbox has sent to)",
      }),
    ),
    otherwise: t.Optional(stringEnum(OTHERWISE, { description: "For other recipients; `refuse` when left out" })),
    send: t.Optional(stringEnum(SEND_MODES, { description: "`hold`: a person approves everything" })),
    recipientsPerDay: t.Optional(t.Integer({ minimum: 0, maximum: MOST_COUNTED })),
    changesPerHour: t.Optional(t.Integer({ minimum: 0, maximum: MOST_COUNTED })),
    expiresAt: t.Optional(dateTimeSchema({ description: "From then on the key is not valid" })),
    networks: t.Optional(
      t.Array(filledStringSchema(), { maxItems: MOST_ENTRIES, description: "CIDRs from which it may be used" }),
    ),
    codes: t.Optional(
      t.Boolean({ description: "false: what looks like a one-time code or a sign-in link is masked in every read" }),
    ),
  },
  { $id: "KeyPolicy", additionalProperties: false, description: "What is left out restricts nothing" },
);

const fields = {
  id: t.String(),
  name: t.String(),
  userId: t.String({ description: "The person it acts for" }),
  user: emailSchema({ description: "Their sign-in name" }),
  scopes: t.Array(stringEnum(SCOPES)),
  hint: t.String({ description: "The first characters of the key" }),
  createdAt: dateTimeSchema(),
  lastUsedAt: nullable(dateTimeSchema(), { description: "To the minute; null if it was never used" }),
  revokedAt: nullable(dateTimeSchema(), { description: "null while it is valid" }),
  policy: KeyPolicy,
  paused: t.Boolean({ description: "Paused by itself: it answers 403 until it is resumed" }),
  client: nullable(
    t.Object({
      id: t.String(),
      name: t.String({ description: "What it says it is called" }),
      host: t.String({ description: "Where its document is, or where its answer went" }),
    }),
    { description: "Of a grant, the program that a person let in over OAuth; else null" },
  ),
};
const ApiKey = t.Object(fields, { $id: "ApiKey" });
const NewApiKey = t.Object(
  { ...fields, key: t.Optional(t.String({ description: "The key itself: shown here once, and not in a replay" })) },
  { $id: "NewApiKey" },
);

/** Keys and webhooks that an ended key made, and that work without it. */
export const goesOn = t.Optional(
  t.Array(
    t.Object({
      kind: stringEnum(["key", "webhook"]),
      id: t.String(),
      name: t.String({ description: "Of a webhook, its URL" }),
    }),
    { description: "What the key, or a key that it made, made, and works still; left out where there is nothing" },
  ),
);

const Revoked = t.Object({ ...Done.properties, goesOn }, { $id: "RevokedKey" });

export type KeyView = Static<typeof ApiKey>;

/** A key as it is shown. */
export const keyView = (record: KeyRecord): KeyView => {
  const {
    id,
    name,
    userId,
    userEmail: user,
    scopes,
    hint,
    createdAt,
    lastUsedAt,
    revokedAt,
    policy,
    pausedAt,
    client,
  } = record;
  return {
    id,
    name,
    userId,
    user,
    scopes,
    hint,
    createdAt: toIsoTime(createdAt),
    lastUsedAt: toIsoTimeOrNull(lastUsedAt),
    revokedAt: toIsoTimeOrNull(revokedAt),
    policy,
    paused: pausedAt !== null,
    client,
  };
};

/** A key as the command line shows it. */
export const describeKeyForCommand = (
  { id, name, user, scopes, hint, ...rest }: KeyView,
  { workspace }: Pick<Shown, "workspace">,
) => ({
  id,
  name,
  user,
  scopes,
  hint,
  state: rest.revokedAt !== null ? "revoked" : rest.paused ? "paused" : "active",
  ...rest,
  workspace,
});

/** A policy with its time read. @throws AppError bad_request */
const timed = (policy: Static<typeof KeyPolicy>): Static<typeof KeyPolicy> => ({
  ...policy,
  ...(policy.expiresAt !== undefined && { expiresAt: toIsoTime(readTimeField("policy.expiresAt", policy.expiresAt)) }),
});

const checkPolicy = compileShapeCheck(KeyPolicy);

/** Reads a policy that was given elsewhere than in a request. @throws AppError bad_request */
export function readKeyPolicy(given: unknown): StoredPolicy {
  checkPolicy(given);
  return timed(given as Static<typeof KeyPolicy>);
}

const rowPosition = ({ createdAt, id }: KeyRecord) => ({ at: createdAt, id });

/** @throws AppError forbidden unless the key is the caller's own, or of somebody whom they administer */
function requireMayChange({ userId, role }: Caller, { userId: holderId, userRole }: KeyRecord): void {
  if (holderId === userId || role === "owner" || userRole === "member") return;
  throw new AppError("forbidden", "Only an owner may do that: an admin changes their own keys and those of members");
}

/** True if the caller has the scope, and may give it: only a person gives a key the right to approve. */
const mayGive = ({ scopes, keyId }: Caller, scope: Scope): boolean =>
  scopes.has(scope) && (scope !== "approve" || keyId === undefined);

const common = { group: "API keys", audience: "admin", scope: "admin" } as const;

export const listKeys = defineOperation({
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
    defineOperationCommand({
      name: "key list",
      summary: "List the API keys",
      columns: ["id", "name", "user", "scopes", "hint", "state", "lastUsedAt", "workspace"],
      document: describeKeyForCommand,
    }),
  ],
  run({ caller, core }, { query }) {
    const read = createListReader(developers.listKeys(core, caller.workspaceId), rowPosition, "newest first");
    const { page, nextCursor: next } = readListPage({ query: "keys", rowPosition, read }, query);
    return { keys: page.map((key) => keyView(developers.showKeyToCaller(core.db, caller, key))), nextCursor: next };
  },
});

export const createKey = defineOperation({
  ...common,
  name: "createKey",
  method: "POST",
  path: "/keys",
  summary: "Create an API key",
  description:
    "It acts for yourself or for a member. Its scopes are at most those of the key that asks, without `approve`, and its policy is at least as narrow. `admin` is for yourself alone.",
  body: strictBody({
    name: filledStringSchema({ maxLength: 120 }),
    scopes: t.Array(stringEnum(SCOPES), { minItems: 1, maxItems: SCOPES.length }),
    policy: t.Optional(KeyPolicy),
    user: t.Optional(
      filledStringSchema({ description: "Id or address of the person it acts for; yourself when left out" }),
    ),
  }),
  example: { body: { name: "Invoices", scopes: ["read"] } },
  idempotent: true,
  secrets: ["key"],
  success: 201,
  response: NewApiKey,
  errors: WRITE_ERRORS,
  run: ({ act, person, core, requireConfirmed }, { body: { name, scopes, policy = {}, user } }) =>
    act((tx) => {
      const caller = person(tx);
      requireConfirmed(tx);
      const { workspaceId } = caller;
      const holder = getPersonByIdOrAddress(core, workspaceId, user ?? caller.userId);
      const isOwn = holder.id === caller.userId;
      if (!isOwn && holder.role !== "member") {
        throw new AppError(
          "forbidden",
          "You can create keys for yourself and for members: owners and admins create their own",
        );
      }
      const beyond = scopes.find(
        (scope) => !mayGive(caller, scope) || (!isOwn && (scope === "admin" || scope === "approve")),
      );
      if (beyond !== undefined) {
        throw new AppError("forbidden", `You cannot give this key the scope "${beyond}"`);
      }
      const { keyId: madeBy } = caller;
      const given = {
        userId: holder.id,
        name,
        scopes,
        policy: developers.readPolicy(tx, caller, timed(policy)),
        madeBy,
      };
      if (caller.policy) developers.requirePolicyWithin(tx, workspaceId, given.policy, caller.policy);
      const { id, key } = developers.createKey(core, tx, given, { byAdmin: !isOwn });
      return { ...keyView(developers.getKeyRecord(tx, id, workspaceId)), key };
    }),
});

export const getKey = defineOperation({
  ...common,
  name: "getKey",
  method: "GET",
  path: "/keys/:id",
  summary: "Get an API key, without the key itself",
  params: BY_ID,
  success: 200,
  response: ApiKey,
  errors: READ_ERRORS,
  run: ({ core, caller }, { params: { id } }) =>
    keyView(developers.showKeyToCaller(core.db, caller, developers.getKeyRecord(core.db, id, caller.workspaceId))),
});

export const changeKey = defineOperation({
  ...common,
  name: "changeKey",
  method: "PATCH",
  path: "/keys/:id",
  summary: "Rename, restrict, pause or resume an API key",
  description:
    "`policy` replaces the whole policy: at least as narrow as that of the key that asks and, for the key of somebody else, as the one before.",
  params: BY_ID,
  body: strictBody(
    {
      name: t.Optional(filledStringSchema({ maxLength: 120 })),
      policy: t.Optional(KeyPolicy),
      paused: t.Optional(t.Boolean()),
    },
    { minProperties: 1 },
  ),
  example: { body: { policy: { recipients: ["thread"], otherwise: "hold" } } },
  success: 200,
  response: ApiKey,
  errors: WRITE_ERRORS,
  run: ({ act, person, core, requireConfirmed }, { params: { id }, body: { policy, ...change } }) =>
    act((tx) => {
      const caller = person(tx);
      const { workspaceId } = caller;
      const key = developers.getKeyRecord(tx, id, workspaceId);
      requireMayChange(caller, key);
      const read = policy && developers.readPolicy(tx, caller, timed(policy));
      let gives = change.paused === false;
      if (read) {
        if (caller.policy) developers.requirePolicyWithin(tx, workspaceId, read, caller.policy);
        const narrows = developers.isPolicyWithin(tx, workspaceId, read, key.policy);
        if (!narrows && key.userId !== caller.userId) {
          throw new AppError("forbidden", "You can restrict the key of somebody else further, but not give it more");
        }
        if (!narrows) requireConfirmed(tx);
        gives ||= !narrows;
        const beyond = !narrows && key.scopes.find((scope) => !mayGive(caller, scope));
        if (beyond) throw new AppError("forbidden", `You cannot give more to a key that has the scope "${beyond}"`);
      }
      if (gives && caller.keyId !== undefined && mayDescendFromKey(tx, caller.keyId, id)) {
        throw new AppError("forbidden", "A key cannot resume, or give more to, the key that made it");
      }
      // What a person has paused comes back with all that it may do.
      if (change.paused === false && caller.policy)
        developers.requirePolicyWithin(tx, workspaceId, key.policy, caller.policy);
      developers.changeKey(core, tx, id, workspaceId, { ...change, ...(read && { policy: read }) });
      return keyView(developers.showKeyToCaller(tx, caller, developers.getKeyRecord(tx, id, workspaceId)));
    }),
});

export const revokeKey = defineOperation({
  ...common,
  name: "revokeKey",
  method: "DELETE",
  path: "/keys/:id",
  summary: "Revoke an API key, at once and for good",
  description: "`goesOn` lists the keys and webhooks that it made: they work without it, until they are ended as well.",
  params: BY_ID,
  success: 200,
  response: Revoked,
  errors: READ_ERRORS,
  run: ({ act, person, core }, { params: { id } }) =>
    act((tx) => {
      const caller = person(tx);
      requireMayChange(caller, developers.getKeyRecord(tx, id, caller.workspaceId));
      developers.revokeKey(core, tx, id, caller.workspaceId);
      const goesOn = developers.listMadeByKey(core, tx, id, caller.workspaceId, caller.policy);
      return goesOn.length === 0 ? DONE : { ...DONE, goesOn };
    }),
});

const pauseView = (db: Db, workspaceId: string) => ({
  /** Since when all keys are paused; null if they are not. */
  since: toIsoTimeOrNull(getAllKeysPausedSince(db, workspaceId)),
});

/** The switch over all keys of the workspace. */
export const getKeyPause = defineAppOperation({
  name: "getKeyPause",
  audience: "admin",
  method: "GET",
  path: "/key-pause",
  run: ({ core, caller: { workspaceId } }) => pauseView(core.db, workspaceId),
});

export const setKeyPause = defineAppOperation({
  name: "setKeyPause",
  audience: "admin",
  method: "PATCH",
  path: "/key-pause",
  body: strictBody({ paused: t.Boolean() }),
  run: ({ act, core }, { body: { paused } }) =>
    act((tx, { workspaceId }) => {
      developers.pauseAllKeys(core, tx, workspaceId, paused);
      return pauseView(tx, workspaceId);
    }),
});
