/**
 * Grants: keys that a person gives to a program, which uses them with tokens. The only writer of oauth_grants and
 * oauth_tokens, where codes and tokens stand as hashes.
 *
 * Invariant: a code or a refresh token works once. One that comes again was copied, by its program or from it, so the grant
 * ends, and with it whatever came of that code or token.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { and, eq, gt, isNull, lte, notExists, sql } from "drizzle-orm";
import {
  ACCESS_TOKEN_PREFIX,
  createApiKey,
  deleteApiKey,
  hashCredential,
  revokeApiKey,
} from "../access/credentials.ts";
import { isKeyPolicyExpired } from "../access/policy.ts";
import { randomToken } from "../base/runtime.ts";
import type { Core } from "../store/core.ts";
import { apiKeys, oauthGrants, oauthTokens, type Policy, type Scope, type TOKEN_KINDS } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { OAuthError } from "./error.ts";

/** 256 bits. */
const LENGTH = 43;
const REFRESH_TOKEN_PREFIX = "mrr_";
const DAY_MS = 86_400_000;
const CODE_MS = 60_000;
export const ACCESS_MS = 3_600_000;
/** Lifetime of the access of a program that does not renew it. */
export const LASTING_ACCESS_MS = 30 * DAY_MS;
/** Lifetime of a refresh token; each renewal gives a new one. */
const REFRESH_MS = 90 * DAY_MS;
/** The latest tokens of a grant that are kept: far more than one program has in use. */
const MOST_KEPT: Record<(typeof TOKEN_KINDS)[number], number> = { access: 20, refresh: 1_000 };
/** Grants that one transaction of the sweep ends. */
const SWEPT_AT_ONCE = 200;

/** The success of RFC 6749 §5.1. */
export interface Tokens {
  access_token: string;
  token_type: "Bearer";
  expires_in: number;
  refresh_token: string;
  scope: string;
}

export interface NewGrant {
  userId: string;
  client: { id: string; name: string; host: string };
  scopes: readonly Scope[];
  policy: Policy;
  resource: string;
  /** Redirect URI as the request gave it; undefined if it gave none. */
  redirectUri: string | undefined;
  /** Code challenge of the method S256 (RFC 7636 §4.2). */
  challenge: string;
  accessMs: number;
}

const isExpected = (given: string, expected: string): boolean =>
  given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected));

/** The columns of a grant and its key. */
const GRANT = {
  keyId: oauthGrants.keyId,
  clientId: oauthGrants.clientId,
  resource: oauthGrants.resource,
  accessMs: oauthGrants.accessMs,
  redirectUri: oauthGrants.redirectUri,
  challenge: oauthGrants.challenge,
  codeExpiresAt: oauthGrants.codeExpiresAt,
  codeUsedAt: oauthGrants.codeUsedAt,
  scopes: apiKeys.scopes,
  policy: apiKeys.policy,
  revokedAt: apiKeys.revokedAt,
};

const refusal = (why: string) => new OAuthError("invalid_grant", why);
const ENDED = "the grant has ended: ask the person again";
const UNKNOWN = "this is no code or token of this program, or it has expired";

/** Gives a program its next tokens. */
function issue(
  { runtime }: Core,
  tx: Tx,
  { keyId, accessMs, scopes }: { keyId: string; accessMs: number; scopes: readonly Scope[] },
): Tokens {
  const access = ACCESS_TOKEN_PREFIX + randomToken(runtime, LENGTH);
  const refresh = REFRESH_TOKEN_PREFIX + randomToken(runtime, LENGTH);
  const now = runtime.now();
  tx.insert(oauthTokens)
    .values([
      { hash: hashCredential(access), keyId, kind: "access", expiresAt: now + accessMs },
      { hash: hashCredential(refresh), keyId, kind: "refresh", expiresAt: now + REFRESH_MS },
    ])
    .run();
  for (const kind of ["access", "refresh"] as const) {
    const last = sql`(SELECT seq FROM oauth_tokens WHERE key_id = ${keyId} AND kind = ${kind}
        ORDER BY seq DESC LIMIT 1 OFFSET ${MOST_KEPT[kind]})`;
    tx.delete(oauthTokens)
      .where(and(eq(oauthTokens.keyId, keyId), eq(oauthTokens.kind, kind), sql`${oauthTokens.seq} <= ${last}`))
      .run();
  }
  return {
    access_token: access,
    token_type: "Bearer",
    expires_in: accessMs / 1_000,
    refresh_token: refresh,
    scope: scopes.join(" "),
  };
}

