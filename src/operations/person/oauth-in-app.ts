/** How a person answers a program that asks to be let in (rules: OAuth). */
import { type Caller, findPersonAsCaller, findReachableMailboxes } from "../../access/caller.ts";
import { listApiKeys, revokeApiKey } from "../../access/credentials.ts";
import { normalizeKeyPolicy } from "../../access/policy.ts";
import { AppError } from "../../base/errors.ts";
import { stringEnum, t } from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { resolveMailboxId } from "../../mailbox/state/mailboxes.ts";
import { SCOPES } from "../../store/schema.ts";
import type { Db } from "../../store/store.ts";
import { KeyPolicy, readKeyPolicy } from "../admin/key-administration.ts";
import { defineAppOperation, type PersonContext } from "../operation.ts";
import { BY_ID } from "../shared-schemas.ts";

const answering = ({ session, caller }: Pick<PersonContext, "session" | "caller">) => ({
  sessionId: session.id,
  caller,
});

/** `query`: of the URL that the program opened in the browser. */
export const openAuthorization = defineAppOperation({
  name: "openAuthorization",
  audience: "person",
  method: "POST",
  path: "/oauth/requests",
  body: t.Object({ query: t.String({ maxLength: 16_384 }) }),
  run: (context, { body: { query } }) => context.oauth.open(answering(context), query),
});

/** `lasts`: its access lasts longer, since the program does not renew it. */
export const approveAuthorization = defineAppOperation({
  name: "approveAuthorization",
  audience: "person",
  method: "POST",
  path: "/oauth/requests/:id/approve",
  params: BY_ID,
  body: t.Object({
    scopes: t.Array(stringEnum(SCOPES), { maxItems: SCOPES.length }),
    policy: KeyPolicy,
    lasts: t.Optional(t.Boolean()),
  }),
  run(context, { params: { id }, body: { lasts = false, ...chosen } }) {
    const { core, oauth, requireConfirmed } = context;
    return core.store.transact((tx) => {
      requireConfirmed(tx);
      const caller = findPersonAsCaller(tx, context.caller.userId);
      if (!caller) throw new AppError("unauthorized", "Sign in to continue");
      const reached = findReachableMailboxes(tx, caller);
      const policy = normalizeKeyPolicy(readKeyPolicy(chosen.policy), (named) => {
        const mailbox = reached.get(resolveMailboxId(tx, caller, named))?.mailbox;
        return named === mailbox?.id ? named : mailbox?.address;
      });
      const given = { scopes: chosen.scopes, policy, lasts };
      return { returnTo: oauth.approve(tx, { ...answering(context), caller }, id, given) };
    });
  },
});

export const denyAuthorization = defineAppOperation({
  name: "denyAuthorization",
  audience: "person",
  method: "POST",
  path: "/oauth/requests/:id/deny",
  params: BY_ID,
  run: (context, { params: { id } }) => ({ returnTo: context.oauth.deny(answering(context), id) }),
});

/** The person's live grants. */
const listLiveGrants = (db: Db, { workspaceId, userId }: Caller) =>
  listApiKeys(db, workspaceId).flatMap(({ client, revokedAt, ...key }) =>
    client && revokedAt === null && key.userId === userId ? [{ ...key, client }] : [],
  );

/** Newest first: also for members, who do not see the settings of keys. */
export const listGrants = defineAppOperation({
  name: "listGrants",
  audience: "person",
  method: "GET",
  path: "/oauth/grants",
  run: ({ core, caller }) => ({
    grants: listLiveGrants(core.db, caller).map(({ id, client, scopes, policy, createdAt, lastUsedAt }) => ({
      id,
      client,
      scopes,
      policy,
      createdAt: toIsoTime(createdAt),
      lastUsedAt: toIsoTimeOrNull(lastUsedAt),
    })),
  }),
});

export const revokeGrant = defineAppOperation({
  name: "revokeGrant",
  audience: "person",
  method: "DELETE",
  path: "/oauth/grants/:id",
  params: BY_ID,
  run({ core, caller }, { params: { id } }) {
    core.store.transact((tx) => {
      if (!listLiveGrants(tx, caller).some((grant) => grant.id === id)) {
        throw new AppError("not_found", "You have given no such program access");
      }
      revokeApiKey(tx, id, core.now());
    });
  },
});