/** Ends a grant because a code or token of it came twice. */
function endCopied({ runtime, log }: Core, tx: Tx, keyId: string): OAuthError {
  revokeApiKey(tx, keyId, runtime.now());
  log.warn("a code or token of a grant came twice: the grant has ended", { keyId });
  return refusal("this was used before, so the grant has ended: ask the person again");
}

/** Why tokens cannot be given for a grant; undefined if they can. */
function findGrantFault(
  { runtime }: Core,
  {
    clientId,
    resource,
    revokedAt,
    policy,
  }: Pick<typeof oauthGrants.$inferSelect, "clientId" | "resource"> & {
    revokedAt: number | null;
    policy: Policy;
  },
  asked: { clientId: string; resources: readonly string[] },
): OAuthError | undefined {
  if (clientId !== asked.clientId) return refusal(UNKNOWN);
  if (revokedAt !== null || isKeyPolicyExpired(policy, runtime.now())) return refusal(ENDED);
  if (asked.resources.some((uri) => uri !== resource)) {
    return new OAuthError("invalid_target", "the grant is for another resource");
  }
  return undefined;
}

/** Makes a grant, and the code for its first tokens, which is returned only here. */
export function createGrant(
  { runtime }: Core,
  tx: Tx,
  { userId, client, scopes, policy, ...given }: NewGrant,
): { keyId: string; code: string } {
  const { id: keyId } = createApiKey(tx, runtime, { userId, name: client.name, scopes, policy, hint: "OAuth" });
  const code = randomToken(runtime, LENGTH);
  tx.insert(oauthGrants)
    .values({
      ...given,
      keyId,
      clientId: client.id,
      clientName: client.name,
      clientHost: client.host,
      codeHash: hashCredential(code),
      codeExpiresAt: runtime.now() + CODE_MS,
    })
    .run();
  return { keyId, code };
}

/**
 * Exchanges a code. A refusal is returned, not thrown, since the end of a grant has to commit with it.
 */
export function exchangeCode(
  core: Core,
  tx: Tx,
  asked: {
    code: string;
    clientId: string;
    redirectUri: string | undefined;
    verifier: string;
    resources: readonly string[];
  },
): Tokens | OAuthError {
  const grant = tx
    .select(GRANT)
    .from(oauthGrants)
    .innerJoin(apiKeys, eq(apiKeys.id, oauthGrants.keyId))
    .where(eq(oauthGrants.codeHash, hashCredential(asked.code)))
    .get();
  if (!grant) return refusal(UNKNOWN);
  if (grant.codeUsedAt !== null) return endCopied(core, tx, grant.keyId);
  const now = core.runtime.now();
  if (grant.codeExpiresAt <= now) return refusal(UNKNOWN);
  const fault = findGrantFault(core, grant, asked);
  if (fault) return fault;
  if (grant.redirectUri !== null && grant.redirectUri !== asked.redirectUri) {
    return refusal("redirect_uri is not the one that the code was sent to");
  }
  if (!isExpected(createHash("sha256").update(asked.verifier).digest("base64url"), grant.challenge)) {
    return refusal("code_verifier does not belong to code_challenge");
  }
  tx.update(oauthGrants).set({ codeUsedAt: now }).where(eq(oauthGrants.keyId, grant.keyId)).run();
  return issue(core, tx, grant);
}

/** Exchanges a refresh token, as `exchange` does a code. `scopes`: those asked for, if any. */
export function exchangeRefreshToken(
  core: Core,
  tx: Tx,
  asked: { token: string; clientId: string; scopes: readonly string[]; resources: readonly string[] },
): Tokens | OAuthError {
  const found = tx
    .select({ ...GRANT, seq: oauthTokens.seq, expiresAt: oauthTokens.expiresAt, usedAt: oauthTokens.usedAt })
    .from(oauthTokens)
    .innerJoin(oauthGrants, eq(oauthGrants.keyId, oauthTokens.keyId))
    .innerJoin(apiKeys, eq(apiKeys.id, oauthGrants.keyId))
    .where(and(eq(oauthTokens.hash, hashCredential(asked.token)), eq(oauthTokens.kind, "refresh")))
    .get();
  if (!found) return refusal(UNKNOWN);
  if (found.usedAt !== null) return endCopied(core, tx, found.keyId);
  const now = core.runtime.now();
  if (found.expiresAt <= now) return refusal(UNKNOWN);
  const fault = findGrantFault(core, found, asked);
  if (fault) return fault;
  if (!asked.scopes.every((scope) => found.scopes.some((given) => given === scope))) {
    return new OAuthError("invalid_scope", "the grant has fewer scopes");
  }
  tx.update(oauthTokens).set({ usedAt: now }).where(eq(oauthTokens.seq, found.seq)).run();
  return issue(core, tx, found);
}

/**
 * Revokes a token (RFC 7009): an access token alone, a refresh token with its grant. False for one that does not
 * exist. @throws OAuthError invalid_grant for another program's
 */
export function revokeToken(
  { runtime }: Core,
  tx: Tx,
  { token, clientId }: { token: string; clientId: string },
): boolean {
  const found = tx
    .select({
      seq: oauthTokens.seq,
      kind: oauthTokens.kind,
      keyId: oauthTokens.keyId,
      clientId: oauthGrants.clientId,
    })
    .from(oauthTokens)
    .innerJoin(oauthGrants, eq(oauthGrants.keyId, oauthTokens.keyId))
    .where(eq(oauthTokens.hash, hashCredential(token)))
    .get();
  if (!found) return false;
  if (found.clientId !== clientId) throw refusal("this token is another program's");
  if (found.kind === "access") tx.delete(oauthTokens).where(eq(oauthTokens.seq, found.seq)).run();
  else revokeApiKey(tx, found.keyId, runtime.now());
  return true;
}

/**
 * Forgets expired tokens and those of ended grants, discards grants whose code nobody came for, and ends those that
 * have no token left. True if there may be more to do.
 */
export function sweepGrants(tx: Tx, now: number): boolean {
  const ended = tx
    .select({ keyId: oauthGrants.keyId })
    .from(oauthGrants)
    .innerJoin(apiKeys, eq(apiKeys.id, oauthGrants.keyId))
    .where(sql`${apiKeys.revokedAt} IS NOT NULL`);
  tx.delete(oauthTokens).where(sql`${oauthTokens.expiresAt} <= ${now} OR ${oauthTokens.keyId} IN ${ended}`).run();
  const unused = tx
    .select({ keyId: oauthGrants.keyId })
    .from(oauthGrants)
    .where(and(isNull(oauthGrants.codeUsedAt), lte(oauthGrants.codeExpiresAt, now)))
    .limit(SWEPT_AT_ONCE)
    .all();
  for (const { keyId } of unused) deleteApiKey(tx, keyId);
  const tokens = tx
    .select({ one: sql`1` })
    .from(oauthTokens)
    .where(and(eq(oauthTokens.keyId, oauthGrants.keyId), gt(oauthTokens.expiresAt, now), isNull(oauthTokens.usedAt)));
  const idle = tx
    .select({ keyId: oauthGrants.keyId })
    .from(oauthGrants)
    .innerJoin(apiKeys, eq(apiKeys.id, oauthGrants.keyId))
    .where(and(isNull(apiKeys.revokedAt), sql`${oauthGrants.codeUsedAt} IS NOT NULL`, notExists(tokens)))
    .limit(SWEPT_AT_ONCE)
    .all();
  for (const { keyId } of idle) revokeApiKey(tx, keyId, now);
  return unused.length === SWEPT_AT_ONCE || idle.length === SWEPT_AT_ONCE;
}
